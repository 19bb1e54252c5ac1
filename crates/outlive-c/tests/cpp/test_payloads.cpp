/* Descriptions of payloads: made from a struct's members, the same for all languages. */
#include "testing.hpp"

#include <array>

namespace plant {
struct Point {
    double x, y;
};
struct Track {
    std::array<Point, 4> corners;
    char label[12];
    uint32_t kind;
    float grid[2][3];
};
struct Other {
    Point corners[4];
    char label[12];
    int32_t kind;
    float grid[2][3];
};
struct Rect {
    float x, y;
};
struct Detections {
    uint64_t stamp;
};
struct Pixels {
    uint32_t width, height;
};
} // namespace plant

OUTLIVE_DESCRIBE(plant::Rect, "Rect", x, y);
OUTLIVE_DESCRIBE_WITH_TAIL(plant::Detections, "Detections", boxes, plant::Rect, stamp);
OUTLIVE_DESCRIBE_WITH_TAIL(plant::Pixels, "Pixels", rows, uint8_t, width, height);
OUTLIVE_DESCRIBE(plant::Point, "Point", x, y);
OUTLIVE_DESCRIBE(plant::Track, "Track", corners, label, kind, grid);
OUTLIVE_DESCRIBE(plant::Other, "Track", corners, label, kind, grid);

static void a_struct_is_described_by_its_members() {
    const outlive_payload_t &track = outlive::description_of<plant::Track>();
    CHECK(track.size == 104 && track.align == 8 && track.field_count == 4);
    CHECK(track.fields[0].type_number == OUTLIVE_TYPE_STRUCT && track.fields[0].extents[0] == 4);
    CHECK(track.fields[0].nested->field_count == 2 && track.fields[1].type_number == OUTLIVE_TYPE_U8);
    CHECK(track.fields[3].extents[0] == 2 && track.fields[3].extents[1] == 3 && track.fields[3].extents[2] == 0);
}

static void the_same_opens_and_another_is_refused() {
    auto domain = open_domain();
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    options.payload = &outlive::description_of<plant::Track>();
    auto topic = outlive::Topic::create_new(domain, "track", options).value();
    auto subscriber = topic.subscriber().value();
    plant::Track track{};
    track.corners[3].y = 2.5;
    topic.publisher().value().publish(track).value();
    CHECK(subscriber.recv(soon)->as<plant::Track>().corners[3].y == 2.5);
    CHECK(outlive::Topic::open(domain, "track", options).code() == 0);
    options.payload = &outlive::description_of<plant::Other>();
    auto other = outlive::Topic::open(domain, "track", options);
    CHECK(other.code() == OUTLIVE_OTHER_TYPE);
    CHECK(std::string(outlive_last_error()).find("'kind: u32'") != std::string::npos);
}

static void a_head_has_a_tail() {
    using plant::Detections, plant::Rect;
    auto domain = open_domain();
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    options.payload = &outlive::description_of<Detections>();
    auto topic = outlive::Topic::create_new(domain, "seen", options).value();
    CHECK(domain.payload("seen").value() == "Detections { stamp: u64, boxes: { x: f32, y: f32 }[] }");
    auto subscriber = topic.subscriber().value();
    auto publisher = topic.publisher().value();
    const Rect two[] = {{1, 2}, {3, 4}};
    publisher.publish_with_tail(Detections{7}, two).value();
    auto sample = subscriber.recv(soon).value();
    auto seen = sample.with_tail<Detections>();
    CHECK(seen->stamp == 7 && seen.tail().size() == 2 && seen.tail()[1].y == 4);
    auto loan = publisher.loan_with_tail<Detections>(300).value();
    auto lent = loan.with_tail<Detections>();
    lent.head() = {8};
    std::ranges::fill(lent.tail(), two[0]);
    publisher.publish(std::move(loan)).value();
    sample = subscriber.recv(soon).value();
    CHECK(sample.with_tail<Detections>().tail().size() == 300);
    /* Bytes of a program that knows no description. */
    publisher.publish(std::string_view("seven b")).value();
    sample = subscriber.recv(soon).value();
    THROWS(OUTLIVE_OTHER_TYPE, (void)sample.with_tail<Detections>());
    options.payload = &outlive::description_of<plant::Pixels>();
    CHECK(outlive::Topic::open(domain, "seen", options).code() == OUTLIVE_OTHER_TYPE);

    outlive_queue_options_t queue_options = OUTLIVE_QUEUE_OPTIONS_INIT;
    queue_options.payload = &outlive::description_of<plant::Pixels>();
    auto queue = outlive::Queue::create_new(domain, "pixels", queue_options).value();
    auto receiver = queue.receiver().value();
    const uint8_t bytes[] = {1, 2, 3};
    queue.sender().value().send(outlive::bytes_with_tail(plant::Pixels{3, 1}, bytes)).value();
    auto received = receiver.recv(soon).value();
    outlive::WithTail<const plant::Pixels> pixels(received.bytes());
    CHECK(pixels->width == 3 && pixels.tail().size() == 3 && pixels.tail()[2] == 3);
}

