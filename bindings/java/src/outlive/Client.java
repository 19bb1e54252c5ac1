package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Optional;

/** Calls a service. */
public final class Client extends Handle {
    private static final MethodHandle OPEN = Native.function("outlive_client_open", INT, LONG, ADDRESS, INT, ADDRESS, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_client_close", LONG);
    private static final MethodHandle BEGIN =
            Native.function("outlive_client_begin", INT, LONG, ADDRESS, LONG, LONG, ADDRESS);
    private static final MethodHandle PREFAULT = Native.function("outlive_client_prefault", INT, LONG, LONG, LONG);
    private static final MethodHandle ASSERT = Native.procedure("outlive_client_assert_liveliness", LONG);

    private final long c;

    private Client(long c) {
        super(false);
        this.c = c;
    }

    /**
     * Opens a client of the service of that name, or makes the service.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param maxBytes the most that requests and replies may take together; 0: what is there, else 1 GiB
     * @param waitForServer calls that are not begun wait for a server, instead of failing
     * @return the client
     */
    public static Client open(Domain domain, String name, Opening how, long maxBytes, boolean waitForServer) {
        return new Client(domain.opened(name, (arena, text, to) -> {
            MemorySegment options = Native.options(arena, 56);
            options.set(LONG, 8, maxBytes);
            options.set(INT, 20, Native.flag(waitForServer));
            return (int) OPEN.invokeExact(domain.c, text, how.ordinal(), options, to);
        }));
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /**
     * Sends a request and returns the first reply. When the time has passed, the call is cancelled.
     *
     * @param request the request
     * @param wait for how long
     * @return the reply
     * @throws OutliveException {@link Code#NO_PEER}: there is no server; {@link Code#PEER_DIED}: it died before it
     *     began; {@link Code#SERVER_DIED_BEGUN}: after; {@link Code#DROPPED}; {@link Code#FAILED}, with the server's
     *     words; {@link Code#TIMED_OUT}
     * @throws InterruptedException the thread was interrupted, and the call cancelled
     */
    public byte[] call(byte[] request, Wait wait) throws InterruptedException {
        try (Call call = begin(request, wait)) {
            return call.next(wait)
                    .orElseThrow(() -> new OutliveException(Code.DROPPED, "the server replied nothing"));
        }
    }

    /**
     * Sends a request, and does not wait for the reply.
     *
     * @param request the request
     * @param wait for how long to wait for memory, and, if so opened, for a server
     * @return the call
     * @throws InterruptedException the thread was interrupted
     */
    public Call begin(byte[] request, Wait wait) throws InterruptedException {
        return inside(wait, () -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment data = Native.copy(arena, request);
                MemorySegment to = arena.allocate(LONG);
                await(wait, until -> (int) BEGIN.invokeExact(c, data, (long) request.length, until, to));
                return new Call(to.get(LONG, 0));
            }
        });
    }

    /**
     * Makes room for requests before they are made.
     *
     * @param messages how many
     * @param size the bytes of each
     */
    public void prefault(long messages, long size) {
        checked(() -> (int) PREFAULT.invokeExact(c, messages, size));
    }

    /** Tells servers that watch their clients that this one does something. */
    public void assertLiveliness() {
        quickly(() -> {
            Native.release(c, ASSERT);
            return null;
        });
    }

    /** A request in flight. Closing it cancels it, unless it has been replied to. */
    public static final class Call extends Handle {
        private static final MethodHandle NEXT = Native.function("outlive_call_next", INT, LONG, LONG, ADDRESS);
        private static final MethodHandle RELEASE = Native.procedure("outlive_call_release", LONG);
        private static final MethodHandle DATA = Native.function("outlive_reply_data", LONG, LONG);
        private static final MethodHandle SIZE = Native.function("outlive_reply_size", LONG, LONG);
        private static final MethodHandle RELEASE_REPLY = Native.procedure("outlive_reply_release", LONG);

        private final long c;

        private Call(long c) {
            super(true);
            this.c = c;
        }

        @Override
        void release() {
            Native.release(c, RELEASE);
        }

        /**
         * Waits for the next reply. The end of the time does not cancel the call.
         *
         * @param wait for how long
         * @return the reply; empty: there are no more
         * @throws InterruptedException the thread was interrupted
         */
        public Optional<byte[]> next(Wait wait) throws InterruptedException {
            return inside(wait, () -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment to = arena.allocate(LONG);
                    await(wait, until -> (int) NEXT.invokeExact(c, until, to));
                    long reply = to.get(LONG, 0);
                    if (reply == 0) {
                        return Optional.empty();
                    }
                    long data = Native.ask(() -> (long) DATA.invokeExact(reply));
                    long size = Native.ask(() -> (long) SIZE.invokeExact(reply));
                    byte[] bytes = Native.bytes(data, size);
                    Native.release(reply, RELEASE_REPLY);
                    return Optional.of(bytes);
                }
            });
        }
    }
}
