/* Mutexes that their holder locks again, and condition variables under mutexes of all kinds. */
#include "testing.h"

struct tree {
    outlive_reentrant_mutex_t lock;
    outlive_pi_mutex_t pi;
    outlive_ceiling_mutex_t ceiling;
    outlive_condvar_t changed;
    uint64_t count;
};

static struct tree *open_tree(void) {
    const outlive_place_t places[] = {
        OUTLIVE_PLACE(struct tree, lock, OUTLIVE_REENTRANT_MUTEX),
        OUTLIVE_PLACE(struct tree, pi, OUTLIVE_PI_MUTEX),
        OUTLIVE_CEILING_PLACE(struct tree, ceiling, 10),
        OUTLIVE_PLACE(struct tree, changed, OUTLIVE_CONDVAR),
    };
    void *data = NULL;
    OK(outlive_record_open(domain, "tree", OUTLIVE_OPEN_OR_CREATE, sizeof(struct tree), places, 4, NULL, NULL, &data));
    return data;
}

static void lock_thrice(struct tree *tree) {
    for (int n = 0; n < 3; n++) OK(outlive_reentrant_mutex_lock(&tree->lock, SOON));
}

static void unlock_thrice(struct tree *tree) {
    for (int n = 0; n < 3; n++) OK(outlive_reentrant_mutex_unlock(&tree->lock));
}

static void hold_tree(void) {
    lock_thrice(open_tree());
    tell();
    for_ever();
}

static void *try_tree(void *tree) {
    IS(EBUSY, outlive_reentrant_mutex_lock(&((struct tree *)tree)->lock, OUTLIVE_TRY));
    IS(EPERM, outlive_reentrant_mutex_unlock(&((struct tree *)tree)->lock));
    return NULL;
}

static void reentrant(void) {
    struct tree *tree = open_tree();
    lock_thrice(tree);
    IS(EDEADLK, outlive_reentrant_mutex_reset(&tree->lock, SOON));
    OK(outlive_reentrant_mutex_set_wait(&tree->lock, OUTLIVE_WAIT_BLOCK));
    IS(EINVAL, outlive_reentrant_mutex_set_wait(&tree->lock, 9));
    for (int n = 0; n < 3; n++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, try_tree, tree) == 0 && pthread_join(thread, NULL) == 0);
        OK(outlive_reentrant_mutex_unlock(&tree->lock));
    }
    IS(EPERM, outlive_reentrant_mutex_unlock(&tree->lock));

    /* Killed at depth 3: told once, at depth 1. */
    pid_t child = start(hold_tree);
    hear();
    IS(ETIMEDOUT, outlive_reentrant_mutex_lock(&tree->lock, outlive_after_ms(5)));
    outlive_peer_info_t info;
    OK(outlive_reentrant_mutex_holder(&tree->lock, &info));
    CHECK(info.pid == (uint32_t)child);
    kill_it(child);
    IS(EOWNERDEAD, outlive_reentrant_mutex_lock(&tree->lock, SOON));
    OK(outlive_reentrant_mutex_lock(&tree->lock, SOON));
    CHECK(outlive_reentrant_mutex_owner_died(&tree->lock));
    OK(outlive_reentrant_mutex_unlock(&tree->lock));
    OK(outlive_reentrant_mutex_unlock(&tree->lock));
    IS(EPERM, outlive_reentrant_mutex_consistent(&tree->lock));
    IS(EOWNERDEAD, outlive_reentrant_mutex_lock(&tree->lock, SOON));
    OK(outlive_reentrant_mutex_consistent(&tree->lock));

    /* Not recoverable: the thread keeps what it has. */
    OK(outlive_reentrant_mutex_lock(&tree->lock, SOON));
    OK(outlive_reentrant_mutex_mark_not_recoverable(&tree->lock));
    IS(ENOTRECOVERABLE, outlive_reentrant_mutex_lock(&tree->lock, SOON));
    /* What it decided inside, it does not undo outside. */
    OK(outlive_reentrant_mutex_consistent(&tree->lock));
    IS(ENOTRECOVERABLE, outlive_reentrant_mutex_lock(&tree->lock, SOON));
    OK(outlive_reentrant_mutex_unlock(&tree->lock));
    IS(ENOTRECOVERABLE, outlive_reentrant_mutex_lock(&tree->lock, SOON));
    OK(outlive_reentrant_mutex_reset(&tree->lock, SOON));
    lock_thrice(tree);
    unlock_thrice(tree);
    outlive_record_close(tree);

    outlive_reentrant_mutex_t *named = NULL;
    uint64_t initial = 5;
    OK(outlive_reentrant_mutex_open(domain, "named", OUTLIVE_OPEN_OR_CREATE, sizeof initial, &initial, &named));
    CHECK(*(uint64_t *)outlive_reentrant_mutex_value(named) == 5);
    OK(outlive_reentrant_mutex_lock(named, SOON));
    OK(outlive_reentrant_mutex_lock(named, OUTLIVE_TRY));
    OK(outlive_reentrant_mutex_unlock(named));
    OK(outlive_reentrant_mutex_unlock(named));
    outlive_reentrant_mutex_close(named);
    IS(EINVAL, outlive_reentrant_mutex_lock(named, SOON));
}

/* A wait gives up all that the thread has locked, and restores it. */
static void wait_under_reentrant(void) {
    struct tree *tree = open_tree();
    lock_thrice(tree);
    tell();
    while (tree->count == 0) OK(outlive_condvar_wait_reentrant_mutex(&tree->changed, &tree->lock, SOON));
    tree->count++;
    unlock_thrice(tree);
    IS(EPERM, outlive_reentrant_mutex_unlock(&tree->lock));
    IS(EPERM, outlive_condvar_wait_reentrant_mutex(&tree->changed, &tree->lock, SOON));
}

