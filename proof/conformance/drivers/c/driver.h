/* What the files of C's driver share: the words of a line, what is open, and tables of verbs. */
#ifndef DRIVER_H
#define DRIVER_H

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <outlive.h>
#include <unistd.h>

#include "../messages.h"

/* --- a verb, and the tables of them */

struct verb {
    const char *name;
    /* How many words follow it; `AT_LEAST(n)`: so many or more. */
    int words;
    void (*act)(void);
};

#define AT_LEAST(n) (-1 - (n))
/* Of `V(queue, send, 2)`, the function is `queue_send`. */
#define V(family, verb, words) {#family "." #verb, words, family##_##verb}
#define END {NULL, 0, NULL}

extern const struct verb lock_verbs[], rw_verbs[], sync_verbs[], real_time_verbs[], record_verbs[],
    pool_verbs[], queue_verbs[], job_verbs[], topic_verbs[], state_verbs[], notifier_verbs[], service_verbs[],
    wait_verbs[], opening_verbs[], node_verbs[];

/* --- the line */

/* The verb, and the words behind it. */
extern char *words[32];
extern size_t word_count;

uint64_t number(const char *word);
uint32_t small_number(const char *word);

/* Milliseconds, or `try`. */
outlive_deadline_t until(const char *word);

/* Whether the options from that word on have this one; `KEY=NUMBER` into `value`. */
int option(size_t from, const char *key, uint64_t *value);
int flag(size_t from, const char *word);

/* Acts on the lines of the input until it ends, or until that line. */
void serve(const char *last);

/* --- what is open */

/* A name and what is open under it: a lock, a queue and its ends, ... */
struct thing {
    char name[64];
    void *main, *in, *out;
    uint64_t sent, received;
    int ends_with_senders;
    /* What a lock guards; of a pool's object, where it is. */
    void *value;
};

extern outlive_domain_t *domain;

/* What has that name: without anything open, at first. */
struct thing *find(const char *name);
/* What the line is about. */
struct thing *it(void);

/* --- messages */

extern unsigned char *message;
extern size_t message_size;

/* The message that a word of the line stands for. */
void make_message(const char *word);
void make_pattern(size_t size, uint64_t seed);

/* --- answers */

#define OK() puts("ok")
/* Ends the verb if the call failed. */
#define TRY(call)                           \
    do {                                    \
        int code_ = (call);                 \
        if (code_ != 0) { fail(code_); return; } \
    } while (0)
/* A verb that is a single call. */
#define CALL(verb, call)     \
    static void verb(void) { \
        TRY(call);           \
        OK();                \
    }
/* A verb that says a number. */
#define NUMBER(verb, expression) \
    static void verb(void) { say_number(expression); }

void fail(int code);
void usage(const char *what);
void say_number(uint64_t number);
void say_shown(const void *data, size_t size);
/* A message, and a number or a word behind it. */
void say_shown_and(const void *data, size_t size, const char *behind);
/* A lock that was taken, or not, and what it guards; whether it was taken. */
int got(int code, const void *value);
void say_holder(int code, const outlive_peer_info_t *holder);

/* --- mutexes of every kind */

/* `FAMILY_set` and so on, by the functions of `outlive_TYPE`. */
#define MUTEX(family, type)                                                                  \
    CALL(family##_consistent, outlive_##type##_consistent(it()->main))                       \
    CALL(family##_mark_not_recoverable, outlive_##type##_mark_not_recoverable(it()->main))   \
    CALL(family##_unlock, outlive_##type##_unlock(it()->main))                               \
    static void family##_set(void) { set_value(words[2]); }                                  \
    static void family##_opened(outlive_##type##_t *opened) {                                \
        it()->main = opened;                                                                 \
        it()->value = outlive_##type##_value(opened);                                        \
        OK();                                                                                \
    }
#define MUTEX_VERBS(family)                                                                       \
    V(family, open, 2), V(family, lock, 2), V(family, set, 2), V(family, consistent, 1),          \
        V(family, mark_not_recoverable, 1), V(family, unlock, 1), V(family, reset, 3),            \
        V(family, holder, 1)

/* Writes what the line's lock guards. */
void set_value(const char *word);

/* The receiver of the line's or another queue, made when it is first needed. */
int receiver(struct thing *queue);

#endif
