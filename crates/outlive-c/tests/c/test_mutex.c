/* Mutexes: by name, and inside a record; their owners are killed. */
#include "testing.h"

static outlive_mutex_t *open_total(void) {
    outlive_mutex_t *mutex = NULL;
    uint64_t initial = 7;
    OK(outlive_mutex_open(domain, "total", OUTLIVE_OPEN_OR_CREATE, sizeof initial, &initial, &mutex));
    return mutex;
}

static void ordinary(void) {
    outlive_mutex_t *mutex = open_total();
    uint64_t *value = outlive_mutex_value(mutex);
    CHECK(value != NULL && *value == 7 && (uintptr_t)value % 64 == 0);
    OK(outlive_mutex_lock(mutex));
    *value += 1;
    IS(EDEADLK, outlive_mutex_lock(mutex));
    IS(EDEADLK, outlive_mutex_trylock(mutex));
    outlive_peer_info_t holder;
    OK(outlive_mutex_holder(mutex, &holder));
    CHECK(holder.pid == (uint32_t)getpid() && holder.alive == 1 && strncmp(holder.program, "test_mutex", 10) == 0);
    OK(outlive_mutex_unlock(mutex));
    IS(EPERM, outlive_mutex_unlock(mutex));
    IS(ESRCH, outlive_mutex_holder(mutex, &holder));
    /* Another opening is the same lock at another address. */
    outlive_mutex_t *again = open_total();
    CHECK(again != mutex && *(uint64_t *)outlive_mutex_value(again) == 8);
    OK(outlive_mutex_trylock(again));
    IS(EDEADLK, outlive_mutex_lock_until(mutex, SOON));
    IS(EPERM, outlive_mutex_unlock(mutex));
    OK(outlive_mutex_unlock(again));
    OK(outlive_mutex_set_wait(mutex, OUTLIVE_WAIT_BLOCK));
    IS(EINVAL, outlive_mutex_set_wait(mutex, 9));
    outlive_mutex_close(again);
    outlive_mutex_close(mutex);
    IS(EINVAL, outlive_mutex_lock(mutex));
    OK(outlive_domain_remove(domain, "total"));
    IS(ENOENT, outlive_domain_remove(domain, "total"));
}

static void hold(void) {
    outlive_mutex_t *mutex = open_total();
    OK(outlive_mutex_lock(mutex));
    *(uint64_t *)outlive_mutex_value(mutex) = 99;
    tell();
    for_ever();
}

static void owner_killed(void) {
    outlive_mutex_t *mutex = open_total();
    pid_t child = start(hold);
    hear();
    IS(EBUSY, outlive_mutex_trylock(mutex));
    IS(ETIMEDOUT, outlive_mutex_lock_until(mutex, outlive_after_ms(20)));
    outlive_peer_info_t holder;
    OK(outlive_mutex_holder(mutex, &holder));
    CHECK(holder.pid == (uint32_t)child);
    kill_it(child);
    CHECK(!outlive_mutex_owner_died(mutex));
    IS(EOWNERDEAD, outlive_mutex_lock_until(mutex, SOON));
    CHECK(outlive_mutex_owner_died(mutex));
    CHECK(strstr(outlive_last_error(), "died") != NULL);
    *(uint64_t *)outlive_mutex_value(mutex) = 8;
    OK(outlive_mutex_consistent(mutex));
    OK(outlive_mutex_unlock(mutex));
    IS(EPERM, outlive_mutex_consistent(mutex));
    OK(outlive_mutex_lock_until(mutex, SOON));
    OK(outlive_mutex_unlock(mutex));
    outlive_mutex_close(mutex);
}

static void *wait_for_it(void *mutex) {
    IS(EOWNERDEAD, outlive_mutex_lock_until(mutex, SOON));
    OK(outlive_mutex_consistent(mutex));
    OK(outlive_mutex_unlock(mutex));
    return NULL;
}

