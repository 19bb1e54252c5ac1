/* Events, latches, onces, semaphores, barriers. */
#include "testing.h"

struct arm {
    outlive_event_t moved;
    outlive_latch_t ready;
    outlive_once_t calibrated;
    double offset;
};

static void begin(void *data, void *nothing) {
    struct arm *arm = data;
    (void)nothing;
    OK(outlive_event_init(&arm->moved, OUTLIVE_RESET_AUTOMATIC));
    OK(outlive_latch_init(&arm->ready, 2));
    IS(EINVAL, outlive_event_init(&arm->moved, 9));
}

static struct arm *open_arm(void) {
    const outlive_place_t places[] = {OUTLIVE_PLACE(struct arm, moved, OUTLIVE_EVENT),
                                      OUTLIVE_PLACE(struct arm, ready, OUTLIVE_LATCH),
                                      OUTLIVE_PLACE(struct arm, calibrated, OUTLIVE_ONCE)};
    void *data = NULL;
    OK(outlive_record_open(domain, "arm", OUTLIVE_OPEN_OR_CREATE, sizeof(struct arm), places, 3, begin, NULL, &data));
    return data;
}

static void set_bits(void) {
    struct arm *arm = open_arm();
    OK(outlive_event_set(&arm->moved, 4, NULL));
    OK(outlive_latch_arrive(&arm->ready, 1, NULL));
    tell();
    for_ever();
}

static void wait_for_pulse(void) {
    outlive_event_t *event = NULL;
    uint32_t seen = 0;
    OK(outlive_event_open(domain, "pulse", OUTLIVE_OPEN_OR_CREATE, OUTLIVE_RESET_MANUAL, &event));
    tell();
    OK(outlive_event_wait_any(event, 6, SOON, &seen));
    CHECK(seen == 4);
    outlive_event_close(event);
}

/* Twenty wait when the bit is set; it is gone before they have looked. */
static void event_that_is_cleared_at_once(void) {
    outlive_event_t *event = NULL;
    pid_t children[20];
    OK(outlive_event_open(domain, "pulse", OUTLIVE_OPEN_OR_CREATE, OUTLIVE_RESET_MANUAL, &event));
    for (int n = 0; n < 20; n++) {
        children[n] = start(wait_for_pulse);
        hear();
    }
    for (int n = 0; n < 20; n++) until_asleep(children[n]);
    OK(outlive_event_set(event, 4, NULL));
    OK(outlive_event_clear(event, 4, NULL));
    for (int n = 0; n < 20; n++) join(children[n]);
    outlive_event_close(event);
}

static void event_and_latch(void) {
    struct arm *arm = open_arm();
    uint32_t seen = 0, missing = 9;
    IS(EAGAIN, outlive_event_wait_any(&arm->moved, 4, OUTLIVE_TRY, &seen));
    IS(ETIMEDOUT, outlive_event_wait_all(&arm->moved, 4, outlive_after_ms(5), &seen));
    IS(EAGAIN, outlive_latch_wait(&arm->ready, OUTLIVE_TRY));
    pid_t child = start(set_bits);
    OK(outlive_event_wait_any(&arm->moved, 6, SOON, &seen));
    CHECK(seen == 4 && outlive_event_bits(&arm->moved) == 0);
    hear();
    kill_it(child);
    /* What was set is set. */
    IS(ETIMEDOUT, outlive_latch_wait(&arm->ready, outlive_after_ms(5)));
    OK(outlive_latch_arrive(&arm->ready, 1, &missing));
    CHECK(missing == 0);
    OK(outlive_latch_wait(&arm->ready, SOON));
    outlive_record_close(arm);

    outlive_event_t *event = NULL;
    outlive_latch_t *latch = NULL;
    OK(outlive_event_open(domain, "event", OUTLIVE_OPEN_OR_CREATE, OUTLIVE_RESET_MANUAL, &event));
    IS(EINVAL, outlive_event_open(domain, "event", OUTLIVE_OPEN_OR_CREATE, OUTLIVE_RESET_AUTOMATIC, &event));
    OK(outlive_event_open(domain, "event", OUTLIVE_OPEN_OR_CREATE, OUTLIVE_RESET_MANUAL, &event));
    OK(outlive_event_set(event, 3, &seen));
    CHECK(seen == 0 && outlive_event_bits(event) == 3);
    OK(outlive_event_wait_all(event, 3, SOON, NULL));
    OK(outlive_event_clear(event, 1, &seen));
    CHECK(seen == 3 && outlive_event_bits(event) == 2);
    OK(outlive_latch_open(domain, "latch", OUTLIVE_OPEN_OR_CREATE, 1, &latch));
    OK(outlive_latch_arrive(latch, UINT32_MAX, NULL));
    OK(outlive_latch_wait(latch, OUTLIVE_TRY));
    outlive_event_close(event);
    outlive_latch_close(latch);
    IS(EINVAL, outlive_event_set(event, 1, NULL));
    IS(EINVAL, outlive_event_set(NULL, 1, NULL));
    IS(EINVAL, outlive_latch_wait(NULL, SOON));
    CHECK(outlive_event_bits(NULL) == 0);
}

