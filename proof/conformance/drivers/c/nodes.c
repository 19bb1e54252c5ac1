/* `node.`, `watch.` and `config.` */
#include "driver.h"

static outlive_node_t *node;
static outlive_domain_watch_t *watch;
static outlive_config_t *config;

static void node_open(void) {
    outlive_attribute_t pair = {words[3], words[4]};
    outlive_node_t *opened = NULL;
    TRY(outlive_node_open(domain, words[1], words[2], &pair, 1, &opened));
    node = opened;
    OK();
}

static void node_close(void) {
    outlive_node_close(node);
    node = NULL;
    OK();
}

/* Words to be said sorted. */
static char said[32][600];
static size_t said_count;

static int compare(const void *one, const void *other) { return strcmp(one, other); }

static void say_all(void) {
    qsort(said, said_count, sizeof *said, compare);
    printf("ok");
    for (size_t at = 0; at < said_count; at++) printf(" %s", said[at]);
    puts(said_count == 0 ? " nothing" : "");
    said_count = 0;
}

static void node_list(void) {
    uint32_t tokens[32];
    size_t count = 0;
    TRY(outlive_domain_nodes(domain, tokens, 32, &count));
    for (size_t at = 0; at < count && at < 32; at++) {
        char name[256], version[256];
        TRY(outlive_node_name(domain, tokens[at], name, sizeof name, version, sizeof version));
        snprintf(said[said_count++], sizeof *said, "%s/%s", name, version);
    }
    say_all();
}

/* An attribute, or that there is none. */
static void say_attribute(int code, const char *value) {
    if (code == ENOENT && strstr(outlive_last_error(), "no attribute") != NULL) puts("ok none");
    else if (code != 0) fail(code);
    else printf("ok %s\n", value);
}

static void node_attribute(void) {
    char value[256];
    say_attribute(outlive_node_attribute(domain, small_number(words[1]), words[2], value, sizeof value), value);
}

static void node_make(void) {
    outlive_attribute_t pair = {words[2], words[3]};
    outlive_domain_t *with = NULL;
    outlive_event_t *event = NULL;
    TRY(outlive_domain_with_attributes(domain, &pair, 1, &with));
    int code = outlive_event_open(with, words[1], OUTLIVE_OPEN_OR_CREATE, 0, &event);
    outlive_domain_close(with);
    TRY(code);
    outlive_event_close(event);
    OK();
}

static void node_of(void) {
    char value[256];
    say_attribute(outlive_domain_attribute(domain, words[1], words[2], value, sizeof value), value);
}

static void node_all(void) {
    char key[256], value[256];
    int code;
    for (size_t at = 0; (code = outlive_node_attribute_at(domain, small_number(words[1]), at, key, sizeof key, value, sizeof value)) == 0; at++)
        snprintf(said[said_count++], sizeof *said, "%s=%s", key, value);
    if (code != ERANGE) TRY(code);
    say_all();
}

static void node_all_of(void) {
    char key[256], value[256];
    int code;
    for (size_t at = 0; (code = outlive_domain_attribute_at(domain, words[1], at, key, sizeof key, value, sizeof value)) == 0; at++)
        snprintf(said[said_count++], sizeof *said, "%s=%s", key, value);
    if (code != ERANGE) TRY(code);
    say_all();
}

CALL(node_prefault, outlive_domain_prefault(domain, (size_t)number(words[1])))
CALL(node_lock_memory, outlive_domain_lock_memory(domain, (size_t)number(words[1])))

static void watch_open(void) {
    outlive_domain_watch_close(watch);
    TRY(outlive_domain_watch_open(domain, &watch));
    OK();
}

static void watch_changed(void) {
    size_t things = 0, nodes = 0;
    outlive_change_t change;
    TRY(outlive_domain_watch_changed(watch, until(words[1]), &things, &nodes));
    while (outlive_domain_watch_next(watch, &change) == 0 && said_count < 32)
        snprintf(said[said_count++], sizeof *said, "%c%s:%s", change.what == OUTLIVE_APPEARED ? '+' : '-', change.name,
                 change.kind);
    say_all();
}

/* Reads a file with a profile that has the line's keys. */
static void config_load(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/outlive-conformance-%d.toml", (int)getpid());
    FILE *file = fopen(path, "w");
    if (file == NULL) abort();
    fputs("[[profile]]\nname = \"p\"\ntopics = [\"c.*\"]\n", file);
    for (size_t at = 1; at < word_count; at++) fprintf(file, "%s\n", words[at]);
    fclose(file);
    outlive_config_close(config);
    int code = outlive_config_load(path, &config);
    remove(path);
    TRY(code);
    OK();
}

static void config_profile(void) {
    char name[64];
    int code = outlive_config_profile(config, words[1], name, sizeof name);
    if (code == ENOENT) puts("ok none");
    else if (code != 0) fail(code);
    else printf("ok %s\n", name);
}

/* Opens the line's topic with its profile, or makes it. */
static int configured(outlive_topic_t **topic) {
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    int code = outlive_config_topic(config, words[1], &options);
    return code != 0 ? code : outlive_topic_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, topic);
}

static void config_topic(void) {
    outlive_topic_t *topic = NULL;
    outlive_topic_options_t made = OUTLIVE_TOPIC_OPTIONS_INIT;
    TRY(configured(&topic));
    TRY(outlive_topic_config(topic, &made));
    outlive_topic_close(topic);
    const char *kept = made.durability == OUTLIVE_PERSISTENT ? "persistent"
        : made.durability == OUTLIVE_VOLATILE                ? "volatile"
                                                             : "transient_local";
    printf("ok %u %s %s\n", made.depth, kept, made.reliable ? "yes" : "no");
}

/* Publishes the numbers below the line's, and receives the first that comes. */
static void flow(outlive_publisher_t *publisher, outlive_subscriber_t *subscriber) {
    outlive_sample_t *sample = NULL;
    for (unsigned char at = 0; at < number(words[2]); at++)
        TRY(outlive_publisher_publish_copy(publisher, &at, 1, NULL, OUTLIVE_NEVER, NULL));
    TRY(outlive_subscriber_recv(subscriber, &sample, OUTLIVE_TRY));
    say_number(*(const unsigned char *)outlive_sample_data(sample));
    outlive_sample_release(sample);
}

static void config_flow(void) {
    outlive_topic_t *topic = NULL;
    outlive_publisher_options_t publishing = OUTLIVE_PUBLISHER_OPTIONS_INIT;
    outlive_subscriber_options_t subscribing = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    outlive_publisher_t *publisher = NULL;
    outlive_subscriber_t *subscriber = NULL;
    TRY(configured(&topic));
    TRY(outlive_config_publisher(config, words[1], &publishing));
    TRY(outlive_config_subscriber(config, words[1], &subscribing));
    TRY(outlive_topic_subscriber(topic, &subscribing, &subscriber));
    TRY(outlive_topic_publisher(topic, &publishing, &publisher));
    flow(publisher, subscriber);
    outlive_publisher_close(publisher);
    outlive_subscriber_close(subscriber);
    outlive_topic_close(topic);
}

const struct verb node_verbs[] = {
    V(node, open, 4), V(node, close, 0), V(node, list, 0), V(node, attribute, 2), V(node, make, 3), V(node, of, 2),
    V(node, all, 1), V(node, all_of, 1), V(node, prefault, 1), V(node, lock_memory, 1),
    V(watch, open, 0), V(watch, changed, 1), V(config, load, AT_LEAST(1)), V(config, profile, 1), V(config, topic, 1),
    V(config, flow, 2), END,
};
