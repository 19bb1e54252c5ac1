/* `topic.` and `sample.` */
#pragma once
#include "driver.hpp"

/* What all languages describe. */
struct Point {
    double x, y;
};
struct Track {
    std::array<Point, 4> corners;
    uint32_t kind;
    float grid[2][3];
};
struct Other {
    Point corners[4];
    int32_t kind;
    float grid[2][3];
};
struct Cloud {
    uint64_t stamp;
};
struct Scan {
    std::uint8_t kind;
    outlive::inline_string<8> name;
    bool is_last;
    outlive::inline_vec<float, 4> ranges;
};
OUTLIVE_DESCRIBE(Point, "Point", x, y);
OUTLIVE_DESCRIBE_WITH_TAIL(Cloud, "Cloud", points, Point, stamp);
OUTLIVE_DESCRIBE(Scan, "Scan", kind, name, is_last, ranges);
OUTLIVE_DESCRIBE(Track, "Track", corners, kind, grid);
OUTLIVE_DESCRIBE(Other, "Track", corners, kind, grid);

struct Topic {
    outlive::Topic topic;
    std::optional<outlive::Publisher> out{};
    std::optional<outlive::Subscriber> in{};
    uint64_t sent = 0;

    void publish_pattern(size_t size) {
        auto loan = out->loan(size).value();
        ::pattern(reinterpret_cast<unsigned char *>(loan.bytes().data()), size, sent);
        out->publish(std::move(loan)).value();
        sent++;
    }
};

inline void check(const outlive::Sample &sample) {
    if (!is_pattern(sample.bytes().data(), sample.bytes().size(), sample.sequence()))
        throw Wrong{"Torn", "message " + std::to_string(sample.sequence()) + " is " + show(sample.bytes())};
}

class Topics {
public:
    explicit Topics(outlive::Domain &domain) : domain_(domain) {}

    void described(const string &kind, const string &name, const string &what) {
        const outlive_payload_t cdr = outlive::encoded(OUTLIVE_ENCODING_CDR, "geometry_msgs/msg/Pose");
        const uint32_t encoding = what == "msgpack"    ? OUTLIVE_ENCODING_MSGPACK
                                  : what == "protobuf" ? OUTLIVE_ENCODING_PROTOBUF
                                  : what == "json"     ? OUTLIVE_ENCODING_JSON
                                                       : OUTLIVE_ENCODING_BYTES;
        const outlive_payload_t encoded = outlive::encoded(encoding, "Pose");
        const outlive_payload_t *of = what == "track"   ? &outlive::description_of<Track>()
                                      : what == "other" ? &outlive::description_of<Other>()
                                      : what == "cdr"   ? &cdr
                                                        : &encoded;
        if (kind == "queue") {
            outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
            options.payload = of;
            outlive::Queue::open_or_create(domain_, name, options).value();
        } else if (kind == "service") {
            outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
            options.request = of;
            outlive::Client::open_or_create(domain_, name, options).value();
        } else if (what == "track") {
            outlive::State<Track>::open_or_create(domain_, name, {}, outlive::described).value();
        } else if (what == "other") {
            outlive::State<Other>::open_or_create(domain_, name, {}, outlive::described).value();
        } else {
            outlive::StateBytes::open_or_create(domain_, name, *of).value();
        }
    }

