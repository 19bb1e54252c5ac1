import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import outlive.Code;
import outlive.Opening;
import outlive.OutliveException;
import outlive.Topic;
import outlive.Topic.Durability;
import outlive.Wait;

/** {@code topic.} and {@code sample.} */
final class Topics {
    private static final Map<String, Topic> TOPICS = new HashMap<>();
    private static final Map<String, Topic.Publisher> PUBLISHERS = new HashMap<>();
    private static final Map<String, Topic.Subscriber> SUBSCRIBERS = new HashMap<>();
    private static final Map<String, Long> PUBLISHED = new HashMap<>();
    // Of which only the number counts.
    private static final List<Topic.Publisher> CROWD_PUBLISHERS = new ArrayList<>();
    private static final List<Topic.Subscriber> CROWD_SUBSCRIBERS = new ArrayList<>();
    // There once: what was taken and lent last.
    private static Topic.Sample sample;
    private static Topic.Publisher.Loan loan;

    private Topics() {}

    private static Durability durability(String[] w) {
        return Line.has(w, "volatile") ? Durability.VOLATILE
                : Line.has(w, "persistent") ? Durability.PERSISTENT : Durability.ANY;
    }

    private static Object open(String[] w) {
        // It has no descriptions of types.
        for (String typed : new String[] {"track", "scan", "cloud", "other"}) {
            if (Line.has(w, typed)) {
                return new Driver.Whole("error Unsupported topic.open of a described type");
            }
        }
        Topic.Options options = new Topic.Options();
        options.maxBytes = Line.option(w, "max");
        options.depth = (int) Line.option(w, "depth");
        options.maxPublishers = (int) Line.option(w, "publishers");
        options.maxSubscribers = (int) Line.option(w, "subscribers");
        options.maxSamples = (int) Line.option(w, "samples");
        options.mode = (int) Line.option(w, "mode");
        options.stamps = Line.has(w, "stamps");
        options.noStamps = Line.has(w, "no-stamps");
        options.reliable = Line.has(w, "reliable");
        options.asIs = Line.has(w, "as-is");
        options.durability = durability(w);
        TOPICS.put(w[0], Topic.open(Driver.domain, w[0], Opening.OPEN_OR_CREATE, options));
        return null;
    }

    private static Object config(String[] w) {
        Topic.Options found = TOPICS.get(w[0]).config();
        return found.depth + " " + found.maxBytes + " " + (found.stamps ? 1 : 0) + " " + (found.reliable ? 1 : 0) + " "
                + found.durability.name().toLowerCase(Locale.ROOT) + " " + found.maxPublishers + " "
                + found.maxSubscribers + " " + found.maxSamples + " " + found.mode;
    }

    private static Object subscribe(String[] w) {
        Topic.SubscriberOptions options = new Topic.SubscriberOptions();
        options.reliable = Line.has(w, "reliable");
        options.sessions = Line.has(w, "sessions");
        options.durability = durability(w);
        options.history = (int) Line.option(w, "history");
        options.keepLast = (int) Line.option(w, "keep");
        options.maxAge = Line.span(w, "age");
        options.liveliness = Line.span(w, "lease");
        options.period = Line.span(w, "period");
        options.keys = Arrays.stream(w).filter(word -> word.startsWith("key="))
                .mapToLong(word -> Line.number(word.substring(4))).toArray();
        SUBSCRIBERS.put(w[0], TOPICS.get(w[0]).subscriber(options));
        return null;
    }

    private static long publish(String name, byte[] data) throws InterruptedException {
        return PUBLISHERS.get(name).publish(data, null, Wait.FOREVER);
    }

    private static void publishPattern(String name, String size) throws InterruptedException {
        long number = PUBLISHED.getOrDefault(name, 0L);
        publish(name, Line.pattern((int) Line.number(size), number));
        PUBLISHED.put(name, number + 1);
    }

    private static byte[] bytes(Topic.Sample of) {
        return of.data().toArray(ValueLayout.JAVA_BYTE);
    }

    private static String take(Topic.Sample taken) {
        if (sample != null) {
            sample.close();
        }
        sample = taken;
        return Line.show(bytes(taken));
    }

    /** Looks at a message of a flood. */
    private static void check(Topic.Sample taken) throws Exception {
        try (taken) {
            byte[] data = bytes(taken);
            if (!Line.isPattern(data, taken.sequence())) {
                throw Line.wrong(taken.sequence(), data);
            }
        }
    }

    private static long drainAll(Topic.Subscriber from) throws Exception {
        for (long count = 0; ; count++) {
            try {
                check(from.recv(Wait.NOT));
            } catch (OutliveException error) {
                if (error.code() != Code.WOULD_BLOCK) {
                    throw error;
                }
                return count;
            }
        }
    }

    private static String age() {
        Duration age = sample.age();
        return age == null ? "unknown" : age.compareTo(Duration.ofMinutes(1)) < 0 ? "fresh" : "old";
    }

