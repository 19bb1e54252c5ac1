import java.util.HashMap;
import java.util.Map;
import outlive.Event;
import outlive.Latch;
import outlive.Opening;
import outlive.Semaphore;

/** {@code sem.}, {@code event.} and {@code latch.} */
final class Sync {
    private static final Map<String, Semaphore> SEMAPHORES = new HashMap<>();
    private static final Map<String, Event> EVENTS = new HashMap<>();
    private static final Map<String, Latch> LATCHES = new HashMap<>();

    private Sync() {}

    private static int bits(String word) {
        return Integer.parseUnsignedInt(word);
    }

    static void add() {
        Driver.family("sem", Map.of(
                "open", w -> {
                    SEMAPHORES.put(w[0], Semaphore.open(
                            Driver.domain, w[0], Opening.OPEN_OR_CREATE, (int) Line.number(w[1]), 0));
                    return null;
                },
                "acquire", w -> {
                    SEMAPHORES.get(w[0]).acquire(1, Line.until(w[1]));
                    return null;
                },
                "acquire_many", w -> {
                    SEMAPHORES.get(w[0]).acquire((int) Line.number(w[1]), Line.until(w[2]));
                    return null;
                },
                "release", w -> {
                    SEMAPHORES.get(w[0]).release(1);
                    return null;
                },
                "release_many", w -> {
                    SEMAPHORES.get(w[0]).release((int) Line.number(w[1]));
                    return null;
                },
                "add", w -> {
                    SEMAPHORES.get(w[0]).add();
                    return null;
                },
                "available", w -> SEMAPHORES.get(w[0]).available()));
        Driver.family("event", Map.of(
                "open", w -> {
                    EVENTS.put(w[0], Event.open(Driver.domain, w[0], Opening.OPEN_OR_CREATE,
                            w[1].equals("automatic") ? Event.Reset.AUTOMATIC : Event.Reset.MANUAL));
                    return null;
                },
                "set", w -> {
                    EVENTS.get(w[0]).set(bits(w[1]));
                    return null;
                },
                "clear", w -> {
                    EVENTS.get(w[0]).clear(bits(w[1]));
                    return null;
                },
                "bits", w -> Integer.toUnsignedString(EVENTS.get(w[0]).bits()),
                "any", w -> Integer.toUnsignedString(EVENTS.get(w[0]).waitAny(bits(w[1]), Line.until(w[2]))),
                "all", w -> Integer.toUnsignedString(EVENTS.get(w[0]).waitAll(bits(w[1]), Line.until(w[2])))));
        Driver.family("latch", Map.of(
                "open", w -> {
                    LATCHES.put(w[0], Latch.open(
                            Driver.domain, w[0], Opening.OPEN_OR_CREATE, (int) Line.number(w[1])));
                    return null;
                },
                "arrive", w -> LATCHES.get(w[0]).arrive((int) Line.number(w[1])),
                "wait", w -> {
                    LATCHES.get(w[0]).await(Line.until(w[1]));
                    return null;
                }));
    }
}
