package outlive;

import java.time.Duration;

/** For how long a call may wait. */
public final class Wait {
    /** Without an end. A call still ends when what it waits for can never come because its peer died. */
    public static final Wait FOREVER = new Wait(Long.MAX_VALUE);
    /** Not at all: a lock that is held is {@link Code#BUSY}, anything else {@link Code#WOULD_BLOCK} or {@link Code#TIMED_OUT}. */
    public static final Wait NOT = new Wait(-1);

    final long nanoseconds;

    private Wait(long nanoseconds) {
        this.nanoseconds = nanoseconds;
    }

    /**
     * For so long at most.
     *
     * @param span the time, not negative
     * @return the wait
     */
    public static Wait upTo(Duration span) {
        if (span.isNegative()) {
            throw new IllegalArgumentException("a wait is not negative");
        }
        try {
            return new Wait(span.toNanos());
        } catch (ArithmeticException tooLong) {
            return FOREVER;
        }
    }
}
