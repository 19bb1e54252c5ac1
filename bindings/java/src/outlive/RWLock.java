package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** A lock for readers together or one writer alone, of all processes, with bytes that it guards. */
public final class RWLock extends Handle {
    private static final MethodHandle OPEN =
            Native.function("outlive_rwlock_open", INT, LONG, ADDRESS, INT, LONG, ADDRESS, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_rwlock_close", LONG);
    private static final MethodHandle VALUE = Native.function("outlive_rwlock_value", LONG, LONG);
    private static final MethodHandle READ = Native.function("outlive_rwlock_read", INT, LONG, LONG);
    private static final MethodHandle UPGRADABLE = Native.function("outlive_rwlock_upgradable_read", INT, LONG, LONG);
    private static final MethodHandle WRITE = Native.function("outlive_rwlock_write", INT, LONG, LONG);
    private static final MethodHandle UNLOCK = Native.function("outlive_rwlock_unlock", INT, LONG);
    private static final MethodHandle CONSISTENT = Native.function("outlive_rwlock_consistent", INT, LONG);
    private static final MethodHandle NOT_RECOVERABLE = Native.function("outlive_rwlock_mark_not_recoverable", INT, LONG);
    private static final MethodHandle UPGRADE = Native.function("outlive_rwlock_upgrade", INT, LONG, LONG);
    private static final MethodHandle DOWNGRADE = Native.function("outlive_rwlock_downgrade", INT, LONG);
    private static final MethodHandle TO_UPGRADABLE = Native.function("outlive_rwlock_downgrade_to_upgradable", INT, LONG);
    private static final MethodHandle RESET = Native.function("outlive_rwlock_reset", INT, LONG, LONG);

    private final long c;
    private final long size;
    private final long valueAt;

    private RWLock(long c, long size) {
        super(false);
        this.c = c;
        this.size = size;
        this.valueAt = Native.ask(() -> (long) VALUE.invokeExact(c));
    }

    /**
     * Opens the lock of that name, or makes it.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param size how many bytes it guards, the same in every opening
     * @param initial a new lock's value, of as many bytes; null: zeroes
     * @return the lock
     */
    public static RWLock open(Domain domain, String name, Opening how, int size, byte[] initial) {
        Mutex.checkInitial(size, initial);
        return new RWLock(
                domain.opened(name, (arena, text, to) -> (int) OPEN.invokeExact(
                        domain.c, text, how.ordinal(), (long) size, Mutex.initialOf(arena, initial), to)),
                size);
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /** How a thread holds the lock. */
    public enum Access {
        /** Beside other readers. */
        READ,
        /** Beside readers, as the only one that may become the writer. */
        UPGRADABLE_READ,
        /** Alone. */
        WRITE
    }

    /** The lock, held by a thread. Only a writer writes to its value. */
    public final class Held extends Guard {
        private Held(boolean ownerDied) {
            super(RWLock.this, valueAt, size, ownerDied);
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

        /**
         * Makes an upgradable reader the writer, when the other readers have left. If it fails, the thread reads on.
         *
         * @param wait for how long
         * @throws InterruptedException the thread was interrupted
         */
        public void upgrade(Wait wait) throws InterruptedException {
            held();
            await(wait, until -> (int) UPGRADE.invokeExact(c, until));
        }

        /** Makes a writer, or an upgradable reader, a reader. */
        public void downgrade() {
            held();
            Native.check(() -> (int) DOWNGRADE.invokeExact(c));
        }

        /** Makes a writer an upgradable reader. */
        public void downgradeToUpgradable() {
            held();
            Native.check(() -> (int) TO_UPGRADABLE.invokeExact(c));
        }
    }

    /**
     * Waits for the lock, in a platform thread, with the errors of {@link Mutex#lock}. A reader's death delays no
     * other process.
     *
     * @param access how to hold it
     * @param wait for how long
     * @return the lock, to be closed in this thread
     * @throws InterruptedException the thread was interrupted
     */
    public Held lock(Access access, Wait wait) throws InterruptedException {
        Held held = lockToRepair(access, wait);
        if (held.ownerDied()) {
            held.close();
            throw Mutex.diedUnrepaired();
        }
        return held;
    }

    /**
     * Waits for the lock as {@link #lock} does, and holds it also after a writer's death, then as a writer, whatever
     * was asked for: {@link Guard#ownerDied} tells.
     *
     * @param access how to hold it
     * @param wait for how long
     * @return the lock
     * @throws InterruptedException the thread was interrupted
     */
    public Held lockToRepair(Access access, Wait wait) throws InterruptedException {
        Guard.checkThread();
        enter();
        Held taken = null;
        try {
            int code = slices(wait, Code.TIMED_OUT, until -> switch (access) {
                case READ -> (int) READ.invokeExact(c, until);
                case UPGRADABLE_READ -> (int) UPGRADABLE.invokeExact(c, until);
                case WRITE -> (int) WRITE.invokeExact(c, until);
            });
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
     * Makes a lock usable again that was marked not recoverable, with this value. The processes that use it have
     * agreed on which does that.
     *
     * @param value the value, of the lock's size
     * @param wait for how long
     * @throws InterruptedException the thread was interrupted
     */
    public void reset(byte[] value, Wait wait) throws InterruptedException {
        if (value.length != size) {
            throw new IllegalArgumentException("a lock's value has its size");
        }
        inside(wait, () -> {
            MemorySegment to = MemorySegment.ofAddress(valueAt).reinterpret(size);
            MemorySegment.copy(value, 0, to, ValueLayout.JAVA_BYTE, 0, value.length);
            await(wait, until -> (int) RESET.invokeExact(c, until));
            return null;
        });
    }
}
