/* C's driver: does what each line of its input says, by outlive.h alone, and answers with a line.
 * doc/conformance.md has the commands; the drivers of the other languages do the same, each with
 * its own means. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <outlive.h>
#include <unistd.h>

#include "driver.h"

/* A name and what is open under it: a lock, a queue and its ends, ... */
struct thing {
    char name[64];
    void *main, *in, *out;
    uint64_t sent, received;
    int ends_with_senders;
    /* Of a lock in a record: what it guards. */
    void *value;
};

static struct thing things[64];
static size_t thing_count;
static outlive_domain_t *domain;

/* There once: what was taken last. */
static outlive_sample_t *sample;
static outlive_loan_t *loan;
static outlive_request_t *request;
static outlive_stream_t *stream;
static outlive_call_t *call;

/* Of wait sets: which name a key was given. */
static struct { uint64_t key; char name[64]; } keys[32];
static size_t key_count;

/* The words of the line. */
static char *words[32];
static size_t word_count;

/* A message of the line's. */
static unsigned char *message;
static size_t message_size;

#define OK() puts("ok")
/* Ends the command if the call failed. */
#define TRY(call)                           \
    do {                                    \
        int code_ = (call);                 \
        if (code_ != 0) { fail(code_); return; } \
    } while (0)

static void fail(int code) {
    static const struct { int code; const char *name; } names[] = {
        {EOWNERDEAD, "EOWNERDEAD"}, {ENOTRECOVERABLE, "ENOTRECOVERABLE"}, {EDEADLK, "EDEADLK"}, {EBUSY, "EBUSY"},
        {ETIMEDOUT, "ETIMEDOUT"}, {EAGAIN, "EAGAIN"}, {EPIPE, "EPIPE"}, {ECONNRESET, "ECONNRESET"},
        {ECONNABORTED, "ECONNABORTED"}, {ENOTCONN, "ENOTCONN"}, {ECANCELED, "ECANCELED"}, {ETIME, "ETIME"},
        {EMSGSIZE, "EMSGSIZE"}, {ENOSPC, "ENOSPC"}, {ENOMEM, "ENOMEM"}, {ENOBUFS, "ENOBUFS"}, {EUSERS, "EUSERS"},
        {EOVERFLOW, "EOVERFLOW"}, {EPERM, "EPERM"}, {EACCES, "EACCES"}, {ENOENT, "ENOENT"}, {EEXIST, "EEXIST"}, {ENOTDIR, "ENOTDIR"}, {ENOTEMPTY, "ENOTEMPTY"},
        {EXDEV, "EXDEV"}, {ESTALE, "ESTALE"}, {EINVAL, "EINVAL"}, {OUTLIVE_DAMAGED, "OUTLIVE_DAMAGED"},
        {OUTLIVE_OTHER_KIND, "OUTLIVE_OTHER_KIND"}, {OUTLIVE_OTHER_TYPE, "OUTLIVE_OTHER_TYPE"},
        {OUTLIVE_BROKEN, "OUTLIVE_BROKEN"}, {OUTLIVE_PANIC, "OUTLIVE_PANIC"},
        {OUTLIVE_FAILED, "OUTLIVE_FAILED"},
    };
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (names[at].code == code) {
            printf("error %s %s\n", names[at].name, outlive_last_error());
            return;
        }
    printf("error %d %s\n", code, outlive_last_error());
}

static void usage(const char *what) { printf("error Usage %s\n", what); }

static int is(const char *command, size_t arguments) {
    return strcmp(words[0], command) == 0 && word_count == arguments + 1;
}

static struct thing *find(const char *name) {
    for (size_t at = 0; at < thing_count; at++)
        if (strcmp(things[at].name, name) == 0) return &things[at];
    if (thing_count == sizeof things / sizeof *things) abort();
    snprintf(things[thing_count].name, sizeof things->name, "%s", name);
    return &things[thing_count++];
}

static uint64_t number(const char *word) { return strtoull(word, NULL, 10); }

/* Milliseconds, or `try`. */
static outlive_deadline_t until(const char *word) {
    return strcmp(word, "try") == 0 ? OUTLIVE_TRY : outlive_after_ms(number(word));
}

/* `KEY=NUMBER` among the options from that word on. */
static int option(size_t from, const char *key, uint64_t *value) {
    size_t length = strlen(key);
    for (size_t at = from; at < word_count; at++)
        if (strncmp(words[at], key, length) == 0 && words[at][length] == '=') {
            *value = number(words[at] + length + 1);
            return 1;
        }
    return 0;
}

static int flag(size_t from, const char *word) {
    for (size_t at = from; at < word_count; at++)
        if (strcmp(words[at], word) == 0) return 1;
    return 0;
}

static void make_message(const char *word) {
    const char *star = strchr(word, '*');
    message_size = star != NULL ? (size_t)number(word) : strlen(word);
    free(message);
    message = malloc(message_size + 1);
    if (message == NULL) abort();
    if (star != NULL) pattern(message, message_size, number(star + 1));
    else memcpy(message, word, message_size);
}

static void make_pattern(size_t size, uint64_t seed) {
    if (message_size < size || message == NULL) {
        free(message);
        message = malloc(size + 1);
        if (message == NULL) abort();
    }
    message_size = size;
    pattern(message, size, seed);
}

static void say_number(uint64_t number) { printf("ok %llu\n", (unsigned long long)number); }

static void say_shown(const void *data, size_t size) {
    char shown[64];
    show(shown, data, size);
    printf("ok %s\n", shown);
}

static void serve(const char *last);

/* --- locks */

/* Of a lock that was taken, or not. */
static int got(int code, const void *value) {
    if (code != 0 && code != EOWNERDEAD) {
        fail(code);
        return 0;
    }
    uint64_t now;
    memcpy(&now, value, sizeof now);
    printf("%s %llu\n", code == 0 ? "ok" : "owner-died", (unsigned long long)now);
    return 1;
}

static void *value_of(struct thing *thing) {
    return thing->value != NULL ? thing->value : outlive_mutex_value(thing->main);
}

