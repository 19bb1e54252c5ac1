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

OUTLIVE_ENCODED(cdr_payload, OUTLIVE_ENCODING_CDR, "geometry_msgs/msg/Pose");

static void queues_and_states_are_described_too(void) {
    char text[256];
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    outlive_queue_t *queue = NULL, *again = NULL;
    options.payload = &point_payload;
    OK(outlive_queue_open(domain, "points", OUTLIVE_CREATE_NEW, &options, &queue));
    OK(outlive_queue_open(domain, "points", OUTLIVE_OPEN_OR_CREATE, &options, &again));
    outlive_queue_close(again);
    OK(outlive_domain_payload(domain, "points", text, sizeof text));
    CHECK(strcmp(text, "Point { x: f64, y: f64 }") == 0);
    IS(EMSGSIZE, outlive_domain_payload(domain, "points", text, 10));
    options.payload = &track_payload;
    IS(OUTLIVE_OTHER_TYPE, outlive_queue_open(domain, "points", OUTLIVE_OPEN, &options, &again));
    IS(OUTLIVE_OTHER_TYPE, outlive_queue_open(domain, "points", OUTLIVE_OPEN_OR_CREATE, NULL, &again));
    outlive_queue_close(queue);

    struct point at = {1, 2}, read = {0, 0};
    size_t size = 0;
    outlive_state_t *state = NULL, *other = NULL;
    OK(outlive_state_open_described(domain, "at", OUTLIVE_CREATE_NEW, &point_payload, 0, &at, sizeof at, &state));
    OK(outlive_state_get(state, &read, sizeof read, &size, NULL));
    CHECK(size == sizeof read && read.y == 2);
    IS(OUTLIVE_OTHER_TYPE,
       outlive_state_open_described(domain, "at", OUTLIVE_OPEN, &track_payload, 0, NULL, 0, &other));
    OK(outlive_state_open_described(domain, "at", OUTLIVE_OPEN, &point_payload, 0, NULL, 0, &other));
    outlive_state_close(other);
    outlive_state_close(state);
    /* A slice, and an encoding, have room for values of any length. */
    outlive_payload_t points = point_payload;
    points.is_slice = 1;
    OK(outlive_state_open_described(domain, "path", OUTLIVE_CREATE_NEW, &points, 8000, NULL, 0, &state));
    CHECK(outlive_state_capacity(state) >= 8000);
    outlive_state_close(state);
    OK(outlive_state_open_described(domain, "pose", OUTLIVE_CREATE_NEW, &cdr_payload, 100, NULL, 0, &state));
    OK(outlive_domain_payload(domain, "pose", text, sizeof text));
    CHECK(strcmp(text, "geometry_msgs/msg/Pose (cdr)") == 0);
    outlive_state_close(state);
    OK(outlive_state_open(domain, "bytes", OUTLIVE_CREATE_NEW, 8, NULL, 0, &state));
    IS(ENOENT, outlive_domain_payload(domain, "bytes", text, sizeof text));
    outlive_state_close(state);
}

static void services_have_two(void) {
    char text[256];
    outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
    outlive_client_t *client = NULL, *other = NULL;
    outlive_server_t *server = NULL;
    options.request = &point_payload;
    OK(outlive_client_open(domain, "norm", OUTLIVE_CREATE_NEW, &options, &client));
    OK(outlive_domain_payload(domain, "norm", text, sizeof text));
    CHECK(strcmp(text, "Point { x: f64, y: f64 } -> bytes") == 0);
    OK(outlive_server_open(domain, "norm", OUTLIVE_OPEN, &options, &server));
    options.reply = &cdr_payload;
    IS(OUTLIVE_OTHER_TYPE, outlive_client_open(domain, "norm", OUTLIVE_OPEN, &options, &other));
    CHECK(strstr(outlive_last_error(), "replies of bytes messages"));
    outlive_server_close(server);
    outlive_client_close(client);
}

struct rect {
    float x, y;
};

