package main

import (
	"fmt"

	"outlive"
)

var (
	notifiers = map[string]*outlive.Notifier{}
	listeners = map[string]*outlive.Listener{}
)

func noticeOptions(w []string) outlive.NotifierOptions {
	bit := func(key string) uint64 {
		if number := option(w, key); number > 0 {
			return 1 << number
		}
		return 0
	}
	return outlive.NotifierOptions{OnCreated: bit("created"), OnLeft: bit("left"), OnDied: bit("died")}
}

func init() {
	family("notifier", map[string]verb{
		"open": func(w []string) (any, error) {
			notifier, err := domain.OpenNotifier(w[0], noticeOptions(w))
			notifiers[w[0]] = notifier
			return nil, err
		},
		"notify": func(w []string) (any, error) { return notifiers[w[0]].Notify(int(number(w[1]))) },
		"close":  func(w []string) (any, error) { return nil, notifiers[w[0]].Close() },
	})
	family("listener", map[string]verb{
		"open": func(w []string) (any, error) {
			listener, err := domain.OpenListener(w[0], noticeOptions(w))
			listeners[w[0]] = listener
			return nil, err
		},
		"wait": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			notices, err := listeners[w[0]].Wait(ctx)
			said := "ok"
			for number := range 64 {
				if notices[number] > 0 {
					said += fmt.Sprintf(" %d:%d", number, notices[number])
				}
			}
			return whole(said), err
		},
		"close": func(w []string) (any, error) { return nil, listeners[w[0]].Close() },
	})
}
