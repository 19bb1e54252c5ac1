/* Queues: sent, received, peeked at; ends are killed. */
#include "testing.h"

static outlive_queue_t *queue;
static outlive_sender_t *sender;
static outlive_receiver_t *receiver;

static void open_queue(uint64_t max_bytes) {
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    options.max_bytes = max_bytes;
    OK(outlive_queue_open(domain, "orders", OUTLIVE_OPEN_OR_CREATE, max_bytes ? &options : NULL, &queue));
}

static void close_all(void) {
    outlive_sender_close(sender);
    outlive_receiver_close(receiver);
    outlive_queue_close(queue);
    sender = NULL;
    receiver = NULL;
    queue = NULL;
}

static void receive(const char *wanted) {
    char buffer[64];
    size_t size = 0;
    OK(outlive_receiver_recv(receiver, buffer, sizeof buffer, &size, SOON));
    CHECK(size == strlen(wanted) && memcmp(buffer, wanted, size) == 0);
}

static void ordinary(void) {
    open_queue(0);
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    OK(outlive_sender_send(sender, "buy 10", 6, OUTLIVE_NEVER));
    OK(outlive_sender_send(sender, NULL, 0, OUTLIVE_TRY));
    receive("buy 10");
    receive("");
    char buffer[8];
    size_t size = 77;
    IS(EAGAIN, outlive_receiver_recv(receiver, buffer, 8, &size, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_receiver_recv(receiver, buffer, 8, &size, outlive_after_ms(5)));
    CHECK(size == 77);
    /* Too long for the buffer: it stays. */
    OK(outlive_sender_send(sender, "0123456789", 10, SOON));
    IS(EMSGSIZE, outlive_receiver_recv(receiver, buffer, 8, &size, SOON));
    CHECK(size == 10);
    receive("0123456789");
    outlive_bytes_t batch[] = {{"a", 1}, {"", 0}, {NULL, 0}, {"four", 4}};
    OK(outlive_sender_send_batch(sender, batch, 4, SOON));
    receive("a");
    receive("");
    receive("");
    receive("four");
    outlive_queue_counters_t counters;
    OK(outlive_queue_counters(queue, &counters));
    CHECK(counters.sent == 7 && counters.received == 7 && counters.pending == 0);
    outlive_receiver_t *second = NULL;
    IS(EBUSY, outlive_queue_receiver(queue, OUTLIVE_TRY, &second));
    close_all();
}

static void peeked(void) {
    open_queue(0);
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    const void *data = NULL;
    size_t size = 0;
    uint32_t redelivered = 9;
    IS(EAGAIN, outlive_receiver_peek(receiver, &data, &size, NULL, OUTLIVE_TRY));
    IS(EINVAL, outlive_receiver_commit(receiver));
    char large[5000];
    memset(large, 'x', sizeof large);
    OK(outlive_sender_send(sender, large, sizeof large, SOON));
    OK(outlive_sender_send(sender, "next", 4, SOON));
    for (int again = 0; again < 2; again++) {
        OK(outlive_receiver_peek(receiver, &data, &size, &redelivered, SOON));
        CHECK(size == sizeof large && memcmp(data, large, size) == 0 && redelivered == 0);
    }
    OK(outlive_receiver_commit(receiver));
    IS(EINVAL, outlive_receiver_commit(receiver));
    OK(outlive_receiver_peek(receiver, &data, &size, NULL, SOON));
    CHECK(size == 4 && memcmp(data, "next", 4) == 0);
    /* Not committed: the receive takes it. */
    receive("next");
    close_all();
}

static void be_receiver(void) {
    open_queue(0);
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    const void *data = NULL;
    size_t size = 0;
    receive("one");
    OK(outlive_receiver_peek(receiver, &data, &size, NULL, SOON));
    CHECK(size == 3 && memcmp(data, "two", 3) == 0);
    tell();
    for_ever();
}

static void receiver_killed(void) {
    open_queue(0);
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_sender_send(sender, "one", 3, SOON));
    OK(outlive_sender_send(sender, "two", 3, SOON));
    pid_t child = start(be_receiver);
    hear();
    IS(EBUSY, outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    kill_it(child);
    IS(EPIPE, outlive_sender_send(sender, "three", 5, SOON));
    CHECK(strstr(outlive_last_error(), "died") != NULL);
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    const void *data = NULL;
    size_t size = 0;
    uint32_t redelivered = 0;
    OK(outlive_receiver_peek(receiver, &data, &size, &redelivered, SOON));
    CHECK(size == 3 && memcmp(data, "two", 3) == 0 && redelivered == 1);
    OK(outlive_receiver_commit(receiver));
    OK(outlive_sender_send(sender, "four", 4, SOON));
    receive("four");
    close_all();
}

static void take_one_place(void) {
    open_queue(64 << 10);
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    tell();
    for_ever();
}

static pid_t doomed;

static void *kill_later(void *nothing) {
    sleep_ms(60);
    kill_it(doomed);
    return nothing;
}

/* A sender that waits in a full queue is told by the death itself. */
static void receiver_killed_while_full(void) {
    open_queue(64 << 10);
    OK(outlive_queue_sender(queue, &sender));
    doomed = start(take_one_place);
    hear();
    char message[1000] = {0};
    int code = 0;
    while (code == 0) code = outlive_sender_send(sender, message, sizeof message, OUTLIVE_TRY);
    IS(EAGAIN, code);
    IS(ETIMEDOUT, outlive_sender_send(sender, message, sizeof message, outlive_after_ms(10)));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
    IS(EPIPE, outlive_sender_send(sender, message, sizeof message, SOON));
    CHECK(pthread_join(thread, NULL) == 0);
    IS(EMSGSIZE, outlive_sender_send(sender, message, (size_t)1 << 40, SOON));
    close_all();
}

static void send_and_hold(void) {
    open_queue(0);
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_sender_send(sender, "last words", 10, SOON));
    tell();
    for_ever();
}

