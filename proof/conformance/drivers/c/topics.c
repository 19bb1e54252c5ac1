/* `topic.` and `sample.` A topic's `in` is its publisher, `out` its subscriber. */
#include "driver.h"

/* There once: what was taken and lent last. */
static outlive_sample_t *sample;
static outlive_loan_t *loan;

static int publish_pattern(size_t size) {
    make_pattern(size, it()->sent);
    int code = outlive_publisher_publish_copy(it()->in, message, size, NULL, OUTLIVE_NEVER, NULL);
    if (code == 0) it()->sent++;
    return code;
}

static void take(outlive_sample_t *taken) {
    outlive_sample_release(sample);
    sample = taken;
    say_shown(outlive_sample_data(sample), outlive_sample_size(sample));
}

/* Of a flood, by its number: 0, or -1 and it has been said. */
static int check(outlive_sample_t *taken) {
    uint64_t sequence = outlive_sample_sequence(taken);
    const void *data = outlive_sample_data(taken);
    size_t size = outlive_sample_size(taken);
    int whole = is_pattern(data, size, sequence);
    char shown[64];
    show(shown, data, size);
    if (!whole) printf("error Torn message %llu is %s\n", (unsigned long long)sequence, shown);
    outlive_sample_release(taken);
    return whole ? 0 : -1;
}

/* What all languages describe. */
struct point {
    double x, y;
};
struct track {
    struct point corners[4];
    uint32_t kind;
    float grid[2][3];
};
struct other {
    struct point corners[4];
    int32_t kind;
    float grid[2][3];
};
OUTLIVE_PAYLOAD(point_payload, struct point, "Point", OUTLIVE_FIELD(struct point, x), OUTLIVE_FIELD(struct point, y));
OUTLIVE_PAYLOAD(track_payload, struct track, "Track",
                OUTLIVE_STRUCT_ARRAY_FIELD(struct track, corners, point_payload),
                OUTLIVE_FIELD(struct track, kind), OUTLIVE_MATRIX_FIELD(struct track, grid));
OUTLIVE_PAYLOAD(other_payload, struct other, "Track",
                OUTLIVE_STRUCT_ARRAY_FIELD(struct other, corners, point_payload),
                OUTLIVE_FIELD(struct other, kind), OUTLIVE_MATRIX_FIELD(struct other, grid));

struct scan {
    uint8_t kind;
    OUTLIVE_INLINE_STRING(8) name;
    bool is_last;
    OUTLIVE_INLINE_VEC(float, 4) ranges;
};
OUTLIVE_PAYLOAD(scan_payload, struct scan, "Scan", OUTLIVE_FIELD(struct scan, kind),
                OUTLIVE_STRING_FIELD(struct scan, name), OUTLIVE_FIELD(struct scan, is_last),
                OUTLIVE_VEC_FIELD(struct scan, ranges));

static void topic_publish_scan(void) {
    struct scan scan;
    uint64_t sequence = 0;
    memset(&scan, 0, sizeof scan);
    scan.ranges.length = number(words[3]);
    scan.is_last = scan.ranges.length > 0;
    if (!OUTLIVE_STRING_SET(scan.name, words[2], strlen(words[2]))) abort();
    for (size_t at = 0; at < OUTLIVE_VEC_SIZE(scan.ranges); at += 1) scan.ranges.items[at] = (float)at;
    TRY(outlive_publisher_publish_copy(it()->in, &scan, sizeof scan, NULL, OUTLIVE_NEVER, &sequence));
    say_number(sequence);
}

static void topic_recv_scan(void) {
    outlive_sample_t *taken = NULL;
    TRY(outlive_subscriber_recv(it()->out, &taken, until(words[2])));
    const struct scan *scan = outlive_sample_data(taken);
    int length = (int)OUTLIVE_STRING_SIZE(scan->name);
    int is_text = 1;
    for (int at = 0; at < length; at += 1) is_text &= (unsigned char)scan->name.bytes[at] < 0x80;
    printf("ok %d %.*s %zu %d\n", length, is_text ? length : 1, is_text ? scan->name.bytes : "-",
           OUTLIVE_VEC_SIZE(scan->ranges), scan->is_last);
    outlive_sample_release(taken);
}