static void calibrate(void *arm, int previous_died) { ((struct arm *)arm)->offset = previous_died ? 2 : 1; }

static void calibrate_and_hang(void *arm, int previous_died) {
    CHECK(!previous_died);
    ((struct arm *)arm)->offset = 77;
    tell();
    for_ever();
}

static void die_calibrating(void) {
    struct arm *arm = open_arm();
    outlive_once_do(&arm->calibrated, calibrate_and_hang, arm, SOON);
}

static void once_maker_killed(void) {
    struct arm *arm = open_arm();
    pid_t child = start(die_calibrating);
    hear();
    IS(EBUSY, outlive_once_do(&arm->calibrated, calibrate, arm, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_once_do(&arm->calibrated, calibrate, arm, outlive_after_ms(5)));
    CHECK(!outlive_once_is_done(&arm->calibrated));
    kill_it(child);
    OK(outlive_once_do(&arm->calibrated, calibrate, arm, SOON));
    CHECK(arm->offset == 2 && outlive_once_is_done(&arm->calibrated));
    OK(outlive_once_do(&arm->calibrated, calibrate_and_hang, arm, SOON));
    IS(EINVAL, outlive_once_do(&arm->calibrated, NULL, arm, SOON));
    outlive_record_close(arm);
    outlive_once_t *named = NULL;
    struct arm mine;
    OK(outlive_once_open(domain, "once", OUTLIVE_OPEN_OR_CREATE, &named));
    OK(outlive_once_do(named, calibrate, &mine, OUTLIVE_TRY));
    CHECK(mine.offset == 1);
    outlive_once_close(named);
}

static outlive_semaphore_t *open_semaphore(void) {
    outlive_semaphore_t *semaphore = NULL;
    OK(outlive_semaphore_open(domain, "encoders", OUTLIVE_OPEN_OR_CREATE, 2, 3, &semaphore));
    return semaphore;
}

static void hold_a_permit(void) {
    OK(outlive_semaphore_acquire(open_semaphore(), SOON, NULL));
    tell();
    for_ever();
}

static pid_t doomed;

static void *kill_later(void *nothing) {
    sleep_ms(60);
    kill_it(doomed);
    return nothing;
}

static void semaphore_holder_killed(void) {
    outlive_semaphore_t *semaphore = open_semaphore();
    uint32_t index = 99;
    OK(outlive_semaphore_acquire(semaphore, SOON, &index));
    CHECK(index < 3 && outlive_semaphore_available_permits(semaphore) == 1);
    doomed = start(hold_a_permit);
    hear();
    IS(EAGAIN, outlive_semaphore_acquire(semaphore, OUTLIVE_TRY, NULL));
    IS(ETIMEDOUT, outlive_semaphore_acquire(semaphore, outlive_after_ms(5), NULL));
    outlive_peer_info_t holders[4];
    size_t count = 0;
    OK(outlive_semaphore_holders(semaphore, holders, 4, &count));
    CHECK(count == 2);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
    OK(outlive_semaphore_acquire(semaphore, SOON, NULL));
    CHECK(pthread_join(thread, NULL) == 0);
    /* This process holds all permits; but another process might add one. */
    IS(EAGAIN, outlive_semaphore_acquire(semaphore, OUTLIVE_TRY, NULL));
    OK(outlive_semaphore_add(semaphore));
    IS(EOVERFLOW, outlive_semaphore_add(semaphore));
    OK(outlive_semaphore_acquire(semaphore, SOON, NULL));
    OK(outlive_semaphore_consume(semaphore));
    OK(outlive_semaphore_release(semaphore));
    OK(outlive_semaphore_release(semaphore));
    IS(EPERM, outlive_semaphore_release(semaphore));
    IS(EPERM, outlive_semaphore_consume(semaphore));
    CHECK(outlive_semaphore_available_permits(semaphore) == 2);
    /* Handed to this very thread: no other has it in between, and only the named thread takes it up. */
    uint32_t token = 0, taken = 9;
    OK(outlive_domain_token(domain, &token));
    IS(EAGAIN, outlive_semaphore_take_up(semaphore, OUTLIVE_TRY, NULL));
    IS(EPERM, outlive_semaphore_hand_to(semaphore, token));
    OK(outlive_semaphore_acquire(semaphore, SOON, &index));
    IS(EINVAL, outlive_semaphore_hand_to(semaphore, 0));
    OK(outlive_semaphore_hand_to(semaphore, token));
    CHECK(outlive_semaphore_available_permits(semaphore) == 1);
    OK(outlive_semaphore_take_up(semaphore, SOON, &taken));
    CHECK(taken == index);
    OK(outlive_semaphore_release(semaphore));
    CHECK(outlive_semaphore_available_permits(semaphore) == 2);
    outlive_semaphore_close(semaphore);
    IS(EINVAL, outlive_semaphore_open(domain, "none", OUTLIVE_OPEN_OR_CREATE, 0, 0, &semaphore));
    IS(EINVAL, outlive_semaphore_acquire(NULL, SOON, NULL));
}

static void hold_two_permits(void) {
    OK(outlive_semaphore_acquire_many(open_semaphore(), 2, SOON, NULL));
    tell();
    for_ever();
}

static void several_permits(void) {
    outlive_semaphore_t *semaphore = open_semaphore();
    uint32_t indexes[2] = {9, 9};
    OK(outlive_semaphore_acquire_many(semaphore, 2, SOON, indexes));
    CHECK(indexes[0] != indexes[1] && indexes[0] < 3 && indexes[1] < 3);
    IS(EAGAIN, outlive_semaphore_acquire_many(semaphore, 1, OUTLIVE_TRY, NULL));
    IS(EDEADLK, outlive_semaphore_acquire_many(semaphore, 2, SOON, NULL));
    IS(EOVERFLOW, outlive_semaphore_acquire_many(semaphore, 4, SOON, NULL));
    IS(EPERM, outlive_semaphore_release_many(semaphore, 3));
    CHECK(outlive_semaphore_available_permits(semaphore) == 0);
    OK(outlive_semaphore_release_many(semaphore, 2));
    OK(outlive_semaphore_release_many(semaphore, 0));
    OK(outlive_semaphore_acquire_many(semaphore, 0, OUTLIVE_TRY, NULL));
    CHECK(outlive_semaphore_available_permits(semaphore) == 2);
    pid_t child = start(hold_two_permits);
    hear();
    IS(ETIMEDOUT, outlive_semaphore_acquire_many(semaphore, 2, outlive_after_ms(5), NULL));
    kill_it(child);
    OK(outlive_semaphore_acquire_many(semaphore, 2, SOON, NULL));
    OK(outlive_semaphore_release(semaphore));
    OK(outlive_semaphore_release(semaphore));
    outlive_semaphore_close(semaphore);
    IS(EINVAL, outlive_semaphore_acquire_many(semaphore, 1, SOON, NULL));
}

static outlive_barrier_t *open_barrier(void) {
    outlive_barrier_t *barrier = NULL;
    OK(outlive_barrier_open(domain, "phase", OUTLIVE_OPEN_OR_CREATE, 2, OUTLIVE_DEATH_BREAKS, &barrier));
    return barrier;
}

static void take_part_once(void) {
    outlive_barrier_t *barrier = open_barrier();
    OK(outlive_barrier_join(barrier));
    tell();
    OK(outlive_barrier_wait(barrier, SOON, NULL));
    for_ever();
}

static void barrier_participant_killed(void) {
    outlive_barrier_t *barrier = open_barrier();
    IS(EPERM, outlive_barrier_wait(barrier, SOON, NULL));
    OK(outlive_barrier_join(barrier));
    doomed = start(take_part_once);
    hear();
    pthread_t thread;
    OK(outlive_barrier_wait(barrier, SOON, NULL));
    IS(ETIMEDOUT, outlive_barrier_wait(barrier, OUTLIVE_TRY, NULL));
    CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
    IS(OUTLIVE_BROKEN, outlive_barrier_wait(barrier, SOON, NULL));
    CHECK(pthread_join(thread, NULL) == 0);
    OK(outlive_barrier_repair(barrier, SOON));
    OK(outlive_barrier_leave(barrier));
    IS(EPERM, outlive_barrier_leave(barrier));
    OK(outlive_barrier_join(barrier));
    outlive_barrier_close(barrier);
    IS(EINVAL, outlive_barrier_open(domain, "none", OUTLIVE_OPEN_OR_CREATE, 0, 0, &barrier));
    IS(EINVAL, outlive_barrier_join(NULL));
}

static void *wait_and_be_told(void *barrier) {
    OK(outlive_barrier_join(barrier));
    IS(OUTLIVE_BROKEN, outlive_barrier_wait(barrier, SOON, NULL));
    OK(outlive_barrier_leave(barrier));
    return NULL;
}

static void *wait_once(void *barrier) {
    OK(outlive_barrier_join(barrier));
    OK(outlive_barrier_wait(barrier, SOON, NULL));
    OK(outlive_barrier_leave(barrier));
    return NULL;
}

static outlive_barrier_state_t state_of(const outlive_barrier_t *barrier) {
    outlive_barrier_state_t state;
    OK(outlive_barrier_state(barrier, &state));
    return state;
}

static void barrier_aborted_and_reset(void) {
    outlive_barrier_t *barrier = open_barrier();
    for (int aborts = 0; aborts < 2; aborts++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, wait_and_be_told, barrier) == 0);
        while (state_of(barrier).waiting == 0) usleep(1000);
        if (aborts) OK(outlive_barrier_abort(barrier));
        CHECK(state_of(barrier).parties == 2 && state_of(barrier).broken == (uint32_t)aborts);
        OK(outlive_barrier_reset(barrier, SOON));
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(state_of(barrier).waiting == 0 && state_of(barrier).broken == 0);
    }
    outlive_turn_t turn = {7, 7};
    OK(outlive_barrier_join(barrier));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_once, barrier) == 0);
    OK(outlive_barrier_wait(barrier, SOON, &turn));
    CHECK(turn.index == 0 && turn.leader < 2);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(outlive_barrier_reset(barrier, SOON));
    /* The other one has left, so this one passes alone; and a time that runs out. */
    OK(outlive_barrier_wait(barrier, SOON, &turn));
    CHECK(turn.index == 0 && turn.leader == 1);
    IS(EINVAL, outlive_barrier_reset(NULL, SOON));
    IS(EINVAL, outlive_barrier_abort(NULL));
    IS(EINVAL, outlive_barrier_state(barrier, NULL));
    IS(EINVAL, outlive_barrier_abort_wait(NULL, NULL));
    IS(OUTLIVE_BROKEN, outlive_barrier_abort_wait(barrier, &turn));
    CHECK(state_of(barrier).broken == 1);
    OK(outlive_barrier_leave(barrier));
    IS(EPERM, outlive_barrier_abort_wait(barrier, NULL));
    outlive_barrier_close(barrier);
}

