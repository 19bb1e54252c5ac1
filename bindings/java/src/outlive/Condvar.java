package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.invoke.MethodHandle;

/** A condition variable that processes share. */
public final class Condvar extends Handle {
    private static final MethodHandle OPEN = Native.function("outlive_condvar_open", INT, LONG, ADDRESS, INT, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_condvar_close", LONG);
    private static final MethodHandle WAIT = Native.function("outlive_condvar_wait_until", INT, LONG, LONG, LONG);
    private static final MethodHandle NOTIFY_ONE = Native.function("outlive_condvar_notify_one", INT, LONG);
    private static final MethodHandle NOTIFY_ALL = Native.function("outlive_condvar_notify_all", INT, LONG);

    private final long c;

    private Condvar(long c) {
        super(false);
        this.c = c;
    }

    /**
     * Opens the condition variable of that name, or makes it.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @return the condition variable
     */
    public static Condvar open(Domain domain, String name, Opening how) {
        return new Condvar(domain.opened(name, (arena, text, to) -> (int) OPEN.invokeExact(domain.c, text, how.ordinal(), to)));
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /**
     * Unlocks the mutex, waits for a notification, and locks it again. It may return without one, and does so every
     * tenth of a second: look at the condition in a loop that has its own end. {@link Guard#ownerDied} tells whether
     * the mutex was inherited meanwhile.
     *
     * @param mutex the mutex
     * @param guard its guard, in the thread that holds it
     * @throws InterruptedException the thread was interrupted; it holds the mutex
     */
    public void await(Mutex mutex, Guard guard) throws InterruptedException {
        guard.held();
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        quickly(() -> {
            long until = Native.after(100_000_000);
            int code = Native.code(() -> (int) WAIT.invokeExact(c, mutex.c, until));
            if (code == Code.OWNER_DIED.number) {
                guard.inherit();
            } else if (code == Code.NOT_RECOVERABLE.number) {
                guard.end();
                throw Native.failure(code);
            } else if (code != 0 && code != Code.TIMED_OUT.number) {
                throw Native.failure(code);
            }
            return null;
        });
    }

    /** Wakes one waiter. */
    public void notifyOne() {
        checked(() -> (int) NOTIFY_ONE.invokeExact(c));
    }

    /** Wakes all waiters. */
    public void notifyEach() {
        checked(() -> (int) NOTIFY_ALL.invokeExact(c));
    }
}
