package outlive

// #include <stdlib.h>
// #include <outlive.h>
import "C"

import (
	"context"
	"io"
	"sync/atomic"
	"unsafe"
)

// ServiceOptions say how a [Client] or a [Server] is opened.
type ServiceOptions struct {
	// How says whether the name must exist.
	How Opening
	// MaxBytes is the most that requests and replies may take together; 0: what is there, and in a new
	// service 1 GiB.
	MaxBytes uint64
	// WaitForServer: a client's calls that are not begun wait for a server, instead of failing.
	WaitForServer bool
	// MaxServers is the most servers at a time, 1 to 64; 0: what is there, and in a new service 1.
	MaxServers uint64
	// Wait says how this process's end waits.
	Wait WaitStrategy
}

func (o *ServiceOptions) c() C.outlive_service_options_t {
	return C.outlive_service_options_t{
		size:            C.sizeof_outlive_service_options_t,
		max_bytes:       C.uint64_t(o.MaxBytes),
		wait_for_server: flag(o.WaitForServer),
		max_servers:     C.uint64_t(o.MaxServers),
		wait:            C.uint32_t(o.Wait),
	}
}

// Client calls a service.
type Client struct {
	handle
	c *C.outlive_client_t
}

// OpenClient opens a client of the service of that name, or makes the service.
func (d *Domain) OpenClient(name string, options ServiceOptions) (*Client, error) {
	client := &Client{}
	given := options.c()
	err := named(d, name, func(domain *C.outlive_domain_t, name *C.char) C.int {
		return C.outlive_client_open(domain, name, options.How.c(), &given, &client.c)
	})
	if err != nil {
		return nil, err
	}
	client.release = func() { C.outlive_client_close(client.c) }
	return client, nil
}

// Call sends a request and returns the first reply. When the context ends, the call is cancelled.
//
// Errors: [ErrNoPeer]: there is no server. [ErrPeerDied]: it died before it began. [ErrServerDiedBegun]:
// it died after it had begun. [ErrDropped], [ErrFailed] (the message has the server's words),
// [ErrTimedOut], [ErrTooMany], [ErrTooLarge], [ErrNoSpace].
func (client *Client) Call(ctx context.Context, request []byte) ([]byte, error) {
	call, err := client.Begin(ctx, request)
	if err != nil {
		return nil, err
	}
	defer call.Close()
	reply, err := call.Next(ctx)
	if err == io.EOF {
		return nil, &Error{Code: ErrDropped, Message: "the server replied nothing"}
	}
	return reply, err
}

// Begin sends a request and does not wait for the reply. The context is for memory, and, with
// WaitForServer, for a server.
func (client *Client) Begin(ctx context.Context, request []byte) (*Call, error) {
	call := &Call{}
	err := client.inside(func() error {
		return await(ctx, &client.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_client_begin(client.c, address(request), C.size_t(len(request)), until, &call.c)
		})
	})
	if err != nil {
		return nil, err
	}
	return call.open(), nil
}

// Prefault makes room for so many requests of that size before they are made.
func (client *Client) Prefault(messages, size int) error {
	return client.inside(func() error {
		return do(func() C.int { return C.outlive_client_prefault(client.c, C.size_t(messages), C.size_t(size)) })
	})
}

// AssertLiveliness tells servers that watch their clients that this one does something.
func (client *Client) AssertLiveliness() error {
	return client.inside(func() error {
		C.outlive_client_assert_liveliness(client.c)
		return nil
	})
}

// Call is a request in flight. Closing it cancels it, unless it has been replied to.
type Call struct {
	turn
	c *C.outlive_call_t
}

func (call *Call) open() *Call {
	call.turn = newTurn(func() { C.outlive_call_release(call.c) })
	return call
}

// Next waits for the next reply; [io.EOF]: there are no more. The end of the context does not cancel
// the call. Its errors are those of [Client.Call].
func (call *Call) Next(ctx context.Context) ([]byte, error) {
	var reply *C.outlive_reply_t
	err := call.within(ctx, func() error {
		return await(ctx, &call.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_call_next(call.c, until, &reply)
		})
	})
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return nil, io.EOF
	}
	defer C.outlive_reply_release(reply)
	return append([]byte{}, view(C.outlive_reply_data(reply), C.outlive_reply_size(reply))...), nil
}

// RequestStream is a request whose parts are sent one after the other.
type RequestStream struct {
	turn
	c        *C.outlive_request_stream_t
	finished atomic.Bool
}

// Stream sends the first part of a request, to which others follow.
func (client *Client) Stream(ctx context.Context, first []byte) (*RequestStream, error) {
	s := &RequestStream{}
	err := client.inside(func() error {
		return await(ctx, &client.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_client_stream(client.c, address(first), C.size_t(len(first)), until, &s.c)
		})
	})
	if err != nil {
		return nil, err
	}
	s.turn = newTurn(func() {
		if !s.finished.Load() {
			C.outlive_request_stream_release(s.c)
		}
	})
	return s, nil
}