struct detections {
    uint64_t stamp;
    struct rect boxes[];
};

OUTLIVE_PAYLOAD(rect_payload, struct rect, "Rect", OUTLIVE_FIELD(struct rect, x), OUTLIVE_FIELD(struct rect, y));
OUTLIVE_PAYLOAD(detections_payload, struct detections, "Detections", OUTLIVE_FIELD(struct detections, stamp),
                OUTLIVE_STRUCT_TAIL_FIELD(struct detections, boxes, rect_payload));

/* The compiler pads it behind its last member, where the tail begins already. */
struct padded {
    uint64_t stamp;
    uint32_t kind;
    uint8_t bytes[];
};
OUTLIVE_PAYLOAD(padded_payload, struct padded, "Padded", OUTLIVE_FIELD(struct padded, stamp),
                OUTLIVE_FIELD(struct padded, kind), OUTLIVE_TAIL_FIELD(struct padded, bytes));

struct holder {
    struct rect first;
    uint64_t more;
};
OUTLIVE_PAYLOAD(holder_payload, struct holder, "Holder", OUTLIVE_STRUCT_FIELD(struct holder, first, detections_payload));

static void a_struct_has_a_tail(void) {
    char text[256];
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    outlive_topic_t *topic = NULL, *other = NULL;
    outlive_publisher_t *publisher = NULL;
    outlive_subscriber_t *subscriber = NULL;
    outlive_loan_t *loan = NULL;
    outlive_sample_t *sample = NULL;
    void *data = NULL;
    options.payload = &detections_payload;
    OK(outlive_topic_open(domain, "seen", OUTLIVE_CREATE_NEW, &options, &topic));
    OK(outlive_domain_payload(domain, "seen", text, sizeof text));
    CHECK(strcmp(text, "Detections { stamp: u64, boxes: { x: f32, y: f32 }[] }") == 0);
    OK(outlive_topic_subscriber(topic, NULL, &subscriber));
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    for (size_t count = 0; count < 400; count += 133) {
        size_t size = OUTLIVE_TAIL_SIZE(struct detections, boxes, count);
        CHECK(size == 8 + 8 * count);
        OK(outlive_publisher_loan(publisher, size, &loan, &data));
        struct detections *seen = data;
        seen->stamp = count;
        for (size_t at = 0; at < count; at += 1) seen->boxes[at] = (struct rect){(float)at, 1};
        OK(outlive_publisher_publish(publisher, loan, OUTLIVE_NEVER, NULL));
        OK(outlive_subscriber_recv(subscriber, &sample, OUTLIVE_TRY));
        const struct detections *got = outlive_sample_data(sample);
        CHECK(OUTLIVE_TAIL_COUNT(struct detections, boxes, outlive_sample_size(sample)) == count);
        CHECK(got->stamp == count && (count == 0 || got->boxes[count - 1].x == (float)(count - 1)));
        outlive_sample_release(sample);
    }
    CHECK(OUTLIVE_TAIL_COUNT(struct detections, boxes, 7) == 0);
    options.payload = &rect_payload;
    IS(OUTLIVE_OTHER_TYPE, outlive_topic_open(domain, "seen", OUTLIVE_OPEN, &options, &other));
    options.payload = &padded_payload;
    IS(EINVAL, outlive_topic_open(domain, "padded", OUTLIVE_CREATE_NEW, &options, &other));
    CHECK(strstr(outlive_last_error(), "a field is needed to fill the gap"));
    options.payload = &holder_payload;
    IS(EINVAL, outlive_topic_open(domain, "holder", OUTLIVE_CREATE_NEW, &options, &other));
    CHECK(strstr(outlive_last_error(), "has a tail, which a message alone has"));
    outlive_publisher_close(publisher);
    outlive_subscriber_close(subscriber);
    outlive_topic_close(topic);

    /* A state's first value is a head of zeroes; values of other lengths are refused. */
    struct detections none = {7};
    size_t size = 0;
    outlive_state_t *state = NULL;
    outlive_state_writer_t *writer = NULL;
    OK(outlive_state_open_described(domain, "latest", OUTLIVE_CREATE_NEW, &detections_payload, 0, NULL, 0, &state));
    OK(outlive_state_get(state, &none, sizeof none, &size, NULL));
    CHECK(size == sizeof none && none.stamp == 0);
    OK(outlive_state_writer(state, OUTLIVE_TRY, &writer));
    OK(outlive_state_writer_set(writer, text, 24, NULL));
    CHECK(outlive_state_writer_set(writer, text, 23, NULL) != 0 && outlive_state_writer_set(writer, text, 0, NULL) != 0);
    outlive_state_writer_close(writer);
    outlive_state_close(state);
}

