/* Nodes, attributes, and following what comes and goes in a domain. */
#include "testing.h"

static outlive_attribute_t host = {"host", "arm"};

static void named(void) {
    outlive_node_t *node = NULL, *again = NULL;
    OK(outlive_node_open(domain, "planner", "1.4", &host, 1, &node));
    IS(EEXIST, outlive_node_open(domain, "again", NULL, NULL, 0, &again));
    CHECK(again == NULL);
    uint32_t tokens[4] = {0}, me = 0;
    size_t count = 0;
    OK(outlive_domain_nodes(domain, tokens, 4, &count));
    OK(outlive_domain_process_token(domain, &me));
    CHECK(count == 1 && tokens[0] == me);
    OK(outlive_domain_token(domain, &me));
    char name[16], version[8];
    OK(outlive_node_name(domain, me, name, sizeof name, version, sizeof version));
    CHECK(strcmp(name, "planner") == 0 && strcmp(version, "1.4") == 0);
    IS(EMSGSIZE, outlive_node_name(domain, me, name, 4, NULL, 0));
    OK(outlive_node_attribute(domain, me, "host", name, sizeof name));
    CHECK(strcmp(name, "arm") == 0);
    IS(ENOENT, outlive_node_attribute(domain, me, "none", name, sizeof name));
    OK(outlive_node_attribute_at(domain, me, 0, name, sizeof name, version, sizeof version));
    CHECK(strcmp(name, "host") == 0 && strcmp(version, "arm") == 0);
    IS(EMSGSIZE, outlive_node_attribute_at(domain, me, 0, name, sizeof name, version, 3));
    IS(ERANGE, outlive_node_attribute_at(domain, me, 1, name, sizeof name, version, sizeof version));
    outlive_node_close(node);
    outlive_node_close(NULL);
    IS(ESRCH, outlive_node_name(domain, me, name, sizeof name, NULL, 0));
    IS(EINVAL, outlive_node_open(domain, "", NULL, NULL, 0, &node));
    IS(EINVAL, outlive_node_open(domain, "a", NULL, NULL, 1, &node));
}

static void take_a_name(void) {
    outlive_node_t *node = NULL;
    OK(outlive_node_open(domain, "victim", NULL, NULL, 0, &node));
    CHECK(write(news[1], "!", 1) == 1);
    for_ever();
}

static void killed(void) {
    outlive_domain_watch_t *watch = NULL;
    outlive_wait_set_t *set = NULL;
    outlive_ready_t ready;
    uint64_t key = 0;
    size_t things = 9, nodes = 9, count = 0;
    char byte;
    OK(outlive_domain_watch_open(domain, &watch));
    OK(outlive_domain_watch_changed(watch, SOON, &things, &nodes));
    CHECK(things == 0 && nodes == 0);
    IS(ETIMEDOUT, outlive_domain_watch_changed(watch, outlive_after_ms(5), &things, &nodes));
    OK(outlive_wait_set_open(domain, &set));
    OK(outlive_wait_set_add_domain_watch(set, watch, &key));
    pid_t child = start(take_a_name);
    CHECK(read(news[0], &byte, 1) == 1);
    close(news[0]);
    OK(outlive_wait_set_wait(set, &ready, 1, &count, SOON));
    CHECK(count == 1 && ready.key == key && ready.what == OUTLIVE_CHANGED);
    OK(outlive_domain_watch_changed(watch, SOON, &things, &nodes));
    CHECK(things == 0 && nodes == 1);
    CHECK(kill(child, SIGKILL) == 0);
    OK(outlive_wait_set_wait(set, &ready, 1, &count, SOON));
    OK(outlive_domain_watch_changed(watch, SOON, &things, &nodes));
    CHECK(things == 0 && nodes == 0);
    CHECK(waitpid(child, NULL, 0) == child);
    outlive_wait_set_close(set);
    outlive_domain_watch_close(watch);
    outlive_domain_watch_close(NULL);
}

/* The next change: `what`, the name, and the kind. */
static int is_next(outlive_domain_watch_t *watch, uint32_t what, const char *name, const char *kind) {
    outlive_change_t change;
    OK(outlive_domain_watch_next(watch, &change));
    return change.what == what && strcmp(change.name, name) == 0 && strcmp(change.kind, kind) == 0 &&
           (change.token != 0) == (strcmp(kind, "node") == 0);
}

