package outlive;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A lock that a thread holds. {@link #close} gives it back, in the thread that took it: in any other it throws
 * {@link Code#NOT_OWNER}, and the lock stays held.
 */
public abstract class Guard implements AutoCloseable {
    private final Handle lock;
    private final long valueAt;
    private final long size;
    // A segment from value() ends with the guard: a later access throws an exception, and touches nothing.
    private final Arena view = Arena.ofConfined();
    private boolean ownerDied;
    private boolean left;

    Guard(Handle lock, long valueAt, long size, boolean ownerDied) {
        this.lock = lock;
        this.valueAt = valueAt;
        this.size = size;
        this.ownerDied = ownerDied;
    }

    /** Refuses a thread that has no death of its own: the kernel knows its carrier alone. */
    static void checkThread() {
        if (Thread.currentThread().isVirtual()) {
            throw new IllegalStateException("a lock belongs to a platform thread: a virtual one may go on in another");
        }
    }

    abstract int unlock() throws Throwable;

    abstract int consistent() throws Throwable;

    abstract int notRecoverable() throws Throwable;

    /**
     * Returns what the lock guards, in shared memory, until it is given back.
     *
     * @return its bytes, for reading and writing, in this thread
     */
    public MemorySegment value() {
        return MemorySegment.ofAddress(valueAt).reinterpret(size, view, null);
    }

    /**
     * Reports whether an owner died with the lock and nothing has been repaired since.
     *
     * @return whether the value may be half-changed
     */
    public boolean ownerDied() {
        return ownerDied;
    }

    void inherit() {
        ownerDied = true;
    }

    /** Says that the value is whole again. */
    public void markConsistent() {
        held();
        Native.check(this::consistent);
        ownerDied = false;
    }

    /** Gives the lock back. Every later lock throws {@link Code#NOT_RECOVERABLE}, until a thread resets it. */
    public void markNotRecoverable() {
        held();
        Native.check(this::notRecoverable);
        end();
    }

    void held() {
        if (left) {
            throw new OutliveException(Code.NOT_OWNER, "this guard has given its lock back");
        }
    }

    /** Notes that the thread holds the lock no more. */
    void end() {
        left = true;
        view.close();
        lock.leave();
    }

    /**
     * Gives the lock back. If an owner had died and {@link #markConsistent} was not called, the next owner is told
     * of that death again. An exception that leads here is reported to no process. Closing it again has no effect.
     */
    @Override
    public void close() {
        if (!left) {
            Native.check(this::unlock);
            end();
        }
    }
}
