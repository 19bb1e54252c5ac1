package outlive

// #include <stdlib.h>
// #include <string.h>
// #include <outlive.h>
import "C"

import (
	"context"
	"sync/atomic"
	"time"
	"unsafe"
)

// Topic carries each message of its publishers to all subscribers.
type Topic struct {
	handle
	c *C.outlive_topic_t
}

// Durability says what a topic keeps for subscribers that come later.
type Durability uint32

const (
	// DurabilityAny: not said. A new topic is [TransientLocal].
	DurabilityAny Durability = C.OUTLIVE_DURABILITY_ANY
	// Volatile: a subscriber gets what is published while it is there.
	Volatile Durability = C.OUTLIVE_VOLATILE
	// TransientLocal: a later subscriber gets what living publishers have published.
	TransientLocal Durability = C.OUTLIVE_TRANSIENT_LOCAL
	// Persistent: messages outlive their publishers.
	Persistent Durability = C.OUTLIVE_PERSISTENT
)

// TopicOptions say how a [Topic] is opened. What is not set takes what an existing topic has, and in
// a new one the default.
type TopicOptions struct {
	// How says whether the name must exist.
	How Opening
	// MaxBytes is the most that the topic may take, 64 KiB to 6 GiB.
	MaxBytes uint64
	// Depth is how many messages of each publisher are kept, 1 to 65,536.
	Depth uint32
	// MaxPublishers, MaxSubscribers, MaxSamples are the most of each at a time; samples of a subscriber.
	MaxPublishers, MaxSubscribers, MaxSamples uint32
	// Mode is the mode of the topic's file in a group's domain: 0o660, 0o640, 0o600.
	Mode uint32
	// Reliable: publishers wait for subscribers that ask for it.
	Reliable bool
	// Stamps or NoStamps: whether publishers stamp headers that have no stamp; neither: not said.
	Stamps, NoStamps bool
	// Durability says what the topic keeps.
	Durability Durability
	// AsIs: an existing topic is taken as it is.
	AsIs bool
	// Wait says how this process waits.
	Wait WaitStrategy
}

// OpenTopic opens the topic of that name, or makes it.
func (d *Domain) OpenTopic(name string, options TopicOptions) (*Topic, error) {
	t := &Topic{}
	given := C.outlive_topic_options_t{
		size:            C.sizeof_outlive_topic_options_t,
		max_bytes:       C.uint64_t(options.MaxBytes),
		depth:           C.uint32_t(options.Depth),
		max_publishers:  C.uint32_t(options.MaxPublishers),
		max_subscribers: C.uint32_t(options.MaxSubscribers),
		max_samples:     C.uint32_t(options.MaxSamples),
		mode:            C.uint32_t(options.Mode),
		reliable:        flag(options.Reliable),
		stamps:          flag(options.Stamps),
		no_stamps:       flag(options.NoStamps),
		durability:      C.uint32_t(options.Durability),
		as_is:           flag(options.AsIs),
		wait:            C.uint32_t(options.Wait),
	}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_topic_open(domain, name, options.How.c(), &given, &t.c)
	})
	if err != nil {
		return nil, err
	}
	t.release = func() { C.outlive_topic_close(t.c) }
	return t, nil
}

// Config returns the options that the topic has.
func (t *Topic) Config() (TopicOptions, error) {
	found := C.outlive_topic_options_t{size: C.sizeof_outlive_topic_options_t}
	err := t.inside(func() error { return do(func() C.int { return C.outlive_topic_config(t.c, &found) }) })
	return TopicOptions{
		MaxBytes: uint64(found.max_bytes), Depth: uint32(found.depth),
		MaxPublishers: uint32(found.max_publishers), MaxSubscribers: uint32(found.max_subscribers),
		MaxSamples: uint32(found.max_samples), Mode: uint32(found.mode),
		Reliable: found.reliable != 0, Stamps: found.stamps != 0, NoStamps: found.stamps == 0,
		Durability: Durability(found.durability),
	}, err
}

// Header is what a publisher sends along with a message.
type Header struct {
	// Stamp is the time, in nanoseconds since 1970; 0: publishers fill it in.
	Stamp uint64
	// Frame is a frame of reference, sensor or stream.
	Frame uint64
	// Key is what subscribers may select messages by.
	Key uint64
	// Own is for the application's own use.
	Own [32]byte
}

func (h *Header) c() *C.outlive_header_t {
	if h == nil {
		return nil
	}
	header := &C.outlive_header_t{stamp: C.uint64_t(h.Stamp), frame: C.uint64_t(h.Frame), key: C.uint64_t(h.Key)}
	for at, own := range h.Own {
		header.own[at] = C.uint8_t(own)
	}
	return header
}