struct scan {
    OUTLIVE_INLINE_STRING(8) name;
    OUTLIVE_INLINE_STRING(4) unit;
    OUTLIVE_INLINE_VEC(float, 6) ranges;
    OUTLIVE_INLINE_VEC(struct point, 2) corners;
    uint8_t cube[2][3][4];
    int16_t four[1][2][3][4];
    struct rect grid[2][2];
    _Bool is_last;
    uint8_t unused[7];
    float rows[][2];
};
OUTLIVE_PAYLOAD(scan_payload, struct scan, "Scan", OUTLIVE_STRING_FIELD(struct scan, name),
                OUTLIVE_STRING_FIELD(struct scan, unit), OUTLIVE_VEC_FIELD(struct scan, ranges),
                OUTLIVE_STRUCT_VEC_FIELD(struct scan, corners, point_payload), OUTLIVE_ARRAY3_FIELD(struct scan, cube),
                OUTLIVE_ARRAY4_FIELD(struct scan, four), OUTLIVE_STRUCT_MATRIX_FIELD(struct scan, grid, rect_payload),
                OUTLIVE_FIELD(struct scan, is_last), OUTLIVE_ARRAY_TAIL_FIELD(struct scan, rows));

static void texts_and_lists_lie_in_place(void) {
    char text[512];
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    outlive_topic_t *topic = NULL;
    options.payload = &scan_payload;
    OK(outlive_topic_open(domain, "scan", OUTLIVE_CREATE_NEW, &options, &topic));
    OK(outlive_domain_payload(domain, "scan", text, sizeof text));
    CHECK(strcmp(text, "Scan { name: { length: u32, bytes: u8[8] }, unit: { length: u32, bytes: u8[4] }, "
                       "ranges: { length: u64, items: f32[6] }, corners: { length: u64, items: { x: f64, y: f64 }[2] }, "
                       "cube: u8[2][3][4], four: i16[1][2][3][4], grid: { x: f32, y: f32 }[2][2], is_last: bool, "
                       "rows: f32[2][] }") == 0);
    outlive_topic_close(topic);
    /* Whatever another program wrote, no read goes beyond the room. */
    struct scan scan;
    memset(&scan, 0xff, sizeof scan);
    CHECK(OUTLIVE_STRING_SIZE(scan.name) == 8 && OUTLIVE_STRING_SIZE(scan.unit) == 4);
    CHECK(OUTLIVE_VEC_SIZE(scan.ranges) == 6 && OUTLIVE_VEC_SIZE(scan.corners) == 2);
    CHECK(OUTLIVE_STRING_SET(scan.name, "front", 5) && !OUTLIVE_STRING_SET(scan.name, "far too long", 12));
    CHECK(OUTLIVE_STRING_SIZE(scan.name) == 5 && memcmp(scan.name.bytes, "front\0\0", 8) == 0);
    const struct scan *read = &scan;
    CHECK(OUTLIVE_STRING_SIZE(read->name) == 5);
}

TESTS(TEST(texts_and_lists_lie_in_place), TEST(a_struct_has_a_tail), TEST(queues_and_states_are_described_too), TEST(services_have_two), TEST(the_same_opens_and_another_is_refused), TEST(what_cannot_be_is_refused))