/* Asleep already when the owner is killed; one of two is told. */
static void owner_killed_while_waited_for(void) {
    outlive_mutex_t *mutex = open_total();
    pid_t child = start(hold);
    hear();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_for_it, mutex) == 0);
    sleep_ms(50);
    kill_it(child);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(outlive_mutex_lock_until(mutex, SOON));
    OK(outlive_mutex_unlock(mutex));
    outlive_mutex_close(mutex);
}

static void not_recoverable_and_reset(void) {
    outlive_mutex_t *mutex = open_total();
    pid_t child = start(hold);
    hear();
    kill_it(child);
    /* Unlocked without a repair: told again. */
    for (int n = 0; n < 3; n++) {
        IS(EOWNERDEAD, outlive_mutex_lock(mutex));
        CHECK(outlive_mutex_owner_died(mutex));
        OK(outlive_mutex_unlock(mutex));
        IS(EOWNERDEAD, outlive_mutex_trylock(mutex));
        OK(outlive_mutex_unlock(mutex));
    }
    IS(EPERM, outlive_mutex_mark_not_recoverable(mutex));
    IS(EOWNERDEAD, outlive_mutex_lock(mutex));
    OK(outlive_mutex_mark_not_recoverable(mutex));
    IS(EPERM, outlive_mutex_unlock(mutex));
    IS(ENOTRECOVERABLE, outlive_mutex_lock(mutex));
    IS(ENOTRECOVERABLE, outlive_mutex_trylock(mutex));
    OK(outlive_mutex_lock_to_reset(mutex, SOON));
    OK(outlive_mutex_unlock(mutex));
    IS(ENOTRECOVERABLE, outlive_mutex_lock(mutex));
    OK(outlive_mutex_lock_to_reset(mutex, SOON));
    *(uint64_t *)outlive_mutex_value(mutex) = 1;
    OK(outlive_mutex_consistent(mutex));
    OK(outlive_mutex_unlock(mutex));
    OK(outlive_mutex_lock(mutex));
    OK(outlive_mutex_unlock(mutex));
    outlive_mutex_close(mutex);
}

struct line {
    outlive_mutex_t lock;
    uint64_t count;
    outlive_condvar_t changed;
    outlive_mutex_t locks[3];
    uint64_t counts[3];
};

static const outlive_place_t places[] = {
    OUTLIVE_PLACE(struct line, lock, OUTLIVE_MUTEX),     OUTLIVE_PLACE(struct line, changed, OUTLIVE_CONDVAR),
    OUTLIVE_PLACE(struct line, locks[0], OUTLIVE_MUTEX), OUTLIVE_PLACE(struct line, locks[1], OUTLIVE_MUTEX),
    OUTLIVE_PLACE(struct line, locks[2], OUTLIVE_MUTEX),
};
enum { PLACES = sizeof places / sizeof *places };

static void begin(void *data, void *argument) { ((struct line *)data)->count = *(uint64_t *)argument; }

static struct line *open_line(void) {
    uint64_t first = 5;
    void *data = NULL;
    OK(outlive_record_open(domain, "line", OUTLIVE_OPEN_OR_CREATE, sizeof(struct line), places, PLACES, begin, &first, &data));
    return data;
}

static void in_record(void) {
    struct line *line = open_line();
    CHECK(line->count == 5);
    OK(outlive_mutex_lock(&line->lock));
    for (int at = 0; at < 3; at++) OK(outlive_mutex_lock(&line->locks[at]));
    for (int at = 0; at < 3; at++) OK(outlive_mutex_unlock(&line->locks[at]));
    OK(outlive_mutex_unlock(&line->lock));
    CHECK(outlive_mutex_value(&line->lock) == NULL);
    outlive_record_close(line);
}

static void hold_two_in_record(void) {
    struct line *line = open_line();
    OK(outlive_mutex_lock(&line->lock));
    OK(outlive_mutex_lock(&line->locks[1]));
    tell();
    for_ever();
}

