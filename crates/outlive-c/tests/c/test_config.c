/* The configuration file: its profiles, as options. */
#include "testing.h"

static char path[96];

static void write_file(const char *text) {
    snprintf(path, sizeof path, "%s/outlive.toml", folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

#define PROFILE                                                                                               \
    "[wait]\nstrategy = \"block\"\n[[profile]]\nname = \"camera\"\ntopics = [\"camera.*\"]\ndepth = 4\n"            \
    "max_bytes = \"1M\"\nmax_publishers = 3\nmax_subscribers = 5\nmax_samples = 8\nstamps = false\n"              \
    "wait_strategy = \"spin\"\ndurability = \"persistent\"\nreliable = true\nmax_blocking = \"0s\"\nlifespan = \"1s\"\n" \
    "history = 2\nkeep_last = 3\nperiod = \"2ms\"\nsessions = true\nmax_age = \"3us\"\nliveliness = \"4ns\"\n" \
    "mode = \"0600\"\nkeys = [5, 6]\n"

static void profiles(void) {
    outlive_config_t *config = NULL;
    char name[8];
    write_file(PROFILE);
    OK(outlive_config_load(path, &config));
    CHECK(outlive_config_wait(config) == OUTLIVE_WAIT_BLOCK && outlive_config_wait(NULL) == OUTLIVE_WAIT_ADAPTIVE);
    OK(outlive_config_profile(config, "camera.front", name, sizeof name));
    CHECK(strcmp(name, "camera") == 0);
    IS(EMSGSIZE, outlive_config_profile(config, "camera.front", name, 6));
    IS(ENOENT, outlive_config_profile(config, "lidar", name, sizeof name));
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    options.as_is = 1;
    OK(outlive_config_topic(config, "camera.front", &options));
    CHECK(options.size == sizeof options && options.depth == 4 && options.max_bytes == 1 << 20 && options.as_is == 1);
    CHECK(options.max_publishers == 3 && options.max_subscribers == 5 && options.max_samples == 8);
    CHECK(options.no_stamps == 1 && options.wait == OUTLIVE_WAIT_SPIN && options.reliable == 1);
    CHECK(options.durability == OUTLIVE_PERSISTENT && options.mode == 0600);
    outlive_publisher_options_t publishing = OUTLIVE_PUBLISHER_OPTIONS_INIT;
    publishing.period = 7;
    OK(outlive_config_publisher(config, "camera.front", &publishing));
    CHECK(publishing.max_blocking == 1 && publishing.lifespan == 1000000000 && publishing.period == 7);
    outlive_subscriber_options_t subscribing = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    OK(outlive_config_subscriber(config, "camera.front", &subscribing));
    CHECK(subscribing.reliable == 1 && subscribing.history == 2 && subscribing.keep_last == 3);
    CHECK(subscribing.period == 2000000 && subscribing.sessions == 1 && subscribing.max_age == 3000);
    CHECK(subscribing.liveliness == 4 && subscribing.durability == 0);
    CHECK(subscribing.key_count == 2 && subscribing.keys[0] == 5 && subscribing.keys[1] == 6);
    /* They make a topic and a publisher. */
    outlive_topic_t *topic = NULL;
    OK(outlive_topic_open(domain, "camera.front", OUTLIVE_CREATE_NEW, &options, &topic));
    OK(outlive_topic_config(topic, &options));
    CHECK(options.depth == 4 && options.durability == OUTLIVE_PERSISTENT);
    outlive_topic_close(topic);
    /* No profile holds for it: the options stay as they are. */
    outlive_topic_options_t others = OUTLIVE_TOPIC_OPTIONS_INIT;
    others.depth = 9;
    OK(outlive_config_topic(config, "lidar", &others));
    CHECK(others.depth == 9 && others.max_bytes == 0);
    /* A caller that was compiled with an older header: what lies behind its struct is not touched. */
    struct { outlive_publisher_options_t options; } old = {{2 * sizeof(uint64_t), 0, 5, 6}};
    OK(outlive_config_publisher(config, "camera.front", &old.options));
    CHECK(old.options.size == 16 && old.options.max_blocking == 1 && old.options.period == 5 && old.options.lifespan == 6);
    IS(EINVAL, outlive_config_topic(config, "camera.front", NULL));
    IS(EINVAL, outlive_config_topic(config, "lidar", NULL));
    outlive_config_close(config);
    outlive_config_close(NULL);
}

static void faults(void) {
    outlive_config_t *config = NULL;
    write_file("root = true\n[[profile]]\nname = \"a\"\ndepht = 3\n");
    IS(EINVAL, outlive_config_load(path, &config));
    CHECK(config == NULL && strstr(outlive_last_error(), "outlive.toml:4:1: 'depht' is no key here; is 'depth' meant?") != NULL);
    OK(setenv("OUTLIVE_CONFIG", path, 1));
    IS(EINVAL, outlive_config_load(NULL, &config));
    write_file("root = true\n");
    OK(outlive_config_load(NULL, &config));
    CHECK(outlive_config_wait(config) == OUTLIVE_WAIT_ADAPTIVE);
    outlive_config_close(config);
    IS(ENOENT, outlive_config_load("/nowhere/at/all.toml", &config));
}

TESTS(TEST(profiles), TEST(faults))
