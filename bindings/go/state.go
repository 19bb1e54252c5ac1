package outlive

// #include <outlive.h>
import "C"

import "context"

// State is the latest value under a name, of bytes: one writer, any number of readers, and none waits for
// another.
type State struct {
	handle
	c *C.outlive_state_t
}

// StateOptions say how a [State] is opened.
type StateOptions struct {
	// How says whether the name must exist.
	How Opening
	// Capacity is the most bytes of a value; 0 with [Open]: as it is.
	Capacity int
	// Fixed: each value has Capacity bytes, as those of one type in other languages.
	Fixed bool
	// Initial is a new state's first value; nil: none, or zeroes.
	Initial []byte
}

// OpenState opens the state of that name, or makes it.
func (d *Domain) OpenState(name string, options StateOptions) (*State, error) {
	s := &State{}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		if options.Fixed {
			return C.outlive_state_open_fixed(domain, name, options.How.c(), C.size_t(options.Capacity),
				address(options.Initial), &s.c)
		}
		return C.outlive_state_open(domain, name, options.How.c(), C.size_t(options.Capacity),
			address(options.Initial), C.size_t(len(options.Initial)), &s.c)
	})
	if err != nil {
		return nil, err
	}
	s.release = func() { C.outlive_state_close(s.c) }
	return s, nil
}

// Get returns the latest value, whole, and its version. It never waits; if the writer died in the
// middle of a Set, this is the value before.
func (s *State) Get() (value []byte, version uint64, err error) {
	err = s.inside(func() error {
		value = make([]byte, C.outlive_state_capacity(s.c))
		var size C.size_t
		var seen C.uint64_t
		err := do(func() C.int {
			return C.outlive_state_get(s.c, address(value), C.size_t(len(value)), &size, &seen)
		})
		if err == nil {
			value, version = value[:size], uint64(seen)
		}
		return err
	})
	return value, version, err
}

// WaitChanged waits until the value has another version than seen, and returns it. [ErrPeerDied]: the
// writer is dead.
func (s *State) WaitChanged(ctx context.Context, seen uint64) (uint64, error) {
	var version C.uint64_t
	err := s.inside(func() error {
		return await(ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_state_wait_changed(s.c, C.uint64_t(seen), until, &version)
		})
	})
	return uint64(version), err
}

// StateWriter sets the values of a state.
type StateWriter struct {
	turn
	c *C.outlive_state_writer_t
}

// Writer returns the state's writer, waiting for a living one to close or to die. With [NoWait]:
// [ErrBusy] while there is one.
func (s *State) Writer(ctx context.Context) (*StateWriter, error) {
	w := &StateWriter{}
	err := s.inside(func() error {
		return awaitWhile(ErrBusy, ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_state_writer(s.c, until, &w.c)
		})
	})
	if err != nil {
		return nil, err
	}
	w.turn = newTurn(func() { C.outlive_state_writer_close(w.c) })
	return w, nil
}

// Set sets the value, and returns its version. It waits for no reader.
func (w *StateWriter) Set(value []byte) (uint64, error) {
	var version C.uint64_t
	err := w.within(context.Background(), func() error {
		return do(func() C.int {
			return C.outlive_state_writer_set(w.c, address(value), C.size_t(len(value)), &version)
		})
	})
	return uint64(version), err
}

// Prefault makes room for so many readers before they come.
func (w *StateWriter) Prefault(readers int) error {
	return w.within(context.Background(), func() error {
		return do(func() C.int { return C.outlive_state_writer_prefault(w.c, C.size_t(readers)) })
	})
}