static void lock(void) {
    struct thing *thing = find(words[1]);
    outlive_mutex_t *mutex = thing->main;
    if (is("lock.open", 2)) {
        uint64_t value = number(words[2]);
        TRY(outlive_mutex_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof value, &value, &mutex));
        thing->main = mutex;
        OK();
    } else if (is("lock.lock", 2)) {
        int is_try = strcmp(words[2], "try") == 0;
        int code = is_try ? outlive_mutex_trylock(mutex) : outlive_mutex_lock_until(mutex, until(words[2]));
        got(code, value_of(thing));
    } else if (is("lock.set", 2)) {
        uint64_t value = number(words[2]);
        memcpy(value_of(thing), &value, sizeof value);
        OK();
    } else if (is("lock.consistent", 1)) {
        TRY(outlive_mutex_consistent(mutex));
        OK();
    } else if (is("lock.mark_not_recoverable", 1)) {
        TRY(outlive_mutex_mark_not_recoverable(mutex));
        OK();
    } else if (is("lock.unlock", 1)) {
        TRY(outlive_mutex_unlock(mutex));
        OK();
    } else if (is("lock.reset", 3)) {
        uint64_t value = number(words[2]);
        TRY(outlive_mutex_lock_to_reset(mutex, until(words[3])));
        memcpy(outlive_mutex_value(mutex), &value, sizeof value);
        TRY(outlive_mutex_consistent(mutex));
        TRY(outlive_mutex_unlock(mutex));
        OK();
    } else if (is("lock.holder", 1)) {
        outlive_peer_info_t info;
        int code = outlive_mutex_holder(mutex, &info);
        if (code == ESRCH) puts("ok nobody");
        else if (code != 0) fail(code);
        else say_number(info.pid);
    } else if (is("lock.within", 1)) {
        char last[80];
        snprintf(last, sizeof last, "lock.leave %s", words[1]);
        if (!got(outlive_mutex_lock(mutex), outlive_mutex_value(mutex))) return;
        fflush(stdout);
        serve(last);
        TRY(outlive_mutex_unlock(mutex));
        OK();
    } else if (is("lock.churn", 2)) {
        for (uint64_t end = now_ms() + number(words[2]); now_ms() < end;) {
            TRY(outlive_mutex_lock(mutex));
            ++*(uint64_t *)outlive_mutex_value(mutex);
            TRY(outlive_mutex_unlock(mutex));
        }
        OK();
    } else if (is("lock.awaits", 3)) {
        outlive_deadline_t deadline = until(words[3]);
        for (uint64_t wanted = number(words[2]), value = 0; value < wanted;) {
            TRY(outlive_mutex_lock_until(mutex, deadline));
            value = *(uint64_t *)outlive_mutex_value(mutex);
            TRY(outlive_mutex_unlock(mutex));
        }
        OK();
    } else usage("lock");
}

static void rw(void) {
    struct thing *thing = find(words[1]);
    outlive_rwlock_t *lock = thing->main;
    if (is("rw.open", 2)) {
        uint64_t value = number(words[2]);
        TRY(outlive_rwlock_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof value, &value, &lock));
        thing->main = lock;
        OK();
    } else if (is("rw.read", 2)) {
        got(outlive_rwlock_read(lock, until(words[2])), outlive_rwlock_value(lock));
    } else if (is("rw.write", 2)) {
        got(outlive_rwlock_write(lock, until(words[2])), outlive_rwlock_value(lock));
    } else if (is("rw.upgradable", 2)) {
        got(outlive_rwlock_upgradable_read(lock, until(words[2])), outlive_rwlock_value(lock));
    } else if (is("rw.upgrade", 2)) {
        TRY(outlive_rwlock_upgrade(lock, until(words[2])));
        OK();
    } else if (is("rw.downgrade", 1)) {
        TRY(outlive_rwlock_downgrade(lock));
        OK();
    } else if (is("rw.downgrade_to_upgradable", 1)) {
        TRY(outlive_rwlock_downgrade_to_upgradable(lock));
        OK();
    } else if (is("rw.set", 2)) {
        uint64_t value = number(words[2]);
        memcpy(outlive_rwlock_value(lock), &value, sizeof value);
        OK();
    } else if (is("rw.consistent", 1)) {
        TRY(outlive_rwlock_consistent(lock));
        OK();
    } else if (is("rw.mark_not_recoverable", 1)) {
        TRY(outlive_rwlock_mark_not_recoverable(lock));
        OK();
    } else if (is("rw.unlock", 1)) {
        TRY(outlive_rwlock_unlock(lock));
        OK();
    } else if (is("rw.reset", 3)) {
        /* Marked not recoverable, no process holds it: it is made whole first. */
        uint64_t value = number(words[2]);
        memcpy(outlive_rwlock_value(lock), &value, sizeof value);
        TRY(outlive_rwlock_reset(lock, until(words[3])));
        OK();
    } else usage("rw");
}

static void semaphore(void) {
    struct thing *thing = find(words[1]);
    outlive_semaphore_t *permits = thing->main;
    if (is("sem.open", 2)) {
        TRY(outlive_semaphore_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, (uint32_t)number(words[2]), 0, &permits));
        thing->main = permits;
        OK();
    } else if (is("sem.acquire", 2)) {
        TRY(outlive_semaphore_acquire(permits, until(words[2]), NULL));
        OK();
    } else if (is("sem.release", 1)) {
        TRY(outlive_semaphore_release(permits));
        OK();
    } else if (is("sem.acquire_many", 3)) {
        TRY(outlive_semaphore_acquire_many(permits, (uint32_t)number(words[2]), until(words[3]), NULL));
        OK();
    } else if (is("sem.release_many", 2)) {
        TRY(outlive_semaphore_release_many(permits, (uint32_t)number(words[2])));
        OK();
    } else if (is("sem.add", 1)) {
        TRY(outlive_semaphore_add(permits));
        OK();
    } else if (is("sem.available", 1)) {
        say_number(outlive_semaphore_available_permits(permits));
    } else usage("sem");
}

static void event(void) {
    struct thing *thing = find(words[1]);
    outlive_event_t *event = thing->main;
    uint32_t bits = word_count > 2 ? (uint32_t)number(words[2]) : 0, seen = 0;
    if (is("event.open", 2)) {
        int automatic = strcmp(words[2], "automatic") == 0;
        TRY(outlive_event_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, automatic ? OUTLIVE_RESET_AUTOMATIC : OUTLIVE_RESET_MANUAL, &event));
        thing->main = event;
        OK();
    } else if (is("event.set", 2)) {
        TRY(outlive_event_set(event, bits, NULL));
        OK();
    } else if (is("event.clear", 2)) {
        TRY(outlive_event_clear(event, bits, NULL));
        OK();
    } else if (is("event.bits", 1)) {
        say_number(outlive_event_bits(event));
    } else if (is("event.any", 3)) {
        TRY(outlive_event_wait_any(event, bits, until(words[3]), &seen));
        say_number(seen);
    } else if (is("event.all", 3)) {
        TRY(outlive_event_wait_all(event, bits, until(words[3]), &seen));
        say_number(seen);
    } else usage("event");
}

static void condition(void) {
    struct thing *thing = find(words[1]);
    outlive_condvar_t *condvar = thing->main;
    if (is("cond.open", 2)) {
        TRY(outlive_condvar_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &condvar));
        thing->main = condvar;
        OK();
    } else if (is("cond.await", 4)) {
        outlive_mutex_t *mutex = find(words[2])->main;
        uint64_t wanted = number(words[3]), *value = value_of(find(words[2]));
        outlive_deadline_t deadline = until(words[4]);
        int code = 0;
        while (code == 0 && *value != wanted) code = outlive_condvar_wait_until(condvar, mutex, deadline);
        got(code, value);
    } else if (is("cond.notify", 1)) {
        TRY(outlive_condvar_notify_one(condvar));
        OK();
    } else if (is("cond.notify_all", 1)) {
        TRY(outlive_condvar_notify_all(condvar));
        OK();
    } else usage("cond");
}

