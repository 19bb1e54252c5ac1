/* Wait sets: queues, topics, events, latches, peers and timers at once; and as a descriptor. */
#include "testing.h"

#include <poll.h>

static outlive_wait_set_t *set;

static uint32_t what_of(uint64_t key, outlive_deadline_t deadline) {
    outlive_ready_t ready[8];
    size_t count = 0;
    int code = outlive_wait_set_wait(set, ready, 8, &count, deadline);
    CHECK(code == 0 || code == EAGAIN || code == ETIMEDOUT);
    for (size_t at = 0; code == 0 && at < count; at++)
        if (ready[at].key == key) return ready[at].what;
    return 0;
}

static void ordinary(void) {
    outlive_queue_t *queue = NULL;
    outlive_sender_t *sender = NULL;
    outlive_receiver_t *receiver = NULL;
    outlive_topic_t *topic = NULL;
    outlive_publisher_t *publisher = NULL;
    outlive_subscriber_t *subscriber = NULL;
    outlive_event_t *event = NULL;
    outlive_latch_t *latch = NULL;
    OK(outlive_queue_open(domain, "queue", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    OK(outlive_topic_open(domain, "topic", OUTLIVE_OPEN_OR_CREATE, NULL, &topic));
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    OK(outlive_topic_subscriber(topic, NULL, &subscriber));
    OK(outlive_event_open(domain, "event", OUTLIVE_OPEN_OR_CREATE, OUTLIVE_RESET_MANUAL, &event));
    OK(outlive_latch_open(domain, "latch", OUTLIVE_OPEN_OR_CREATE, 1, &latch));

    OK(outlive_wait_set_open(domain, &set));
    uint64_t by_queue, by_topic, by_event, by_latch, by_timer, by_ticks, elapsed = 0;
    OK(outlive_wait_set_add_receiver(set, receiver, &by_queue));
    OK(outlive_wait_set_add_subscriber(set, subscriber, &by_topic));
    OK(outlive_wait_set_add_event(set, event, 6, 1, &by_event));
    OK(outlive_wait_set_add_latch(set, latch, &by_latch));
    CHECK(what_of(by_queue, OUTLIVE_TRY) == 0 && what_of(by_queue, outlive_after_ms(5)) == 0);

    OK(outlive_sender_send(sender, "x", 1, SOON));
    CHECK(what_of(by_queue, SOON) == OUTLIVE_READABLE);
    OK(outlive_publisher_publish_copy(publisher, "x", 1, NULL, SOON, NULL));
    CHECK(what_of(by_topic, SOON) == OUTLIVE_READABLE);
    OK(outlive_event_set(event, 2, NULL));
    CHECK(what_of(by_event, OUTLIVE_TRY) == 0);
    OK(outlive_event_set(event, 4, NULL));
    CHECK(what_of(by_event, SOON) == OUTLIVE_SET);
    OK(outlive_latch_arrive(latch, 1, NULL));
    CHECK(what_of(by_latch, SOON) == OUTLIVE_SET);
    OK(outlive_wait_set_add_timer(set, outlive_after_ms(1), &by_timer));
    OK(outlive_wait_set_add_timer_every(set, 1000000, &by_ticks));
    sleep_ms(5);
    CHECK(what_of(by_timer, SOON) == OUTLIVE_ELAPSED && what_of(by_ticks, SOON) == OUTLIVE_ELAPSED);
    OK(outlive_wait_set_take_timer(set, by_ticks, &elapsed));
    CHECK(elapsed >= 4);
    IS(EINVAL, outlive_wait_set_take_timer(set, by_queue, &elapsed));

    /* Less room than there is ready: the rest is told the next time. */
    outlive_ready_t one;
    size_t count = 0;
    OK(outlive_wait_set_wait(set, &one, 1, &count, SOON));
    CHECK(count == 1);
    IS(EINVAL, outlive_wait_set_wait(set, &one, 0, &count, SOON));
    OK(outlive_wait_set_remove(set, by_queue));
    IS(EINVAL, outlive_wait_set_remove(set, by_queue));
    CHECK(what_of(by_queue, SOON) == 0);
    /* A source outlives what it was made from. */
    outlive_event_close(event);
    CHECK(what_of(by_event, SOON) == OUTLIVE_SET);
    outlive_wait_set_close(set);
    outlive_latch_close(latch);
    outlive_subscriber_close(subscriber);
    outlive_publisher_close(publisher);
    outlive_topic_close(topic);
    outlive_receiver_close(receiver);
    outlive_sender_close(sender);
    outlive_queue_close(queue);
}

static void lend_token(void) {
    uint32_t token = 0;
    OK(outlive_domain_process_token(domain, &token));
    CHECK(write(news[1], &token, sizeof token) == sizeof token);
    for_ever();
}

static void peer_killed(void) {
    pid_t child = start(lend_token);
    uint32_t token = 0;
    CHECK(read(news[0], &token, sizeof token) == sizeof token);
    close(news[0]);
    uint64_t by_peer = 0;
    OK(outlive_wait_set_open(domain, &set));
    OK(outlive_wait_set_add_peer(set, domain, token, &by_peer));
    int fd = -1;
    OK(outlive_wait_set_fd(set, &fd));
    struct pollfd polled = {fd, POLLIN, 0};
    CHECK(what_of(by_peer, OUTLIVE_TRY) == 0 && poll(&polled, 1, 5) == 0);
    kill_it(child);
    CHECK(poll(&polled, 1, 10000) == 1);
    CHECK(what_of(by_peer, OUTLIVE_TRY) == OUTLIVE_ENDED);
    outlive_wait_set_close(set);
    outlive_wait_set_close(NULL);
    uint64_t key = 0;
    IS(EINVAL, outlive_wait_set_open(NULL, &set));
    IS(EINVAL, outlive_wait_set_add_peer(NULL, domain, token, &key));
    IS(EINVAL, outlive_wait_set_add_receiver(NULL, NULL, &key));
}

static void write_and_hold(void) {
    outlive_state_t *state = NULL;
    outlive_state_writer_t *writer = NULL;
    OK(outlive_state_open(domain, "mode", OUTLIVE_OPEN_OR_CREATE, 8, "idle", 4, &state));
    OK(outlive_state_writer(state, SOON, &writer));
    OK(outlive_state_writer_set(writer, "on", 2, NULL));
    tell();
    for_ever();
}

/* States, services, publishers and participants. */
static void others(void) {
    outlive_state_t *state = NULL;
    outlive_topic_t *topic = NULL;
    outlive_server_t *server = NULL;
    outlive_client_t *client = NULL;
    outlive_call_t *call = NULL;
    OK(outlive_state_open(domain, "mode", OUTLIVE_OPEN_OR_CREATE, 8, "idle", 4, &state));
    OK(outlive_topic_open(domain, "topic", OUTLIVE_OPEN_OR_CREATE, NULL, &topic));
    OK(outlive_server_open(domain, "service", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    OK(outlive_client_open(domain, "service", OUTLIVE_OPEN_OR_CREATE, NULL, &client));
    OK(outlive_wait_set_open(domain, &set));
    uint64_t by_state, by_topic, by_server, by_call, by_publisher, version = 0;
    uint32_t publishers = 9, subscribers = 9;
    OK(outlive_wait_set_add_state(set, state, &by_state));
    OK(outlive_wait_set_add_topic(set, topic, &by_topic));
    OK(outlive_wait_set_add_server(set, server, &by_server));
    CHECK(what_of(by_state, SOON) == OUTLIVE_CHANGED);
    OK(outlive_wait_set_take_state(set, by_state, &version));
    CHECK(version == 1);
    IS(EAGAIN, outlive_wait_set_take_state(set, by_state, &version));
    IS(EINVAL, outlive_wait_set_take_state(set, by_topic, &version));
    int code = outlive_wait_set_take_topic(set, by_topic, &publishers, &subscribers);
    CHECK(code == EAGAIN || (code == 0 && publishers == 0 && subscribers == 0));
    CHECK(what_of(by_topic, OUTLIVE_TRY) == 0 && what_of(by_state, OUTLIVE_TRY) == 0);

    pid_t child = start(write_and_hold);
    hear();
    CHECK(what_of(by_state, SOON) == OUTLIVE_CHANGED);
    OK(outlive_wait_set_take_state(set, by_state, &version));
    CHECK(version == 2);
    kill_it(child);
    CHECK(what_of(by_state, SOON) == OUTLIVE_ENDED);
    IS(EPIPE, outlive_wait_set_take_state(set, by_state, &version));

    outlive_publisher_t *publisher = NULL;
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    CHECK(what_of(by_topic, SOON) == OUTLIVE_CHANGED);
    OK(outlive_wait_set_take_topic(set, by_topic, &publishers, &subscribers));
    CHECK(publishers == 1 && subscribers == 0);
    OK(outlive_wait_set_add_publisher(set, publisher, &by_publisher));
    CHECK(what_of(by_publisher, SOON) == OUTLIVE_WRITABLE);
    OK(outlive_wait_set_remove(set, by_publisher));

    outlive_publisher_t *often = NULL;
    outlive_publisher_options_t of_period = OUTLIVE_PUBLISHER_OPTIONS_INIT;
    of_period.period = 1000 * 1000;
    uint64_t by_due = 0, periods = 0;
    OK(outlive_topic_publisher(topic, &of_period, &often));
    OK(outlive_wait_set_take_topic(set, by_topic, &publishers, &subscribers));
    OK(outlive_wait_set_add_due(set, often, &by_due));
    CHECK(what_of(by_due, SOON) == OUTLIVE_MISSED);
    OK(outlive_wait_set_take_missed(set, by_due, &periods));
    CHECK(periods >= 1 && outlive_publisher_missed(often) >= periods);
    IS(EINVAL, outlive_wait_set_take_missed(set, by_topic, &periods));
    OK(outlive_wait_set_remove(set, by_due));
    outlive_publisher_close(often);
    OK(outlive_wait_set_take_topic(set, by_topic, &publishers, &subscribers));

    OK(outlive_client_begin(client, "?", 1, SOON, &call));
    CHECK(what_of(by_server, SOON) == OUTLIVE_READABLE);
    OK(outlive_wait_set_add_call(set, call, &by_call));
    outlive_request_t *request = NULL;
    outlive_reply_t *reply = NULL;
    OK(outlive_server_next(server, OUTLIVE_TRY, &request));
    CHECK(what_of(by_call, OUTLIVE_TRY) == 0);
    OK(outlive_request_reply(request, "!", 1));
    CHECK(what_of(by_call, SOON) == OUTLIVE_READABLE);
    OK(outlive_call_next(call, OUTLIVE_TRY, &reply));
    outlive_reply_release(reply);
    outlive_wait_set_close(set);
    outlive_call_release(call);
    outlive_client_close(client);
    outlive_server_close(server);
    outlive_publisher_close(publisher);
    outlive_topic_close(topic);
    outlive_state_close(state);
}

/* It has a role of each kind. */
static void hold_roles(void) {
    outlive_queue_t *queue = NULL;
    outlive_receiver_t *receiver = NULL;
    outlive_state_t *state = NULL;
    outlive_state_writer_t *writer = NULL;
    outlive_server_t *server = NULL;
    OK(outlive_queue_open(domain, "log", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    OK(outlive_state_open(domain, "speed", OUTLIVE_OPEN_OR_CREATE, 8, "1", 1, &state));
    OK(outlive_state_writer(state, OUTLIVE_TRY, &writer));
    OK(outlive_server_open(domain, "work", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    tell();
    for_ever();
}

/* Returns what the source is ready for, once it is: others may be ready before it. */
static uint32_t what_soon(uint64_t key) {
    uint32_t what = 0;
    for (int at = 0; what == 0 && at < 10000; at++) {
        what = what_of(key, SOON);
        if (what == 0) sleep_ms(1);
    }
    return what;
}

/* A process stands by for three roles, in one set. */
static void stands_by(void) {
    pid_t child = start(hold_roles);
    hear();
    outlive_queue_t *queue = NULL;
    outlive_receiver_t *receiver = NULL;
    outlive_state_t *state = NULL;
    outlive_state_writer_t *writer = NULL;
    outlive_server_t *server = NULL;
    OK(outlive_queue_open(domain, "log", OUTLIVE_OPEN, NULL, &queue));
    OK(outlive_state_open(domain, "speed", OUTLIVE_OPEN, 0, NULL, 0, &state));
    OK(outlive_wait_set_open(domain, &set));
    uint64_t by_queue, by_state, by_service, key = 7;
    OK(outlive_wait_set_add_queue_stand_by(set, queue, &by_queue));
    OK(outlive_wait_set_add_state_stand_by(set, state, &by_state));
    OK(outlive_wait_set_add_service_stand_by(set, domain, "work", OUTLIVE_OPEN, NULL, &by_service));
    IS(EINVAL, outlive_wait_set_add_queue_stand_by(set, NULL, &key));
    IS(EINVAL, outlive_wait_set_add_state_stand_by(NULL, state, &key));
    IS(EINVAL, outlive_wait_set_add_service_stand_by(set, NULL, "work", OUTLIVE_OPEN, NULL, &key));
    IS(ENOENT, outlive_wait_set_add_service_stand_by(set, domain, "none", OUTLIVE_OPEN, NULL, &key));
    CHECK(key == 7);
    outlive_ready_t ready[4];
    size_t count = 0;
    IS(EAGAIN, outlive_wait_set_wait(set, ready, 4, &count, OUTLIVE_TRY));
    IS(EBUSY, outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    kill_it(child);
    CHECK(what_soon(by_queue) == OUTLIVE_ENDED && what_soon(by_state) == OUTLIVE_ENDED);
    CHECK(what_soon(by_service) == OUTLIVE_ENDED);
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    OK(outlive_state_writer(state, OUTLIVE_TRY, &writer));
    OK(outlive_server_open(domain, "work", OUTLIVE_OPEN, NULL, &server));
    /* This process has them now: a source is ready again when it lets go. */
    IS(EAGAIN, outlive_wait_set_wait(set, ready, 4, &count, OUTLIVE_TRY));
    outlive_server_close(server);
    CHECK(what_soon(by_service) == OUTLIVE_ENDED);
    outlive_wait_set_close(set);
    outlive_state_writer_close(writer);
    outlive_state_close(state);
    outlive_receiver_close(receiver);
    outlive_queue_close(queue);
}

TESTS(TEST(ordinary), TEST(others), TEST(peer_killed), TEST(stands_by))
