package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** The latest value under a name, of bytes: one writer, any number of readers, and none waits for another. */
public final class State extends Handle {
    private static final MethodHandle OPEN =
            Native.function("outlive_state_open", INT, LONG, ADDRESS, INT, LONG, ADDRESS, LONG, ADDRESS);
    private static final MethodHandle OPEN_FIXED =
            Native.function("outlive_state_open_fixed", INT, LONG, ADDRESS, INT, LONG, ADDRESS, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_state_close", LONG);
    private static final MethodHandle GET = Native.function("outlive_state_get", INT, LONG, ADDRESS, LONG, ADDRESS, ADDRESS);
    private static final MethodHandle CAPACITY = Native.function("outlive_state_capacity", LONG, LONG);
    private static final MethodHandle WAIT_CHANGED =
            Native.function("outlive_state_wait_changed", INT, LONG, LONG, LONG, ADDRESS);
    private static final MethodHandle WRITER = Native.function("outlive_state_writer", INT, LONG, LONG, ADDRESS);

    private final long c;

    private State(long c) {
        super(false);
        this.c = c;
    }

    /**
     * Opens the state of that name, or makes it, with values of up to so many bytes.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param capacity the most bytes of a value; 0 with {@link Opening#OPEN}: as it is
     * @param initial a new state's first value; null: an empty one
     * @return the state
     */
    public static State open(Domain domain, String name, Opening how, long capacity, byte[] initial) {
        return new State(domain.opened(name, (arena, text, to) -> (int) OPEN.invokeExact(
                domain.c, text, how.ordinal(), capacity, Mutex.initialOf(arena, initial),
                initial == null ? 0L : (long) initial.length, to)));
    }

    /**
     * Opens the state of that name, or makes it, whose values all have as many bytes as this one: those of one type in
     * other languages.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param initial a new state's first value
     * @return the state
     */
    public static State openFixed(Domain domain, String name, Opening how, byte[] initial) {
        return new State(domain.opened(name, (arena, text, to) -> (int) OPEN_FIXED.invokeExact(
                domain.c, text, how.ordinal(), (long) initial.length, Native.copy(arena, initial), to)));
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /**
     * A value and its version.
     *
     * @param data the value
     * @param version the version, which grows with each set
     */
    public record Value(byte[] data, long version) {}

    /**
     * Returns the latest value, whole. It never waits; if the writer died in the middle of a set, this is the value
     * before.
     *
     * @return the value
     */
    public Value get() {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                long capacity = Native.ask(() -> (long) CAPACITY.invokeExact(c));
                MemorySegment to = arena.allocate(Math.max(capacity, 1));
                MemorySegment size = arena.allocate(LONG);
                MemorySegment version = arena.allocate(LONG);
                Native.check(() -> (int) GET.invokeExact(c, to, capacity, size, version));
                return new Value(to.asSlice(0, size.get(LONG, 0)).toArray(ValueLayout.JAVA_BYTE), version.get(LONG, 0));
            }
        });
    }

    /**
     * Waits until the value has another version.
     *
     * @param seen the version
     * @param wait for how long
     * @return the version now
     * @throws OutliveException {@link Code#PEER_DIED}: the writer is dead; {@link Code#TIMED_OUT}
     * @throws InterruptedException the thread was interrupted
     */
    public long waitChanged(long seen, Wait wait) throws InterruptedException {
        return inside(wait, () -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment version = arena.allocate(LONG);
                await(wait, until -> (int) WAIT_CHANGED.invokeExact(c, seen, until, version));
                return version.get(LONG, 0);
            }
        });
    }

    /**
     * Returns the state's writer, waiting for a living one to close or to die.
     *
     * @param wait for how long
     * @return the writer
     * @throws OutliveException {@link Code#BUSY}: another writer is alive
     * @throws InterruptedException the thread was interrupted
     */
    public Writer writer(Wait wait) throws InterruptedException {
        return inside(wait, () -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment to = arena.allocate(LONG);
                await(wait, Code.BUSY, until -> (int) WRITER.invokeExact(c, until, to));
                return new Writer(to.get(LONG, 0));
            }
        });
    }

    /** Sets the values of a state. */
    public static final class Writer extends Handle {
        private static final MethodHandle CLOSE = Native.procedure("outlive_state_writer_close", LONG);
        private static final MethodHandle SET = Native.function("outlive_state_writer_set", INT, LONG, ADDRESS, LONG, ADDRESS);
        private static final MethodHandle PREFAULT = Native.function("outlive_state_writer_prefault", INT, LONG, LONG);

        private final long c;

        private Writer(long c) {
            super(true);
            this.c = c;
        }

        @Override
        void release() {
            Native.release(c, CLOSE);
        }

        /**
         * Sets the value. It waits for no reader.
         *
         * @param value the value
         * @return its version
         */
        public long set(byte[] value) {
            return quickly(() -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment data = Native.copy(arena, value);
                    MemorySegment version = arena.allocate(LONG);
                    Native.check(() -> (int) SET.invokeExact(c, data, (long) value.length, version));
                    return version.get(LONG, 0);
                }
            });
        }

        /**
         * Makes room for readers before they come.
         *
         * @param readers how many
         */
        public void prefault(long readers) {
            checked(() -> (int) PREFAULT.invokeExact(c, readers));
        }
    }
}
