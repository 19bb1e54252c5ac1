package outlive

// #include <outlive.h>
import "C"

import "context"

// Event is 31 bits to wait for.
type Event struct {
	handle
	c *C.outlive_event_t
}

// Reset says what becomes of an event's bits.
type Reset uint32

const (
	// ResetAny takes an existing event as it is; a new one is [ResetManual].
	ResetAny Reset = 0
	// ResetManual: bits stay set until they are cleared.
	ResetManual Reset = C.OUTLIVE_RESET_MANUAL
	// ResetAutomatic: a waiter clears the bits that it waited for.
	ResetAutomatic Reset = C.OUTLIVE_RESET_AUTOMATIC
)

// OpenEvent opens the event of that name, or makes it.
func (d *Domain) OpenEvent(name string, how Opening, reset Reset) (*Event, error) {
	e := &Event{}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_event_open(domain, name, how.c(), C.uint32_t(reset), &e.c)
	})
	if err != nil {
		return nil, err
	}
	e.release = func() { C.outlive_event_close(e.c) }
	return e, nil
}

// Set sets bits and wakes those that wait for them. What was set stays set when its setter dies.
func (e *Event) Set(bits uint32) error {
	return e.inside(func() error {
		return do(func() C.int { return C.outlive_event_set(e.c, C.uint32_t(bits), nil) })
	})
}

// Clear clears bits.
func (e *Event) Clear(bits uint32) error {
	return e.inside(func() error {
		return do(func() C.int { return C.outlive_event_clear(e.c, C.uint32_t(bits), nil) })
	})
}

// Bits returns the bits that are set.
func (e *Event) Bits() uint32 {
	var bits uint32
	_ = e.inside(func() error {
		bits = uint32(C.outlive_event_bits(e.c))
		return nil
	})
	return bits
}

// WaitAny waits until one of the bits is set, and returns those of them that are.
func (e *Event) WaitAny(ctx context.Context, bits uint32) (uint32, error) {
	var seen C.uint32_t
	err := e.inside(func() error {
		return await(ctx, &e.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_event_wait_any(e.c, C.uint32_t(bits), until, &seen)
		})
	})
	return uint32(seen), err
}

// WaitAll waits until all of the bits are set.
func (e *Event) WaitAll(ctx context.Context, bits uint32) (uint32, error) {
	var seen C.uint32_t
	err := e.inside(func() error {
		return await(ctx, &e.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_event_wait_all(e.c, C.uint32_t(bits), until, &seen)
		})
	})
	return uint32(seen), err
}

// Latch is a number of arrivals to wait for.
type Latch struct {
	handle
	c *C.outlive_latch_t
}

// OpenLatch opens the latch of that name, or makes it. With [Open], arrivals may be 0: as it is.
func (d *Domain) OpenLatch(name string, how Opening, arrivals int) (*Latch, error) {
	l := &Latch{}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_latch_open(domain, name, how.c(), C.uint32_t(arrivals), &l.c)
	})
	if err != nil {
		return nil, err
	}
	l.release = func() { C.outlive_latch_close(l.c) }
	return l, nil
}

// Arrive counts arrivals, and returns how many are missing now.
func (l *Latch) Arrive(arrivals int) (missing int, err error) {
	var left C.uint32_t
	err = l.inside(func() error {
		return do(func() C.int { return C.outlive_latch_arrive(l.c, C.uint32_t(arrivals), &left) })
	})
	return int(left), err
}

// Wait waits until all have arrived.
func (l *Latch) Wait(ctx context.Context) error {
	return l.inside(func() error {
		return await(ctx, &l.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_latch_wait(l.c, until)
		})
	})
}
