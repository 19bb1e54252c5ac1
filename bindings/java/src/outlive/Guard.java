package outlive;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A lock that the thread holds. It is given back by {@link #close}, in the thread that took it: in any other that is
 * {@link Code#NOT_OWNER}, and the lock stays held.
 */
public abstract class Guard implements AutoCloseable {
    private final Handle lock;
    private final long valueAt;
    private final long size;
    // What it lends ends with it: a view from before raises an exception, and touches nothing.
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

    /** Gives the lock back, and every later locker gets {@link Code#NOT_RECOVERABLE}, until one resets it. */
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
     * again. An exception that leads here is told to no process. Closing it again has no effect.
     */
    @Override
    public void close() {
        if (!left) {
            Native.check(this::unlock);
            end();
        }
    }
}
