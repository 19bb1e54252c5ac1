/* `client.` and `server.` A service's `in` is the client, `out` the server. */
#include "driver.h"

/* There once: what was taken or begun last. */
static outlive_request_t *request;
static outlive_stream_t *stream;
static outlive_call_t *call;
static outlive_client_watch_t *watch;
static outlive_request_stream_t *parts;

static void say_reply(outlive_reply_t *reply) {
    say_shown(outlive_reply_data(reply), outlive_reply_size(reply));
    outlive_reply_release(reply);
}

static void client_open(void) {
    outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
    outlive_client_t *client = NULL;
    options.wait_for_server = (uint32_t)flag(2, "wait");
    TRY(outlive_client_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &client));
    it()->in = client;
    OK();
}

static void client_call(void) {
    outlive_reply_t *reply = NULL;
    make_message(words[2]);
    TRY(outlive_client_call(it()->in, message, message_size, until(words[3]), &reply));
    say_reply(reply);
}

/* Lets go of the call before. */
static void another_call(void) {
    outlive_call_release(call);
    call = NULL;
}

static void client_begin(void) {
    another_call();
    make_message(words[2]);
    TRY(outlive_client_begin(it()->in, message, message_size, until(words[3]), &call));
    OK();
}

static void client_loan(void) {
    outlive_request_loan_t *loan = NULL;
    another_call();
    make_message(words[2]);
    TRY(outlive_client_loan(it()->in, message_size, until(words[3]), &loan));
    memcpy(outlive_request_loan_data(loan), message, message_size);
    TRY(outlive_request_loan_begin(loan, until(words[3]), &call));
    OK();
}

static void client_stream(void) {
    make_message(words[2]);
    TRY(outlive_client_stream(it()->in, message, message_size, until(words[3]), &parts));
    OK();
}

static void client_send(void) {
    make_message(words[1]);
    TRY(outlive_request_stream_send(parts, message, message_size, until(words[2])));
    OK();
}

static void client_finish(void) {
    outlive_request_stream_t *ended = parts;
    another_call();
    parts = NULL;
    TRY(outlive_request_stream_finish(ended, &call));
    OK();
}

static void client_let_go(void) {
    outlive_request_stream_release(parts);
    parts = NULL;
    OK();
}

static void client_next(void) {
    outlive_reply_t *reply = NULL;
    TRY(outlive_call_next(call, until(words[1]), &reply));
    if (reply == NULL) puts("ok end");
    else say_reply(reply);
}

static void client_alive(void) {
    outlive_client_assert_liveliness(it()->in);
    OK();
}

static void client_failure(void) { printf("ok %s\n", outlive_last_error()); }

static void server_open(void) {
    outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
    outlive_server_t *server = NULL;
    uint64_t within = 0;
    option(2, "servers", &options.max_servers);
    if (option(2, "within", &within)) options.serve_by = outlive_after_ms(within);
    TRY(outlive_server_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &server));
    it()->out = server;
    OK();
}

/* The request, which a verb answers; and the stream, which a verb ends. */
static outlive_request_t *asked(void) {
    outlive_request_t *asked = request;
    request = NULL;
    return asked;
}

static outlive_stream_t *ended(void) {
    outlive_stream_t *ended = stream;
    stream = NULL;
    return ended;
}

static void server_next(void) {
    outlive_request_release(asked());
    TRY(outlive_server_next(it()->out, until(words[2]), &request));
    say_shown(outlive_request_data(request), outlive_request_size(request));
}

static void server_watch(void) {
    outlive_client_watch_close(watch);
    watch = NULL;
    TRY(outlive_server_watch_clients(it()->out, number(words[2]) * 1000000, &watch));
    OK();
}

static void server_watch_outside(void) {
    outlive_client_watch_close(watch);
    watch = NULL;
    TRY(outlive_client_watch_open(domain, words[1], number(words[2]) * 1000000, &watch));
    OK();
}

static void server_event(void) {
    static const char *const names[] = {"", "not-lively", "lively", "died"};
    outlive_peer_info_t client;
    uint32_t event = 0;
    TRY(outlive_client_watch_next(watch, until(words[1]), &event, &client));
    printf("ok %s %u\n", names[event & 3], client.pid);
}

static void server_client(void) {
    outlive_peer_info_t info;
    TRY(outlive_request_client(request, &info));
    say_number(info.pid);
}

static void server_cancelled(void) {
    puts(outlive_request_is_cancelled(request) ? "ok yes" : "ok no");
}

static void server_wait_cancelled(void) {
    TRY(outlive_request_wait_cancelled(request, until(words[1])));
    OK();
}

static void server_next_part(void) {
    outlive_part_t *part = NULL;
    if (stream != NULL) TRY(outlive_stream_next_part(stream, until(words[1]), &part));
    else TRY(outlive_request_next_part(request, until(words[1]), &part));
    if (part == NULL) {
        puts("ok end");
        return;
    }
    say_shown(outlive_part_data(part), outlive_part_size(part));
    outlive_part_release(part);
}

static void server_reply(void) {
    make_message(words[1]);
    TRY(outlive_request_reply(asked(), message, message_size));
    OK();
}

static void server_reply_loan(void) {
    outlive_reply_loan_t *loan = NULL;
    make_message(words[1]);
    TRY(outlive_request_loan(asked(), message_size, &loan));
    memcpy(outlive_reply_loan_data(loan), message, message_size);
    TRY(outlive_reply_loan_send(loan));
    OK();
}

static void server_fail_loan(void) {
    outlive_reply_loan_t *loan = NULL;
    TRY(outlive_request_loan(asked(), strtoul(words[1], NULL, 10), &loan));
    TRY(outlive_reply_loan_fail(loan, words[2]));
    OK();
}

static void server_drop(void) {
    outlive_request_release(asked());
    OK();
}

static void server_send(void) {
    make_message(words[1]);
    TRY(outlive_stream_send(stream, message, message_size, until(words[2])));
    OK();
}

CALL(server_fail, outlive_request_fail(asked(), words[1]))
CALL(server_stream, outlive_request_stream(asked(), &stream))
CALL(server_finish, outlive_stream_finish(ended()))
CALL(server_fail_stream, outlive_stream_fail(ended(), words[1]))

CALL(client_prefault, outlive_client_prefault(it()->in, (size_t)number(words[2]), (size_t)number(words[3])))
CALL(server_prefault, outlive_server_prefault(it()->out, (size_t)number(words[2]), (size_t)number(words[3])))

const struct verb service_verbs[] = {
    V(client, prefault, 3), V(server, prefault, 3), V(server, watch_outside, 2),
    V(client, open, AT_LEAST(1)), V(client, call, 3), V(client, begin, 3), V(client, loan, 3),
    V(client, stream, 3), V(client, send, 2), V(client, finish, 0), V(client, let_go, 0),
    V(client, next, 1), V(client, failure, 0), V(client, alive, 1),
    V(server, watch, 2), V(server, event, 1), V(server, next_part, 1),
    V(server, open, AT_LEAST(1)), V(server, next, 2), V(server, client, 0), V(server, cancelled, 0), V(server, wait_cancelled, 1),
    V(server, reply, 1), V(server, reply_loan, 1), V(server, fail_loan, 2), V(server, fail, 1), V(server, fail_stream, 1), V(server, drop, 0),
    V(server, stream, 0), V(server, send, 2), V(server, finish, 0), END,
};
