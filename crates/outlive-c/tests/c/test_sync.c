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
    OK(outlive_record_open(domain, "arm", sizeof(struct arm), places, 3, begin, NULL, &data));
    return data;
}

static void set_bits(void) {
    struct arm *arm = open_arm();
    OK(outlive_event_set(&arm->moved, 4, NULL));
    OK(outlive_latch_arrive(&arm->ready, 1, NULL));
    tell();
    for_ever();
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
    OK(outlive_event_open(domain, "event", OUTLIVE_RESET_MANUAL, &event));
    IS(OUTLIVE_OTHER_TYPE, outlive_event_open(domain, "event", OUTLIVE_RESET_AUTOMATIC, &event));
    OK(outlive_event_open(domain, "event", OUTLIVE_RESET_MANUAL, &event));
    OK(outlive_event_set(event, 3, &seen));
    CHECK(seen == 0 && outlive_event_bits(event) == 3);
    OK(outlive_event_wait_all(event, 3, SOON, NULL));
    OK(outlive_event_clear(event, 1, &seen));
    CHECK(seen == 3 && outlive_event_bits(event) == 2);
    OK(outlive_latch_open(domain, "latch", 1, &latch));
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
    OK(outlive_once_open(domain, "once", &named));
    OK(outlive_once_do(named, calibrate, &mine, OUTLIVE_TRY));
    CHECK(mine.offset == 1);
    outlive_once_close(named);
}

static outlive_semaphore_t *open_semaphore(void) {
    outlive_semaphore_t *semaphore = NULL;
    OK(outlive_semaphore_open(domain, "encoders", 2, 3, &semaphore));
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
    CHECK(index < 3 && outlive_semaphore_free(semaphore) == 1);
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
    /* All that there are; but somebody might add one. */
    IS(EAGAIN, outlive_semaphore_acquire(semaphore, OUTLIVE_TRY, NULL));
    OK(outlive_semaphore_add(semaphore));
    IS(EOVERFLOW, outlive_semaphore_add(semaphore));
    OK(outlive_semaphore_acquire(semaphore, SOON, NULL));
    OK(outlive_semaphore_consume(semaphore));
    OK(outlive_semaphore_release(semaphore));
    OK(outlive_semaphore_release(semaphore));
    IS(EPERM, outlive_semaphore_release(semaphore));
    IS(EPERM, outlive_semaphore_consume(semaphore));
    CHECK(outlive_semaphore_free(semaphore) == 2);
    /* Handed to this very thread: nobody has it in between, and only who is named takes it up. */
    uint32_t token = 0, taken = 9;
    OK(outlive_domain_token(domain, &token));
    IS(EAGAIN, outlive_semaphore_take_up(semaphore, OUTLIVE_TRY, NULL));
    IS(EPERM, outlive_semaphore_hand_to(semaphore, token));
    OK(outlive_semaphore_acquire(semaphore, SOON, &index));
    IS(EINVAL, outlive_semaphore_hand_to(semaphore, 0));
    OK(outlive_semaphore_hand_to(semaphore, token));
    CHECK(outlive_semaphore_free(semaphore) == 1);
    OK(outlive_semaphore_take_up(semaphore, SOON, &taken));
    CHECK(taken == index);
    OK(outlive_semaphore_release(semaphore));
    CHECK(outlive_semaphore_free(semaphore) == 2);
    outlive_semaphore_close(semaphore);
    IS(EINVAL, outlive_semaphore_open(domain, "none", 0, 0, &semaphore));
    IS(EINVAL, outlive_semaphore_acquire(NULL, SOON, NULL));
}

static outlive_barrier_t *open_barrier(void) {
    outlive_barrier_t *barrier = NULL;
    OK(outlive_barrier_open(domain, "phase", 2, 0, &barrier));
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
    IS(EINVAL, outlive_barrier_open(domain, "none", 0, 0, &barrier));
    IS(EINVAL, outlive_barrier_join(NULL));
}

TESTS(TEST(event_and_latch), TEST(once_maker_killed), TEST(semaphore_holder_killed), TEST(barrier_participant_killed))