/* The same inside a struct of one's own. */

struct station {
    outlive_mutex_t lock;
    OUTLIVE_SEMAPHORE_OF(3) slots;
    OUTLIVE_SEMAPHORE_OF(2) parts;
    OUTLIVE_BARRIER_OF(2) step;
    OUTLIVE_BARRIER_OF(2) tour;
    outlive_ceiling_mutex_t valve;
    uint64_t behind;
};

static const outlive_place_t station_places[] = {
    OUTLIVE_PLACE(struct station, lock, OUTLIVE_MUTEX),
    OUTLIVE_SEMAPHORE_PLACE(struct station, slots),
    OUTLIVE_SEMAPHORE_PLACE(struct station, parts),
    OUTLIVE_BARRIER_PLACE(struct station, step),
    OUTLIVE_BARRIER_PLACE(struct station, tour),
    OUTLIVE_CEILING_PLACE(struct station, valve, 40),
};

static void found(void *data, void *nothing) {
    struct station *station = data;
    (void)nothing;
    OK(outlive_semaphore_init(&station->parts.semaphore, 0, 2));
    OK(outlive_barrier_init(&station->tour.barrier, OUTLIVE_DEATH_COUNTS_OUT));
    IS(EINVAL, outlive_semaphore_init(&station->parts.semaphore, 3, 2));
    IS(EINVAL, outlive_semaphore_init(NULL, 1, 1));
    IS(EINVAL, outlive_barrier_init(NULL, OUTLIVE_DEATH_BREAKS));
    IS(EINVAL, outlive_barrier_init(&station->tour.barrier, 3));
    station->behind = 7;
}