static void owner_killed_in_record(void) {
    struct line *line = open_line();
    pid_t child = start(hold_two_in_record);
    hear();
    OK(outlive_mutex_trylock(&line->locks[0]));
    OK(outlive_mutex_unlock(&line->locks[0]));
    kill_it(child);
    IS(EOWNERDEAD, outlive_mutex_lock_until(&line->lock, SOON));
    IS(EOWNERDEAD, outlive_mutex_lock_until(&line->locks[1], SOON));
    OK(outlive_mutex_consistent(&line->locks[1]));
    OK(outlive_mutex_unlock(&line->locks[1]));
    OK(outlive_mutex_consistent(&line->lock));
    OK(outlive_mutex_unlock(&line->lock));
    outlive_record_close(line);
}

/* A sweep, which knows nothing of the struct, finds what the dead one held. */
static void swept_in_record(void) {
    struct line *line = open_line();
    pid_t child = start(hold_two_in_record);
    hear();
    kill_it(child);
    uint64_t claims = 0;
    OK(outlive_domain_sweep(domain, &claims));
    CHECK(claims >= 2);
    IS(EOWNERDEAD, outlive_mutex_lock_until(&line->lock, SOON));
    OK(outlive_mutex_consistent(&line->lock));
    OK(outlive_mutex_unlock(&line->lock));
    outlive_record_close(line);
}

static void wait_and_notify(void) {
    struct line *line = open_line();
    OK(outlive_mutex_lock(&line->lock));
    while (line->count == 5) OK(outlive_condvar_wait_until(&line->changed, &line->lock, SOON));
    CHECK(line->count == 6);
    line->count = 7;
    OK(outlive_mutex_unlock(&line->lock));
    OK(outlive_condvar_notify_all(&line->changed));
}

static void condvar(void) {
    struct line *line = open_line();
    pid_t child = start(wait_and_notify);
    OK(outlive_mutex_lock(&line->lock));
    line->count = 6;
    OK(outlive_condvar_notify_one(&line->changed));
    while (line->count == 6) OK(outlive_condvar_wait_until(&line->changed, &line->lock, SOON));
    CHECK(line->count == 7);
    IS(ETIMEDOUT, outlive_condvar_wait_until(&line->changed, &line->lock, outlive_after_ms(5)));
    OK(outlive_mutex_unlock(&line->lock));
    IS(EPERM, outlive_condvar_wait(&line->changed, &line->lock));
    join(child);
    outlive_record_close(line);
}

/* The child has the mutex while we wait, and is killed in it. */
static void hold_while_waited(void) {
    struct line *line = open_line();
    OK(outlive_mutex_lock_until(&line->lock, SOON));
    line->count = 6;
    OK(outlive_condvar_notify_one(&line->changed));
    tell();
    for_ever();
}

static pid_t doomed;

static void *kill_when_told(void *nothing) {
    hear();
    sleep_ms(20);
    kill_it(doomed);
    return nothing;
}

static void condvar_owner_killed(void) {
    struct line *line = open_line();
    outlive_condvar_t *named = NULL;
    OK(outlive_condvar_open(domain, "named", OUTLIVE_OPEN_OR_CREATE, &named));
    OK(outlive_mutex_lock(&line->lock));
    doomed = start(hold_while_waited);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, kill_when_told, NULL) == 0);
    int code = 0;
    while (line->count == 5 && code == 0) code = outlive_condvar_wait_until(&line->changed, &line->lock, SOON);
    IS(EOWNERDEAD, code);
    OK(outlive_mutex_consistent(&line->lock));
    /* The mutex of one file, the condition variable of another; a peer's end ends the wait. */
    CHECK(pthread_join(thread, NULL) == 0);
    IS(ETIMEDOUT, outlive_condvar_wait_until(named, &line->lock, outlive_after_ms(5)));
    OK(outlive_mutex_unlock(&line->lock));
    outlive_condvar_close(named);
    outlive_record_close(line);
}

