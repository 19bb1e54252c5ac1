/* After prefault, a loop makes no page fault and no system call: a filter kills it at the first one. */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "testing.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* From now on, any system call of this process kills it, but for the count itself and the end. */
static void forbid_system_calls(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_getrusage, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static long faults(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0) _exit(98);
    return usage.ru_minflt + usage.ru_majflt;
}

static outlive_mutex_t *mutex;
static outlive_publisher_t *publisher;
static outlive_subscriber_t *subscriber;
static outlive_sender_t *sender;
static outlive_receiver_t *receiver;
static outlive_pool_t *pool;
static outlive_state_t *state;
static outlive_state_writer_t *writer;
static outlive_job_queue_t *jobs;
static char message[1000], received[1000];

/* Returns 0, or in which step it failed. */
static int turn(void) {
    uint64_t sequence = 0;
    outlive_sample_t *sample = NULL;
    outlive_loan_t *loan = NULL;
    void *data = NULL;
    size_t size = 0;
    if (outlive_mutex_lock(mutex) != 0 || outlive_mutex_unlock(mutex) != 0) return 1;
    if (outlive_publisher_loan(publisher, sizeof message, &loan, &data) != 0) return 2;
    memcpy(data, message, sizeof message);
    if (outlive_publisher_publish(publisher, loan, OUTLIVE_NEVER, &sequence) != 0) return 3;
    if (outlive_subscriber_recv(subscriber, &sample, OUTLIVE_TRY) != 0) return 4;
    if (((const char *)outlive_sample_data(sample))[999] != 'x') return 5;
    outlive_sample_release(sample);
    if (outlive_sender_send(sender, message, sizeof message, OUTLIVE_TRY) != 0) return 6;
    if (outlive_receiver_recv(receiver, received, sizeof received, &size, OUTLIVE_TRY) != 0) return 7;
    if (outlive_pool_alloc(pool, sizeof message, 0, &data) != 0 || outlive_pool_free(pool, data) != 0) return 8;
    uint64_t value = 7, got = 0;
    outlive_job_t *job = NULL;
    if (outlive_state_writer_set(writer, &value, sizeof value, NULL) != 0) return 9;
    if (outlive_state_get(state, &got, sizeof got, &size, NULL) != 0 || got != 7) return 10;
    if (outlive_job_queue_put(jobs, message, 100, OUTLIVE_TRY, NULL) != 0) return 11;
    if (outlive_job_queue_take(jobs, OUTLIVE_TRY, &job) != 0 || outlive_job_done(job) != 0) return 12;
    return 0;
}

static void loop(void) {
    outlive_topic_t *topic = NULL;
    outlive_queue_t *queue = NULL;
    OK(outlive_mutex_open(domain, "mutex", OUTLIVE_OPEN_OR_CREATE, 8, NULL, &mutex));
    OK(outlive_topic_open(domain, "topic", OUTLIVE_OPEN_OR_CREATE, NULL, &topic));
    OK(outlive_queue_open(domain, "queue", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    OK(outlive_pool_open(domain, "pool", OUTLIVE_OPEN_OR_CREATE, NULL, &pool));
    OK(outlive_state_open_fixed(domain, "state", OUTLIVE_OPEN_OR_CREATE, 8, NULL, &state));
    OK(outlive_state_writer(state, OUTLIVE_TRY, &writer));
    OK(outlive_job_queue_open(domain, "jobs", OUTLIVE_OPEN_OR_CREATE, NULL, &jobs));
    OK(outlive_topic_publisher(topic, NULL, &publisher));
    OK(outlive_topic_subscriber(topic, NULL, &subscriber));
    OK(outlive_queue_sender(queue, &sender));
    OK(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
    memset(message, 'x', sizeof message);
    memset(received, 'y', sizeof received);
    OK(outlive_publisher_prefault(publisher, 2, sizeof message));
    OK(outlive_queue_prefault(queue, 16, sizeof message));
    OK(outlive_pool_prefault(pool, 16, sizeof message));
    OK(outlive_state_writer_prefault(writer, 4));
    OK(outlive_job_queue_prefault(jobs, 16));
    IS(ENOSPC, outlive_state_writer_prefault(writer, 65));
    IS(ENOSPC, outlive_job_queue_prefault(jobs, 1 << 30));
    OK(outlive_domain_prefault(domain, 64 << 10));
    /* What the program itself resolves at its first call. */
    CHECK(turn() == 0);
    faults();
    tell();
    forbid_system_calls();
    long before = faults();
    for (int count = 0; count < 100000; count++) {
        int failed = turn();
        if (failed != 0) _exit(10 + failed);
    }
    _exit(faults() == before ? 0 : 1);
}

static void no_fault_and_no_system_call(void) {
#ifdef __SANITIZE_ADDRESS__
    /* The sanitizer has memory of its own. */
    return;
#endif
    pid_t child = start(loop);
    hear();
    join(child);
}

static void services_and_errors(void) {
    outlive_client_t *client = NULL;
    outlive_server_t *server = NULL;
    outlive_queue_t *queue = NULL;
    outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
    OK(outlive_server_open(domain, "service", OUTLIVE_OPEN_OR_CREATE, NULL, &server));
    OK(outlive_client_open(domain, "service", OUTLIVE_OPEN, NULL, &client));
    OK(outlive_client_prefault(client, 4, 10000));
    OK(outlive_server_prefault(server, 4, 10000));
    options.max_bytes = 1 << 20;
    OK(outlive_queue_open(domain, "small", OUTLIVE_OPEN_OR_CREATE, &options, &queue));
    IS(ENOSPC, outlive_queue_prefault(queue, 1 << 20, 8));
    IS(EINVAL, outlive_domain_prefault(domain, (size_t)1 << 40));
    IS(EINVAL, outlive_domain_prefault(NULL, 0));
    IS(EINVAL, outlive_pool_prefault(NULL, 1, 1));
    IS(EINVAL, outlive_state_writer_prefault(NULL, 1));
    IS(EINVAL, outlive_job_queue_prefault(NULL, 1));
    OK(outlive_domain_lock_memory(domain, 4096));
    outlive_queue_close(queue);
    outlive_client_close(client);
    outlive_server_close(server);
}

TESTS(TEST(no_fault_and_no_system_call), TEST(services_and_errors))