// Publisher publishes messages to a topic.
type Publisher struct {
	turn
	c *C.outlive_publisher_t
}

// BlockNever is a [PublisherOptions] MaxBlocking: the publisher waits for no subscriber.
const BlockNever = time.Duration(C.OUTLIVE_BLOCK_NEVER)

// PublisherOptions are a publisher's options.
type PublisherOptions struct {
	// MaxBlocking is how long a reliable subscriber may be in the way of a message; 0: for as long as it
	// lives. [BlockNever]: not at all.
	MaxBlocking time.Duration
	// Period is how often this publisher means to publish; 0: not said.
	Period time.Duration
	// Lifespan is how long a message counts; 0: for ever.
	Lifespan time.Duration
}

// Publisher returns a new publisher. [ErrTooMany]: the topic has as many as it may.
func (t *Topic) Publisher(options PublisherOptions) (*Publisher, error) {
	p := &Publisher{}
	given := C.outlive_publisher_options_t{
		size:         C.sizeof_outlive_publisher_options_t,
		max_blocking: C.uint64_t(options.MaxBlocking),
		period:       C.uint64_t(options.Period),
		lifespan:     C.uint64_t(options.Lifespan),
	}
	err := t.inside(func() error {
		return do(func() C.int { return C.outlive_topic_publisher(t.c, &given, &p.c) })
	})
	if err != nil {
		return nil, err
	}
	p.turn = newTurn(func() { C.outlive_publisher_close(p.c) })
	return p, nil
}

// Publish publishes a copy of a message, and returns its number. It waits only for a reliable
// subscriber that has not taken the message that would be overwritten. header may be nil.
//
// Errors: [ErrWouldBlock] with [NoWait], [ErrTimedOut]: such a subscriber is in the way; [Error.Pid] is
// its process. [ErrTooLarge], [ErrNoSpace].
//
// If this process dies, subscribers get the whole message or none of it. A reliable subscriber's death
// ends the wait at once.
func (p *Publisher) Publish(ctx context.Context, message []byte, header *Header) (uint64, error) {
	given := header.c()
	var sequence C.uint64_t
	err := p.within(ctx, func() error {
		return await(ctx, &p.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_publisher_publish_copy(p.c, address(message), C.size_t(len(message)), given, until, &sequence)
		})
	})
	return uint64(sequence), err
}

// Loan is memory of the topic's for a message, written in place and published without a copy.
type Loan struct {
	publisher *Publisher
	c         *C.outlive_loan_t
	data      unsafe.Pointer
	size      int
	ended     atomic.Bool
}