static void barrier(void) {
    struct thing *thing = find(words[1]);
    outlive_barrier_t *barrier = thing->main;
    if (is("barrier.open", 3)) {
        TRY(outlive_barrier_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, (uint32_t)number(words[2]),
                                 strcmp(words[3], "count_out") == 0 ? OUTLIVE_DEATH_COUNTS_OUT : OUTLIVE_DEATH_BREAKS, &barrier));
        thing->main = barrier;
        OK();
    } else if (is("barrier.wait", 2)) {
        outlive_turn_t turn = {0, 0};
        if (thing->in == NULL) TRY(outlive_barrier_join(barrier));
        thing->in = thing;
        TRY(outlive_barrier_wait(barrier, until(words[2]), &turn));
        printf("ok %u\n", turn.index);
    } else if (is("barrier.abort_wait", 1)) {
        outlive_turn_t turn = {0, 0};
        TRY(outlive_barrier_abort_wait(barrier, &turn));
        printf("ok %u\n", turn.index);
    } else if (is("barrier.abort", 1)) {
        TRY(outlive_barrier_abort(barrier));
        OK();
    } else if (is("barrier.reset", 2)) {
        TRY(outlive_barrier_reset(barrier, until(words[2])));
        OK();
    } else if (is("barrier.state", 1)) {
        outlive_barrier_state_t state;
        TRY(outlive_barrier_state(barrier, &state));
        printf("ok %u of %u%s\n", state.waiting, state.parties, state.broken ? " broken" : "");
    } else if (is("barrier.repair", 2)) {
        TRY(outlive_barrier_repair(barrier, until(words[2])));
        OK();
    } else usage("barrier");
}

static void latch(void) {
    struct thing *thing = find(words[1]);
    outlive_latch_t *latch = thing->main;
    if (is("latch.open", 2)) {
        TRY(outlive_latch_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, (uint32_t)number(words[2]), &latch));
        thing->main = latch;
        OK();
    } else if (is("latch.arrive", 2)) {
        uint32_t missing = 0;
        TRY(outlive_latch_arrive(latch, (uint32_t)number(words[2]), &missing));
        say_number(missing);
    } else if (is("latch.wait", 2)) {
        TRY(outlive_latch_wait(latch, until(words[2])));
        OK();
    } else usage("latch");
}

/* Mutexes for real-time threads, and those that their holder locks again: all have the same functions. */

#define CEILING 2
#define OPEN_PI outlive_pi_mutex_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof value, &value, &mutex)
#define OPEN_REENTRANT outlive_reentrant_mutex_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof value, &value, &mutex)
#define OPEN_CEILING \
    outlive_ceiling_mutex_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, CEILING, sizeof value, &value, &mutex)
/* Not every machine lets every user run at a real-time priority. */
#define NO_RIGHT "error Unsupported right to run at a real-time priority"