static void topic_publish_hex(void) {
    unsigned char bytes[64];
    size_t size = strlen(words[2]) / 2;
    uint64_t sequence = 0;
    for (size_t at = 0; at < size && at < sizeof bytes; at += 1) {
        char digits[3] = {words[2][2 * at], words[2][2 * at + 1], 0};
        bytes[at] = (unsigned char)strtoul(digits, NULL, 16);
    }
    TRY(outlive_publisher_publish_copy(it()->in, bytes, size, NULL, OUTLIVE_NEVER, &sequence));
    say_number(sequence);
}

static const char *durability_name(uint32_t durability) {
    return durability == OUTLIVE_PERSISTENT ? "persistent"
         : durability == OUTLIVE_VOLATILE   ? "volatile"
                                            : "transient_local";
}

static void topic_config(void) {
    outlive_topic_options_t found = OUTLIVE_TOPIC_OPTIONS_INIT;
    TRY(outlive_topic_config(it()->main, &found));
    printf("ok %u %llu %u %u %s %u %u %u %u\n", found.depth, (unsigned long long)found.max_bytes, found.stamps,
           found.reliable, durability_name(found.durability), found.max_publishers, found.max_subscribers,
           found.max_samples, found.mode);
}

static void topic_slowest(void) {
    outlive_laggard_t slowest;
    int code = outlive_publisher_slowest(it()->in, &slowest);
    if (code == ESRCH) puts("ok none");
    else if (code != 0) fail(code);
    else printf("ok %u %llu\n", slowest.who.pid, (unsigned long long)slowest.lag);
}

static void topic_prefault(void) {
    TRY(outlive_publisher_prefault(it()->in, (size_t)number(words[2]), (size_t)number(words[3])));
    OK();
}

/* Publishers and subscribers of which only the number counts. */
static outlive_publisher_t *publishers[256];
static outlive_subscriber_t *subscribers[256];
static size_t publisher_count, subscriber_count;

static void topic_crowd(void) {
    for (uint64_t count = number(words[2]); count > 0; count--, publisher_count++)
        TRY(outlive_topic_publisher(it()->main, NULL, &publishers[publisher_count]));
    for (uint64_t count = number(words[3]); count > 0; count--, subscriber_count++)
        TRY(outlive_topic_subscriber(it()->main, NULL, &subscribers[subscriber_count]));
    OK();
}

static void topic_crowd_publish(void) {
    make_pattern((size_t)number(words[2]), 0);
    for (size_t at = 0; at < publisher_count; at++)
        TRY(outlive_publisher_publish_copy(publishers[at], message, message_size, NULL, OUTLIVE_NEVER, NULL));
    OK();
}

static void topic_crowd_recv(void) {
    uint64_t count = 0;
    for (size_t at = 0; at < subscriber_count; at++) {
        outlive_sample_t *taken = NULL;
        int code;
        for (; (code = outlive_subscriber_recv(subscribers[at], &taken, OUTLIVE_TRY)) == 0; count++)
            if (check(taken) != 0) return;
        if (code != EAGAIN) TRY(code);
    }
    say_number(count);
}

struct cloud {
    uint64_t stamp;
    struct point points[];
};
OUTLIVE_PAYLOAD(cloud_payload, struct cloud, "Cloud", OUTLIVE_FIELD(struct cloud, stamp),
                OUTLIVE_STRUCT_TAIL_FIELD(struct cloud, points, point_payload));

static void topic_publish_cloud(void) {
    size_t count = (size_t)number(words[3]);
    outlive_loan_t *loan = NULL;
    void *data = NULL;
    uint64_t sequence = 0;
    TRY(outlive_publisher_loan(it()->in, OUTLIVE_TAIL_SIZE(struct cloud, points, count), &loan, &data));
    struct cloud *cloud = data;
    cloud->stamp = number(words[2]);
    for (size_t at = 0; at < count; at += 1) cloud->points[at] = (struct point){(double)at, -1};
    TRY(outlive_publisher_publish(it()->in, loan, OUTLIVE_NEVER, &sequence));
    printf("ok %llu\n", (unsigned long long)sequence);
}

static void topic_recv_cloud(void) {
    outlive_sample_t *taken = NULL;
    TRY(outlive_subscriber_recv(it()->out, &taken, until(words[2])));
    const struct cloud *cloud = outlive_sample_data(taken);
    size_t count = OUTLIVE_TAIL_COUNT(struct cloud, points, outlive_sample_size(taken));
    printf("ok %llu %zu %.0f\n", (unsigned long long)cloud->stamp, count, count ? cloud->points[count - 1].x : -1.0);
    outlive_sample_release(taken);
}

