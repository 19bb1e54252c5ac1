import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import outlive.Wait;

/** The words of a line, and how messages are said. */
final class Line {
    private static final byte[] PERIOD = new byte[251];

    static {
        for (int at = 0; at < PERIOD.length; at++) {
            PERIOD[at] = (byte) at;
        }
    }

    private Line() {}

    static long number(String word) {
        return Long.parseUnsignedLong(word);
    }

    /** Milliseconds, or {@code try}. */
    static Wait until(String word) {
        return word.equals("try") ? Wait.NOT : Wait.upTo(milliseconds(word));
    }

    static Duration milliseconds(String word) {
        return Duration.ofMillis(number(word));
    }

    static boolean has(String[] words, String wanted) {
        return List.of(words).contains(wanted);
    }

    /** The number of KEY=NUMBER, or 0. */
    static long option(String[] words, String key) {
        for (String word : words) {
            if (word.startsWith(key + "=")) {
                return number(word.substring(key.length() + 1));
            }
        }
        return 0;
    }

    /** The milliseconds of KEY=NUMBER, or null. */
    static Duration span(String[] words, String key) {
        long given = option(words, key);
        return given == 0 ? null : Duration.ofMillis(given);
    }

    static byte[] eight(String word) {
        return ByteBuffer.allocate(8).order(ByteOrder.nativeOrder()).putLong(number(word)).array();
    }

    static long eight(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()).getLong();
    }

    static byte[] pattern(int size, long seed) {
        // As a copy: this is most of what a flood does, in code that is interpreted at first.
        byte[] data = new byte[size];
        int first = (int) (seed % 251);
        for (int at = 0; at < size; ) {
            int count = Math.min(251 - first, size - at);
            System.arraycopy(PERIOD, first, data, at, count);
            at += count;
            first = 0;
        }
        return data;
    }

    static boolean isPattern(byte[] data, long seed) {
        return Arrays.equals(data, pattern(data.length, seed));
    }

    static byte[] message(String word) {
        int star = word.indexOf('*');
        return star < 0
                ? word.getBytes(StandardCharsets.UTF_8)
                : pattern((int) number(word.substring(0, star)), number(word.substring(star + 1)));
    }

    static String show(byte[] data) {
        boolean letters = data.length >= 1 && data.length <= 16;
        for (byte letter : data) {
            letters &= letter > 0x20 && letter < 0x7f;
        }
        if (letters) {
            return new String(data, StandardCharsets.US_ASCII);
        }
        int seed = data.length == 0 ? 0 : data[0] & 0xff;
        return data.length + "*" + (isPattern(data, seed) ? Integer.toString(seed) : "broken");
    }

    /** A message that is not what was sent. */
    static Exception wrong(long count, byte[] data) {
        return new Exception("message " + count + " is " + show(data));
    }
}
