import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import outlive.Domain;
import outlive.Opening;
import outlive.OutliveException;

/**
 * Java's driver: it does what each line of its input says, by the package alone, and answers with a line.
 * doc/conformance.md has the commands; the drivers of the other languages do the same, each with its own means.
 */
final class Driver {
    /** What a verb does, of the words behind it: what is said behind "ok", or a whole answer; null: nothing. */
    interface Verb {
        Object act(String[] words) throws Exception;
    }

    /** An answer that is said as it is. */
    record Whole(String answer) {}

    static final Map<String, Verb> VERBS = new HashMap<>();
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    static BufferedReader input;
    static Domain domain;

    /** What the package has none of: a verb, or all that begin so. */
    private static final List<String> LACKING = List.of(
            "pi.", "ceiling.", "reentrant.", "once.", "record.", "set.", "node.", "watch.", "config.", "barrier.",
            "pool.", "jobs.", "notifier.", "listener.",
            "open.pi_mutex", "open.ceiling_mutex", "open.reentrant_mutex", "open.once", "open.record", "open.barrier",
            "open.pool", "queue.typed", "topic.described", "topic.publish_msgpack", "topic.recv_msgpack",
            "topic.publish_track", "topic.recv_track", "topic.publish_cloud", "topic.recv_cloud",
            "topic.publish_scan", "topic.recv_scan", "topic.slowest", "server.watch", "server.event",
            "server.next_part", "server.reply_loan", "server.fail_loan", "client.loan", "client.stream",
            "client.send", "client.finish", "client.let_go");

    private Driver() {}

    static void family(String name, Map<String, Verb> verbs) {
        verbs.forEach((verb, act) -> VERBS.put(name + "." + verb, act));
    }

    static String act(String line) {
        String[] words = line.split(" ");
        if (LACKING.stream().anyMatch(words[0]::startsWith)) {
            return "error Unsupported " + words[0];
        }
        Verb verb = VERBS.get(words[0]);
        if (verb == null) {
            return "error Usage no command " + words[0];
        }
        try {
            Object answer = verb.act(Arrays.copyOfRange(words, 1, words.length));
            return answer == null ? "ok" : answer instanceof Whole whole ? whole.answer() : "ok " + answer;
        } catch (OutliveException error) {
            return "error " + error.code() + " " + error.getMessage();
        } catch (Exception error) {
            return "error " + error.getClass().getSimpleName() + " " + error.getMessage();
        }
    }

    /** Answers lines until the input ends, or until that line. */
    static void serve(String last) throws Exception {
        for (String line = input.readLine(); line != null && !line.equals(last); line = input.readLine()) {
            OUT.println(act(line));
        }
    }

    /** This thread, whose sleep the runner looks up: Java's main thread is not the process's first. */
    private static int tid() throws Throwable {
        Linker linker = Linker.nativeLinker();
        return (int) linker.downcallHandle(
                        linker.defaultLookup().find("gettid").orElseThrow(),
                        FunctionDescriptor.of(ValueLayout.JAVA_INT))
                .invokeExact();
    }

    /** Starts the driver. */
    public static void main(String[] arguments) throws Throwable {
        domain = Domain.open(arguments[0], Opening.OPEN_OR_CREATE);
        input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        VERBS.put("token", w -> Integer.toUnsignedString(domain.threadToken()));
        VERBS.put("process_token", w -> Integer.toUnsignedString(domain.processToken()));
        VERBS.put("peer.alive", w -> domain.isAlive(Integer.parseUnsignedInt(w[0])) ? "yes" : "no");
        VERBS.put("peer.wait_dead", w -> {
            domain.waitDead(Integer.parseUnsignedInt(w[0]), Line.until(w[1]));
            return null;
        });
        VERBS.put("domain.find", w -> {
            Domain.open(w[0], Opening.OPEN).close();
            return null;
        });
        VERBS.put("domain.create", w -> {
            Domain.open(domain.path() + "/" + w[0], Opening.CREATE_NEW).close();
            return null;
        });
        VERBS.put("exit", w -> {
            Runtime.getRuntime().halt(0);
            return null;
        });
        VERBS.put("crash", w -> {
            Runtime.getRuntime().halt(134);
            return null;
        });
        VERBS.put("hang", w -> {
            Thread.sleep(60_000);
            return null;
        });
        Locks.add();
        Sync.add();
        Queues.add();
        States.add();
        Topics.add();
        Services.add();
        Openings.add();
        OUT.println("ready " + tid());
        serve(null);
        Runtime.getRuntime().halt(0);
    }
}
