/* `sem.`, `event.`, `cond.`, `barrier.`, `latch.` */
#include "driver.h"

/* --- semaphores */

static void sem_open(void) {
    outlive_semaphore_t *permits = NULL;
    TRY(outlive_semaphore_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, small_number(words[2]), 0,
        &permits));
    it()->main = permits;
    OK();
}

CALL(sem_acquire, outlive_semaphore_acquire(it()->main, until(words[2]), NULL))
CALL(sem_release, outlive_semaphore_release(it()->main))
CALL(sem_acquire_many, outlive_semaphore_acquire_many(it()->main, small_number(words[2]),
    until(words[3]), NULL))
CALL(sem_release_many, outlive_semaphore_release_many(it()->main, small_number(words[2])))
CALL(sem_add, outlive_semaphore_add(it()->main))
NUMBER(sem_available, outlive_semaphore_available_permits(it()->main))

/* --- events */

static void event_open(void) {
    outlive_event_t *event = NULL;
    uint32_t reset = strcmp(words[2], "automatic") == 0
        ? OUTLIVE_RESET_AUTOMATIC : OUTLIVE_RESET_MANUAL;
    TRY(outlive_event_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, reset, &event));
    it()->main = event;
    OK();
}

CALL(event_set, outlive_event_set(it()->main, small_number(words[2]), NULL))
CALL(event_clear, outlive_event_clear(it()->main, small_number(words[2]), NULL))
NUMBER(event_bits, outlive_event_bits(it()->main))

static void event_any(void) {
    uint32_t seen = 0;
    TRY(outlive_event_wait_any(it()->main, small_number(words[2]), until(words[3]), &seen));
    say_number(seen);
}

static void event_all(void) {
    uint32_t seen = 0;
    TRY(outlive_event_wait_all(it()->main, small_number(words[2]), until(words[3]), &seen));
    say_number(seen);
}

/* --- condition variables */

static void cond_open(void) {
    outlive_condvar_t *condvar = NULL;
    TRY(outlive_condvar_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &condvar));
    it()->main = condvar;
    OK();
}

static void cond_await(void) {
    struct thing *lock = find(words[2]);
    uint64_t wanted = number(words[3]), *value = lock->value;
    outlive_deadline_t deadline = until(words[4]);
    int code = 0;
    while (code == 0 && *value != wanted)
        code = outlive_condvar_wait_until(it()->main, lock->main, deadline);
    got(code, value);
}

CALL(cond_notify, outlive_condvar_notify_one(it()->main))
CALL(cond_notify_all, outlive_condvar_notify_all(it()->main))

/* --- barriers */

static void barrier_open(void) {
    outlive_barrier_t *barrier = NULL;
    uint32_t when = strcmp(words[3], "count_out") == 0
        ? OUTLIVE_DEATH_COUNTS_OUT : OUTLIVE_DEATH_BREAKS;
    TRY(outlive_barrier_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, small_number(words[2]),
        when, &barrier));
    it()->main = barrier;
    OK();
}

static void barrier_wait(void) {
    outlive_turn_t turn = {0, 0};
    /* This process has joined. */
    if (it()->in == NULL) TRY(outlive_barrier_join(it()->main));
    it()->in = it();
    TRY(outlive_barrier_wait(it()->main, until(words[2]), &turn));
    say_number(turn.index);
}

static void barrier_abort_wait(void) {
    outlive_turn_t turn = {0, 0};
    TRY(outlive_barrier_abort_wait(it()->main, &turn));
    say_number(turn.index);
}

static void barrier_state(void) {
    outlive_barrier_state_t state;
    TRY(outlive_barrier_state(it()->main, &state));
    printf("ok %u of %u%s\n", state.waiting, state.parties, state.broken ? " broken" : "");
}

CALL(barrier_abort, outlive_barrier_abort(it()->main))
CALL(barrier_reset, outlive_barrier_reset(it()->main, until(words[2])))
CALL(barrier_repair, outlive_barrier_repair(it()->main, until(words[2])))

/* --- latches */

static void latch_open(void) {
    outlive_latch_t *latch = NULL;
    TRY(outlive_latch_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, small_number(words[2]),
        &latch));
    it()->main = latch;
    OK();
}

static void latch_arrive(void) {
    uint32_t missing = 0;
    TRY(outlive_latch_arrive(it()->main, small_number(words[2]), &missing));
    say_number(missing);
}

CALL(latch_wait, outlive_latch_wait(it()->main, until(words[2])))

const struct verb sync_verbs[] = {
    V(sem, open, 2), V(sem, acquire, 2), V(sem, release, 1), V(sem, acquire_many, 3),
    V(sem, release_many, 2), V(sem, add, 1), V(sem, available, 1),
    V(event, open, 2), V(event, set, 2), V(event, clear, 2), V(event, bits, 1), V(event, any, 3),
    V(event, all, 3),
    V(cond, open, 2), V(cond, await, 4), V(cond, notify, 1), V(cond, notify_all, 1),
    V(barrier, open, 3), V(barrier, wait, 2), V(barrier, abort_wait, 1), V(barrier, abort, 1),
    V(barrier, reset, 2), V(barrier, state, 1), V(barrier, repair, 2),
    V(latch, open, 2), V(latch, arrive, 2), V(latch, wait, 2), END,
};
