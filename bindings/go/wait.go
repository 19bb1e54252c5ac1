package outlive

// #include <outlive.h>
import "C"

import (
	"context"
	"time"
)

// How long a wait sleeps before it looks at its context, and at a handle that may be closed.
const (
	sliceOfContext = 50 * time.Millisecond
	sliceOfClose   = 500 * time.Millisecond
)

// NoWait is a context for calls that must not wait: they do what they can do at once. Where a lock is
// held they return [ErrBusy]; where anything else is not there, [ErrWouldBlock] or [ErrTimedOut].
var NoWait context.Context = noWait{}

type noWait struct{}

var over = func() chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}()

func (noWait) Deadline() (time.Time, bool) { return time.Time{}, true }
func (noWait) Done() <-chan struct{}       { return over }
func (noWait) Err() error                  { return context.DeadlineExceeded }
func (noWait) Value(any) any               { return nil }

// await makes a call that waits until a deadline, again and again, until it returns anything but
// ETIMEDOUT, the context ends, or the handle is closed. A call that has timed out must have done
// nothing.
func await(ctx context.Context, h *handle, call func(until C.outlive_deadline_t) C.int) error {
	return awaitWhile(ErrTimedOut, ctx, h, call)
}

// awaitWhile is await for a call that returns another code than ETIMEDOUT when its time is over: that of
// a stand-by, which returns that another process is there.
func awaitWhile(over Code, ctx context.Context, h *handle, call func(until C.outlive_deadline_t) C.int) error {
	if ctx == NoWait {
		return do(func() C.int { return call(C.OUTLIVE_TRY) })
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	slice := sliceOfClose
	if ctx.Done() != nil {
		slice = sliceOfContext
	}
	deadline, bounded := ctx.Deadline()
	for {
		span, last := slice, false
		if left := time.Until(deadline); bounded && left <= slice {
			span, last = max(left, 0), true
		}
		err := do(func() C.int { return call(C.outlive_after(C.uint64_t(span))) })
		switch {
		case !is(err, over):
			return err
		case last:
			err.(*Error).cause = context.DeadlineExceeded
			return err
		case ctx.Err() != nil:
			return ended(ctx)
		case h.isClosed():
			return ErrClosed
		}
	}
}
