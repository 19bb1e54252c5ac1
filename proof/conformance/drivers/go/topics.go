package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"outlive"
)

var (
	topics      = map[string]*outlive.Topic{}
	publishers  = map[string]*outlive.Publisher{}
	subscribers = map[string]*outlive.Subscriber{}
	published   = map[string]uint64{}
	// There once: what was taken and lent last.
	sample *outlive.Sample
	loan   *outlive.Loan
	// Of which only the number counts.
	crowdPublishers  []*outlive.Publisher
	crowdSubscribers []*outlive.Subscriber
)

func durability(words []string) outlive.Durability {
	if has(words, "volatile") {
		return outlive.Volatile
	}
	if has(words, "persistent") {
		return outlive.Persistent
	}
	return outlive.DurabilityAny
}

func openTopic(w []string) (any, error) {
	// It has no descriptions of types.
	for _, typed := range []string{"track", "scan", "cloud", "other"} {
		if has(w, typed) {
			return whole("error Unsupported topic.open of a described type"), nil
		}
	}
	topic, err := domain.OpenTopic(w[0], outlive.TopicOptions{
		MaxBytes: option(w, "max"), Depth: uint32(option(w, "depth")),
		MaxPublishers:  uint32(option(w, "publishers")),
		MaxSubscribers: uint32(option(w, "subscribers")),
		MaxSamples:     uint32(option(w, "samples")),
		Mode:           uint32(option(w, "mode")),
		Stamps:         has(w, "stamps"), NoStamps: has(w, "no-stamps"),
		Reliable: has(w, "reliable"), AsIs: has(w, "as-is"), Durability: durability(w),
	})
	if err == nil {
		topics[w[0]] = topic
	}
	return nil, err
}

func config(w []string) (any, error) {
	found, err := topics[w[0]].Config()
	kept := map[outlive.Durability]string{
		outlive.Volatile: "volatile", outlive.TransientLocal: "transient_local", outlive.Persistent: "persistent",
	}
	return fmt.Sprintf("%d %d %d %d %s %d %d %d %d", found.Depth, found.MaxBytes, count(found.Stamps), count(found.Reliable),
		kept[found.Durability], found.MaxPublishers, found.MaxSubscribers, found.MaxSamples, found.Mode), err
}

func subscribe(w []string) (any, error) {
	options := outlive.SubscriberOptions{
		Reliable: has(w, "reliable"), Sessions: has(w, "sessions"), Durability: durability(w),
		History: uint32(option(w, "history")), KeepLast: uint32(option(w, "keep")),
		MaxAge:     time.Duration(option(w, "age")) * time.Millisecond,
		Liveliness: time.Duration(option(w, "lease")) * time.Millisecond,
		Period:     time.Duration(option(w, "period")) * time.Millisecond,
	}
	for _, word := range w {
		if key, is := strings.CutPrefix(word, "key="); is {
			options.Keys = append(options.Keys, number(key))
		}
	}
	subscriber, err := topics[w[0]].Subscriber(options)
	subscribers[w[0]] = subscriber
	return nil, err
}

func publish(w []string) (any, error) {
	ctx, cancel := until(w[2])
	defer cancel()
	header := outlive.Header{Key: option(w[3:], "key"), Frame: option(w[3:], "frame"), Stamp: option(w[3:], "stamp")}
	return publishers[w[0]].Publish(ctx, message(w[1]), &header)
}

func publishPattern(name, size string) error {
	_, err := publishers[name].Publish(context.Background(), pattern(int(number(size)), published[name]), nil)
	if err == nil {
		published[name]++
	}
	return err
}

func take(taken *outlive.Sample, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if sample != nil {
		sample.Close()
	}
	sample = taken
	return show(taken.Data()), nil
}

// check looks at a message of a flood.
func check(taken *outlive.Sample) error {
	defer taken.Close()
	if !isPattern(taken.Data(), taken.Sequence()) {
		return wrong(taken.Sequence(), taken.Data())
	}
	return nil
}

// drainAll takes what is there.
func drainAll(from *outlive.Subscriber, count *uint64) error {
	for {
		taken, err := from.Recv(outlive.NoWait)
		if errors.Is(err, outlive.ErrWouldBlock) {
			return nil
		}
		if err == nil {
			err = check(taken)
		}
		if err != nil {
			return err
		}
		*count++
	}
}

func ofSample(ask func() any) verb { return func([]string) (any, error) { return ask(), nil } }

