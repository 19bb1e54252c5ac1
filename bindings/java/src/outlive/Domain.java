package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.BOOL;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** A folder on a memory file system in which processes find each other. There is no daemon to start. */
public final class Domain extends Handle {
    private static final MethodHandle OPEN = Native.function("outlive_domain_open_with", INT, ADDRESS, INT, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_domain_close", LONG);
    private static final MethodHandle PATH = Native.function("outlive_domain_path", INT, LONG, ADDRESS, LONG);
    private static final MethodHandle REMOVE = Native.function("outlive_domain_remove", INT, LONG, ADDRESS);
    private static final MethodHandle PAYLOAD = Native.function("outlive_domain_payload", INT, LONG, ADDRESS, ADDRESS, LONG);
    private static final MethodHandle TOKEN = Native.function("outlive_domain_token", INT, LONG, ADDRESS);
    private static final MethodHandle PROCESS_TOKEN = Native.function("outlive_domain_process_token", INT, LONG, ADDRESS);
    private static final MethodHandle IS_ALIVE = Native.function("outlive_peer_is_alive", BOOL, LONG, INT);
    private static final MethodHandle WAIT_DEAD = Native.function("outlive_peer_wait_dead", INT, LONG, INT, LONG);

    private static final int LONGEST_PATH = 4096;

    final long c;

    private Domain(long c) {
        super(false);
        this.c = c;
    }

    /**
     * Opens the default domain: what the environment's OUTLIVE_DOMAIN names, else the configuration file, else
     * {@code default}. It is made if it is missing.
     *
     * @return the domain
     */
    public static Domain open() {
        return open(null, Opening.OPEN_OR_CREATE);
    }

    /**
     * Opens a domain in any folder, whose parent must exist.
     *
     * @param path the folder; null: the default domain
     * @param how whether the domain must exist
     * @return the domain
     * @throws OutliveException {@link Code#NOT_OWNER}: the folder is another user's; {@link Code#NOT_A_DOMAIN}: it
     *     holds other things, and is left as it is
     */
    public static Domain open(String path, Opening how) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment options = Native.options(arena, 48);
            if (path != null) {
                options.set(ADDRESS, 8, Native.string(arena, path));
            }
            MemorySegment to = arena.allocate(LONG);
            Native.check(() -> (int) OPEN.invokeExact(options, how.ordinal(), to));
            return new Domain(to.get(LONG, 0));
        }
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /** An opening of C's, by this domain and a name. */
    interface Opened {
        int run(Arena arena, MemorySegment name, MemorySegment to) throws Throwable;
    }

    /** Opens a thing of that name; returns C's handle. */
    long opened(String name, Opened open) {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment text = Native.string(arena, name);
                MemorySegment to = arena.allocate(LONG);
                Native.check(() -> open.run(arena, text, to));
                return to.get(LONG, 0);
            }
        });
    }

    /** A call of C's that writes a text. */
    private interface Text {
        int run(Arena arena, MemorySegment to) throws Throwable;
    }

    private String text(Text call) {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment to = arena.allocate(LONGEST_PATH);
                Native.check(() -> call.run(arena, to));
                return to.getString(0);
            }
        });
    }

    /**
     * Returns the domain's folder.
     *
     * @return its path
     */
    public String path() {
        return text((arena, to) -> (int) PATH.invokeExact(c, to, (long) LONGEST_PATH));
    }

    /**
     * Removes a name. Processes that have the thing open keep it.
     *
     * @param name the name
     */
    public void remove(String name) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment text = Native.string(arena, name);
            checked(() -> (int) REMOVE.invokeExact(c, text));
        }
    }

    /**
     * Returns the description of what a thing's messages are.
     *
     * @param name the thing's name
     * @return the description, as text
     */
    public String payload(String name) {
        return text((arena, to) ->
                (int) PAYLOAD.invokeExact(c, Native.string(arena, name), to, (long) LONGEST_PATH));
    }

    private int number(MethodHandle call) {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment to = arena.allocate(INT);
                Native.check(() -> (int) call.invokeExact(c, to));
                return to.get(INT, 0);
            }
        });
    }

    /**
     * Returns this process's token, which dies with the process.
     *
     * @return the token
     */
    public int processToken() {
        return number(PROCESS_TOKEN);
    }

    /**
     * Returns the calling platform thread's token, which dies with the thread.
     *
     * @return the token
     */
    public int threadToken() {
        return number(TOKEN);
    }

    /**
     * Reports whether a token's owner lives, by two loads.
     *
     * @param token the token
     * @return whether it lives
     */
    public boolean isAlive(int token) {
        return quickly(() -> Native.ask(() -> (boolean) IS_ALIVE.invokeExact(c, token)));
    }

    /**
     * Waits until a token's owner is dead, about 0.2 ms after a SIGKILL.
     *
     * @param token the token
     * @param wait for how long
     * @throws InterruptedException the thread was interrupted
     */
    public void waitDead(int token, Wait wait) throws InterruptedException {
        inside(wait, () -> {
            await(wait, until -> (int) WAIT_DEAD.invokeExact(c, token, until));
            return null;
        });
    }
}