// Loan lends memory for a message of that many bytes, up to 1 GiB. Its contents are arbitrary. If this
// process dies, its loans are free again. It is ended by [Loan.Publish] or [Loan.Close].
func (p *Publisher) Loan(size int) (*Loan, error) {
	l := &Loan{publisher: p, size: size}
	err := p.within(context.Background(), func() error {
		err := do(func() C.int { return C.outlive_publisher_loan(p.c, C.size_t(size), &l.c, &l.data) })
		if err == nil {
			// The publisher has to outlive its loans.
			p.stay(1)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Data returns the loan's memory, for writing, until it is published or closed.
func (l *Loan) Data() []byte {
	if l.ended.Load() {
		return nil
	}
	return view(l.data, C.size_t(l.size))
}

// Publish publishes the loan, which has ended then, also after an error. The number and the errors are
// those of [Publisher.Publish].
//
// A failed call of the library takes the loan, so a wait of this one cannot be cut into slices: it ends
// by the context's deadline, and not by a cancellation before it.
func (l *Loan) Publish(ctx context.Context, header *Header) (uint64, error) {
	if l.ended.Swap(true) {
		return 0, ErrClosed
	}
	p := l.publisher
	defer p.leave()
	var sequence C.uint64_t
	called := false
	err := p.within(ctx, func() error {
		called = true
		if given := header.c(); given != nil {
			if err := do(func() C.int { return C.outlive_loan_set_header(l.c, given) }); err != nil {
				C.outlive_loan_release(l.c)
				return err
			}
		}
		until := C.outlive_deadline_t(C.OUTLIVE_NEVER)
		if ctx == NoWait {
			until = C.OUTLIVE_TRY
		} else if deadline, bounded := ctx.Deadline(); bounded {
			until = C.outlive_after(C.uint64_t(max(time.Until(deadline), 0)))
		}
		return do(func() C.int { return C.outlive_publisher_publish(p.c, l.c, until, &sequence) })
	})
	if !called {
		C.outlive_loan_release(l.c)
	}
	return uint64(sequence), err
}

// Close gives the loan back, unless it has ended.
func (l *Loan) Close() error {
	if l.ended.Swap(true) {
		return nil
	}
	p := l.publisher
	defer p.leave()
	// Loans and their publisher are for one thread at a time.
	p.occupied <- struct{}{}
	defer func() { <-p.occupied }()
	C.outlive_loan_release(l.c)
	return nil
}

// Prefault makes room for so many messages of that size before they are published.
func (p *Publisher) Prefault(held, size int) error {
	return p.within(context.Background(), func() error {
		return do(func() C.int { return C.outlive_publisher_prefault(p.c, C.size_t(held), C.size_t(size)) })
	})
}

// number returns what a call that cannot fail returns, or 0 of a handle that was closed.
func (t *turn) number(call func() C.uint64_t) uint64 {
	var number uint64
	_ = t.within(context.Background(), func() error {
		number = uint64(call())
		return nil
	})
	return number
}

// SubscriberCount returns how many subscribers the topic has.
func (p *Publisher) SubscriberCount() int {
	return int(p.number(func() C.uint64_t { return C.uint64_t(C.outlive_publisher_subscriber_count(p.c)) }))
}

// Missed returns how many periods have passed without a message of this publisher.
func (p *Publisher) Missed() uint64 {
	return p.number(func() C.uint64_t { return C.outlive_publisher_missed(p.c) })
}

// AssertLiveliness tells subscribers that this publisher does something.
func (p *Publisher) AssertLiveliness() {
	p.number(func() C.uint64_t {
		C.outlive_publisher_assert_liveliness(p.c)
		return 0
	})
}

// Slowest returns the reliable subscriber that is furthest behind, and how many messages it has still
// to take; [ErrNothing]: there is none.
func (p *Publisher) Slowest() (Peer, uint64, error) {
	var found C.outlive_laggard_t
	err := p.within(context.Background(), func() error {
		return do(func() C.int { return C.outlive_publisher_slowest(p.c, &found) })
	})
	if err != nil {
		return Peer{}, 0, err
	}
	return peer(&found.who), uint64(found.lag), nil
}

// Subscriber receives the messages of a topic: each subscriber gets all of them.
type Subscriber struct {
	turn
	c *C.outlive_subscriber_t
}

// SubscriberOptions are a subscriber's options.
type SubscriberOptions struct {
	// Reliable: publishers wait until this subscriber has taken a message before they overwrite it. Its
	// death lets them go on.
	Reliable bool
	// History is how many messages of each publisher from before the subscription to receive.
	History uint32
	// KeepLast is the maximum lag behind each publisher, in messages; 0: the topic's depth.
	KeepLast uint32
	// Durability says which earlier messages to get at most.
	Durability Durability
	// Keys selects messages; none: all.
	Keys []uint64
	// Period is how often to expect a message ([ErrMissed]); 0: no such limit.
	Period time.Duration
	// Sessions: it is told of each start of a publisher ([ErrNewSession]).
	Sessions bool
	// MaxAge is how old a message may be; 0: any age.
	MaxAge time.Duration
	// Liveliness is how long a publisher may live and do nothing ([ErrNotLively], [ErrLively],
	// [ErrOwnerDied]); 0: it is told of none of that.
	Liveliness time.Duration
}

// Subscriber returns a new subscriber. [ErrTooMany]: the topic has as many as it may.
func (t *Topic) Subscriber(options SubscriberOptions) (*Subscriber, error) {
	s := &Subscriber{}
	given := C.outlive_subscriber_options_t{
		size:       C.sizeof_outlive_subscriber_options_t,
		reliable:   flag(options.Reliable),
		history:    C.uint32_t(options.History),
		keep_last:  C.uint32_t(options.KeepLast),
		durability: C.uint32_t(options.Durability),
		key_count:  C.size_t(len(options.Keys)),
		period:     C.uint64_t(options.Period),
		sessions:   flag(options.Sessions),
		max_age:    C.uint64_t(options.MaxAge),
		liveliness: C.uint64_t(options.Liveliness),
	}
	if len(options.Keys) > 0 {
		// The library's memory: a struct that is given to C points to nothing of Go's.
		bytes := C.size_t(len(options.Keys)) * 8
		keys := C.malloc(bytes)
		defer C.free(keys)
		C.memcpy(keys, unsafe.Pointer(&options.Keys[0]), bytes)
		given.keys = (*C.uint64_t)(keys)
	}
	err := t.inside(func() error {
		return do(func() C.int { return C.outlive_topic_subscriber(t.c, &given, &s.c) })
	})
	if err != nil {
		return nil, err
	}
	s.turn = newTurn(func() { C.outlive_subscriber_close(s.c) })
	return s, nil
}

// Sample is a received message, read where it lies. It stays as it is until it is closed, whatever its
// publisher does, also longer than its subscriber is open.
type Sample struct {
	handle
	c *C.outlive_sample_t
}

func sampleOf(c *C.outlive_sample_t) *Sample {
	return &Sample{handle: handle{release: func() { C.outlive_sample_release(c) }}, c: c}
}

// Recv receives the next message.
//
// Errors: [ErrWouldBlock] with [NoWait], [ErrTimedOut]; [ErrTooManyHeld]: close samples; and what the
// subscriber's options ask for: [ErrMissed], [ErrLagged], [ErrNewSession], [ErrNotLively], [ErrLively],
// [ErrOwnerDied]. After each, the next call goes on.
func (s *Subscriber) Recv(ctx context.Context) (*Sample, error) {
	var c *C.outlive_sample_t
	err := s.within(ctx, func() error {
		return await(ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_subscriber_recv(s.c, &c, until)
		})
	})
	if err != nil {
		return nil, err
	}
	return sampleOf(c), nil
}

// Latest returns the newest message, and passes over all before it.
func (s *Subscriber) Latest() (*Sample, error) {
	var c *C.outlive_sample_t
	err := s.within(context.Background(), func() error {
		return do(func() C.int { return C.outlive_subscriber_latest(s.c, &c) })
	})
	if err != nil {
		return nil, err
	}
	return sampleOf(c), nil
}

// Lost returns how many messages were overwritten before this subscriber took them.
func (s *Subscriber) Lost() uint64 {
	return s.number(func() C.uint64_t { return C.outlive_subscriber_lost(s.c) })
}

// Expired returns how many messages were too old.
func (s *Subscriber) Expired() uint64 {
	return s.number(func() C.uint64_t { return C.outlive_subscriber_expired(s.c) })
}

// Lagged returns how many messages a reliable subscriber has lost to publishers that did not wait.
func (s *Subscriber) Lagged() uint64 {
	return s.number(func() C.uint64_t { return C.outlive_subscriber_lagged(s.c) })
}

// Missed returns how many periods have passed without a message.
func (s *Subscriber) Missed() uint64 {
	return s.number(func() C.uint64_t { return C.outlive_subscriber_missed(s.c) })
}

// Lapses returns how often a publisher was not lively.
func (s *Subscriber) Lapses() uint64 {
	return s.number(func() C.uint64_t { return C.outlive_subscriber_lapses(s.c) })
}

// Lag returns how many messages there are to be received.
func (s *Subscriber) Lag() uint64 {
	return s.number(func() C.uint64_t { return C.outlive_subscriber_lag(s.c) })
}

// PublisherCount returns how many publishers the topic has.
func (s *Subscriber) PublisherCount() int {
	return int(s.number(func() C.uint64_t { return C.uint64_t(C.outlive_subscriber_publisher_count(s.c)) }))
}

// of calls the function, unless the sample was closed.
func of[T any](s *Sample, ask func() T) T {
	var answer T
	_ = s.inside(func() error {
		answer = ask()
		return nil
	})
	return answer
}

// Data returns the message, for reading, until Close.
func (s *Sample) Data() []byte {
	return of(s, func() []byte { return view(C.outlive_sample_data(s.c), C.outlive_sample_size(s.c)) })
}

// Header returns what was sent along with the message.
func (s *Sample) Header() Header {
	return of(s, func() Header {
		var c C.outlive_header_t
		C.outlive_sample_header(s.c, &c)
		header := Header{Stamp: uint64(c.stamp), Frame: uint64(c.frame), Key: uint64(c.key)}
		for at := range header.Own {
			header.Own[at] = byte(c.own[at])
		}
		return header
	})
}

// Sequence returns the message's number among those of its publisher.
func (s *Sample) Sequence() uint64 {
	return of(s, func() uint64 { return uint64(C.outlive_sample_sequence(s.c)) })
}

// Order returns the message's place among those of all publishers.
func (s *Sample) Order() uint64 {
	return of(s, func() uint64 { return uint64(C.outlive_sample_order(s.c)) })
}

// Publisher returns the token of the publisher's process.
func (s *Sample) Publisher() Token {
	return of(s, func() Token { return Token(C.outlive_sample_publisher(s.c)) })
}

// PublisherAlive reports whether the publisher's process lives.
func (s *Sample) PublisherAlive() bool {
	return of(s, func() bool { return C.outlive_sample_publisher_alive(s.c) == 1 })
}

// Session returns the number of the publisher's start.
func (s *Sample) Session() uint32 {
	return of(s, func() uint32 { return uint32(C.outlive_sample_session(s.c)) })
}

// Age returns how old the message is, by its stamp; false: it has none.
func (s *Sample) Age() (time.Duration, bool) {
	age := of(s, func() uint64 { return uint64(C.outlive_sample_age(s.c)) })
	if age == 1<<64-1 {
		return 0, false
	}
	return time.Duration(age), true
}
