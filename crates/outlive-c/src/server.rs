//! Servers, requests and streams: the answering side of a service.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use outlive::rpc::{ReplyLoan, Request, Server, Stream};

use crate::argument::{borrow, borrow_mut, bytes, handle_out, out, text, used_up};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t, past};
use crate::domain::{close, outlive_domain_t, outlive_peer_info_t};
use crate::opening::{naming, outlive_opening_t};
use crate::rpc::{outlive_service_options_t, service};

/// Receives a service's requests. A service has one server at a time, of all processes, or as many as
/// its `max_servers`. One thread at a time may use it.
pub struct outlive_server_t(pub(crate) Server);

/// A request that waits for its reply. It may move to another thread, which replies.
pub struct outlive_request_t(pub(crate) Request);

/// Several replies to one request.
pub struct outlive_stream_t(pub(crate) Stream);

/// Memory for the reply to a request, to be written in place. One thread at a time may use it.
pub struct outlive_reply_loan_t(ReplyLoan);

/// Opens the service of that name as its server, or makes it. `options` NULL: none is set. With
/// OUTLIVE_OPEN its requests and replies may be of any type, and are bytes here.
///
/// Owner: `*server` is the caller's, until `outlive_server_close`.
///
/// Errors: see `outlive_opening_t`; EBUSY: another server is alive, perhaps of the very service that
/// this call made: then another process was quicker to serve it, and it stays. EAGAIN: the last
/// server is dead, and one of its threads has not ended, for which OUTLIVE_TRY, too, waits up to two
/// seconds.
///
/// If a process dies while it takes over, the next caller takes over. When a server dies, the calls
/// that it had begun end at once, and the next server takes over those that it had not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_server_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_service_options_t,
    server: *mut *mut outlive_server_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `server`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, server) }?;
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let (service, given) = unsafe { service(&naming, options) }?;
        let server = match moment(given.serve_by) {
            Some(moment) => match service.wait_to_serve_until(moment)? {
                Some(server) => server,
                // In the end the error names the process that serves.
                None => service.server_by(past())?,
            },
            // Waits for no living server, but for the last thread of a dead one.
            None => service.server()?,
        };
        naming.out.put(Box::into_raw(Box::new(outlive_server_t(server))));
        Ok(())
    })
}

/// Makes memory for requests and replies, and brings it in, as `outlive_client_prefault` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_server_prefault(
    server: *const outlive_server_t,
    messages: usize,
    size: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live server.
        let server = unsafe { borrow(server, "a server") }?;
        Ok(server.0.prefault(messages, size)?)
    })
}

/// Stops serving. Requests that it has taken can still be replied to. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_server_close(server: *mut outlive_server_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(server) }
}

/// Returns the next request, waiting for it until the deadline.
///
/// Owner: `*request` is the caller's, until it is replied to or dropped.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EPERM: not the server, or not any more. EINVAL,
/// EUSERS, OUTLIVE_DAMAGED.
///
/// If a client dies, its requests are skipped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_server_next(
    server: *mut outlive_server_t,
    deadline: outlive_deadline_t,
    request: *mut *mut outlive_request_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `request` and a live server that no other thread
        // uses.
        let (out, server) = unsafe { (handle_out(request)?, borrow_mut(server, "a server")?) };
        let request = match moment(deadline) {
            Some(moment) => server.0.next_until(moment)?.ok_or_else(Failure::timed_out)?,
            None => server.0.try_next()?.ok_or_else(|| {
                Failure::new(libc::EAGAIN, "no request just now; wait, or try later")
            })?,
        };
        out.put(Box::into_raw(Box::new(outlive_request_t(request))));
        Ok(())
    })
}

/// Returns a request's bytes. NULL for NULL. Owner: the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_data(request: *const outlive_request_t) -> *const c_void {
    // SAFETY: the C caller passes a live request.
    entry_or(core::ptr::null(), || Ok(unsafe { borrow(request, "a request") }?.0.as_ptr().cast()))
}

/// Returns how many bytes a request has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_size(request: *const outlive_request_t) -> usize {
    // SAFETY: the C caller passes a live request.
    entry_or(0, || Ok(unsafe { borrow(request, "a request") }?.0.len()))
}

/// Returns whether the client wants no reply any more, or is dead. False for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_is_cancelled(request: *const outlive_request_t) -> bool {
    // SAFETY: the C caller passes a live request.
    entry_or(false, || Ok(unsafe { borrow(request, "a request") }?.0.is_cancelled()))
}

