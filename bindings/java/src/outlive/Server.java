package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.BOOL;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** Receives a service's requests. A service has one server at a time, or as many as its most. */
public final class Server extends Handle {
    private static final MethodHandle OPEN = Native.function("outlive_server_open", INT, LONG, ADDRESS, INT, ADDRESS, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_server_close", LONG);
    private static final MethodHandle NEXT = Native.function("outlive_server_next", INT, LONG, LONG, ADDRESS);
    private static final MethodHandle PREFAULT = Native.function("outlive_server_prefault", INT, LONG, LONG, LONG);

    private final long c;

    private Server(long c) {
        super(true);
        this.c = c;
    }

    /**
     * Opens a server of the service of that name, or makes the service, waiting for a living server to close or to die.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param maxServers the most servers at a time, 1 to 64; 0: what is there, else 1
     * @param wait for how long
     * @return the server
     * @throws OutliveException {@link Code#BUSY}: another server is alive
     * @throws InterruptedException the thread was interrupted
     */
    public static Server open(Domain domain, String name, Opening how, long maxServers, Wait wait)
            throws InterruptedException {
        return domain.inside(wait, () -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment text = Native.string(arena, name);
                MemorySegment options = Native.options(arena, 56);
                options.set(LONG, 48, maxServers);
                MemorySegment to = arena.allocate(LONG);
                domain.await(wait, Code.BUSY, until -> {
                    options.set(LONG, 24, until);
                    return (int) OPEN.invokeExact(domain.c, text, how.ordinal(), options, to);
                });
                return new Server(to.get(LONG, 0));
            }
        });
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /**
     * Makes room for replies before they are made.
     *
     * @param messages how many
     * @param size the bytes of each
     */
    public void prefault(long messages, long size) {
        checked(() -> (int) PREFAULT.invokeExact(c, messages, size));
    }

