// Package outlive is shared-memory IPC for Linux without a daemon: locks, queues, topics, states,
// services and pools that recover when any process that uses them is killed.
//
// It is a layer over the C library, by cgo and pkg-config. Its programs share a domain with programs
// in Rust, C, C++, Python and Java. doc/go.md has the rules at length.
//
// # Waiting
//
// Every call that may wait takes a [context.Context]. After its deadline the call returns an error that
// is both [ErrTimedOut] and [context.DeadlineExceeded]; after a cancellation, the context's cause. With
// [NoWait] a call does what it can do at once. A wait sleeps in the kernel. It looks every 50 ms whether
// a context that can end has ended, and every 500 ms whether its handle was closed. A deadline or a
// peer's death ends it at once. [Loan.Publish] ends by its deadline alone.
//
// # Goroutines and locks
//
// A lock, a permit or a seat belongs to the operating system's thread that took it, because the
// kernel reports that thread's death. Between taking one and giving it back, the package locks the
// goroutine to its thread ([runtime.LockOSThread]). So the goroutine that took it has to give it back;
// any other gets [ErrNotOwner]. A goroutine that ends while it holds a lock ends its thread, and the
// lock's next owner gets [ErrOwnerDied], as after a kill.
//
// Go never ends the first thread of a process, but parks it: a lock that a goroutine left there would
// stay held, and no process would be told. So the package takes no lock on that thread. It first moves
// the goroutine to another one, and the first thread stays parked for the rest of the process. A
// goroutine that the program itself has locked to the first thread cannot be moved; it gets
// [ErrFirstThread].
//
// # Handles
//
// All goroutines may use a handle at once. Where the library admits one at a time (senders,
// receivers, publishers, subscribers, servers, clients' calls), they enter one after the other, and the
// context bounds the time until a goroutine enters, too. Close ends a handle: calls that wait in it
// return [ErrClosed] within half a second, and its memory is released when the last call has left.
// There are no finalizers: what a program does not close stays open until the process ends. A handle
// keeps what it was made from alive, so a domain may be closed before its queues.
package outlive

/*
#cgo pkg-config: outlive
#include <stdlib.h>
#include <outlive.h>
*/
import "C"

import (
	"runtime"
	"strings"
	"unsafe"
)

// Opening says what an opening does with a name.
type Opening uint32

const (
	// OpenOrCreate opens what has the name, and makes it if nothing has. The default.
	OpenOrCreate Opening = C.OUTLIVE_OPEN_OR_CREATE
	// Open opens what has the name, which must exist: else [ErrNotFound].
	Open Opening = C.OUTLIVE_OPEN
	// CreateNew makes something new of a name that nothing may have: else [ErrExists].
	CreateNew Opening = C.OUTLIVE_CREATE_NEW
)

func (how Opening) c() C.enum_outlive_opening_t { return C.enum_outlive_opening_t(how) }

// WaitStrategy says how a handle waits.
type WaitStrategy uint32

const (
	// Adaptive spins for as long as that has paid recently, then sleeps. The default.
	Adaptive WaitStrategy = C.OUTLIVE_WAIT_ADAPTIVE
	// Block sleeps at once.
	Block WaitStrategy = C.OUTLIVE_WAIT_BLOCK
	// Spin spins for long before it sleeps.
	Spin WaitStrategy = C.OUTLIVE_WAIT_SPIN
)

// Version returns the version of the C library that is loaded.
func Version() string { return C.GoString(C.outlive_version()) }

// do makes a call of the library and returns its error. A message belongs to the thread whose call
// failed, so the goroutine stays on its thread until it has read the message.
func do(call func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if code := call(); code != 0 {
		return failure(code)
	}
	return nil
}

// cString returns a copy of a text for C, to be freed.
func cString(text string) (*C.char, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, &Error{Code: ErrInvalid, Message: "a name has no NUL"}
	}
	return C.CString(text), nil
}

// named calls an opening with the domain and the name.
func named(d *Domain, name string, call func(d *C.outlive_domain_t, name *C.char) C.int) error {
	return d.inside(func() error {
		text, err := cString(name)
		if err != nil {
			return err
		}
		defer C.free(unsafe.Pointer(text))
		return do(func() C.int { return call(d.c, text) })
	})
}

// address returns where bytes begin; of none, nil.
func address(data []byte) unsafe.Pointer {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Pointer(&data[0])
}

// view returns shared bytes as a slice, without a copy.
func view(data unsafe.Pointer, size C.size_t) []byte {
	if data == nil {
		return nil
	}
	return unsafe.Slice((*byte)(data), int(size))
}

func flag(is bool) C.uint32_t {
	if is {
		return 1
	}
	return 0
}
