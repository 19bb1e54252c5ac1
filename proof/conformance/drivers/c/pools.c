/* `pool.` An object's `in` is its pool, `value` where it is, `sent` its size, `out` a share of
 * it. */
#include "driver.h"

static void pool_open(void) {
    outlive_pool_options_t options = OUTLIVE_POOL_OPTIONS_INIT;
    outlive_pool_t *pool = NULL;
    option(2, "max", &options.max_bytes);
    TRY(outlive_pool_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &pool));
    it()->main = pool;
    OK();
}

static void keep(void *data, size_t size) {
    struct thing *object = find(words[2]);
    object->in = it()->main, object->value = data, object->sent = size;
}

static void pool_alloc(void) {
    void *data = NULL;
    make_message(words[3]);
    TRY(outlive_pool_alloc(it()->main, message_size, 0, &data));
    memcpy(data, message, message_size);
    keep(data, message_size);
    OK();
}

static void pool_show(void) {
    outlive_shared_t *shared = it()->out;
    if (shared != NULL) say_shown(outlive_shared_data(shared), outlive_shared_size(shared));
    else say_shown(it()->value, it()->sent);
}

static void offer(const outlive_domain_t *to, uint32_t token) {
    uint64_t offset = 0;
    TRY(outlive_pool_offer(it()->in, it()->value, to, token, &offset));
    it()->value = NULL;
    say_number(offset);
}

static void pool_offer(void) { offer(NULL, 0); }
static void pool_offer_to(void) { offer(domain, small_number(words[2])); }

static void pool_claim(void) {
    void *data = NULL;
    size_t size = 0;
    TRY(outlive_pool_claim(it()->main, number(words[3]), &data, &size));
    keep(data, size);
    say_shown(data, size);
}

static void pool_share(void) {
    outlive_shared_t *shared = NULL;
    TRY(outlive_pool_share(it()->in, it()->value, &shared));
    it()->value = NULL, it()->out = shared;
    say_number(outlive_shared_offset(shared));
}

static void pool_join(void) {
    outlive_shared_t *shared = NULL;
    TRY(outlive_pool_join(it()->main, number(words[3]), &shared));
    find(words[2])->out = shared;
    say_shown(outlive_shared_data(shared), outlive_shared_size(shared));
}

static void pool_free(void) {
    if (it()->out != NULL) outlive_shared_release(it()->out);
    else TRY(outlive_pool_free(it()->in, it()->value));
    it()->out = it()->value = NULL;
    OK();
}

CALL(pool_prefault, outlive_pool_prefault(it()->main, (size_t)number(words[2]), (size_t)number(words[3])))
CALL(pool_gc, outlive_pool_gc(it()->main, NULL, NULL))

static void pool_count(void) {
    outlive_pool_usage_t usage;
    TRY(outlive_pool_usage(it()->main, &usage));
    say_number(words[2][0] == 'u' ? usage.used : words[2][0] == 'o' ? usage.offered : usage.shared);
}

const struct verb pool_verbs[] = {
    V(pool, open, AT_LEAST(1)), V(pool, alloc, 3), V(pool, show, 1), V(pool, offer, 1),
    V(pool, offer_to, 2), V(pool, claim, 3), V(pool, share, 1), V(pool, join, 3), V(pool, free, 1),
    V(pool, gc, 1), V(pool, prefault, 3), V(pool, count, 2), END,
};