static void queues_states_and_services_have_descriptions_too() {
    auto domain = open_domain();
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    const auto points = outlive::slice_description_of<plant::Point>();
    options.payload = &points;
    auto queue = outlive::Queue::create_new(domain, "path", options).value();
    CHECK(domain.payload("path").value() == "[Point { x: f64, y: f64 }]");
    options.payload = &outlive::description_of<plant::Point>();
    CHECK(outlive::Queue::open(domain, "path", options).code() == OUTLIVE_OTHER_TYPE);

    using State = outlive::State<plant::Point>;
    auto state = State::create_new(domain, "at", plant::Point{1, 2}, outlive::described).value();
    CHECK(state.get().value().y == 2);
    CHECK(State::open(domain, "at", outlive::described).code() == 0);
    CHECK(State::open_or_create(domain, "at", {}, outlive::described).value().get().value().x == 1);
    CHECK(outlive::State<plant::Track>::open(domain, "at", outlive::described).code() == OUTLIVE_OTHER_TYPE);

    outlive_service_options_t both = OUTLIVE_SERVICE_OPTIONS_INIT;
    const auto pose = outlive::encoded(OUTLIVE_ENCODING_CDR, "geometry_msgs/msg/Pose");
    both.request = &pose;
    both.reply = &outlive::description_of<plant::Track>();
    auto client = outlive::Client::create_new(domain, "find", both).value();
    CHECK(domain.payload("find").value().substr(0, 42) == "geometry_msgs/msg/Pose (cdr) -> Track { co");
    both.reply = &outlive::description_of<plant::Other>();
    CHECK(outlive::Client::open(domain, "find", both).code() == OUTLIVE_OTHER_TYPE);
    CHECK(domain.payload("none").code() == ENOENT);
}

/* More members than a list of macros has. */
namespace plant {
struct Many {
    uint8_t a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1, c2, c3, c4, c5, c6, c7,
        c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, e0, e1, e2, e3, e4, e5, e6, e7, e8, e9, f0, f1, f2, f3, f4, f5, f6,
        f7, f8, f9, g0, g1, g2, g3, g4, g5, g6, g7, g8, g9;
};
struct Scan {
    outlive::inline_string<8> name{};
    outlive::inline_string<4> unit{};
    outlive::inline_vec<float, 6> ranges{};
    outlive::inline_vec<Point, 2> corners{};
};
} // namespace plant
OUTLIVE_DESCRIBE(plant::Many, "Many", a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1,
                 c2, c3, c4, c5, c6, c7, c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, e0, e1, e2, e3, e4, e5, e6, e7, e8,
                 e9, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, g0, g1, g2, g3, g4, g5, g6, g7, g8, g9);
OUTLIVE_DESCRIBE(plant::Scan, "Scan", name, unit, ranges, corners);

static void a_struct_has_many_members() {
    const outlive_payload_t &many = outlive::description_of<plant::Many>();
    CHECK(many.field_count == 70 && many.fields[69].offset == 69 && std::string(many.fields[69].name) == "g9");
}

static void texts_and_lists_lie_in_place() {
    using plant::Point, plant::Scan;
    auto domain = open_domain();
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    options.payload = &outlive::description_of<Scan>();
    auto topic = outlive::Topic::create_new(domain, "scan", options).value();
    CHECK(domain.payload("scan").value() ==
          "Scan { name: { length: u32, bytes: u8[8] }, unit: { length: u32, bytes: u8[4] }, ranges: { length: u64, items: "
          "f32[6] }, corners: { length: u64, items: { x: f64, y: f64 }[2] } }");
    auto subscriber = topic.subscriber().value();
    Scan scan;
    CHECK(scan.name.set("front") && !scan.name.set("far too long") && scan.name == "front");
    const float two[] = {0.5, 1.5};
    scan.ranges = outlive::inline_vec<float, 6>::of(two).value();
    CHECK(scan.corners.push_back({1, 2}) && scan.corners.push_back({3, 4}) && !scan.corners.push_back({5, 6}));
    topic.publisher().value().publish(scan).value();
    auto sample = subscriber.recv(soon).value();
    const Scan &seen = sample.as<Scan>();
    float sum = 0;
    for (float range : seen.ranges) sum += range;
    CHECK(seen.name.view() == "front" && seen.unit.empty() && sum == 2 && seen.corners.span()[1].y == 4);
    CHECK(!outlive::inline_string<4>::of("longer") && outlive::inline_string<4>::of("four")->size() == 4);
    /* Whatever another program wrote, no read goes beyond the room. */
    std::memset(static_cast<void *>(&scan), 0xff, sizeof scan);
    CHECK(scan.name.size() == 8 && scan.ranges.size() == 6 && scan.corners.end() - scan.corners.begin() == 2);
    CHECK(!scan.ranges.push_back(1));
    scan.ranges.clear();
    CHECK(scan.ranges.push_back(1) && scan.ranges.size() == 1);
    /* A message that is a list is all of it, not its items. */
    CHECK(outlive::bytes_of(scan.ranges).size() == sizeof scan.ranges);
}

TESTS(TEST(a_struct_has_many_members), TEST(texts_and_lists_lie_in_place), TEST(a_head_has_a_tail), TEST(queues_states_and_services_have_descriptions_too), TEST(a_struct_is_described_by_its_members), TEST(the_same_opens_and_another_is_refused))
