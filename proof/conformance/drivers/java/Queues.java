import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import outlive.Code;
import outlive.Opening;
import outlive.OutliveException;
import outlive.Queue;
import outlive.Wait;

/** {@code queue.} */
final class Queues {
    /** A queue and its ends, each made when it is first needed. */
    private static final class Open {
        private final Queue queue;
        private final boolean ending;
        private Queue.Sender sender;
        private Queue.Receiver receiver;
        private long sent;
        private long received;

        Open(Queue queue, boolean ending) {
            this.queue = queue;
            this.ending = ending;
        }

        Queue.Sender sender() {
            if (sender == null) {
                sender = queue.sender();
            }
            return sender;
        }

        Queue.Receiver receiver() throws InterruptedException {
            if (receiver == null) {
                receiver = queue.receiver(Wait.NOT);
                if (ending) {
                    receiver.endWhenSendersGone();
                }
            }
            return receiver;
        }

        void drain(long end) throws Exception {
            long left = Math.max(end - System.nanoTime(), 0);
            byte[] data = receiver().recv(Wait.upTo(java.time.Duration.ofNanos(left)));
            received++;
            if (!Line.isPattern(data, received)) {
                throw Line.wrong(received, data);
            }
        }
    }

    private static final Map<String, Open> QUEUES = new HashMap<>();

    private Queues() {}

    private static long end(String word) {
        return System.nanoTime() + Line.milliseconds(word).toNanos();
    }

    private static Object fill(String[] w) throws Exception {
        Open queue = QUEUES.get(w[0]);
        while (true) {
            try {
                queue.sender().send(Line.pattern((int) Line.number(w[1]), queue.sent + 1), Wait.NOT);
                queue.sent++;
            } catch (OutliveException error) {
                if (error.code() != Code.WOULD_BLOCK) {
                    throw error;
                }
                return queue.sent;
            }
        }
    }

    private static Object drainAll(String[] w) throws Exception {
        Open queue = QUEUES.get(w[0]);
        long end = end(w[1]);
        while (true) {
            try {
                queue.drain(end);
            } catch (OutliveException error) {
                if (error.code() != Code.PEER_DIED) {
                    throw error;
                }
                return queue.received;
            }
        }
    }

    private static Object count(String[] w) {
        Queue.Counters counters = QUEUES.get(w[0]).queue.counters();
        return switch (w[1]) {
            case "sent" -> counters.sent();
            case "received" -> counters.received();
            case "pending" -> counters.pending();
            default -> counters.redelivered();
        };
    }

    static void add() {
        Map<String, Driver.Verb> verbs = new HashMap<>();
        verbs.put("open", w -> {
            Queue.Options options = new Queue.Options(Line.option(w, "max"), (int) Line.option(w, "messages"),
                    Line.has(w, "refuse"), Line.has(w, "keep"));
            Opening how = Line.has(w, "existing") ? Opening.OPEN : Opening.OPEN_OR_CREATE;
            QUEUES.put(w[0], new Open(Queue.open(Driver.domain, w[0], how, options), Line.has(w, "ending")));
            return null;
        });
        verbs.put("join", w -> {
            QUEUES.get(w[0]).queue.join(Line.until(w[1]));
            return null;
        });
        verbs.put("send", w -> {
            QUEUES.get(w[0]).sender().send(Line.message(w[1]), Line.until(w[2]));
            return null;
        });
        verbs.put("batch", w -> {
            List<byte[]> batch = new ArrayList<>();
            for (String word : Arrays.copyOfRange(w, 1, w.length - 1)) {
                batch.add(Line.message(word));
            }
            QUEUES.get(w[0]).sender().sendBatch(batch, Line.until(w[w.length - 1]));
            return null;
        });
        verbs.put("recv", w -> Line.show(QUEUES.get(w[0]).receiver().recv(Line.until(w[1]))));
        verbs.put("peek", w -> {
            Queue.Peeked peeked = QUEUES.get(w[0]).receiver().peek(Line.until(w[1]));
            return Line.show(peeked.data()) + (peeked.isRedelivered() ? " again" : " fresh");
        });
        verbs.put("commit", w -> {
            QUEUES.get(w[0]).receiver().commit();
            return null;
        });
        verbs.put("count", Queues::count);
        verbs.put("fill", Queues::fill);
        verbs.put("flood", w -> {
            Open queue = QUEUES.get(w[0]);
            for (long end = end(w[2]); System.nanoTime() < end; ) {
                queue.sent++;
                queue.sender().send(Line.pattern((int) Line.number(w[1]), queue.sent), Line.until(w[2]));
            }
            return null;
        });
        verbs.put("drain", w -> {
            long end = end(w[2]);
            for (long count = Line.number(w[1]); count > 0; count--) {
                QUEUES.get(w[0]).drain(end);
            }
            return null;
        });
        verbs.put("drain_all", Queues::drainAll);
        verbs.put("close", w -> {
            Open queue = QUEUES.get(w[0]);
            if (queue.sender != null) {
                queue.sender.close();
            }
            if (queue.receiver != null) {
                queue.receiver.close();
            }
            queue.sender = null;
            queue.receiver = null;
            return null;
        });
        verbs.put("prefault", w -> {
            QUEUES.get(w[0]).queue.prefault(Line.number(w[1]), Line.number(w[2]));
            return null;
        });
        Driver.family("queue", verbs);
    }
}
