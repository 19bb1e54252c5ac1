package main

import (
	"context"
	"fmt"

	"outlive"
)

var (
	semaphores = map[string]*outlive.Semaphore{}
	events     = map[string]*outlive.Event{}
	barriers   = map[string]*outlive.Barrier{}
	seats      = map[string]*outlive.Seat{}
	latches    = map[string]*outlive.Latch{}
)

func acquire(name string, permits int, span string) (any, error) {
	ctx, cancel := until(span)
	defer cancel()
	return nil, semaphores[name].Acquire(ctx, permits)
}

func waitBits(wait func(*outlive.Event, context.Context, uint32) (uint32, error)) verb {
	return func(w []string) (any, error) {
		ctx, cancel := until(w[2])
		defer cancel()
		return wait(events[w[0]], ctx, uint32(number(w[1])))
	}
}

func barrierWait(w []string) (any, error) {
	ctx, cancel := until(w[1])
	defer cancel()
	if seats[w[0]] == nil {
		seat, err := barriers[w[0]].Join()
		if err != nil {
			return nil, err
		}
		seats[w[0]] = seat
	}
	turn, err := seats[w[0]].Wait(ctx)
	return turn.Index, err
}

func init() {
	family("sem", map[string]verb{
		"open": func(w []string) (any, error) {
			semaphore, err := domain.OpenSemaphore(w[0], outlive.SemaphoreOptions{Permits: int(number(w[1]))})
			semaphores[w[0]] = semaphore
			return nil, err
		},
		"acquire":      func(w []string) (any, error) { return acquire(w[0], 1, w[1]) },
		"acquire_many": func(w []string) (any, error) { return acquire(w[0], int(number(w[1])), w[2]) },
		"release":      func(w []string) (any, error) { return nil, semaphores[w[0]].Release(1) },
		"release_many": func(w []string) (any, error) { return nil, semaphores[w[0]].Release(int(number(w[1]))) },
		"add":          func(w []string) (any, error) { return nil, semaphores[w[0]].Add() },
		"available":    func(w []string) (any, error) { return semaphores[w[0]].Available(), nil },
	})
	family("event", map[string]verb{
		"open": func(w []string) (any, error) {
			reset := outlive.ResetManual
			if w[1] == "automatic" {
				reset = outlive.ResetAutomatic
			}
			event, err := domain.OpenEvent(w[0], outlive.OpenOrCreate, reset)
			events[w[0]] = event
			return nil, err
		},
		"set":   func(w []string) (any, error) { return nil, events[w[0]].Set(uint32(number(w[1]))) },
		"clear": func(w []string) (any, error) { return nil, events[w[0]].Clear(uint32(number(w[1]))) },
		"bits":  func(w []string) (any, error) { return events[w[0]].Bits(), nil },
		"any":   waitBits((*outlive.Event).WaitAny),
		"all":   waitBits((*outlive.Event).WaitAll),
	})
	family("barrier", map[string]verb{
		"open": func(w []string) (any, error) {
			when := outlive.DeathBreaks
			if w[2] == "count_out" {
				when = outlive.DeathCountsOut
			}
			barrier, err := domain.OpenBarrier(w[0], outlive.OpenOrCreate, int(number(w[1])), when)
			barriers[w[0]] = barrier
			return nil, err
		},
		"wait": barrierWait,
		"abort_wait": func(w []string) (any, error) {
			turn, err := seats[w[0]].AbortWait()
			return turn.Index, err
		},
		"abort": func(w []string) (any, error) { return nil, barriers[w[0]].Abort() },
		"reset": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			return nil, barriers[w[0]].Reset(ctx)
		},
		"repair": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			return nil, barriers[w[0]].Repair(ctx)
		},
		"state": func(w []string) (any, error) {
			state, err := barriers[w[0]].State()
			said := fmt.Sprintf("%d of %d", state.Waiting, state.Parties)
			if state.Broken {
				said += " broken"
			}
			return said, err
		},
	})
	family("latch", map[string]verb{
		"open": func(w []string) (any, error) {
			latch, err := domain.OpenLatch(w[0], outlive.OpenOrCreate, int(number(w[1])))
			latches[w[0]] = latch
			return nil, err
		},
		"arrive": func(w []string) (any, error) { return latches[w[0]].Arrive(int(number(w[1]))) },
		"wait": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			return nil, latches[w[0]].Wait(ctx)
		},
	})
}
