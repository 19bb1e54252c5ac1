/* `jobs.` */
#pragma once
#include "driver.hpp"

/* A job queue, and the job that was taken last. */
struct JobsOf {
    outlive::JobQueue queue;
    std::optional<outlive::Job> job{};

    outlive::Job taken() {
        outlive::Job taken = std::move(job.value());
        job.reset();
        return taken;
    }
};

class Jobs {
public:
    explicit Jobs(outlive::Domain &domain) : domain_(domain) {}

    string jobs(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            outlive_job_queue_options_t options = OUTLIVE_JOB_QUEUE_OPTIONS_INIT;
            options.max_jobs = static_cast<uint32_t>(option(args, "max", 0));
            options.max_attempts = static_cast<uint32_t>(option(args, "attempts", 0));
            jobs_.insert_or_assign(name, JobsOf{outlive::JobQueue::open_or_create(domain_, name, options).value()});
            return ok();
        }
        JobsOf &jobs = find(jobs_, name);
        if (verb == "put") return ok(jobs.queue.put(message(args.at(1)), until(args.at(2))).value());
        if (verb == "take") {
            jobs.job.emplace(jobs.queue.take(until(args.at(1))).value());
            return ok(show(jobs.job->bytes()) + " " + std::to_string(jobs.job->attempts()));
        }
        if (verb == "done") return jobs.taken().done().value(), ok();
        if (verb == "aside") return jobs.taken().set_aside().value(), ok();
        if (verb == "release") return jobs.taken().release(), ok();
        if (verb == "prefault") return jobs.queue.prefault(number(args.at(1))).value(), ok();
        if (verb == "join") return jobs.queue.join(until(args.at(1))).value(), ok();
        if (verb == "retry") {
            auto retried = jobs.queue.retry(number(args.at(1)));
            if (retried.code() == ENOENT) return ok(0);
            return retried.value(), ok(1);
        }
        if (verb == "count") {
            auto counts = jobs.queue.counts().value();
            if (args.at(1) == "waiting") return ok(counts.waiting);
            if (args.at(1) == "taken") return ok(counts.taken);
            if (args.at(1) == "set_aside") return ok(counts.set_aside);
            if (args.at(1) == "put") return ok(counts.put);
        }
        throw Wrong{"Usage", "jobs." + verb};
    }

private:
    outlive::Domain &domain_;
    Named<JobsOf> jobs_;
};
