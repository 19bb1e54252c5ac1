/* Topics: loans, copies, samples; publishers and subscribers are killed. */
#include "testing.h"

static outlive_topic_t *topic;
static outlive_publisher_t *publisher;
static outlive_subscriber_t *subscriber;

static void open_topic(uint32_t depth) {
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    options.depth = depth;
    options.reliable = 1;
    OK(outlive_topic_open(domain, "camera", OUTLIVE_OPEN_OR_CREATE, depth ? &options : NULL, &topic));
}

static void close_all(void) {
    outlive_publisher_close(publisher);
    outlive_subscriber_close(subscriber);
    outlive_topic_close(topic);
    publisher = NULL;
    subscriber = NULL;
    topic = NULL;
}

static void publish(const char *text) {
    OK(outlive_publisher_publish_copy(publisher, text, strlen(text), NULL, SOON, NULL));
}

static void take(const char *wanted) {
    outlive_sample_t *sample = NULL;
    OK(outlive_subscriber_recv(subscriber, &sample, SOON));
    CHECK(outlive_sample_size(sample) == strlen(wanted));
    CHECK(memcmp(outlive_sample_data(sample), wanted, strlen(wanted)) == 0);
    outlive_sample_release(sample);
}

/* As many as the topic has room for, and what it has room for. */
static void room(void) {
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    outlive_topic_t *narrow = NULL, *other = NULL;
    outlive_publisher_t *first = NULL, *second = NULL;
    options.max_publishers = 1;
    options.max_subscribers = 3;
    options.max_samples = 9;
    options.mode = 0640;
    OK(outlive_topic_open(domain, "narrow", OUTLIVE_CREATE_NEW, &options, &narrow));
    outlive_topic_options_t found = OUTLIVE_TOPIC_OPTIONS_INIT;
    OK(outlive_topic_config(narrow, &found));
    CHECK(found.max_publishers == 1 && found.max_subscribers == 3 && found.max_samples == 9);
    CHECK(found.mode == 0640);
    options.mode = 0644;
    IS(EINVAL, outlive_topic_open(domain, "other", OUTLIVE_CREATE_NEW, &options, &other));
    options.mode = 0660;
    IS(EINVAL, outlive_topic_open(domain, "narrow", OUTLIVE_OPEN, &options, &other));
    options.mode = 0;
    OK(outlive_topic_publisher(narrow, NULL, &first));
    IS(EUSERS, outlive_topic_publisher(narrow, NULL, &second));
    options.max_samples = 7;
    IS(EINVAL, outlive_topic_open(domain, "narrow", OUTLIVE_OPEN, &options, &other));
    options.max_samples = 10;
    IS(EINVAL, outlive_topic_open(domain, "narrow", OUTLIVE_OPEN, &options, &other));
    outlive_publisher_close(first);
    outlive_topic_close(narrow);
}

