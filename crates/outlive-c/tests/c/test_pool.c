/* Pools: taken, freed, handed over, shared; holders are killed. */
#include "testing.h"

static outlive_pool_t *open_pool(void) {
    outlive_pool_options_t options = OUTLIVE_POOL_OPTIONS_INIT;
    outlive_pool_t *pool = NULL;
    options.max_bytes = 32 << 20;
    OK(outlive_pool_open(domain, "frames", OUTLIVE_OPEN_OR_CREATE, &options, &pool));
    return pool;
}

static void ordinary(void) {
    outlive_pool_t *pool = open_pool();
    for (size_t size = 0; size < 5000000; size = size * 7 + 1) {
        void *data = NULL;
        OK(outlive_pool_alloc(pool, size, 0, &data));
        CHECK(data != NULL);
        memset(data, 7, size);
        OK(outlive_pool_free(pool, data));
        OK(outlive_pool_alloc(pool, size, 4096, &data));
        CHECK((uintptr_t)data % 4096 == 0);
        OK(outlive_pool_free(pool, data));
    }
    OK(outlive_pool_free(pool, NULL));
    outlive_pool_usage_t usage;
    void *data = NULL;
    uint64_t objects = 9, bytes = 9;
    OK(outlive_pool_alloc(pool, 20 << 20, 0, &data));
    OK(outlive_pool_usage(pool, &usage));
    CHECK(usage.used == 1 && usage.holders == 1 && usage.bytes >= 20 << 20 && usage.max_bytes == 32 << 20);
    CHECK(usage.used + usage.cached + usage.free + usage.offered + usage.shared + usage.moving == usage.objects);
    OK(outlive_pool_free(pool, data));
    /* What is as large as that goes back to the system at once. */
    OK(outlive_pool_gc(pool, &objects, &bytes));
    CHECK(objects == 0 && bytes >= 20 << 20);
    OK(outlive_pool_gc(pool, NULL, NULL));
    IS(EINVAL, outlive_pool_usage(pool, NULL));
    IS(EINVAL, outlive_pool_gc(NULL, NULL, NULL));
    outlive_pool_close(pool);
}

/* An offset, by a queue. */
static outlive_queue_t *queue;

static void take_over(void) {
    outlive_pool_t *pool = open_pool();
    outlive_receiver_t *receiver = NULL;
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    tell();
    uint64_t offset = 0;
    size_t size = 0;
    OK(outlive_receiver_recv(receiver, &offset, sizeof offset, &size, SOON));
    void *data = NULL;
    OK(outlive_pool_claim(pool, offset, &data, &size));
    CHECK(size == 100000 && ((char *)data)[99999] == 'x');
    IS(ESTALE, outlive_pool_claim(pool, offset, &data, NULL));
    OK(outlive_pool_free(pool, data));
}

