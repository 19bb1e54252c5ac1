import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import outlive.Opening;
import outlive.State;
import outlive.Wait;

/** {@code state.} and {@code bytes.} */
final class States {
    private static final Map<String, State> STATES = new HashMap<>();
    private static final Map<String, State.Writer> WRITERS = new HashMap<>();

    private States() {}

    /** The state's writer, made when it is first needed. */
    private static State.Writer writer(String name) throws InterruptedException {
        State.Writer writer = WRITERS.get(name);
        if (writer == null) {
            writer = STATES.get(name).writer(Wait.NOT);
            WRITERS.put(name, writer);
        }
        return writer;
    }

    private static Object watch(String[] w) throws Exception {
        State state = STATES.get(w[0]);
        long version = 1;
        long end = System.nanoTime() + Line.milliseconds(w[2]).toNanos();
        for (long count = Line.number(w[1]); count > 0; count--) {
            state.waitChanged(version, Wait.upTo(Duration.ofNanos(Math.max(end - System.nanoTime(), 0))));
            State.Value value = state.get();
            version = value.version();
            if (!Line.isPattern(value.data(), version - 1)) {
                throw Line.wrong(version, value.data());
            }
        }
        return null;
    }

    static void add() {
        Driver.family("state", Map.of(
                "open", w -> {
                    STATES.put(w[0], State.openFixed(Driver.domain, w[0], Opening.OPEN_OR_CREATE, Line.eight(w[1])));
                    return null;
                },
                "find", w -> {
                    State.open(Driver.domain, w[0], Opening.OPEN, 0, null).close();
                    return null;
                },
                "get", w -> {
                    State.Value value = STATES.get(w[0]).get();
                    return Long.toUnsignedString(Line.eight(value.data())) + " " + value.version();
                },
                "set", w -> writer(w[0]).set(Line.eight(w[1])),
                "prefault", w -> {
                    writer(w[0]).prefault(Line.number(w[1]));
                    return null;
                },
                "wait", w -> STATES.get(w[0]).waitChanged(Line.number(w[1]), Line.until(w[2])),
                "close", w -> {
                    State.Writer writer = WRITERS.remove(w[0]);
                    if (writer != null) {
                        writer.close();
                    }
                    return null;
                }));
        Driver.family("bytes", Map.of(
                "open", w -> {
                    STATES.put(w[0], State.open(
                            Driver.domain, w[0], Opening.OPEN_OR_CREATE, Line.number(w[1]), Line.message(w[2])));
                    return null;
                },
                "get", w -> {
                    State.Value value = STATES.get(w[0]).get();
                    return Line.show(value.data()) + " " + value.version();
                },
                "set", w -> writer(w[0]).set(Line.message(w[1])),
                "flood", w -> {
                    long end = System.nanoTime() + Line.milliseconds(w[2]).toNanos();
                    for (long count = 1; System.nanoTime() < end; count++) {
                        writer(w[0]).set(Line.pattern((int) Line.number(w[1]), count));
                    }
                    return null;
                },
                "watch", States::watch));
    }
}
