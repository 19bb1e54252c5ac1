/* Notifiers and listeners: notices that each listener counts. */
#include "testing.h"

#define CAME (1ull << 61)
#define LEFT (1ull << 62)
#define DIED (1ull << 63)

static void counts(void) {
    outlive_notifier_t *notifier = NULL;
    outlive_listener_t *first = NULL, *second = NULL;
    outlive_notices_t notices;
    uint32_t told = 9;
    IS(ENOENT, outlive_listener_open(domain, "doors", OUTLIVE_OPEN, NULL, &first));
    OK(outlive_notifier_open(domain, "doors", OUTLIVE_OPEN_OR_CREATE, NULL, &notifier));
    OK(outlive_notifier_notify(notifier, 3, &told));
    CHECK(told == 0);
    OK(outlive_listener_open(domain, "doors", OUTLIVE_OPEN, NULL, &first));
    OK(outlive_listener_open(domain, "doors", OUTLIVE_OPEN, NULL, &second));
    for (int i = 0; i < 1000; i++) OK(outlive_notifier_notify(notifier, 3, NULL));
    OK(outlive_notifier_notify(notifier, 63, &told));
    CHECK(told == 2);
    IS(EINVAL, outlive_notifier_notify(notifier, 64, NULL));
    OK(outlive_listener_wait(first, OUTLIVE_NEVER, &notices));
    CHECK(notices.bits == (DIED | 1ull << 3) && notices.counts[3] == 1000 && notices.counts[63] == 1);
    IS(EAGAIN, outlive_listener_wait(first, OUTLIVE_TRY, &notices));
    IS(ETIMEDOUT, outlive_listener_wait(first, outlive_after_ms(2), &notices));
    OK(outlive_listener_wait(second, OUTLIVE_TRY, &notices));
    CHECK(notices.counts[3] == 1000);
    outlive_listener_close(second);
    OK(outlive_notifier_notify(notifier, 0, &told));
    CHECK(told == 1);
    outlive_listener_close(first);
    outlive_listener_close(NULL);
    outlive_notifier_close(notifier);
    outlive_notifier_close(NULL);
}

static void options(void) {
    outlive_notifier_options_t options = OUTLIVE_NOTIFIER_OPTIONS_INIT;
    outlive_notifier_t *notifier = NULL;
    options.on_died = 3;
    IS(EINVAL, outlive_notifier_open(domain, "doors", OUTLIVE_CREATE_NEW, &options, &notifier));
    options.on_died = DIED;
    OK(outlive_notifier_open(domain, "doors", OUTLIVE_CREATE_NEW, &options, &notifier));
    outlive_notifier_close(notifier);
    options.on_died = LEFT;
    IS(EINVAL, outlive_notifier_open(domain, "doors", OUTLIVE_OPEN, &options, &notifier));
    CHECK(notifier == NULL);
    IS(EEXIST, outlive_notifier_open(domain, "doors", OUTLIVE_CREATE_NEW, NULL, &notifier));
}

static void notify_and_wait(void) {
    outlive_notifier_t *notifier = NULL;
    OK(outlive_notifier_open(domain, "doors", OUTLIVE_OPEN, NULL, &notifier));
    OK(outlive_notifier_notify(notifier, 5, NULL));
    tell();
    for_ever();
}

static void killed(void) {
    outlive_notifier_options_t options = OUTLIVE_NOTIFIER_OPTIONS_INIT;
    outlive_listener_t *listener = NULL;
    outlive_wait_set_t *set = NULL;
    outlive_notices_t notices;
    outlive_ready_t ready;
    uint64_t key = 0;
    size_t count = 0;
    options.on_created = CAME;
    options.on_left = LEFT;
    options.on_died = DIED;
    OK(outlive_listener_open(domain, "doors", OUTLIVE_OPEN_OR_CREATE, &options, &listener));
    OK(outlive_wait_set_open(domain, &set));
    OK(outlive_wait_set_add_listener(set, listener, &key));
    pid_t child = start(notify_and_wait);
    hear();
    OK(outlive_wait_set_wait(set, &ready, 1, &count, SOON));
    CHECK(count == 1 && ready.key == key && ready.what == OUTLIVE_READABLE);
    OK(outlive_listener_wait(listener, OUTLIVE_TRY, &notices));
    CHECK(notices.bits == (CAME | 1ull << 5));
    kill_it(child);
    OK(outlive_wait_set_wait(set, &ready, 1, &count, SOON));
    OK(outlive_listener_wait(listener, SOON, &notices));
    CHECK(notices.bits == DIED && notices.counts[63] == 1);
    outlive_wait_set_close(set);
    outlive_listener_close(listener);
}

TESTS(TEST(counts), TEST(options), TEST(killed))