static void topic_publish_track(void) {
    struct track track = {0};
    uint64_t sequence = 0;
    track.kind = (uint32_t)number(words[2]);
    track.corners[3].y = track.kind * 2.0;
    TRY(outlive_publisher_publish_copy(it()->in, &track, sizeof track, NULL, OUTLIVE_NEVER, &sequence));
    printf("ok %llu\n", (unsigned long long)sequence);
}

static void topic_recv_track(void) {
    outlive_sample_t *taken = NULL;
    TRY(outlive_subscriber_recv(it()->out, &taken, until(words[2])));
    const struct track *track = outlive_sample_data(taken);
    printf("ok %u %.0f\n", track->kind, track->corners[3].y);
    outlive_sample_release(taken);
}

static void topic_open(void) {
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    outlive_topic_t *topic = NULL;
    uint64_t depth = 0, most = 0;
    option(2, "max", &options.max_bytes);
    if (option(2, "depth", &depth)) options.depth = (uint32_t)depth;
    if (option(2, "publishers", &most)) options.max_publishers = (uint32_t)most;
    if (option(2, "subscribers", &most)) options.max_subscribers = (uint32_t)most;
    if (option(2, "samples", &most)) options.max_samples = (uint32_t)most;
    if (option(2, "mode", &most)) options.mode = (uint32_t)most;
    options.stamps = (uint32_t)flag(2, "stamps");
    options.no_stamps = (uint32_t)flag(2, "no-stamps");
    options.reliable = (uint32_t)flag(2, "reliable");
    options.as_is = (uint32_t)flag(2, "as-is");
    if (flag(2, "track")) options.payload = &track_payload;
    if (flag(2, "scan")) options.payload = &scan_payload;
    if (flag(2, "cloud")) options.payload = &cloud_payload;
    if (flag(2, "other")) options.payload = &other_payload;
    if (flag(2, "volatile")) options.durability = OUTLIVE_VOLATILE;
    if (flag(2, "persistent")) options.durability = OUTLIVE_PERSISTENT;
    TRY(outlive_topic_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &topic));
    if (it()->main != NULL) outlive_topic_close(it()->main);
    it()->main = topic;
    OK();
}

OUTLIVE_ENCODED(cdr_payload, OUTLIVE_ENCODING_CDR, "geometry_msgs/msg/Pose");
OUTLIVE_ENCODED(msgpack_payload, OUTLIVE_ENCODING_MSGPACK, "Pose");
OUTLIVE_ENCODED(protobuf_payload, OUTLIVE_ENCODING_PROTOBUF, "Pose");
OUTLIVE_ENCODED(json_payload, OUTLIVE_ENCODING_JSON, "Pose");
OUTLIVE_ENCODED(bytes_payload, OUTLIVE_ENCODING_BYTES, "Pose");

static void topic_described(void) {
    const outlive_payload_t *of = strcmp(words[3], "track") == 0      ? &track_payload
                                  : strcmp(words[3], "other") == 0    ? &other_payload
                                  : strcmp(words[3], "msgpack") == 0  ? &msgpack_payload
                                  : strcmp(words[3], "protobuf") == 0 ? &protobuf_payload
                                  : strcmp(words[3], "json") == 0     ? &json_payload
                                  : strcmp(words[3], "bytes") == 0    ? &bytes_payload
                                                                      : &cdr_payload;
    if (strcmp(words[1], "queue") == 0) {
        outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
        outlive_queue_t *queue = NULL;
        options.payload = of;
        TRY(outlive_queue_open(domain, words[2], OUTLIVE_OPEN_OR_CREATE, &options, &queue));
        outlive_queue_close(queue);
    } else if (strcmp(words[1], "state") == 0) {
        outlive_state_t *state = NULL;
        TRY(outlive_state_open_described(domain, words[2], OUTLIVE_OPEN_OR_CREATE, of, 0, NULL, 0, &state));
        outlive_state_close(state);
    } else {
        outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
        outlive_client_t *client = NULL;
        options.request = of;
        TRY(outlive_client_open(domain, words[2], OUTLIVE_OPEN_OR_CREATE, &options, &client));
        outlive_client_close(client);
    }
    OK();
}

static void topic_payload(void) {
    char text[1024];
    TRY(outlive_domain_payload(domain, words[1], text, sizeof text));
    printf("ok %s\n", text);
}

