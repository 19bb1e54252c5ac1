/* A service: one process answers, others ask. It is killed in the middle of a call; the caller is told at once that it had been
 * begun, and asks the next server. */
#include <errno.h>
#include <outlive.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int code) {
    if (code != 0) {
        fprintf(stderr, "%s: %s\n", outlive_strerror(code), outlive_last_error());
        exit(1);
    }
}

/* Answers with the length of what it is asked. */
static void serve(int die_at) {
    outlive_domain_t *domain;
    outlive_server_t *server;
    must(outlive_domain_open(NULL, OUTLIVE_OPEN_OR_CREATE, &domain));
    must(outlive_server_open(domain, "length", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    for (int served = 0;; served++) {
        outlive_request_t *request;
        must(outlive_server_next(server, outlive_after_ms(60000), &request));
        if (served == die_at) kill(getpid(), SIGKILL);
        uint64_t length = outlive_request_size(request);
        int is_last = length == 0;
        must(outlive_request_reply(request, &length, sizeof length));
        if (is_last) break;
    }
    outlive_server_close(server);
    outlive_domain_close(domain);
}

int main(void) {
    pid_t first = fork();
    if (first == 0) serve(2);

    outlive_domain_t *domain;
    outlive_client_t *client;
    outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
    must(outlive_domain_open(NULL, OUTLIVE_OPEN_OR_CREATE, &domain));
    options.wait_for_server = 1;
    must(outlive_client_open(domain, "length", OUTLIVE_OPEN_OR_CREATE, &options, &client));
    const char *words[] = {"one", "three", "eleven", "fifteen", ""};
    int wrong = 0, told = 0;
    for (int at = 0; at < 5; at++) {
        outlive_reply_t *reply;
        int code = outlive_client_call(client, words[at], strlen(words[at]), outlive_after_ms(60000), &reply);
        if (code == ECONNRESET) {
            printf("'%s': %s\n", words[at], outlive_last_error());
            told++;
            if (fork() == 0) {
                serve(-1);
                _exit(0);
            }
            at--; /* Asking for a length twice does no harm. */
            continue;
        }
        must(code);
        uint64_t length;
        memcpy(&length, outlive_reply_data(reply), sizeof length);
        printf("'%s' has %d letters\n", words[at], (int)length);
        wrong += length != strlen(words[at]);
        outlive_reply_release(reply);
    }
    while (wait(NULL) > 0) {}
    outlive_client_close(client);
    outlive_domain_close(domain);
    return wrong == 0 && told == 1 ? 0 : 1;
}