#define REAL_TIME(kind, OPEN)                                                             \
    static void kind(void) {                                                              \
        struct thing *thing = find(words[1]);                                             \
        outlive_##kind##_mutex_t *mutex = thing->main;                                    \
        uint64_t value = word_count > 2 ? number(words[2]) : 0;                           \
        if (is(#kind ".open", 2)) {                                                       \
            TRY(OPEN);                                                                    \
            thing->main = mutex;                                                          \
            OK();                                                                         \
        } else if (is(#kind ".lock", 2)) {                                                \
            int code = outlive_##kind##_mutex_lock(mutex, until(words[2]));               \
            if (code == EPERM) puts(NO_RIGHT);                                            \
            else got(code, outlive_##kind##_mutex_value(mutex));                          \
        } else if (is(#kind ".set", 2)) {                                                 \
            memcpy(outlive_##kind##_mutex_value(mutex), &value, sizeof value);            \
            OK();                                                                         \
        } else if (is(#kind ".consistent", 1)) {                                          \
            TRY(outlive_##kind##_mutex_consistent(mutex));                                \
            OK();                                                                         \
        } else if (is(#kind ".mark_not_recoverable", 1)) {                                             \
            TRY(outlive_##kind##_mutex_mark_not_recoverable(mutex));                                   \
            OK();                                                                         \
        } else if (is(#kind ".unlock", 1)) {                                              \
            TRY(outlive_##kind##_mutex_unlock(mutex));                                    \
            OK();                                                                         \
        } else if (is(#kind ".await", 4)) {                                               \
            outlive_condvar_t *condvar = find(words[2])->main;                            \
            uint64_t wanted = number(words[3]), *now = outlive_##kind##_mutex_value(mutex); \
            outlive_deadline_t deadline = until(words[4]);                                \
            int code = 0;                                                                 \
            while (code == 0 && *now != wanted)                                           \
                code = outlive_condvar_wait_##kind##_mutex(condvar, mutex, deadline);     \
            got(code, now);                                                               \
        } else if (is(#kind ".reset", 3)) {                                               \
            /* Marked not recoverable, no process holds it: it is made whole first. */                    \
            memcpy(outlive_##kind##_mutex_value(mutex), &value, sizeof value);            \
            TRY(outlive_##kind##_mutex_reset(mutex, until(words[3])));                    \
            OK();                                                                         \
        } else if (is(#kind ".holder", 1)) {                                              \
            outlive_peer_info_t info;                                                     \
            int code = outlive_##kind##_mutex_holder(mutex, &info);                       \
            if (code == ESRCH) puts("ok nobody");                                         \
            else if (code != 0) fail(code);                                               \
            else say_number(info.pid);                                                    \
        } else usage(#kind);                                                              \
    }

REAL_TIME(pi, OPEN_PI)
REAL_TIME(ceiling, OPEN_CEILING)
REAL_TIME(reentrant, OPEN_REENTRANT)

/* What is done once. */

static const char *how;

static void make(void *nothing, int previous_died) {
    (void)nothing;
    how = previous_died ? "again" : "fresh";
}

/* The next lines come in the middle of it. */
static void make_and_serve(void *last, int previous_died) {
    make(NULL, previous_died);
    printf("ok %s\n", how);
    fflush(stdout);
    serve(last);
}

static void once(void) {
    struct thing *thing = find(words[1]);
    outlive_once_t *once = thing->main;
    how = "done";
    if (is("once.open", 1)) {
        TRY(outlive_once_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &once));
        thing->main = once;
        OK();
    } else if (is("once.do", 2)) {
        TRY(outlive_once_do(once, make, NULL, until(words[2])));
        printf("ok %s\n", how);
    } else if (is("once.within", 2)) {
        char last[80];
        snprintf(last, sizeof last, "once.leave %s", words[1]);
        TRY(outlive_once_do(once, make_and_serve, last, until(words[2])));
        OK();
    } else if (is("once.is_done", 1)) {
        puts(outlive_once_is_done(once) ? "ok yes" : "ok no");
    } else usage("once");
}

/* A struct with all that may be inside: its parts are found by NAME.FIELD. */

struct line {
    outlive_mutex_t lock;
    uint64_t value;
    outlive_event_t moved;
    outlive_latch_t ready;
    outlive_once_t made;
    outlive_condvar_t changed;
    uint64_t count;
    OUTLIVE_SEMAPHORE_OF(3) slots;
    OUTLIVE_SEMAPHORE_OF(2) parts;
    OUTLIVE_BARRIER_OF(2) step;
    OUTLIVE_BARRIER_OF(2) tour;
    outlive_pi_mutex_t spindle;
};

static const outlive_place_t places[] = {
    OUTLIVE_PLACE(struct line, lock, OUTLIVE_MUTEX),
    OUTLIVE_PLACE(struct line, moved, OUTLIVE_EVENT),
    OUTLIVE_PLACE(struct line, ready, OUTLIVE_LATCH),
    OUTLIVE_PLACE(struct line, made, OUTLIVE_ONCE),
    OUTLIVE_PLACE(struct line, changed, OUTLIVE_CONDVAR),
    OUTLIVE_SEMAPHORE_PLACE(struct line, slots),
    OUTLIVE_SEMAPHORE_PLACE(struct line, parts),
    OUTLIVE_BARRIER_PLACE(struct line, step),
    OUTLIVE_BARRIER_PLACE(struct line, tour),
    OUTLIVE_PLACE(struct line, spindle, OUTLIVE_PI_MUTEX),
};
enum { PLACES = sizeof places / sizeof *places };

static void fill_line(void *data, void *value) {
    struct line *line = data;
    line->value = *(uint64_t *)value;
    if (outlive_latch_init(&line->ready, 2) != 0) abort();
    if (outlive_semaphore_init(&line->parts.semaphore, 0, 2) != 0) abort();
    if (outlive_barrier_init(&line->tour.barrier, OUTLIVE_DEATH_COUNTS_OUT) != 0) abort();
}

static struct thing *field(const char *name, void *words_of_it) {
    char full[64];
    snprintf(full, sizeof full, "%.40s.%s", words[1], name);
    struct thing *thing = find(full);
    thing->main = words_of_it;
    return thing;
}

static void record(void) {
    struct thing *thing = find(words[1]);
    struct line *line = thing->main;
    void *data = NULL;
    if (is("record.open", 2)) {
        uint64_t value = number(words[2]);
        TRY(outlive_record_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof *line, places, PLACES, fill_line, &value, &data));
        thing->main = line = data;
        field("lock", &line->lock)->value = &line->value;
        field("moved", &line->moved);
        field("ready", &line->ready);
        field("made", &line->made);
        field("changed", &line->changed);
        field("slots", &line->slots.semaphore);
        field("parts", &line->parts.semaphore);
        field("step", &line->step.barrier);
        field("tour", &line->tour.barrier);
        OK();
    } else if (is("record.other", 1)) {
        outlive_place_t other[PLACES];
        memcpy(other, places, sizeof places);
        other[6].number = 3;
        TRY(outlive_record_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof *line, other, PLACES, NULL, NULL, &data));
        OK();
    } else if (is("record.count", 1)) {
        say_number(__atomic_add_fetch(&line->count, 1, __ATOMIC_RELAXED));
    } else if (is("record.spin_up", 2)) {
        int code = outlive_pi_mutex_lock(&line->spindle, until(words[2]));
        if (code == EOWNERDEAD) puts("owner-died");
        else {
            TRY(code);
            OK();
        }
    } else usage("record");
}

/* --- pools */

static void pool(void) {
    struct thing *thing = find(words[1]), *object = word_count > 2 ? find(words[2]) : NULL;
    uint64_t offset = word_count > 3 ? number(words[3]) : 0;
    size_t size = 0;
    void *data = NULL;
    if (strcmp(words[0], "pool.open") == 0) {
        outlive_pool_options_t options = OUTLIVE_POOL_OPTIONS_INIT;
        outlive_pool_t *pool = NULL;
        option(2, "max", &options.max_bytes);
        TRY(outlive_pool_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &pool));
        thing->main = pool;
        OK();
    } else if (is("pool.alloc", 3)) {
        make_message(words[3]);
        TRY(outlive_pool_alloc(thing->main, message_size, 0, &data));
        memcpy(data, message, message_size);
        object->in = thing->main, object->value = data, object->sent = message_size;
        OK();
    } else if (is("pool.show", 1)) {
        if (thing->out != NULL) say_shown(outlive_shared_data(thing->out), outlive_shared_size(thing->out));
        else say_shown(thing->value, thing->sent);
    } else if (is("pool.offer", 1)) {
        TRY(outlive_pool_offer(thing->in, thing->value, NULL, 0, &offset));
        thing->value = NULL;
        say_number(offset);
    } else if (is("pool.offer_to", 2)) {
        TRY(outlive_pool_offer(thing->in, thing->value, domain, (uint32_t)number(words[2]), &offset));
        thing->value = NULL;
        say_number(offset);
    } else if (is("pool.claim", 3)) {
        TRY(outlive_pool_claim(thing->main, offset, &data, &size));
        object->in = thing->main, object->value = data, object->sent = size;
        say_shown(data, size);
    } else if (is("pool.share", 1)) {
        outlive_shared_t *shared = NULL;
        TRY(outlive_pool_share(thing->in, thing->value, &shared));
        thing->value = NULL, thing->out = shared;
        say_number(outlive_shared_offset(shared));
    } else if (is("pool.join", 3)) {
        outlive_shared_t *shared = NULL;
        TRY(outlive_pool_join(thing->main, offset, &shared));
        object->out = shared;
        say_shown(outlive_shared_data(shared), outlive_shared_size(shared));
    } else if (is("pool.free", 1)) {
        if (thing->out != NULL) outlive_shared_release(thing->out);
        else TRY(outlive_pool_free(thing->in, thing->value));
        thing->out = thing->value = NULL;
        OK();
    } else if (is("pool.gc", 1)) {
        TRY(outlive_pool_gc(thing->main, NULL, NULL));
        OK();
    } else if (is("pool.count", 2)) {
        outlive_pool_usage_t usage;
        TRY(outlive_pool_usage(thing->main, &usage));
        say_number(words[2][0] == 'u' ? usage.used : words[2][0] == 'o' ? usage.offered : usage.shared);
    } else usage("pool");
}

/* --- queues */

static int sender(struct thing *thing) {
    outlive_sender_t *sender = thing->in;
    int code = sender == NULL ? outlive_queue_sender(thing->main, &sender) : 0;
    thing->in = sender;
    return code;
}

static int receiver(struct thing *thing) {
    outlive_receiver_t *receiver = thing->out;
    if (receiver != NULL) return 0;
    int code = outlive_queue_receiver(thing->main, &receiver);
    if (code == 0 && thing->ends_with_senders) code = outlive_receiver_end_when_senders_gone(receiver, 1);
    thing->out = receiver;
    return code;
}

/* The next message, into `message`. */
static int receive(struct thing *thing, outlive_deadline_t deadline) {
    size_t size = 0;
    int code = outlive_receiver_recv(thing->out, message, message_size, &size, deadline);
    if (code == EMSGSIZE && size > message_size) {
        /* It stays where it is. */
        free(message);
        message = malloc(size);
        if (message == NULL) abort();
        message_size = size;
        code = outlive_receiver_recv(thing->out, message, message_size, &size, deadline);
    }
    if (code == 0) message_size = size;
    return code;
}

/* The next of a flood: 0; a code; or -1, and what is wrong has been said. */
static int drain(struct thing *thing, outlive_deadline_t deadline) {
    int code = receive(thing, deadline);
    if (code != 0) return code;
    if (is_pattern(message, message_size, ++thing->received)) return 0;
    char shown[64];
    show(shown, message, message_size);
    printf("error OutOfOrder message %llu is %s\n", (unsigned long long)thing->received, shown);
    return -1;
}

static void queue(void) {
    struct thing *thing = find(words[1]);
    if (strcmp(words[0], "queue.open") == 0) {
        outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
        outlive_queue_t *queue = NULL;
        option(2, "max", &options.max_bytes);
        uint64_t messages = 0;
        option(2, "messages", &messages);
        options.max_messages = (uint32_t)messages;
        options.need_receiver = (uint32_t)flag(2, "refuse");
        if (flag(2, "keep")) options.on_receiver_death = OUTLIVE_RECEIVER_DEATH_KEEPS;
        thing->ends_with_senders = flag(2, "ending");
        TRY(outlive_queue_open(domain, words[1], flag(2, "existing") ? OUTLIVE_OPEN : OUTLIVE_OPEN_OR_CREATE, &options, &queue));
        thing->main = queue;
        OK();
    } else if (is("queue.typed", 1)) {
        puts("error Unsupported queue.typed");
    } else if (is("queue.join", 2)) {
        TRY(outlive_queue_join(thing->main, until(words[2])));
        OK();
    } else if (is("queue.send", 3)) {
        make_message(words[2]);
        TRY(sender(thing));
        TRY(outlive_sender_send(thing->in, message, message_size, until(words[3])));
        OK();
    } else if (is("queue.recv", 2)) {
        TRY(receiver(thing));
        TRY(receive(thing, until(words[2])));
        say_shown(message, message_size);
    } else if (is("queue.peek", 2)) {
        const void *data = NULL;
        size_t size = 0;
        uint32_t again = 0;
        char shown[64];
        TRY(receiver(thing));
        TRY(outlive_receiver_peek(thing->out, &data, &size, &again, until(words[2])));
        show(shown, data, size);
        printf("ok %s %s\n", shown, again ? "again" : "fresh");
    } else if (is("queue.commit", 1)) {
        TRY(outlive_receiver_commit(thing->out));
        OK();
    } else if (strcmp(words[0], "queue.batch") == 0 && word_count > 3) {
        outlive_bytes_t batch[32];
        size_t count = word_count - 3;
        TRY(sender(thing));
        for (size_t at = 0; at < count; at++) {
            make_message(words[2 + at]);
            batch[at] = (outlive_bytes_t){message, message_size};
            message = NULL;
        }
        int code = outlive_sender_send_batch(thing->in, batch, count, until(words[word_count - 1]));
        for (size_t at = 0; at < count; at++) free((void *)(uintptr_t)batch[at].data);
        TRY(code);
        OK();
    } else if (is("queue.count", 2)) {
        outlive_queue_counters_t counters;
        TRY(outlive_queue_counters(thing->main, &counters));
        if (strcmp(words[2], "sent") == 0) say_number(counters.sent);
        else if (strcmp(words[2], "received") == 0) say_number(counters.received);
        else if (strcmp(words[2], "pending") == 0) say_number(counters.pending);
        else if (strcmp(words[2], "redelivered") == 0) say_number(counters.redelivered);
        else usage(words[2]);
    } else if (is("queue.fill", 2)) {
        TRY(sender(thing));
        for (;;) {
            make_pattern((size_t)number(words[2]), thing->sent + 1);
            int code = outlive_sender_send(thing->in, message, message_size, OUTLIVE_TRY);
            if (code == EAGAIN) break;
            TRY(code);
            thing->sent++;
        }
        say_number(thing->sent);
    } else if (is("queue.flood", 3)) {
        TRY(sender(thing));
        for (uint64_t end = now_ms() + number(words[3]); now_ms() < end;) {
            make_pattern((size_t)number(words[2]), ++thing->sent);
            TRY(outlive_sender_send(thing->in, message, message_size, until(words[3])));
        }
        OK();
    } else if (is("queue.drain", 3)) {
        outlive_deadline_t deadline = until(words[3]);
        TRY(receiver(thing));
        for (uint64_t count = number(words[2]); count > 0; count--) {
            int code = drain(thing, deadline);
            if (code < 0) return;
            TRY(code);
        }
        OK();
    } else if (is("queue.drain_all", 2)) {
        outlive_deadline_t deadline = until(words[2]);
        int code;
        while ((code = drain(thing, deadline)) == 0) {}
        if (code < 0) return;
        if (code != EPIPE) TRY(code);
        say_number(thing->received);
    } else if (is("queue.close", 1)) {
        outlive_sender_close(thing->in);
        outlive_receiver_close(thing->out);
        thing->in = thing->out = NULL;
        OK();
    } else usage("queue");
}

/* --- job queues */

static void jobs(void) {
    struct thing *thing = find(words[1]);
    if (strcmp(words[0], "jobs.open") == 0) {
        outlive_job_queue_options_t options = OUTLIVE_JOB_QUEUE_OPTIONS_INIT;
        outlive_job_queue_t *queue = NULL;
        uint64_t given = 0;
        if (option(2, "max", &given)) options.max_jobs = (uint32_t)given;
        if (option(2, "attempts", &given)) options.max_attempts = (uint32_t)given;
        TRY(outlive_job_queue_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &queue));
        thing->main = queue;
        OK();
    } else if (is("jobs.put", 3)) {
        uint64_t id = 0;
        make_message(words[2]);
        TRY(outlive_job_queue_put(thing->main, message, message_size, until(words[3]), &id));
        say_number(id);
    } else if (is("jobs.take", 2)) {
        outlive_job_t *job = NULL;
        char shown[64];
        size_t size = 0;
        TRY(outlive_job_queue_take(thing->main, until(words[2]), &job));
        thing->in = job;
        const void *data = outlive_job_data(job, &size);
        show(shown, data, size);
        printf("ok %s %u\n", shown, (unsigned)outlive_job_attempts(job));
    } else if (is("jobs.done", 1) || is("jobs.aside", 1) || is("jobs.release", 1)) {
        outlive_job_t *job = thing->in;
        thing->in = NULL;
        if (strcmp(words[0], "jobs.done") == 0) TRY(outlive_job_done(job));
        else if (strcmp(words[0], "jobs.aside") == 0) TRY(outlive_job_set_aside(job));
        else outlive_job_release(job);
        OK();
    } else if (is("jobs.join", 2)) {
        TRY(outlive_job_queue_join(thing->main, until(words[2])));
        OK();
    } else if (is("jobs.retry", 2)) {
        int code = outlive_job_queue_retry(thing->main, number(words[2]));
        if (code != 0 && code != ENOENT) fail(code);
        else say_number(code == 0);
    } else if (is("jobs.count", 2)) {
        outlive_job_counts_t counts;
        TRY(outlive_job_queue_counts(thing->main, &counts));
        if (strcmp(words[2], "waiting") == 0) say_number(counts.waiting);
        else if (strcmp(words[2], "taken") == 0) say_number(counts.taken);
        else if (strcmp(words[2], "set_aside") == 0) say_number(counts.set_aside);
        else if (strcmp(words[2], "put") == 0) say_number(counts.put);
        else usage("jobs.count");
    } else usage("jobs");
}

/* --- topics */

static int publish_pattern(struct thing *thing, size_t size) {
    make_pattern(size, thing->sent);
    int code = outlive_publisher_publish_copy(thing->in, message, size, NULL, OUTLIVE_NEVER, NULL);
    if (code == 0) thing->sent++;
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

static void subscribe(struct thing *thing) {
    outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    outlive_subscriber_t *subscriber = NULL;
    uint64_t value = 0, wanted[32];
    options.reliable = (uint32_t)flag(2, "reliable");
    if (option(2, "history", &value)) options.history = (uint32_t)value;
    if (option(2, "keep", &value)) options.keep_last = (uint32_t)value;
    if (option(2, "period", &value)) options.period = value * 1000000;
    for (size_t at = 2; at < word_count; at++)
        if (strncmp(words[at], "key=", 4) == 0) wanted[options.key_count++] = number(words[at] + 4);
    options.keys = wanted;
    TRY(outlive_topic_subscriber(thing->main, &options, &subscriber));
    thing->out = subscriber;
    OK();
}

static void topic(void) {
    struct thing *thing = find(words[1]);
    outlive_sample_t *taken = NULL;
    uint64_t sequence = 0;
    if (strcmp(words[0], "topic.open") == 0) {
        outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
        outlive_topic_t *topic = NULL;
        uint64_t depth = 0;
        option(2, "max", &options.max_bytes);
        if (option(2, "depth", &depth)) options.depth = (uint32_t)depth;
        options.reliable = (uint32_t)flag(2, "reliable");
        TRY(outlive_topic_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &topic));
        thing->main = topic;
        OK();
    } else if (is("topic.find", 1)) {
        outlive_topic_t *topic = NULL;
        TRY(outlive_topic_open(domain, words[1], OUTLIVE_OPEN, NULL, &topic));
        outlive_topic_close(topic);
        OK();
    } else if (strcmp(words[0], "topic.publisher") == 0) {
        outlive_publisher_options_t options = OUTLIVE_PUBLISHER_OPTIONS_INIT;
        outlive_publisher_t *publisher = NULL;
        uint64_t span = 0;
        if (option(2, "blocking", &span)) options.max_blocking = span * 1000000;
        TRY(outlive_topic_publisher(thing->main, &options, &publisher));
        thing->in = publisher;
        OK();
    } else if (strcmp(words[0], "topic.subscriber") == 0) {
        subscribe(thing);
    } else if (is("topic.unsubscribe", 1)) {
        outlive_subscriber_close(thing->out);
        thing->out = NULL;
        OK();
    } else if (strcmp(words[0], "topic.publish") == 0 && word_count >= 4) {
        outlive_header_t header;
        memset(&header, 0, sizeof header);
        option(4, "key", &header.key);
        option(4, "frame", &header.frame);
        option(4, "stamp", &header.stamp);
        make_message(words[2]);
        TRY(outlive_publisher_publish_copy(thing->in, message, message_size, &header, until(words[3]), &sequence));
        say_number(sequence);
    } else if (is("topic.publish_many", 3)) {
        for (uint64_t count = number(words[2]); count > 0; count--) TRY(publish_pattern(thing, (size_t)number(words[3])));
        OK();
    } else if (is("topic.flood", 3)) {
        for (uint64_t end = now_ms() + number(words[3]); now_ms() < end;) TRY(publish_pattern(thing, (size_t)number(words[2])));
        OK();
    } else if (is("topic.loan", 2)) {
        void *data = NULL;
        make_message(words[2]);
        TRY(outlive_publisher_loan(thing->in, message_size, &loan, &data));
        memcpy(data, message, message_size);
        OK();
    } else if (is("topic.publish_loan", 1)) {
        outlive_loan_t *lent = loan;
        loan = NULL;
        TRY(outlive_publisher_publish(thing->in, lent, OUTLIVE_NEVER, &sequence));
        say_number(sequence);
    } else if (strcmp(words[0], "topic.publish_msgpack") == 0 || strcmp(words[0], "topic.recv_msgpack") == 0) {
        printf("error Unsupported %s\n", words[0]);
    } else if (is("topic.recv", 2)) {
        TRY(outlive_subscriber_recv(thing->out, &taken, until(words[2])));
        take(taken);
    } else if (is("topic.latest", 1)) {
        TRY(outlive_subscriber_latest(thing->out, &taken));
        take(taken);
    } else if (is("topic.recv_hex", 2)) {
        TRY(outlive_subscriber_recv(thing->out, &taken, until(words[2])));
        const unsigned char *bytes = outlive_sample_data(taken);
        printf("ok ");
        for (size_t at = 0; at < outlive_sample_size(taken); at++) printf("%02x", bytes[at]);
        printf("\n");
        outlive_sample_release(taken);
    } else if (is("topic.drain", 3)) {
        outlive_deadline_t deadline = until(words[3]);
        for (uint64_t count = number(words[2]); count > 0; count--) {
            TRY(outlive_subscriber_recv(thing->out, &taken, deadline));
            if (check(taken) != 0) return;
        }
        OK();
    } else if (is("topic.drain_all", 1)) {
        uint64_t count = 0;
        int code;
        for (; (code = outlive_subscriber_recv(thing->out, &taken, OUTLIVE_TRY)) == 0; count++)
            if (check(taken) != 0) return;
        if (code != EAGAIN) TRY(code);
        say_number(count);
    } else if (is("topic.consume", 2)) {
        for (uint64_t end = now_ms() + number(words[2]); now_ms() < end;) {
            TRY(outlive_subscriber_recv(thing->out, &taken, until(words[2])));
            outlive_sample_release(taken);
        }
        OK();
    } else if (is("topic.lost", 1)) {
        say_number(outlive_subscriber_lost(thing->out));
    } else if (is("topic.lag", 1)) {
        say_number(outlive_subscriber_lag(thing->out));
    } else if (is("topic.publishers", 1)) {
        say_number(outlive_subscriber_publisher_count(thing->out));
    } else if (is("topic.subscribers", 1)) {
        say_number(outlive_publisher_subscriber_count(thing->in));
    } else usage("topic");
}

static void of_sample(void) {
    outlive_header_t header;
    TRY(outlive_sample_header(sample, &header));
    if (is("sample.show", 0)) say_shown(outlive_sample_data(sample), outlive_sample_size(sample));
    else if (is("sample.sequence", 0)) say_number(outlive_sample_sequence(sample));
    else if (is("sample.order", 0)) say_number(outlive_sample_order(sample));
    else if (is("sample.key", 0)) say_number(header.key);
    else if (is("sample.frame", 0)) say_number(header.frame);
    else if (is("sample.stamp", 0)) say_number(header.stamp);
    else if (is("sample.publisher", 0)) say_number(outlive_sample_publisher(sample));
    else if (is("sample.drop", 0)) {
        outlive_sample_release(sample);
        sample = NULL;
        OK();
    } else usage("sample");
}

/* --- states */

static int writer(struct thing *thing) {
    outlive_state_writer_t *writer = thing->in;
    int code = writer == NULL ? outlive_state_writer(thing->main, OUTLIVE_TRY, &writer) : 0;
    thing->in = writer;
    return code;
}

static void state(void) {
    struct thing *thing = find(words[1]);
    outlive_state_t *state = thing->main;
    uint64_t value = 0, version = 0;
    size_t size = 0;
    if (is("state.open", 2)) {
        value = number(words[2]);
        TRY(outlive_state_open_fixed(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof value, &value, &state));
        thing->main = state;
        OK();
    } else if (is("state.find", 1)) {
        TRY(outlive_state_open(domain, words[1], OUTLIVE_OPEN, 0, NULL, 0, &state));
        OK();
    } else if (is("state.get", 1)) {
        TRY(outlive_state_get(state, &value, sizeof value, &size, &version));
        printf("ok %llu %llu\n", (unsigned long long)value, (unsigned long long)version);
    } else if (is("state.set", 2)) {
        value = number(words[2]);
        TRY(writer(thing));
        TRY(outlive_state_writer_set(thing->in, &value, sizeof value, &version));
        say_number(version);
    } else if (is("state.wait", 3)) {
        TRY(outlive_state_wait_changed(state, number(words[2]), until(words[3]), &version));
        say_number(version);
    } else if (is("state.close", 1)) {
        outlive_state_writer_close(thing->in);
        thing->in = NULL;
        OK();
    } else if (is("bytes.open", 3)) {
        make_message(words[3]);
        TRY(outlive_state_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, (size_t)number(words[2]), message, message_size, &state));
        thing->main = state;
        OK();
    } else if (is("bytes.get", 1)) {
        char shown[64];
        make_pattern(outlive_state_capacity(state), 0);
        TRY(outlive_state_get(state, message, message_size, &size, &version));
        show(shown, message, size);
        printf("ok %s %llu\n", shown, (unsigned long long)version);
    } else if (is("bytes.set", 2)) {
        make_message(words[2]);
        TRY(writer(thing));
        TRY(outlive_state_writer_set(thing->in, message, message_size, &version));
        say_number(version);
    } else if (is("bytes.flood", 3)) {
        TRY(writer(thing));
        for (uint64_t end = now_ms() + number(words[3]), count = 1; now_ms() < end; count++) {
            make_pattern((size_t)number(words[2]), count);
            TRY(outlive_state_writer_set(thing->in, message, message_size, NULL));
        }
        OK();
    } else if (is("bytes.watch", 3)) {
        outlive_deadline_t deadline = until(words[3]);
        make_pattern(outlive_state_capacity(state), 0);
        version = 1;
        for (uint64_t count = number(words[2]); count > 0; count--) {
            TRY(outlive_state_wait_changed(state, version, deadline, NULL));
            TRY(outlive_state_get(state, message, message_size, &size, &version));
            if (!is_pattern(message, size, version - 1)) {
                printf("error Torn version %llu\n", (unsigned long long)version);
                return;
            }
        }
        OK();
    } else usage("state");
}

/* --- services */

static void say_reply(outlive_reply_t *reply) {
    say_shown(outlive_reply_data(reply), outlive_reply_size(reply));
    outlive_reply_release(reply);
}

static void client(void) {
    struct thing *thing = word_count > 1 ? find(words[1]) : NULL;
    outlive_reply_t *reply = NULL;
    if (strcmp(words[0], "client.open") == 0) {
        outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
        outlive_client_t *client = NULL;
        options.wait_for_server = (uint32_t)flag(2, "wait");
        TRY(outlive_client_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &client));
        thing->in = client;
        OK();
    } else if (is("client.call", 3)) {
        make_message(words[2]);
        TRY(outlive_client_call(thing->in, message, message_size, until(words[3]), &reply));
        say_reply(reply);
    } else if (is("client.begin", 3)) {
        make_message(words[2]);
        TRY(outlive_client_begin(thing->in, message, message_size, until(words[3]), &call));
        OK();
    } else if (is("client.next", 1)) {
        TRY(outlive_call_next(call, until(words[1]), &reply));
        if (reply == NULL) puts("ok end");
        else say_reply(reply);
    } else if (is("client.failure", 0)) {
        printf("ok %s\n", outlive_last_error());
    } else usage("client");
}

static void server(void) {
    struct thing *thing = word_count > 1 ? find(words[1]) : NULL;
    if (is("server.open", 1)) {
        outlive_server_t *server = NULL;
        TRY(outlive_server_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, NULL, &server));
        thing->out = server;
        OK();
    } else if (is("server.next", 2)) {
        outlive_request_release(request);
        request = NULL;
        TRY(outlive_server_next(thing->out, until(words[2]), &request));
        say_shown(outlive_request_data(request), outlive_request_size(request));
    } else if (is("server.client", 0)) {
        outlive_peer_info_t info;
        TRY(outlive_request_client(request, &info));
        say_number(info.pid);
    } else if (is("server.cancelled", 0)) {
        puts(outlive_request_is_cancelled(request) ? "ok yes" : "ok no");
    } else if (is("server.reply", 1)) {
        outlive_request_t *asked = request;
        request = NULL;
        make_message(words[1]);
        TRY(outlive_request_reply(asked, message, message_size));
        OK();
    } else if (is("server.fail", 1)) {
        outlive_request_t *asked = request;
        request = NULL;
        TRY(outlive_request_fail(asked, words[1]));
        OK();
    } else if (is("server.fail_stream", 1)) {
        outlive_stream_t *open = stream;
        stream = NULL;
        TRY(outlive_stream_fail(open, words[1]));
        OK();
    } else if (is("server.drop", 0)) {
        outlive_request_release(request);
        request = NULL;
        OK();
    } else if (is("server.stream", 0)) {
        outlive_request_t *asked = request;
        request = NULL;
        TRY(outlive_request_stream(asked, &stream));
        OK();
    } else if (is("server.send", 2)) {
        make_message(words[1]);
        TRY(outlive_stream_send(stream, message, message_size, until(words[2])));
        OK();
    } else if (is("server.finish", 0)) {
        outlive_stream_t *open = stream;
        stream = NULL;
        TRY(outlive_stream_finish(open));
        OK();
    } else usage("server");
}

/* --- waiting for several */

static void note(uint64_t key, const char *name) {
    keys[key_count].key = key;
    snprintf(keys[key_count++].name, sizeof keys->name, "%s", name);
    OK();
}

static void set(void) {
    struct thing *thing = find(words[1]);
    outlive_wait_set_t *set = thing->main;
    uint64_t key = 0;
    if (is("set.open", 1)) {
        TRY(outlive_wait_set_open(domain, &set));
        thing->main = set;
        OK();
    } else if (is("set.add_queue", 2)) {
        TRY(receiver(find(words[2])));
        TRY(outlive_wait_set_add_receiver(set, find(words[2])->out, &key));
        note(key, words[2]);
    } else if (is("set.add_topic", 2)) {
        TRY(outlive_wait_set_add_subscriber(set, find(words[2])->out, &key));
        note(key, words[2]);
    } else if (is("set.add_event", 3)) {
        TRY(outlive_wait_set_add_event(set, find(words[2])->main, (uint32_t)number(words[3]), 0, &key));
        note(key, words[2]);
    } else if (is("set.add_peer", 3)) {
        TRY(outlive_wait_set_add_peer(set, domain, (uint32_t)number(words[3]), &key));
        note(key, words[2]);
    } else if (is("set.wait", 2)) {
        outlive_ready_t ready[32];
        const char *names[32];
        size_t count = 0;
        TRY(outlive_wait_set_wait(set, ready, 32, &count, until(words[2])));
        for (size_t at = 0; at < count; at++) {
            size_t known = 0, to = at;
            while (known < key_count && keys[known].key != ready[at].key) known++;
            const char *name = known < key_count ? keys[known].name : "unknown";
            for (; to > 0 && strcmp(names[to - 1], name) > 0; to--) names[to] = names[to - 1];
            names[to] = name;
        }
        printf("ok");
        for (size_t at = 0; at < count; at++) printf(" %s", names[at]);
        printf("\n");
    } else usage("set");
}

/* --- the three openings */

static void opening(void) {
    const char *kind = words[0] + strlen("open."), *name = words[2];
    if (word_count < 3) {
        usage("open");
        return;
    }
    enum outlive_opening_t how = strcmp(words[1], "open") == 0         ? OUTLIVE_OPEN
                                 : strcmp(words[1], "create_new") == 0 ? OUTLIVE_CREATE_NEW
                                                                       : OUTLIVE_OPEN_OR_CREATE;
    uint64_t given = word_count > 3 ? number(words[3]) : 0;
    /* What a maker must say. */
    uint32_t few = given == 0 && how != OUTLIVE_OPEN ? 1 : (uint32_t)given;
    uint32_t ceiling = few == 1 ? 2 : few;
    outlive_queue_options_t of_queue = OUTLIVE_QUEUE_OPTIONS_INIT;
    outlive_topic_options_t of_topic = OUTLIVE_TOPIC_OPTIONS_INIT;
    outlive_service_options_t of_service = OUTLIVE_SERVICE_OPTIONS_INIT;
    outlive_pool_options_t of_pool = OUTLIVE_POOL_OPTIONS_INIT;
    of_queue.max_bytes = of_topic.max_bytes = of_service.max_bytes = of_pool.max_bytes = given;
    void *record = NULL;
/* Opens by that function with those arguments behind `how`, and closes. */
#define OPENED(type, ...)                                                     \
    if (strcmp(kind, #type) == 0) {                                           \
        outlive_##type##_t *opened = NULL;                                    \
        TRY(outlive_##type##_open(domain, name, how, __VA_ARGS__ &opened));   \
        outlive_##type##_close(opened);                                       \
        OK();                                                                 \
        return;                                                               \
    }
#define AND ,
    OPENED(mutex, 8 AND NULL AND)
    OPENED(rwlock, 8 AND NULL AND)
    OPENED(pi_mutex, 8 AND NULL AND)
    OPENED(reentrant_mutex, 8 AND NULL AND)
    OPENED(ceiling_mutex, ceiling AND 8 AND NULL AND)
    OPENED(condvar, )
    OPENED(once, )
    OPENED(event, (uint32_t)given AND)
    OPENED(latch, few AND)
    OPENED(semaphore, few AND 0 AND)
    OPENED(barrier, few AND 0 AND)
    OPENED(queue, &of_queue AND)
    OPENED(topic, &of_topic AND)
    OPENED(state, (size_t)given AND NULL AND 0 AND)
    OPENED(pool, &of_pool AND)
    if (strcmp(kind, "service") == 0) {
        outlive_client_t *opened = NULL;
        TRY(outlive_client_open(domain, name, how, &of_service, &opened));
        outlive_client_close(opened);
    } else if (strcmp(kind, "record") == 0) {
        TRY(outlive_record_open(domain, name, how, 8, NULL, 0, NULL, NULL, &record));
        outlive_record_close(record);
    } else {
        usage(kind);
        return;
    }
    OK();
}

/* --- the rest */

static void misuse(void) {
    /* What is open when a call is refused stays known. */
    static outlive_queue_t *queue;
    static outlive_sender_t *sender;
    static outlive_event_t *event;
    static outlive_mutex_t *mutex;
    if (is("misuse.name", 0)) {
        TRY(outlive_queue_open(domain, NULL, OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    } else if (is("misuse.message", 0)) {
        TRY(outlive_queue_open(domain, "misused", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
        TRY(outlive_queue_sender(queue, &sender));
        TRY(outlive_sender_send(sender, NULL, 7, OUTLIVE_TRY));
    } else if (is("misuse.handle", 0)) {
        TRY(outlive_sender_send(NULL, "x", 1, OUTLIVE_TRY));
    } else if (is("misuse.number", 0)) {
        TRY(outlive_event_open(domain, "misused-event", OUTLIVE_OPEN_OR_CREATE, 7, &event));
    } else if (is("misuse.timeout", 0)) {
        /* Every number is a moment. */
        puts("impossible");
        return;
    } else if (is("misuse.unlock", 0)) {
        TRY(outlive_mutex_open(domain, "misused-lock", OUTLIVE_OPEN_OR_CREATE, 8, NULL, &mutex));
        TRY(outlive_mutex_unlock(mutex));
    }
    OK();
}

static void rest(void) {
    uint32_t token = 0;
    if (is("token", 0)) {
        TRY(outlive_domain_token(domain, &token));
        say_number(token);
    } else if (is("process_token", 0)) {
        TRY(outlive_domain_process_token(domain, &token));
        say_number(token);
    } else if (is("peer.alive", 1)) {
        puts(outlive_peer_is_alive(domain, (uint32_t)number(words[1])) ? "ok yes" : "ok no");
    } else if (is("peer.wait_dead", 2)) {
        TRY(outlive_peer_wait_dead(domain, (uint32_t)number(words[1]), until(words[2])));
        OK();
    } else if (is("domain.find", 1)) {
        outlive_domain_t *found = NULL;
        TRY(outlive_domain_open_at(words[1], OUTLIVE_OPEN, &found));
        outlive_domain_close(found);
        OK();
    } else if (is("domain.create", 1)) {
        char path[4096];
        outlive_domain_t *made = NULL;
        TRY(outlive_domain_path(domain, path, sizeof path));
        size_t end = strlen(path);
        snprintf(path + end, sizeof path - end, "/%s", words[1]);
        TRY(outlive_domain_open_at(path, OUTLIVE_CREATE_NEW, &made));
        outlive_domain_close(made);
        OK();
    } else if (is("exit", 0)) {
        _exit(0);
    } else if (is("crash", 0)) {
        abort();
    } else if (is("hang", 0)) {
        sleep(60);
        OK();
    } else usage(words[0]);
}

static void act(void) {
    static const struct { const char *prefix; void (*act)(void); } families[] = {
        {"lock.", lock}, {"rw.", rw}, {"sem.", semaphore}, {"event.", event}, {"cond.", condition}, {"barrier.", barrier},
        {"latch.", latch}, {"queue.", queue}, {"jobs.", jobs}, {"topic.", topic}, {"sample.", of_sample}, {"state.", state}, {"bytes.", state},
        {"client.", client}, {"server.", server}, {"set.", set}, {"misuse.", misuse},
        {"pi.", pi}, {"ceiling.", ceiling}, {"reentrant.", reentrant}, {"once.", once}, {"record.", record}, {"pool.", pool}, {"open.", opening},
    };
    for (size_t at = 0; at < sizeof families / sizeof *families; at++)
        if (strncmp(words[0], families[at].prefix, strlen(families[at].prefix)) == 0) {
            families[at].act();
            return;
        }
    rest();
}

/* Answers until the input ends, or until that line. */
static void serve(const char *last) {
    static char line[4096];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (last != NULL && strcmp(line, last) == 0) return;
        word_count = 0;
        for (char *word = strtok(line, " "); word != NULL && word_count < 32; word = strtok(NULL, " ")) words[word_count++] = word;
        if (word_count == 0) usage("an empty line");
        else act();
        fflush(stdout);
    }
}

int main(int count, char **arguments) {
    if (count != 2 || outlive_domain_open_at(arguments[1], OUTLIVE_OPEN_OR_CREATE, &domain) != 0) {
        fprintf(stderr, "usage: driver FOLDER; %s\n", outlive_last_error());
        return 2;
    }
    puts("ready");
    fflush(stdout);
    serve(NULL);
    return 0;
}