static void topic_find(void) {
    outlive_topic_t *topic = NULL;
    TRY(outlive_topic_open(domain, words[1], OUTLIVE_OPEN, NULL, &topic));
    outlive_topic_close(topic);
    OK();
}

static void topic_publisher(void) {
    outlive_publisher_options_t options = OUTLIVE_PUBLISHER_OPTIONS_INIT;
    outlive_publisher_t *publisher = NULL;
    uint64_t span = 0;
    if (option(2, "blocking", &span)) options.max_blocking = span * 1000000;
    if (option(2, "lifespan", &span)) options.lifespan = span * 1000000;
    if (option(2, "period", &span)) options.period = span * 1000000;
    TRY(outlive_topic_publisher(it()->main, &options, &publisher));
    it()->in = publisher;
    OK();
}

static void topic_subscriber(void) {
    outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    outlive_subscriber_t *subscriber = NULL;
    uint64_t value = 0, wanted[32];
    options.reliable = (uint32_t)flag(2, "reliable");
    options.sessions = (uint32_t)flag(2, "sessions");
    if (flag(2, "volatile")) options.durability = OUTLIVE_VOLATILE;
    if (flag(2, "persistent")) options.durability = OUTLIVE_PERSISTENT;
    if (option(2, "age", &value)) options.max_age = value * 1000000;
    if (option(2, "history", &value)) options.history = (uint32_t)value;
    if (option(2, "lease", &value)) options.liveliness = value * 1000000;
    if (option(2, "keep", &value)) options.keep_last = (uint32_t)value;
    if (option(2, "period", &value)) options.period = value * 1000000;
    for (size_t at = 2; at < word_count; at++)
        if (strncmp(words[at], "key=", 4) == 0) wanted[options.key_count++] = number(words[at] + 4);
    options.keys = wanted;
    TRY(outlive_topic_subscriber(it()->main, &options, &subscriber));
    it()->out = subscriber;
    OK();
}

static void topic_unsubscribe(void) {
    outlive_subscriber_close(it()->out);
    it()->out = NULL;
    OK();
}

static void topic_publish(void) {
    outlive_header_t header;
    uint64_t sequence = 0;
    memset(&header, 0, sizeof header);
    option(4, "key", &header.key);
    option(4, "frame", &header.frame);
    option(4, "stamp", &header.stamp);
    make_message(words[2]);
    TRY(outlive_publisher_publish_copy(it()->in, message, message_size, &header, until(words[3]), &sequence));
    say_number(sequence);
}

static void topic_publish_many(void) {
    for (uint64_t count = number(words[2]); count > 0; count--) TRY(publish_pattern((size_t)number(words[3])));
    OK();
}

static void topic_flood(void) {
    for (uint64_t end = now_ms() + number(words[3]); now_ms() < end;) TRY(publish_pattern((size_t)number(words[2])));
    OK();
}

static void topic_loan(void) {
    void *data = NULL;
    make_message(words[2]);
    TRY(outlive_publisher_loan(it()->in, message_size, &loan, &data));
    memcpy(data, message, message_size);
    OK();
}

static void topic_publish_loan(void) {
    outlive_loan_t *lent = loan;
    uint64_t sequence = 0;
    loan = NULL;
    TRY(outlive_publisher_publish(it()->in, lent, OUTLIVE_NEVER, &sequence));
    say_number(sequence);
}

static void topic_publish_msgpack(void) { printf("error Unsupported %s\n", words[0]); }
static void topic_recv_msgpack(void) { printf("error Unsupported %s\n", words[0]); }

static void topic_recv(void) {
    outlive_sample_t *taken = NULL;
    TRY(outlive_subscriber_recv(it()->out, &taken, until(words[2])));
    take(taken);
}

static void topic_latest(void) {
    outlive_sample_t *taken = NULL;
    TRY(outlive_subscriber_latest(it()->out, &taken));
    take(taken);
}

static void topic_recv_hex(void) {
    outlive_sample_t *taken = NULL;
    TRY(outlive_subscriber_recv(it()->out, &taken, until(words[2])));
    const unsigned char *bytes = outlive_sample_data(taken);
    printf("ok ");
    for (size_t at = 0; at < outlive_sample_size(taken); at++) printf("%02x", bytes[at]);
    printf("\n");
    outlive_sample_release(taken);
}

static void topic_drain(void) {
    outlive_sample_t *taken = NULL;
    outlive_deadline_t deadline = until(words[3]);
    for (uint64_t count = number(words[2]); count > 0; count--) {
        TRY(outlive_subscriber_recv(it()->out, &taken, deadline));
        if (check(taken) != 0) return;
    }
    OK();
}

