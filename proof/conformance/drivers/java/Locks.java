import java.lang.foreign.ValueLayout;
import java.util.HashMap;
import java.util.Map;
import outlive.Condvar;
import outlive.Guard;
import outlive.Mutex;
import outlive.Opening;
import outlive.OutliveException;
import outlive.RWLock;
import outlive.RWLock.Access;
import outlive.Wait;

/** {@code lock.}, {@code rw.} and {@code cond.} */
final class Locks {
    private static final Map<String, Mutex> MUTEXES = new HashMap<>();
    private static final Map<String, RWLock> RW_LOCKS = new HashMap<>();
    private static final Map<String, Condvar> CONDVARS = new HashMap<>();
    private static final Map<String, Guard> GUARDS = new HashMap<>();

    private Locks() {}

    private static long value(Guard held) {
        return held.value().get(ValueLayout.JAVA_LONG, 0);
    }

    private static Driver.Whole told(Guard held) {
        return new Driver.Whole((held.ownerDied() ? "owner-died " : "ok ") + Long.toUnsignedString(value(held)));
    }

    private static Driver.Whole got(String name, Guard held) {
        GUARDS.put(name, held);
        return told(held);
    }

    private static Object within(String[] w) throws Exception {
        try (Guard held = MUTEXES.get(w[0]).lockToRepair(Wait.FOREVER)) {
            Driver.OUT.println(got(w[0], held).answer());
            Driver.serve("lock.leave " + w[0]);
        }
        return null;
    }

    private static Object churn(String[] w) throws Exception {
        for (long end = System.nanoTime() + Line.milliseconds(w[1]).toNanos(); System.nanoTime() < end; ) {
            try (Guard held = MUTEXES.get(w[0]).lock(Wait.FOREVER)) {
                held.value().set(ValueLayout.JAVA_LONG, 0, value(held) + 1);
            }
        }
        return null;
    }

    private static Object awaits(String[] w) throws Exception {
        while (true) {
            try (Guard held = MUTEXES.get(w[0]).lock(Line.until(w[2]))) {
                if (value(held) >= Line.number(w[1])) {
                    return null;
                }
            }
        }
    }

    private static Object await(String[] w) throws Exception {
        long end = System.nanoTime() + Line.milliseconds(w[3]).toNanos();
        Guard held = GUARDS.get(w[1]);
        while (!held.ownerDied() && value(held) != Line.number(w[2])) {
            if (System.nanoTime() >= end) {
                return new Driver.Whole("error TIMED_OUT");
            }
            CONDVARS.get(w[0]).await(MUTEXES.get(w[1]), held);
        }
        return told(held);
    }

    /** What is done to a lock that is held. */
    private interface Held {
        void act(Guard held, String[] words) throws Exception;
    }

    private static Driver.Verb with(Held verb) {
        return w -> {
            verb.act(GUARDS.get(w[0]), w);
            return null;
        };
    }

    private static Driver.Verb access(Access access) {
        return w -> got(w[0], RW_LOCKS.get(w[0]).lockToRepair(access, Line.until(w[1])));
    }

    static void add() {
        for (String family : new String[] {"lock", "rw"}) {
            Driver.family(family, Map.of(
                    "set", with((held, w) -> held.value().set(ValueLayout.JAVA_LONG, 0, Line.number(w[1]))),
                    "consistent", with((held, w) -> held.markConsistent()),
                    "mark_not_recoverable", with((held, w) -> held.markNotRecoverable()),
                    "unlock", with((held, w) -> held.close())));
        }
        Driver.family("lock", Map.of(
                "open", w -> {
                    MUTEXES.put(w[0], Mutex.open(Driver.domain, w[0], Opening.OPEN_OR_CREATE, 8, Line.eight(w[1])));
                    return null;
                },
                "lock", w -> got(w[0], MUTEXES.get(w[0]).lockToRepair(Line.until(w[1]))),
                "reset", w -> {
                    try (Guard held = MUTEXES.get(w[0]).lockToReset(Line.until(w[2]))) {
                        held.value().set(ValueLayout.JAVA_LONG, 0, Line.number(w[1]));
                        held.markConsistent();
                    }
                    return null;
                },
                "holder", w -> MUTEXES.get(w[0]).holder().map(peer -> Integer.toString(peer.pid())).orElse("nobody"),
                "within", Locks::within,
                "churn", Locks::churn,
                "awaits", Locks::awaits));
        Driver.family("rw", Map.of(
                "open", w -> {
                    RW_LOCKS.put(w[0], RWLock.open(Driver.domain, w[0], Opening.OPEN_OR_CREATE, 8, Line.eight(w[1])));
                    return null;
                },
                "read", access(Access.READ),
                "upgradable", access(Access.UPGRADABLE_READ),
                "write", access(Access.WRITE),
                "upgrade", with((held, w) -> ((RWLock.Held) held).upgrade(Line.until(w[1]))),
                "downgrade", with((held, w) -> ((RWLock.Held) held).downgrade()),
                "downgrade_to_upgradable", with((held, w) -> ((RWLock.Held) held).downgradeToUpgradable()),
                "reset", w -> {
                    RW_LOCKS.get(w[0]).reset(Line.eight(w[1]), Line.until(w[2]));
                    return null;
                }));
        Driver.family("cond", Map.of(
                "open", w -> {
                    CONDVARS.put(w[0], Condvar.open(Driver.domain, w[0], Opening.OPEN_OR_CREATE));
                    return null;
                },
                "await", Locks::await,
                "notify", w -> {
                    CONDVARS.get(w[0]).notifyOne();
                    return null;
                },
                "notify_all", w -> {
                    CONDVARS.get(w[0]).notifyEach();
                    return null;
                }));
        Driver.family("misuse", Map.of(
                "unlock", w -> {
                    Mutex mutex = Mutex.open(Driver.domain, "misused-lock", Opening.OPEN_OR_CREATE, 8, null);
                    try (Guard held = mutex.lock(Wait.FOREVER)) {
                        // In another thread.
                        OutliveException[] refused = {null};
                        Thread other = new Thread(() -> {
                            try {
                                held.close();
                            } catch (OutliveException error) {
                                refused[0] = error;
                            }
                        });
                        other.start();
                        other.join();
                        if (refused[0] != null) {
                            throw refused[0];
                        }
                    }
                    return null;
                }));
    }
}
