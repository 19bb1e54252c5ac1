// Command conformance is Go's driver: it does what each line of its input says, by the package alone,
// and answers with a line. doc/conformance.md has the commands; the drivers of the other languages do
// the same, each with its own means.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"outlive"
)

// The main goroutine stays on the first thread, so that the one that serves never is there.
func init() { runtime.LockOSThread() }

var (
	domain *outlive.Domain
	input  *bufio.Reader
)

// verb does what a line says, of the words behind its first: what is said behind "ok", or a whole
// answer.
type verb func(words []string) (any, error)

// whole is an answer that is said as it is.
type whole string

var verbs = map[string]verb{
	"token":         func([]string) (any, error) { return domain.ThreadToken() },
	"process_token": func([]string) (any, error) { return domain.ProcessToken() },
	"peer.alive": func(w []string) (any, error) {
		return map[bool]string{true: "yes", false: "no"}[domain.IsAlive(outlive.Token(number(w[0])))], nil
	},
	"peer.wait_dead": func(w []string) (any, error) {
		ctx, cancel := until(w[1])
		defer cancel()
		return nil, domain.WaitDead(ctx, outlive.Token(number(w[0])))
	},
	"domain.find": func(w []string) (any, error) {
		found, err := outlive.OpenDomain(outlive.DomainOptions{How: outlive.Open, Path: w[0]})
		if err == nil {
			found.Close()
		}
		return nil, err
	},
	"domain.create": func(w []string) (any, error) {
		path, err := domain.Path()
		if err != nil {
			return nil, err
		}
		made, err := outlive.OpenDomain(outlive.DomainOptions{How: outlive.CreateNew, Path: path + "/" + w[0]})
		if err == nil {
			made.Close()
		}
		return nil, err
	},
	"exit":  func([]string) (any, error) { os.Exit(0); return nil, nil },
	"crash": func([]string) (any, error) { panic("asked to crash") },
	"hang":  func([]string) (any, error) { time.Sleep(time.Minute); return nil, nil },
}

// What the package has none of: a verb, or all that begin so.
var lacking = []string{
	"pi.", "ceiling.", "reentrant.", "once.", "record.", "set.", "node.", "watch.", "config.",
	"open.pi_mutex", "open.ceiling_mutex", "open.reentrant_mutex", "open.once", "open.record",
	"queue.typed", "topic.described", "topic.publish_msgpack", "topic.recv_msgpack",
	"topic.publish_track", "topic.recv_track", "topic.publish_cloud", "topic.recv_cloud",
	"topic.publish_scan", "topic.recv_scan", "server.watch", "server.event",
}

var names = map[outlive.Code]string{
	outlive.ErrOwnerDied: "ErrOwnerDied", outlive.ErrNotRecoverable: "ErrNotRecoverable",
	outlive.ErrDeadlock: "ErrDeadlock", outlive.ErrBusy: "ErrBusy", outlive.ErrTimedOut: "ErrTimedOut",
	outlive.ErrWouldBlock: "ErrWouldBlock", outlive.ErrPeerDied: "ErrPeerDied",
	outlive.ErrServerDiedBegun: "ErrServerDiedBegun", outlive.ErrDropped: "ErrDropped",
	outlive.ErrNoPeer: "ErrNoPeer", outlive.ErrAnswered: "ErrAnswered", outlive.ErrCancelled: "ErrCancelled",
	outlive.ErrMissed: "ErrMissed", outlive.ErrTooLarge: "ErrTooLarge", outlive.ErrNoSpace: "ErrNoSpace",
	outlive.ErrTooManyHeld: "ErrTooManyHeld", outlive.ErrTooMany: "ErrTooMany",
	outlive.ErrOverflow: "ErrOverflow", outlive.ErrNotOwner: "ErrNotOwner",
	outlive.ErrPermission: "ErrPermission", outlive.ErrNotFound: "ErrNotFound", outlive.ErrExists: "ErrExists",
	outlive.ErrNotADomain: "ErrNotADomain", outlive.ErrOtherDomain: "ErrOtherDomain",
	outlive.ErrStale: "ErrStale", outlive.ErrInvalid: "ErrInvalid", outlive.ErrDamaged: "ErrDamaged",
	outlive.ErrOtherKind: "ErrOtherKind", outlive.ErrOtherType: "ErrOtherType", outlive.ErrBroken: "ErrBroken",
	outlive.ErrPanic: "ErrPanic", outlive.ErrFailed: "ErrFailed", outlive.ErrLagged: "ErrLagged",
	outlive.ErrNewSession: "ErrNewSession", outlive.ErrNotLively: "ErrNotLively", outlive.ErrLively: "ErrLively",
}

func family(name string, of map[string]verb) {
	for verb, act := range of {
		verbs[name+"."+verb] = act
	}
}

func said(err error) string {
	var of *outlive.Error
	if !errors.As(err, &of) {
		return fmt.Sprintf("error %T %v", err, err)
	}
	name := names[of.Code]
	if name == "" {
		name = fmt.Sprint(int(of.Code))
	}
	return "error " + name + " " + of.Message
}

func act(line string) string {
	words := strings.Split(line, " ")
	for _, lacks := range lacking {
		if strings.HasPrefix(words[0], lacks) {
			return "error Unsupported " + words[0]
		}
	}
	verb := verbs[words[0]]
	if verb == nil {
		return "error Usage no command " + words[0]
	}
	answer, err := verb(words[1:])
	switch answer := answer.(type) {
	case whole:
		if err == nil {
			return string(answer)
		}
	case nil:
		if err == nil {
			return "ok"
		}
	default:
		if err == nil {
			return fmt.Sprint("ok ", answer)
		}
	}
	return said(err)
}

// serve answers lines until the input ends, or until that line.
func serve(last string) {
	for {
		line, err := input.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		if err == io.EOF || line == last {
			return
		}
		tell(act(line))
	}
}

func tell(answer string) { os.Stdout.WriteString(answer + "\n") }

func main() {
	var err error
	if domain, err = outlive.OpenDomain(outlive.DomainOptions{Path: os.Args[1]}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// A collection would let the thread sleep that the runner looks at.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(512 << 20)
	input = bufio.NewReader(os.Stdin)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// One thread, whose sleep the runner looks up.
		runtime.LockOSThread()
		tell(fmt.Sprintf("ready %d", syscall.Gettid()))
		serve("")
		// What this thread holds goes with the process.
		os.Exit(0)
	}()
	<-done
}
