package main

import (
	"context"
	"errors"
	"time"

	"outlive"
)

// queue is a queue and its ends, each made when it is first needed.
type queue struct {
	queue          *outlive.Queue
	sender         *outlive.Sender
	receiver       *outlive.Receiver
	ending         bool
	sent, received uint64
}

var queues = map[string]*queue{}

func (q *queue) send() (*outlive.Sender, error) {
	var err error
	if q.sender == nil {
		q.sender, err = q.queue.Sender()
	}
	return q.sender, err
}

func (q *queue) receive() (*outlive.Receiver, error) {
	if q.receiver != nil {
		return q.receiver, nil
	}
	receiver, err := q.queue.Receiver(outlive.NoWait)
	if err == nil && q.ending {
		err = receiver.EndWhenSendersGone()
	}
	if err == nil {
		q.receiver = receiver
	}
	return receiver, err
}

// drain takes the next one of a flood.
func (q *queue) drain(ctx context.Context) error {
	receiver, err := q.receive()
	if err != nil {
		return err
	}
	data, err := receiver.Recv(ctx)
	if err != nil {
		return err
	}
	q.received++
	if !isPattern(data, q.received) {
		return wrong(q.received, data)
	}
	return nil
}

// sending is a verb with the sender.
func sending(span int, act func(ctx context.Context, q *queue, to *outlive.Sender, w []string) (any, error)) verb {
	return func(w []string) (any, error) {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if span < 0 {
			ctx, cancel = until(w[len(w)+span])
		}
		defer cancel()
		to, err := queues[w[0]].send()
		if err != nil {
			return nil, err
		}
		return act(ctx, queues[w[0]], to, w)
	}
}

func receiving(act func(ctx context.Context, from *outlive.Receiver) (any, error)) verb {
	return func(w []string) (any, error) {
		ctx, cancel := until(w[1])
		defer cancel()
		from, err := queues[w[0]].receive()
		if err != nil {
			return nil, err
		}
		return act(ctx, from)
	}
}

func init() {
	family("queue", map[string]verb{
		"open": func(w []string) (any, error) {
			options := outlive.QueueOptions{
				MaxBytes:            option(w, "max"),
				MaxMessages:         uint32(option(w, "messages")),
				NeedReceiver:        has(w, "refuse"),
				KeepOnReceiverDeath: has(w, "keep"),
			}
			if has(w, "existing") {
				options.How = outlive.Open
			}
			opened, err := domain.OpenQueue(w[0], options)
			if err == nil {
				queues[w[0]] = &queue{queue: opened, ending: has(w, "ending")}
			}
			return nil, err
		},
		"join": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			return nil, queues[w[0]].queue.Join(ctx)
		},
		"send": sending(-1, func(ctx context.Context, q *queue, to *outlive.Sender, w []string) (any, error) {
			return nil, to.Send(ctx, message(w[1]))
		}),
		"batch": sending(-1, func(ctx context.Context, q *queue, to *outlive.Sender, w []string) (any, error) {
			var batch [][]byte
			for _, word := range w[1 : len(w)-1] {
				batch = append(batch, message(word))
			}
			return nil, to.SendBatch(ctx, batch)
		}),
		"fill": sending(0, func(ctx context.Context, q *queue, to *outlive.Sender, w []string) (any, error) {
			for {
				err := to.Send(outlive.NoWait, pattern(int(number(w[1])), q.sent+1))
				if errors.Is(err, outlive.ErrWouldBlock) {
					return q.sent, nil
				}
				if err != nil {
					return nil, err
				}
				q.sent++
			}
		}),
		"flood": sending(0, func(ctx context.Context, q *queue, to *outlive.Sender, w []string) (any, error) {
			for end := time.Now().Add(milliseconds(w[2])); time.Now().Before(end); {
				q.sent++
				if err := to.Send(ctx, pattern(int(number(w[1])), q.sent)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}),
		"recv": receiving(func(ctx context.Context, from *outlive.Receiver) (any, error) {
			return shown(from.Recv(ctx))
		}),
		"peek": receiving(func(ctx context.Context, from *outlive.Receiver) (any, error) {
			data, again, err := from.Peek(ctx)
			return show(data) + map[bool]string{true: " again", false: " fresh"}[again], err
		}),
		"commit": func(w []string) (any, error) { return nil, queues[w[0]].receiver.Commit() },
		"count": func(w []string) (any, error) {
			counters, err := queues[w[0]].queue.Counters()
			return map[string]uint64{
				"sent": counters.Sent, "received": counters.Received,
				"pending": counters.Pending, "redelivered": counters.Redelivered,
			}[w[1]], err
		},
		"drain": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			for range number(w[1]) {
				if err := queues[w[0]].drain(ctx); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"drain_all": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			for {
				err := queues[w[0]].drain(ctx)
				if errors.Is(err, outlive.ErrPeerDied) {
					return queues[w[0]].received, nil
				}
				if err != nil {
					return nil, err
				}
			}
		},
		"close": func(w []string) (any, error) {
			q := queues[w[0]]
			if q.sender != nil {
				q.sender.Close()
			}
			if q.receiver != nil {
				q.receiver.Close()
			}
			q.sender, q.receiver = nil, nil
			return nil, nil
		},
		"prefault": func(w []string) (any, error) {
			return nil, queues[w[0]].queue.Prefault(int(number(w[1])), int(number(w[2])))
		},
	})
}
