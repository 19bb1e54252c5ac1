package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"outlive"
)

// guard is what both kinds of guards do.
type guard interface {
	Value() []byte
	OwnerDied() bool
	MarkConsistent() error
	MarkNotRecoverable() error
	Unlock() error
}

var (
	mutexes  = map[string]*outlive.Mutex{}
	rwlocks  = map[string]*outlive.RWMutex{}
	condvars = map[string]*outlive.Condvar{}
	guards   = map[string]guard{}
)

func eight(word string) []byte { return binary.NativeEndian.AppendUint64(nil, number(word)) }

func value(held guard) uint64 { return binary.NativeEndian.Uint64(held.Value()) }

// got keeps a lock that was taken.
func got[G guard](name string, held G, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	guards[name] = held
	return told(held), nil
}

func told(held guard) whole {
	how := "ok"
	if held.OwnerDied() {
		how = "owner-died"
	}
	return whole(fmt.Sprintf("%s %d", how, value(held)))
}

// held returns the lock of that name, or what the library says of one that is not held.
func held(name string) (guard, error) {
	if held := guards[name]; held != nil {
		return held, nil
	}
	return nil, &outlive.Error{Code: outlive.ErrNotOwner, Message: "not held"}
}

func with(act func(held guard, w []string) error) verb {
	return func(w []string) (any, error) {
		held, err := held(w[0])
		if err != nil {
			return nil, err
		}
		return nil, act(held, w)
	}
}

// common are the verbs of all locks.
func common(family map[string]verb) map[string]verb {
	family["set"] = with(func(held guard, w []string) error { copy(held.Value(), eight(w[1])); return nil })
	family["consistent"] = with(func(held guard, w []string) error { return held.MarkConsistent() })
	family["mark_not_recoverable"] = with(func(held guard, w []string) error { return held.MarkNotRecoverable() })
	family["unlock"] = with(func(held guard, w []string) error { return held.Unlock() })
	return family
}

func lock(name, span string) (*outlive.Guard, error) {
	ctx, cancel := until(span)
	defer cancel()
	return mutexes[name].LockToRepair(ctx)
}

func access(access outlive.Access) verb {
	return func(w []string) (any, error) {
		ctx, cancel := until(w[1])
		defer cancel()
		held, err := rwlocks[w[0]].LockToRepair(ctx, access)
		return got(w[0], held, err)
	}
}

func within(w []string) (any, error) {
	held, err := mutexes[w[0]].LockToRepair(context.Background())
	if err != nil {
		return nil, err
	}
	defer held.Unlock()
	guards[w[0]] = held
	tell(string(told(held)))
	serve("lock.leave " + w[0])
	return nil, nil
}

func churn(w []string) (any, error) {
	for end := time.Now().Add(milliseconds(w[1])); time.Now().Before(end); {
		held, err := mutexes[w[0]].Lock(context.Background())
		if err != nil {
			return nil, err
		}
		binary.NativeEndian.PutUint64(held.Value(), value(held)+1)
		if err := held.Unlock(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func awaits(w []string) (any, error) {
	for {
		held, err := lock(w[0], w[2])
		if err != nil {
			return nil, err
		}
		now := value(held)
		if err := held.Unlock(); err != nil || now >= number(w[1]) {
			return nil, err
		}
	}
}

func await(w []string) (any, error) {
	ctx, cancel := until(w[3])
	defer cancel()
	held := guards[w[1]].(*outlive.Guard)
	for !held.OwnerDied() && value(held) != number(w[2]) {
		if err := condvars[w[0]].Wait(ctx, held); err != nil {
			return nil, err
		}
	}
	return told(held), nil
}

func init() {
	family("lock", common(map[string]verb{
		"open": func(w []string) (any, error) {
			mutex, err := domain.OpenMutex(w[0], outlive.LockOptions{Size: 8, Initial: eight(w[1])})
			mutexes[w[0]] = mutex
			return nil, err
		},
		"lock": func(w []string) (any, error) {
			held, err := lock(w[0], w[1])
			return got(w[0], held, err)
		},
		"reset": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			held, err := mutexes[w[0]].LockToReset(ctx)
			if err != nil {
				return nil, err
			}
			copy(held.Value(), eight(w[1]))
			return nil, errors.Join(held.MarkConsistent(), held.Unlock())
		},
		"holder": func(w []string) (any, error) {
			holder, err := mutexes[w[0]].Holder()
			if errors.Is(err, outlive.ErrNothing) {
				return "nobody", nil
			}
			return holder.Pid, err
		},
		"within": within, "churn": churn, "awaits": awaits,
	}))
	family("rw", common(map[string]verb{
		"open": func(w []string) (any, error) {
			lock, err := domain.OpenRWMutex(w[0], outlive.LockOptions{Size: 8, Initial: eight(w[1])})
			rwlocks[w[0]] = lock
			return nil, err
		},
		"read":       access(outlive.Read),
		"upgradable": access(outlive.UpgradableRead),
		"write":      access(outlive.Write),
		"upgrade": with(func(held guard, w []string) error {
			ctx, cancel := until(w[1])
			defer cancel()
			return held.(*outlive.RWGuard).Upgrade(ctx)
		}),
		"downgrade": with(func(held guard, w []string) error { return held.(*outlive.RWGuard).Downgrade() }),
		"downgrade_to_upgradable": with(func(held guard, w []string) error {
			return held.(*outlive.RWGuard).DowngradeToUpgradable()
		}),
		"reset": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			return nil, rwlocks[w[0]].Reset(ctx, eight(w[1]))
		},
	}))
	family("cond", map[string]verb{
		"open": func(w []string) (any, error) {
			condvar, err := domain.OpenCondvar(w[0], outlive.OpenOrCreate)
			condvars[w[0]] = condvar
			return nil, err
		},
		"await":      await,
		"notify":     func(w []string) (any, error) { return nil, condvars[w[0]].NotifyOne() },
		"notify_all": func(w []string) (any, error) { return nil, condvars[w[0]].NotifyAll() },
	})
}
