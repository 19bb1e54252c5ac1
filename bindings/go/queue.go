package outlive

// #include <outlive.h>
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// Queue carries messages of bytes from any number of senders to one receiver at a time. A message
// whose Send has returned survives its sender and all receivers.
type Queue struct {
	handle
	c *C.outlive_queue_t
}

// QueueOptions say how a [Queue] is opened. What is 0 takes what an existing queue has, and in a new
// one the default.
type QueueOptions struct {
	// How says whether the name must exist.
	How Opening
	// MaxBytes is the most that the queue may take, 64 KiB to 6 GiB.
	MaxBytes uint64
	// MaxMessages is the most unread messages, 1 to 1,048,576.
	MaxMessages uint32
	// NeedReceiver: a send fails with [ErrNoPeer] while there is no receiver.
	NeedReceiver bool
	// KeepOnReceiverDeath: the queue goes on taking messages while its receiver is dead.
	KeepOnReceiverDeath bool
	// Wait says how this process waits.
	Wait WaitStrategy
}

// OpenQueue opens the queue of that name, or makes it.
func (d *Domain) OpenQueue(name string, options QueueOptions) (*Queue, error) {
	q := &Queue{}
	given := C.outlive_queue_options_t{
		size:          C.sizeof_outlive_queue_options_t,
		max_bytes:     C.uint64_t(options.MaxBytes),
		max_messages:  C.uint32_t(options.MaxMessages),
		need_receiver: flag(options.NeedReceiver),
		wait:          C.uint32_t(options.Wait),
	}
	if options.KeepOnReceiverDeath {
		given.on_receiver_death = C.OUTLIVE_RECEIVER_DEATH_KEEPS
	}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_queue_open(domain, name, options.How.c(), &given, &q.c)
	})
	if err != nil {
		return nil, err
	}
	q.release = func() { C.outlive_queue_close(q.c) }
	return q, nil
}

// QueueCounters count what has happened to a queue.
type QueueCounters struct {
	// Sent are messages sent and acknowledged, Received those received for good, Pending those in the
	// queue, Redelivered those handed out again because a receiver died before it committed them.
	Sent, Received, Pending, Redelivered uint64
	// Abandoned are messages whose sender died during the send; they were never acknowledged.
	Abandoned uint64
	// Bytes are what the queue takes now, MaxBytes the most.
	Bytes, MaxBytes uint64
}

// Counters returns the queue's counts: exact when it is quiet.
func (q *Queue) Counters() (QueueCounters, error) {
	var c C.outlive_queue_counters_t
	err := q.inside(func() error { return do(func() C.int { return C.outlive_queue_counters(q.c, &c) }) })
	return QueueCounters{
		Sent: uint64(c.sent), Received: uint64(c.received), Pending: uint64(c.pending),
		Redelivered: uint64(c.redelivered), Abandoned: uint64(c.abandoned),
		Bytes: uint64(c.bytes), MaxBytes: uint64(c.max_bytes),
	}, err
}

// Join waits until all messages have been received.
func (q *Queue) Join(ctx context.Context) error {
	return q.inside(func() error {
		return await(ctx, &q.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_queue_join(q.c, until)
		})
	})
}

// Prefault makes room for so many messages of that size before they are sent.
func (q *Queue) Prefault(messages, size int) error {
	return q.inside(func() error {
		return do(func() C.int { return C.outlive_queue_prefault(q.c, C.size_t(messages), C.size_t(size)) })
	})
}

// Sender puts messages into a queue.
type Sender struct {
	turn
	c *C.outlive_sender_t
}

// Sender returns a new sender.
func (q *Queue) Sender() (*Sender, error) {
	s := &Sender{}
	err := q.inside(func() error { return do(func() C.int { return C.outlive_queue_sender(q.c, &s.c) }) })
	if err != nil {
		return nil, err
	}
	s.turn = newTurn(func() { C.outlive_sender_close(s.c) })
	return s, nil
}