/// Waits until the client wants no reply any more (it let go of the call, perhaps because its deadline
/// passed), or is dead; until the deadline at most. Another thread may use the request meanwhile, but
/// not consume it.
///
/// Errors: ETIMEDOUT: a client still waits. EINVAL, EUSERS, ENOSPC.
///
/// If the client dies, the wait is over at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_wait_cancelled(
    request: *const outlive_request_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live request.
        let request = unsafe { borrow(request, "a request") }?;
        Ok(request.0.wait_cancelled_until(moment_or_past(deadline))?)
    })
}

/// Writes the client, dead or alive, to `*info`, also when another client has its place by now.
///
/// Errors: ESRCH: not known any more. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_client(
    request: *const outlive_request_t,
    info: *mut outlive_peer_info_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live request and a place for `info`.
        let (request, out) = unsafe { (borrow(request, "a request")?, out(info)?) };
        let client = request
            .0
            .client()
            .ok_or_else(|| Failure::new(libc::ESRCH, "the client is not known any more"))?;
        out.put(outlive_peer_info_t::of_holder(&client));
        Ok(())
    })
}

/// Sends the reply, which may be the bytes of the request itself. Never waits.
///
/// Owner: the request is consumed, also by a call that fails.
///
/// Errors: ECANCELED: the client wants no reply any more. EPIPE: it died. After EMSGSIZE, ENOSPC,
/// EPERM, EINVAL and OUTLIVE_DAMAGED the client gets ECONNABORTED.
///
/// If the process dies: after a return of 0 the client has the reply, even if this process dies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_reply(
    request: *mut outlive_request_t,
    data: *const c_void,
    size: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live request, which it gives up.
        let request = unsafe { used_up(request, "a request") }?;
        // SAFETY: the C caller passes `size` readable bytes at `data`.
        Ok(request.0.reply(unsafe { bytes(data, size) }?)?)
    })
}

/// Lends memory for the reply to a request, `size` bytes, to be written in place: the client reads it
/// there, and no byte of a long one is copied. Its contents are arbitrary. Never waits.
///
/// Owner: the request is consumed, also by a call that fails; its bytes can be read until the loan is
/// sent or released. `*loan` is the caller's, until `outlive_reply_loan_send` or
/// `outlive_reply_loan_release`.
///
/// Errors: EPIPE: the client died. After EMSGSIZE, ENOSPC, EPERM, EINVAL and OUTLIVE_DAMAGED the client
/// gets ECONNABORTED.
///
/// If the process dies before the reply is sent, the client is told; the service has the memory back
/// once the last thread of this process has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_loan(
    request: *mut outlive_request_t,
    size: usize,
    loan: *mut *mut outlive_reply_loan_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `loan`.
        let out = unsafe { handle_out(loan) }?;
        // SAFETY: the C caller passes a live request, which it gives up.
        let request = unsafe { used_up(request, "a request") }?;
        out.put(Box::into_raw(Box::new(outlive_reply_loan_t(request.0.loan(size)?))));
        Ok(())
    })
}

/// Returns where the reply is written: aligned to 8 bytes, as many as were asked for. NULL for NULL.
/// Owner: the loan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reply_loan_data(loan: *mut outlive_reply_loan_t) -> *mut c_void {
    entry_or(core::ptr::null_mut(), || {
        // SAFETY: the C caller passes a live loan that no other thread uses.
        Ok(unsafe { borrow_mut(loan, "a loan") }?.0.as_mut_ptr().cast())
    })
}

/// Returns the bytes of the request that the loan is a reply to; their number goes to `*size`, unless
/// that is NULL. NULL for NULL. Owner: the loan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reply_loan_request(
    loan: *const outlive_reply_loan_t,
    size: *mut usize,
) -> *const c_void {
    entry_or(core::ptr::null(), || {
        // SAFETY: the C caller passes a live loan.
        let request = unsafe { borrow(loan, "a loan") }?.0.request();
        if !size.is_null() {
            // SAFETY: the C caller passes NULL or a place for `size`.
            unsafe { out(size)?.put(request.len()) };
        }
        Ok(request.as_ptr().cast())
    })
}

/// Sends the reply. Never waits.
///
/// Owner: the loan is consumed, also by a call that fails.
///
/// Errors: as `outlive_request_reply`.
///
/// If the process dies: after a return of 0 the client has the reply, even if this process dies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reply_loan_send(loan: *mut outlive_reply_loan_t) -> c_int {
    // SAFETY: the C caller passes a live loan, which it gives up.
    entry(|| Ok(unsafe { used_up(loan, "a loan") }?.0.send()?))
}

