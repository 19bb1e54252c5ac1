package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** A number of permits that processes share. Those of a process or thread that dies come back. */
public final class Semaphore extends Handle {
    private static final MethodHandle OPEN =
            Native.function("outlive_semaphore_open", INT, LONG, ADDRESS, INT, INT, INT, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_semaphore_close", LONG);
    private static final MethodHandle ACQUIRE = Native.function("outlive_semaphore_acquire_many", INT, LONG, INT, LONG, ADDRESS);
    private static final MethodHandle RELEASE = Native.function("outlive_semaphore_release_many", INT, LONG, INT);
    private static final MethodHandle ADD = Native.function("outlive_semaphore_add", INT, LONG);
    private static final MethodHandle AVAILABLE = Native.function("outlive_semaphore_available_permits", INT, LONG);

    private final long c;

    private Semaphore(long c) {
        super(false);
        this.c = c;
    }

    /**
     * Opens the semaphore of that name, or makes it.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param permits how many a new one has; an existing one must have as many, unless this is 0
     * @param maxPermits how many it may have by {@link #add}; 0: as many as it has
     * @return the semaphore
     */
    public static Semaphore open(Domain domain, String name, Opening how, int permits, int maxPermits) {
        return new Semaphore(domain.opened(name, (arena, text, to) ->
                (int) OPEN.invokeExact(domain.c, text, how.ordinal(), permits, maxPermits, to)));
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /**
     * Takes permits, all or none, in a platform thread.
     *
     * @param permits how many
     * @param wait for how long
     * @throws OutliveException {@link Code#TIMED_OUT}, {@link Code#WOULD_BLOCK}; {@link Code#OVERFLOW}: there never are
     *     so many; {@link Code#DEADLOCK}: this thread has so many that it waits for itself
     * @throws InterruptedException the thread was interrupted
     */
    public void acquire(int permits, Wait wait) throws InterruptedException {
        Guard.checkThread();
        inside(wait, () -> {
            await(wait, until -> (int) ACQUIRE.invokeExact(c, permits, until, MemorySegment.NULL));
            // Permits keep the handle, so that they can be given back when it was closed.
            stay(permits);
            return null;
        });
    }

    /**
     * Gives back the permits that this thread took last.
     *
     * @param permits how many
     * @throws OutliveException {@link Code#NOT_OWNER}: this thread has fewer, and keeps them
     */
    public void release(int permits) {
        enterKept();
        try {
            Native.check(() -> (int) RELEASE.invokeExact(c, permits));
            leave(permits);
        } finally {
            leave();
        }
    }

    /** Adds a permit, which no thread had, up to the semaphore's most: else {@link Code#OVERFLOW}. */
    public void add() {
        checked(() -> (int) ADD.invokeExact(c));
    }

    /**
     * Returns how many permits are free.
     *
     * @return the number
     */
    public int available() {
        return quickly(() -> Native.ask(() -> (int) AVAILABLE.invokeExact(c)));
    }
}
