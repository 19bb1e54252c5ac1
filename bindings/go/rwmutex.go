package outlive

// #include <outlive.h>
import "C"

import (
	"context"
	"sync/atomic"
)

// RWMutex is a lock for readers together or one writer alone, of all processes, with bytes that it
// guards.
type RWMutex struct {
	handle
	c    *C.outlive_rwlock_t
	size int
}

// OpenRWMutex opens the lock of that name, or makes it.
func (d *Domain) OpenRWMutex(name string, options LockOptions) (*RWMutex, error) {
	l := &RWMutex{size: options.Size}
	if err := options.check(); err != nil {
		return nil, err
	}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_rwlock_open(domain, name, options.How.c(), C.size_t(options.Size), address(options.Initial), &l.c)
	})
	if err != nil {
		return nil, err
	}
	l.release = func() { C.outlive_rwlock_close(l.c) }
	return l, nil
}

// Access is how a goroutine holds a [RWMutex].
type Access int

const (
	// Read: beside other readers.
	Read Access = iota
	// UpgradableRead: beside readers, as the only one that may become the writer.
	UpgradableRead
	// Write: alone.
	Write
)

// RWGuard is a [RWMutex] that the goroutine holds, which is locked to its thread meanwhile.
type RWGuard struct {
	lock *RWMutex
	left atomic.Bool
	died bool
}

// Lock waits for the lock. If a writer died with it and no holder has repaired it since, Lock returns
// [ErrOwnerDied] and does not hold it: call [RWMutex.LockToRepair]. Its errors are those of
// [Mutex.Lock]. A reader's death delays no other process.
func (l *RWMutex) Lock(ctx context.Context, access Access) (*RWGuard, error) {
	guard, err := l.LockToRepair(ctx, access)
	if err != nil || !guard.died {
		return guard, err
	}
	if err := guard.Unlock(); err != nil {
		return nil, err
	}
	return nil, diedUnrepaired()
}

// LockToRepair waits for the lock as [RWMutex.Lock] does, and holds it also after a writer's death:
// [RWGuard.OwnerDied] tells. The goroutine then holds it as a writer, whatever it asked for, makes the
// value whole and calls [RWGuard.MarkConsistent].
func (l *RWMutex) LockToRepair(ctx context.Context, access Access) (*RWGuard, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	err := pin()
	if err == nil {
		err = await(ctx, &l.handle, func(until C.outlive_deadline_t) C.int {
			switch access {
			case Read:
				return C.outlive_rwlock_read(l.c, until)
			case UpgradableRead:
				return C.outlive_rwlock_upgradable_read(l.c, until)
			default:
				return C.outlive_rwlock_write(l.c, until)
			}
		})
		if err == nil || is(err, ErrOwnerDied) {
			return &RWGuard{lock: l, died: err != nil}, nil
		}
		unpin()
	}
	l.leave()
	return nil, err
}

// Reset makes a lock usable again that was marked not recoverable, with this value, of the lock's
// size. The processes that use it have agreed on who does that: until it returns, no process can hold it.
func (l *RWMutex) Reset(ctx context.Context, value []byte) error {
	if len(value) != l.size {
		return &Error{Code: ErrInvalid, Message: "a lock's value has its size"}
	}
	return l.inside(func() error {
		copy(view(C.outlive_rwlock_value(l.c), C.size_t(l.size)), value)
		return await(ctx, &l.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_rwlock_reset(l.c, until)
		})
	})
}

// Value returns the bytes that the lock guards, in shared memory; write to them as a writer only.
func (g *RWGuard) Value() []byte {
	if g.left.Load() {
		return nil
	}
	return view(C.outlive_rwlock_value(g.lock.c), C.size_t(g.lock.size))
}

// OwnerDied reports whether a writer died with the lock and nothing has been repaired since.
func (g *RWGuard) OwnerDied() bool { return g.died }

// Upgrade makes an upgradable reader the writer, when the other readers have left; until then new
// readers wait.
//
// Errors: [ErrBusy]: of a plain reader; those of [RWMutex.Lock]. The goroutine then reads on.
func (g *RWGuard) Upgrade(ctx context.Context) error {
	return g.act(func() error {
		return await(ctx, &g.lock.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_rwlock_upgrade(g.lock.c, until)
		})
	})
}

// Downgrade makes a writer, or an upgradable reader, a reader.
func (g *RWGuard) Downgrade() error {
	return g.act(func() error { return do(func() C.int { return C.outlive_rwlock_downgrade(g.lock.c) }) })
}

// DowngradeToUpgradable makes a writer an upgradable reader.
func (g *RWGuard) DowngradeToUpgradable() error {
	return g.act(func() error {
		return do(func() C.int { return C.outlive_rwlock_downgrade_to_upgradable(g.lock.c) })
	})
}

// MarkConsistent says that the value is whole again.
func (g *RWGuard) MarkConsistent() error {
	return g.act(func() error {
		err := do(func() C.int { return C.outlive_rwlock_consistent(g.lock.c) })
		g.died = g.died && err != nil
		return err
	})
}

// Unlock gives the lock back, in the goroutine that took it: in any other it returns [ErrNotOwner], and
// the lock stays held.
func (g *RWGuard) Unlock() error {
	return g.end(func() C.int { return C.outlive_rwlock_unlock(g.lock.c) })
}

// MarkNotRecoverable unlocks, and every later locker gets [ErrNotRecoverable], until [RWMutex.Reset].
func (g *RWGuard) MarkNotRecoverable() error {
	return g.end(func() C.int { return C.outlive_rwlock_mark_not_recoverable(g.lock.c) })
}

func (g *RWGuard) act(act func() error) error {
	if g.left.Load() {
		return &Error{Code: ErrNotOwner, Message: "this guard has unlocked"}
	}
	return act()
}

func (g *RWGuard) end(unlock func() C.int) error {
	if g.left.Load() {
		return nil
	}
	if err := do(unlock); err != nil {
		return err
	}
	g.left.Store(true)
	unpin()
	g.lock.leave()
	return nil
}