/// Gives a loan back unsent, and tells the client why it gets no reply, as `outlive_request_fail`.
///
/// Owner: the loan is consumed, also by a call that fails.
///
/// Errors: as `outlive_request_fail`.
///
/// If the process dies: after a return of 0 the client has the text, even if this process dies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reply_loan_fail(
    loan: *mut outlive_reply_loan_t,
    why: *const c_char,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan, which it gives up.
        let loan = unsafe { used_up(loan, "a loan") }?;
        // SAFETY: the C caller passes a NUL-terminated text.
        Ok(loan.0.fail(unsafe { text(why, "a text") }?)?)
    })
}

/// Gives a loan back unsent: the client gets ECONNABORTED. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reply_loan_release(loan: *mut outlive_reply_loan_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(loan) }
}

/// Tells the client that what it asked for could not be done, and why: it gets OUTLIVE_FAILED with
/// this text, UTF-8, cut to 64 KiB, or, when the service has no memory for it, to 48 bytes. Never
/// waits.
///
/// Owner: the request is consumed, also by a call that fails.
///
/// Errors: ECANCELED: the client wants no reply any more. EPIPE: it died. EPERM, EINVAL (also for a
/// text that is NULL or not UTF-8; then the client gets ECONNABORTED), OUTLIVE_DAMAGED.
///
/// If the process dies: after a return of 0 the client has the text, even if this process dies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_fail(
    request: *mut outlive_request_t,
    why: *const c_char,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live request, which it gives up.
        let request = unsafe { used_up(request, "a request") }?;
        // SAFETY: the C caller passes a NUL-terminated text.
        Ok(request.0.fail(unsafe { text(why, "a text") }?)?)
    })
}

/// Drops a request: the client gets ECONNABORTED. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_release(request: *mut outlive_request_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(request) }
}

/// Begins a stream: several replies to one request.
///
/// Owner: the request is consumed; `*stream` is the caller's, until `outlive_stream_finish` or
/// `outlive_stream_release`.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_stream(
    request: *mut outlive_request_t,
    stream: *mut *mut outlive_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `stream`.
        let out = unsafe { handle_out(stream) }?;
        // SAFETY: the C caller passes a live request, which it gives up.
        let request = unsafe { used_up(request, "a request") }?;
        out.put(Box::into_raw(Box::new(outlive_stream_t(request.0.stream()))));
        Ok(())
    })
}

/// Sends a reply of a stream, waiting until the deadline while eight are under way.
///
/// Errors: ETIMEDOUT, also with OUTLIVE_TRY; otherwise as `outlive_request_reply`. The stream goes
/// on after ETIMEDOUT, EMSGSIZE and ENOSPC.
///
/// If the client dies, the call returns EPIPE at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_stream_send(
    stream: *mut outlive_stream_t,
    data: *const c_void,
    size: usize,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live stream that no other thread uses and `size` readable
        // bytes at `data`.
        let (stream, reply) = unsafe { (borrow_mut(stream, "a stream")?, bytes(data, size)?) };
        Ok(stream.0.send_until(reply, moment_or_past(deadline))?)
    })
}

/// Ends a stream: no more replies come.
///
/// Owner: the stream is consumed.
///
/// Errors: as `outlive_request_reply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_stream_finish(stream: *mut outlive_stream_t) -> c_int {
    // SAFETY: the C caller passes a live stream, which it gives up.
    entry(|| Ok(unsafe { used_up(stream, "a stream") }?.0.finish()?))
}

/// Ends a stream without a last reply, and tells the client why: after the replies that were sent,
/// it gets OUTLIVE_FAILED with this text, as with `outlive_request_fail`. Never waits, not even
/// while eight replies are under way.
///
/// Owner: the stream is consumed, also by a call that fails.
///
/// Errors: as `outlive_request_fail`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_stream_fail(
    stream: *mut outlive_stream_t,
    why: *const c_char,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live stream, which it gives up.
        let stream = unsafe { used_up(stream, "a stream") }?;
        // SAFETY: the C caller passes a NUL-terminated text.
        Ok(stream.0.fail(unsafe { text(why, "a text") }?)?)
    })
}

/// Cuts a stream off: the client gets ECONNABORTED after the last reply. Passing NULL has no
/// effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_stream_release(stream: *mut outlive_stream_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(stream) }
}
