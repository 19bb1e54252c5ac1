/* `set.`, waiting for several. */
#include "driver.h"

/* Which name a key was given. */
static struct { uint64_t key; char name[64]; } keys[32];
static size_t key_count;

static void note(uint64_t key) {
    keys[key_count].key = key;
    snprintf(keys[key_count++].name, sizeof keys->name, "%s", words[2]);
    OK();
}

static void set_open(void) {
    outlive_wait_set_t *set = NULL;
    TRY(outlive_wait_set_open(domain, &set));
    it()->main = set;
    OK();
}

/* `set.add_KIND`, by that call. */
#define ADD(kind, call)               \
    static void set_add_##kind(void) { \
        uint64_t key = 0;             \
        TRY(call);                    \
        note(key);                    \
    }

ADD(topic, outlive_wait_set_add_subscriber(it()->main, find(words[2])->out, &key))
ADD(listener, outlive_wait_set_add_listener(it()->main, find(words[2])->in, &key))
ADD(event, outlive_wait_set_add_event(it()->main, find(words[2])->main, small_number(words[3]), 0,
    &key))
ADD(peer, outlive_wait_set_add_peer(it()->main, domain, small_number(words[3]), &key))

ADD(stand_by, outlive_wait_set_add_service_stand_by(it()->main, domain, words[2], OUTLIVE_OPEN, NULL,
    &key))
ADD(publisher, outlive_wait_set_add_publisher(it()->main, find(words[2])->in, &key))

static void set_slowest(void) {
    outlive_laggard_t slowest;
    size_t known = 0;
    while (known + 1 < key_count && strcmp(keys[known].name, words[2]) != 0) known++;
    int code = outlive_wait_set_slowest(it()->main, keys[known].key, &slowest);
    if (code == ESRCH) puts("ok none");
    else if (code != 0) fail(code);
    else printf("ok %u %llu\n", slowest.who.pid, (unsigned long long)slowest.lag);
}

static void set_add_queue(void) {
    uint64_t key = 0;
    TRY(receiver(find(words[2])));
    TRY(outlive_wait_set_add_receiver(it()->main, find(words[2])->out, &key));
    note(key);
}

static void set_wait(void) {
    outlive_ready_t ready[32];
    const char *names[32];
    size_t count = 0;
    TRY(outlive_wait_set_wait(it()->main, ready, 32, &count, until(words[2])));
    for (size_t at = 0; at < count; at++) {
        size_t known = 0, to = at;
        while (known < key_count && keys[known].key != ready[at].key) known++;
        const char *name = known < key_count ? keys[known].name : "unknown";
        for (; to > 0 && strcmp(names[to - 1], name) > 0; to--) names[to] = names[to - 1];
        names[to] = name;
    }
    printf("ok");
    for (size_t at = 0; at < count; at++) printf(" %s", names[at]);
    printf("\n");
}

const struct verb wait_verbs[] = {
    V(set, open, 1), V(set, add_queue, 2), V(set, add_topic, 2), V(set, add_event, 3),
    V(set, add_listener, 2), V(set, add_peer, 3), V(set, add_stand_by, 2), V(set, wait, 2), V(set, add_publisher, 2),
    V(set, slowest, 2), END,
};
