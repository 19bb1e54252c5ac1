package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** A number of arrivals to wait for. */
public final class Latch extends Handle {
    private static final MethodHandle OPEN = Native.function("outlive_latch_open", INT, LONG, ADDRESS, INT, INT, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_latch_close", LONG);
    private static final MethodHandle ARRIVE = Native.function("outlive_latch_arrive", INT, LONG, INT, ADDRESS);
    private static final MethodHandle WAIT = Native.function("outlive_latch_wait", INT, LONG, LONG);

    private final long c;

    private Latch(long c) {
        super(false);
        this.c = c;
    }

    /**
     * Opens the latch of that name, or makes it.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param arrivals how many arrivals open it; 0 with {@link Opening#OPEN}: as it is
     * @return the latch
     */
    public static Latch open(Domain domain, String name, Opening how, int arrivals) {
        return new Latch(domain.opened(name, (arena, text, to) ->
                (int) OPEN.invokeExact(domain.c, text, how.ordinal(), arrivals, to)));
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /**
     * Counts arrivals.
     *
     * @param arrivals how many
     * @return how many are missing now
     */
    public int arrive(int arrivals) {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment missing = arena.allocate(INT);
                Native.check(() -> (int) ARRIVE.invokeExact(c, arrivals, missing));
                return missing.get(INT, 0);
            }
        });
    }

    /**
     * Waits until all have arrived.
     *
     * @param wait for how long
     * @throws InterruptedException the thread was interrupted
     */
    public void await(Wait wait) throws InterruptedException {
        inside(wait, () -> {
            await(wait, until -> (int) WAIT.invokeExact(c, until));
            return null;
        });
    }
}