static struct station *open_station(void) {
    void *data = NULL;
    OK(outlive_record_open(domain, "station", OUTLIVE_OPEN_OR_CREATE, sizeof(struct station), station_places, 6, found, NULL, &data));
    return data;
}

static void hold_two_slots(void) {
    struct station *station = open_station();
    OK(outlive_semaphore_acquire(&station->slots.semaphore, SOON, NULL));
    OK(outlive_semaphore_acquire(&station->slots.semaphore, SOON, NULL));
    OK(outlive_semaphore_add(&station->parts.semaphore));
    tell();
    for_ever();
}

static void embedded_holder_killed(void) {
    struct station *station = open_station(), *again = open_station();
    outlive_semaphore_t *slots = &station->slots.semaphore, *parts = &station->parts.semaphore;
    CHECK(outlive_semaphore_available_permits(slots) == 3 && outlive_semaphore_available_permits(parts) == 0 && station->behind == 7);
    IS(ETIMEDOUT, outlive_semaphore_acquire(parts, outlive_after_ms(5), NULL));
    doomed = start(hold_two_slots);
    hear();
    /* Permits that the dead process added stay; those that it held come back, also to a sleeper. */
    OK(outlive_semaphore_acquire(slots, SOON, NULL));
    IS(EAGAIN, outlive_semaphore_acquire(slots, OUTLIVE_TRY, NULL));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
    OK(outlive_semaphore_acquire(slots, SOON, NULL));
    CHECK(pthread_join(thread, NULL) == 0);
    OK(outlive_semaphore_acquire(slots, SOON, NULL));
    /* Each opening has its own permits. */
    IS(EPERM, outlive_semaphore_release(&again->slots.semaphore));
    IS(EDEADLK, outlive_semaphore_acquire(&again->slots.semaphore, SOON, NULL));
    OK(outlive_semaphore_release(slots));
    OK(outlive_semaphore_release(slots));
    OK(outlive_semaphore_release(slots));
    CHECK(outlive_semaphore_available_permits(&again->slots.semaphore) == 3 && outlive_semaphore_available_permits(parts) == 1);
    OK(outlive_semaphore_acquire(parts, SOON, NULL));
    OK(outlive_semaphore_consume(parts));
    OK(outlive_semaphore_add(parts));
    OK(outlive_semaphore_add(parts));
    IS(EOVERFLOW, outlive_semaphore_add(parts));
    CHECK(station->behind == 7);
    outlive_record_close(again);
    outlive_record_close(station);
}

