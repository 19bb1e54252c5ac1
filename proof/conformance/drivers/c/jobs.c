/* `jobs.` A queue's `in` is the job that was taken last. */
#include "driver.h"

static void jobs_open(void) {
    outlive_job_queue_options_t options = OUTLIVE_JOB_QUEUE_OPTIONS_INIT;
    outlive_job_queue_t *queue = NULL;
    uint64_t given = 0;
    if (option(2, "max", &given)) options.max_jobs = (uint32_t)given;
    if (option(2, "attempts", &given)) options.max_attempts = (uint32_t)given;
    TRY(outlive_job_queue_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &options, &queue));
    it()->main = queue;
    OK();
}

static void jobs_put(void) {
    uint64_t id = 0;
    make_message(words[2]);
    TRY(outlive_job_queue_put(it()->main, message, message_size, until(words[3]), &id));
    say_number(id);
}

static void jobs_take(void) {
    outlive_job_t *job = NULL;
    char attempts[16];
    size_t size = 0;
    TRY(outlive_job_queue_take(it()->main, until(words[2]), &job));
    it()->in = job;
    const void *data = outlive_job_data(job, &size);
    snprintf(attempts, sizeof attempts, "%u", (unsigned)outlive_job_attempts(job));
    say_shown_and(data, size, attempts);
}

/* The job that was taken; a verb ends it. */
static outlive_job_t *taken(void) {
    outlive_job_t *job = it()->in;
    it()->in = NULL;
    return job;
}

CALL(jobs_done, outlive_job_done(taken()))
CALL(jobs_aside, outlive_job_set_aside(taken()))
CALL(jobs_prefault, outlive_job_queue_prefault(it()->main, (size_t)number(words[2])))
CALL(jobs_join, outlive_job_queue_join(it()->main, until(words[2])))

static void jobs_release(void) {
    outlive_job_release(taken());
    OK();
}

static void jobs_retry(void) {
    int code = outlive_job_queue_retry(it()->main, number(words[2]));
    if (code != 0 && code != ENOENT) fail(code);
    else say_number(code == 0);
}

static void jobs_count(void) {
    outlive_job_counts_t counts;
    TRY(outlive_job_queue_counts(it()->main, &counts));
    if (strcmp(words[2], "waiting") == 0) say_number(counts.waiting);
    else if (strcmp(words[2], "taken") == 0) say_number(counts.taken);
    else if (strcmp(words[2], "set_aside") == 0) say_number(counts.set_aside);
    else if (strcmp(words[2], "put") == 0) say_number(counts.put);
    else usage("jobs.count");
}

const struct verb job_verbs[] = {
    V(jobs, open, AT_LEAST(1)), V(jobs, put, 3), V(jobs, take, 2), V(jobs, done, 1), V(jobs, aside, 1),
    V(jobs, release, 1), V(jobs, join, 2), V(jobs, prefault, 2), V(jobs, retry, 2), V(jobs, count, 2), END,
};
