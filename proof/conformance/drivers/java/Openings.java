import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import outlive.Client;
import outlive.Condvar;
import outlive.Event;
import outlive.Handle;
import outlive.Latch;
import outlive.Mutex;
import outlive.Opening;
import outlive.Queue;
import outlive.RWLock;
import outlive.Semaphore;
import outlive.State;
import outlive.Topic;
import outlive.Wait;

/** {@code open.}, each kind by each of the three openings; {@code misuse.}, what a call refuses. */
final class Openings {
    /** Opens by a name, in one of the ways, with a number. */
    private interface Open {
        Handle open(String name, Opening how, int given);
    }

    private Openings() {}

    /** {@code few}: its maker must say a number. */
    private static Driver.Verb opened(boolean few, Open open) {
        return w -> {
            Opening how = Opening.valueOf(w[0].toUpperCase(Locale.ROOT));
            int given = w.length > 2 ? (int) Line.number(w[2]) : few && how != Opening.OPEN ? 1 : 0;
            open.open(w[1], how, given).close();
            return null;
        };
    }

    private static Topic.Options atMost(int given) {
        Topic.Options options = new Topic.Options();
        options.maxBytes = given;
        return options;
    }

    static void add() {
        Driver.family("open", Map.ofEntries(
                Map.entry("mutex", opened(false, (name, how, given) -> Mutex.open(Driver.domain, name, how, 8, null))),
                Map.entry("rwlock", opened(false, (name, how, given) -> RWLock.open(Driver.domain, name, how, 8, null))),
                Map.entry("condvar", opened(false, (name, how, given) -> Condvar.open(Driver.domain, name, how))),
                Map.entry("event", opened(false, (name, how, given) ->
                        Event.open(Driver.domain, name, how, Event.Reset.values()[given]))),
                Map.entry("latch", opened(true, (name, how, given) -> Latch.open(Driver.domain, name, how, given))),
                Map.entry("semaphore", opened(true, (name, how, given) ->
                        Semaphore.open(Driver.domain, name, how, given, 0))),
                Map.entry("state", opened(false, (name, how, given) ->
                        State.open(Driver.domain, name, how, given, null))),
                Map.entry("queue", opened(false, (name, how, given) ->
                        Queue.open(Driver.domain, name, how, new Queue.Options(given, 0, false, false)))),
                Map.entry("topic", opened(false, (name, how, given) ->
                        Topic.open(Driver.domain, name, how, atMost(given)))),
                Map.entry("service", opened(false, (name, how, given) ->
                        Client.open(Driver.domain, name, how, given, false)))));
        Driver.Verb impossible = w -> new Driver.Whole("impossible");
        Driver.family("misuse", Map.of(
                "name", w -> Queue.open(Driver.domain, null, Opening.OPEN_OR_CREATE, Queue.Options.DEFAULT),
                "message", w -> {
                    Queue.open(Driver.domain, "misused", Opening.OPEN_OR_CREATE, Queue.Options.DEFAULT)
                            .sender().send(null, Wait.NOT);
                    return null;
                },
                "handle", w -> Queue.open(null, "misused", Opening.OPEN_OR_CREATE, Queue.Options.DEFAULT),
                // An event's reset is one of three.
                "number", impossible,
                "timeout", w -> Wait.upTo(Duration.ofMillis(-1))));
    }
}
