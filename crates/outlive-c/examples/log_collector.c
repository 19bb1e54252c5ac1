/* A log collector: workers send lines into one queue, the collector writes them out. The collector is killed; the queue keeps
 * what the workers send meanwhile, the next collector goes on where it stopped, and nothing that was sent is lost. */
#include <outlive.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, LINES = 200, FIRST = 150 };

static void must(int code) {
    if (code != 0) {
        fprintf(stderr, "%s: %s\n", outlive_strerror(code), outlive_last_error());
        exit(1);
    }
}

static outlive_queue_t *open_log(void) {
    outlive_domain_t *domain;
    outlive_queue_t *queue;
    must(outlive_domain_open(NULL, OUTLIVE_OPEN_OR_CREATE, &domain));
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    /* A dead collector is no error to the workers: the next one is about to come. */
    options.on_receiver_death = OUTLIVE_RECEIVER_DEATH_KEEPS;
    must(outlive_queue_open(domain, "log", OUTLIVE_OPEN_OR_CREATE, &options, &queue));
    outlive_domain_close(domain);
    return queue;
}

static void work(int worker) {
    outlive_sender_t *sender;
    must(outlive_queue_sender(open_log(), &sender));
    for (int at = 0; at < LINES; at++) {
        char line[64];
        int size = snprintf(line, sizeof line, "worker %d did %d", worker, at);
        must(outlive_sender_send(sender, line, (size_t)size, OUTLIVE_NEVER));
    }
    outlive_sender_close(sender);
}

/* Collects so many lines. */
static void collect(int lines) {
    outlive_receiver_t *receiver;
    must(outlive_queue_receiver(open_log(), OUTLIVE_TRY, &receiver));
    for (int at = 0; at < lines; at++) {
        const void *line;
        size_t size;
        uint32_t again;
        must(outlive_receiver_peek(receiver, &line, &size, &again, outlive_after_ms(60000)));
        if (at % 100 == 0) printf("%.*s%s\n", (int)size, (const char *)line, again ? " (perhaps again)" : "");
        /* Written: now it may go. Dead before this, the next collector has it again. */
        must(outlive_receiver_commit(receiver));
    }
    fflush(stdout);
    if (lines == FIRST) kill(getpid(), SIGKILL);
    outlive_receiver_close(receiver);
}

int main(void) {
    pid_t collector = fork();
    if (collector == 0) collect(FIRST);
    for (int worker = 0; worker < WORKERS; worker++) {
        if (fork() == 0) {
            work(worker);
            _exit(0);
        }
    }
    waitpid(collector, NULL, 0);
    printf("the collector was killed; here is the next one\n");
    collect(WORKERS * LINES - FIRST);
    while (wait(NULL) > 0) {}
    outlive_queue_counters_t counters;
    outlive_queue_t *queue = open_log();
    must(outlive_queue_counters(queue, &counters));
    outlive_queue_close(queue);
    printf("%d lines of %d, %d left\n", (int)counters.received, WORKERS * LINES, (int)counters.pending);
    return counters.received == WORKERS * LINES && counters.pending == 0 ? 0 : 1;
}