static void senders_killed(void) {
    open_queue(0);
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    OK(outlive_receiver_end_when_senders_gone(receiver, 1));
    pid_t child = start(send_and_hold);
    hear();
    kill_it(child);
    receive("last words");
    char buffer[8];
    size_t size = 0;
    IS(EPIPE, outlive_receiver_recv(receiver, buffer, sizeof buffer, &size, SOON));
    IS(EPIPE, outlive_receiver_recv(receiver, buffer, sizeof buffer, &size, OUTLIVE_TRY));
    close_all();
}

static void use_parents(void) {
    char buffer[8];
    size_t size = 0;
    IS(EPERM, outlive_receiver_recv(receiver, buffer, sizeof buffer, &size, OUTLIVE_TRY));
    OK(outlive_sender_send(sender, "child", 5, SOON));
}

static void forked(void) {
    open_queue(0);
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    join(start(use_parents));
    close(news[0]);
    receive("child");
    close_all();
}

static void no_receiver(void) {
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    options.need_receiver = 1;
    OK(outlive_queue_open(domain, "strict", OUTLIVE_OPEN_OR_CREATE, &options, &queue));
    OK(outlive_queue_sender(queue, &sender));
    IS(ENOTCONN, outlive_sender_send(sender, "x", 1, SOON));
    close_all();
    OK(outlive_queue_open(domain, "strict", OUTLIVE_OPEN, NULL, &queue));
    OK(outlive_queue_sender(queue, &sender));
    IS(ENOTCONN, outlive_sender_send(sender, "x", 1, SOON));
    close_all();
}

static void be_receiver_of_kept(void) {
    OK(outlive_queue_open(domain, "kept", OUTLIVE_OPEN, NULL, &queue));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    tell();
    for_ever();
}

/* While the receiver is dead, messages are kept for the next one; all handles agree. */
static void kept(void) {
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    options.on_receiver_death = OUTLIVE_RECEIVER_DEATH_KEEPS;
    OK(outlive_queue_open(domain, "kept", OUTLIVE_OPEN_OR_CREATE, &options, &queue));
    pid_t child = start(be_receiver_of_kept);
    hear();
    kill_it(child);
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_sender_send(sender, "kept", 4, SOON));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    receive("kept");
    close_all();
    options.on_receiver_death = OUTLIVE_RECEIVER_DEATH_FAILS;
    IS(EINVAL, outlive_queue_open(domain, "kept", OUTLIVE_OPEN, &options, &queue));
    options.on_receiver_death = 3;
    IS(EINVAL, outlive_queue_open(domain, "kept", OUTLIVE_OPEN, &options, &queue));
    OK(outlive_queue_open(domain, "kept", OUTLIVE_OPEN, NULL, &queue));
    close_all();
}

