/* What the C tests have in common: a domain folder of their own, processes to kill, a bound on everything. */
#ifndef TESTING_H
#define TESTING_H

#include <errno.h>
#include <outlive.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A thread's cache of a pool hangs on a page of its own, which a fork wipes and the leak sanitizer does not look at. It goes with the
 * thread; the first thread's with the process. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:outlive::pool"; }
/* Frames of the library are seen whatever it was compiled with. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "fast_unwind_on_malloc=0"; }

/* A wait that is longer has hung: far below the alarm, which kills the test. */
#define SOON outlive_after_ms(60000)

static char folder[64];
static outlive_domain_t *domain;
static int news[2];

#define CHECK(claim)                                                                                          \
    do {                                                                                                      \
        if (!(claim)) {                                                                                       \
            fprintf(stderr, "%s:%d: not so: %s; last error: %s\n", __FILE__, __LINE__, #claim, outlive_last_error()); \
            abort();                                                                                          \
        }                                                                                                     \
    } while (0)

/* The call returns that code. */
#define IS(code, call)                                                                                        \
    do {                                                                                                      \
        int got = (call), wanted = (code);                                                                    \
        if (got != wanted) {                                                                                  \
            fprintf(stderr, "%s:%d: %s is %d (%s: %s), not %d\n", __FILE__, __LINE__, #call, got,                 \
                    outlive_strerror(got), outlive_last_error(), wanted);                                     \
            abort();                                                                                          \
        }                                                                                                     \
    } while (0)

#define OK(call) IS(0, call)

/* A process of its own, which opens the domain anew; it says `tell()` when it has come to where it is to be killed. */
static inline pid_t start(void (*act)(void)) {
    CHECK(pipe(news) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        outlive_domain_t *parents = domain;
        alarm(300);
        OK(outlive_domain_open_at(folder, OUTLIVE_OPEN_OR_CREATE, &domain));
        outlive_domain_close(parents);
        act();
        _exit(0);
    }
    close(news[1]);
    return child;
}

static inline void tell(void) {
    char yes = 'y';
    CHECK(write(news[1], &yes, 1) == 1);
}

/* Waits until the child has told. */
static inline void hear(void) {
    char yes = 'n';
    CHECK(read(news[0], &yes, 1) == 1 && yes == 'y');
    close(news[0]);
}

static inline void kill_it(pid_t child) {
    int status = 0;
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

/* It ended by itself, and well. */
static inline void join(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static inline void sleep_ms(unsigned milliseconds) { usleep(milliseconds * 1000); }

/* Waits until the process sleeps: it is at its wait, however late it came there. */
static inline void until_asleep(pid_t child) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    while (state != 'S') {
        sleep_ms(1);
        FILE *stat = fopen(path, "r");
        CHECK(stat != NULL && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1);
        fclose(stat);
    }
}

static inline void for_ever(void) {
    for (;;) pause();
}

struct test {
    const char *name;
    void (*run)(void);
};

static inline void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0);
}

static inline void run(const struct test *test) {
    snprintf(folder, sizeof folder, "/dev/shm/outlive-c-%d", (int)getpid());
    if (access("/dev/shm", W_OK) != 0) snprintf(folder, sizeof folder, "/tmp/outlive-c-%d", (int)getpid());
    alarm(300);
    OK(outlive_domain_open_at(folder, OUTLIVE_OPEN_OR_CREATE, &domain));
    test->run();
    outlive_domain_close(domain);
    remove_folder();
    printf("%s: ok\n", test->name);
}

/* `PROGRAM NAME` runs one test, `PROGRAM` says which there are. */
#define TESTS(...)                                                                                            \
    static const struct test tests[] = {__VA_ARGS__};                                                         \
    int main(int argc, char **argv) {                                                                         \
        for (size_t at = 0; at < sizeof tests / sizeof *tests; at++) {                                        \
            if (argc < 2) puts(tests[at].name);                                                               \
            else if (strcmp(argv[1], tests[at].name) == 0) return run(&tests[at]), 0;                         \
        }                                                                                                     \
        return argc < 2 ? 0 : 2;                                                                              \
    }

#define TEST(name) {#name, name}

#endif
