package outlive

// #include <outlive.h>
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// Pool is memory in objects that processes hand to one another. What a dead process had comes back.
type Pool struct {
	handle
	c *C.outlive_pool_t
}

// PoolOptions say how a [Pool] is opened.
type PoolOptions struct {
	// How says whether the name must exist.
	How Opening
	// MaxBytes is the most that the pool may take, 64 KiB to 8 GiB; 0: what an existing one has, and in
	// a new one a quarter of the file system.
	MaxBytes uint64
}

// OpenPool opens the pool of that name, or makes it.
func (d *Domain) OpenPool(name string, options PoolOptions) (*Pool, error) {
	p := &Pool{}
	given := C.outlive_pool_options_t{size: C.sizeof_outlive_pool_options_t, max_bytes: C.uint64_t(options.MaxBytes)}
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_pool_open(domain, name, options.How.c(), &given, &p.c)
	})
	if err != nil {
		return nil, err
	}
	p.release = func() { C.outlive_pool_close(p.c) }
	return p, nil
}

// Object is memory that this process has. It keeps its pool open.
type Object struct {
	pool  *Pool
	data  unsafe.Pointer
	size  int
	ended atomic.Bool
}

// Alloc takes an object of that many bytes, whose contents are arbitrary. [ErrNoSpace]: the pool is at
// its largest. If this process dies, the pool has the object again.
func (p *Pool) Alloc(size int) (*Object, error) {
	o := &Object{pool: p, size: size}
	err := p.inside(func() error {
		err := do(func() C.int { return C.outlive_pool_alloc(p.c, C.size_t(size), 0, &o.data) })
		if err == nil {
			p.stay(1)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Claim takes an object that a process has offered. [ErrStale]: it is gone.
func (p *Pool) Claim(offset uint64) (*Object, error) {
	o := &Object{pool: p}
	err := p.inside(func() error {
		var size C.size_t
		err := do(func() C.int { return C.outlive_pool_claim(p.c, C.uint64_t(offset), &o.data, &size) })
		if err == nil {
			o.size = int(size)
			p.stay(1)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Data returns the object's memory, until it is closed, offered or shared.
func (o *Object) Data() []byte {
	if o.ended.Load() {
		return nil
	}
	return view(o.data, C.size_t(o.size))
}

// end makes a call that takes the object.
func (o *Object) end(call func() C.int) error {
	if o.ended.Swap(true) {
		return ErrClosed
	}
	if err := do(call); err != nil {
		// It is still this process's.
		o.ended.Store(false)
		return err
	}
	o.pool.leave()
	return nil
}

// Offer hands the object over to any process that claims this offset.
func (o *Object) Offer() (offset uint64, err error) {
	var at C.uint64_t
	err = o.end(func() C.int { return C.outlive_pool_offer(o.pool.c, o.data, nil, 0, &at) })
	return uint64(at), err
}

// OfferTo hands the object over to the process of a token. If that process dies before it claims it,
// the pool has the object again.
func (o *Object) OfferTo(d *Domain, token Token) (offset uint64, err error) {
	var at C.uint64_t
	err = d.inside(func() error {
		return o.end(func() C.int { return C.outlive_pool_offer(o.pool.c, o.data, d.c, C.uint32_t(token), &at) })
	})
	return uint64(at), err
}

// Close frees the object, unless it has ended.
func (o *Object) Close() error {
	err := o.end(func() C.int { return C.outlive_pool_free(o.pool.c, o.data) })
	if err == ErrClosed {
		return nil
	}
	return err
}

// Shared is an object that several processes hold, for reading.
type Shared struct {
	handle
	c *C.outlive_shared_t
}

func sharedOf(c *C.outlive_shared_t) *Shared {
	return &Shared{handle: handle{release: func() { C.outlive_shared_release(c) }}, c: c}
}

// Share makes the object one that other processes may join.
func (o *Object) Share() (*Shared, error) {
	var c *C.outlive_shared_t
	if err := o.end(func() C.int { return C.outlive_pool_share(o.pool.c, o.data, &c) }); err != nil {
		return nil, err
	}
	return sharedOf(c), nil
}

// Join holds an object that another process has shared. [ErrStale]: it is gone.
func (p *Pool) Join(offset uint64) (*Shared, error) {
	var c *C.outlive_shared_t
	err := p.inside(func() error {
		return do(func() C.int { return C.outlive_pool_join(p.c, C.uint64_t(offset), &c) })
	})
	if err != nil {
		return nil, err
	}
	return sharedOf(c), nil
}

// Data returns the object's memory, for reading, until Close.
func (s *Shared) Data() []byte {
	var data []byte
	_ = s.inside(func() error {
		data = view(C.outlive_shared_data(s.c), C.outlive_shared_size(s.c))
		return nil
	})
	return data
}

// Offset returns what other processes join the object by.
func (s *Shared) Offset() uint64 {
	var offset uint64
	_ = s.inside(func() error {
		offset = uint64(C.outlive_shared_offset(s.c))
		return nil
	})
	return offset
}

// PoolUsage is how much of a pool is in which state.
type PoolUsage struct {
	// Objects are all; Used are in use by a process, Offered handed over and not claimed yet, Shared
	// held by several processes.
	Objects, Used, Offered, Shared uint64
	// Bytes are what the pool takes now, MaxBytes the most.
	Bytes, MaxBytes uint64
}

// Usage counts the pool's objects.
func (p *Pool) Usage() (PoolUsage, error) {
	var c C.outlive_pool_usage_t
	err := p.inside(func() error { return do(func() C.int { return C.outlive_pool_usage(p.c, &c) }) })
	return PoolUsage{
		Objects: uint64(c.objects), Used: uint64(c.used), Offered: uint64(c.offered), Shared: uint64(c.shared),
		Bytes: uint64(c.bytes), MaxBytes: uint64(c.max_bytes),
	}, err
}

// GC frees what dead processes had.
func (p *Pool) GC() error {
	return p.inside(func() error { return do(func() C.int { return C.outlive_pool_gc(p.c, nil, nil) }) })
}

// Prefault makes so many objects of that size before they are taken.
func (p *Pool) Prefault(objects, size int) error {
	return p.inside(func() error {
		return do(func() C.int { return C.outlive_pool_prefault(p.c, C.size_t(objects), C.size_t(size)) })
	})
}