    static void add() {
        Map<String, Driver.Verb> verbs = new HashMap<>();
        verbs.put("open", Topics::open);
        verbs.put("find", w -> {
            Topic.open(Driver.domain, w[0], Opening.OPEN, new Topic.Options()).close();
            return null;
        });
        verbs.put("config", Topics::config);
        verbs.put("payload", w -> Driver.domain.payload(w[0]));
        verbs.put("publisher", w -> {
            PUBLISHERS.put(w[0], TOPICS.get(w[0]).publisher(
                    Line.span(w, "blocking"), Line.span(w, "period"), Line.span(w, "lifespan")));
            return null;
        });
        verbs.put("subscriber", Topics::subscribe);
        verbs.put("unsubscribe", w -> {
            SUBSCRIBERS.get(w[0]).close();
            return null;
        });
        verbs.put("publish", w -> PUBLISHERS.get(w[0]).publish(
                Line.message(w[1]),
                new Topic.Header(Line.option(w, "stamp"), Line.option(w, "frame"), Line.option(w, "key")),
                Line.until(w[2])));
        verbs.put("publish_many", w -> {
            for (long count = Line.number(w[1]); count > 0; count--) {
                publishPattern(w[0], w[2]);
            }
            return null;
        });
        verbs.put("flood", w -> {
            for (long end = System.nanoTime() + Line.milliseconds(w[2]).toNanos(); System.nanoTime() < end; ) {
                publishPattern(w[0], w[1]);
            }
            return null;
        });
        verbs.put("publish_hex", w -> publish(w[0], HexFormat.of().parseHex(w[1])));
        verbs.put("loan", w -> {
            byte[] data = Line.message(w[1]);
            loan = PUBLISHERS.get(w[0]).loan(data.length);
            MemorySegment.copy(data, 0, loan.data(), ValueLayout.JAVA_BYTE, 0, data.length);
            return null;
        });
        verbs.put("publish_loan", w -> loan.publish(null, Wait.FOREVER));
        verbs.put("recv", w -> take(SUBSCRIBERS.get(w[0]).recv(Line.until(w[1]))));
        verbs.put("recv_hex", w -> {
            try (Topic.Sample taken = SUBSCRIBERS.get(w[0]).recv(Line.until(w[1]))) {
                return HexFormat.of().formatHex(bytes(taken));
            }
        });
        verbs.put("latest", w -> take(SUBSCRIBERS.get(w[0]).latest()));
        verbs.put("drain", w -> {
            for (long count = Line.number(w[1]); count > 0; count--) {
                check(SUBSCRIBERS.get(w[0]).recv(Line.until(w[2])));
            }
            return null;
        });
        verbs.put("drain_all", w -> drainAll(SUBSCRIBERS.get(w[0])));
        verbs.put("consume", w -> {
            for (long end = System.nanoTime() + Line.milliseconds(w[1]).toNanos(); System.nanoTime() < end; ) {
                SUBSCRIBERS.get(w[0]).recv(Line.until(w[1])).close();
            }
            return null;
        });
        verbs.put("crowd", w -> {
            for (long count = Line.number(w[1]); count > 0; count--) {
                CROWD_PUBLISHERS.add(TOPICS.get(w[0]).publisher());
            }
            for (long count = Line.number(w[2]); count > 0; count--) {
                CROWD_SUBSCRIBERS.add(TOPICS.get(w[0]).subscriber(new Topic.SubscriberOptions()));
            }
            return null;
        });
        verbs.put("crowd_publish", w -> {
            for (Topic.Publisher one : CROWD_PUBLISHERS) {
                one.publish(Line.pattern((int) Line.number(w[1]), 0), null, Wait.FOREVER);
            }
            return null;
        });
        verbs.put("crowd_recv", w -> {
            long count = 0;
            for (Topic.Subscriber one : CROWD_SUBSCRIBERS) {
                count += drainAll(one);
            }
            return count;
        });
        verbs.put("prefault", w -> {
            PUBLISHERS.get(w[0]).prefault(Line.number(w[1]), Line.number(w[2]));
            return null;
        });
        verbs.put("assert", w -> {
            PUBLISHERS.get(w[0]).assertLiveliness();
            return null;
        });
        verbs.put("lapses", w -> SUBSCRIBERS.get(w[0]).lapses());
        verbs.put("missed", w -> SUBSCRIBERS.get(w[0]).missed() > 0 ? 1 : 0);
        verbs.put("late", w -> PUBLISHERS.get(w[0]).missed() > 0 ? 1 : 0);
        verbs.put("expired", w -> SUBSCRIBERS.get(w[0]).expired());
        verbs.put("lost", w -> SUBSCRIBERS.get(w[0]).lost());
        verbs.put("lag", w -> SUBSCRIBERS.get(w[0]).lag());
        verbs.put("publishers", w -> SUBSCRIBERS.get(w[0]).publisherCount());
        verbs.put("subscribers", w -> PUBLISHERS.get(w[0]).subscriberCount());
        Driver.family("topic", verbs);
        Map<String, Driver.Verb> ofSample = new HashMap<>();
        ofSample.put("show", w -> Line.show(bytes(sample)));
        ofSample.put("sequence", w -> sample.sequence());
        ofSample.put("order", w -> sample.order());
        ofSample.put("key", w -> Long.toUnsignedString(sample.header().key()));
        ofSample.put("frame", w -> Long.toUnsignedString(sample.header().frame()));
        ofSample.put("stamp", w -> Long.toUnsignedString(sample.header().stamp()));
        ofSample.put("publisher", w -> Integer.toUnsignedString(sample.publisher()));
        ofSample.put("session", w -> Integer.toUnsignedString(sample.session()));
        ofSample.put("alive", w -> sample.isPublisherAlive() ? 1 : 0);
        ofSample.put("age", w -> age());
        ofSample.put("drop", w -> {
            sample.close();
            return null;
        });
        Driver.family("sample", ofSample);
    }
}
