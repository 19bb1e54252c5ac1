package outlive

// #include <outlive.h>
import "C"

import (
	"context"
	"sync/atomic"
)

// JobQueue hands each job to one worker. A killed worker's job goes to the next one.
type JobQueue struct {
	handle
	c *C.outlive_job_queue_t
}

// JobQueueOptions say how a [JobQueue] is opened. What is 0 takes what an existing one has, and in a
// new one the default.
type JobQueueOptions struct {
	// How says whether the name must exist.
	How Opening
	// MaxJobs is how many jobs it holds at most, 1 to 65,536.
	MaxJobs uint32
	// JobBytes is the most bytes of a job, 1 to 16 MiB.
	JobBytes uint32
	// MaxAttempts is how often a job is taken before it is set aside.
	MaxAttempts uint32
	// Wait says how this process waits.
	Wait WaitStrategy
}

// OpenJobQueue opens the job queue of that name, or makes it.
func (d *Domain) OpenJobQueue(name string, options JobQueueOptions) (*JobQueue, error) {
	q := &JobQueue{}
	given := C.outlive_job_queue_options_t{
		size:         C.sizeof_outlive_job_queue_options_t,
		max_jobs:     C.uint32_t(options.MaxJobs),
		job_bytes:    C.uint32_t(options.JobBytes),
		max_attempts: C.uint32_t(options.MaxAttempts),
		wait:         C.uint32_t(options.Wait),
	}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_job_queue_open(domain, name, options.How.c(), &given, &q.c)
	})
	if err != nil {
		return nil, err
	}
	q.release = func() { C.outlive_job_queue_close(q.c) }
	return q, nil
}

// Put puts a job into the queue, waiting while it is full, and returns its number.
func (q *JobQueue) Put(ctx context.Context, data []byte) (uint64, error) {
	var id C.uint64_t
	err := q.inside(func() error {
		return await(ctx, &q.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_job_queue_put(q.c, address(data), C.size_t(len(data)), until, &id)
		})
	})
	return uint64(id), err
}

// Job is a job that this process has taken, with a copy of its data.
type Job struct {
	c     *C.outlive_job_t
	ended atomic.Bool
	// ID is its number.
	ID uint64
	// Attempts is how often it was taken, this time included.
	Attempts int
	// Data is the job.
	Data []byte
}

// Take takes a job. If this process dies before [Job.Done], another worker gets it.
func (q *JobQueue) Take(ctx context.Context) (*Job, error) {
	job := &Job{}
	err := q.inside(func() error {
		return await(ctx, &q.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_job_queue_take(q.c, until, &job.c)
		})
	})
	if err != nil {
		return nil, err
	}
	var size C.size_t
	data := C.outlive_job_data(job.c, &size)
	job.Data = append([]byte{}, view(data, size)...)
	job.ID = uint64(C.outlive_job_id(job.c))
	job.Attempts = int(C.outlive_job_attempts(job.c))
	return job, nil
}

// Done acknowledges the job: it is gone, also after an error.
func (j *Job) Done() error {
	return j.end(func() error { return do(func() C.int { return C.outlive_job_done(j.c) }) })
}

// SetAside puts the job with those that no worker gets until it is retried.
func (j *Job) SetAside() error {
	return j.end(func() error { return do(func() C.int { return C.outlive_job_set_aside(j.c) }) })
}

// Close gives the job back, unless it has ended.
func (j *Job) Close() error {
	if j.ended.Swap(true) {
		return nil
	}
	C.outlive_job_release(j.c)
	return nil
}

func (j *Job) end(act func() error) error {
	if j.ended.Swap(true) {
		return ErrClosed
	}
	return act()
}

// Join waits until no job waits or is taken.
func (q *JobQueue) Join(ctx context.Context) error {
	return q.inside(func() error {
		return await(ctx, &q.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_job_queue_join(q.c, until)
		})
	})
}

// Prefault makes room for so many jobs before they are put.
func (q *JobQueue) Prefault(jobs int) error {
	return q.inside(func() error {
		return do(func() C.int { return C.outlive_job_queue_prefault(q.c, C.size_t(jobs)) })
	})
}

// Retry lets a job be taken again that is set aside; [ErrNotFound]: none of that number is.
func (q *JobQueue) Retry(id uint64) error {
	return q.inside(func() error {
		return do(func() C.int { return C.outlive_job_queue_retry(q.c, C.uint64_t(id)) })
	})
}

// JobCounts count the jobs of a queue: exact when it is quiet.
type JobCounts struct {
	// Waiting are those to be taken, Taken those that living workers have, SetAside those set aside.
	Waiting, Taken, SetAside int
	// Put is how many jobs have ever been put.
	Put uint64
}

// Counts counts the jobs.
func (q *JobQueue) Counts() (JobCounts, error) {
	var c C.outlive_job_counts_t
	err := q.inside(func() error { return do(func() C.int { return C.outlive_job_queue_counts(q.c, &c) }) })
	return JobCounts{Waiting: int(c.waiting), Taken: int(c.taken), SetAside: int(c.set_aside), Put: uint64(c.put)}, err
}