// Send sends a part, waiting while eight are under way. [ErrAnswered]: the server has replied already;
// [RequestStream.Finish] returns the call, which has the reply.
func (s *RequestStream) Send(ctx context.Context, part []byte) error {
	return s.within(ctx, func() error {
		if s.finished.Load() {
			return ErrClosed
		}
		return await(ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_request_stream_send(s.c, address(part), C.size_t(len(part)), until)
		})
	})
}

// Next waits for a reply that comes before the last part.
func (s *RequestStream) Next(ctx context.Context) ([]byte, error) {
	var reply *C.outlive_reply_t
	err := s.within(ctx, func() error {
		if s.finished.Load() {
			return ErrClosed
		}
		return await(ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_request_stream_next(s.c, until, &reply)
		})
	})
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return nil, io.EOF
	}
	defer C.outlive_reply_release(reply)
	return append([]byte{}, view(C.outlive_reply_data(reply), C.outlive_reply_size(reply))...), nil
}

// Finish says that no more parts come, and returns the call, which waits for the reply. The stream has
// ended then, also after an error.
func (s *RequestStream) Finish() (*Call, error) {
	call := &Call{}
	err := s.within(context.Background(), func() error {
		if s.finished.Swap(true) {
			return ErrClosed
		}
		return do(func() C.int { return C.outlive_request_stream_finish(s.c, &call.c) })
	})
	if err != nil {
		return nil, err
	}
	return call.open(), nil
}

// Server receives a service's requests. A service has one server at a time, or as many as its
// MaxServers.
type Server struct {
	turn
	c *C.outlive_server_t
}

// OpenServer opens a server of the service of that name, or makes the service, waiting for a living
// server to close or to die. With [NoWait]: [ErrBusy] while there is one.
func (d *Domain) OpenServer(ctx context.Context, name string, options ServiceOptions) (*Server, error) {
	server := &Server{}
	given := options.c()
	err := d.inside(func() error {
		text, err := cString(name)
		if err != nil {
			return err
		}
		defer C.free(unsafe.Pointer(text))
		return awaitWhile(ErrBusy, ctx, &d.handle, func(until C.outlive_deadline_t) C.int {
			given.serve_by = until
			return C.outlive_server_open(d.c, text, options.How.c(), &given, &server.c)
		})
	})
	if err != nil {
		return nil, err
	}
	server.turn = newTurn(func() { C.outlive_server_close(server.c) })
	return server, nil
}

// Prefault makes room for so many replies of that size before they are made.
func (server *Server) Prefault(messages, size int) error {
	return server.within(context.Background(), func() error {
		return do(func() C.int { return C.outlive_server_prefault(server.c, C.size_t(messages), C.size_t(size)) })
	})
}

// Request is a request that waits for its reply. It is ended by Reply, Fail, Stream or Close, in any
// goroutine.
type Request struct {
	handle
	c     *C.outlive_request_t
	ended atomic.Bool
}

// Next waits for the next request. A dead client's requests are skipped.
func (server *Server) Next(ctx context.Context) (*Request, error) {
	r := &Request{}
	err := server.within(ctx, func() error {
		return await(ctx, &server.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_server_next(server.c, until, &r.c)
		})
	})
	if err != nil {
		return nil, err
	}
	r.release = func() {
		if !r.ended.Load() {
			C.outlive_request_release(r.c)
		}
	}
	return r, nil
}

// alive calls the function, unless the request has ended.
func (r *Request) alive(act func() error) error {
	return r.inside(func() error {
		if r.ended.Load() {
			return ErrClosed
		}
		return act()
	})
}

// Data returns the request where it lies, for reading, until it is ended.
func (r *Request) Data() []byte {
	var data []byte
	_ = r.alive(func() error {
		data = view(C.outlive_request_data(r.c), C.outlive_request_size(r.c))
		return nil
	})
	return data
}

// Client returns what is known of the client.
func (r *Request) Client() (Peer, error) {
	var info C.outlive_peer_info_t
	err := r.alive(func() error { return do(func() C.int { return C.outlive_request_client(r.c, &info) }) })
	if err != nil {
		return Peer{}, err
	}
	return peer(&info), nil
}

// IsCancelled reports whether the client wants no reply any more.
func (r *Request) IsCancelled() bool {
	cancelled := false
	_ = r.alive(func() error {
		cancelled = bool(C.outlive_request_is_cancelled(r.c))
		return nil
	})
	return cancelled
}

// WaitCancelled waits until the client wants no reply any more, or has died.
func (r *Request) WaitCancelled(ctx context.Context) error {
	return r.alive(func() error {
		return await(ctx, &r.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_request_wait_cancelled(r.c, until)
		})
	})
}

// end makes a call that takes the request.
func (r *Request) end(call func() C.int) error {
	return r.inside(func() error {
		if r.ended.Swap(true) {
			return ErrClosed
		}
		return do(call)
	})
}

