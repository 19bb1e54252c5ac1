package outlive

// #include <outlive.h>
import "C"

import (
	"context"
	"sync/atomic"
	"time"
)

// Mutex is a lock that processes share, with bytes that it guards. When its holder dies, the next
// holder is told, and the guarded bytes are as the dead one left them.
type Mutex struct {
	handle
	c    *C.outlive_mutex_t
	size int
}

// LockOptions say how a [Mutex] or a [RWMutex] is opened.
type LockOptions struct {
	// How says whether the name must exist.
	How Opening
	// Size is how many bytes the lock guards, the same in every opening; [ErrOtherType] otherwise.
	Size int
	// Initial is a new lock's value, of Size bytes; nil: zeroes.
	Initial []byte
}

func (o *LockOptions) check() error {
	if o.Initial != nil && len(o.Initial) != o.Size || o.Size < 0 {
		return &Error{Code: ErrInvalid, Message: "a lock's initial value has its size"}
	}
	return nil
}

// OpenMutex opens the mutex of that name, or makes it. It is the same as a mutex of any other language
// with as many bytes.
func (d *Domain) OpenMutex(name string, options LockOptions) (*Mutex, error) {
	m := &Mutex{size: options.Size}
	if err := options.check(); err != nil {
		return nil, err
	}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_mutex_open(domain, name, options.How.c(), C.size_t(options.Size), address(options.Initial), &m.c)
	})
	if err != nil {
		return nil, err
	}
	m.release = func() { C.outlive_mutex_close(m.c) }
	return m, nil
}

// Guard is a mutex that a goroutine holds. The goroutine is locked to its thread until it unlocks.
type Guard struct {
	mutex *Mutex
	left  atomic.Bool
	died  bool
}

// Lock waits for the mutex. If an owner died with it and no holder has repaired it since, Lock returns
// [ErrOwnerDied] and does not hold it: call [Mutex.LockToRepair].
//
// Errors: [ErrNotRecoverable], [ErrDeadlock] (this goroutine holds it), [ErrTimedOut]; [ErrBusy] with
// [NoWait]; [ErrFirstThread], [ErrClosed].
//
// If the holder dies (its process at any instruction, or its goroutine by ending), the next caller to
// lock is told at once.
func (m *Mutex) Lock(ctx context.Context) (*Guard, error) {
	guard, err := m.LockToRepair(ctx)
	if err != nil || !guard.died {
		return guard, err
	}
	if err := guard.Unlock(); err != nil {
		return nil, err
	}
	return nil, diedUnrepaired()
}

func diedUnrepaired() error {
	return &Error{Code: ErrOwnerDied, Message: "an owner died with the lock, and no holder has repaired it"}
}

// LockToRepair waits for the mutex as [Mutex.Lock] does, and takes it after an owner's death, too;
// [Guard.OwnerDied] then returns true. The holder makes the value whole and calls [Guard.MarkConsistent].
func (m *Mutex) LockToRepair(ctx context.Context) (*Guard, error) {
	return m.take(func() error {
		return await(ctx, &m.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_mutex_lock_until(m.c, until)
		})
	})
}

// LockToReset takes a mutex in any state, recoverable or not. The holder makes the value whole, calls
// [Guard.MarkConsistent], and unlocks.
func (m *Mutex) LockToReset(ctx context.Context) (*Guard, error) {
	return m.take(func() error {
		return await(ctx, &m.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_mutex_lock_to_reset(m.c, until)
		})
	})
}

func (m *Mutex) take(lock func() error) (*Guard, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	err := pin()
	if err == nil {
		if err = lock(); err == nil || is(err, ErrOwnerDied) {
			return &Guard{mutex: m, died: err != nil}, nil
		}
		unpin()
	}
	m.leave()
	return nil, err
}

// Holder returns the thread that holds the mutex now, dead or alive; [ErrNothing]: none.
func (m *Mutex) Holder() (Peer, error) {
	var info C.outlive_peer_info_t
	err := m.inside(func() error { return do(func() C.int { return C.outlive_mutex_holder(m.c, &info) }) })
	if err != nil {
		return Peer{}, err
	}
	return peer(&info), nil
}

