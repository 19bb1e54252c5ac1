/* `lock.` */
#include "driver.h"

MUTEX(lock, mutex)

static void lock_open(void) {
    outlive_mutex_t *mutex = NULL;
    uint64_t value = number(words[2]);
    TRY(outlive_mutex_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof value, &value, &mutex));
    lock_opened(mutex);
}

static void lock_lock(void) {
    outlive_mutex_t *mutex = it()->main;
    int is_try = strcmp(words[2], "try") == 0;
    got(is_try ? outlive_mutex_trylock(mutex) : outlive_mutex_lock_until(mutex, until(words[2])),
        it()->value);
}

static void lock_reset(void) {
    outlive_mutex_t *mutex = it()->main;
    uint64_t value = number(words[2]);
    TRY(outlive_mutex_lock_to_reset(mutex, until(words[3])));
    memcpy(it()->value, &value, sizeof value);
    TRY(outlive_mutex_consistent(mutex));
    TRY(outlive_mutex_unlock(mutex));
    OK();
}

static void lock_holder(void) {
    outlive_peer_info_t info;
    int code = outlive_mutex_holder(it()->main, &info);
    say_holder(code, &info);
}

static void lock_within(void) {
    outlive_mutex_t *mutex = it()->main;
    char last[80];
    snprintf(last, sizeof last, "lock.leave %s", words[1]);
    if (!got(outlive_mutex_lock(mutex), it()->value)) return;
    fflush(stdout);
    serve(last);
    TRY(outlive_mutex_unlock(mutex));
    OK();
}

static void lock_churn(void) {
    outlive_mutex_t *mutex = it()->main;
    for (uint64_t end = now_ms() + number(words[2]); now_ms() < end;) {
        TRY(outlive_mutex_lock(mutex));
        ++*(uint64_t *)outlive_mutex_value(mutex);
        TRY(outlive_mutex_unlock(mutex));
    }
    OK();
}

static void lock_awaits(void) {
    outlive_mutex_t *mutex = it()->main;
    outlive_deadline_t deadline = until(words[3]);
    for (uint64_t wanted = number(words[2]), value = 0; value < wanted;) {
        TRY(outlive_mutex_lock_until(mutex, deadline));
        value = *(uint64_t *)outlive_mutex_value(mutex);
        TRY(outlive_mutex_unlock(mutex));
    }
    OK();
}

const struct verb lock_verbs[] = {
    MUTEX_VERBS(lock), V(lock, within, 1), V(lock, churn, 2), V(lock, awaits, 3), END,
};