static void take_part_in_both(void) {
    struct station *station = open_station();
    OK(outlive_barrier_join(&station->step.barrier));
    OK(outlive_barrier_join(&station->tour.barrier));
    OK(outlive_barrier_wait(&station->step.barrier, SOON, NULL));
    tell();
    for_ever();
}

static void embedded_participant_killed(void) {
    struct station *station = open_station();
    outlive_barrier_t *step = &station->step.barrier, *tour = &station->tour.barrier;
    IS(EPERM, outlive_barrier_wait(step, SOON, NULL));
    OK(outlive_barrier_join(step));
    OK(outlive_barrier_join(tour));
    doomed = start(take_part_in_both);
    OK(outlive_barrier_wait(step, SOON, NULL));
    hear();
    IS(EUSERS, outlive_barrier_join(step));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
    IS(OUTLIVE_BROKEN, outlive_barrier_wait(step, SOON, NULL));
    CHECK(pthread_join(thread, NULL) == 0);
    OK(outlive_barrier_repair(step, SOON));
    /* The other one goes on without the dead. */
    OK(outlive_barrier_wait(tour, SOON, NULL));
    OK(outlive_barrier_leave(tour));
    OK(outlive_barrier_leave(step));
    outlive_record_close(station);
}

static void embedded_wrongly(void) {
    struct station *station = open_station();
    void *data = NULL;
    /* Another idea of the struct. */
    outlive_place_t places[6];
    memcpy(places, station_places, sizeof places);
    for (int at = 1; at < 6; at++) {
        places[at].number++;
        IS(OUTLIVE_OTHER_TYPE, outlive_record_open(domain, "station", OUTLIVE_OPEN_OR_CREATE, sizeof(struct station), places, 6, NULL, NULL, &data));
        places[at].number = 0;
        IS(EINVAL, outlive_record_open(domain, "station", OUTLIVE_OPEN_OR_CREATE, sizeof(struct station), places, 6, NULL, NULL, &data));
        places[at] = station_places[at];
    }
    places[5].number = 100;
    IS(EINVAL, outlive_record_open(domain, "other", OUTLIVE_OPEN_OR_CREATE, sizeof(struct station), places, 6, NULL, NULL, &data));
    places[5].number = 1;
    /* Longer than up to what lies behind it. */
    places[1].number = 17;
    IS(EINVAL, outlive_record_open(domain, "other", OUTLIVE_OPEN_OR_CREATE, sizeof(struct station), places, 6, NULL, NULL, &data));
    /* Somewhere else, or no more. */
    outlive_semaphore_t stray = {{0}};
    IS(EINVAL, outlive_semaphore_acquire(&stray, SOON, NULL));
    IS(EINVAL, outlive_semaphore_release((outlive_semaphore_t *)&station->step));
    IS(EINVAL, outlive_barrier_join((outlive_barrier_t *)&station->slots));
    outlive_record_close(station);
    IS(EINVAL, outlive_semaphore_add(&station->slots.semaphore));
    IS(EINVAL, outlive_barrier_join(&station->step.barrier));
    IS(EINVAL, outlive_ceiling_mutex_lock(&station->valve, SOON));
    CHECK(outlive_semaphore_available_permits(&station->slots.semaphore) == 0);
}

