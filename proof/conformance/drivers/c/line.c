/* The words of a line, what is open by name, and how answers are said. */
#include "driver.h"

char *words[32];
size_t word_count;

static struct thing things[64];
static size_t thing_count;
outlive_domain_t *domain;

unsigned char *message;
size_t message_size;

uint64_t number(const char *word) { return strtoull(word, NULL, 10); }
uint32_t small_number(const char *word) { return (uint32_t)number(word); }

outlive_deadline_t until(const char *word) {
    return strcmp(word, "try") == 0 ? OUTLIVE_TRY : outlive_after_ms(number(word));
}

int option(size_t from, const char *key, uint64_t *value) {
    size_t length = strlen(key);
    for (size_t at = from; at < word_count; at++)
        if (strncmp(words[at], key, length) == 0 && words[at][length] == '=') {
            *value = number(words[at] + length + 1);
            return 1;
        }
    return 0;
}

int flag(size_t from, const char *word) {
    for (size_t at = from; at < word_count; at++)
        if (strcmp(words[at], word) == 0) return 1;
    return 0;
}

struct thing *find(const char *name) {
    for (size_t at = 0; at < thing_count; at++)
        if (strcmp(things[at].name, name) == 0) return &things[at];
    if (thing_count == sizeof things / sizeof *things) abort();
    snprintf(things[thing_count].name, sizeof things->name, "%s", name);
    return &things[thing_count++];
}

struct thing *it(void) { return find(words[1]); }

void make_message(const char *word) {
    const char *star = strchr(word, '*');
    message_size = star != NULL ? (size_t)number(word) : strlen(word);
    free(message);
    message = malloc(message_size + 1);
    if (message == NULL) abort();
    if (star != NULL) pattern(message, message_size, number(star + 1));
    else memcpy(message, word, message_size);
}

void make_pattern(size_t size, uint64_t seed) {
    if (message_size < size || message == NULL) {
        free(message);
        message = malloc(size + 1);
        if (message == NULL) abort();
    }
    message_size = size;
    pattern(message, size, seed);
}

void fail(int code) {
#define NAMED(name) {name, #name}
    static const struct { int code; const char *name; } names[] = {
        NAMED(EOWNERDEAD), NAMED(ENOTRECOVERABLE), NAMED(EDEADLK), NAMED(EBUSY), NAMED(ETIMEDOUT),
        NAMED(EAGAIN), NAMED(EPIPE), NAMED(ECONNRESET), NAMED(ECONNABORTED), NAMED(ENOTCONN),
        NAMED(ECANCELED), NAMED(ETIME), NAMED(EMSGSIZE), NAMED(ENOSPC), NAMED(ENOMEM),
        NAMED(ENOBUFS), NAMED(EUSERS), NAMED(ESHUTDOWN), NAMED(EOVERFLOW), NAMED(EPERM), NAMED(EACCES), NAMED(ENOENT),
        NAMED(EEXIST), NAMED(ENOTDIR), NAMED(ENOTEMPTY), NAMED(EXDEV), NAMED(ESTALE), NAMED(EINVAL),
        NAMED(OUTLIVE_DAMAGED), NAMED(OUTLIVE_OTHER_KIND), NAMED(OUTLIVE_OTHER_TYPE),
        NAMED(OUTLIVE_BROKEN), NAMED(OUTLIVE_PANIC), NAMED(OUTLIVE_FAILED),
        NAMED(OUTLIVE_LAGGED),
        NAMED(OUTLIVE_NEW_SESSION),
        NAMED(OUTLIVE_NOT_LIVELY),
        NAMED(OUTLIVE_LIVELY),
    };
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (names[at].code == code) {
            printf("error %s %s\n", names[at].name, outlive_last_error());
            return;
        }
    printf("error %d %s\n", code, outlive_last_error());
}

void usage(const char *what) { printf("error Usage %s\n", what); }

void say_number(uint64_t number) { printf("ok %llu\n", (unsigned long long)number); }

void say_shown(const void *data, size_t size) {
    char shown[64];
    show(shown, data, size);
    printf("ok %s\n", shown);
}

void say_shown_and(const void *data, size_t size, const char *behind) {
    char shown[64];
    show(shown, data, size);
    printf("ok %s %s\n", shown, behind);
}

int got(int code, const void *value) {
    if (code != 0 && code != EOWNERDEAD) {
        fail(code);
        return 0;
    }
    uint64_t now;
    memcpy(&now, value, sizeof now);
    printf("%s %llu\n", code == 0 ? "ok" : "owner-died", (unsigned long long)now);
    return 1;
}

void say_holder(int code, const outlive_peer_info_t *holder) {
    if (code == ESRCH) puts("ok nobody");
    else if (code != 0) fail(code);
    else say_number(holder->pid);
}

void set_value(const char *word) {
    uint64_t value = number(word);
    memcpy(it()->value, &value, sizeof value);
    OK();
}
