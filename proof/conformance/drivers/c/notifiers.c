/* `notifier.` and `listener.` A name's `out` is the notifier, its `in` the listener. */
#include "driver.h"

/* `created=1`, `left=2`, `died=3`. */
static outlive_notifier_options_t given(void) {
    outlive_notifier_options_t options = OUTLIVE_NOTIFIER_OPTIONS_INIT;
    uint64_t id = 0;
    if (option(2, "created", &id)) options.on_created = 1ull << id;
    if (option(2, "left", &id)) options.on_left = 1ull << id;
    if (option(2, "died", &id)) options.on_died = 1ull << id;
    return options;
}

static void notifier_open(void) {
    outlive_notifier_options_t options = given();
    outlive_notifier_t *notifier = NULL;
    TRY(outlive_notifier_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &notifier));
    it()->out = notifier;
    OK();
}

static void notifier_notify(void) {
    uint32_t listeners = 0;
    TRY(outlive_notifier_notify(it()->out, small_number(words[2]), &listeners));
    say_number(listeners);
}

static void notifier_close(void) {
    outlive_notifier_close(it()->out);
    it()->out = NULL;
    OK();
}

static void listener_open(void) {
    outlive_notifier_options_t options = given();
    outlive_listener_t *listener = NULL;
    TRY(outlive_listener_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &listener));
    it()->in = listener;
    OK();
}

static void listener_wait(void) {
    outlive_notices_t notices;
    TRY(outlive_listener_wait(it()->in, until(words[2]), &notices));
    printf("ok");
    for (unsigned id = 0; id < OUTLIVE_NOTICES; id++)
        if (notices.counts[id] > 0) printf(" %u:%llu", id, (unsigned long long)notices.counts[id]);
    printf("\n");
}

static void listener_close(void) {
    outlive_listener_close(it()->in);
    it()->in = NULL;
    OK();
}

const struct verb notifier_verbs[] = {
    V(notifier, open, AT_LEAST(1)), V(notifier, notify, 2), V(notifier, close, 1),
    V(listener, open, AT_LEAST(1)), V(listener, wait, 2), V(listener, close, 1), END,
};
