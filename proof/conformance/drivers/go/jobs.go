package main

import (
	"errors"
	"fmt"

	"outlive"
)

var (
	jobQueues = map[string]*outlive.JobQueue{}
	jobs      = map[string]*outlive.Job{}
)

func init() {
	family("jobs", map[string]verb{
		"open": func(w []string) (any, error) {
			queue, err := domain.OpenJobQueue(w[0], outlive.JobQueueOptions{
				MaxJobs: uint32(option(w, "max")), MaxAttempts: uint32(option(w, "attempts")),
			})
			jobQueues[w[0]] = queue
			return nil, err
		},
		"put": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			return jobQueues[w[0]].Put(ctx, message(w[1]))
		},
		"take": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			job, err := jobQueues[w[0]].Take(ctx)
			if err != nil {
				return nil, err
			}
			jobs[w[0]] = job
			return fmt.Sprintf("%s %d", show(job.Data), job.Attempts), nil
		},
		"done":    func(w []string) (any, error) { return nil, jobs[w[0]].Done() },
		"aside":   func(w []string) (any, error) { return nil, jobs[w[0]].SetAside() },
		"release": func(w []string) (any, error) { return nil, jobs[w[0]].Close() },
		"join": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			return nil, jobQueues[w[0]].Join(ctx)
		},
		"prefault": func(w []string) (any, error) { return nil, jobQueues[w[0]].Prefault(int(number(w[1]))) },
		"retry": func(w []string) (any, error) {
			err := jobQueues[w[0]].Retry(number(w[1]))
			if errors.Is(err, outlive.ErrNotFound) {
				return 0, nil
			}
			return 1, err
		},
		"count": func(w []string) (any, error) {
			counts, err := jobQueues[w[0]].Counts()
			return map[string]uint64{
				"waiting": uint64(counts.Waiting), "taken": uint64(counts.Taken),
				"set_aside": uint64(counts.SetAside), "put": counts.Put,
			}[w[1]], err
		},
	})
}
