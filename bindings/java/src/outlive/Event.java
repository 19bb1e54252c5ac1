package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** Thirty-one bits to wait for. What was set stays set when its setter dies. */
public final class Event extends Handle {
    private static final MethodHandle OPEN = Native.function("outlive_event_open", INT, LONG, ADDRESS, INT, INT, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_event_close", LONG);
    private static final MethodHandle SET = Native.function("outlive_event_set", INT, LONG, INT, ADDRESS);
    private static final MethodHandle CLEAR = Native.function("outlive_event_clear", INT, LONG, INT, ADDRESS);
    private static final MethodHandle BITS = Native.function("outlive_event_bits", INT, LONG);
    private static final MethodHandle ANY = Native.function("outlive_event_wait_any", INT, LONG, INT, LONG, ADDRESS);
    private static final MethodHandle ALL = Native.function("outlive_event_wait_all", INT, LONG, INT, LONG, ADDRESS);

    private final long c;

    private Event(long c) {
        super(false);
        this.c = c;
    }

    /** What becomes of an event's bits. */
    public enum Reset {
        /** As in an existing event; a new one is {@link #MANUAL}. */
        ANY,
        /** Bits stay set until they are cleared. */
        MANUAL,
        /** A waiter clears the bits that it waited for. */
        AUTOMATIC
    }

    /**
     * Opens the event of that name, or makes it.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param reset what becomes of its bits
     * @return the event
     */
    public static Event open(Domain domain, String name, Opening how, Reset reset) {
        return new Event(domain.opened(name, (arena, text, to) ->
                (int) OPEN.invokeExact(domain.c, text, how.ordinal(), reset.ordinal(), to)));
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /**
     * Sets bits and wakes those that wait for them.
     *
     * @param bits the bits
     */
    public void set(int bits) {
        checked(() -> (int) SET.invokeExact(c, bits, MemorySegment.NULL));
    }

    /**
     * Clears bits.
     *
     * @param bits the bits
     */
    public void clear(int bits) {
        checked(() -> (int) CLEAR.invokeExact(c, bits, MemorySegment.NULL));
    }

    /**
     * Returns the bits that are set.
     *
     * @return the bits
     */
    public int bits() {
        return quickly(() -> Native.ask(() -> (int) BITS.invokeExact(c)));
    }

    private int wait(MethodHandle how, int bits, Wait wait) throws InterruptedException {
        return inside(wait, () -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment seen = arena.allocate(INT);
                await(wait, until -> (int) how.invokeExact(c, bits, until, seen));
                return seen.get(INT, 0);
            }
        });
    }

    /**
     * Waits until one of the bits is set.
     *
     * @param bits the bits
     * @param wait for how long
     * @return those of them that are set
     * @throws InterruptedException the thread was interrupted
     */
    public int waitAny(int bits, Wait wait) throws InterruptedException {
        return wait(ANY, bits, wait);
    }

    /**
     * Waits until all of the bits are set.
     *
     * @param bits the bits
     * @param wait for how long
     * @return the bits
     * @throws InterruptedException the thread was interrupted
     */
    public int waitAll(int bits, Wait wait) throws InterruptedException {
        return wait(ALL, bits, wait);
    }
}
