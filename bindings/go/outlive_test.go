package outlive_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"outlive"
)

var domains atomic.Int64

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Fatalf("expected %v, got %v", wanted, err)
	}
}

// domainOf returns a domain of the test's own.
func domainOf(t *testing.T) *outlive.Domain {
	t.Helper()
	path := fmt.Sprintf("/dev/shm/outlive-go-test-%d-%d", os.Getpid(), domains.Add(1))
	d, err := outlive.OpenDomain(outlive.DomainOptions{How: outlive.CreateNew, Path: path})
	check(t, err)
	t.Cleanup(func() {
		d.Close()
		os.RemoveAll(path)
	})
	return d
}

// aMinute bounds a wait of a test: a hang must fail.
func aMinute(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mutexOf(t *testing.T, d *outlive.Domain) *outlive.Mutex {
	t.Helper()
	mutex, err := d.OpenMutex("m", outlive.LockOptions{Size: 8})
	check(t, err)
	t.Cleanup(func() { mutex.Close() })
	return mutex
}

func TestAKilledHolderIsToldToEachNextOneUntilOneRepairs(t *testing.T) {
	d := domainOf(t)
	holder := start(t, d, "holds")
	holder.expect("held")
	mutex := mutexOf(t, d)
	_, err := mutex.Lock(outlive.NoWait)
	expect(t, err, outlive.ErrBusy)
	who, err := mutex.Holder()
	check(t, err)
	if who.Pid != holder.Process.Pid {
		t.Fatalf("process %d holds it, not %d", holder.Process.Pid, who.Pid)
	}
	holder.kill()

	_, err = mutex.Lock(aMinute(t))
	expect(t, err, outlive.ErrOwnerDied)
	_, err = mutex.Lock(aMinute(t))
	expect(t, err, outlive.ErrOwnerDied)
	guard, err := mutex.LockToRepair(aMinute(t))
	check(t, err)
	if !guard.OwnerDied() || guard.Value()[0] != 7 {
		t.Fatalf("%v %v", guard.OwnerDied(), guard.Value())
	}
	guard.Value()[0] = 8
	check(t, guard.MarkConsistent())
	check(t, guard.Unlock())
	guard, err = mutex.Lock(aMinute(t))
	check(t, err)
	if guard.OwnerDied() || guard.Value()[0] != 8 {
		t.Fatalf("%v %v", guard.OwnerDied(), guard.Value())
	}
	check(t, guard.Unlock())
	if guard.Value() != nil {
		t.Fatal("a guard that has unlocked shows a value")
	}
}

func TestAWaiterIsToldOfAKillAtOnce(t *testing.T) {
	d := domainOf(t)
	holder := start(t, d, "holds")
	holder.expect("held")
	mutex := mutexOf(t, d)
	told := make(chan error, 1)
	go func() {
		_, err := mutex.Lock(context.Background())
		told <- err
	}()
	holder.kill()
	expect(t, <-told, outlive.ErrOwnerDied)
}

func TestAGoroutineThatEndsWithALockTells(t *testing.T) {
	d := domainOf(t)
	mutex := mutexOf(t, d)
	locked := make(chan error)
	go func() {
		_, err := mutex.Lock(context.Background())
		locked <- err
	}()
	check(t, <-locked)
	_, err := mutex.Lock(aMinute(t))
	expect(t, err, outlive.ErrOwnerDied)
}

func TestNoLockIsLeftOnTheFirstThread(t *testing.T) {
	moving := start(t, domainOf(t), "moves")
	if got := moving.line(); got != "done true" && got != "done false" {
		t.Fatal(got)
	}
}

func TestAGoroutineWiredToTheFirstThreadIsRefused(t *testing.T) {
	child := start(t, domainOf(t), "wired")
	child.expect("true true")
	child.expect("<nil>")
}

func TestUnlockingInAnotherGoroutineIsRefused(t *testing.T) {
	mutex := mutexOf(t, domainOf(t))
	guard, err := mutex.Lock(aMinute(t))
	check(t, err)
	refused := make(chan error)
	go func() { refused <- guard.Unlock() }()
	expect(t, <-refused, outlive.ErrNotOwner)
	_, err = mutex.Lock(aMinute(t))
	expect(t, err, outlive.ErrDeadlock)
	check(t, guard.Unlock())
	check(t, guard.Unlock())
}

func TestGoroutinesTakeTurns(t *testing.T) {
	mutex := mutexOf(t, domainOf(t))
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 500 {
				guard, err := mutex.Lock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				count, err := outlive.As[uint64](guard.Value())
				if err != nil {
					t.Error(err)
				}
				*count++
				if err := guard.Unlock(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	guard, err := mutex.Lock(aMinute(t))
	check(t, err)
	defer guard.Unlock()
	if count := binary.NativeEndian.Uint64(guard.Value()); count != 4000 {
		t.Fatal(count)
	}
}

func TestAContextEndsAWait(t *testing.T) {
	d := domainOf(t)
	queue, err := d.OpenQueue("q", outlive.QueueOptions{})
	check(t, err)
	receiver, err := queue.Receiver(outlive.NoWait)
	check(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = receiver.Recv(ctx)
	expect(t, err, outlive.ErrTimedOut)
	expect(t, err, context.DeadlineExceeded)
	_, err = receiver.Recv(ctx)
	expect(t, err, context.DeadlineExceeded)
	cancelled, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = receiver.Recv(cancelled)
	expect(t, err, context.Canceled)
	_, err = receiver.Recv(outlive.NoWait)
	expect(t, err, outlive.ErrWouldBlock)
}

func TestClosingEndsAWait(t *testing.T) {
	d := domainOf(t)
	queue, err := d.OpenQueue("q", outlive.QueueOptions{})
	check(t, err)
	receiver, err := queue.Receiver(outlive.NoWait)
	check(t, err)
	waits := make(chan error, 1)
	go func() {
		_, err := receiver.Recv(context.Background())
		waits <- err
	}()
	time.Sleep(10 * time.Millisecond)
	check(t, receiver.Close())
	check(t, receiver.Close())
	expect(t, <-waits, outlive.ErrClosed)
	_, err = receiver.Recv(outlive.NoWait)
	expect(t, err, outlive.ErrClosed)
	// Its place is free once the wait has left.
	again, err := queue.Receiver(aMinute(t))
	check(t, err)
	check(t, again.Close())
}

func TestNothingAcknowledgedIsLostWithAKilledSender(t *testing.T) {
	for round := range 10 {
		d := domainOf(t)
		queue, err := d.OpenQueue("q", outlive.QueueOptions{})
		check(t, err)
		sender := start(t, d, "sends")
		acknowledged := uint64(0)
		for acknowledged < uint64(40+round*7) {
			acknowledged, err = strconv.ParseUint(sender.line(), 10, 64)
			check(t, err)
		}
		for _, line := range sender.kill() {
			acknowledged, err = strconv.ParseUint(line, 10, 64)
			check(t, err)
		}
		receiver, err := queue.Receiver(outlive.NoWait)
		check(t, err)
		received := uint64(0)
		for {
			message, err := receiver.Recv(outlive.NoWait)
			if errors.Is(err, outlive.ErrWouldBlock) {
				break
			}
			check(t, err)
			received++
			if number := binary.NativeEndian.Uint64(message); number != received || uint64(len(message)) != 8+number%3000 {
				t.Fatalf("message %d of %d bytes in place %d", number, len(message), received)
			}
		}
		// Perhaps one whose sender was killed before it could say so.
		if received < acknowledged || received > acknowledged+1 {
			t.Fatalf("%d acknowledged, %d received", acknowledged, received)
		}
	}
}

func TestWhatAKilledReceiverHadNotCommittedComesAgain(t *testing.T) {
	d := domainOf(t)
	queue, err := d.OpenQueue("q", outlive.QueueOptions{})
	check(t, err)
	sender, err := queue.Sender()
	check(t, err)
	check(t, sender.SendBatch(aMinute(t), [][]byte{[]byte("first"), {}, []byte("second")}))
	peeking := start(t, d, "peeks")
	peeking.expect("first")
	_, err = queue.Receiver(outlive.NoWait)
	expect(t, err, outlive.ErrBusy)
	peeking.kill()
	receiver, err := queue.Receiver(aMinute(t))
	check(t, err)
	message, redelivered, err := receiver.Peek(aMinute(t))
	check(t, err)
	if string(message) != "first" || !redelivered {
		t.Fatalf("%q %v", message, redelivered)
	}
	check(t, receiver.Commit())
	for _, wanted := range []string{"", "second"} {
		message, err := receiver.Recv(aMinute(t))
		check(t, err)
		if string(message) != wanted {
			t.Fatalf("%q", message)
		}
	}
}

func TestAKilledProcessGivesItsPermitsBack(t *testing.T) {
	d := domainOf(t)
	holder := start(t, d, "permits")
	holder.expect("taken")
	semaphore, err := d.OpenSemaphore("s", outlive.SemaphoreOptions{How: outlive.Open})
	check(t, err)
	if free := semaphore.Available(); free != 1 {
		t.Fatal(free)
	}
	expect(t, semaphore.Release(1), outlive.ErrNotOwner)
	taken := make(chan error)
	go func() {
		err := semaphore.Acquire(context.Background(), 3)
		if err == nil {
			err = semaphore.Release(3)
		}
		taken <- err
	}()
	holder.kill()
	check(t, <-taken)
}

func TestWhatWasTakenIsGivenBackAfterAClose(t *testing.T) {
	d := domainOf(t)
	semaphore, err := d.OpenSemaphore("s", outlive.SemaphoreOptions{Permits: 2})
	check(t, err)
	other, err := d.OpenSemaphore("s", outlive.SemaphoreOptions{How: outlive.Open})
	check(t, err)
	check(t, semaphore.Acquire(outlive.NoWait, 2))
	check(t, semaphore.Close())
	expect(t, semaphore.Acquire(outlive.NoWait, 1), outlive.ErrClosed)
	check(t, semaphore.Release(1))
	check(t, semaphore.Release(1))
	expect(t, semaphore.Release(1), outlive.ErrClosed)
	if free := other.Available(); free != 2 {
		t.Fatal(free)
	}
	barrier, err := d.OpenBarrier("b", outlive.OpenOrCreate, 1, outlive.DeathAny)
	check(t, err)
	seat, err := barrier.Join()
	check(t, err)
	check(t, barrier.Close())
	turn, err := seat.Wait(outlive.NoWait)
	check(t, err)
	if turn.Index != 0 || !turn.Leader {
		t.Fatalf("%+v", turn)
	}
	check(t, seat.Leave())
	check(t, seat.Leave())
	_, err = seat.Wait(outlive.NoWait)
	expect(t, err, outlive.ErrNotOwner)
}

func TestAKilledServerHadBegun(t *testing.T) {
	d := domainOf(t)
	client, err := d.OpenClient("service", outlive.ServiceOptions{})
	check(t, err)
	_, err = client.Call(aMinute(t), []byte("x"))
	expect(t, err, outlive.ErrNoPeer)
	server := start(t, d, "serves")
	server.expect("serving")
	call, err := client.Begin(aMinute(t), []byte("x"))
	check(t, err)
	server.expect("begun")
	server.kill()
	_, err = call.Next(aMinute(t))
	expect(t, err, outlive.ErrServerDiedBegun)
}

func TestAServiceRepliesAndFailsAndStreams(t *testing.T) {
	d := domainOf(t)
	client, err := d.OpenClient("service", outlive.ServiceOptions{WaitForServer: true})
	check(t, err)
	server, err := d.OpenServer(outlive.NoWait, "service", outlive.ServiceOptions{})
	check(t, err)
	go func() {
		for {
			request, err := server.Next(context.Background())
			if err != nil {
				return
			}
			switch asked := string(request.Data()); asked {
			case "fail":
				request.Fail("no such thing")
			case "drop":
				request.Close()
			case "loan":
				loan, err := request.Loan(4)
				if err == nil {
					copy(loan.Data(), "lent")
					loan.Send()
				}
			case "many":
				replies, err := request.Stream()
				for at := range 20 {
					if err == nil {
						err = replies.Send(context.Background(), []byte{byte(at)})
					}
				}
				replies.Finish()
			default:
				request.Reply([]byte(asked + "!"))
			}
		}
	}()
	reply, err := client.Call(aMinute(t), []byte("hello"))
	check(t, err)
	if string(reply) != "hello!" {
		t.Fatalf("%q", reply)
	}
	reply, err = client.Call(aMinute(t), []byte("loan"))
	check(t, err)
	if string(reply) != "lent" {
		t.Fatalf("%q", reply)
	}
	_, err = client.Call(aMinute(t), []byte("fail"))
	expect(t, err, outlive.ErrFailed)
	_, err = client.Call(aMinute(t), []byte("drop"))
	expect(t, err, outlive.ErrDropped)
	call, err := client.Begin(aMinute(t), []byte("many"))
	check(t, err)
	for at := range 20 {
		reply, err := call.Next(aMinute(t))
		check(t, err)
		if len(reply) != 1 || reply[0] != byte(at) {
			t.Fatalf("%v", reply)
		}
	}
	_, err = call.Next(aMinute(t))
	expect(t, err, io.EOF)
	check(t, call.Close())
	check(t, server.Close())
}

func TestATopicLendsItsMemory(t *testing.T) {
	d := domainOf(t)
	topic, err := d.OpenTopic("t", outlive.TopicOptions{Depth: 4})
	check(t, err)
	publisher, err := topic.Publisher(outlive.PublisherOptions{})
	check(t, err)
	subscriber, err := topic.Subscriber(outlive.SubscriberOptions{})
	check(t, err)
	loan, err := publisher.Loan(1 << 20)
	check(t, err)
	image := loan.Data()
	for at := range image {
		image[at] = byte(at % 251)
	}
	_, err = loan.Publish(aMinute(t), &outlive.Header{Key: 3, Frame: 4})
	check(t, err)
	if loan.Data() != nil {
		t.Fatal("a loan that was published shows its memory")
	}
	_, err = loan.Publish(aMinute(t), nil)
	expect(t, err, outlive.ErrClosed)
	sample, err := subscriber.Recv(aMinute(t))
	check(t, err)
	// The publisher goes on, and closes; the sample stays as it is.
	for range 10 {
		_, err := publisher.Publish(aMinute(t), make([]byte, 1<<20), nil)
		check(t, err)
	}
	check(t, publisher.Close())
	check(t, subscriber.Close())
	if header := sample.Header(); header.Key != 3 || header.Frame != 4 || header.Stamp == 0 {
		t.Fatalf("%+v", header)
	}
	data := sample.Data()
	if len(data) != 1<<20 {
		t.Fatal(len(data))
	}
	for at, found := range data {
		if found != byte(at%251) {
			t.Fatalf("byte %d is %d", at, found)
		}
	}
	check(t, sample.Close())
	if sample.Data() != nil {
		t.Fatal("a closed sample shows its message")
	}
}

func TestAKilledPublisherLeavesNoHalfMessage(t *testing.T) {
	d := domainOf(t)
	topic, err := d.OpenTopic("t", outlive.TopicOptions{})
	check(t, err)
	subscriber, err := topic.Subscriber(outlive.SubscriberOptions{Liveliness: time.Hour})
	check(t, err)
	publisher := start(t, d, "loans")
	publisher.expect("lent")
	publisher.kill()
	sample, err := subscriber.Recv(aMinute(t))
	check(t, err)
	if string(sample.Data()) != "whole" {
		t.Fatalf("%q", sample.Data())
	}
	_, err = subscriber.Recv(aMinute(t))
	expect(t, err, outlive.ErrOwnerDied)
}

func TestAStateHasOneWriter(t *testing.T) {
	d := domainOf(t)
	state, err := d.OpenState("s", outlive.StateOptions{Capacity: 100, Initial: []byte("first")})
	check(t, err)
	writer, err := state.Writer(outlive.NoWait)
	check(t, err)
	_, err = state.Writer(outlive.NoWait)
	expect(t, err, outlive.ErrBusy)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = state.Writer(ctx)
	expect(t, err, outlive.ErrBusy)
	expect(t, err, context.DeadlineExceeded)
	_, seen, err := state.Get()
	check(t, err)
	changed := make(chan uint64)
	go func() {
		version, _ := state.WaitChanged(context.Background(), seen)
		changed <- version
	}()
	version, err := writer.Set([]byte("second"))
	check(t, err)
	if got := <-changed; got != version {
		t.Fatal(got)
	}
	value, got, err := state.Get()
	check(t, err)
	if string(value) != "second" || got != version {
		t.Fatalf("%q %d", value, got)
	}
	_, err = writer.Set(make([]byte, 101))
	expect(t, err, outlive.ErrTooLarge)
	check(t, writer.Close())
}

func TestAConditionIsWaitedFor(t *testing.T) {
	d := domainOf(t)
	mutex := mutexOf(t, d)
	condvar, err := d.OpenCondvar("c", outlive.OpenOrCreate)
	check(t, err)
	done := make(chan error)
	go func() {
		guard, err := mutex.Lock(context.Background())
		for err == nil && guard.Value()[0] == 0 {
			err = condvar.Wait(context.Background(), guard)
		}
		if err == nil {
			err = guard.Unlock()
		}
		done <- err
	}()
	guard, err := mutex.Lock(aMinute(t))
	check(t, err)
	guard.Value()[0] = 1
	check(t, condvar.NotifyAll())
	check(t, guard.Unlock())
	check(t, <-done)
	guard, err = mutex.Lock(aMinute(t))
	check(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	for err == nil {
		err = condvar.Wait(ctx, guard)
	}
	expect(t, err, context.DeadlineExceeded)
	check(t, guard.Unlock())
}

func TestErrorsAreGosOwnToo(t *testing.T) {
	d := domainOf(t)
	_, err := d.OpenQueue("none", outlive.QueueOptions{How: outlive.Open})
	expect(t, err, outlive.ErrNotFound)
	expect(t, err, fs.ErrNotExist)
	_, err = d.OpenQueue("q/r", outlive.QueueOptions{})
	expect(t, err, outlive.ErrInvalid)
	_, err = d.OpenQueue("q\x00", outlive.QueueOptions{})
	expect(t, err, outlive.ErrInvalid)
	_, err = d.OpenMutex("m", outlive.LockOptions{Size: 8})
	check(t, err)
	_, err = d.OpenMutex("m", outlive.LockOptions{Size: 16})
	expect(t, err, outlive.ErrOtherType)
	_, err = d.OpenTopic("m", outlive.TopicOptions{})
	expect(t, err, outlive.ErrOtherKind)
	_, err = d.OpenMutex("m", outlive.LockOptions{How: outlive.CreateNew, Size: 8})
	expect(t, err, fs.ErrExist)
	if _, err := outlive.As[string](make([]byte, 16)); !errors.Is(err, outlive.ErrOtherType) {
		t.Fatal(err)
	}
	check(t, d.Close())
	_, err = d.OpenQueue("q", outlive.QueueOptions{})
	expect(t, err, outlive.ErrClosed)
}

func TestPoolsHandOver(t *testing.T) {
	d := domainOf(t)
	pool, err := d.OpenPool("p", outlive.PoolOptions{})
	check(t, err)
	object, err := pool.Alloc(100)
	check(t, err)
	copy(object.Data(), "handed over")
	offset, err := object.Offer()
	check(t, err)
	if object.Data() != nil {
		t.Fatal("an object that was offered shows its memory")
	}
	claimed, err := pool.Claim(offset)
	check(t, err)
	if string(claimed.Data()[:11]) != "handed over" {
		t.Fatalf("%q", claimed.Data())
	}
	_, err = pool.Claim(offset)
	expect(t, err, outlive.ErrStale)
	shared, err := claimed.Share()
	check(t, err)
	joined, err := pool.Join(shared.Offset())
	check(t, err)
	check(t, shared.Close())
	if string(joined.Data()[:11]) != "handed over" {
		t.Fatalf("%q", joined.Data())
	}
	check(t, joined.Close())
}

func TestClosingRacesWithEveryCall(t *testing.T) {
	d := domainOf(t)
	for range 30 {
		queue, err := d.OpenQueue("q", outlive.QueueOptions{})
		check(t, err)
		sender, err := queue.Sender()
		check(t, err)
		var all sync.WaitGroup
		for at := range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				if at == 3 {
					sender.Close()
					queue.Close()
					return
				}
				for range 200 {
					if err := sender.Send(outlive.NoWait, []byte("x")); errors.Is(err, outlive.ErrClosed) {
						return
					}
					queue.Counters()
				}
			}()
		}
		all.Wait()
		sender.Close()
		queue.Close()
	}
}