static void condvar_under_reentrant(void) {
    struct tree *tree = open_tree();
    pid_t child = start(wait_under_reentrant);
    hear();
    lock_thrice(tree);
    IS(ETIMEDOUT, outlive_condvar_wait_reentrant_mutex(&tree->changed, &tree->lock, outlive_after_ms(5)));
    tree->count = 1;
    OK(outlive_condvar_notify_one(&tree->changed));
    unlock_thrice(tree);
    join(child);
    CHECK(tree->count == 2);
    outlive_record_close(tree);
}

static outlive_reentrant_mutex_t *open_named(const char *name) {
    outlive_reentrant_mutex_t *mutex = NULL;
    OK(outlive_reentrant_mutex_open(domain, name, OUTLIVE_OPEN_OR_CREATE, 0, NULL, &mutex));
    return mutex;
}

static outlive_condvar_t *open_gone(void) {
    outlive_condvar_t *gone = NULL;
    OK(outlive_condvar_open(domain, "gone", OUTLIVE_OPEN_OR_CREATE, &gone));
    return gone;
}

static void give_up_lost(void) {
    outlive_reentrant_mutex_t *lost = open_named("lost");
    OK(outlive_reentrant_mutex_lock(lost, SOON));
    OK(outlive_reentrant_mutex_mark_not_recoverable(lost));
    OK(outlive_condvar_notify_all(open_gone()));
}

static void try_lost(void) {
    IS(EBUSY, outlive_reentrant_mutex_lock(open_named("lost"), OUTLIVE_TRY));
}

/* A wait that loses the mutex leaves the thread no lock of it, by no opening. */
static void condvar_that_loses_its_reentrant(void) {
    outlive_reentrant_mutex_t *one = open_named("lost"), *two = open_named("lost"), *other = open_named("other");
    OK(outlive_reentrant_mutex_lock(one, SOON));
    OK(outlive_reentrant_mutex_lock(two, SOON));
    OK(outlive_reentrant_mutex_lock(two, SOON));
    OK(outlive_reentrant_mutex_lock(other, SOON));
    /* It gets the mutex when this thread waits. */
    pid_t child = start(give_up_lost);
    IS(ENOTRECOVERABLE, outlive_condvar_wait_reentrant_mutex(open_gone(), two, SOON));
    join(child);
    IS(EPERM, outlive_reentrant_mutex_unlock(two));
    OK(outlive_reentrant_mutex_reset(two, SOON));
    OK(outlive_reentrant_mutex_lock(two, SOON));
    IS(EPERM, outlive_reentrant_mutex_unlock(one));
    join(start(try_lost));
    OK(outlive_reentrant_mutex_unlock(two));
    OK(outlive_reentrant_mutex_lock(one, OUTLIVE_TRY));
    OK(outlive_reentrant_mutex_unlock(one));
    /* Of another mutex it keeps what it had. */
    OK(outlive_reentrant_mutex_unlock(other));
}

static void wait_under_pi(void) {
    struct tree *tree = open_tree();
    OK(outlive_pi_mutex_lock(&tree->pi, SOON));
    tell();
    while (tree->count == 0) OK(outlive_condvar_wait_pi_mutex(&tree->changed, &tree->pi, SOON));
    tree->count++;
    OK(outlive_pi_mutex_unlock(&tree->pi));
    IS(EPERM, outlive_condvar_wait_pi_mutex(&tree->changed, &tree->pi, SOON));
}

static void condvar_under_pi(void) {
    struct tree *tree = open_tree();
    pid_t child = start(wait_under_pi);
    hear();
    OK(outlive_pi_mutex_lock(&tree->pi, SOON));
    IS(ETIMEDOUT, outlive_condvar_wait_pi_mutex(&tree->changed, &tree->pi, outlive_after_ms(5)));
    tree->count = 1;
    OK(outlive_condvar_notify_one(&tree->changed));
    OK(outlive_pi_mutex_unlock(&tree->pi));
    join(child);
    CHECK(tree->count == 2);
    outlive_record_close(tree);
}

static void wait_under_ceiling(void) {
    struct tree *tree = open_tree();
    OK(outlive_ceiling_mutex_lock(&tree->ceiling, SOON));
    tell();
    while (tree->count == 0) OK(outlive_condvar_wait_ceiling_mutex(&tree->changed, &tree->ceiling, SOON));
    tree->count++;
    OK(outlive_ceiling_mutex_unlock(&tree->ceiling));
}

static void condvar_under_ceiling(void) {
    struct tree *tree = open_tree();
    int code = outlive_ceiling_mutex_lock(&tree->ceiling, SOON);
    if (code == EPERM) {
        fprintf(stderr, "not here: this user may not run at a real-time priority\n");
        return;
    }
    OK(code);
    pid_t child = start(wait_under_ceiling);
    IS(ETIMEDOUT, outlive_condvar_wait_ceiling_mutex(&tree->changed, &tree->ceiling, outlive_after_ms(5)));
    OK(outlive_ceiling_mutex_unlock(&tree->ceiling));
    hear();
    OK(outlive_ceiling_mutex_lock(&tree->ceiling, SOON));
    tree->count = 1;
    OK(outlive_condvar_notify_all(&tree->changed));
    OK(outlive_ceiling_mutex_unlock(&tree->ceiling));
    join(child);
    CHECK(tree->count == 2);
    outlive_record_close(tree);
}

TESTS(TEST(reentrant), TEST(condvar_under_reentrant), TEST(condvar_that_loses_its_reentrant), TEST(condvar_under_pi), TEST(condvar_under_ceiling))
