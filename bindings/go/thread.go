package outlive

import (
	"runtime"
	"syscall"
)

// How often a goroutine tries to leave the process's first thread.
const attempts = 200

var pid = syscall.Getpid()

// pin locks the goroutine to a thread that is not the process's first: Go never ends the first one, so
// no process would be told of a lock that was left there.
//
// A goroutine that runs on the first thread starts a second one and waits for it. Go runs the second
// one next, on the same thread. It ends while it is locked to that thread, so Go parks the thread for
// ever, and runs all goroutines on others. So this happens once in a process.
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

// pinMany locks the goroutine once for each permit: each release unlocks once.
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