static void changes(void) {
    outlive_domain_watch_t *watch = NULL;
    outlive_change_t change;
    outlive_event_t *event = NULL;
    outlive_topic_t *topic = NULL;
    outlive_node_t *node = NULL;
    size_t things = 0, nodes = 0;
    OK(outlive_event_open(domain, "stop", OUTLIVE_CREATE_NEW, 0, &event));
    OK(outlive_node_open(domain, "planner", NULL, NULL, 0, &node));
    OK(outlive_domain_watch_open(domain, &watch));
    IS(EAGAIN, outlive_domain_watch_next(watch, &change));
    /* All that is there, by its name. */
    OK(outlive_domain_watch_changed(watch, SOON, &things, &nodes));
    CHECK(is_next(watch, OUTLIVE_APPEARED, "stop", "event"));
    CHECK(is_next(watch, OUTLIVE_APPEARED, "planner", "node"));
    IS(EAGAIN, outlive_domain_watch_next(watch, &change));
    /* What has come and what has gone, also of two reports. */
    outlive_event_close(event);
    OK(outlive_domain_remove(domain, "stop"));
    OK(outlive_domain_watch_changed(watch, SOON, &things, &nodes));
    OK(outlive_topic_open(domain, "poses", OUTLIVE_CREATE_NEW, NULL, &topic));
    outlive_topic_close(topic);
    outlive_node_close(node);
    OK(outlive_domain_watch_changed(watch, SOON, &things, &nodes));
    CHECK(things == 1 && nodes == 0);
    CHECK(is_next(watch, OUTLIVE_VANISHED, "stop", "event"));
    CHECK(is_next(watch, OUTLIVE_VANISHED, "planner", "node"));
    CHECK(is_next(watch, OUTLIVE_APPEARED, "poses", "topic"));
    IS(EAGAIN, outlive_domain_watch_next(watch, &change));
    IS(EINVAL, outlive_domain_watch_next(NULL, &change));
    outlive_domain_watch_close(watch);
    OK(outlive_domain_remove(domain, "poses"));
}

static void attributes(void) {
    outlive_domain_t *with = NULL;
    outlive_event_t *event = NULL;
    char value[8];
    OK(outlive_domain_with_attributes(domain, &host, 1, &with));
    OK(outlive_event_open(with, "stop", OUTLIVE_CREATE_NEW, 0, &event));
    outlive_event_close(event);
    OK(outlive_domain_attribute(domain, "stop", "host", value, sizeof value));
    CHECK(strcmp(value, "arm") == 0);
    IS(ENOENT, outlive_domain_attribute(domain, "stop", "none", value, sizeof value));
    IS(ENOENT, outlive_domain_attribute(domain, "none", "host", value, sizeof value));
    outlive_domain_close(with);
    outlive_attribute_t several[] = {{"b", "2"}, {"a", ""}, {"c", "3"}};
    OK(outlive_domain_with_attributes(domain, several, 3, &with));
    OK(outlive_event_open(with, "many", OUTLIVE_CREATE_NEW, 0, &event));
    outlive_event_close(event);
    outlive_domain_close(with);
    char key[8], found[16] = "";
    for (size_t at = 0; at < 3; at++) {
        OK(outlive_domain_attribute_at(domain, "many", at, key, sizeof key, value, sizeof value));
        strcat(strcat(strcat(found, key), value), ".");
    }
    CHECK(strcmp(found, "a.b2.c3.") == 0);
    IS(ERANGE, outlive_domain_attribute_at(domain, "many", 3, key, sizeof key, value, sizeof value));
    IS(ENOENT, outlive_domain_attribute_at(domain, "none", 0, key, sizeof key, value, sizeof value));
    IS(EMSGSIZE, outlive_domain_attribute_at(domain, "many", 1, key, 1, value, sizeof value));
    OK(outlive_domain_remove(domain, "many"));
    outlive_attribute_t other = {"host", "leg"};
    OK(outlive_domain_with_attributes(domain, &other, 1, &with));
    IS(EINVAL, outlive_event_open(with, "stop", OUTLIVE_OPEN, 0, &event));
    outlive_domain_close(with);
    OK(outlive_domain_remove(domain, "stop"));
}

TESTS(TEST(named), TEST(killed), TEST(changes), TEST(attributes))
