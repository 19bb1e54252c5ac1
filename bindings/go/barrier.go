package outlive

// #include <outlive.h>
import "C"

import (
	"context"
	"sync/atomic"
)

// Barrier is a point where participants of all processes wait for one another, which knows who they
// are.
type Barrier struct {
	handle
	c *C.outlive_barrier_t
}

// WhenOneDies says what a participant's death does to a barrier.
type WhenOneDies uint32

const (
	// DeathAny takes an existing barrier as it is; a new one is [DeathBreaks].
	DeathAny WhenOneDies = 0
	// DeathBreaks: the others get [ErrBroken].
	DeathBreaks WhenOneDies = C.OUTLIVE_DEATH_BREAKS
	// DeathCountsOut: the others go on.
	DeathCountsOut WhenOneDies = C.OUTLIVE_DEATH_COUNTS_OUT
)

// OpenBarrier opens the barrier of that name, or makes it. With [Open], parties may be 0: as it is.
func (d *Domain) OpenBarrier(name string, how Opening, parties int, when WhenOneDies) (*Barrier, error) {
	if parties < 0 || parties > mostPermits {
		return nil, &Error{Code: ErrInvalid, Message: "a barrier has 1 to 65,536 parties"}
	}
	b := &Barrier{}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_barrier_open(domain, name, how.c(), C.uint32_t(parties), C.uint32_t(when), &b.c)
	})
	if err != nil {
		return nil, err
	}
	b.release = func() { C.outlive_barrier_close(b.c) }
	return b, nil
}

// Seat is a participation, by the goroutine that took it, which is locked to its thread until it leaves.
type Seat struct {
	barrier *Barrier
	left    atomic.Bool
}

// Join takes a seat. Errors: [ErrTooMany]: all are taken. [ErrBroken], [ErrFirstThread].
func (b *Barrier) Join() (*Seat, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	err := pin()
	if err == nil {
		if err = do(func() C.int { return C.outlive_barrier_join(b.c) }); err == nil {
			return &Seat{barrier: b}, nil
		}
		unpin()
	}
	b.leave()
	return nil, err
}

// Turn is what a participant is told when a phase has begun.
type Turn struct {
	// Index is its seat's number, which no other participant has.
	Index int
	// Leader: one participant of each phase.
	Leader bool
}

func turnOf(turn *C.outlive_turn_t) Turn {
	return Turn{Index: int(turn.index), Leader: turn.leader != 0}
}

// Wait arrives, and waits until all participants have. When the context has ended, the arrival counts:
// wait again, or call [Seat.AbortWait].
//
// Errors: [ErrBroken]: a participant died, or the barrier was aborted or reset; [ErrTimedOut].
func (s *Seat) Wait(ctx context.Context) (Turn, error) {
	if s.left.Load() {
		return Turn{}, &Error{Code: ErrNotOwner, Message: "this seat was given back"}
	}
	var turn C.outlive_turn_t
	wait := func(until C.outlive_deadline_t) C.int {
		return C.outlive_barrier_wait(s.barrier.c, until, &turn)
	}
	// Also of a context that has ended already: what a participant promised the others must not hang on
	// how busy the machine is.
	err := await(NoWait, &s.barrier.handle, wait)
	if ctx != NoWait && is(err, ErrTimedOut) {
		err = await(ctx, &s.barrier.handle, wait)
	}
	return turnOf(&turn), err
}

// AbortWait breaks the phase in which this seat has arrived, unless all have arrived meanwhile.
func (s *Seat) AbortWait() (Turn, error) {
	if s.left.Load() {
		return Turn{}, &Error{Code: ErrNotOwner, Message: "this seat was given back"}
	}
	var turn C.outlive_turn_t
	err := do(func() C.int { return C.outlive_barrier_abort_wait(s.barrier.c, &turn) })
	return turnOf(&turn), err
}

// Leave gives the seat back. Leaving again has no effect.
func (s *Seat) Leave() error {
	if s.left.Load() {
		return nil
	}
	if err := do(func() C.int { return C.outlive_barrier_leave(s.barrier.c) }); err != nil {
		return err
	}
	s.left.Store(true)
	unpin()
	s.barrier.leave()
	return nil
}

// Abort breaks the barrier: those that wait get [ErrBroken].
func (b *Barrier) Abort() error {
	return b.inside(func() error { return do(func() C.int { return C.outlive_barrier_abort(b.c) }) })
}

// Reset makes the barrier empty and whole: those that wait get [ErrBroken].
func (b *Barrier) Reset(ctx context.Context) error {
	return b.inside(func() error {
		return await(ctx, &b.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_barrier_reset(b.c, until)
		})
	})
}

// Repair makes a broken barrier whole, and ends no wait of a whole one.
func (b *Barrier) Repair(ctx context.Context) error {
	return b.inside(func() error {
		return await(ctx, &b.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_barrier_repair(b.c, until)
		})
	})
}

// BarrierState is what a barrier is like just now.
type BarrierState struct {
	// Parties is how many seats there are.
	Parties int
	// Waiting is how many have arrived and wait.
	Waiting int
	// Broken: by a death or an abort.
	Broken bool
}

// State returns what the barrier is like just now.
func (b *Barrier) State() (BarrierState, error) {
	var state C.outlive_barrier_state_t
	err := b.inside(func() error { return do(func() C.int { return C.outlive_barrier_state(b.c, &state) }) })
	return BarrierState{Parties: int(state.parties), Waiting: int(state.waiting), Broken: state.broken != 0}, err
}
