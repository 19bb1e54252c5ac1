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
} // namespace plant

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

TESTS(TEST(a_struct_is_described_by_its_members), TEST(the_same_opens_and_another_is_refused))
