package outlive;

import static outlive.Native.ADDRESS;
import static outlive.Native.INT;
import static outlive.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.time.Duration;

/** Carries each message of its publishers to all subscribers. */
public final class Topic extends Handle {
    private static final MethodHandle OPEN = Native.function("outlive_topic_open", INT, LONG, ADDRESS, INT, ADDRESS, ADDRESS);
    private static final MethodHandle CLOSE = Native.procedure("outlive_topic_close", LONG);
    private static final MethodHandle CONFIG = Native.function("outlive_topic_config", INT, LONG, ADDRESS);
    private static final MethodHandle PUBLISHER = Native.function("outlive_topic_publisher", INT, LONG, ADDRESS, ADDRESS);
    private static final MethodHandle SUBSCRIBER = Native.function("outlive_topic_subscriber", INT, LONG, ADDRESS, ADDRESS);

    private static final long OPTIONS = 72;

    private final long c;

    private Topic(long c) {
        super(false);
        this.c = c;
    }

    /** What a topic keeps for subscribers that come later. */
    public enum Durability {
        /** Not said; a new topic is {@link #TRANSIENT_LOCAL}. */
        ANY,
        /** A subscriber gets what is published while it is there. */
        VOLATILE,
        /** A later subscriber gets what living publishers have published. */
        TRANSIENT_LOCAL,
        /** Messages outlive their publishers. */
        PERSISTENT
    }

    /** How a topic is opened. What is not set takes what an existing topic has, and in a new one the default. */
    public static final class Options {
        /** The most bytes that the topic may take, 64 KiB to 6 GiB. */
        public long maxBytes;
        /** How many messages of each publisher are kept, 1 to 65,536. */
        public int depth;
        /** The most publishers at a time. */
        public int maxPublishers;
        /** The most subscribers at a time. */
        public int maxSubscribers;
        /** The most samples of a subscriber at a time. */
        public int maxSamples;
        /** The mode of the topic's file in a group's domain, as 0660. */
        public int mode;
        /** Publishers wait for subscribers that ask for it. */
        public boolean reliable;
        /** Publishers stamp headers that have no stamp. */
        public boolean stamps;
        /** Publishers do not. */
        public boolean noStamps;
        /** What the topic keeps. */
        public Durability durability = Durability.ANY;
        /** An existing topic is taken as it is. */
        public boolean asIs;

        /** None is set. */
        public Options() {}
    }

    /**
     * Opens the topic of that name, or makes it.
     *
     * @param domain the domain
     * @param name the name
     * @param how whether the name must exist
     * @param options its options
     * @return the topic
     */
    public static Topic open(Domain domain, String name, Opening how, Options options) {
        return new Topic(domain.opened(name, (arena, text, to) -> {
            MemorySegment given = Native.options(arena, OPTIONS);
            given.set(LONG, 8, options.maxBytes);
            given.set(INT, 16, options.depth);
            given.set(INT, 20, Native.flag(options.noStamps));
            given.set(INT, 28, Native.flag(options.reliable));
            given.set(INT, 40, options.durability.ordinal());
            given.set(INT, 44, Native.flag(options.asIs));
            given.set(INT, 48, options.maxPublishers);
            given.set(INT, 52, options.maxSubscribers);
            given.set(INT, 56, options.maxSamples);
            given.set(INT, 60, options.mode);
            given.set(INT, 64, Native.flag(options.stamps));
            return (int) OPEN.invokeExact(domain.c, text, how.ordinal(), given, to);
        }));
    }

    @Override
    void release() {
        Native.release(c, CLOSE);
    }

