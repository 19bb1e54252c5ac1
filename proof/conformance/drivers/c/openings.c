/* `open.`, each kind by each of the three openings; `misuse.`, what a call refuses. */
#include "driver.h"

static enum outlive_opening_t how(void) {
    if (strcmp(words[1], "open") == 0) return OUTLIVE_OPEN;
    return strcmp(words[1], "create_new") == 0 ? OUTLIVE_CREATE_NEW : OUTLIVE_OPEN_OR_CREATE;
}

/* The number that the option has: 0, if the line gives none. */
static uint64_t given(void) { return word_count > 3 ? number(words[3]) : 0; }

/* The same, of a kind whose maker must say one. */
static uint32_t few(void) { return given() == 0 && how() != OUTLIVE_OPEN ? 1 : (uint32_t)given(); }

static uint32_t ceiling(void) { return few() == 1 ? 2 : few(); }

/* Opens with those arguments behind `how`, and closes. */
#define OPENED_AS(kind, type, ...)                                         \
    static void open_##kind(void) {                                        \
        outlive_##type##_t *opened = NULL;                                 \
        TRY(outlive_##type##_open(domain, words[2], how(), __VA_ARGS__));  \
        outlive_##type##_close(opened);                                    \
        OK();                                                              \
    }
#define OPENED(kind, ...) OPENED_AS(kind, kind, __VA_ARGS__)
/* A kind whose options have `max_bytes`. */
#define OPENED_AT_MOST(kind, type, OPTIONS)                                     \
    static void open_##kind(void) {                                             \
        outlive_##kind##_options_t options = OPTIONS;                           \
        outlive_##type##_t *opened = NULL;                                      \
        options.max_bytes = given();                                            \
        TRY(outlive_##type##_open(domain, words[2], how(), &options, &opened)); \
        outlive_##type##_close(opened);                                         \
        OK();                                                                   \
    }

OPENED(mutex, 8, NULL, &opened)
OPENED(rwlock, 8, NULL, &opened)
OPENED(pi_mutex, 8, NULL, &opened)
OPENED(reentrant_mutex, 8, NULL, &opened)
OPENED(ceiling_mutex, ceiling(), 8, NULL, &opened)
OPENED(condvar, &opened)
OPENED(once, &opened)
OPENED(event, (uint32_t)given(), &opened)
OPENED(latch, few(), &opened)
OPENED(semaphore, few(), 0, &opened)
OPENED(barrier, few(), 0, &opened)
OPENED(state, (size_t)given(), NULL, 0, &opened)
OPENED_AT_MOST(queue, queue, OUTLIVE_QUEUE_OPTIONS_INIT)
OPENED_AT_MOST(topic, topic, OUTLIVE_TOPIC_OPTIONS_INIT)
OPENED_AT_MOST(pool, pool, OUTLIVE_POOL_OPTIONS_INIT)
OPENED_AT_MOST(service, client, OUTLIVE_SERVICE_OPTIONS_INIT)

static void open_record(void) {
    void *record = NULL;
    TRY(outlive_record_open(domain, words[2], how(), 8, NULL, 0, NULL, NULL, &record));
    outlive_record_close(record);
    OK();
}

/* What is open when a call is refused stays known. */
static outlive_queue_t *queue;
static outlive_sender_t *sender;
static outlive_event_t *event;
static outlive_mutex_t *mutex;

CALL(misuse_name, outlive_queue_open(domain, NULL, OUTLIVE_OPEN_OR_CREATE, NULL, &queue))
CALL(misuse_handle, outlive_sender_send(NULL, "x", 1, OUTLIVE_TRY))
CALL(misuse_number, outlive_event_open(domain, "misused-event", OUTLIVE_OPEN_OR_CREATE, 7, &event))

static void misuse_message(void) {
    TRY(outlive_queue_open(domain, "misused", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    TRY(outlive_queue_sender(queue, &sender));
    TRY(outlive_sender_send(sender, NULL, 7, OUTLIVE_TRY));
    OK();
}

/* Every number is a moment. */
static void misuse_timeout(void) { puts("impossible"); }

static void misuse_unlock(void) {
    TRY(outlive_mutex_open(domain, "misused-lock", OUTLIVE_OPEN_OR_CREATE, 8, NULL, &mutex));
    TRY(outlive_mutex_unlock(mutex));
    OK();
}

/* The way and the name; a number for those that have an option. */
#define O(kind) V(open, kind, AT_LEAST(2))

const struct verb opening_verbs[] = {
    O(mutex), O(rwlock), O(pi_mutex), O(reentrant_mutex), O(ceiling_mutex), O(condvar), O(once),
    O(event), O(latch), O(semaphore), O(barrier), O(state), O(queue), O(topic), O(pool), O(service),
    O(record),
    V(misuse, name, 0), V(misuse, message, 0), V(misuse, handle, 0), V(misuse, number, 0),
    V(misuse, timeout, 0), V(misuse, unlock, 0), END,
};
