package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;

/**
 * Carries messages of bytes from any number of senders to one receiver at a time. A message whose send has returned
 * survives its sender and all receivers.
 */
public final class Queue extends Handle {
    private static final MethodHandle OPEN = Native.function("outlive_queue_open", INT, LONG, ADDRESS, INT, ADDRESS, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_queue_close", LONG);
    private static final MethodHandle COUNTERS = Native.function("outlive_queue_counters", INT, LONG, ADDRESS);
    private static final MethodHandle JOIN = Native.function("outlive_queue_join", INT, LONG, LONG);
    private static final MethodHandle PREFAULT = Native.function("outlive_queue_prefault", INT, LONG, LONG, LONG);
    private static final MethodHandle SENDER = Native.function("outlive_queue_sender", INT, LONG, ADDRESS);
    private static final MethodHandle RECEIVER = Native.function("outlive_queue_receiver", INT, LONG, LONG, ADDRESS);

    private final long c;

    private Queue(long c) {
        super(false);
        this.c = c;
    }

    /**
     * How a queue is opened. What is 0 takes what an existing queue has, and in a new one the default.
     *
     * @param maxBytes the most that the queue may take, 64 KiB to 6 GiB
     * @param maxMessages the most unread messages, 1 to 1,048,576
     * @param needReceiver a send fails with {@link Code#NO_PEER} while there is no receiver
     * @param keepOnReceiverDeath the queue goes on taking messages while its receiver is dead
     */
    public record Options(long maxBytes, int maxMessages, boolean needReceiver, boolean keepOnReceiverDeath) {
        /** None is set. */
        public static final Options DEFAULT = new Options(0, 0, false, false);
    }

    /**
     * Opens the queue of that name, or makes it.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param options its options
     * @return the queue
     */
    public static Queue open(Domain domain, String name, Opening how, Options options) {
        return new Queue(domain.opened(name, (arena, text, to) -> {
            MemorySegment given = Native.options(arena, 48);
            given.set(LONG, 8, options.maxBytes());
            given.set(INT, 24, Native.flag(options.needReceiver()));
            given.set(INT, 32, options.keepOnReceiverDeath() ? 2 : 0);
            given.set(INT, 36, options.maxMessages());
            return (int) OPEN.invokeExact(domain.c, text, how.ordinal(), given, to);
        }));
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /**
     * Counts what has happened to a queue: exact when it is quiet.
     *
     * @param sent messages sent and acknowledged
     * @param received messages received for good
     * @param pending messages in the queue
     * @param abandoned messages whose sender died during the send
     * @param redelivered messages handed out again because a receiver died before it committed them
     */
    public record Counters(long sent, long received, long pending, long abandoned, long redelivered) {}

    /**
     * Returns the queue's counts.
     *
     * @return the counts
     */
    public Counters counters() {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment at = arena.allocate(128, 8);
                Native.check(() -> (int) COUNTERS.invokeExact(c, at));
                return new Counters(at.get(LONG, 0), at.get(LONG, 8), at.get(LONG, 16), at.get(LONG, 24), at.get(LONG, 32));
            }
        });
    }

    /**
     * Waits until all messages have been received.
     *
     * @param wait for how long
     * @throws InterruptedException the thread was interrupted
     */
    public void join(Wait wait) throws InterruptedException {
        inside(wait, () -> {
            await(wait, until -> (int) JOIN.invokeExact(c, until));
            return null;
        });
    }

    /**
     * Makes room for messages before they are sent.
     *
     * @param messages how many
     * @param size the bytes of each
     */
    public void prefault(long messages, long size) {
        checked(() -> (int) PREFAULT.invokeExact(c, messages, size));
    }

    /**
     * Returns a new sender.
     *
     * @return the sender
     */
    public Sender sender() {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment to = arena.allocate(LONG);
                Native.check(() -> (int) SENDER.invokeExact(c, to));
                return new Sender(to.get(LONG, 0));
            }
        });
    }

    /**
     * Returns the queue's receiver, waiting for a living one to close or to die.
     *
     * @param wait for how long
     * @return the receiver
     * @throws OutliveException {@link Code#BUSY}: another receiver is alive
     * @throws InterruptedException the thread was interrupted
     */
    public Receiver receiver(Wait wait) throws InterruptedException {
        return inside(wait, () -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment to = arena.allocate(LONG);
                await(wait, Code.BUSY, until -> (int) RECEIVER.invokeExact(c, until, to));
                return new Receiver(to.get(LONG, 0));
            }
        });
    }

    /** Puts messages into a queue. */
    public static final class Sender extends Handle {
        private static final MethodHandle CLOSE = Native.procedure("outlive_sender_close", LONG);
        private static final MethodHandle SEND = Native.function("outlive_sender_send", INT, LONG, ADDRESS, LONG, LONG);
        private static final MethodHandle BATCH = Native.function("outlive_sender_send_batch", INT, LONG, ADDRESS, LONG, LONG);

        private final long c;

        private Sender(long c) {
            super(true);
            this.c = c;
        }

        @Override
        void release() {
            Native.release(c, CLOSE);
        }

        /**
         * Puts a message into the queue, waiting while it is full. When it returns, the message is there, whatever
         * becomes of this process.
         *
         * @param message the message
         * @param wait for how long
         * @throws OutliveException {@link Code#WOULD_BLOCK}, {@link Code#TIMED_OUT}: it is full;
         *     {@link Code#PEER_DIED}: the receiver has died; {@link Code#NO_PEER}, {@link Code#TOO_LARGE}
         * @throws InterruptedException the thread was interrupted, and the message is not there
         */
        public void send(byte[] message, Wait wait) throws InterruptedException {
            inside(wait, () -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment data = Native.copy(arena, message);
                    await(wait, until -> (int) SEND.invokeExact(c, data, (long) message.length, until));
                    return null;
                }
            });
        }

        /**
         * Puts messages into the queue in one step: all or none.
         *
         * @param messages the messages
         * @param wait for how long
         * @throws InterruptedException the thread was interrupted, and none is there
         */
        public void sendBatch(List<byte[]> messages, Wait wait) throws InterruptedException {
            inside(wait, () -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment batch = arena.allocate(16L * Math.max(messages.size(), 1), 8);
                    for (int at = 0; at < messages.size(); at++) {
                        batch.set(ADDRESS, 16L * at, Native.copy(arena, messages.get(at)));
                        batch.set(LONG, 16L * at + 8, messages.get(at).length);
                    }
                    await(wait, until -> (int) BATCH.invokeExact(c, batch, (long) messages.size(), until));
                    return null;
                }
            });
        }
    }

    /**
     * A message that was shown, and is still in the queue.
     *
     * @param data a copy of it
     * @param isRedelivered an earlier receiver got it too, and died before it committed it
     */
    public record Peeked(byte[] data, boolean isRedelivered) {}

    /** Takes messages out of a queue. */
    public static final class Receiver extends Handle {
        private static final MethodHandle CLOSE = Native.procedure("outlive_receiver_close", LONG);
        private static final MethodHandle PEEK =
                Native.function("outlive_receiver_peek", INT, LONG, ADDRESS, ADDRESS, ADDRESS, LONG);
        private static final MethodHandle COMMIT = Native.function("outlive_receiver_commit", INT, LONG);
        private static final MethodHandle RECV =
                Native.function("outlive_receiver_recv", INT, LONG, ADDRESS, LONG, ADDRESS, LONG);
        private static final MethodHandle END = Native.function("outlive_receiver_end_when_senders_gone", INT, LONG, INT);

        private final long c;
        private final Arena arena = Arena.ofShared();
        private MemorySegment buffer = arena.allocate(4096);
        private final MemorySegment size = arena.allocate(LONG);

        private Receiver(long c) {
            super(true);
            this.c = c;
        }

        @Override
        void release() {
            Native.release(c, CLOSE);
            arena.close();
        }

        /** A receive fails with {@link Code#PEER_DIED} when the queue is empty and all senders have closed or died. */
        public void endWhenSendersGone() {
            checked(() -> (int) END.invokeExact(c, 1));
        }

        /**
         * Takes the next message. A process that is killed after it takes the message with it: {@link #peek} and
         * {@link #commit} lose none.
         *
         * @param wait for how long
         * @return the message
         * @throws OutliveException {@link Code#WOULD_BLOCK}, {@link Code#TIMED_OUT}; {@link Code#PEER_DIED}
         * @throws InterruptedException the thread was interrupted, and no message was taken
         */
        public byte[] recv(Wait wait) throws InterruptedException {
            return inside(wait, () -> {
                while (true) {
                    int code = slices(wait, Code.TIMED_OUT, until ->
                            (int) RECV.invokeExact(c, buffer, buffer.byteSize(), size, until));
                    long bytes = size.get(LONG, 0);
                    if (code == Code.TOO_LARGE.number && bytes > buffer.byteSize()) {
                        // The message stays where it is until there is room.
                        buffer = arena.allocate(Math.max(bytes, 2 * buffer.byteSize()));
                    } else if (code != 0) {
                        throw Native.failure(code);
                    } else {
                        return buffer.asSlice(0, bytes).toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
                    }
                }
            });
        }

        /**
         * Shows the next message, and leaves it in the queue until {@link #commit}. If this process dies before that,
         * the next receiver gets it again.
         *
         * @param wait for how long
         * @return the message
         * @throws InterruptedException the thread was interrupted
         */
        public Peeked peek(Wait wait) throws InterruptedException {
            return inside(wait, () -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment data = arena.allocate(LONG);
                    MemorySegment bytes = arena.allocate(LONG);
                    MemorySegment again = arena.allocate(INT);
                    await(wait, until -> (int) PEEK.invokeExact(c, data, bytes, again, until));
                    return new Peeked(Native.bytes(data.get(LONG, 0), bytes.get(LONG, 0)), again.get(INT, 0) != 0);
                }
            });
        }

        /** Takes the message that was peeked at out of the queue. */
        public void commit() {
            checked(() -> (int) COMMIT.invokeExact(c));
        }
    }
}
