/* C's driver: does what each line of its input says, by outlive.h alone, and answers with a line.
 * doc/conformance.md has the commands; the drivers of the other languages do the same, each with
 * its own means. */
#include "../sanitizers.h"
#include "driver.h"

/* A token of the domain's, by that call. */
#define TOKEN(verb, call)           \
    static void verb(void) {        \
        uint32_t token = 0;         \
        TRY(call(domain, &token));  \
        say_number(token);          \
    }

TOKEN(token, outlive_domain_token)
TOKEN(process_token, outlive_domain_process_token)

static void peer_alive(void) {
    puts(outlive_peer_is_alive(domain, small_number(words[1])) ? "ok yes" : "ok no");
}

CALL(peer_wait_dead, outlive_peer_wait_dead(domain, small_number(words[1]), until(words[2])))

static void domain_find(void) {
    outlive_domain_t *found = NULL;
    TRY(outlive_domain_open_at(words[1], OUTLIVE_OPEN, &found));
    outlive_domain_close(found);
    OK();
}

static void domain_create(void) {
    char path[4096];
    outlive_domain_t *made = NULL;
    TRY(outlive_domain_path(domain, path, sizeof path));
    size_t end = strlen(path);
    snprintf(path + end, sizeof path - end, "/%s", words[1]);
    TRY(outlive_domain_open_at(path, OUTLIVE_CREATE_NEW, &made));
    outlive_domain_close(made);
    OK();
}

static void leave(void) { _exit(0); }

static void hang(void) {
    sleep(60);
    OK();
}

static const struct verb own_verbs[] = {
    {"token", 0, token}, {"process_token", 0, process_token}, V(peer, alive, 1),
    V(peer, wait_dead, 2), V(domain, find, 1), V(domain, create, 1), {"exit", 0, leave},
    {"crash", 0, abort}, {"hang", 0, hang}, END,
};

static const struct verb *const all[] = {
    lock_verbs, rw_verbs, sync_verbs, real_time_verbs, record_verbs, pool_verbs, queue_verbs,
    job_verbs, topic_verbs, state_verbs, notifier_verbs, service_verbs, wait_verbs, opening_verbs,
    node_verbs, own_verbs,
};

static void act(void) {
    int count = (int)word_count - 1;
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        for (const struct verb *verb = all[at]; verb->name != NULL; verb++)
            if (strcmp(words[0], verb->name) == 0) {
                if (verb->words < 0 ? count >= -1 - verb->words : count == verb->words) verb->act();
                else usage("another number of words");
                return;
            }
    usage(words[0]);
}

/* Answers until the input ends, or until that line. */
void serve(const char *last) {
    static char line[4096];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (last != NULL && strcmp(line, last) == 0) return;
        word_count = 0;
        char *word = strtok(line, " ");
        for (; word != NULL && word_count < 32; word = strtok(NULL, " "))
            words[word_count++] = word;
        if (word_count == 0) usage("an empty line");
        else act();
        fflush(stdout);
    }
}

int main(int count, char **arguments) {
    if (count != 2 || outlive_domain_open_at(arguments[1], OUTLIVE_OPEN_OR_CREATE, &domain) != 0) {
        fprintf(stderr, "usage: driver FOLDER; %s\n", outlive_last_error());
        return 2;
    }
    puts("ready");
    fflush(stdout);
    serve(NULL);
    return 0;
}