static int may_run_at_40(outlive_ceiling_mutex_t *valve) {
    int code = outlive_ceiling_mutex_lock(valve, SOON);
    if (code == EPERM) return 0;
    OK(code);
    OK(outlive_ceiling_mutex_unlock(valve));
    return 1;
}

static void hold_the_valve(void) {
    struct station *station = open_station();
    outlive_ceiling_mutex_t *named = NULL;
    uint64_t value = 1;
    OK(outlive_ceiling_mutex_open(domain, "valve", OUTLIVE_OPEN_OR_CREATE, 30, sizeof value, &value, &named));
    OK(outlive_ceiling_mutex_lock(&station->valve, SOON));
    OK(outlive_ceiling_mutex_lock(named, SOON));
    *(uint64_t *)outlive_ceiling_mutex_value(named) = 77;
    tell();
    for_ever();
}

static void ceiling_holder_killed(void) {
    struct station *station = open_station();
    outlive_ceiling_mutex_t *named = NULL;
    uint64_t value = 5;
    OK(outlive_ceiling_mutex_open(domain, "valve", OUTLIVE_OPEN_OR_CREATE, 30, sizeof value, &value, &named));
    CHECK(*(uint64_t *)outlive_ceiling_mutex_value(named) == 5 && outlive_ceiling_mutex_value(&station->valve) == NULL);
    outlive_ceiling_mutex_t *other = NULL;
    IS(EINVAL, outlive_ceiling_mutex_open(domain, "valve", OUTLIVE_OPEN_OR_CREATE, 31, sizeof value, &value, &other));
    IS(OUTLIVE_OTHER_TYPE, outlive_ceiling_mutex_open(domain, "valve", OUTLIVE_OPEN_OR_CREATE, 30, 0, NULL, &other));
    if (!may_run_at_40(&station->valve)) return;
    IS(EPERM, outlive_ceiling_mutex_unlock(named));
    pid_t child = start(hold_the_valve);
    hear();
    IS(EBUSY, outlive_ceiling_mutex_lock(&station->valve, OUTLIVE_TRY));
    kill_it(child);
    IS(EOWNERDEAD, outlive_ceiling_mutex_lock(&station->valve, SOON));
    IS(EOWNERDEAD, outlive_ceiling_mutex_lock(named, SOON));
    CHECK(outlive_ceiling_mutex_owner_died(named) && *(uint64_t *)outlive_ceiling_mutex_value(named) == 77);
    OK(outlive_ceiling_mutex_consistent(named));
    CHECK(!outlive_ceiling_mutex_owner_died(named) && outlive_ceiling_mutex_owner_died(&station->valve));
    OK(outlive_ceiling_mutex_unlock(&station->valve));
    OK(outlive_ceiling_mutex_unlock(named));
    IS(EPERM, outlive_ceiling_mutex_mark_not_recoverable(&station->valve));
    IS(EOWNERDEAD, outlive_ceiling_mutex_lock(&station->valve, SOON));
    OK(outlive_ceiling_mutex_mark_not_recoverable(&station->valve));
    IS(ENOTRECOVERABLE, outlive_ceiling_mutex_lock(&station->valve, SOON));
    OK(outlive_ceiling_mutex_reset(&station->valve, SOON));
    OK(outlive_ceiling_mutex_lock(&station->valve, SOON));
    OK(outlive_ceiling_mutex_unlock(&station->valve));
    outlive_ceiling_mutex_close(named);
    outlive_record_close(station);
}

TESTS(TEST(event_and_latch), TEST(event_that_is_cleared_at_once), TEST(once_maker_killed), TEST(semaphore_holder_killed), TEST(several_permits), TEST(barrier_participant_killed), TEST(barrier_aborted_and_reset),
      TEST(embedded_holder_killed), TEST(embedded_participant_killed), TEST(embedded_wrongly), TEST(ceiling_holder_killed))
