package main

import (
	"context"
	"io"

	"outlive"
)

var ways = map[string]outlive.Opening{
	"open": outlive.Open, "create_new": outlive.CreateNew, "open_or_create": outlive.OpenOrCreate,
}

// opened is a verb that opens in one of the three ways, with a number, and closes. few: whose maker must
// say one.
func opened(few bool, open func(name string, how outlive.Opening, given int) (io.Closer, error)) verb {
	return func(w []string) (any, error) {
		how, given := ways[w[0]], 0
		if len(w) > 2 {
			given = int(number(w[2]))
		} else if few && how != outlive.Open {
			given = 1
		}
		thing, err := open(w[1], how, given)
		if err == nil {
			thing.Close()
		}
		return nil, err
	}
}

func init() {
	family("open", map[string]verb{
		"mutex": opened(false, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenMutex(name, outlive.LockOptions{How: how, Size: 8})
		}),
		"rwlock": opened(false, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenRWMutex(name, outlive.LockOptions{How: how, Size: 8})
		}),
		"condvar": opened(false, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenCondvar(name, how)
		}),
		"event": opened(false, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenEvent(name, how, outlive.Reset(given))
		}),
		"latch": opened(true, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenLatch(name, how, given)
		}),
		"semaphore": opened(true, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenSemaphore(name, outlive.SemaphoreOptions{How: how, Permits: given})
		}),
		"barrier": opened(true, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenBarrier(name, how, given, outlive.DeathAny)
		}),
		"state": opened(false, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenState(name, outlive.StateOptions{How: how, Capacity: given})
		}),
		"queue": opened(false, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenQueue(name, outlive.QueueOptions{How: how, MaxBytes: uint64(given)})
		}),
		"topic": opened(false, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenTopic(name, outlive.TopicOptions{How: how, MaxBytes: uint64(given)})
		}),
		"service": opened(false, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenClient(name, outlive.ServiceOptions{How: how, MaxBytes: uint64(given)})
		}),
		"pool": opened(false, func(name string, how outlive.Opening, given int) (io.Closer, error) {
			return domain.OpenPool(name, outlive.PoolOptions{How: how, MaxBytes: uint64(given)})
		}),
	})
	impossible := func([]string) (any, error) { return whole("impossible"), nil }
	family("misuse", map[string]verb{
		// A name is a string, a message bytes, a handle one of its type, and a span a context.
		"name": impossible, "message": impossible, "handle": impossible, "timeout": impossible,
		"number": func([]string) (any, error) {
			_, err := domain.OpenEvent("misused-event", outlive.OpenOrCreate, 7)
			return nil, err
		},
		"unlock": func([]string) (any, error) {
			mutex, err := domain.OpenMutex("misused-lock", outlive.LockOptions{Size: 8})
			if err != nil {
				return nil, err
			}
			held, err := mutex.Lock(context.Background())
			if err != nil {
				return nil, err
			}
			defer held.Unlock()
			// In another goroutine, and so in another thread.
			refused := make(chan error)
			go func() { refused <- held.Unlock() }()
			return nil, <-refused
		},
	})
}