static uint32_t suppliers;

static void lend_token(void) {
    OK(outlive_domain_process_token(domain, &suppliers));
    CHECK(write(news[1], &suppliers, sizeof suppliers) == sizeof suppliers);
    for_ever();
}

static void *kill_later(void *nothing) {
    sleep_ms(50);
    kill_it(doomed);
    return nothing;
}

/* A waiter that lent its token is woken when the process that it waits for ends. */
static void condvar_peer_killed(void) {
    struct line *line = open_line();
    doomed = start(lend_token);
    CHECK(read(news[0], &suppliers, sizeof suppliers) == sizeof suppliers);
    close(news[0]);
    OK(outlive_mutex_lock(&line->lock));
    IS(ETIMEDOUT, outlive_condvar_wait_or_end(&line->changed, &line->lock, domain, suppliers, outlive_after_ms(5)));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
    int code = 0;
    while (code == 0) code = outlive_condvar_wait_or_end(&line->changed, &line->lock, domain, suppliers, SOON);
    IS(ESRCH, code);
    CHECK(pthread_join(thread, NULL) == 0);
    IS(ESRCH, outlive_condvar_wait_or_end(&line->changed, &line->lock, domain, suppliers, SOON));
    OK(outlive_mutex_unlock(&line->lock));
    outlive_record_close(line);
}

static void try_parents(void) {
    outlive_mutex_t *mutex = open_total();
    IS(ETIMEDOUT, outlive_mutex_lock_until(mutex, outlive_after_ms(10)));
    IS(EPERM, outlive_mutex_unlock(mutex));
}

static outlive_mutex_t *inherited;

static void use_inherited(void) {
    IS(EPERM, outlive_mutex_unlock(inherited));
    IS(EBUSY, outlive_mutex_trylock(inherited));
    tell();
    OK(outlive_mutex_lock_until(inherited, SOON));
    *(uint64_t *)outlive_mutex_value(inherited) = 55;
    OK(outlive_mutex_unlock(inherited));
}

/* A child is not its parent, and may lock by the parent's address as itself. */
static void forked(void) {
    inherited = open_total();
    OK(outlive_mutex_lock(inherited));
    join(start(try_parents));
    close(news[0]);
    pid_t child = start(use_inherited);
    hear();
    OK(outlive_mutex_unlock(inherited));
    join(child);
    OK(outlive_mutex_lock_until(inherited, SOON));
    CHECK(*(uint64_t *)outlive_mutex_value(inherited) == 55);
    OK(outlive_mutex_unlock(inherited));
    outlive_mutex_close(inherited);
}

