package outlive

import (
	"context"
	"sync"
)

// handle counts the calls inside it, so that Close may be called at any time: the C object is released
// when the handle is closed and the last call has left.
type handle struct {
	mu      sync.Mutex
	users   int
	closed  bool
	release func()
}

func (h *handle) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.users++
	return nil
}

func (h *handle) leave() { h.leaveMany(1) }

func (h *handle) leaveMany(users int) {
	h.mu.Lock()
	h.users -= users
	last := h.closed && h.users == 0
	h.mu.Unlock()
	if last {
		h.release()
	}
}

// stay counts further users of a handle that the caller is inside of.
func (h *handle) stay(users int) {
	h.mu.Lock()
	h.users += users
	h.mu.Unlock()
}

// stays calls the function if the handle is open, or if something taken in it (a lock) keeps it: a lock
// can be given back after its handle was closed.
func (h *handle) stays(act func() error) error {
	h.mu.Lock()
	if h.closed && h.users == 0 {
		h.mu.Unlock()
		return ErrClosed
	}
	h.users++
	h.mu.Unlock()
	defer h.leave()
	return act()
}

func (h *handle) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// Close ends the handle. Calls that wait in it return [ErrClosed]. Closing it again has no effect.
func (h *handle) Close() error {
	h.mu.Lock()
	last := !h.closed && h.users == 0
	h.closed = true
	h.mu.Unlock()
	if last {
		h.release()
	}
	return nil
}

// inside calls the function inside the handle.
func (h *handle) inside(act func() error) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	return act()
}

// turn is a handle that one goroutine at a time is inside of.
type turn struct {
	handle
	occupied chan struct{}
}

func newTurn(release func()) turn {
	return turn{handle: handle{release: release}, occupied: make(chan struct{}, 1)}
}

// within calls the function when no other goroutine is inside.
func (t *turn) within(ctx context.Context, act func() error) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	select {
	case t.occupied <- struct{}{}:
	default:
		if ctx == NoWait {
			return &Error{Code: ErrBusy, Message: "another goroutine is inside this handle"}
		}
		select {
		case t.occupied <- struct{}{}:
		case <-ctx.Done():
			return ended(ctx)
		}
	}
	defer func() { <-t.occupied }()
	if t.isClosed() {
		return ErrClosed
	}
	return act()
}
