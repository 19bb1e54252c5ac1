package outlive

import (
	"runtime"
	"syscall"
)

// How often a goroutine tries to leave the process's first thread.
const attempts = 200

var pid = syscall.Getpid()

// pin wires the goroutine to its thread, which is not the process's first: Go never ends that one, so
// no process would be told of a lock that was left there.
//
// A goroutine that finds itself there starts another one and waits for it. Go runs that one next, on
// the same thread, where it ends wired to it: Go then lets the first thread rest for ever, and runs all
// goroutines elsewhere. So this happens once in a process.
func pin() error {
	runtime.LockOSThread()
	for attempt := 0; syscall.Gettid() == pid; attempt++ {
		runtime.UnlockOSThread()
		if attempt == attempts {
			return ErrFirstThread
		}
		tried := make(chan struct{})
		go func() {
			defer close(tried)
			runtime.LockOSThread()
			if syscall.Gettid() != pid {
				runtime.UnlockOSThread()
			}
		}()
		<-tried
		runtime.LockOSThread()
	}
	return nil
}

func unpin() { runtime.UnlockOSThread() }

// pinMany wires as many times over as there are permits: each release unwires once.
func pinMany(times int) error {
	if err := pin(); err != nil {
		return err
	}
	for range times - 1 {
		runtime.LockOSThread()
	}
	return nil
}

func unpinMany(times int) {
	for range times {
		runtime.UnlockOSThread()
	}
}
