/* `pi.`, `ceiling.` and `reentrant.`: mutexes for real-time threads, and those that their holder
 * locks again. All have the same functions. */
#include "driver.h"

/* Not every machine lets every user run at a real-time priority. */
#define NO_RIGHT "error Unsupported right to run at a real-time priority"

#define KIND(family, type, ...)                                                             \
    MUTEX(family, type)                                                                     \
    static void family##_open(void) {                                                       \
        outlive_##type##_t *mutex = NULL;                                                   \
        uint64_t value = number(words[2]);                                                  \
        int code = outlive_##type##_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, __VA_ARGS__,\
                                         &value, &mutex);                                   \
        TRY(code);                                                                          \
        family##_opened(mutex);                                                             \
    }                                                                                       \
    static void family##_lock(void) {                                                       \
        int code = outlive_##type##_lock(it()->main, until(words[2]));                      \
        if (code == EPERM) puts(NO_RIGHT);                                                  \
        else got(code, it()->value);                                                        \
    }                                                                                       \
    static void family##_await(void) {                                                      \
        uint64_t wanted = number(words[3]), *now = it()->value;                             \
        outlive_deadline_t deadline = until(words[4]);                                      \
        int code = 0;                                                                       \
        while (code == 0 && *now != wanted)                                                 \
            code = outlive_condvar_wait_##type(find(words[2])->main, it()->main, deadline); \
        got(code, now);                                                                     \
    }                                                                                       \
    static void family##_reset(void) {                                                      \
        /* Marked not recoverable, no process holds it: it is made whole first. */          \
        uint64_t value = number(words[2]);                                                  \
        memcpy(it()->value, &value, sizeof value);                                          \
        TRY(outlive_##type##_reset(it()->main, until(words[3])));                           \
        OK();                                                                               \
    }                                                                                       \
    static void family##_holder(void) {                                                     \
        outlive_peer_info_t info;                                                           \
        int code = outlive_##type##_holder(it()->main, &info);                              \
        say_holder(code, &info);                                                            \
    }

#define CEILING 2

KIND(pi, pi_mutex, sizeof value)
KIND(ceiling, ceiling_mutex, CEILING, sizeof value)
KIND(reentrant, reentrant_mutex, sizeof value)

const struct verb real_time_verbs[] = {
    MUTEX_VERBS(pi), V(pi, await, 4), MUTEX_VERBS(ceiling), V(ceiling, await, 4),
    MUTEX_VERBS(reentrant), V(reentrant, await, 4), END,
};