    string topic(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open" || verb == "find") {
            outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
            options.max_bytes = option(args, "max", 0);
            options.depth = static_cast<uint32_t>(option(args, "depth", 0));
            options.max_publishers = static_cast<uint32_t>(option(args, "publishers", 0));
            options.max_subscribers = static_cast<uint32_t>(option(args, "subscribers", 0));
            options.max_samples = static_cast<uint32_t>(option(args, "samples", 0));
            options.mode = static_cast<uint32_t>(option(args, "mode", 0));
            options.stamps = flag(args, "stamps");
            options.no_stamps = flag(args, "no-stamps");
            options.reliable = flag(args, "reliable");
            options.as_is = flag(args, "as-is");
            if (flag(args, "track")) options.payload = &outlive::description_of<Track>();
            if (flag(args, "scan")) options.payload = &outlive::description_of<Scan>();
            if (flag(args, "cloud")) options.payload = &outlive::description_of<Cloud>();
            if (flag(args, "other")) options.payload = &outlive::description_of<Other>();
            if (flag(args, "volatile")) options.durability = OUTLIVE_VOLATILE;
            if (flag(args, "persistent")) options.durability = OUTLIVE_PERSISTENT;
            auto open = verb == "find" ? outlive::Topic::open : outlive::Topic::open_or_create;
            topics_.insert_or_assign(name, Topic{open(domain_, name, options).value()});
            return ok();
        }
        if (verb == "described") return described(name, args.at(1), args.at(2)), ok();
        if (verb == "payload") return ok(domain_.payload(name).value());
        Topic &topic = find(topics_, name);
        if (verb == "publisher") {
            outlive_publisher_options_t options = OUTLIVE_PUBLISHER_OPTIONS_INIT;
            options.max_blocking = option(args, "blocking", 0) * 1000000;
            options.lifespan = option(args, "lifespan", 0) * 1000000;
            options.period = option(args, "period", 0) * 1000000;
            return topic.out.emplace(topic.topic.publisher(options).value()), ok();
        }
        if (verb == "subscriber") {
            outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
            options.reliable = flag(args, "reliable");
            options.sessions = flag(args, "sessions");
            if (flag(args, "volatile")) options.durability = OUTLIVE_VOLATILE;
            if (flag(args, "persistent")) options.durability = OUTLIVE_PERSISTENT;
            options.max_age = option(args, "age", 0) * 1000000;
            options.liveliness = option(args, "lease", 0) * 1000000;
            options.history = static_cast<uint32_t>(option(args, "history", 0));
            options.keep_last = static_cast<uint32_t>(option(args, "keep", 0));
            options.period = option(args, "period", 0) * 1000000;
            std::vector<uint64_t> keys;
            for (const string &word : args)
                if (word.starts_with("key=")) keys.push_back(number(word.substr(4)));
            options.keys = keys.data();
            options.key_count = keys.size();
            return topic.in.emplace(topic.topic.subscriber(options).value()), ok();
        }
        if (verb == "unsubscribe") return topic.in.reset(), ok();
        if (verb == "publish_track") {
            Track track{};
            track.kind = static_cast<uint32_t>(number(args.at(1)));
            track.corners[3].y = track.kind * 2.0;
            return ok(topic.out->publish(track).value());
        }
        if (verb == "publish_scan") {
            Scan scan{};
            size_t count = number(args.at(2));
            scan.is_last = count > 0;
            if (!scan.name.set(args.at(1))) throw Wrong{"Usage", "no room"};
            for (size_t at = 0; at < count; at++)
                if (!scan.ranges.push_back(static_cast<float>(at))) throw Wrong{"Usage", "no room"};
            return ok(topic.out->publish(scan).value());
        }
        if (verb == "publish_hex") {
            std::vector<uint8_t> bytes;
            for (size_t at = 0; at + 1 < args.at(1).size(); at += 2)
                bytes.push_back(static_cast<uint8_t>(std::stoul(args.at(1).substr(at, 2), nullptr, 16)));
            return ok(topic.out->publish(bytes).value());
        }
        if (verb == "config") {
            auto found = topic.topic.config();
            const char *kept = found.durability == OUTLIVE_PERSISTENT ? "persistent"
                : found.durability == OUTLIVE_VOLATILE                ? "volatile"
                                                                      : "transient_local";
            string said = std::to_string(found.depth) + " " + std::to_string(found.max_bytes);
            for (uint32_t one : {found.stamps, found.reliable}) said += " " + std::to_string(one);
            said += string(" ") + kept;
            for (uint32_t one : {found.max_publishers, found.max_subscribers, found.max_samples, found.mode})
                said += " " + std::to_string(one);
            return ok(said);
        }
        if (verb == "slowest") return ok(named(topic.out->slowest()));
        if (verb == "prefault") return topic.out->prefault(number(args.at(1)), number(args.at(2))).value(), ok();
        if (verb == "crowd") {
            for (uint64_t count = number(args.at(1)); count > 0; count--) publishers_.push_back(topic.topic.publisher().value());
            for (uint64_t count = number(args.at(2)); count > 0; count--) subscribers_.push_back(topic.topic.subscriber().value());
            return ok();
        }
        if (verb == "crowd_publish") {
            std::vector<unsigned char> bytes(number(args.at(1)));
            ::pattern(bytes.data(), bytes.size(), 0);
            for (outlive::Publisher &one : publishers_) one.publish(bytes).value();
            return ok();
        }
        if (verb == "crowd_recv") {
            uint64_t count = 0;
            for (outlive::Subscriber &one : subscribers_)
                for (auto &&sample : one.until(outlive::at_once)) check(sample), count++;
            return ok(count);
        }
        if (verb == "publish_cloud") {
            std::vector<Point> points(number(args.at(2)));
            for (size_t at = 0; at < points.size(); at += 1) points[at] = {static_cast<double>(at), -1};
            return ok(topic.out->publish_with_tail(Cloud{number(args.at(1))}, points).value());
        }
        if (verb == "publish") {
            outlive::Header header{};
            header.key = option(args, "key", 0);
            header.frame = option(args, "frame", 0);
            header.stamp = option(args, "stamp", 0);
            return ok(topic.out->publish(message(args.at(1)), header, until(args.at(2))).value());
        }
        if (verb == "publish_many") {
            for (uint64_t count = number(args.at(1)); count > 0; count--) topic.publish_pattern(number(args.at(2)));
            return ok();
        }
        if (verb == "flood") {
            for (uint64_t end = now_ms() + number(args.at(2)); now_ms() < end;) topic.publish_pattern(number(args.at(1)));
            return ok();
        }
        if (verb == "loan") {
            auto bytes = message(args.at(1));
            loan_.emplace(topic.out->loan(bytes.size()).value());
            std::ranges::copy(bytes, loan_->bytes().begin());
            return ok();
        }
        if (verb == "publish_loan") return ok(topic.out->publish(std::move(loan_.value())).value());
        if (verb == "publish_msgpack" || verb == "recv_msgpack") throw Unsupported{};
        if (verb == "publishers") return ok(topic.in->publisher_count());
        if (verb == "subscribers") return ok(topic.out->subscriber_count());
        if (verb == "assert") return topic.out->assert_liveliness(), ok();
        if (verb == "late") return ok(static_cast<uint64_t>(topic.out->missed() > 0));
        outlive::Subscriber &subscriber = topic.in.value();
        if (verb == "lapses") return ok(subscriber.lapses());
        if (verb == "missed") return ok(static_cast<uint64_t>(subscriber.missed() > 0));
        if (verb == "recv") return take(subscriber.recv(until(args.at(1))).value());
        if (verb == "latest") return take(subscriber.latest().value());
        if (verb == "recv_track") {
            auto sample = subscriber.recv(until(args.at(1))).value();
            const Track &track = sample.as<Track>();
            return ok(std::to_string(track.kind) + " " + std::to_string(static_cast<int>(track.corners[3].y)));
        }
        if (verb == "recv_scan") {
            auto sample = subscriber.recv(until(args.at(1))).value();
            const Scan &scan = sample.as<Scan>();
            auto text = scan.name.view();
            bool is_text = std::ranges::all_of(text, [](unsigned char byte) { return byte < 0x80; });
            return ok(std::to_string(text.size()) + " " + (is_text ? string(text) : "-") + " " +
                      std::to_string(scan.ranges.size()) + (scan.is_last ? " 1" : " 0"));
        }
        if (verb == "recv_cloud") {
            auto sample = subscriber.recv(until(args.at(1))).value();
            auto cloud = sample.with_tail<Cloud>();
            int last = cloud.tail().empty() ? -1 : static_cast<int>(cloud.tail().back().x);
            return ok(std::to_string(cloud->stamp) + " " + std::to_string(cloud.tail().size()) + " " + std::to_string(last));
        }
        if (verb == "recv_hex") {
            auto sample = subscriber.recv(until(args.at(1))).value();
            string hex;
            for (std::byte byte : sample.bytes()) {
                char digits[3];
                snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
                hex += digits;
            }
            return ok(hex);
        }
        if (verb == "drain") {
            outlive::Deadline deadline = until(args.at(2));
            for (uint64_t count = number(args.at(1)); count > 0; count--) check(subscriber.recv(deadline).value());
            return ok();
        }
        if (verb == "drain_all") {
            uint64_t count = 0;
            for (auto &&sample : subscriber.until(outlive::at_once)) check(sample), count++;
            return ok(count);
        }
        if (verb == "consume") {
            for (auto &&sample : subscriber.until(until(args.at(1)))) (void)sample;
            return ok();
        }
        if (verb == "expired") return ok(subscriber.expired());
        if (verb == "lost") return ok(subscriber.lost());
        if (verb == "lag") return ok(subscriber.lag());
        throw Wrong{"Usage", verb};
    }

    string sample(const string &verb, const Words &) {
        outlive::Sample &sample = sample_.value();
        if (verb == "show") return ok(show(sample.bytes()));
        if (verb == "sequence") return ok(sample.sequence());
        if (verb == "order") return ok(sample.order());
        if (verb == "key") return ok(sample.header().key);
        if (verb == "frame") return ok(sample.header().frame);
        if (verb == "stamp") return ok(sample.header().stamp);
        if (verb == "publisher") return ok(sample.publisher());
        if (verb == "age")
            return ok(sample.age() == std::chrono::nanoseconds::max() ? "unknown" : sample.age() < 60s ? "fresh" : "old");
        if (verb == "session") return ok(sample.session());
        if (verb == "alive") return ok(static_cast<uint64_t>(sample.publisher_alive()));
        if (verb == "drop") return sample_.reset(), ok();
        throw Wrong{"Usage", verb};
    }

    Topic &of(const string &name) { return find(topics_, name); }

    static string named(const outlive::expected<outlive::Laggard> &slowest) {
        if (slowest.code() == ESRCH) return "none";
        return std::to_string(slowest.value().who.pid) + " " + std::to_string(slowest.value().lag);
    }

private:
    string take(outlive::Sample sample) {
        sample_.emplace(std::move(sample));
        return ok(show(sample_->bytes()));
    }

    outlive::Domain &domain_;
    Named<Topic> topics_;
    /* Of which only the number counts. */
    std::vector<outlive::Publisher> publishers_;
    std::vector<outlive::Subscriber> subscribers_;
    std::optional<outlive::Loan> loan_;
    std::optional<outlive::Sample> sample_;
};
