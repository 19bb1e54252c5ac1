package outlive

// #include <errno.h>
// #include <outlive.h>
import "C"

import (
	"context"
	"errors"
	"syscall"
)

// Code is a kind of error; [errors.Is] compares with it. Codes below 10,000 are errno numbers, so
// [io/fs.ErrNotExist], [io/fs.ErrExist], [io/fs.ErrPermission] and [syscall.Errno] are found as well.
type Code int

// The kinds of errors. doc/c-abi.md has, for each of these codes, which calls return it.
const (
	// ErrOwnerDied: an owner of the lock died with it, and no holder has repaired it since; of a
	// receive: a publisher has died.
	ErrOwnerDied Code = C.EOWNERDEAD
	// ErrNotRecoverable: a holder marked the lock not recoverable.
	ErrNotRecoverable Code = C.ENOTRECOVERABLE
	// ErrDeadlock: this thread holds the lock already.
	ErrDeadlock Code = C.EDEADLK
	// ErrBusy: a living process or goroutine has it.
	ErrBusy Code = C.EBUSY
	// ErrTimedOut: the context's deadline has passed.
	ErrTimedOut Code = C.ETIMEDOUT
	// ErrWouldBlock: not now, with NoWait; a later try may succeed.
	ErrWouldBlock Code = C.EAGAIN
	// ErrPeerDied: the other side is gone (a receiver, all senders, a writer, a server that had not
	// begun the call, a client).
	ErrPeerDied Code = C.EPIPE
	// ErrServerDiedBegun: the server died after it had begun the call, which may have taken effect.
	ErrServerDiedBegun Code = C.ECONNRESET
	// ErrDropped: the server dropped the request.
	ErrDropped Code = C.ECONNABORTED
	// ErrNoPeer: there is no receiver, or no server.
	ErrNoPeer Code = C.ENOTCONN
	// ErrAnswered: the server has replied, and takes no more parts of the request.
	ErrAnswered Code = C.ESHUTDOWN
	// ErrCancelled: the client wants no reply any more.
	ErrCancelled Code = C.ECANCELED
	// ErrMissed: nothing came for longer than the subscriber's period.
	ErrMissed Code = C.ETIME
	// ErrTooLarge: too many bytes.
	ErrTooLarge Code = C.EMSGSIZE
	// ErrNoSpace: the thing or its file system is full.
	ErrNoSpace Code = C.ENOSPC
	// ErrTooManyHeld: the subscriber holds as many samples as it may.
	ErrTooManyHeld Code = C.ENOBUFS
	// ErrTooMany: all places are taken.
	ErrTooMany Code = C.EUSERS
	// ErrOverflow: more permits than there may be.
	ErrOverflow Code = C.EOVERFLOW
	// ErrNotOwner: another thread's, another user's, or a forked child's parent's.
	ErrNotOwner Code = C.EPERM
	// ErrPermission: a permission is missing.
	ErrPermission Code = C.EACCES
	// ErrNotFound: nothing has that name.
	ErrNotFound Code = C.ENOENT
	// ErrExists: something has that name.
	ErrExists Code = C.EEXIST
	// ErrNotADomain: the folder holds other things than a domain.
	ErrNotADomain Code = C.ENOTEMPTY
	// ErrOtherDomain: of another domain or pool.
	ErrOtherDomain Code = C.EXDEV
	// ErrStale: what was offered is gone.
	ErrStale Code = C.ESTALE
	// ErrInvalid: an invalid name, option or argument, or an option that contradicts what exists.
	ErrInvalid Code = C.EINVAL
	// ErrNothing: no thread holds it; nothing is known of the peer.
	ErrNothing Code = C.ESRCH

	// ErrDamaged: shared bytes cannot be right.
	ErrDamaged Code = C.OUTLIVE_DAMAGED
	// ErrOtherKind: the name is in use for another kind of thing.
	ErrOtherKind Code = C.OUTLIVE_OTHER_KIND
	// ErrOtherType: the thing has values of another type, size or layout.
	ErrOtherType Code = C.OUTLIVE_OTHER_TYPE
	// ErrOtherVersion: another version's memory layout.
	ErrOtherVersion Code = C.OUTLIVE_OTHER_VERSION
	// ErrNotOurs: the file was not made by Outlive.
	ErrNotOurs Code = C.OUTLIVE_NOT_OURS
	// ErrBroken: the barrier is broken.
	ErrBroken Code = C.OUTLIVE_BROKEN
	// ErrOtherPlace: the lock belongs to another pid namespace or C library.
	ErrOtherPlace Code = C.OUTLIVE_OTHER_PLACE
	// ErrFault: a pool's debug mode found a fault in the program.
	ErrFault Code = C.OUTLIVE_FAULT
	// ErrPanic: a defect of Outlive.
	ErrPanic Code = C.OUTLIVE_PANIC
	// ErrFailed: the service could not do what was asked; the message has its server's words.
	ErrFailed Code = C.OUTLIVE_FAILED
	// ErrLagged: a publisher did not wait any longer for this reliable subscriber.
	ErrLagged Code = C.OUTLIVE_LAGGED
	// ErrNewSession: the next message is the first one of a start of its publisher.
	ErrNewSession Code = C.OUTLIVE_NEW_SESSION
	// ErrNotLively: a publisher lives and has done nothing for its lease.
	ErrNotLively Code = C.OUTLIVE_NOT_LIVELY
	// ErrLively: it does something again.
	ErrLively Code = C.OUTLIVE_LIVELY
)

var (
	// ErrClosed: the handle was closed.
	ErrClosed = errors.New("outlive: the handle was closed")
	// ErrFirstThread: the program has locked the goroutine to the process's first thread, where Go would
	// keep the lock of a goroutine that ends. Take the lock in another goroutine.
	ErrFirstThread = errors.New("outlive: a goroutine that is locked to the process's first thread can take no lock")
)

// Error returns what the code means.
func (code Code) Error() string {
	if code < 10000 {
		return syscall.Errno(code).Error()
	}
	return C.GoString(C.outlive_strerror(C.int(code)))
}

// Error is what a call of the library returned.
type Error struct {
	// Code is the kind of error.
	Code Code
	// Message says what happened, on what, and what to do next.
	Message string
	// Pid is the process that the message names, where that is a topic's subscriber or publisher; else 0.
	Pid int
	// The context's end, where that ended the wait.
	cause error
}

// Error returns the message.
func (e *Error) Error() string { return "outlive: " + e.Message }

// Timeout reports whether the error is that time ran out, as errors of package net do.
func (e *Error) Timeout() bool { return e.Code == ErrTimedOut }

// Unwrap returns the code, the errno number that it is, and the context's error.
func (e *Error) Unwrap() []error {
	all := []error{e.Code}
	if e.Code < 10000 {
		all = append(all, syscall.Errno(e.Code))
	}
	if e.cause != nil {
		all = append(all, e.cause)
	}
	return all
}

// failure returns the error of the thread's last call.
func failure(code C.int) error {
	return &Error{
		Code:    Code(code),
		Message: C.GoString(C.outlive_last_error()),
		Pid:     int(C.outlive_last_error_pid()),
	}
}

// ended returns the error of a wait that the context's end has ended.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return &Error{Code: ErrTimedOut, Message: "the context's deadline has passed", cause: cause}
	}
	return cause
}

// is reports whether a call returned that code.
func is(err error, code Code) bool {
	var of *Error
	return errors.As(err, &of) && of.Code == code
}