/* A bound in messages: so many and not one more; all handles agree. */
static void bounded(void) {
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    outlive_queue_counters_t counters;
    uint32_t full = 1;
    options.max_messages = 3;
    OK(outlive_queue_open(domain, "bounded", OUTLIVE_CREATE_NEW, &options, &queue));
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    for (int round = 0; round < 5; round++) {
        for (int number = 0; number < 3; number++) {
            OK(outlive_queue_is_full(queue, &full));
            CHECK(full == 0);
            OK(outlive_sender_send(sender, "some", 4, OUTLIVE_TRY));
        }
        OK(outlive_queue_is_full(queue, &full));
        CHECK(full == 1);
        IS(EAGAIN, outlive_sender_send(sender, "more", 4, OUTLIVE_TRY));
        IS(ETIMEDOUT, outlive_sender_send(sender, "more", 4, outlive_after_ms(1)));
        OK(outlive_queue_counters(queue, &counters));
        CHECK(counters.pending == 3 && counters.max_messages == 3 && counters.places == 3);
        for (int number = 0; number < 3; number++) receive("some");
    }
    OK(outlive_queue_join(queue, OUTLIVE_TRY));
    OK(outlive_sender_send(sender, "some", 4, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_queue_join(queue, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_queue_join(queue, outlive_after_ms(1)));
    receive("some");
    OK(outlive_queue_join(queue, SOON));
    IS(EINVAL, outlive_queue_join(NULL, SOON));
    IS(EINVAL, outlive_queue_is_full(queue, NULL));
    IS(EINVAL, outlive_queue_is_full(NULL, &full));
    close_all();
    options.max_messages = 4;
    IS(EINVAL, outlive_queue_open(domain, "bounded", OUTLIVE_OPEN, &options, &queue));
    options.max_messages = (1 << 20) + 1;
    IS(EINVAL, outlive_queue_open(domain, "beyond", OUTLIVE_OPEN_OR_CREATE, &options, &queue));
    OK(outlive_queue_open(domain, "bounded", OUTLIVE_OPEN, NULL, &queue));
    OK(outlive_queue_counters(queue, &counters));
    CHECK(counters.max_messages == 3);
    close_all();
    /* There is no memory for so many: it says for how many there is. */
    uint64_t sent = 0;
    options.max_messages = 20000;
    options.max_bytes = 64 << 10;
    OK(outlive_queue_open(domain, "short", OUTLIVE_CREATE_NEW, &options, &queue));
    OK(outlive_queue_sender(queue, &sender));
    while (outlive_sender_send(sender, "some", 4, OUTLIVE_TRY) == 0) sent++;
    OK(outlive_queue_counters(queue, &counters));
    CHECK(sent > 0 && sent < 20000 && counters.places == sent && counters.max_messages == 20000);
    close_all();
}

static void bad_arguments(void) {
    IS(EINVAL, outlive_queue_open(NULL, "x", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    IS(EINVAL, outlive_queue_open(domain, "x", OUTLIVE_OPEN_OR_CREATE, NULL, NULL));
    IS(EINVAL, outlive_queue_open(domain, "x/y", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    IS(EINVAL, outlive_queue_sender(NULL, &sender));
    IS(EINVAL, outlive_sender_send(NULL, "x", 1, SOON));
    open_queue(0);
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    IS(EINVAL, outlive_sender_send(sender, NULL, 1, SOON));
    IS(EINVAL, outlive_sender_send(sender, "x", SIZE_MAX, SOON));
    IS(EINVAL, outlive_sender_send_batch(sender, NULL, 3, SOON));
    outlive_bytes_t none = {NULL, 5};
    IS(EINVAL, outlive_sender_send_batch(sender, &none, 1, SOON));
    size_t size = 0;
    IS(EINVAL, outlive_receiver_recv(receiver, NULL, 0, NULL, SOON));
    OK(outlive_sender_send(sender, "x", 1, SOON));
    IS(EMSGSIZE, outlive_receiver_recv(receiver, NULL, 0, &size, SOON));
    IS(EINVAL, outlive_receiver_recv(receiver, NULL, 10, &size, SOON));
    IS(EINVAL, outlive_receiver_peek(receiver, NULL, &size, NULL, SOON));
    IS(EINVAL, outlive_queue_counters(queue, NULL));
    receive("x");
    outlive_sender_close(NULL);
    outlive_receiver_close(NULL);
    close_all();
}

TESTS(TEST(ordinary), TEST(peeked), TEST(receiver_killed), TEST(receiver_killed_while_full), TEST(senders_killed),
      TEST(forked), TEST(no_receiver), TEST(kept), TEST(bounded), TEST(bad_arguments))