static void ordinary(void) {
    open_topic(0);
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    OK(outlive_topic_subscriber(topic, NULL, &subscriber));
    uint32_t publishers = 0, subscribers = 0;
    OK(outlive_topic_counts(topic, &publishers, &subscribers));
    CHECK(publishers == 1 && subscribers == 1 && outlive_publisher_subscriber_count(publisher) == 1);
    CHECK(outlive_subscriber_publisher_count(subscriber) == 1);

    for (size_t size = 0; size < 3000000; size = size * 9 + 1) {
        outlive_loan_t *loan = NULL;
        void *data = NULL;
        uint64_t sequence = 0;
        OK(outlive_publisher_loan(publisher, size, &loan, &data));
        CHECK((uintptr_t)data % (size > 168 ? 64 : 8) == 0);
        memset(data, (int)(size % 251), size);
        outlive_header_t header = {0, 3, 42, {7}}, seen;
        OK(outlive_loan_set_header(loan, &header));
        OK(outlive_publisher_publish(publisher, loan, SOON, &sequence));
        outlive_sample_t *sample = NULL;
        OK(outlive_subscriber_recv(subscriber, &sample, SOON));
        const unsigned char *bytes = outlive_sample_data(sample);
        CHECK(outlive_sample_size(sample) == size && outlive_sample_sequence(sample) == sequence);
        CHECK(size == 0 || (bytes[0] == size % 251 && bytes[size - 1] == size % 251));
        OK(outlive_sample_header(sample, &seen));
        CHECK(seen.frame == 3 && seen.key == 42 && seen.own[0] == 7 && seen.stamp != 0);
        uint32_t me = 0;
        OK(outlive_domain_process_token(domain, &me));
        CHECK(outlive_sample_publisher(sample) == me);
        outlive_sample_release(sample);
    }
    outlive_sample_t *sample = NULL;
    IS(EAGAIN, outlive_subscriber_recv(subscriber, &sample, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_subscriber_recv(subscriber, &sample, outlive_after_ms(5)));
    CHECK(sample == NULL);
    publish("one");
    publish("two");
    CHECK(outlive_subscriber_lag(subscriber) == 2);
    OK(outlive_subscriber_latest(subscriber, &sample));
    CHECK(memcmp(outlive_sample_data(sample), "two", 3) == 0 && outlive_sample_order(sample) > 0);
    /* It outlives its subscriber and its topic. */
    outlive_loan_t *loan = NULL;
    void *data = NULL;
    OK(outlive_publisher_loan(publisher, 1 << 20, &loan, &data));
    outlive_loan_release(loan);
    close_all();
    CHECK(memcmp(outlive_sample_data(sample), "two", 3) == 0);
    outlive_sample_release(sample);
}

static void chosen(void) {
    open_topic(4);
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    for (char letter = 'a'; letter < 'k'; letter++) {
        outlive_header_t header = {1, 0, (uint64_t)letter % 2, {0}};
        OK(outlive_publisher_publish_copy(publisher, &letter, 1, &header, SOON, NULL));
    }
    outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    uint64_t keys[] = {1};
    options.history = 100;
    options.keys = keys;
    options.key_count = 1;
    options.period = 20 * 1000 * 1000;
    OK(outlive_topic_subscriber(topic, &options, &subscriber));
    take("g");
    take("i");
    outlive_sample_t *sample = NULL;
    IS(ETIME, outlive_subscriber_recv(subscriber, &sample, SOON));
    CHECK(outlive_subscriber_missed(subscriber) >= 1 && outlive_publisher_missed(publisher) == 0);
    close_all();
    open_topic(4);
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    OK(outlive_topic_subscriber(topic, NULL, &subscriber));
    for (int at = 0; at < 10; at++) publish("x");
    take("x");
    CHECK(outlive_subscriber_lost(subscriber) == 6);
    close_all();
}

/* A publisher lives and does nothing, and asserts then that it is there. */
static void not_lively(void) {
    open_topic(4);
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    options.liveliness = 3 * 1000 * 1000;
    OK(outlive_topic_subscriber(topic, &options, &subscriber));
    outlive_sample_t *sample = NULL;
    uint32_t session = 0, pid = 0;
    IS(OUTLIVE_NOT_LIVELY, outlive_subscriber_recv(subscriber, &sample, SOON));
    OK(outlive_subscriber_told(subscriber, &session, &pid));
    CHECK(session == 1 && pid == (uint32_t)getpid() && outlive_subscriber_lapses(subscriber) == 1);
    outlive_publisher_assert_liveliness(publisher);
    IS(OUTLIVE_LIVELY, outlive_subscriber_recv(subscriber, &sample, SOON));
    OK(outlive_subscriber_told(subscriber, NULL, NULL));
    close_all();
}

static void be_reliable(void) {
    outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    open_topic(4);
    options.reliable = 1;
    OK(outlive_topic_subscriber(topic, &options, &subscriber));
    tell();
    for_ever();
}

static pid_t doomed;

static void *kill_later(void *nothing) {
    sleep_ms(60);
    kill_it(doomed);
    return nothing;
}

/* A publisher waits for a reliable subscriber, and is released by its death. */
static void reliable_subscriber_killed(void) {
    open_topic(4);
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    doomed = start(be_reliable);
    hear();
    outlive_wait_set_t *set = NULL;
    outlive_laggard_t slowest, seen;
    outlive_ready_t ready;
    uint64_t key = 0;
    size_t count = 0;
    OK(outlive_wait_set_open(domain, &set));
    OK(outlive_wait_set_add_publisher(set, publisher, &key));
    for (int at = 0; at < 4; at++) publish("x");
    OK(outlive_publisher_slowest(publisher, &slowest));
    CHECK(slowest.who.pid == (uint32_t)doomed && slowest.lag == 4 && slowest.is_in_the_way == 1 && slowest.who.alive);
    IS(ETIMEDOUT, outlive_wait_set_wait(set, &ready, 1, &count, outlive_after_ms(5)));
    OK(outlive_wait_set_slowest(set, key, &seen));
    CHECK(seen.who.pid == slowest.who.pid && seen.lag == 4 && seen.who.token == slowest.who.token);
    IS(EINVAL, outlive_wait_set_slowest(set, key + 1, &seen));
    IS(EINVAL, outlive_publisher_slowest(publisher, NULL));
    IS(EAGAIN, outlive_publisher_publish_copy(publisher, "x", 1, NULL, OUTLIVE_TRY, NULL));
    CHECK(outlive_last_error_pid() == (uint32_t)doomed);
    IS(EINVAL, outlive_publisher_slowest(NULL, &slowest));
    CHECK(outlive_last_error_pid() == 0);
    IS(ETIMEDOUT, outlive_publisher_publish_copy(publisher, "x", 1, NULL, outlive_after_ms(10), NULL));
    CHECK(outlive_last_error_pid() == (uint32_t)doomed);
    outlive_loan_t *loan = NULL;
    void *data = NULL;
    OK(outlive_publisher_loan(publisher, 500, &loan, &data));
    IS(EAGAIN, outlive_publisher_publish(publisher, loan, OUTLIVE_TRY, NULL));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
    publish("x");
    CHECK(pthread_join(thread, NULL) == 0);
    OK(outlive_wait_set_wait(set, &ready, 1, &count, SOON));
    CHECK(ready.what == OUTLIVE_WRITABLE);
    IS(ESRCH, outlive_wait_set_slowest(set, key, &seen));
    IS(ESRCH, outlive_publisher_slowest(publisher, &slowest));
    outlive_wait_set_close(set);
    close_all();
}

/* Options can want stamps, and no stamps; a topic's own are read back. */
static void stamps(void) {
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT, found = OUTLIVE_TOPIC_OPTIONS_INIT;
    outlive_topic_t *without = NULL, *with = NULL, *other = NULL;
    options.no_stamps = 1;
    OK(outlive_topic_open(domain, "without", OUTLIVE_CREATE_NEW, &options, &without));
    OK(outlive_topic_config(without, &found));
    CHECK(found.no_stamps == 1 && found.stamps == 0);
    options.stamps = 1;
    IS(EINVAL, outlive_topic_open(domain, "without", OUTLIVE_OPEN, &options, &other));
    options.no_stamps = 0;
    IS(EINVAL, outlive_topic_open(domain, "without", OUTLIVE_OPEN, &options, &other));
    CHECK(strstr(outlive_last_error(), "stamps"));
    OK(outlive_topic_open(domain, "with", OUTLIVE_CREATE_NEW, &options, &with));
    OK(outlive_topic_config(with, &found));
    CHECK(found.no_stamps == 0 && found.stamps == 1 && found.depth == 16);
    options.stamps = 0;
    options.no_stamps = 1;
    IS(EINVAL, outlive_topic_open(domain, "with", OUTLIVE_OPEN, &options, &other));
    /* A program that was compiled with a shorter struct gets that much. */
    struct { outlive_topic_options_t options; uint64_t behind; } old = {OUTLIVE_TOPIC_OPTIONS_INIT, 7};
    old.options.size = offsetof(outlive_topic_options_t, wait);
    OK(outlive_topic_config(with, &old.options));
    CHECK(old.options.depth == 16 && old.options.mode == 0 && old.options.size == offsetof(outlive_topic_options_t, wait));
    old.options.size = 0;
    IS(EINVAL, outlive_topic_config(with, &old.options));
    IS(EINVAL, outlive_topic_config(with, NULL));
    outlive_topic_close(with);
    outlive_topic_close(without);
}

static void publish_and_hold(void) {
    open_topic(0);
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    char frame[100000];
    memset(frame, 'f', sizeof frame);
    OK(outlive_publisher_publish_copy(publisher, frame, sizeof frame, NULL, SOON, NULL));
    outlive_loan_t *loan = NULL;
    void *data = NULL;
    OK(outlive_publisher_loan(publisher, sizeof frame, &loan, &data));
    tell();
    for_ever();
}

/* What it published is taken, and stays as it is; its loan is free again. */
static void publisher_killed(void) {
    open_topic(0);
    OK(outlive_topic_subscriber(topic, NULL, &subscriber));
    pid_t child = start(publish_and_hold);
    hear();
    kill_it(child);
    CHECK(outlive_subscriber_publisher_count(subscriber) == 0);
    outlive_sample_t *sample = NULL;
    OK(outlive_subscriber_recv(subscriber, &sample, SOON));
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    for (int at = 0; at < 40; at++) publish("over it");
    const char *bytes = outlive_sample_data(sample);
    for (size_t at = 0; at < outlive_sample_size(sample); at++) CHECK(bytes[at] == 'f');
    CHECK(!outlive_peer_is_alive(domain, outlive_sample_publisher(sample)));
    outlive_sample_release(sample);
    close_all();
}

static void use_parents(void) {
    outlive_sample_t *sample = NULL;
    IS(EPERM, outlive_subscriber_recv(subscriber, &sample, OUTLIVE_TRY));
    IS(EPERM, outlive_publisher_publish_copy(publisher, "x", 1, NULL, SOON, NULL));
}

static void forked(void) {
    open_topic(0);
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    OK(outlive_topic_subscriber(topic, NULL, &subscriber));
    join(start(use_parents));
    close(news[0]);
    publish("parent");
    take("parent");
    close_all();
}

static void bad_arguments(void) {
    outlive_sample_t *sample = NULL;
    outlive_loan_t *loan = NULL;
    void *data = NULL;
    IS(EINVAL, outlive_topic_open(domain, "", OUTLIVE_OPEN_OR_CREATE, NULL, &topic));
    IS(EINVAL, outlive_topic_publisher(NULL, NULL, &publisher));
    IS(EINVAL, outlive_topic_subscriber(NULL, NULL, &subscriber));
    open_topic(0);
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    OK(outlive_topic_subscriber(topic, NULL, &subscriber));
    IS(EINVAL, outlive_publisher_loan(publisher, 5, NULL, &data));
    IS(EINVAL, outlive_publisher_loan(publisher, 5, &loan, NULL));
    IS(EMSGSIZE, outlive_publisher_loan(publisher, SIZE_MAX, &loan, &data));
    IS(EINVAL, outlive_publisher_publish(publisher, NULL, SOON, NULL));
    IS(EINVAL, outlive_publisher_publish_copy(publisher, NULL, 5, NULL, SOON, NULL));
    IS(EINVAL, outlive_publisher_publish_copy(publisher, "", SIZE_MAX, NULL, SOON, NULL));
    IS(EINVAL, outlive_subscriber_recv(subscriber, NULL, OUTLIVE_TRY));
    IS(EINVAL, outlive_subscriber_recv(NULL, &sample, OUTLIVE_TRY));
    CHECK(outlive_sample_data(NULL) == NULL && outlive_sample_size(NULL) == 0);
    IS(EINVAL, outlive_sample_header(NULL, NULL));
    outlive_loan_release(NULL);
    outlive_sample_release(NULL);
    outlive_topic_t *other = NULL;
    outlive_queue_t *queue = NULL;
    IS(OUTLIVE_OTHER_KIND, outlive_queue_open(domain, "camera", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    options.wait = 17;
    IS(EINVAL, outlive_topic_open(domain, "other", OUTLIVE_OPEN_OR_CREATE, &options, &other));
    close_all();
}

/* A publisher waits no longer than its options say, and the subscriber is told. */
static void waits_no_longer(void) {
    outlive_subscriber_options_t reliable = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    outlive_publisher_options_t limited = OUTLIVE_PUBLISHER_OPTIONS_INIT;
    outlive_sample_t *sample = NULL;
    open_topic(2);
    reliable.reliable = 1;
    limited.max_blocking = OUTLIVE_BLOCK_NEVER;
    OK(outlive_topic_subscriber(topic, &reliable, &subscriber));
    OK(outlive_topic_publisher(topic, &limited, &publisher));
    publish("a");
    publish("b");
    publish("c");
    CHECK(outlive_subscriber_lagged(subscriber) == 0);
    IS(OUTLIVE_LAGGED, outlive_subscriber_recv(subscriber, &sample, SOON));
    CHECK(outlive_subscriber_lagged(subscriber) == 1 && outlive_last_error_pid() == 0);
    take("b");
    take("c");
    CHECK(outlive_subscriber_lost(subscriber) == 1 && outlive_subscriber_lagged(NULL) == 0);
    close_all();
}

TESTS(TEST(ordinary), TEST(room), TEST(stamps), TEST(chosen), TEST(waits_no_longer), TEST(not_lively), TEST(reliable_subscriber_killed), TEST(publisher_killed), TEST(forked),
      TEST(bad_arguments))