    /**
     * Waits for the next request. A dead client's requests are skipped.
     *
     * @param wait for how long
     * @return the request
     * @throws InterruptedException the thread was interrupted
     */
    public Request next(Wait wait) throws InterruptedException {
        return inside(wait, () -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment to = arena.allocate(LONG);
                await(wait, until -> (int) NEXT.invokeExact(c, until, to));
                return new Request(to.get(LONG, 0));
            }
        });
    }

    /** A request that waits for its reply. It is ended by a reply, a failure, a stream or {@link #close}, in any thread. */
    public static final class Request extends Handle {
        private static final MethodHandle DATA = Native.function("outlive_request_data", LONG, LONG);
        private static final MethodHandle SIZE = Native.function("outlive_request_size", LONG, LONG);
        private static final MethodHandle CLIENT = Native.function("outlive_request_client", INT, LONG, ADDRESS);
        private static final MethodHandle CANCELLED = Native.function("outlive_request_is_cancelled", BOOL, LONG);
        private static final MethodHandle WAIT_CANCELLED = Native.function("outlive_request_wait_cancelled", INT, LONG, LONG);
        private static final MethodHandle REPLY = Native.function("outlive_request_reply", INT, LONG, ADDRESS, LONG);
        private static final MethodHandle FAIL = Native.function("outlive_request_fail", INT, LONG, ADDRESS);
        private static final MethodHandle STREAM = Native.function("outlive_request_stream", INT, LONG, ADDRESS);
        private static final MethodHandle RELEASE = Native.procedure("outlive_request_release", LONG);

        private final long c;
        private final byte[] data;
        private boolean ended;

        private Request(long c) {
            super(true);
            this.c = c;
            long address = Native.ask(() -> (long) DATA.invokeExact(c));
            long size = Native.ask(() -> (long) SIZE.invokeExact(c));
            this.data = Native.bytes(address, size);
        }

        @Override
        void release() {
            if (!ended) {
                Native.release(c, RELEASE);
            }
        }

        /**
         * Returns a copy of the request.
         *
         * @return its bytes
         */
        public byte[] data() {
            return data.clone();
        }

        private void alive() {
            if (ended) {
                throw new IllegalStateException("the request has ended");
            }
        }

        /**
         * Returns what is known of the client.
         *
         * @return the client
         */
        public Peer client() {
            return quickly(() -> {
                alive();
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment info = arena.allocate(Peer.SIZE, 8);
                    Native.check(() -> (int) CLIENT.invokeExact(c, info));
                    return Peer.of(info);
                }
            });
        }

        /**
         * Reports whether the client wants no reply any more.
         *
         * @return whether that is so
         */
        public boolean isCancelled() {
            return quickly(() -> {
                alive();
                return Native.ask(() -> (boolean) CANCELLED.invokeExact(c));
            });
        }

        /**
         * Waits until the client wants no reply any more, or has died.
         *
         * @param wait for how long
         * @throws InterruptedException the thread was interrupted
         */
        public void waitCancelled(Wait wait) throws InterruptedException {
            inside(wait, () -> {
                alive();
                await(wait, until -> (int) WAIT_CANCELLED.invokeExact(c, until));
                return null;
            });
        }

        private void end(Native.Call call) {
            quickly(() -> {
                alive();
                ended = true;
                Native.check(call);
                return null;
            });
        }

        /**
         * Sends the reply. When it returns, the client has it, whatever becomes of this process. The request has
         * ended, also after an error.
         *
         * @param reply the reply
         * @throws OutliveException {@link Code#CANCELLED}; {@link Code#PEER_DIED}: the client died
         */
        public void reply(byte[] reply) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment bytes = Native.copy(arena, reply);
                end(() -> (int) REPLY.invokeExact(c, bytes, (long) reply.length));
            }
        }

        /**
         * Tells the client that the service could not do what was asked. The request has ended.
         *
         * @param why why
         */
        public void fail(String why) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment text = Native.string(arena, why);
                end(() -> (int) FAIL.invokeExact(c, text));
            }
        }

        /**
         * Begins several replies. The request has ended.
         *
         * @return the stream
         */
        public ReplyStream stream() {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment to = arena.allocate(LONG);
                end(() -> (int) STREAM.invokeExact(c, to));
                return new ReplyStream(to.get(LONG, 0));
            }
        }
    }

    /** Several replies to one request. */
    public static final class ReplyStream extends Handle {
        private static final MethodHandle SEND = Native.function("outlive_stream_send", INT, LONG, ADDRESS, LONG, LONG);
        private static final MethodHandle FINISH = Native.function("outlive_stream_finish", INT, LONG);
        private static final MethodHandle FAIL = Native.function("outlive_stream_fail", INT, LONG, ADDRESS);
        private static final MethodHandle RELEASE = Native.procedure("outlive_stream_release", LONG);

        private final long c;
        private boolean ended;

        private ReplyStream(long c) {
            super(true);
            this.c = c;
        }

        @Override
        void release() {
            if (!ended) {
                Native.release(c, RELEASE);
            }
        }

        private void alive() {
            if (ended) {
                throw new IllegalStateException("the stream has ended");
            }
        }

        /**
         * Sends a reply, waiting while eight are under way.
         *
         * @param reply the reply
         * @param wait for how long
         * @throws OutliveException {@link Code#PEER_DIED}: the client died
         * @throws InterruptedException the thread was interrupted
         */
        public void send(byte[] reply, Wait wait) throws InterruptedException {
            inside(wait, () -> {
                alive();
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment bytes = Native.copy(arena, reply);
                    await(wait, until -> (int) SEND.invokeExact(c, bytes, (long) reply.length, until));
                    return null;
                }
            });
        }

        private void end(Native.Call call) {
            quickly(() -> {
                alive();
                ended = true;
                Native.check(call);
                return null;
            });
        }

        /** Says that there are no more replies. The stream has ended, also after an error. */
        public void finish() {
            end(() -> (int) FINISH.invokeExact(c));
        }

        /**
         * Ends the stream and tells the client why.
         *
         * @param why why
         */
        public void fail(String why) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment text = Native.string(arena, why);
                end(() -> (int) FAIL.invokeExact(c, text));
            }
        }
    }
}
