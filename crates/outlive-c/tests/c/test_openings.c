#include "testing.h"

#include <fcntl.h>
#include <sys/inotify.h>

/* Which options an opening sets: none, those that the thing is made with, one that contradicts them. */
enum which { UNSET, RIGHT, OTHER };

static uint32_t pick(enum which which, uint32_t right, uint32_t other) {
    return which == UNSET ? 0 : which == RIGHT ? right : other;
}

static size_t size_of(enum which which) { return which == OTHER ? 16 : 8; }

/* A function that opens one kind in the way of `how`, and closes it again. */
#define OPENS(kind, ...)                                                                                      \
    static int open_##kind(const char *name, enum outlive_opening_t how, enum which which) {                  \
        outlive_##kind##_t *opened = NULL;                                                                    \
        (void)which;                                                                                          \
        int code = outlive_##kind##_open(domain, name, __VA_ARGS__, &opened);                                 \
        CHECK((code == 0) == (opened != NULL));                                                               \
        outlive_##kind##_close(opened);                                                                       \
        return code;                                                                                          \
    }

OPENS(mutex, how, size_of(which), NULL)
OPENS(rwlock, how, size_of(which), NULL)
OPENS(pi_mutex, how, size_of(which), NULL)
OPENS(reentrant_mutex, how, size_of(which), NULL)
OPENS(ceiling_mutex, how, pick(which, 7, 8), 8, NULL)
OPENS(condvar, how)
OPENS(once, how)
OPENS(event, how, pick(which, OUTLIVE_RESET_AUTOMATIC, OUTLIVE_RESET_MANUAL))
OPENS(latch, how, pick(which, 3, 2))
OPENS(semaphore, how, pick(which, 3, 2), 0)
OPENS(barrier, how, pick(which, 3, 3), pick(which, OUTLIVE_DEATH_COUNTS_OUT, OUTLIVE_DEATH_BREAKS))
OPENS(state, how, pick(which, 64, 65), NULL, 0)

/* The same of a kind with a struct of options. */
#define OPENS_WITH(kind, options_of, INIT)                                                                    \
    static int open_##kind(const char *name, enum outlive_opening_t how, enum which which) {                  \
        options_of options = INIT;                                                                            \
        outlive_##kind##_t *opened = NULL;                                                                    \
        options.max_bytes = pick(which, 1 << 20, 2 << 20);                                                    \
        int code = outlive_##kind##_open(domain, name, how, which == UNSET ? NULL : &options, &opened);       \
        CHECK((code == 0) == (opened != NULL));                                                               \
        outlive_##kind##_close(opened);                                                                       \
        return code;                                                                                          \
    }

OPENS_WITH(queue, outlive_queue_options_t, OUTLIVE_QUEUE_OPTIONS_INIT)
OPENS_WITH(topic, outlive_topic_options_t, OUTLIVE_TOPIC_OPTIONS_INIT)
OPENS_WITH(pool, outlive_pool_options_t, OUTLIVE_POOL_OPTIONS_INIT)
OPENS_WITH(client, outlive_service_options_t, OUTLIVE_SERVICE_OPTIONS_INIT)
OPENS_WITH(server, outlive_service_options_t, OUTLIVE_SERVICE_OPTIONS_INIT)

static int open_fixed_state(const char *name, enum outlive_opening_t how, enum which which) {
    outlive_state_t *opened = NULL;
    int code = outlive_state_open_fixed(domain, name, how, size_of(which), NULL, &opened);
    outlive_state_close(opened);
    return code;
}

static int open_record(const char *name, enum outlive_opening_t how, enum which which) {
    void *opened = NULL;
    int code = outlive_record_open(domain, name, how, size_of(which), NULL, 0, NULL, NULL, &opened);
    outlive_record_close(opened);
    return code;
}

/* What opens it; what contradicting options give, or 0 where there are none. */
static const struct kind {
    const char *name;
    int (*open)(const char *name, enum outlive_opening_t how, enum which which);
    int contradicts;
} kinds[] = {
    {"mutex", open_mutex, OUTLIVE_OTHER_TYPE},
    {"rwlock", open_rwlock, OUTLIVE_OTHER_TYPE},
    {"pi mutex", open_pi_mutex, OUTLIVE_OTHER_TYPE},
    {"reentrant mutex", open_reentrant_mutex, OUTLIVE_OTHER_TYPE},
    {"ceiling mutex", open_ceiling_mutex, EINVAL},
    {"condvar", open_condvar, 0},
    {"once", open_once, 0},
    {"event", open_event, EINVAL},
    {"latch", open_latch, EINVAL},
    {"semaphore", open_semaphore, EINVAL},
    {"barrier", open_barrier, EINVAL},
    {"record", open_record, OUTLIVE_OTHER_TYPE},
    {"queue", open_queue, EINVAL},
    {"topic", open_topic, EINVAL},
    {"pool", open_pool, EINVAL},
    {"client", open_client, EINVAL},
    {"server", open_server, EINVAL},
    {"state", open_state, EINVAL},
    {"fixed state", open_fixed_state, OUTLIVE_OTHER_TYPE},
};
static const size_t kind_count = sizeof kinds / sizeof *kinds;

