package outlive_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlive"
)

// Tests that kill need a process of its own: this program, started again with a role.
const roleVariable = "OUTLIVE_GO_TEST_ROLE"

func init() {
	if os.Getenv(roleVariable) == "wired" {
		// As a program with a graphical interface does.
		runtime.LockOSThread()
	}
}

var roles = map[string]func(d *outlive.Domain){
	"holds":   holds,
	"sends":   sends,
	"peeks":   peeks,
	"permits": permits,
	"serves":  serves,
	"loans":   loans,
	"wired":   wired,
	"moves":   moves,
}

func TestMain(m *testing.M) {
	role := roles[os.Getenv(roleVariable)]
	if role == nil {
		os.Exit(m.Run())
	}
	d, err := outlive.OpenDomain(outlive.DomainOptions{Path: os.Args[1]})
	must(err)
	role(d)
}

func must(err error) {
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// stay keeps the process until it is killed.
func stay() { time.Sleep(time.Hour) }

func holds(d *outlive.Domain) {
	mutex, err := d.OpenMutex("m", outlive.LockOptions{Size: 8})
	must(err)
	guard, err := mutex.Lock(context.Background())
	must(err)
	guard.Value()[0] = 7
	fmt.Println("held")
	stay()
}

// sends sends numbers and says each that was acknowledged.
func sends(d *outlive.Domain) {
	queue, err := d.OpenQueue("q", outlive.QueueOptions{})
	must(err)
	sender, err := queue.Sender()
	must(err)
	for number := uint64(1); ; number++ {
		message := make([]byte, 8+number%3000)
		binary.NativeEndian.PutUint64(message, number)
		must(sender.Send(context.Background(), message))
		fmt.Println(number)
	}
}

func peeks(d *outlive.Domain) {
	queue, err := d.OpenQueue("q", outlive.QueueOptions{})
	must(err)
	receiver, err := queue.Receiver(outlive.NoWait)
	must(err)
	message, _, err := receiver.Peek(context.Background())
	must(err)
	fmt.Println(string(message))
	stay()
}

func permits(d *outlive.Domain) {
	semaphore, err := d.OpenSemaphore("s", outlive.SemaphoreOptions{Permits: 3})
	must(err)
	must(semaphore.Acquire(context.Background(), 2))
	fmt.Println("taken")
	stay()
}

func serves(d *outlive.Domain) {
	server, err := d.OpenServer(outlive.NoWait, "service", outlive.ServiceOptions{})
	must(err)
	fmt.Println("serving")
	_, err = server.Next(context.Background())
	must(err)
	fmt.Println("begun")
	stay()
}

func loans(d *outlive.Domain) {
	topic, err := d.OpenTopic("t", outlive.TopicOptions{})
	must(err)
	publisher, err := topic.Publisher(outlive.PublisherOptions{})
	must(err)
	_, err = publisher.Publish(context.Background(), []byte("whole"), nil)
	must(err)
	loan, err := publisher.Loan(1 << 20)
	must(err)
	copy(loan.Data(), "half a message")
	fmt.Println("lent")
	stay()
}

func wired(d *outlive.Domain) {
	mutex, err := d.OpenMutex("m", outlive.LockOptions{Size: 8})
	must(err)
	_, err = mutex.Lock(context.Background())
	fmt.Println(err == outlive.ErrFirstThread, syscall.Gettid() == os.Getpid())
	// Any other goroutine may.
	done := make(chan error)
	go func() {
		guard, err := mutex.Lock(context.Background())
		if err == nil {
			err = guard.Unlock()
		}
		done <- err
	}()
	fmt.Println(<-done)
}

// moves takes locks in goroutines of which some find themselves on the first thread, and ends them so.
func moves(d *outlive.Domain) {
	onFirst := 0
	for round := range 2000 {
		mutex, err := d.OpenMutex(fmt.Sprint("m", round%50), outlive.LockOptions{Size: 8})
		must(err)
		ended := make(chan bool)
		go func() {
			first := syscall.Gettid() == os.Getpid()
			guard, err := mutex.LockToRepair(context.Background())
			must(err)
			if syscall.Gettid() == os.Getpid() {
				fmt.Println("a lock on the first thread")
			}
			if round%50 != round && !guard.OwnerDied() {
				fmt.Println("a death was not told")
			}
			// It ends with the lock.
			ended <- first
		}()
		if <-ended {
			onFirst++
		}
		must(mutex.Close())
	}
	fmt.Println("done", onFirst > 0)
}

// child is a process with a role.
type child struct {
	*exec.Cmd
	t     *testing.T
	lines *bufio.Scanner
}

func start(t *testing.T, d *outlive.Domain, role string) *child {
	t.Helper()
	path, err := d.Path()
	check(t, err)
	command := exec.Command(os.Args[0], path)
	command.Env = append(os.Environ(), roleVariable+"="+role)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	check(t, err)
	check(t, command.Start())
	c := &child{command, t, bufio.NewScanner(output)}
	t.Cleanup(func() { c.kill() })
	return c
}

// line returns the next line that the process writes.
func (c *child) line() string {
	c.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
	defer timer.Stop()
	if !c.lines.Scan() {
		c.t.Fatal("the process said nothing")
	}
	return strings.TrimSpace(c.lines.Text())
}

func (c *child) expect(wanted string) {
	c.t.Helper()
	if got := c.line(); got != wanted {
		c.t.Fatalf("expected %q, got %q", wanted, got)
	}
}

// kill sends SIGKILL, waits for the end, and returns the lines that were written and not read yet.
func (c *child) kill() (rest []string) {
	if c.ProcessState == nil {
		c.Process.Kill()
		for c.lines.Scan() {
			rest = append(rest, c.lines.Text())
		}
		c.Wait()
	}
	return rest
}