func init() {
	family("topic", map[string]verb{
		"open": openTopic,
		"find": func(w []string) (any, error) {
			topic, err := domain.OpenTopic(w[0], outlive.TopicOptions{How: outlive.Open})
			if err == nil {
				topic.Close()
			}
			return nil, err
		},
		"config":  config,
		"payload": func(w []string) (any, error) { return domain.Payload(w[0]) },
		"publisher": func(w []string) (any, error) {
			publisher, err := topics[w[0]].Publisher(outlive.PublisherOptions{
				MaxBlocking: time.Duration(option(w, "blocking")) * time.Millisecond,
				Lifespan:    time.Duration(option(w, "lifespan")) * time.Millisecond,
				Period:      time.Duration(option(w, "period")) * time.Millisecond,
			})
			publishers[w[0]] = publisher
			return nil, err
		},
		"subscriber":  subscribe,
		"unsubscribe": func(w []string) (any, error) { return nil, subscribers[w[0]].Close() },
		"publish":     publish,
		"publish_many": func(w []string) (any, error) {
			for range number(w[1]) {
				if err := publishPattern(w[0], w[2]); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"flood": func(w []string) (any, error) {
			for end := time.Now().Add(milliseconds(w[2])); time.Now().Before(end); {
				if err := publishPattern(w[0], w[1]); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"publish_hex": func(w []string) (any, error) {
			data, err := hex.DecodeString(w[1])
			if err != nil {
				return nil, err
			}
			return publishers[w[0]].Publish(context.Background(), data, nil)
		},
		"loan": func(w []string) (any, error) {
			data := message(w[1])
			var err error
			if loan, err = publishers[w[0]].Loan(len(data)); err == nil {
				copy(loan.Data(), data)
			}
			return nil, err
		},
		"publish_loan": func(w []string) (any, error) { return loan.Publish(context.Background(), nil) },
		"recv": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			return take(subscribers[w[0]].Recv(ctx))
		},
		"recv_hex": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			taken, err := subscribers[w[0]].Recv(ctx)
			if err != nil {
				return nil, err
			}
			defer taken.Close()
			return hex.EncodeToString(taken.Data()), nil
		},
		"latest": func(w []string) (any, error) { return take(subscribers[w[0]].Latest()) },
		"drain": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			for range number(w[1]) {
				taken, err := subscribers[w[0]].Recv(ctx)
				if err == nil {
					err = check(taken)
				}
				if err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"drain_all": func(w []string) (any, error) {
			var count uint64
			err := drainAll(subscribers[w[0]], &count)
			return count, err
		},
		"consume": func(w []string) (any, error) {
			for end := time.Now().Add(milliseconds(w[1])); time.Now().Before(end); {
				ctx, cancel := until(w[1])
				taken, err := subscribers[w[0]].Recv(ctx)
				cancel()
				if err != nil {
					return nil, err
				}
				taken.Close()
			}
			return nil, nil
		},
		"crowd": func(w []string) (any, error) {
			for range number(w[1]) {
				one, err := topics[w[0]].Publisher(outlive.PublisherOptions{})
				if err != nil {
					return nil, err
				}
				crowdPublishers = append(crowdPublishers, one)
			}
			for range number(w[2]) {
				one, err := topics[w[0]].Subscriber(outlive.SubscriberOptions{})
				if err != nil {
					return nil, err
				}
				crowdSubscribers = append(crowdSubscribers, one)
			}
			return nil, nil
		},
		"crowd_publish": func(w []string) (any, error) {
			for _, one := range crowdPublishers {
				if _, err := one.Publish(context.Background(), pattern(int(number(w[1])), 0), nil); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"crowd_recv": func(w []string) (any, error) {
			var count uint64
			for _, one := range crowdSubscribers {
				if err := drainAll(one, &count); err != nil {
					return nil, err
				}
			}
			return count, nil
		},
		"prefault": func(w []string) (any, error) {
			return nil, publishers[w[0]].Prefault(int(number(w[1])), int(number(w[2])))
		},
		"slowest": func(w []string) (any, error) {
			who, lag, err := publishers[w[0]].Slowest()
			if errors.Is(err, outlive.ErrNothing) {
				return "none", nil
			}
			return fmt.Sprint(who.Pid, " ", lag), err
		},
		"assert":      func(w []string) (any, error) { publishers[w[0]].AssertLiveliness(); return nil, nil },
		"lapses":      func(w []string) (any, error) { return subscribers[w[0]].Lapses(), nil },
		"missed":      func(w []string) (any, error) { return count(subscribers[w[0]].Missed() > 0), nil },
		"late":        func(w []string) (any, error) { return count(publishers[w[0]].Missed() > 0), nil },
		"expired":     func(w []string) (any, error) { return subscribers[w[0]].Expired(), nil },
		"lost":        func(w []string) (any, error) { return subscribers[w[0]].Lost(), nil },
		"lag":         func(w []string) (any, error) { return subscribers[w[0]].Lag(), nil },
		"publishers":  func(w []string) (any, error) { return subscribers[w[0]].PublisherCount(), nil },
		"subscribers": func(w []string) (any, error) { return publishers[w[0]].SubscriberCount(), nil },
	})
	family("sample", map[string]verb{
		"show":      ofSample(func() any { return show(sample.Data()) }),
		"sequence":  ofSample(func() any { return sample.Sequence() }),
		"order":     ofSample(func() any { return sample.Order() }),
		"key":       ofSample(func() any { return sample.Header().Key }),
		"frame":     ofSample(func() any { return sample.Header().Frame }),
		"stamp":     ofSample(func() any { return sample.Header().Stamp }),
		"publisher": ofSample(func() any { return sample.Publisher() }),
		"session":   ofSample(func() any { return sample.Session() }),
		"alive":     ofSample(func() any { return count(sample.PublisherAlive()) }),
		"age": ofSample(func() any {
			age, known := sample.Age()
			if !known {
				return "unknown"
			}
			return map[bool]string{true: "fresh", false: "old"}[age < time.Minute]
		}),
		"drop": func([]string) (any, error) { return nil, sample.Close() },
	})
}
