/* Job queues: put, taken, done; workers are killed. */
#include "testing.h"

static outlive_job_queue_t *queue;

static void open_queue(uint32_t max_jobs, uint32_t max_attempts) {
    outlive_job_queue_options_t options = OUTLIVE_JOB_QUEUE_OPTIONS_INIT;
    options.max_jobs = max_jobs;
    options.max_attempts = max_attempts;
    OK(outlive_job_queue_open(domain, "jobs", OUTLIVE_OPEN_OR_CREATE, &options, &queue));
}

static void close_queue(void) {
    outlive_job_queue_close(queue);
    queue = NULL;
}

static outlive_job_t *take(const char *wanted, uint32_t attempts) {
    outlive_job_t *job = NULL;
    OK(outlive_job_queue_take(queue, SOON, &job));
    size_t size = 77;
    const void *data = outlive_job_data(job, &size);
    CHECK(size == strlen(wanted) && memcmp(data, wanted, size) == 0);
    CHECK(outlive_job_attempts(job) == attempts);
    return job;
}

static void ordinary(void) {
    open_queue(0, 0);
    uint64_t id = 77;
    OK(outlive_job_queue_put(queue, "one", 3, SOON, &id));
    CHECK(id == 0);
    OK(outlive_job_queue_put(queue, NULL, 0, OUTLIVE_TRY, NULL));
    outlive_job_t *job = take("one", 1);
    CHECK(outlive_job_id(job) == 0);
    outlive_job_counts_t counts;
    OK(outlive_job_queue_counts(queue, &counts));
    CHECK(counts.waiting == 1 && counts.taken == 1 && counts.put == 2 && counts.set_aside == 0 && counts.being_put == 0);
    IS(ETIMEDOUT, outlive_job_queue_join(queue, OUTLIVE_TRY));
    OK(outlive_job_done(job));
    outlive_job_release(take("", 1));
    OK(outlive_job_done(take("", 2)));
    OK(outlive_job_queue_join(queue, SOON));
    job = (outlive_job_t *)&counts;
    IS(EAGAIN, outlive_job_queue_take(queue, OUTLIVE_TRY, &job));
    CHECK(job == NULL);
    IS(ETIMEDOUT, outlive_job_queue_take(queue, outlive_after_ms(5), &job));
    close_queue();
}

static void full(void) {
    open_queue(1, 0);
    OK(outlive_job_queue_put(queue, "one", 3, SOON, NULL));
    IS(EAGAIN, outlive_job_queue_put(queue, "two", 3, OUTLIVE_TRY, NULL));
    IS(ETIMEDOUT, outlive_job_queue_put(queue, "two", 3, outlive_after_ms(5), NULL));
    char large[5000] = {0};
    IS(EMSGSIZE, outlive_job_queue_put(queue, large, sizeof large, SOON, NULL));
    close_queue();
}

static void have_one(void) {
    take("one", 1);
    tell();
    for_ever();
}

static void worker_killed(void) {
    open_queue(0, 0);
    OK(outlive_job_queue_put(queue, "one", 3, SOON, NULL));
    OK(outlive_job_queue_put(queue, "two", 3, SOON, NULL));
    pid_t worker = start(have_one);
    hear();
    kill_it(worker);
    OK(outlive_job_done(take("one", 2)));
    OK(outlive_job_done(take("two", 1)));
    OK(outlive_job_queue_join(queue, SOON));
    close_queue();
}

static void set_aside(void) {
    open_queue(0, 1);
    OK(outlive_job_queue_put(queue, "poison", 6, SOON, NULL));
    OK(outlive_job_queue_put(queue, "bad", 3, SOON, NULL));
    outlive_job_release(take("poison", 1));
    OK(outlive_job_set_aside(take("bad", 1)));
    outlive_set_aside_t job;
    char buffer[6];
    IS(EMSGSIZE, outlive_job_queue_set_aside(queue, 0, &job, buffer, 3));
    CHECK(job.id == 0 && job.size == 6);
    OK(outlive_job_queue_set_aside(queue, 0, &job, buffer, sizeof buffer));
    CHECK(job.id == 0 && job.attempts == 1 && !job.is_damaged && job.size == 6 && memcmp(buffer, "poison", 6) == 0);
    OK(outlive_job_queue_set_aside(queue, 1, &job, buffer, sizeof buffer));
    CHECK(job.id == 1 && job.size == 3);
    IS(ENOENT, outlive_job_queue_set_aside(queue, 2, &job, buffer, sizeof buffer));
    OK(outlive_job_queue_discard(queue, 1));
    IS(ENOENT, outlive_job_queue_discard(queue, 1));
    IS(ENOENT, outlive_job_queue_retry(queue, 1));
    OK(outlive_job_queue_retry(queue, 0));
    OK(outlive_job_done(take("poison", 1)));
    close_queue();
}

static outlive_job_t *parents;

static void use_parents(void) { IS(EPERM, outlive_job_done(parents)); }

static void forked(void) {
    open_queue(0, OUTLIVE_NO_LIMIT);
    OK(outlive_job_queue_put(queue, "one", 3, SOON, NULL));
    parents = take("one", 1);
    join(start(use_parents));
    close(news[0]);
    OK(outlive_job_done(parents));
    close_queue();
}

static void bad_arguments(void) {
    outlive_job_t *job = NULL;
    size_t size = 0;
    IS(EINVAL, outlive_job_queue_open(NULL, "x", OUTLIVE_OPEN_OR_CREATE, NULL, &queue));
    IS(EINVAL, outlive_job_queue_put(NULL, "x", 1, SOON, NULL));
    IS(EINVAL, outlive_job_queue_take(NULL, SOON, &job));
    IS(EINVAL, outlive_job_done(NULL));
    IS(EINVAL, outlive_job_set_aside(NULL));
    CHECK(outlive_job_data(NULL, &size) == NULL && outlive_job_id(NULL) == 0 && outlive_job_attempts(NULL) == 0);
    outlive_job_release(NULL);
    outlive_job_queue_close(NULL);
    open_queue(0, 0);
    IS(EINVAL, outlive_job_queue_put(queue, NULL, 1, SOON, NULL));
    IS(EINVAL, outlive_job_queue_take(queue, SOON, NULL));
    IS(EINVAL, outlive_job_queue_counts(queue, NULL));
    close_queue();
    outlive_job_queue_options_t options = OUTLIVE_JOB_QUEUE_OPTIONS_INIT;
    options.max_jobs = 7;
    IS(EINVAL, outlive_job_queue_open(domain, "jobs", OUTLIVE_OPEN, &options, &queue));
}

TESTS(TEST(ordinary), TEST(full), TEST(worker_killed), TEST(set_aside), TEST(forked), TEST(bad_arguments))