static void bad_arguments(void) {
    outlive_mutex_t *mutex = NULL;
    outlive_mutex_t on_the_stack;
    memset(&on_the_stack, 0, sizeof on_the_stack);
    IS(EINVAL, outlive_mutex_lock(NULL));
    IS(EINVAL, outlive_mutex_lock(&on_the_stack));
    IS(EINVAL, outlive_mutex_unlock(&on_the_stack));
    IS(EINVAL, outlive_mutex_lock((outlive_mutex_t *)(uintptr_t)8));
    IS(EINVAL, outlive_mutex_open(NULL, "x", OUTLIVE_OPEN_OR_CREATE, 0, NULL, &mutex));
    IS(EINVAL, outlive_mutex_open(domain, NULL, OUTLIVE_OPEN_OR_CREATE, 0, NULL, &mutex));
    IS(EINVAL, outlive_mutex_open(domain, "x", OUTLIVE_OPEN_OR_CREATE, 0, NULL, NULL));
    const char *names[] = {"", "a/b", ".hidden", "\xff\xfe"};
    for (size_t at = 0; at < 4; at++) IS(EINVAL, outlive_mutex_open(domain, names[at], OUTLIVE_OPEN_OR_CREATE, 0, NULL, &mutex));
    IS(EINVAL, outlive_mutex_open(domain, "x", OUTLIVE_OPEN_OR_CREATE, SIZE_MAX, NULL, &mutex));
    IS(EINVAL, outlive_mutex_open(domain, "x", OUTLIVE_OPEN_OR_CREATE, SIZE_MAX, "", &mutex));
    CHECK(mutex == NULL);
    OK(outlive_mutex_open(domain, "small", OUTLIVE_OPEN_OR_CREATE, 8, NULL, &mutex));
    outlive_mutex_t *other = mutex;
    IS(OUTLIVE_OTHER_TYPE, outlive_mutex_open(domain, "small", OUTLIVE_OPEN_OR_CREATE, 16, NULL, &other));
    CHECK(other == NULL);
    outlive_rwlock_t *rwlock = NULL;
    IS(OUTLIVE_OTHER_KIND, outlive_rwlock_open(domain, "small", OUTLIVE_OPEN_OR_CREATE, 8, NULL, &rwlock));
    outlive_condvar_t *condvar = NULL;
    IS(OUTLIVE_OTHER_KIND, outlive_condvar_open(domain, "small", OUTLIVE_OPEN_OR_CREATE, &condvar));
    /* Another kind's words, and the middle of something. */
    IS(EINVAL, outlive_condvar_notify_one((outlive_condvar_t *)(void *)mutex));
    IS(EINVAL, outlive_mutex_lock((outlive_mutex_t *)(void *)((char *)mutex + 4)));
    IS(EINVAL, outlive_mutex_lock((outlive_mutex_t *)outlive_mutex_value(mutex)));
    outlive_rwlock_close((outlive_rwlock_t *)(void *)mutex);
    OK(outlive_mutex_lock(mutex));
    OK(outlive_mutex_unlock(mutex));
    outlive_mutex_close(mutex);
    outlive_mutex_close(mutex);
    outlive_mutex_close(NULL);
    IS(EINVAL, outlive_mutex_unlock(mutex));
    CHECK(outlive_mutex_value(mutex) == NULL && outlive_mutex_value(NULL) == NULL);

    void *data = NULL;
    size_t size = sizeof(struct line);
    outlive_place_t bad = {3, OUTLIVE_MUTEX, 0};
    IS(EINVAL, outlive_record_open(domain, "bad", OUTLIVE_OPEN_OR_CREATE, size, &bad, 1, NULL, NULL, &data));
    bad.offset = size;
    IS(EINVAL, outlive_record_open(domain, "bad", OUTLIVE_OPEN_OR_CREATE, size, &bad, 1, NULL, NULL, &data));
    bad.offset = SIZE_MAX - 7;
    IS(EINVAL, outlive_record_open(domain, "bad", OUTLIVE_OPEN_OR_CREATE, size, &bad, 1, NULL, NULL, &data));
    bad.offset = 0;
    bad.kind = 77;
    IS(EINVAL, outlive_record_open(domain, "bad", OUTLIVE_OPEN_OR_CREATE, size, &bad, 1, NULL, NULL, &data));
    IS(EINVAL, outlive_record_open(domain, "bad", OUTLIVE_OPEN_OR_CREATE, size, NULL, 1, NULL, NULL, &data));
    IS(EINVAL, outlive_record_open(domain, "bad", OUTLIVE_OPEN_OR_CREATE, size, places, SIZE_MAX, NULL, NULL, &data));
    IS(EINVAL, outlive_record_open(domain, "bad", OUTLIVE_OPEN_OR_CREATE, 0, NULL, 0, NULL, NULL, &data));
    CHECK(data == NULL);
    struct line *line = open_line();
    IS(OUTLIVE_OTHER_TYPE, outlive_record_open(domain, "line", OUTLIVE_OPEN_OR_CREATE, size, places, PLACES - 1, NULL, NULL, &data));
    IS(OUTLIVE_OTHER_TYPE, outlive_record_open(domain, "line", OUTLIVE_OPEN_OR_CREATE, size + 8, places, PLACES, NULL, NULL, &data));
    IS(EINVAL, outlive_mutex_lock((outlive_mutex_t *)(void *)&line->count));
    IS(EINVAL, outlive_mutex_lock((outlive_mutex_t *)(void *)&line->changed));
    outlive_record_close(line);
    outlive_record_close(line);
}

