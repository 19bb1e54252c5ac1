/* `queue.` A queue's `in` is its sender, `out` its receiver, each made when it is first needed. */
#include "driver.h"

static int sender(void) {
    outlive_sender_t *sender = it()->in;
    int code = sender == NULL ? outlive_queue_sender(it()->main, &sender) : 0;
    it()->in = sender;
    return code;
}

int receiver(struct thing *queue) {
    outlive_receiver_t *receiver = queue->out;
    if (receiver != NULL) return 0;
    int code = outlive_queue_receiver(queue->main, OUTLIVE_TRY, &receiver);
    if (code == 0 && queue->ends_with_senders) code = outlive_receiver_end_when_senders_gone(receiver, 1);
    queue->out = receiver;
    return code;
}

/* The next message, into `message`. */
static int receive(outlive_deadline_t deadline) {
    size_t size = 0;
    int code = outlive_receiver_recv(it()->out, message, message_size, &size, deadline);
    if (code == EMSGSIZE && size > message_size) {
        /* It stays where it is. */
        free(message);
        message = malloc(size);
        if (message == NULL) abort();
        message_size = size;
        code = outlive_receiver_recv(it()->out, message, message_size, &size, deadline);
    }
    if (code == 0) message_size = size;
    return code;
}

/* The next of a flood: 0; a code; or -1, and what is wrong has been said. */
static int drain(outlive_deadline_t deadline) {
    int code = receive(deadline);
    if (code != 0) return code;
    uint64_t count = ++it()->received;
    if (is_pattern(message, message_size, count)) return 0;
    char shown[64];
    show(shown, message, message_size);
    printf("error OutOfOrder message %llu is %s\n", (unsigned long long)count, shown);
    return -1;
}

static void queue_open(void) {
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    outlive_queue_t *queue = NULL;
    uint64_t messages = 0;
    option(2, "max", &options.max_bytes);
    option(2, "messages", &messages);
    options.max_messages = (uint32_t)messages;
    options.need_receiver = (uint32_t)flag(2, "refuse");
    if (flag(2, "keep")) options.on_receiver_death = OUTLIVE_RECEIVER_DEATH_KEEPS;
    it()->ends_with_senders = flag(2, "ending");
    TRY(outlive_queue_open(domain, words[1], flag(2, "existing") ? OUTLIVE_OPEN : OUTLIVE_OPEN_OR_CREATE, &options,
                           &queue));
    it()->main = queue;
    OK();
}

static void queue_typed(void) { puts("error Unsupported queue.typed"); }

CALL(queue_join, outlive_queue_join(it()->main, until(words[2])))

static void queue_send(void) {
    make_message(words[2]);
    TRY(sender());
    TRY(outlive_sender_send(it()->in, message, message_size, until(words[3])));
    OK();
}

static void queue_recv(void) {
    TRY(receiver(it()));
    TRY(receive(until(words[2])));
    say_shown(message, message_size);
}

static void queue_peek(void) {
    const void *data = NULL;
    size_t size = 0;
    uint32_t again = 0;
    TRY(receiver(it()));
    TRY(outlive_receiver_peek(it()->out, &data, &size, &again, until(words[2])));
    say_shown_and(data, size, again ? "again" : "fresh");
}

CALL(queue_commit, outlive_receiver_commit(it()->out))

static void queue_batch(void) {
    outlive_bytes_t batch[32];
    size_t count = word_count - 3;
    TRY(sender());
    for (size_t at = 0; at < count; at++) {
        make_message(words[2 + at]);
        batch[at] = (outlive_bytes_t){message, message_size};
        message = NULL;
    }
    int code = outlive_sender_send_batch(it()->in, batch, count, until(words[word_count - 1]));
    for (size_t at = 0; at < count; at++) free((void *)(uintptr_t)batch[at].data);
    TRY(code);
    OK();
}

static void queue_count(void) {
    outlive_queue_counters_t counters;
    TRY(outlive_queue_counters(it()->main, &counters));
    if (strcmp(words[2], "sent") == 0) say_number(counters.sent);
    else if (strcmp(words[2], "received") == 0) say_number(counters.received);
    else if (strcmp(words[2], "pending") == 0) say_number(counters.pending);
    else if (strcmp(words[2], "redelivered") == 0) say_number(counters.redelivered);
    else usage(words[2]);
}

static void queue_fill(void) {
    struct thing *queue = it();
    TRY(sender());
    for (;;) {
        make_pattern((size_t)number(words[2]), queue->sent + 1);
        int code = outlive_sender_send(queue->in, message, message_size, OUTLIVE_TRY);
        if (code == EAGAIN) break;
        TRY(code);
        queue->sent++;
    }
    say_number(queue->sent);
}

static void queue_flood(void) {
    struct thing *queue = it();
    TRY(sender());
    for (uint64_t end = now_ms() + number(words[3]); now_ms() < end;) {
        make_pattern((size_t)number(words[2]), ++queue->sent);
        TRY(outlive_sender_send(queue->in, message, message_size, until(words[3])));
    }
    OK();
}

static void queue_drain(void) {
    outlive_deadline_t deadline = until(words[3]);
    TRY(receiver(it()));
    for (uint64_t count = number(words[2]); count > 0; count--) {
        int code = drain(deadline);
        if (code < 0) return;
        TRY(code);
    }
    OK();
}

static void queue_drain_all(void) {
    outlive_deadline_t deadline = until(words[2]);
    int code;
    while ((code = drain(deadline)) == 0) {}
    if (code < 0) return;
    if (code != EPIPE) TRY(code);
    say_number(it()->received);
}

static void queue_close(void) {
    outlive_sender_close(it()->in);
    outlive_receiver_close(it()->out);
    it()->in = it()->out = NULL;
    OK();
}

CALL(queue_prefault, outlive_queue_prefault(it()->main, (size_t)number(words[2]), (size_t)number(words[3])))

const struct verb queue_verbs[] = {
    V(queue, open, AT_LEAST(1)), V(queue, typed, 1), V(queue, join, 2), V(queue, send, 3), V(queue, recv, 2),
    V(queue, peek, 2), V(queue, commit, 1), V(queue, batch, AT_LEAST(3)), V(queue, count, 2), V(queue, fill, 2),
    V(queue, flood, 3), V(queue, drain, 3), V(queue, drain_all, 2), V(queue, close, 1), V(queue, prefault, 3), END,
};