static void handed_over(void) {
    outlive_pool_t *pool = open_pool();
    outlive_sender_t *sender = NULL;
    OK(outlive_queue_open(domain, "offsets", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    OK(outlive_queue_sender(queue, &sender));
    void *data = NULL, *other = NULL;
    uint64_t offset = 0;
    OK(outlive_pool_alloc(pool, 100000, 0, &data));
    memset(data, 'x', 100000);
    pid_t child = start(take_over);
    hear();
    OK(outlive_pool_offer(pool, data, NULL, 0, &offset));
    IS(EPERM, outlive_pool_free(pool, data));
    OK(outlive_sender_send(sender, &offset, sizeof offset, SOON));
    join(child);
    IS(ESTALE, outlive_pool_claim(pool, offset, &other, NULL));
    outlive_sender_close(sender);
    outlive_queue_close(queue);
    outlive_pool_close(pool);
}

/* What a process had when it was killed is memory again: it had all. */
static void take_all(void) {
    outlive_pool_t *pool = open_pool();
    void *data = NULL;
    while (outlive_pool_alloc(pool, 1 << 20, 0, &data) == 0) memset(data, 1, 100);
    tell();
    for_ever();
}

static void holder_killed(void) {
    outlive_pool_t *pool = open_pool();
    pid_t child = start(take_all);
    hear();
    void *data = NULL;
    IS(ENOSPC, outlive_pool_alloc(pool, 1 << 20, 0, &data));
    CHECK(strstr(outlive_last_error(), "test_pool") != NULL);
    kill_it(child);
    OK(outlive_pool_alloc(pool, 1 << 20, 0, &data));
    OK(outlive_pool_free(pool, data));
    outlive_pool_close(pool);
}

static void join_and_hold(void) {
    outlive_pool_t *pool = open_pool();
    outlive_receiver_t *receiver = NULL;
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    uint64_t offset = 0;
    size_t size = 0;
    OK(outlive_receiver_recv(receiver, &offset, sizeof offset, &size, SOON));
    outlive_shared_t *shared = NULL;
    OK(outlive_pool_join(pool, offset, &shared));
    CHECK(outlive_shared_size(shared) == 5 && memcmp(outlive_shared_data(shared), "frame", 5) == 0);
    tell();
    for_ever();
}

static void shared_holder_killed(void) {
    outlive_pool_t *pool = open_pool();
    outlive_sender_t *sender = NULL;
    outlive_shared_t *shared = NULL, *again = NULL;
    OK(outlive_queue_open(domain, "offsets", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    OK(outlive_queue_sender(queue, &sender));
    void *data = NULL;
    OK(outlive_pool_alloc(pool, 5, 0, &data));
    memcpy(data, "frame", 5);
    OK(outlive_pool_share(pool, data, &shared));
    uint64_t offset = outlive_shared_offset(shared);
    OK(outlive_sender_send(sender, &offset, sizeof offset, SOON));
    pid_t child = start(join_and_hold);
    hear();
    kill_it(child);
    CHECK(memcmp(outlive_shared_data(shared), "frame", 5) == 0);
    outlive_shared_release(shared);
    IS(ESTALE, outlive_pool_join(pool, offset, &again));
    outlive_sender_close(sender);
    outlive_queue_close(queue);
    outlive_pool_close(pool);
}

static void bad_arguments(void) {
    outlive_pool_t *pool = NULL;
    outlive_pool_options_t options = OUTLIVE_POOL_OPTIONS_INIT;
    options.modes = "tga";
    IS(EINVAL, outlive_pool_open(domain, "other", OUTLIVE_OPEN_OR_CREATE, &options, &pool));
    options.modes = "tag";
    OK(outlive_pool_open(domain, "other", OUTLIVE_OPEN_OR_CREATE, &options, &pool));
    void *data = NULL, *other = NULL;
    char on_the_stack[64];
    OK(outlive_pool_alloc(pool, 100, 0, &data));
    IS(EINVAL, outlive_pool_free(pool, on_the_stack));
    IS(EINVAL, outlive_pool_free(pool, (char *)data + 64));
    IS(EINVAL, outlive_pool_alloc(pool, 100, 3, &other));
    IS(EINVAL, outlive_pool_alloc(pool, 100, 0, NULL));
    IS(EMSGSIZE, outlive_pool_alloc(pool, SIZE_MAX, 0, &other));
    IS(EINVAL, outlive_pool_offer(pool, data, domain, 5, NULL));
    uint64_t offset = 0;
    IS(EINVAL, outlive_pool_offer(pool, data, domain, 5, &offset));
    IS(EINVAL, outlive_pool_offer(pool, data, NULL, 5, &offset));
    outlive_shared_t *shared = NULL;
    IS(EINVAL, outlive_pool_share(pool, NULL, &shared));
    IS(ESTALE, outlive_pool_join(pool, UINT64_MAX, &shared));
    outlive_pool_t *frames = open_pool();
    IS(EXDEV, outlive_pool_free(frames, data));
    outlive_pool_close(frames);
    /* A debug mode finds a write behind the end. */
    ((char *)data)[100] = 1;
    IS(OUTLIVE_FAULT, outlive_pool_free(pool, data));
    outlive_pool_close(pool);
    outlive_pool_close(NULL);
    IS(EINVAL, outlive_pool_free(NULL, data));
}

TESTS(TEST(ordinary), TEST(handed_over), TEST(holder_killed), TEST(shared_holder_killed), TEST(bad_arguments))