struct valve {
    uint64_t position;
    outlive_pi_mutex_t lock;
};

static struct valve *open_valve(void) {
    const outlive_place_t place = OUTLIVE_PLACE(struct valve, lock, OUTLIVE_PI_MUTEX);
    void *data = NULL;
    OK(outlive_record_open(domain, "valve", OUTLIVE_OPEN_OR_CREATE, sizeof(struct valve), &place, 1, NULL, NULL, &data));
    return data;
}

static void hold_valve(void) {
    OK(outlive_pi_mutex_lock(&open_valve()->lock, SOON));
    tell();
    for_ever();
}

static void pi_owner_killed(void) {
    struct valve *valve = open_valve();
    OK(outlive_pi_mutex_lock(&valve->lock, SOON));
    IS(EDEADLK, outlive_pi_mutex_lock(&valve->lock, SOON));
    OK(outlive_pi_mutex_unlock(&valve->lock));
    IS(EPERM, outlive_pi_mutex_unlock(&valve->lock));
    pid_t child = start(hold_valve);
    hear();
    IS(EBUSY, outlive_pi_mutex_lock(&valve->lock, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_pi_mutex_lock(&valve->lock, outlive_after_ms(5)));
    outlive_peer_info_t info;
    OK(outlive_pi_mutex_holder(&valve->lock, &info));
    CHECK(info.pid == (uint32_t)child);
    kill_it(child);
    IS(EOWNERDEAD, outlive_pi_mutex_lock(&valve->lock, SOON));
    CHECK(outlive_pi_mutex_owner_died(&valve->lock));
    OK(outlive_pi_mutex_unlock(&valve->lock));
    IS(EPERM, outlive_pi_mutex_mark_not_recoverable(&valve->lock));
    IS(EOWNERDEAD, outlive_pi_mutex_lock(&valve->lock, SOON));
    OK(outlive_pi_mutex_mark_not_recoverable(&valve->lock));
    IS(ENOTRECOVERABLE, outlive_pi_mutex_lock(&valve->lock, SOON));
    OK(outlive_pi_mutex_reset(&valve->lock, SOON));
    child = start(hold_valve);
    hear();
    kill_it(child);
    IS(EOWNERDEAD, outlive_pi_mutex_lock(&valve->lock, SOON));
    OK(outlive_pi_mutex_consistent(&valve->lock));
    OK(outlive_pi_mutex_unlock(&valve->lock));
    outlive_record_close(valve);

    outlive_pi_mutex_t *named = NULL;
    uint64_t initial = 5;
    OK(outlive_pi_mutex_open(domain, "named", OUTLIVE_OPEN_OR_CREATE, sizeof initial, &initial, &named));
    CHECK(*(uint64_t *)outlive_pi_mutex_value(named) == 5);
    OK(outlive_pi_mutex_lock(named, SOON));
    OK(outlive_pi_mutex_unlock(named));
    outlive_pi_mutex_close(named);
    IS(EINVAL, outlive_pi_mutex_lock(named, SOON));
}

TESTS(TEST(ordinary), TEST(owner_killed), TEST(owner_killed_while_waited_for), TEST(not_recoverable_and_reset), TEST(in_record),
      TEST(owner_killed_in_record), TEST(swept_in_record), TEST(condvar), TEST(condvar_owner_killed), TEST(condvar_peer_killed), TEST(forked),
      TEST(pi_owner_killed), TEST(bad_arguments))
