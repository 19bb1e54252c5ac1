import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import outlive.Code;
import outlive.Domain;
import outlive.Guard;
import outlive.Mutex;
import outlive.Opening;
import outlive.OutliveException;
import outlive.Wait;

/**
 * A count and its double under one lock. A process that is killed between the two writes leaves them apart; the next
 * one is told, and repairs. Start it several times at once, and kill some.
 */
final class Counter {
    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;

    private Counter() {}

    /** Locks, and repairs what a dead owner has left. */
    private static Guard locked(Mutex mutex, Wait wait) throws InterruptedException {
        try {
            return mutex.lock(wait);
        } catch (OutliveException error) {
            if (error.code() != Code.OWNER_DIED) {
                throw error;
            }
        }
        Guard guard = mutex.lockToRepair(wait);
        if (guard.ownerDied()) {
            MemorySegment value = guard.value();
            value.set(LONG, 8, 2 * value.get(LONG, 0));
            guard.markConsistent();
            System.out.println("repaired after a death");
        }
        return guard;
    }

    /** Counts to 1,000 above what is there. */
    public static void main(String[] arguments) throws InterruptedException {
        Wait wait = Wait.upTo(Duration.ofSeconds(10));
        try (Domain domain = Domain.open();
                Mutex mutex = Mutex.open(domain, "count-and-double", Opening.OPEN_OR_CREATE, 16, null)) {
            for (int turn = 0; turn < 1000; turn++) {
                try (Guard guard = locked(mutex, wait)) {
                    MemorySegment value = guard.value();
                    value.set(LONG, 0, value.get(LONG, 0) + 1);
                    value.set(LONG, 8, 2 * value.get(LONG, 0));
                }
            }
            try (Guard guard = locked(mutex, wait)) {
                long count = guard.value().get(LONG, 0);
                long twice = guard.value().get(LONG, 8);
                System.out.println(count + ", and its double " + twice);
                if (twice != 2 * count) {
                    throw new AssertionError("apart");
                }
            }
        }
    }
}
