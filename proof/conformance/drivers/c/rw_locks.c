/* `rw.` */
#include "driver.h"

MUTEX(rw, rwlock)

static void rw_open(void) {
    outlive_rwlock_t *lock = NULL;
    uint64_t value = number(words[2]);
    TRY(outlive_rwlock_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof value, &value, &lock));
    rw_opened(lock);
}

static void rw_read(void) { got(outlive_rwlock_read(it()->main, until(words[2])), it()->value); }
static void rw_write(void) { got(outlive_rwlock_write(it()->main, until(words[2])), it()->value); }
static void rw_upgradable(void) {
    got(outlive_rwlock_upgradable_read(it()->main, until(words[2])), it()->value);
}

CALL(rw_upgrade, outlive_rwlock_upgrade(it()->main, until(words[2])))
CALL(rw_downgrade, outlive_rwlock_downgrade(it()->main))
CALL(rw_downgrade_to_upgradable, outlive_rwlock_downgrade_to_upgradable(it()->main))

static void rw_reset(void) {
    /* Marked not recoverable, no process holds it: it is made whole first. */
    uint64_t value = number(words[2]);
    memcpy(it()->value, &value, sizeof value);
    TRY(outlive_rwlock_reset(it()->main, until(words[3])));
    OK();
}

const struct verb rw_verbs[] = {
    V(rw, open, 2), V(rw, read, 2), V(rw, write, 2), V(rw, upgradable, 2), V(rw, upgrade, 2),
    V(rw, downgrade, 1), V(rw, downgrade_to_upgradable, 1), V(rw, set, 2), V(rw, consistent, 1),
    V(rw, mark_not_recoverable, 1), V(rw, unlock, 1), V(rw, reset, 3), END,
};
