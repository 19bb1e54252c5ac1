package outlive;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * An object of the library that is open. It counts the calls inside it, so {@code close} may be called at any time: the
 * C object is released when the handle is closed and the last call has left.
 */
public abstract class Handle implements AutoCloseable {
    /** Nanoseconds that a wait sleeps before it looks whether its thread was interrupted or its handle closed. */
    private static final long SLICE = 100_000_000;

    /** Held by the thread inside, if the handle admits one at a time; else null. */
    private final Semaphore turn;

    private int users;
    private boolean closed;

    Handle(boolean exclusive) {
        turn = exclusive ? new Semaphore(1) : null;
    }

    /** Releases the C object. */
    abstract void release();

    /** What is done inside a handle. */
    interface Inside<T> {
        T run() throws InterruptedException;
    }

    /** What is done inside a handle, and never waits. */
    interface Quick<T> {
        T run();
    }

    synchronized void enter() {
        if (closed) {
            throw new IllegalStateException("the handle was closed");
        }
        users++;
    }

    /** Counts further users of a handle that the caller is inside of. */
    synchronized void stay(int more) {
        users += more;
    }

    /** Enters a handle that is open, or that is kept by something taken in it (a lock). */
    synchronized void enterKept() {
        if (closed && users == 0) {
            throw new IllegalStateException("the handle was closed");
        }
        users++;
    }

    void leave() {
        leave(1);
    }

    void leave(int fewer) {
        boolean last;
        synchronized (this) {
            users -= fewer;
            last = closed && users == 0;
        }
        if (last) {
            release();
        }
    }

    synchronized boolean isClosed() {
        return closed;
    }

    /** Ends the handle. Calls that wait in it end with an IllegalStateException. Closing it again has no effect. */
    @Override
    public void close() {
        boolean last;
        synchronized (this) {
            last = !closed && users == 0;
            closed = true;
        }
        if (last) {
            release();
        }
    }

    /** Calls {@code act} inside the handle; if the handle admits one thread at a time, when no other is inside. */
    <T> T inside(Wait wait, Inside<T> act) throws InterruptedException {
        enter();
        try {
            if (turn == null) {
                return act.run();
            }
            if (!turn.tryAcquire(Math.max(wait.nanoseconds, 0), TimeUnit.NANOSECONDS)) {
                throw new OutliveException(
                        wait == Wait.NOT ? Code.BUSY : Code.TIMED_OUT, "another thread is inside this handle");
            }
            try {
                if (isClosed()) {
                    throw new IllegalStateException("the handle was closed");
                }
                return act.run();
            } finally {
                turn.release();
            }
        } finally {
            leave();
        }
    }

    /** Calls {@code act}, which never waits. The caller may wait for its turn, which an interrupt does not end. */
    <T> T quickly(Quick<T> act) {
        enter();
        try {
            if (turn == null) {
                return act.run();
            }
            turn.acquireUninterruptibly();
            try {
                if (isClosed()) {
                    throw new IllegalStateException("the handle was closed");
                }
                return act.run();
            } finally {
                turn.release();
            }
        } finally {
            leave();
        }
    }

    void checked(Native.Call call) {
        quickly(() -> {
            Native.check(call);
            return null;
        });
    }

    /**
     * Makes a call that waits, again and again, until it returns anything but {@code over}, the time has passed, the
     * thread is interrupted or the handle closed. A call that has timed out must have done nothing. Returns the code.
     */
    int slices(Wait wait, Code over, Native.Timed call) throws InterruptedException {
        if (wait == Wait.NOT) {
            return Native.code(() -> call.run(Native.TRY));
        }
        long begun = System.nanoTime();
        while (true) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            long left = Math.max(wait.nanoseconds - (System.nanoTime() - begun), 0);
            long until = Native.after(Math.min(left, SLICE));
            int code = Native.code(() -> call.run(until));
            if (code != over.number || left <= SLICE) {
                return code;
            }
            if (isClosed()) {
                throw new IllegalStateException("the handle was closed");
            }
        }
    }

    /** The same, of a call that must not fail. */
    void await(Wait wait, Native.Timed call) throws InterruptedException {
        await(wait, Code.TIMED_OUT, call);
    }

    void await(Wait wait, Code over, Native.Timed call) throws InterruptedException {
        int code = slices(wait, over, call);
        if (code != 0) {
            throw Native.failure(code);
        }
    }
}
