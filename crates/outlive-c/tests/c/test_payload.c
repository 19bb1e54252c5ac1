/* Descriptions of payloads: the same opens, another is refused with the first field that differs. */
#include "testing.h"

struct point {
    double x, y;
};

struct track {
    struct point corners[4];
    char label[12];
    uint32_t class;
    float grid[2][3];
};

OUTLIVE_PAYLOAD(point_payload, struct point, "Point", OUTLIVE_FIELD(struct point, x), OUTLIVE_FIELD(struct point, y));
OUTLIVE_PAYLOAD(track_payload, struct track, "Track",
                OUTLIVE_STRUCT_ARRAY_FIELD(struct track, corners, point_payload),
                OUTLIVE_ARRAY_FIELD(struct track, label), OUTLIVE_FIELD(struct track, class),
                OUTLIVE_MATRIX_FIELD(struct track, grid));

static void the_same_opens_and_another_is_refused(void) {
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    options.payload = &track_payload;
    outlive_topic_t *topic = NULL, *again = NULL;
    OK(outlive_topic_open(domain, "track", OUTLIVE_CREATE_NEW, &options, &topic));
    OK(outlive_topic_open(domain, "track", OUTLIVE_OPEN, &options, &again));
    outlive_topic_close(again);
    /* Without a description it is what it was before: bytes that OUTLIVE_OPEN takes as they are. */
    OK(outlive_topic_open(domain, "track", OUTLIVE_OPEN, NULL, &again));
    outlive_topic_close(again);
    IS(OUTLIVE_OTHER_TYPE, outlive_topic_open(domain, "track", OUTLIVE_OPEN_OR_CREATE, NULL, &again));
    options.payload = &point_payload;
    IS(OUTLIVE_OTHER_TYPE, outlive_topic_open(domain, "track", OUTLIVE_OPEN, &options, &again));
    outlive_field_t fields[4];
    memcpy(fields, track_payload_fields, sizeof fields);
    fields[2].type_number = OUTLIVE_TYPE_I32;
    outlive_payload_t other = track_payload;
    other.fields = fields;
    options.payload = &other;
    IS(OUTLIVE_OTHER_TYPE, outlive_topic_open(domain, "track", OUTLIVE_OPEN, &options, &again));
    CHECK(strstr(outlive_last_error(), "'class: u32'") && strstr(outlive_last_error(), "'class: i32'"));
    outlive_topic_close(topic);
}

static void what_cannot_be_is_refused(void) {
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    outlive_topic_t *topic = NULL;
    outlive_field_t fields[2];
    memcpy(fields, point_payload_fields, sizeof fields);
    outlive_payload_t payload = point_payload;
    payload.fields = fields;
    options.payload = &payload;
    fields[1].offset = 4;
    IS(EINVAL, outlive_topic_open(domain, "p", OUTLIVE_CREATE_NEW, &options, &topic));
    CHECK(strstr(outlive_last_error(), "in the order of their places"));
    fields[1].type_number = 12;
    IS(EINVAL, outlive_topic_open(domain, "p", OUTLIVE_CREATE_NEW, &options, &topic));
    fields[1].type_number = OUTLIVE_TYPE_STRUCT;
    IS(EINVAL, outlive_topic_open(domain, "p", OUTLIVE_CREATE_NEW, &options, &topic));
    /* One that names itself has no end. */
    fields[1].nested = &payload;
    IS(EINVAL, outlive_topic_open(domain, "p", OUTLIVE_CREATE_NEW, &options, &topic));
    fields[1] = point_payload_fields[1];
    fields[1].extents[1] = 3;
    IS(EINVAL, outlive_topic_open(domain, "p", OUTLIVE_CREATE_NEW, &options, &topic));
    CHECK(strstr(outlive_last_error(), "'y' has no items"));
    payload.encoding = 1;
    IS(EINVAL, outlive_topic_open(domain, "p", OUTLIVE_CREATE_NEW, &options, &topic));
    /* Of an encoding of its own only the name is known. */
    outlive_payload_t pose = {"geometry_msgs/msg/Pose", 0, 0, OUTLIVE_ENCODING_CDR, 0, NULL, 0};
    options.payload = &pose;
    OK(outlive_topic_open(domain, "pose", OUTLIVE_CREATE_NEW, &options, &topic));
    outlive_topic_close(topic);
    OK(outlive_topic_open(domain, "pose", OUTLIVE_OPEN_OR_CREATE, NULL, &topic));
    outlive_topic_close(topic);
    pose.encoding = OUTLIVE_ENCODING_JSON;
    IS(OUTLIVE_OTHER_TYPE, outlive_topic_open(domain, "pose", OUTLIVE_OPEN, &options, &topic));
}

TESTS(TEST(the_same_opens_and_another_is_refused), TEST(what_cannot_be_is_refused))
