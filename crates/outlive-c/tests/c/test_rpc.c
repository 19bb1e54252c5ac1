/* Requests and replies: calls, streams; servers and clients are killed. */
#include "testing.h"

#include <fcntl.h>
#include <sys/mman.h>

static outlive_server_t *server;
static outlive_client_t *client;
/* Shared with the server: it has taken the request that hangs. */
static volatile int *begun;

/* Doubles numbers; some have a meaning of their own: 0 ends it, 13 is dropped, 14 fails, 99 hangs, 1000 is answered by twenty, 1001
 * by one and a failure. */
static void serve(void) {
    OK(outlive_server_open(domain, "double", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    tell();
    for (uint64_t number = 1; number != 0;) {
        outlive_request_t *request = NULL;
        OK(outlive_server_next(server, SOON, &request));
        CHECK(outlive_request_size(request) == sizeof number);
        memcpy(&number, outlive_request_data(request), sizeof number);
        if (number == 13) {
            outlive_request_release(request);
            continue;
        }
        if (number == 14) {
            OK(outlive_request_fail(request, "14 is not to be doubled"));
            continue;
        }
        if (number == 99) {
            if (begun != NULL) *begun = 1;
            for_ever();
        }
        if (number == 1001) {
            outlive_stream_t *stream = NULL;
            OK(outlive_request_stream(request, &stream));
            OK(outlive_stream_send(stream, &number, sizeof number, SOON));
            OK(outlive_stream_fail(stream, "no more than one"));
            continue;
        }
        if (number == 1000) {
            outlive_stream_t *stream = NULL;
            OK(outlive_request_stream(request, &stream));
            for (uint64_t at = 0; at < 20; at++) OK(outlive_stream_send(stream, &at, sizeof at, SOON));
            OK(outlive_stream_finish(stream));
            continue;
        }
        outlive_peer_info_t info;
        OK(outlive_request_client(request, &info));
        CHECK(info.pid == (uint32_t)getppid() && (number == 4 || !outlive_request_is_cancelled(request)));
        number *= 2;
        int code = outlive_request_reply(request, &number, sizeof number);
        CHECK(code == 0 || (number == 8 && code == ECANCELED));
    }
    outlive_server_close(server);
}

static void serve_late(void) {
    sleep_ms(50);
    serve();
}

static void stand_by(void) {
    outlive_service_options_t standing_by = OUTLIVE_SERVICE_OPTIONS_INIT;
    standing_by.serve_by = SOON;
    tell();
    OK(outlive_server_open(domain, "double", OUTLIVE_OPEN, &standing_by, &server));
    outlive_request_t *request = NULL;
    OK(outlive_server_next(server, SOON, &request));
    OK(outlive_request_reply(request, outlive_request_data(request), outlive_request_size(request)));
    outlive_server_close(server);
}

static int ask(uint64_t number, uint64_t *answer) {
    outlive_reply_t *reply = NULL;
    int code = outlive_client_call(client, &number, sizeof number, SOON, &reply);
    CHECK((code == 0) == (reply != NULL));
    if (code == 0) {
        CHECK(outlive_reply_size(reply) == sizeof *answer);
        memcpy(answer, outlive_reply_data(reply), sizeof *answer);
        outlive_reply_release(reply);
    }
    return code;
}

/* A server is killed, and the process that stands by takes over. */
static void the_next_one_takes_over(void) {
    pid_t first = start(serve);
    hear();
    pid_t next = start(stand_by);
    hear();
    outlive_service_options_t waiting = OUTLIVE_SERVICE_OPTIONS_INIT;
    waiting.wait_for_server = 1;
    OK(outlive_client_open(domain, "double", OUTLIVE_OPEN, &waiting, &client));
    uint64_t answer = 0;
    OK(ask(21, &answer));
    CHECK(answer == 42);
    kill_it(first);
    OK(ask(21, &answer));
    CHECK(answer == 21);
    outlive_client_close(client);
    join(next);
}

/* Two servers share the load: what one does not take, the other takes. */
static void two_servers(void) {
    outlive_service_options_t two = OUTLIVE_SERVICE_OPTIONS_INIT;
    two.max_servers = 2;
    outlive_server_t *first = NULL, *second = NULL, *third = NULL;
    OK(outlive_server_open(domain, "shared", OUTLIVE_CREATE_NEW, &two, &first));
    OK(outlive_server_open(domain, "shared", OUTLIVE_OPEN, NULL, &second));
    IS(EBUSY, outlive_server_open(domain, "shared", OUTLIVE_OPEN, NULL, &third));
    two.max_servers = 3;
    IS(EINVAL, outlive_server_open(domain, "shared", OUTLIVE_OPEN, &two, &third));
    OK(outlive_client_open(domain, "shared", OUTLIVE_OPEN, NULL, &client));
    outlive_call_t *calls[2] = { NULL, NULL };
    outlive_server_t *servers[2] = { first, second };
    for (int k = 0; k < 2; k++) {
        OK(outlive_client_begin(client, "question", 8, SOON, &calls[k]));
    }
    for (int k = 0; k < 2; k++) {
        outlive_request_t *request = NULL;
        OK(outlive_server_next(servers[k], SOON, &request));
        OK(outlive_request_reply(request, &k, sizeof k));
    }
    for (int k = 0; k < 2; k++) {
        outlive_reply_t *reply = NULL;
        OK(outlive_call_next(calls[k], SOON, &reply));
        CHECK(outlive_reply_size(reply) == sizeof k && memcmp(outlive_reply_data(reply), &k, sizeof k) == 0);
        outlive_reply_release(reply);
        outlive_call_release(calls[k]);
    }
    outlive_client_close(client);
    outlive_server_close(first);
    outlive_server_close(second);
}

static void a_client(void) {
    OK(outlive_client_open(domain, "watched", OUTLIVE_OPEN, NULL, &client));
    tell();
    for (;;) pause();
}

/* A server is told of a client that does nothing, and of one that died. */
static void clients_watched(void) {
    outlive_client_watch_t *outside = NULL, *watch = NULL;
    outlive_peer_info_t who;
    uint32_t event = 0;
    OK(outlive_server_open(domain, "watched", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    OK(outlive_server_watch_clients(server, 20000000, &watch));
    IS(ENOENT, outlive_client_watch_open(domain, "nothing", 20000000, &outside));
    OK(outlive_client_watch_open(domain, "watched", 20000000, &outside));
    IS(EAGAIN, outlive_client_watch_next(outside, OUTLIVE_TRY, &event, &who));
    IS(EAGAIN, outlive_client_watch_next(watch, OUTLIVE_TRY, &event, &who));
    IS(EINVAL, outlive_client_watch_next(NULL, OUTLIVE_TRY, &event, &who));
    OK(outlive_client_open(domain, "watched", OUTLIVE_OPEN, NULL, &client));
    OK(outlive_client_watch_next(watch, SOON, &event, &who));
    CHECK(event == OUTLIVE_CLIENT_NOT_LIVELY && who.pid == (uint32_t)getpid());
    OK(outlive_client_watch_next(outside, SOON, &event, &who));
    CHECK(event == OUTLIVE_CLIENT_NOT_LIVELY && who.pid == (uint32_t)getpid());
    outlive_client_watch_close(outside);
    outlive_client_assert_liveliness(client);
    OK(outlive_client_watch_next(watch, SOON, &event, &who));
    CHECK(event == OUTLIVE_CLIENT_LIVELY && who.alive);
    CHECK(outlive_client_watch_lapses(watch) == 1 && outlive_client_watch_deaths(watch) == 0);
    outlive_client_close(client);
    outlive_client_watch_close(watch);

    OK(outlive_server_watch_clients(server, UINT64_MAX, &watch));
    pid_t child = start(a_client);
    hear();
    outlive_wait_set_t *set = NULL;
    outlive_ready_t ready;
    size_t count = 0;
    uint64_t key = 0;
    OK(outlive_wait_set_open(domain, &set));
    OK(outlive_wait_set_add_client_watch(set, watch, &key));
    kill_it(child);
    OK(outlive_wait_set_wait(set, &ready, 1, &count, SOON));
    CHECK(count == 1 && ready.key == key && ready.what == OUTLIVE_CHANGED);
    OK(outlive_client_watch_next(watch, OUTLIVE_TRY, &event, &who));
    CHECK(event == OUTLIVE_CLIENT_DIED && who.pid == (uint32_t)child);
    CHECK(outlive_client_watch_deaths(watch) == 1);
    outlive_wait_set_close(set);
    outlive_client_watch_close(watch);
    outlive_server_close(server);
}

static void ordinary(void) {
    pid_t child = start(serve);
    hear();
    OK(outlive_client_open(domain, "double", OUTLIVE_OPEN_OR_CREATE, NULL, &client));
    outlive_server_t *second = NULL;
    IS(EBUSY, outlive_server_open(domain, "double", OUTLIVE_OPEN_OR_CREATE, NULL, &second));
    outlive_service_options_t standing_by = OUTLIVE_SERVICE_OPTIONS_INIT;
    standing_by.serve_by = outlive_after_ms(5);
    IS(EBUSY, outlive_server_open(domain, "double", OUTLIVE_OPEN, &standing_by, &second));
    uint64_t answer = 0;
    OK(ask(21, &answer));
    CHECK(answer == 42);
    IS(ECONNABORTED, ask(13, &answer));
    IS(OUTLIVE_FAILED, ask(14, &answer));
    CHECK(strcmp(outlive_last_error(), "14 is not to be doubled") == 0);

    outlive_call_t *call = NULL;
    outlive_reply_t *one = NULL;
    uint64_t number = 1001;
    OK(outlive_client_begin(client, &number, sizeof number, SOON, &call));
    OK(outlive_call_next(call, SOON, &one));
    outlive_reply_release(one);
    IS(OUTLIVE_FAILED, outlive_call_next(call, SOON, &one));
    CHECK(one == NULL && strcmp(outlive_last_error(), "no more than one") == 0);
    outlive_call_release(call);

    number = 1000;
    OK(outlive_client_begin(client, &number, sizeof number, SOON, &call));
    for (uint64_t at = 0; at < 20; at++) {
        outlive_reply_t *reply = NULL;
        OK(outlive_call_next(call, SOON, &reply));
        CHECK(outlive_reply_size(reply) == sizeof at && memcmp(outlive_reply_data(reply), &at, sizeof at) == 0);
        outlive_reply_release(reply);
    }
    outlive_reply_t *none = NULL;
    OK(outlive_call_next(call, SOON, &none));
    CHECK(none == NULL);
    outlive_call_release(call);
    /* Cancelled: begun or not. */
    number = 4;
    OK(outlive_client_begin(client, &number, sizeof number, SOON, &call));
    outlive_call_release(call);
    OK(ask(0, &answer));
    join(child);
    IS(ENOTCONN, ask(1, &answer));
    outlive_client_close(client);
}

static pid_t doomed;

/* Once the call has begun. */
static void *kill_later(void *nothing) {
    while (!*begun) sleep_ms(1);
    kill_it(doomed);
    return nothing;
}

static void server_killed(void) {
    void *shared = mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    begun = shared;
    doomed = start(serve);
    hear();
    OK(outlive_client_open(domain, "double", OUTLIVE_OPEN_OR_CREATE, NULL, &client));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
    uint64_t answer = 0;
    /* Begun: it may have done something. */
    IS(ECONNRESET, ask(99, &answer));
    CHECK(pthread_join(thread, NULL) == 0);
    IS(EPIPE, ask(1, &answer));
    /* The next one takes over; the calls of a client that waits for a server wait for it. */
    outlive_client_close(client);
    outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
    options.wait_for_server = 1;
    OK(outlive_client_open(domain, "double", OUTLIVE_OPEN_OR_CREATE, &options, &client));
    pid_t child = start(serve_late);
    OK(ask(50, &answer));
    CHECK(answer == 100);
    hear();
    outlive_call_t *call = NULL;
    outlive_reply_t *reply = NULL;
    uint64_t number = 99;
    OK(outlive_client_begin(client, &number, sizeof number, SOON, &call));
    IS(EAGAIN, outlive_call_next(call, OUTLIVE_TRY, &reply));
    IS(ETIMEDOUT, outlive_call_next(call, outlive_after_ms(5), &reply));
    outlive_call_release(call);
    outlive_client_close(client);
    kill_it(child);
}

static void call_and_hold(void) {
    OK(outlive_client_open(domain, "double", OUTLIVE_OPEN_OR_CREATE, NULL, &client));
    outlive_call_t *call = NULL;
    uint64_t number = 1;
    OK(outlive_client_begin(client, &number, sizeof number, SOON, &call));
    tell();
    for_ever();
}

static void client_killed(void) {
    OK(outlive_server_open(domain, "double", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    pid_t child = start(call_and_hold);
    hear();
    outlive_request_t *request = NULL;
    OK(outlive_server_next(server, SOON, &request));
    IS(ETIMEDOUT, outlive_request_wait_cancelled(request, OUTLIVE_TRY));
    outlive_wait_set_t *set = NULL;
    uint64_t key = 0;
    outlive_ready_t ready;
    size_t count = 0;
    OK(outlive_wait_set_open(domain, &set));
    OK(outlive_wait_set_add_request(set, request, &key));
    kill_it(child);
    OK(outlive_request_wait_cancelled(request, SOON));
    OK(outlive_wait_set_wait(set, &ready, 1, &count, SOON));
    CHECK(count == 1 && ready.key == key && ready.what == OUTLIVE_ENDED);
    outlive_wait_set_close(set);
    CHECK(outlive_request_is_cancelled(request));
    outlive_stream_t *stream = NULL;
    OK(outlive_request_stream(request, &stream));
    OK(outlive_wait_set_open(domain, &set));
    OK(outlive_wait_set_add_stream(set, stream, &key));
    OK(outlive_wait_set_wait(set, &ready, 1, &count, SOON));
    CHECK(count == 1 && ready.key == key && ready.what == OUTLIVE_ENDED);
    outlive_wait_set_close(set);
    int code = 0;
    for (int at = 0; at < 20 && code == 0; at++) code = outlive_stream_send(stream, "x", 1, SOON);
    CHECK(code == EPIPE || code == ECANCELED);
    outlive_stream_release(stream);
    IS(EAGAIN, outlive_server_next(server, OUTLIVE_TRY, &request));
    IS(ETIMEDOUT, outlive_server_next(server, outlive_after_ms(5), &request));
    outlive_server_close(server);
}

static void answer_in_place(void) {
    OK(outlive_server_open(domain, "blur", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    tell();
    for (int round = 0; round < 2; round++) {
        outlive_request_t *request = NULL;
        outlive_reply_loan_t *loan = NULL;
        OK(outlive_server_next(server, SOON, &request));
        size_t size = outlive_request_size(request), asked = 0;
        OK(outlive_request_loan(request, size, &loan));
        const unsigned char *from = outlive_reply_loan_request(loan, &asked);
        unsigned char *to = outlive_reply_loan_data(loan);
        CHECK(asked == size && to != from && (uintptr_t)to % 8 == 0);
        for (size_t at = 0; at < size; at++) to[at] = (unsigned char)(from[at] + 1);
        OK(outlive_reply_loan_send(loan));
    }
    /* What was asked may be the answer. */
    outlive_request_t *request = NULL;
    OK(outlive_server_next(server, SOON, &request));
    OK(outlive_request_reply(request, outlive_request_data(request), outlive_request_size(request)));
    outlive_reply_loan_t *loan = NULL;
    OK(outlive_server_next(server, SOON, &request));
    OK(outlive_request_loan(request, 5000, &loan));
    outlive_reply_loan_release(loan);
    OK(outlive_server_next(server, SOON, &request));
    OK(outlive_request_loan(request, 5000, &loan));
    OK(outlive_reply_loan_fail(loan, "no light"));
    outlive_server_close(server);
}

static void written_in_place(void) {
    pid_t child = start(answer_in_place);
    hear();
    OK(outlive_client_open(domain, "blur", OUTLIVE_OPEN, NULL, &client));
    for (size_t size = 100; size <= 1000000; size *= 10000) {
        outlive_request_loan_t *loan = NULL;
        outlive_reply_t *reply = NULL;
        OK(outlive_client_loan(client, size, SOON, &loan));
        memset(outlive_request_loan_data(loan), 6, size);
        OK(outlive_request_loan_call(loan, SOON, &reply));
        const unsigned char *bytes = outlive_reply_data(reply);
        CHECK(outlive_reply_size(reply) == size && bytes[0] == 7 && bytes[size - 1] == 7);
        outlive_reply_release(reply);
    }
    outlive_request_loan_t *loan = NULL;
    outlive_call_t *call = NULL;
    outlive_reply_t *reply = NULL;
    OK(outlive_client_loan(client, 3000, SOON, &loan));
    memset(outlive_request_loan_data(loan), 8, 3000);
    OK(outlive_request_loan_begin(loan, SOON, &call));
    OK(outlive_call_next(call, SOON, &reply));
    const unsigned char *bytes = outlive_reply_data(reply);
    CHECK(outlive_reply_size(reply) == 3000 && bytes[0] == 8 && bytes[2999] == 8);
    outlive_reply_release(reply);
    outlive_call_release(call);
    OK(outlive_client_loan(client, 100000, SOON, &loan));
    outlive_request_loan_release(loan);
    IS(ECONNABORTED, outlive_client_call(client, "x", 1, SOON, &reply));
    IS(OUTLIVE_FAILED, outlive_client_call(client, "x", 1, SOON, &reply));
    CHECK(strcmp(outlive_last_error(), "no light") == 0);
    IS(EINVAL, outlive_client_loan(NULL, 1, SOON, &loan));
    IS(EINVAL, outlive_request_loan_call(NULL, SOON, &reply));
    IS(EINVAL, outlive_reply_loan_send(NULL));
    IS(EINVAL, outlive_reply_loan_fail(NULL, "why"));
    CHECK(outlive_reply_loan_data(NULL) == NULL && outlive_request_loan_data(NULL) == NULL);
    outlive_client_close(client);
    join(child);
}

/* Waits in a set of one source, and checks what it is ready for. */
static void is_ready(outlive_wait_set_t *set, uint64_t key, uint32_t what) {
    outlive_ready_t ready;
    size_t count = 0;
    OK(outlive_wait_set_wait(set, &ready, 1, &count, SOON));
    CHECK(count == 1 && ready.key == key && (uint32_t)ready.what == what);
}

static void is_idle(outlive_wait_set_t *set) {
    outlive_ready_t ready;
    size_t count = 0;
    IS(EAGAIN, outlive_wait_set_wait(set, &ready, 1, &count, OUTLIVE_TRY));
}

static void parts_in_place_and_in_sets(void) {
    OK(outlive_server_open(domain, "film", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    OK(outlive_client_open(domain, "film", OUTLIVE_OPEN, NULL, &client));
    outlive_request_stream_t *film = NULL;
    outlive_request_t *request = NULL;
    outlive_stream_t *stream = NULL;
    outlive_wait_set_t *arriving = NULL, *arrives = NULL, *answers = NULL;
    uint64_t part_key = 0, stream_key = 0, answer_key = 0;
    OK(outlive_client_stream(client, "film", 4, SOON, &film));
    OK(outlive_server_next(server, SOON, &request));
    OK(outlive_wait_set_open(domain, &arriving));
    OK(outlive_wait_set_open(domain, &arrives));
    OK(outlive_wait_set_open(domain, &answers));
    OK(outlive_wait_set_add_parts(arriving, request, &part_key));
    OK(outlive_wait_set_add_request_stream(answers, film, &answer_key));
    is_idle(arriving);
    is_idle(answers);
    outlive_part_loan_t *loan = NULL;
    outlive_part_t *part = NULL;
    OK(outlive_request_stream_loan(film, 100000, SOON, &loan));
    outlive_part_loan_release(loan);
    OK(outlive_request_stream_loan(film, 100000, OUTLIVE_TRY, &loan));
    memset(outlive_part_loan_data(loan), 7, 100000);
    OK(outlive_request_stream_send_loan(film, loan));
    is_ready(arriving, part_key, OUTLIVE_READABLE);
    OK(outlive_request_next_part(request, SOON, &part));
    const unsigned char *bytes = outlive_part_data(part);
    CHECK(outlive_part_size(part) == 100000 && bytes[0] == 7 && bytes[99999] == 7);
    is_idle(arriving);
    OK(outlive_request_stream(request, &stream));
    OK(outlive_wait_set_add_stream_parts(arrives, stream, &stream_key));
    outlive_stream_loan_t *answer = NULL;
    OK(outlive_stream_loan(stream, 50000, SOON, &answer));
    memcpy(outlive_stream_loan_data(answer), bytes, 50000);
    OK(outlive_stream_send_loan(stream, answer));
    outlive_part_release(part);
    OK(outlive_stream_loan(stream, 3, SOON, &answer));
    memcpy(outlive_stream_loan_data(answer), "end", 3);
    OK(outlive_stream_send_loan(stream, answer));
    outlive_reply_t *reply = NULL;
    is_ready(answers, answer_key, OUTLIVE_READABLE);
    OK(outlive_request_stream_next(film, SOON, &reply));
    bytes = outlive_reply_data(reply);
    CHECK(outlive_reply_size(reply) == 50000 && bytes[49999] == 7);
    outlive_reply_release(reply);
    OK(outlive_request_stream_next(film, SOON, &reply));
    CHECK(outlive_reply_size(reply) == 3 && memcmp(outlive_reply_data(reply), "end", 3) == 0);
    outlive_reply_release(reply);
    is_idle(answers);
    /* One loan more than there are places. */
    outlive_part_loan_t *loans[9] = {NULL};
    for (int at = 0; at < 9; at++) OK(outlive_request_stream_loan(film, 100, OUTLIVE_TRY, &loans[at]));
    for (int at = 0; at < 8; at++) OK(outlive_request_stream_send_loan(film, loans[at]));
    IS(EAGAIN, outlive_request_stream_send_loan(film, loans[8]));
    outlive_request_stream_release(film);
    is_ready(arrives, stream_key, OUTLIVE_ENDED);
    IS(ECANCELED, outlive_stream_loan(stream, 1, SOON, &answer));
    outlive_stream_release(stream);
    IS(EINVAL, outlive_wait_set_add_parts(arriving, NULL, &part_key));
    IS(EINVAL, outlive_request_stream_loan(NULL, 1, SOON, &loan));
    IS(EINVAL, outlive_request_stream_send_loan(NULL, NULL));
    IS(EINVAL, outlive_stream_send_loan(NULL, NULL));
    CHECK(outlive_part_loan_data(NULL) == NULL && outlive_stream_loan_data(NULL) == NULL);
    outlive_wait_set_close(arriving);
    outlive_wait_set_close(arrives);
    outlive_wait_set_close(answers);
    outlive_client_close(client);
    outlive_server_close(server);
}

static void bad_arguments(void) {
    outlive_request_t *request = NULL;
    outlive_reply_t *reply = NULL;
    IS(EINVAL, outlive_server_open(domain, "a/b", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    IS(EINVAL, outlive_server_next(NULL, SOON, &request));
    IS(EINVAL, outlive_client_call(NULL, "x", 1, SOON, &reply));
    IS(EINVAL, outlive_request_reply(NULL, "x", 1));
    IS(EINVAL, outlive_request_fail(NULL, "why"));
    IS(EINVAL, outlive_stream_finish(NULL));
    IS(EINVAL, outlive_stream_fail(NULL, "why"));
    OK(outlive_client_open(domain, "double", OUTLIVE_OPEN_OR_CREATE, NULL, &client));
    IS(EINVAL, outlive_client_call(client, NULL, 1, SOON, &reply));
    IS(EINVAL, outlive_client_call(client, "x", 1, SOON, NULL));
    IS(EINVAL, outlive_call_next(NULL, SOON, &reply));
    CHECK(outlive_reply_data(NULL) == NULL && outlive_request_size(NULL) == 0);
    outlive_client_close(client);
    outlive_client_close(NULL);
    outlive_call_release(NULL);
}

/* A thread whose token was declared dead can be neither client nor server: the name stays free. */
static void no_service_is_left_by_one_that_cannot_use_it(void) {
    uint32_t token = 0, generation = 0;
    OK(outlive_domain_token(domain, &token));
    /* The token's slot of the registry, as if it had been given out once more: doc/memory-layout.md. */
    char path[128];
    snprintf(path, sizeof path, "%s/.tokens", folder);
    off_t place = 16384 + (off_t)(token & 0xffff) * 128 + 48;
    int registry = open(path, O_RDWR);
    CHECK(registry >= 0 && pread(registry, &generation, sizeof generation, place) == sizeof generation);
    generation++;
    CHECK(pwrite(registry, &generation, sizeof generation, place) == sizeof generation);
    close(registry);
    IS(EIDRM, outlive_client_open(domain, "new", OUTLIVE_CREATE_NEW, NULL, &client));
    IS(ENOENT, outlive_domain_remove(domain, "new"));
    IS(EIDRM, outlive_server_open(domain, "new", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    IS(ENOENT, outlive_domain_remove(domain, "new"));
}

TESTS(TEST(no_service_is_left_by_one_that_cannot_use_it), TEST(ordinary), TEST(the_next_one_takes_over), TEST(two_servers), TEST(clients_watched), TEST(server_killed), TEST(client_killed), TEST(written_in_place), TEST(parts_in_place_and_in_sets), TEST(bad_arguments))
