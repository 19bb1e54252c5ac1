package outlive

// #include <outlive.h>
import "C"

import "context"

// No semaphore has more permits: outlive.h.
const mostPermits = 1 << 16

// Semaphore is a number of permits that processes share. The permits of a process that dies, or of a
// goroutine that ends, come back.
type Semaphore struct {
	handle
	c *C.outlive_semaphore_t
}

// SemaphoreOptions say how a [Semaphore] is opened.
type SemaphoreOptions struct {
	// How says whether the name must exist.
	How Opening
	// Permits is how many a new one has. An existing one must have as many, unless this is 0.
	Permits int
	// MaxPermits is how many it may have by [Semaphore.Add]; 0: Permits.
	MaxPermits int
}

// OpenSemaphore opens the semaphore of that name, or makes it.
func (d *Domain) OpenSemaphore(name string, options SemaphoreOptions) (*Semaphore, error) {
	if options.Permits < 0 || options.Permits > mostPermits || options.MaxPermits < 0 || options.MaxPermits > mostPermits {
		return nil, &Error{Code: ErrInvalid, Message: "a semaphore has 1 to 65,536 permits"}
	}
	s := &Semaphore{}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_semaphore_open(domain, name, options.How.c(), C.uint32_t(options.Permits),
			C.uint32_t(options.MaxPermits), &s.c)
	})
	if err != nil {
		return nil, err
	}
	s.release = func() { C.outlive_semaphore_close(s.c) }
	return s, nil
}

// Acquire takes that many permits, all or none, and locks the goroutine to its thread until it has
// given them back.
//
// Errors: [ErrTimedOut]; [ErrBusy] or [ErrWouldBlock] with [NoWait]; [ErrOverflow]: there never are so many;
// [ErrDeadlock]: this goroutine has so many that it waits for itself; [ErrFirstThread].
func (s *Semaphore) Acquire(ctx context.Context, permits int) error {
	if permits < 1 {
		return &Error{Code: ErrInvalid, Message: "permits are taken by ones"}
	}
	if permits > mostPermits {
		return &Error{Code: ErrOverflow, Message: "a semaphore has at most 65,536 permits"}
	}
	if err := s.enter(); err != nil {
		return err
	}
	err := pinMany(permits)
	if err == nil {
		err = await(ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			if permits == 1 {
				return C.outlive_semaphore_acquire(s.c, until, nil)
			}
			return C.outlive_semaphore_acquire_many(s.c, C.uint32_t(permits), until, nil)
		})
		if err == nil {
			s.stay(permits - 1)
			return nil
		}
		unpinMany(permits)
	}
	s.leave()
	return err
}

// Release gives back the permits that this goroutine took last, so many. [ErrNotOwner]: it has fewer,
// and keeps them.
func (s *Semaphore) Release(permits int) error {
	if permits < 1 {
		return &Error{Code: ErrInvalid, Message: "permits are given back by ones"}
	}
	if permits > mostPermits {
		return &Error{Code: ErrNotOwner, Message: "no goroutine has so many permits"}
	}
	return s.stays(func() error {
		err := do(func() C.int { return C.outlive_semaphore_release_many(s.c, C.uint32_t(permits)) })
		if err == nil {
			unpinMany(permits)
			s.leaveMany(permits)
		}
		return err
	})
}

// Add adds a permit, which no goroutine had, up to the semaphore's most: else [ErrOverflow].
func (s *Semaphore) Add() error {
	return s.inside(func() error { return do(func() C.int { return C.outlive_semaphore_add(s.c) }) })
}

// Available returns how many permits are free.
func (s *Semaphore) Available() int {
	free := 0
	_ = s.inside(func() error {
		free = int(C.outlive_semaphore_available_permits(s.c))
		return nil
	})
	return free
}