    /**
     * Returns the options that the topic has.
     *
     * @return the options
     */
    public Options config() {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment found = Native.options(arena, OPTIONS);
                Native.check(() -> (int) CONFIG.invokeExact(c, found));
                Options options = new Options();
                options.maxBytes = found.get(LONG, 8);
                options.depth = found.get(INT, 16);
                options.reliable = found.get(INT, 28) != 0;
                options.durability = Durability.values()[found.get(INT, 40)];
                options.maxPublishers = found.get(INT, 48);
                options.maxSubscribers = found.get(INT, 52);
                options.maxSamples = found.get(INT, 56);
                options.mode = found.get(INT, 60);
                options.stamps = found.get(INT, 64) != 0;
                options.noStamps = !options.stamps;
                return options;
            }
        });
    }

    private static long nanoseconds(Duration span) {
        return span == null ? 0 : span.toNanos();
    }

    /**
     * Returns a new publisher.
     *
     * @param maxBlocking how long a reliable subscriber may be in the way of a message; null: for as long as it lives;
     *     {@link Duration#ZERO}: not at all
     * @param period how often it means to publish; null: not said
     * @param lifespan how long a message counts; null: for ever
     * @return the publisher
     */
    public Publisher publisher(Duration maxBlocking, Duration period, Duration lifespan) {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment given = Native.options(arena, 32);
                // C's 1 is not at all, and its 0 for as long as it lives.
                given.set(LONG, 8, maxBlocking != null && maxBlocking.isZero() ? 1 : nanoseconds(maxBlocking));
                given.set(LONG, 16, nanoseconds(period));
                given.set(LONG, 24, nanoseconds(lifespan));
                MemorySegment to = arena.allocate(LONG);
                Native.check(() -> (int) PUBLISHER.invokeExact(c, given, to));
                return new Publisher(to.get(LONG, 0));
            }
        });
    }

    /**
     * Returns a new publisher without options.
     *
     * @return the publisher
     */
    public Publisher publisher() {
        return publisher(null, null, null);
    }

    /** A subscriber's options. */
    public static final class SubscriberOptions {
        /** Publishers wait until this subscriber has taken a message before they overwrite it. */
        public boolean reliable;
        /** How many messages of each publisher from before the subscription to receive. */
        public int history;
        /** The maximum lag behind each publisher, in messages; 0: the topic's depth. */
        public int keepLast;
        /** Which earlier messages to get at most. */
        public Durability durability = Durability.ANY;
        /** Selects messages; none: all. */
        public long[] keys = {};
        /** How often to expect a message ({@link Code#MISSED}); null: no such limit. */
        public Duration period;
        /** Whether it is told of each start of a publisher ({@link Code#NEW_SESSION}). */
        public boolean sessions;
        /** How old a message may be; null: any age. */
        public Duration maxAge;
        /** How long a publisher may live and do nothing ({@link Code#NOT_LIVELY}); null: it is told of none of that. */
        public Duration liveliness;

        /** None is set. */
        public SubscriberOptions() {}
    }

    /**
     * Returns a new subscriber.
     *
     * @param options its options
     * @return the subscriber
     */
    public Subscriber subscriber(SubscriberOptions options) {
        return quickly(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment given = Native.options(arena, 72);
                given.set(INT, 8, Native.flag(options.reliable));
                given.set(INT, 12, options.history);
                given.set(INT, 16, options.keepLast);
                given.set(INT, 20, options.durability.ordinal());
                given.set(ADDRESS, 24, options.keys.length == 0 ? MemorySegment.NULL : arena.allocateFrom(LONG, options.keys));
                given.set(LONG, 32, options.keys.length);
                given.set(LONG, 40, nanoseconds(options.period));
                given.set(INT, 48, Native.flag(options.sessions));
                given.set(LONG, 56, nanoseconds(options.maxAge));
                given.set(LONG, 64, nanoseconds(options.liveliness));
                MemorySegment to = arena.allocate(LONG);
                Native.check(() -> (int) SUBSCRIBER.invokeExact(c, given, to));
                return new Subscriber(to.get(LONG, 0));
            }
        });
    }

    /**
     * What a publisher sends along with a message.
     *
     * @param stamp the time, in nanoseconds since 1970; 0: publishers fill it in
     * @param frame a frame of reference, sensor or stream
     * @param key what subscribers may select messages by
     */
    public record Header(long stamp, long frame, long key) {
        static final long SIZE = 56;

        MemorySegment in(Arena arena) {
            MemorySegment to = arena.allocate(SIZE, 8);
            to.set(LONG, 0, stamp);
            to.set(LONG, 8, frame);
            to.set(LONG, 16, key);
            return to;
        }

        static MemorySegment in(Arena arena, Header header) {
            return header == null ? MemorySegment.NULL : header.in(arena);
        }
    }

    /** Publishes messages to a topic. */
    public static final class Publisher extends Handle {
        private static final MethodHandle CLOSE = Native.procedure("outlive_publisher_close", LONG);
        private static final MethodHandle PUBLISH = Native.function(
                "outlive_publisher_publish_copy", INT, LONG, ADDRESS, LONG, ADDRESS, LONG, ADDRESS);
        private static final MethodHandle LOAN = Native.function("outlive_publisher_loan", INT, LONG, LONG, ADDRESS, ADDRESS);
        private static final MethodHandle SET_HEADER = Native.function("outlive_loan_set_header", INT, LONG, ADDRESS);
        private static final MethodHandle PUBLISH_LOAN =
                Native.function("outlive_publisher_publish", INT, LONG, LONG, LONG, ADDRESS);
        private static final MethodHandle RELEASE = Native.procedure("outlive_loan_release", LONG);
        private static final MethodHandle SUBSCRIBERS = Native.function("outlive_publisher_subscriber_count", INT, LONG);
        private static final MethodHandle MISSED = Native.function("outlive_publisher_missed", LONG, LONG);
        private static final MethodHandle ASSERT = Native.procedure("outlive_publisher_assert_liveliness", LONG);
        private static final MethodHandle PREFAULT = Native.function("outlive_publisher_prefault", INT, LONG, LONG, LONG);

        private final long c;

        private Publisher(long c) {
            super(true);
            this.c = c;
        }

        @Override
        void release() {
            Native.release(c, CLOSE);
        }

        /**
         * Publishes a copy of a message. It waits only for a reliable subscriber that has not taken the message that
         * would be overwritten; that one's death ends the wait at once. If this process dies, subscribers get the
         * whole message or none of it.
         *
         * @param message the message
         * @param header what to send along; null: nothing
         * @param wait for how long
         * @return the message's number
         * @throws OutliveException {@link Code#WOULD_BLOCK}, {@link Code#TIMED_OUT}: such a subscriber is in the way,
         *     {@link OutliveException#pid} is its process; {@link Code#TOO_LARGE}, {@link Code#NO_SPACE}
         * @throws InterruptedException the thread was interrupted, and nothing was published
         */
        public long publish(byte[] message, Header header, Wait wait) throws InterruptedException {
            return inside(wait, () -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment data = Native.copy(arena, message);
                    MemorySegment along = Header.in(arena, header);
                    MemorySegment sequence = arena.allocate(LONG);
                    await(wait, until ->
                            (int) PUBLISH.invokeExact(c, data, (long) message.length, along, until, sequence));
                    return sequence.get(LONG, 0);
                }
            });
        }

        /**
         * Lends memory for a message of that many bytes, to be written in place by this thread. Its contents are
         * arbitrary. If this process dies, its loans are free again.
         *
         * @param size the bytes, up to 1 GiB
         * @return the loan
         */
        public Loan loan(long size) {
            return quickly(() -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment to = arena.allocate(LONG);
                    MemorySegment data = arena.allocate(LONG);
                    Native.check(() -> (int) LOAN.invokeExact(c, size, to, data));
                    // The publisher has to outlive its loans.
                    enter();
                    return new Loan(to.get(LONG, 0), data.get(LONG, 0), size);
                }
            });
        }

        /** Memory of the topic's for a message, published without a copy. */
        public final class Loan implements AutoCloseable {
            private final long loan;
            private final Arena view = Arena.ofConfined();
            private final MemorySegment data;
            private boolean ended;

            private Loan(long loan, long address, long size) {
                this.loan = loan;
                this.data = MemorySegment.ofAddress(address).reinterpret(size, view, null);
            }

            /**
             * Returns the memory, for writing, until it is published or closed; after that each access raises an
             * IllegalStateException.
             *
             * @return the memory
             */
            public MemorySegment data() {
                return data;
            }

            /**
             * Publishes the message. The loan has ended, also after an error. An interrupt does not end its wait: a
             * failed call of the library takes the loan.
             *
             * @param header what to send along; null: nothing
             * @param wait for how long
             * @return the message's number
             */
            public long publish(Header header, Wait wait) {
                end();
                try (Arena arena = Arena.ofConfined()) {
                    return quickly(() -> {
                        MemorySegment sequence = arena.allocate(LONG);
                        if (header != null) {
                            MemorySegment along = header.in(arena);
                            Native.check(() -> (int) SET_HEADER.invokeExact(loan, along));
                        }
                        long until = wait == Wait.NOT ? Native.TRY
                                : wait == Wait.FOREVER ? Native.NEVER : Native.after(wait.nanoseconds);
                        Native.check(() -> (int) PUBLISH_LOAN.invokeExact(c, loan, until, sequence));
                        return sequence.get(LONG, 0);
                    });
                } finally {
                    leave();
                }
            }

            private void end() {
                if (ended) {
                    throw new IllegalStateException("the loan has ended");
                }
                ended = true;
                view.close();
            }

            /** Gives the loan back, unless it was published. */
            @Override
            public void close() {
                if (!ended) {
                    end();
                    try {
                        quickly(() -> {
                            Native.release(loan, RELEASE);
                            return null;
                        });
                    } finally {
                        leave();
                    }
                }
            }
        }

        /**
         * Makes room for messages before they are published.
         *
         * @param messages how many
         * @param size the bytes of each
         */
        public void prefault(long messages, long size) {
            checked(() -> (int) PREFAULT.invokeExact(c, messages, size));
        }

        /**
         * Returns how many subscribers the topic has.
         *
         * @return the number
         */
        public int subscriberCount() {
            return quickly(() -> Native.ask(() -> (int) SUBSCRIBERS.invokeExact(c)));
        }

        /**
         * Returns how many periods have passed without a message.
         *
         * @return the number
         */
        public long missed() {
            return quickly(() -> Native.ask(() -> (long) MISSED.invokeExact(c)));
        }

        /** Tells subscribers that this publisher does something. */
        public void assertLiveliness() {
            quickly(() -> {
                Native.release(c, ASSERT);
                return null;
            });
        }
    }

    /** Receives the messages of a topic: each subscriber gets all of them. */
    public static final class Subscriber extends Handle {
        private static final MethodHandle CLOSE = Native.procedure("outlive_subscriber_close", LONG);
        private static final MethodHandle RECV = Native.function("outlive_subscriber_recv", INT, LONG, ADDRESS, LONG);
        private static final MethodHandle LATEST = Native.function("outlive_subscriber_latest", INT, LONG, ADDRESS);
        private static final MethodHandle LOST = Native.function("outlive_subscriber_lost", LONG, LONG);
        private static final MethodHandle EXPIRED = Native.function("outlive_subscriber_expired", LONG, LONG);
        private static final MethodHandle MISSED = Native.function("outlive_subscriber_missed", LONG, LONG);
        private static final MethodHandle LAPSES = Native.function("outlive_subscriber_lapses", LONG, LONG);
        private static final MethodHandle LAG = Native.function("outlive_subscriber_lag", LONG, LONG);
        private static final MethodHandle PUBLISHERS = Native.function("outlive_subscriber_publisher_count", INT, LONG);

        private final long c;

        private Subscriber(long c) {
            super(true);
            this.c = c;
        }

        @Override
        void release() {
            Native.release(c, CLOSE);
        }

        /**
         * Receives the next message.
         *
         * @param wait for how long
         * @return the message
         * @throws OutliveException {@link Code#WOULD_BLOCK}, {@link Code#TIMED_OUT}; {@link Code#TOO_MANY_HELD}: close
         *     samples; and what the options ask for: {@link Code#MISSED}, {@link Code#LAGGED},
         *     {@link Code#NEW_SESSION}, {@link Code#NOT_LIVELY}, {@link Code#LIVELY}, {@link Code#OWNER_DIED}. After
         *     each, the next call goes on
         * @throws InterruptedException the thread was interrupted, and no message was taken
         */
        public Sample recv(Wait wait) throws InterruptedException {
            return inside(wait, () -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment to = arena.allocate(LONG);
                    await(wait, until -> (int) RECV.invokeExact(c, to, until));
                    return new Sample(to.get(LONG, 0));
                }
            });
        }

        /**
         * Returns the newest message, and passes over all before it.
         *
         * @return the message
         */
        public Sample latest() {
            return quickly(() -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment to = arena.allocate(LONG);
                    Native.check(() -> (int) LATEST.invokeExact(c, to));
                    return new Sample(to.get(LONG, 0));
                }
            });
        }

        private long number(MethodHandle call) {
            return quickly(() -> Native.ask(() -> (long) call.invokeExact(c)));
        }

        /**
         * Returns how many messages were overwritten before this subscriber took them.
         *
         * @return the number
         */
        public long lost() {
            return number(LOST);
        }

        /**
         * Returns how many messages were too old.
         *
         * @return the number
         */
        public long expired() {
            return number(EXPIRED);
        }

        /**
         * Returns how many periods have passed without a message.
         *
         * @return the number
         */
        public long missed() {
            return number(MISSED);
        }

        /**
         * Returns how often a publisher was not lively.
         *
         * @return the number
         */
        public long lapses() {
            return number(LAPSES);
        }

        /**
         * Returns how many messages there are to be received.
         *
         * @return the number
         */
        public long lag() {
            return number(LAG);
        }

        /**
         * Returns how many publishers the topic has.
         *
         * @return the number
         */
        public int publisherCount() {
            return quickly(() -> Native.ask(() -> (int) PUBLISHERS.invokeExact(c)));
        }
    }

    /**
     * A received message, read where it lies, by the thread that received it. It stays as it is until it is closed,
     * whatever its publisher does, also longer than its subscriber is open.
     */
    public static final class Sample implements AutoCloseable {
        private static final MethodHandle DATA = Native.function("outlive_sample_data", LONG, LONG);
        private static final MethodHandle SIZE = Native.function("outlive_sample_size", LONG, LONG);
        private static final MethodHandle HEADER = Native.function("outlive_sample_header", INT, LONG, ADDRESS);
        private static final MethodHandle SEQUENCE = Native.function("outlive_sample_sequence", LONG, LONG);
        private static final MethodHandle ORDER = Native.function("outlive_sample_order", LONG, LONG);
        private static final MethodHandle PUBLISHER = Native.function("outlive_sample_publisher", INT, LONG);
        private static final MethodHandle SESSION = Native.function("outlive_sample_session", INT, LONG);
        private static final MethodHandle ALIVE = Native.function("outlive_sample_publisher_alive", INT, LONG);
        private static final MethodHandle AGE = Native.function("outlive_sample_age", LONG, LONG);
        private static final MethodHandle RELEASE = Native.procedure("outlive_sample_release", LONG);

        private final long c;
        // What it shows ends with it.
        private final Arena view = Arena.ofConfined();
        private final MemorySegment data;

        private Sample(long c) {
            this.c = c;
            long address = Native.ask(() -> (long) DATA.invokeExact(c));
            long size = Native.ask(() -> (long) SIZE.invokeExact(c));
            this.data = MemorySegment.ofAddress(address).reinterpret(size, view, null).asReadOnly();
        }

        private void open() {
            if (!view.scope().isAlive()) {
                throw new IllegalStateException("the sample was closed");
            }
        }

        /**
         * Returns the message, for reading, until the sample is closed; after that each access raises an
         * IllegalStateException.
         *
         * @return the message
         */
        public MemorySegment data() {
            return data;
        }

        /**
         * Returns what was sent along with the message.
         *
         * @return the header
         */
        public Header header() {
            open();
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment to = arena.allocate(Header.SIZE, 8);
                Native.check(() -> (int) HEADER.invokeExact(c, to));
                return new Header(to.get(LONG, 0), to.get(LONG, 8), to.get(LONG, 16));
            }
        }

        private long number(MethodHandle call) {
            open();
            return Native.ask(() -> (long) call.invokeExact(c));
        }

        private int small(MethodHandle call) {
            open();
            return Native.ask(() -> (int) call.invokeExact(c));
        }

        /**
         * Returns the message's number among those of its publisher.
         *
         * @return the number
         */
        public long sequence() {
            return number(SEQUENCE);
        }

        /**
         * Returns the message's place among those of all publishers.
         *
         * @return the number
         */
        public long order() {
            return number(ORDER);
        }

        /**
         * Returns the token of the publisher's process.
         *
         * @return the token
         */
        public int publisher() {
            return small(PUBLISHER);
        }

        /**
         * Returns the number of the publisher's start.
         *
         * @return the number
         */
        public int session() {
            return small(SESSION);
        }

        /**
         * Reports whether the publisher's process lives.
         *
         * @return whether it lives
         */
        public boolean isPublisherAlive() {
            return small(ALIVE) == 1;
        }

        /**
         * Returns how old the message is, by its stamp.
         *
         * @return its age; null: it has no stamp
         */
        public Duration age() {
            long age = number(AGE);
            return age == -1 ? null : Duration.ofNanos(age);
        }

        /** Gives the message back, in the thread that received it. Closing it again has no effect. */
        @Override
        public void close() {
            if (view.scope().isAlive()) {
                view.close();
                Native.release(c, RELEASE);
            }
        }
    }
}
