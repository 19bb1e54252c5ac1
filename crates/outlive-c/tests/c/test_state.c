/* States: set, got, waited for; the writer is killed. */
#include "testing.h"

static outlive_state_t *open_state(void) {
    outlive_state_t *state = NULL;
    OK(outlive_state_open(domain, "mode", OUTLIVE_OPEN_OR_CREATE, 64, "idle", 4, &state));
    return state;
}

static void expect(outlive_state_t *state, const char *wanted, uint64_t wanted_version) {
    char buffer[64];
    size_t size = 0;
    uint64_t version = 0;
    OK(outlive_state_get(state, buffer, sizeof buffer, &size, &version));
    CHECK(size == strlen(wanted) && memcmp(buffer, wanted, size) == 0 && version == wanted_version);
    /* Into less than the largest value needs. */
    OK(outlive_state_get(state, buffer, size, &size, NULL));
    CHECK(memcmp(buffer, wanted, size) == 0 && outlive_state_version(state) == wanted_version);
}

static void ordinary(void) {
    outlive_state_t *state = open_state();
    outlive_state_writer_t *writer = NULL, *second = NULL;
    expect(state, "idle", 1);
    OK(outlive_state_writer(state, OUTLIVE_TRY, &writer));
    IS(EBUSY, outlive_state_writer(state, OUTLIVE_TRY, &second));
    IS(EBUSY, outlive_state_writer(state, outlive_after_ms(5), &second));
    CHECK(second == NULL);
    uint64_t version = 0;
    OK(outlive_state_writer_set(writer, "driving", 7, &version));
    CHECK(version == 2);
    expect(state, "driving", 2);
    OK(outlive_state_wait_changed(state, 1, SOON, &version));
    CHECK(version == 2);
    IS(ETIMEDOUT, outlive_state_wait_changed(state, 2, outlive_after_ms(5), &version));
    char buffer[4];
    size_t size = 0;
    IS(EMSGSIZE, outlive_state_get(state, buffer, sizeof buffer, &size, NULL));
    CHECK(size == 7 && outlive_state_capacity(state) == 64);
    char large[65] = {0};
    IS(EMSGSIZE, outlive_state_writer_set(writer, large, sizeof large, NULL));
    outlive_peer_info_t info;
    OK(outlive_state_writer_now(state, &info));
    CHECK(info.pid == (uint32_t)getpid());
    outlive_state_writer_close(writer);
    IS(ESRCH, outlive_state_writer_now(state, &info));
    outlive_state_t *again = NULL;
    OK(outlive_state_open(domain, "mode", OUTLIVE_OPEN, 0, NULL, 0, &again));
    expect(again, "driving", 2);
    outlive_state_close(again);
    /* As large as it was made, or not at all. */
    IS(EINVAL, outlive_state_open(domain, "mode", OUTLIVE_OPEN_OR_CREATE, 65, NULL, 0, &again));
    IS(EINVAL, outlive_state_open(domain, "mode", OUTLIVE_OPEN_OR_CREATE, 63, NULL, 0, &again));
    CHECK(again == NULL);
    outlive_state_close(state);
}

static void values_of_one_size(void) {
    outlive_state_t *state = NULL, *other = NULL;
    outlive_state_writer_t *writer = NULL;
    uint64_t ten = 10, value = 0, version = 0;
    size_t size = 0;
    OK(outlive_state_open_fixed(domain, "level", OUTLIVE_OPEN_OR_CREATE, sizeof ten, &ten, &state));
    OK(outlive_state_get(state, &value, sizeof value, &size, &version));
    CHECK(value == 10 && size == sizeof value && version == 1);
    OK(outlive_state_writer(state, OUTLIVE_TRY, &writer));
    IS(EMSGSIZE, outlive_state_writer_set(writer, &value, 4, NULL));
    IS(OUTLIVE_OTHER_TYPE, outlive_state_open_fixed(domain, "level", OUTLIVE_OPEN_OR_CREATE, 4, NULL, &other));
    IS(OUTLIVE_OTHER_TYPE, outlive_state_open(domain, "level", OUTLIVE_OPEN_OR_CREATE, 8, NULL, 0, &other));
    OK(outlive_state_open(domain, "level", OUTLIVE_OPEN, 8, NULL, 0, &other));
    outlive_state_close(other);
    IS(EINVAL, outlive_state_open(domain, "level", OUTLIVE_OPEN, 9, NULL, 0, &other));
    IS(EINVAL, outlive_state_open_fixed(domain, "none", OUTLIVE_OPEN_OR_CREATE, 0, NULL, &other));
    IS(ENOSPC, outlive_state_open_fixed(domain, "none", OUTLIVE_OPEN_OR_CREATE, SIZE_MAX, NULL, &other));
    CHECK(other == NULL);
    OK(outlive_state_open_fixed(domain, "zeroes", OUTLIVE_OPEN_OR_CREATE, sizeof value, NULL, &other));
    OK(outlive_state_get(other, &value, sizeof value, &size, NULL));
    CHECK(value == 0 && size == sizeof value);
    outlive_state_writer_close(writer);
    outlive_state_close(other);
    outlive_state_close(state);
}

static void write_and_hold(void) {
    outlive_state_writer_t *writer = NULL;
    OK(outlive_state_writer(open_state(), SOON, &writer));
    OK(outlive_state_writer_set(writer, "driving", 7, NULL));
    tell();
    for_ever();
}

static pid_t doomed;

static void *kill_later(void *nothing) {
    sleep_ms(60);
    kill_it(doomed);
    return nothing;
}

static void writer_killed(void) {
    outlive_state_t *state = open_state();
    doomed = start(write_and_hold);
    hear();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
    uint64_t version = 0;
    IS(EPIPE, outlive_state_wait_changed(state, 2, SOON, &version));
    CHECK(version == 2 && pthread_join(thread, NULL) == 0);
    expect(state, "driving", 2);
    outlive_state_writer_t *writer = NULL;
    OK(outlive_state_writer(state, SOON, &writer));
    OK(outlive_state_writer_set(writer, "safe", 4, NULL));
    expect(state, "safe", 3);
    outlive_state_writer_close(writer);
    outlive_state_close(state);
}

static void bad_arguments(void) {
    outlive_state_t *state = NULL;
    IS(ENOENT, outlive_state_open(domain, "none", OUTLIVE_OPEN, 0, NULL, 0, &state));
    IS(ENOSPC, outlive_state_open(domain, "none", OUTLIVE_OPEN_OR_CREATE, 3, "four", 4, &state));
    IS(ENOSPC, outlive_state_open(domain, "none", OUTLIVE_OPEN_OR_CREATE, SIZE_MAX, NULL, 0, &state));
    IS(EINVAL, outlive_state_open(domain, "none", OUTLIVE_OPEN_OR_CREATE, 4, NULL, 4, &state));
    state = open_state();
    size_t size = 0;
    IS(EINVAL, outlive_state_get(state, NULL, 64, &size, NULL));
    IS(EINVAL, outlive_state_get(state, &size, 64, NULL, NULL));
    IS(EINVAL, outlive_state_get(NULL, &size, 8, &size, NULL));
    IS(EINVAL, outlive_state_writer(state, SOON, NULL));
    IS(EINVAL, outlive_state_writer_set(NULL, "x", 1, NULL));
    outlive_state_close(state);
    outlive_state_close(NULL);
    outlive_state_writer_close(NULL);
}

TESTS(TEST(ordinary), TEST(values_of_one_size), TEST(writer_killed), TEST(bad_arguments))
