package outlive

// #include <outlive.h>
import "C"

import "context"

// Notices are how many notices there were of each number, 0 to 63.
type Notices map[int]uint64

// NotifierOptions say how a [Notifier] or a [Listener] is opened, and what listeners are told of
// notifiers. A notice is named by its bit, 1 << number; 0 takes what is there, and in a new one none.
type NotifierOptions struct {
	// How says whether the name must exist.
	How Opening
	// OnCreated is the notice that a notifier has come, OnLeft that one was closed, OnDied that one's
	// process has died.
	OnCreated, OnLeft, OnDied uint64
	// Wait says how a listener waits.
	Wait WaitStrategy
}

func (o *NotifierOptions) c() C.outlive_notifier_options_t {
	return C.outlive_notifier_options_t{
		size:       C.sizeof_outlive_notifier_options_t,
		on_created: C.uint64_t(o.OnCreated),
		on_left:    C.uint64_t(o.OnLeft),
		on_died:    C.uint64_t(o.OnDied),
		wait:       C.uint32_t(o.Wait),
	}
}

// Notifier tells all listeners of a name that something has happened.
type Notifier struct {
	handle
	c *C.outlive_notifier_t
}

// OpenNotifier opens a notifier.
func (d *Domain) OpenNotifier(name string, options NotifierOptions) (*Notifier, error) {
	n := &Notifier{}
	given := options.c()
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_notifier_open(domain, name, options.How.c(), &given, &n.c)
	})
	if err != nil {
		return nil, err
	}
	n.release = func() { C.outlive_notifier_close(n.c) }
	return n, nil
}

// Notify gives the notice of that number, and returns how many listeners got it. It waits for none.
func (n *Notifier) Notify(number int) (listeners int, err error) {
	var told C.uint32_t
	err = n.inside(func() error {
		return do(func() C.int { return C.outlive_notifier_notify(n.c, C.uint32_t(number), &told) })
	})
	return int(told), err
}

// Listener counts the notices of all notifiers of a name.
type Listener struct {
	turn
	c *C.outlive_listener_t
}

// OpenListener opens a listener.
func (d *Domain) OpenListener(name string, options NotifierOptions) (*Listener, error) {
	l := &Listener{}
	given := options.c()
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_listener_open(domain, name, options.How.c(), &given, &l.c)
	})
	if err != nil {
		return nil, err
	}
	l.turn = newTurn(func() { C.outlive_listener_close(l.c) })
	return l, nil
}

// Wait waits until there are notices, and takes all that are there.
func (l *Listener) Wait(ctx context.Context) (Notices, error) {
	var c C.outlive_notices_t
	err := l.within(ctx, func() error {
		return await(ctx, &l.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_listener_wait(l.c, until, &c)
		})
	})
	if err != nil {
		return nil, err
	}
	notices := Notices{}
	for number, count := range c.counts {
		if count > 0 {
			notices[number] = uint64(count)
		}
	}
	return notices, nil
}