static void every_kind(void) {
    for (size_t at = 0; at < kind_count; at++) {
        const struct kind *kind = &kinds[at];
        IS(ENOENT, kind->open(kind->name, OUTLIVE_OPEN, UNSET));
        IS(ENOENT, kind->open(kind->name, OUTLIVE_OPEN, RIGHT));
        OK(kind->open(kind->name, OUTLIVE_CREATE_NEW, RIGHT));
        IS(EEXIST, kind->open(kind->name, OUTLIVE_CREATE_NEW, RIGHT));
        OK(kind->open(kind->name, OUTLIVE_OPEN, UNSET));
        OK(kind->open(kind->name, OUTLIVE_OPEN, RIGHT));
        OK(kind->open(kind->name, OUTLIVE_OPEN_OR_CREATE, RIGHT));
        if (kind->contradicts != 0) {
            IS(kind->contradicts, kind->open(kind->name, OUTLIVE_OPEN, OTHER));
            IS(kind->contradicts, kind->open(kind->name, OUTLIVE_OPEN_OR_CREATE, OTHER));
            IS(EEXIST, kind->open(kind->name, OUTLIVE_CREATE_NEW, OTHER));
        }
        OK(outlive_domain_remove(domain, kind->name));
        OK(kind->open(kind->name, OUTLIVE_OPEN_OR_CREATE, RIGHT));
        OK(kind->open(kind->name, OUTLIVE_OPEN, RIGHT));
    }
}

/* How often that file has been opened since the last call. */
static int opened(int watcher, const char *name) {
    _Alignas(struct inotify_event) char events[8192];
    int count = 0;
    ssize_t size = read(watcher, events, sizeof events);
    for (ssize_t at = 0; at < size;) {
        const struct inotify_event *event = (const struct inotify_event *)(events + at);
        count += event->len > 0 && strcmp(event->name, name) == 0;
        at += (ssize_t)(sizeof *event + event->len);
    }
    return count;
}

/* A second opening by the name would meet another process's thing, or nothing, when the name was removed in between. */
static void each_opening_looks_the_name_up_once(void) {
    int watcher = inotify_init1(IN_NONBLOCK);
    CHECK(watcher >= 0 && inotify_add_watch(watcher, folder, IN_OPEN) >= 0);
    for (size_t at = 0; at < kind_count; at++) {
        const struct kind *kind = &kinds[at];
        OK(kind->open(kind->name, OUTLIVE_CREATE_NEW, RIGHT));
        CHECK(opened(watcher, kind->name) == 0);
        OK(kind->open(kind->name, OUTLIVE_OPEN, RIGHT));
        CHECK(opened(watcher, kind->name) == 1);
        OK(kind->open(kind->name, OUTLIVE_OPEN_OR_CREATE, RIGHT));
        CHECK(opened(watcher, kind->name) == 1);
    }
    close(watcher);
}

static void another_kinds_name(void) {
    outlive_wait_set_t *set = NULL;
    OK(outlive_wait_set_open(domain, &set));
    OK(open_pool("pool", OUTLIVE_CREATE_NEW, UNSET));
    OK(open_once("once", OUTLIVE_CREATE_NEW, UNSET));
    for (size_t at = 0; at < kind_count; at++) {
        const struct kind *kind = &kinds[at];
        const char *taken = kind->open == open_pool ? "once" : "pool";
        IS(OUTLIVE_OTHER_KIND, kind->open(taken, OUTLIVE_OPEN, RIGHT));
        IS(OUTLIVE_OTHER_KIND, kind->open(taken, OUTLIVE_OPEN_OR_CREATE, RIGHT));
        IS(EEXIST, kind->open(taken, OUTLIVE_CREATE_NEW, RIGHT));
    }
    outlive_wait_set_close(set);
}

static void unknown_openings(void) {
    for (size_t at = 0; at < kind_count; at++)
        for (int how = 3; how < 6; how++) {
            IS(EINVAL, kinds[at].open(kinds[at].name, (enum outlive_opening_t)how, RIGHT));
            CHECK(strstr(outlive_last_error(), "outlive_opening_t") != NULL);
            IS(ENOENT, outlive_domain_remove(domain, kinds[at].name));
        }
    IS(EINVAL, open_event("event", (enum outlive_opening_t)-1, UNSET));
}

static void numbers_that_none_can_have(void) {
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    outlive_queue_t *queue = NULL;
    outlive_barrier_t *barrier = NULL;
    outlive_latch_t *latch = NULL;
    outlive_event_t *event = NULL;
    outlive_ceiling_mutex_t *valve = NULL;
    options.max_bytes = 1;
    IS(EINVAL, outlive_queue_open(domain, "none", OUTLIVE_OPEN_OR_CREATE, &options, &queue));
    IS(EINVAL, outlive_barrier_open(domain, "none", OUTLIVE_OPEN_OR_CREATE, 0, 0, &barrier));
    IS(EINVAL, outlive_barrier_open(domain, "none", OUTLIVE_OPEN_OR_CREATE, 2, 3, &barrier));
    IS(EINVAL, outlive_latch_open(domain, "none", OUTLIVE_CREATE_NEW, UINT32_MAX, &latch));
    IS(EINVAL, outlive_event_open(domain, "none", OUTLIVE_CREATE_NEW, 3, &event));
    IS(EINVAL, outlive_ceiling_mutex_open(domain, "none", OUTLIVE_CREATE_NEW, 0, 8, NULL, &valve));
    IS(EINVAL, outlive_ceiling_mutex_open(domain, "none", OUTLIVE_OPEN_OR_CREATE, 0, 8, NULL, &valve));
    IS(ENOENT, outlive_domain_remove(domain, "none"));
}

TESTS(TEST(every_kind), TEST(each_opening_looks_the_name_up_once), TEST(another_kinds_name), TEST(unknown_openings), TEST(numbers_that_none_can_have))