// Value returns the bytes that the mutex guards, in shared memory: for reading and writing, until
// Unlock. After that it returns nil, and a slice from before may change at any time.
func (g *Guard) Value() []byte {
	if g.left.Load() {
		return nil
	}
	return view(C.outlive_mutex_value(g.mutex.c), C.size_t(g.mutex.size))
}

// OwnerDied reports whether an owner died with the mutex and nothing has been repaired since.
func (g *Guard) OwnerDied() bool { return g.died }

// MarkConsistent says that the value is whole again.
func (g *Guard) MarkConsistent() error {
	return g.act(func() error {
		err := do(func() C.int { return C.outlive_mutex_consistent(g.mutex.c) })
		g.died = g.died && err != nil
		return err
	})
}

// Unlock gives the mutex back, in the goroutine that took it: in any other it returns [ErrNotOwner],
// and the mutex stays locked. After an owner's death and without [Guard.MarkConsistent], the next
// holder is told of that death again. Another Unlock has no effect.
func (g *Guard) Unlock() error {
	return g.end(func() C.int { return C.outlive_mutex_unlock(g.mutex.c) })
}

// MarkNotRecoverable unlocks. Every later Lock returns [ErrNotRecoverable], until a holder makes the
// value whole after [Mutex.LockToReset].
func (g *Guard) MarkNotRecoverable() error {
	return g.end(func() C.int { return C.outlive_mutex_mark_not_recoverable(g.mutex.c) })
}

func (g *Guard) act(act func() error) error {
	if g.left.Load() {
		return &Error{Code: ErrNotOwner, Message: "this guard has unlocked"}
	}
	return act()
}

func (g *Guard) end(unlock func() C.int) error {
	if g.left.Load() {
		return nil
	}
	if err := do(unlock); err != nil {
		return err
	}
	g.left.Store(true)
	unpin()
	g.mutex.leave()
	return nil
}

// Condvar is a condition variable that processes share.
type Condvar struct {
	handle
	c *C.outlive_condvar_t
}

// OpenCondvar opens the condition variable of that name, or makes it.
func (d *Domain) OpenCondvar(name string, how Opening) (*Condvar, error) {
	v := &Condvar{}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_condvar_open(domain, name, how.c(), &v.c)
	})
	if err != nil {
		return nil, err
	}
	v.release = func() { C.outlive_condvar_close(v.c) }
	return v, nil
}

// Wait unlocks the guard's mutex, waits for a notification, and locks it again. It may return without
// one, and does so every half second: look at the condition in a loop. [Guard.OwnerDied] tells whether
// the mutex was inherited meanwhile.
//
// Errors: [ErrTimedOut] and the context's: the mutex is held again. [ErrNotRecoverable]: it is not, and
// the guard has ended.
func (v *Condvar) Wait(ctx context.Context, guard *Guard) error {
	if ctx.Err() != nil && ctx != NoWait {
		return ended(ctx)
	}
	return v.inside(func() error {
		return guard.act(func() error { return v.wait(ctx, guard) })
	})
}

func (v *Condvar) wait(ctx context.Context, guard *Guard) error {
	// A notification between two slices would be lost on a call that waits on: so each slice ends in
	// a look at the condition, by the caller.
	bound := sliceOfClose
	if ctx.Done() != nil {
		bound = sliceOfContext
	}
	if deadline, bounded := ctx.Deadline(); bounded {
		bound = min(bound, max(time.Until(deadline), 0))
	}
	err := do(func() C.int {
		return C.outlive_condvar_wait_until(v.c, guard.mutex.c, C.outlive_after(C.uint64_t(bound)))
	})
	switch {
	case err == nil:
		return nil
	case is(err, ErrOwnerDied):
		guard.died = true
		return nil
	case is(err, ErrTimedOut):
		if ctx.Err() != nil {
			return ended(ctx)
		}
		return nil
	case is(err, ErrNotRecoverable):
		guard.left.Store(true)
		unpin()
		guard.mutex.leave()
	}
	return err
}

// NotifyOne wakes one waiter.
func (v *Condvar) NotifyOne() error {
	return v.inside(func() error { return do(func() C.int { return C.outlive_condvar_notify_one(v.c) }) })
}

// NotifyAll wakes all waiters.
func (v *Condvar) NotifyAll() error {
	return v.inside(func() error { return do(func() C.int { return C.outlive_condvar_notify_all(v.c) }) })
}