static void topic_drain_all(void) {
    outlive_sample_t *taken = NULL;
    uint64_t count = 0;
    int code;
    for (; (code = outlive_subscriber_recv(it()->out, &taken, OUTLIVE_TRY)) == 0; count++)
        if (check(taken) != 0) return;
    if (code != EAGAIN) TRY(code);
    say_number(count);
}

static void topic_consume(void) {
    outlive_sample_t *taken = NULL;
    for (uint64_t end = now_ms() + number(words[2]); now_ms() < end;) {
        TRY(outlive_subscriber_recv(it()->out, &taken, until(words[2])));
        outlive_sample_release(taken);
    }
    OK();
}

static void topic_assert(void) {
    outlive_publisher_assert_liveliness(it()->in);
    OK();
}

NUMBER(topic_lapses, outlive_subscriber_lapses(it()->out))
NUMBER(topic_missed, outlive_subscriber_missed(it()->out) > 0)
NUMBER(topic_late, outlive_publisher_missed(it()->in) > 0)
NUMBER(topic_expired, outlive_subscriber_expired(it()->out))
NUMBER(topic_lost, outlive_subscriber_lost(it()->out))
NUMBER(topic_lag, outlive_subscriber_lag(it()->out))
NUMBER(topic_publishers, outlive_subscriber_publisher_count(it()->out))
NUMBER(topic_subscribers, outlive_publisher_subscriber_count(it()->in))

/* A field of the sample's header. */
#define HEADER(field)                              \
    static void sample_##field(void) {             \
        outlive_header_t header;                   \
        TRY(outlive_sample_header(sample, &header)); \
        say_number(header.field);                  \
    }

HEADER(key)
HEADER(frame)
HEADER(stamp)
NUMBER(sample_sequence, outlive_sample_sequence(sample))
NUMBER(sample_order, outlive_sample_order(sample))
NUMBER(sample_publisher, outlive_sample_publisher(sample))
NUMBER(sample_session, outlive_sample_session(sample))
NUMBER(sample_alive, outlive_sample_publisher_alive(sample))

static void sample_age(void) {
    uint64_t age = outlive_sample_age(sample);
    puts(age == UINT64_MAX ? "ok unknown" : age < UINT64_C(60000000000) ? "ok fresh" : "ok old");
}

static void sample_show(void) { say_shown(outlive_sample_data(sample), outlive_sample_size(sample)); }

static void sample_drop(void) {
    outlive_sample_release(sample);
    sample = NULL;
    OK();
}

const struct verb topic_verbs[] = {
    V(topic, open, AT_LEAST(1)), V(topic, find, 1), V(topic, publisher, AT_LEAST(1)), V(topic, subscriber, AT_LEAST(1)),
    V(topic, unsubscribe, 1), V(topic, publish, AT_LEAST(3)), V(topic, publish_many, 3), V(topic, flood, 3),
    V(topic, loan, 2), V(topic, publish_loan, 1), V(topic, publish_msgpack, AT_LEAST(1)),
    V(topic, recv_msgpack, AT_LEAST(1)), V(topic, recv, 2), V(topic, latest, 1), V(topic, recv_hex, 2),
    V(topic, described, 3), V(topic, payload, 1), V(topic, publish_track, 2), V(topic, recv_track, 2),
    V(topic, publish_cloud, 3), V(topic, recv_cloud, 2), V(topic, publish_scan, 3), V(topic, recv_scan, 2),
    V(topic, publish_hex, 2), V(topic, config, 1), V(topic, slowest, 1), V(topic, prefault, 3),
    V(topic, crowd, 3), V(topic, crowd_publish, 2), V(topic, crowd_recv, 1),
    V(topic, assert, 1), V(topic, lapses, 1), V(topic, missed, 1), V(topic, late, 1),
    V(topic, drain, 3), V(topic, drain_all, 1), V(topic, consume, 2), V(topic, expired, 1), V(topic, lost, 1), V(topic, lag, 1),
    V(topic, publishers, 1), V(topic, subscribers, 1),
    V(sample, show, 0), V(sample, sequence, 0), V(sample, order, 0), V(sample, key, 0), V(sample, frame, 0),
    V(sample, stamp, 0), V(sample, publisher, 0), V(sample, session, 0), V(sample, alive, 0), V(sample, age, 0), V(sample, drop, 0),
    END,
};
