/* Job queues: many producers, many workers; a killed worker's job goes to another. */
#ifndef OUTLIVE_JOBS_HPP
#define OUTLIVE_JOBS_HPP

#include <vector>

#include "queue.hpp"

namespace outlive {

/** A job that this process has taken. One that is destroyed before `done` is given back: so an
 * exception loses no job. */
class Job {
public:
    std::span<const std::byte> bytes() const noexcept {
        size_t size = 0;
        const void *data = outlive_job_data(raw(), &size);
        return {static_cast<const std::byte *>(data), size};
    }
    size_t size() const noexcept { return bytes().size(); }
    std::string_view text() const noexcept { return text_of(bytes()); }
    /** Returns the job as a value; throws an `Error` (OUTLIVE_OTHER_TYPE) if it has another size. */
    template <class T> T as() const { return detail::value_of<T>(bytes()); }
    /** Returns the job's number, which no other job of its queue has. */
    uint64_t id() const noexcept { return outlive_job_id(raw()); }
    /** Returns how often the job has been taken, this time included. */
    uint32_t attempts() const noexcept { return outlive_job_attempts(raw()); }

    /** Acknowledges the job: it is done, and gone. EPERM: another worker may have it. */
    expected<void> done() && { return detail::done(outlive_job_done(handle_.release())); }
    /** Sets the job aside, however often it has been taken. */
    expected<void> set_aside() && { return detail::done(outlive_job_set_aside(handle_.release())); }
    /** Gives the job back: it is taken again, or set aside at the limit of attempts. */
    void release() && { outlive_job_release(handle_.release()); }

    outlive_job_t *raw() const noexcept { return handle_.get(); }

private:
    friend class JobQueue;
    explicit Job(outlive_job_t *handle) : handle_(handle) {}
    detail::Handle<outlive_job_t, outlive_job_release> handle_;
};

/** A copy of a job that is set aside. */
struct SetAside {
    uint64_t id;
    uint32_t attempts;
    /** A stray write has damaged the job's length; the bytes are what lies in its place. */
    bool is_damaged;
    std::vector<std::byte> bytes;
};

/** A job queue. All threads may use it at once. */
class JobQueue : public detail::WithOptions<JobQueue, detail::NoCalls, outlive_job_queue_t, outlive_job_queue_options_t,
                                            outlive_job_queue_open, outlive_job_queue_close> {
public:
    /** Puts a copy of a job, and returns its number. ETIMEDOUT, EAGAIN: full. After a success the
     * job outlives this process. */
    template <Message M> expected<uint64_t> put(const M &job, Deadline deadline = never) {
        auto bytes = bytes_of(job);
        uint64_t id = 0;
        if (int code = outlive_job_queue_put(raw(), bytes.data(), bytes.size(), deadline.raw(), &id)) return Failure::last(code);
        return id;
    }
    /** Takes the next job. ETIMEDOUT, EAGAIN: there is none. */
    expected<Job> take(Deadline deadline = never) {
        outlive_job_t *handle = nullptr;
        if (int code = outlive_job_queue_take(raw(), deadline.raw(), &handle)) return Failure::last(code);
        return Job(handle);
    }
    /** Waits until all jobs are done or set aside. */
    expected<void> join(Deadline deadline = never) { return detail::done(outlive_job_queue_join(raw(), deadline.raw())); }
    /** Makes room for so many jobs, and brings it into this process: no page fault and no system call as
     * long as no more of them are in the queue. ENOSPC: no room for all of it. */
    expected<void> prefault(size_t jobs) { return detail::done(outlive_job_queue_prefault(raw(), jobs)); }
    expected<outlive_job_counts_t> counts() const {
        outlive_job_counts_t counts{};
        if (int code = outlive_job_queue_counts(raw(), &counts)) return Failure::last(code);
        return counts;
    }
    /** Returns copies of the jobs that are set aside, in the order in which they were put. */
    expected<std::vector<SetAside>> set_aside() const {
        std::vector<SetAside> jobs;
        std::vector<std::byte> bytes(256);
        uint64_t from = 0;
        for (;;) {
            outlive_set_aside_t job{};
            int code = outlive_job_queue_set_aside(raw(), from, &job, bytes.data(), bytes.size());
            if (code == ENOENT) return jobs;
            if (code == EMSGSIZE && job.size > bytes.size()) {
                bytes.resize(job.size);
                continue;
            }
            if (code != 0) return Failure::last(code);
            auto end = bytes.begin() + static_cast<std::ptrdiff_t>(job.size);
            jobs.push_back({job.id, job.attempts, job.is_damaged != 0, {bytes.begin(), end}});
            if (job.id == UINT64_MAX) return jobs; // a stray write: no job comes after it
            from = job.id + 1;
        }
    }
    /** Lets a job that is set aside be taken again; ENOENT: it is not set aside. */
    expected<void> retry(uint64_t id) { return detail::done(outlive_job_queue_retry(raw(), id)); }
    /** Removes a job that is set aside for good; ENOENT: it is not set aside. */
    expected<void> discard(uint64_t id) { return detail::done(outlive_job_queue_discard(raw(), id)); }

private:
    using WithOptions::WithOptions;
};

} // namespace outlive

#endif
