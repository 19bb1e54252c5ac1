package main

import (
	"encoding/binary"
	"fmt"
	"time"

	"outlive"
)

var (
	states  = map[string]*outlive.State{}
	writers = map[string]*outlive.StateWriter{}
)

// writer returns the state's writer, made when it is first needed.
func writer(name string) (*outlive.StateWriter, error) {
	if writers[name] == nil {
		writer, err := states[name].Writer(outlive.NoWait)
		if err != nil {
			return nil, err
		}
		writers[name] = writer
	}
	return writers[name], nil
}

func set(name string, value []byte) (any, error) {
	writer, err := writer(name)
	if err != nil {
		return nil, err
	}
	return writer.Set(value)
}

func init() {
	family("state", map[string]verb{
		"open": func(w []string) (any, error) {
			state, err := domain.OpenState(w[0], outlive.StateOptions{Capacity: 8, Fixed: true, Initial: eight(w[1])})
			states[w[0]] = state
			return nil, err
		},
		"find": func(w []string) (any, error) {
			state, err := domain.OpenState(w[0], outlive.StateOptions{How: outlive.Open})
			if err == nil {
				state.Close()
			}
			return nil, err
		},
		"get": func(w []string) (any, error) {
			value, version, err := states[w[0]].Get()
			if err != nil {
				return nil, err
			}
			return fmt.Sprint(binary.NativeEndian.Uint64(value), " ", version), nil
		},
		"set": func(w []string) (any, error) { return set(w[0], eight(w[1])) },
		"prefault": func(w []string) (any, error) {
			writer, err := writer(w[0])
			if err != nil {
				return nil, err
			}
			return nil, writer.Prefault(int(number(w[1])))
		},
		"wait": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			return states[w[0]].WaitChanged(ctx, number(w[1]))
		},
		"close": func(w []string) (any, error) {
			if writer := writers[w[0]]; writer != nil {
				writer.Close()
			}
			delete(writers, w[0])
			return nil, nil
		},
	})
	family("bytes", map[string]verb{
		"open": func(w []string) (any, error) {
			state, err := domain.OpenState(w[0], outlive.StateOptions{Capacity: int(number(w[1])), Initial: message(w[2])})
			states[w[0]] = state
			return nil, err
		},
		"get": func(w []string) (any, error) {
			value, version, err := states[w[0]].Get()
			return fmt.Sprint(show(value), " ", version), err
		},
		"set": func(w []string) (any, error) { return set(w[0], message(w[1])) },
		"flood": func(w []string) (any, error) {
			for end, count := time.Now().Add(milliseconds(w[2])), uint64(1); time.Now().Before(end); count++ {
				if _, err := set(w[0], pattern(int(number(w[1])), count)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"watch": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			version := uint64(1)
			for range number(w[1]) {
				if _, err := states[w[0]].WaitChanged(ctx, version); err != nil {
					return nil, err
				}
				value, seen, err := states[w[0]].Get()
				if err != nil {
					return nil, err
				}
				version = seen
				if !isPattern(value, version-1) {
					return nil, wrong(version, value)
				}
			}
			return nil, nil
		},
	})
}