// Send puts a message into the queue, waiting while it is full. When it returns nil, the message is
// there, whatever becomes of this process.
//
// Errors: [ErrWouldBlock] with [NoWait], [ErrTimedOut]: it is full. [ErrPeerDied]: the receiver has
// died. [ErrNoPeer], [ErrTooLarge], [ErrNoSpace].
func (s *Sender) Send(ctx context.Context, message []byte) error {
	return s.within(ctx, func() error {
		return await(ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_sender_send(s.c, address(message), C.size_t(len(message)), until)
		})
	})
}

// SendBatch puts messages into the queue in one step: all or none.
func (s *Sender) SendBatch(ctx context.Context, messages [][]byte) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	batch := make([]C.outlive_bytes_t, len(messages))
	for at, message := range messages {
		if len(message) > 0 {
			pinner.Pin(&message[0])
			batch[at] = C.outlive_bytes_t{data: address(message), size: C.size_t(len(message))}
		}
	}
	return s.within(ctx, func() error {
		return await(ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_sender_send_batch(s.c, unsafe.SliceData(batch), C.size_t(len(batch)), until)
		})
	})
}

// Receiver takes messages out of a queue.
type Receiver struct {
	turn
	c      *C.outlive_receiver_t
	buffer []byte
}

// Receiver returns the queue's receiver, waiting for a living one to close or to die. With [NoWait]:
// [ErrBusy] while there is one.
func (q *Queue) Receiver(ctx context.Context) (*Receiver, error) {
	r := &Receiver{buffer: make([]byte, 256)}
	err := q.inside(func() error {
		return awaitWhile(ErrBusy, ctx, &q.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_queue_receiver(q.c, until, &r.c)
		})
	})
	if err != nil {
		return nil, err
	}
	r.turn = newTurn(func() { C.outlive_receiver_close(r.c) })
	return r, nil
}

// EndWhenSendersGone: a receive fails with [ErrPeerDied] when the queue is empty and all senders have
// closed or died.
func (r *Receiver) EndWhenSendersGone() error {
	return r.within(context.Background(), func() error {
		return do(func() C.int { return C.outlive_receiver_end_when_senders_gone(r.c, 1) })
	})
}

// Recv takes the next message. A process that is killed after it takes the message with it:
// [Receiver.Peek] and [Receiver.Commit] lose none.
func (r *Receiver) Recv(ctx context.Context) ([]byte, error) {
	var message []byte
	err := r.within(ctx, func() error {
		for {
			var size C.size_t
			err := await(ctx, &r.handle, func(until C.outlive_deadline_t) C.int {
				return C.outlive_receiver_recv(r.c, address(r.buffer), C.size_t(len(r.buffer)), &size, until)
			})
			if is(err, ErrTooLarge) && int(size) > len(r.buffer) {
				// The message stays where it is until there is room.
				r.buffer = make([]byte, size)
				continue
			}
			if err == nil {
				message = append([]byte{}, r.buffer[:size]...)
			}
			return err
		}
	})
	return message, err
}

// Peek shows the next message where it lies, and leaves it in the queue: the slice is for reading,
// until Commit or the next call with this receiver. If this process dies before the commit, the next
// receiver gets it again. redelivered: so it was with this one, and an earlier receiver may have acted
// on it.
func (r *Receiver) Peek(ctx context.Context) (message []byte, redelivered bool, err error) {
	err = r.within(ctx, func() error {
		var data unsafe.Pointer
		var size C.size_t
		var again C.uint32_t
		err := await(ctx, &r.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_receiver_peek(r.c, &data, &size, &again, until)
		})
		if err == nil {
			message, redelivered = view(data, size), again != 0
		}
		return err
	})
	return message, redelivered, err
}

// Commit takes the message that was peeked at out of the queue.
func (r *Receiver) Commit() error {
	return r.within(context.Background(), func() error {
		return do(func() C.int { return C.outlive_receiver_commit(r.c) })
	})
}
