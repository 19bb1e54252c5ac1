package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Optional;

/**
 * A lock that processes share, with bytes that it guards. A holder that dies, a process by whatever instruction or a
 * thread that ends, is told to the next holder at once, and loses nothing.
 */
public final class Mutex extends Handle {
    private static final MethodHandle OPEN =
            Native.function("outlive_mutex_open", INT, LONG, ADDRESS, INT, LONG, ADDRESS, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_mutex_close", LONG);
    private static final MethodHandle VALUE = Native.function("outlive_mutex_value", LONG, LONG);
    private static final MethodHandle LOCK = Native.function("outlive_mutex_lock_until", INT, LONG, LONG);
    private static final MethodHandle RESET = Native.function("outlive_mutex_lock_to_reset", INT, LONG, LONG);
    private static final MethodHandle UNLOCK = Native.function("outlive_mutex_unlock", INT, LONG);
    private static final MethodHandle CONSISTENT = Native.function("outlive_mutex_consistent", INT, LONG);
    private static final MethodHandle NOT_RECOVERABLE = Native.function("outlive_mutex_mark_not_recoverable", INT, LONG);
    private static final MethodHandle HOLDER = Native.function("outlive_mutex_holder", INT, LONG, ADDRESS);

    final long c;
    private final long size;
    private final long valueAt;

    private Mutex(long c, long size) {
        super(false);
        this.c = c;
        this.size = size;
        this.valueAt = Native.ask(() -> (long) VALUE.invokeExact(c));
    }

    /**
     * Opens the mutex of that name, or makes it. It is the same as a mutex of any other language with as many bytes.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param size how many bytes it guards, the same in every opening
     * @param initial a new mutex's value, of as many bytes; null: zeroes
     * @return the mutex
     */
    public static Mutex open(Domain domain, String name, Opening how, int size, byte[] initial) {
        checkInitial(size, initial);
        return new Mutex(
                domain.opened(name, (arena, text, to) -> (int) OPEN.invokeExact(
                        domain.c, text, how.ordinal(), (long) size, initialOf(arena, initial), to)),
                size);
    }

    static void checkInitial(int size, byte[] initial) {
        if (size < 0 || initial != null && initial.length != size) {
            throw new IllegalArgumentException("a lock's initial value has its size");
        }
    }

    static MemorySegment initialOf(Arena arena, byte[] initial) {
        return initial == null ? MemorySegment.NULL : Native.copy(arena, initial);
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /** A mutex that the thread holds. */
    private final class Held extends Guard {
        Held(boolean ownerDied) {
            super(Mutex.this, valueAt, size, ownerDied);
        }

        @Override
        int unlock() throws Throwable {
            return (int) UNLOCK.invokeExact(c);
        }

        @Override
        int consistent() throws Throwable {
            return (int) CONSISTENT.invokeExact(c);
        }

        @Override
        int notRecoverable() throws Throwable {
            return (int) NOT_RECOVERABLE.invokeExact(c);
        }
    }

    /**
     * Waits for the mutex, in a platform thread.
     *
     * @param wait for how long
     * @return the guard, to be closed in this thread
     * @throws OutliveException {@link Code#OWNER_DIED}: an owner died with it and no holder has repaired it; this
     *     thread does not hold it then, and calls {@link #lockToRepair}. {@link Code#NOT_RECOVERABLE},
     *     {@link Code#DEADLOCK}, {@link Code#TIMED_OUT}, {@link Code#BUSY}
     * @throws InterruptedException the thread was interrupted
     */
    public Guard lock(Wait wait) throws InterruptedException {
        Guard guard = lockToRepair(wait);
        if (guard.ownerDied()) {
            guard.close();
            throw diedUnrepaired();
        }
        return guard;
    }

    static OutliveException diedUnrepaired() {
        return new OutliveException(Code.OWNER_DIED, "an owner died with the lock, and no holder has repaired it");
    }

    /**
     * Waits for the mutex as {@link #lock} does, and holds it also after an owner's death: {@link Guard#ownerDied}
     * tells. The holder makes the value whole and calls {@link Guard#markConsistent}.
     *
     * @param wait for how long
     * @return the guard
     * @throws InterruptedException the thread was interrupted
     */
    public Guard lockToRepair(Wait wait) throws InterruptedException {
        return take(wait, until -> (int) LOCK.invokeExact(c, until));
    }

    /**
     * Takes a mutex in any state, recoverable or not, to make it whole.
     *
     * @param wait for how long, for a living owner
     * @return the guard
     * @throws InterruptedException the thread was interrupted
     */
    public Guard lockToReset(Wait wait) throws InterruptedException {
        return take(wait, until -> (int) RESET.invokeExact(c, until));
    }

    private Guard take(Wait wait, Native.Timed lock) throws InterruptedException {
        Guard.checkThread();
        enter();
        Guard taken = null;
        try {
            int code = slices(wait, Code.TIMED_OUT, lock);
            if (code != 0 && code != Code.OWNER_DIED.number) {
                throw Native.failure(code);
            }
            taken = new Held(code != 0);
            return taken;
        } finally {
            // A guard leaves when it ends.
            if (taken == null) {
                leave();
            }
        }
    }

    /**
     * Returns the thread that holds the mutex now, dead or alive.
     *
     * @return the thread; empty: none
     */
    public Optional<Peer> holder() {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment info = arena.allocate(Peer.SIZE, 8);
                int code = Native.code(() -> (int) HOLDER.invokeExact(c, info));
                if (code == Code.NOTHING.number) {
                    return Optional.empty();
                }
                Native.check(() -> code);
                return Optional.of(Peer.of(info));
            }
        });
    }
}
