/* Reader-writer locks: by name, and inside a record. */
#include "testing.h"

struct limits {
    double low, high;
};

static outlive_rwlock_t *open_limits(void) {
    struct limits initial = {0, 1};
    outlive_rwlock_t *lock = NULL;
    OK(outlive_rwlock_open(domain, "limits", OUTLIVE_OPEN_OR_CREATE, sizeof initial, &initial, &lock));
    return lock;
}

static void ordinary(void) {
    outlive_rwlock_t *lock = open_limits();
    struct limits *limits = outlive_rwlock_value(lock);
    CHECK(limits->high == 1);
    OK(outlive_rwlock_read(lock, SOON));
    OK(outlive_rwlock_read(lock, OUTLIVE_TRY));
    outlive_peer_info_t holders[4];
    size_t count = 0;
    OK(outlive_rwlock_holders(lock, holders, 4, &count));
    CHECK(count == 2 && holders[1].pid == (uint32_t)getpid());
    IS(EDEADLK, outlive_rwlock_upgrade(lock, SOON));
    IS(EDEADLK, outlive_rwlock_write(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    OK(outlive_rwlock_upgrade(lock, OUTLIVE_TRY));
    IS(EPERM, outlive_rwlock_upgrade(lock, SOON));
    limits->high = 2;
    IS(EDEADLK, outlive_rwlock_read(lock, SOON));
    OK(outlive_rwlock_downgrade(lock));
    IS(EPERM, outlive_rwlock_downgrade(lock));
    IS(EPERM, outlive_rwlock_consistent(lock));
    OK(outlive_rwlock_unlock(lock));
    IS(EPERM, outlive_rwlock_unlock(lock));
    OK(outlive_rwlock_write(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    outlive_rwlock_close(lock);
    IS(EINVAL, outlive_rwlock_read(lock, SOON));
}

static void upgradable(void) {
    outlive_rwlock_t *lock = open_limits();
    OK(outlive_rwlock_upgradable_read(lock, SOON));
    IS(EDEADLK, outlive_rwlock_upgradable_read(lock, SOON));
    OK(outlive_rwlock_read(lock, SOON));
    IS(EPERM, outlive_rwlock_downgrade(lock));
    IS(EPERM, outlive_rwlock_downgrade_to_upgradable(lock));
    OK(outlive_rwlock_unlock(lock));
    OK(outlive_rwlock_upgrade(lock, OUTLIVE_TRY));
    OK(outlive_rwlock_downgrade_to_upgradable(lock));
    IS(EPERM, outlive_rwlock_downgrade_to_upgradable(lock));
    IS(EPERM, outlive_rwlock_consistent(lock));
    OK(outlive_rwlock_upgrade(lock, SOON));
    OK(outlive_rwlock_downgrade_to_upgradable(lock));
    OK(outlive_rwlock_downgrade(lock));
    outlive_peer_info_t holder;
    size_t count = 0;
    OK(outlive_rwlock_holders(lock, &holder, 1, &count));
    CHECK(count == 1);
    OK(outlive_rwlock_unlock(lock));
    OK(outlive_rwlock_write(lock, OUTLIVE_TRY));
    OK(outlive_rwlock_unlock(lock));
    outlive_rwlock_close(lock);
    IS(EINVAL, outlive_rwlock_upgradable_read(lock, SOON));
}

static void upgradable_and_hold(void) {
    outlive_rwlock_t *lock = open_limits();
    OK(outlive_rwlock_upgradable_read(lock, SOON));
    tell();
    for_ever();
}

static void upgradable_killed(void) {
    outlive_rwlock_t *lock = open_limits();
    pid_t child = start(upgradable_and_hold);
    hear();
    IS(EBUSY, outlive_rwlock_upgradable_read(lock, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_rwlock_write(lock, outlive_after_ms(10)));
    OK(outlive_rwlock_read(lock, SOON));
    IS(EBUSY, outlive_rwlock_upgrade(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    kill_it(child);
    OK(outlive_rwlock_upgradable_read(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    outlive_rwlock_close(lock);
}

static void write_and_hold(void) {
    outlive_rwlock_t *lock = open_limits();
    OK(outlive_rwlock_write(lock, SOON));
    tell();
    for_ever();
}

static void read_and_hold(void) {
    outlive_rwlock_t *lock = open_limits();
    OK(outlive_rwlock_read(lock, SOON));
    tell();
    for_ever();
}

static void writer_killed(void) {
    outlive_rwlock_t *lock = open_limits();
    pid_t child = start(write_and_hold);
    hear();
    IS(EBUSY, outlive_rwlock_read(lock, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_rwlock_read(lock, outlive_after_ms(10)));
    kill_it(child);
    /* A reader is told, and has it alone. */
    CHECK(!outlive_rwlock_owner_died(lock));
    IS(EOWNERDEAD, outlive_rwlock_read(lock, SOON));
    CHECK(outlive_rwlock_owner_died(lock));
    IS(EPERM, outlive_rwlock_downgrade(lock));
    OK(outlive_rwlock_consistent(lock));
    OK(outlive_rwlock_downgrade(lock));
    OK(outlive_rwlock_unlock(lock));
    OK(outlive_rwlock_write(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    outlive_rwlock_close(lock);
}

static void reader_killed(void) {
    outlive_rwlock_t *lock = open_limits();
    pid_t child = start(read_and_hold);
    hear();
    OK(outlive_rwlock_read(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    IS(EBUSY, outlive_rwlock_write(lock, OUTLIVE_TRY));
    kill_it(child);
    OK(outlive_rwlock_write(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    outlive_rwlock_close(lock);
}

static void not_recoverable_and_reset(void) {
    outlive_rwlock_t *lock = open_limits();
    pid_t child = start(write_and_hold);
    hear();
    kill_it(child);
    IS(EOWNERDEAD, outlive_rwlock_write(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    IS(EOWNERDEAD, outlive_rwlock_read(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    IS(EOWNERDEAD, outlive_rwlock_read(lock, SOON));
    OK(outlive_rwlock_mark_not_recoverable(lock));
    IS(ENOTRECOVERABLE, outlive_rwlock_read(lock, SOON));
    OK(outlive_rwlock_reset(lock, SOON));
    OK(outlive_rwlock_read(lock, SOON));
    IS(EPERM, outlive_rwlock_mark_not_recoverable(lock));
    OK(outlive_rwlock_unlock(lock));
    IS(EPERM, outlive_rwlock_mark_not_recoverable(lock));
    outlive_rwlock_close(lock);
}

struct table {
    uint64_t rows;
    outlive_rwlock_t lock;
};

static void *read_in_thread(void *lock) {
    IS(EPERM, outlive_rwlock_unlock(lock));
    OK(outlive_rwlock_read(lock, SOON));
    OK(outlive_rwlock_unlock(lock));
    return NULL;
}

static void in_record(void) {
    const outlive_place_t place = OUTLIVE_PLACE(struct table, lock, OUTLIVE_RWLOCK);
    void *data = NULL;
    OK(outlive_record_open(domain, "table", OUTLIVE_OPEN_OR_CREATE, sizeof(struct table), &place, 1, NULL, NULL, &data));
    struct table *table = data;
    OK(outlive_rwlock_read(&table->lock, SOON));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, read_in_thread, &table->lock) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(outlive_rwlock_unlock(&table->lock));
    outlive_record_close(table);
    IS(EINVAL, outlive_rwlock_unlock(&table->lock));
    IS(EINVAL, outlive_rwlock_write(NULL, SOON));
}

TESTS(TEST(ordinary), TEST(upgradable), TEST(upgradable_killed), TEST(writer_killed), TEST(reader_killed), TEST(not_recoverable_and_reset),
      TEST(in_record))
