package outlive

// #include <stdlib.h>
// #include <outlive.h>
import "C"

import (
	"context"
	"unsafe"
)

// Domain is a folder on a memory file system in which processes find each other; every named object is
// a file in it. There is no daemon to start.
type Domain struct {
	handle
	c *C.outlive_domain_t
}

// DomainOptions say which domain to open. The zero value is the default domain: what the environment's
// OUTLIVE_DOMAIN names, else the configuration file, else "default".
type DomainOptions struct {
	// How says whether the domain must exist.
	How Opening
	// Path is a folder, whose parent must exist. Empty: Name says which.
	Path string
	// Name is a domain of the user's own, /dev/shm/outlive-UID/NAME.
	Name string
	// Group shares the domain: its name in /etc/group, or its number.
	Group string
}

// OpenDomain opens a domain, or makes it.
//
// Errors: [ErrNotOwner]: the folder is another user's, or others may enter it. [ErrNotADomain]: it
// holds other things, and is left as it is. [ErrNotFound], [ErrExists], [ErrInvalid], [ErrOtherVersion].
func OpenDomain(options DomainOptions) (*Domain, error) {
	d := &Domain{}
	given := C.outlive_domain_options_t{size: C.sizeof_outlive_domain_options_t}
	for _, text := range []struct {
		of string
		to **C.char
	}{{options.Path, &given.path}, {options.Name, &given.name}, {options.Group, &given.group_name}} {
		if text.of != "" {
			*text.to = C.CString(text.of)
			defer C.free(unsafe.Pointer(*text.to))
		}
	}
	err := do(func() C.int { return C.outlive_domain_open_with(&given, options.How.c(), &d.c) })
	if err != nil {
		return nil, err
	}
	d.release = func() { C.outlive_domain_close(d.c) }
	return d, nil
}

// Path returns the domain's folder.
func (d *Domain) Path() (string, error) {
	return d.text(func(buffer *C.char, capacity C.size_t) C.int {
		return C.outlive_domain_path(d.c, buffer, capacity)
	})
}

// text returns what a call writes into a buffer.
func (d *Domain) text(call func(buffer *C.char, capacity C.size_t) C.int) (string, error) {
	const capacity = 4096
	buffer := (*C.char)(C.malloc(capacity))
	defer C.free(unsafe.Pointer(buffer))
	err := d.inside(func() error { return do(func() C.int { return call(buffer, capacity) }) })
	if err != nil {
		return "", err
	}
	return C.GoString(buffer), nil
}

// Remove removes a name. Processes that have the thing open keep it.
func (d *Domain) Remove(name string) error {
	return named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_domain_remove(domain, name)
	})
}

// Sweep looks after what the dead have left, and returns how many claims of theirs it found. Nothing
// depends on it.
func (d *Domain) Sweep() (claims uint64, err error) {
	var found C.uint64_t
	err = d.inside(func() error { return do(func() C.int { return C.outlive_domain_sweep(d.c, &found) }) })
	return uint64(found), err
}

// Payload returns the description of what a thing's messages are, as text.
func (d *Domain) Payload(name string) (string, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return d.text(func(buffer *C.char, capacity C.size_t) C.int {
		return C.outlive_domain_payload(d.c, text, buffer, capacity)
	})
}

// Token names a thread, or a process, in a domain: whether it lives is a matter of two loads.
type Token uint32

// ProcessToken returns this process's token, which dies with the process.
func (d *Domain) ProcessToken() (Token, error) {
	var token C.uint32_t
	err := d.inside(func() error {
		return do(func() C.int { return C.outlive_domain_process_token(d.c, &token) })
	})
	return Token(token), err
}

// ThreadToken returns the token of the calling goroutine's thread. It says something of the goroutine
// as long as that is locked to its thread.
func (d *Domain) ThreadToken() (Token, error) {
	var token C.uint32_t
	err := d.inside(func() error { return do(func() C.int { return C.outlive_domain_token(d.c, &token) }) })
	return Token(token), err
}

// IsAlive reports whether the token's owner lives.
func (d *Domain) IsAlive(token Token) bool {
	alive := false
	_ = d.inside(func() error {
		alive = bool(C.outlive_peer_is_alive(d.c, C.uint32_t(token)))
		return nil
	})
	return alive
}

// WaitDead waits until the token's owner is dead, about 0.2 ms after a SIGKILL.
func (d *Domain) WaitDead(ctx context.Context, token Token) error {
	return d.inside(func() error {
		return await(ctx, &d.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_peer_wait_dead(d.c, C.uint32_t(token), until)
		})
	})
}

// Peer is what is known of a token's owner.
type Peer struct {
	// Token names it.
	Token Token
	// Pid is its process; 0: no longer known.
	Pid int
	// Tid is its thread; 0: no longer known.
	Tid int
	// Alive: it lives.
	Alive bool
	// Program is its program's name.
	Program string
}

func peer(info *C.outlive_peer_info_t) Peer {
	return Peer{
		Token:   Token(info.token),
		Pid:     int(info.pid),
		Tid:     int(info.tid),
		Alive:   info.alive != 0,
		Program: C.GoString(&info.program[0]),
	}
}

// Peer returns what is known of a token's owner, dead or alive; [ErrNothing]: nothing any more.
func (d *Domain) Peer(token Token) (Peer, error) {
	var info C.outlive_peer_info_t
	err := d.inside(func() error {
		return do(func() C.int { return C.outlive_peer_info(d.c, C.uint32_t(token), &info) })
	})
	if err != nil {
		return Peer{}, err
	}
	return peer(&info), nil
}
