/* A counter that survives its processes: they add to it under one lock, one of them is killed inside,
 * and the next one is told, repairs what it left, and goes on. */
#include <errno.h>
#include <outlive.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct counter {
    outlive_mutex_t lock;
    uint64_t count, doubled; /* Twice the count: what a death in the middle breaks. */
};

static void must(int code) {
    if (code != 0) {
        fprintf(stderr, "%s: %s\n", outlive_strerror(code), outlive_last_error());
        exit(1);
    }
}

static struct counter *open_counter(void) {
    const outlive_place_t places[] = {OUTLIVE_PLACE(struct counter, lock, OUTLIVE_MUTEX)};
    outlive_domain_t *domain;
    void *counter;
    must(outlive_domain_open(NULL, OUTLIVE_OPEN_OR_CREATE, &domain));
    must(outlive_record_open(domain, "counter", OUTLIVE_OPEN_OR_CREATE, sizeof(struct counter), places, 1, NULL, NULL, &counter));
    outlive_domain_close(domain);
    return counter;
}

static void add(struct counter *counter, int die) {
    int code = outlive_mutex_lock(&counter->lock);
    if (code == EOWNERDEAD) {
        printf("process %d repairs: %s\n", (int)getpid(), outlive_last_error());
        counter->doubled = 2 * counter->count;
        must(outlive_mutex_consistent(&counter->lock));
    } else {
        must(code);
    }
    counter->count++;
    if (die) kill(getpid(), SIGKILL);
    counter->doubled += 2;
    must(outlive_mutex_unlock(&counter->lock));
}

int main(void) {
    for (int child = 0; child < 4; child++) {
        if (fork() == 0) {
            struct counter *counter = open_counter();
            for (int at = 0; at < 1000; at++) add(counter, child == 2 && at == 500);
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {}
    struct counter *counter = open_counter();
    add(counter, 0);
    printf("counted %d, of 4001 but for those of the dead one\n", (int)counter->count);
    int is_whole = counter->doubled == 2 * counter->count && counter->count == 3 * 1000 + 501 + 1;
    outlive_record_close(counter);
    return is_whole ? 0 : 1;
}
