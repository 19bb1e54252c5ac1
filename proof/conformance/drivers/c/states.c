/* `state.` and `bytes.` A state's `in` is its writer, made when it is first needed. */
#include "driver.h"

static int writer(void) {
    outlive_state_writer_t *writer = it()->in;
    int code = writer == NULL ? outlive_state_writer(it()->main, OUTLIVE_TRY, &writer) : 0;
    it()->in = writer;
    return code;
}

static void set(const void *value, size_t size) {
    uint64_t version = 0;
    TRY(writer());
    TRY(outlive_state_writer_set(it()->in, value, size, &version));
    say_number(version);
}

static void state_open(void) {
    outlive_state_t *state = NULL;
    uint64_t value = number(words[2]);
    TRY(outlive_state_open_fixed(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof value, &value, &state));
    it()->main = state;
    OK();
}

static void state_find(void) {
    outlive_state_t *state = NULL;
    TRY(outlive_state_open(domain, words[1], OUTLIVE_OPEN, 0, NULL, 0, &state));
    OK();
}

static void state_get(void) {
    uint64_t value = 0, version = 0;
    size_t size = 0;
    TRY(outlive_state_get(it()->main, &value, sizeof value, &size, &version));
    printf("ok %llu %llu\n", (unsigned long long)value, (unsigned long long)version);
}

static void state_set(void) {
    uint64_t value = number(words[2]);
    set(&value, sizeof value);
}

static void state_prefault(void) {
    TRY(writer());
    TRY(outlive_state_writer_prefault(it()->in, (size_t)number(words[2])));
    OK();
}

static void state_wait(void) {
    uint64_t version = 0;
    TRY(outlive_state_wait_changed(it()->main, number(words[2]), until(words[3]), &version));
    say_number(version);
}

static void state_close(void) {
    outlive_state_writer_close(it()->in);
    it()->in = NULL;
    OK();
}

static void bytes_open(void) {
    outlive_state_t *state = NULL;
    make_message(words[3]);
    TRY(outlive_state_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, (size_t)number(words[2]), message, message_size,
                           &state));
    it()->main = state;
    OK();
}

static void bytes_get(void) {
    char behind[24];
    uint64_t version = 0;
    size_t size = 0;
    make_pattern(outlive_state_capacity(it()->main), 0);
    TRY(outlive_state_get(it()->main, message, message_size, &size, &version));
    snprintf(behind, sizeof behind, "%llu", (unsigned long long)version);
    say_shown_and(message, size, behind);
}

static void bytes_set(void) {
    make_message(words[2]);
    set(message, message_size);
}

static void bytes_flood(void) {
    TRY(writer());
    for (uint64_t end = now_ms() + number(words[3]), count = 1; now_ms() < end; count++) {
        make_pattern((size_t)number(words[2]), count);
        TRY(outlive_state_writer_set(it()->in, message, message_size, NULL));
    }
    OK();
}

static void bytes_watch(void) {
    outlive_deadline_t deadline = until(words[3]);
    uint64_t version = 1;
    size_t size = 0;
    make_pattern(outlive_state_capacity(it()->main), 0);
    for (uint64_t count = number(words[2]); count > 0; count--) {
        TRY(outlive_state_wait_changed(it()->main, version, deadline, NULL));
        TRY(outlive_state_get(it()->main, message, message_size, &size, &version));
        if (!is_pattern(message, size, version - 1)) {
            printf("error Torn version %llu\n", (unsigned long long)version);
            return;
        }
    }
    OK();
}

const struct verb state_verbs[] = {
    V(state, open, 2), V(state, find, 1), V(state, get, 1), V(state, set, 2), V(state, wait, 3), V(state, close, 1),
    V(state, prefault, 2),
    V(bytes, open, 3), V(bytes, get, 1), V(bytes, set, 2), V(bytes, flood, 3), V(bytes, watch, 3), END,
};