// Reply sends the reply, which may be the bytes of the request itself. When it returns nil, the client
// has it, whatever becomes of this process. The request has ended, also after an error.
//
// Errors: [ErrCancelled]; [ErrPeerDied]: the client died; [ErrTooLarge], [ErrNoSpace].
func (r *Request) Reply(reply []byte) error {
	return r.end(func() C.int { return C.outlive_request_reply(r.c, address(reply), C.size_t(len(reply))) })
}

// Fail tells the client that the service could not do what was asked, and why.
func (r *Request) Fail(why string) error {
	text := C.CString(why)
	defer C.free(unsafe.Pointer(text))
	return r.end(func() C.int { return C.outlive_request_fail(r.c, text) })
}

// ReplyLoan is memory of the service's for a reply, written in place and sent without a copy.
type ReplyLoan struct {
	c     *C.outlive_reply_loan_t
	size  int
	ended atomic.Bool
}

// Loan lends memory for the reply, of that many bytes. The request has ended, also after an error.
func (r *Request) Loan(size int) (*ReplyLoan, error) {
	l := &ReplyLoan{size: size}
	if err := r.end(func() C.int { return C.outlive_request_loan(r.c, C.size_t(size), &l.c) }); err != nil {
		return nil, err
	}
	return l, nil
}

// Data returns the loan's memory, for writing, until it is sent or closed.
func (l *ReplyLoan) Data() []byte {
	if l.ended.Load() {
		return nil
	}
	return view(C.outlive_reply_loan_data(l.c), C.size_t(l.size))
}

// Send sends the reply. The loan has ended, also after an error.
func (l *ReplyLoan) Send() error {
	if l.ended.Swap(true) {
		return ErrClosed
	}
	return do(func() C.int { return C.outlive_reply_loan_send(l.c) })
}

// Fail tells the client that the service could not do what was asked, and why.
func (l *ReplyLoan) Fail(why string) error {
	if l.ended.Swap(true) {
		return ErrClosed
	}
	text := C.CString(why)
	defer C.free(unsafe.Pointer(text))
	return do(func() C.int { return C.outlive_reply_loan_fail(l.c, text) })
}

// Close drops the loan and the request, unless it has ended.
func (l *ReplyLoan) Close() error {
	if !l.ended.Swap(true) {
		C.outlive_reply_loan_release(l.c)
	}
	return nil
}

func partOf(part *C.outlive_part_t) ([]byte, error) {
	if part == nil {
		return nil, io.EOF
	}
	defer C.outlive_part_release(part)
	return append([]byte{}, view(C.outlive_part_data(part), C.outlive_part_size(part))...), nil
}

// NextPart waits for the next part of the request; [io.EOF]: there are no more.
func (r *Request) NextPart(ctx context.Context) ([]byte, error) {
	var part *C.outlive_part_t
	err := r.alive(func() error {
		return await(ctx, &r.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_request_next_part(r.c, until, &part)
		})
	})
	if err != nil {
		return nil, err
	}
	return partOf(part)
}

// ReplyStream is several replies to one request.
type ReplyStream struct {
	turn
	c     *C.outlive_stream_t
	ended atomic.Bool
}

// Stream begins several replies. The request has ended, also after an error.
func (r *Request) Stream() (*ReplyStream, error) {
	s := &ReplyStream{}
	if err := r.end(func() C.int { return C.outlive_request_stream(r.c, &s.c) }); err != nil {
		return nil, err
	}
	s.turn = newTurn(func() {
		if !s.ended.Load() {
			C.outlive_stream_release(s.c)
		}
	})
	return s, nil
}

func (s *ReplyStream) alive(ctx context.Context, act func() error) error {
	return s.within(ctx, func() error {
		if s.ended.Load() {
			return ErrClosed
		}
		return act()
	})
}

// Send sends a reply, waiting while eight are under way. [ErrPeerDied]: the client died.
func (s *ReplyStream) Send(ctx context.Context, reply []byte) error {
	return s.alive(ctx, func() error {
		return await(ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_stream_send(s.c, address(reply), C.size_t(len(reply)), until)
		})
	})
}

// NextPart waits for the next part of the request; [io.EOF]: there are no more.
func (s *ReplyStream) NextPart(ctx context.Context) ([]byte, error) {
	var part *C.outlive_part_t
	err := s.alive(ctx, func() error {
		return await(ctx, &s.handle, func(until C.outlive_deadline_t) C.int {
			return C.outlive_stream_next_part(s.c, until, &part)
		})
	})
	if err != nil {
		return nil, err
	}
	return partOf(part)
}

// Finish says that there are no more replies. The stream has ended, also after an error.
func (s *ReplyStream) Finish() error {
	return s.alive(context.Background(), func() error {
		s.ended.Store(true)
		return do(func() C.int { return C.outlive_stream_finish(s.c) })
	})
}

// Fail ends the stream and tells the client why. The stream has ended, also after an error.
func (s *ReplyStream) Fail(why string) error {
	text := C.CString(why)
	defer C.free(unsafe.Pointer(text))
	return s.alive(context.Background(), func() error {
		s.ended.Store(true)
		return do(func() C.int { return C.outlive_stream_fail(s.c, text) })
	})
}
