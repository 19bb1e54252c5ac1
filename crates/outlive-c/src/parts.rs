//! Requests of several parts: the client sends them one after the other, the server takes them.

use std::ffi::{c_int, c_void};
use std::task::Poll;

use outlive::rpc::{Part, Request, RequestStream};

use crate::argument::{borrow, borrow_mut, bytes, handle_out, used_up};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::close;
use crate::rpc::{next_reply, outlive_call_t, outlive_client_t, outlive_reply_t};
use crate::server::{outlive_request_t, outlive_stream_t};

/// A request whose parts are sent one after the other. One thread at a time may use it.
pub struct outlive_request_stream_t(pub(crate) RequestStream<'static>);

/// A part of a request that the server has taken. All threads may use it at once.
pub struct outlive_part_t(Part);

/// Sends a request of which further parts follow, by `outlive_request_stream_send`. The deadline is for
/// memory for a long request, and, with `wait_for_server`, for a server.
///
/// Owner: `*stream` is the caller's, until `outlive_request_stream_finish` or
/// `outlive_request_stream_release`.
///
/// Errors: as `outlive_client_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_stream(
    client: *mut outlive_client_t,
    data: *const c_void,
    size: usize,
    deadline: outlive_deadline_t,
    stream: *mut *mut outlive_request_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `stream` and a live client.
        let (out, client) = unsafe { (handle_out(stream)?, borrow(client, "a client")?) };
        // SAFETY: the C caller passes `size` readable bytes at `data`.
        let request = unsafe { bytes(data, size) }?;
        let stream = client.0.stream_owned_until(request, moment_or_past(deadline))?;
        out.put(Box::into_raw(Box::new(outlive_request_stream_t(stream))));
        Ok(())
    })
}

/// Sends a part of a request, waiting until the deadline while eight are under way, or while the
/// service's memory is in use.
///
/// Errors: ESHUTDOWN: the server has replied already, or failed the request, and takes no more parts;
/// `outlive_request_stream_finish` returns the call, which has the reply. ETIMEDOUT, also with
/// OUTLIVE_TRY, and EMSGSIZE, after which the stream goes on. Otherwise as `outlive_client_call`.
///
/// If the server dies, the call returns ECONNRESET or EPIPE at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_stream_send(
    stream: *mut outlive_request_stream_t,
    data: *const c_void,
    size: usize,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live stream that no other thread uses and `size` readable
        // bytes at `data`.
        let (stream, part) = unsafe { (borrow_mut(stream, "a stream")?, bytes(data, size)?) };
        match moment(deadline) {
            Some(moment) => stream.0.send_until(part, moment)?,
            None => stream.0.try_send(part)?,
        }
        Ok(())
    })
}

/// Returns a reply that the server has sent before it has all parts, as `outlive_call_next`.
///
/// Owner: `*reply` is the caller's, until `outlive_reply_release`.
///
/// Errors: as `outlive_call_next`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_stream_next(
    stream: *mut outlive_request_stream_t,
    deadline: outlive_deadline_t,
    reply: *mut *mut outlive_reply_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `reply` and a live stream that no other thread
        // uses.
        let (out, stream) = unsafe { (handle_out(reply)?, borrow_mut(stream, "a stream")?) };
        // SAFETY: the call stays in the stream.
        next_reply(unsafe { stream.0.call_mut() }, deadline, out)
    })
}

/// Says that no more parts come, and returns the call, which waits for the reply. Never waits.
///
/// Owner: the stream is consumed, also by a call that fails; `*call` is the caller's, until
/// `outlive_call_release`.
///
/// Errors: EPERM, EINVAL, EUSERS, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_stream_finish(
    stream: *mut outlive_request_stream_t,
    call: *mut *mut outlive_call_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `call`.
        let out = unsafe { handle_out(call) }?;
        // SAFETY: the C caller passes a live stream, which it gives up.
        let stream = unsafe { used_up(stream, "a stream") }?;
        out.put(Box::into_raw(Box::new(outlive_call_t(stream.0.finish()?))));
        Ok(())
    })
}

/// Drops a stream: its call is cancelled. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_stream_release(stream: *mut outlive_request_stream_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(stream) }
}

fn next_part(request: &mut Request, deadline: outlive_deadline_t) -> Result<Option<Part>, Failure> {
    let next = match moment(deadline) {
        Some(moment) => request.next_part_until(moment)?,
        None => request.try_next_part()?,
    };
    match (next, moment(deadline)) {
        (Poll::Ready(part), _) => Ok(part),
        (Poll::Pending, Some(_)) => Err(Failure::timed_out()),
        (Poll::Pending, None) => {
            Err(Failure::new(libc::EAGAIN, "no part just now; wait, or try later"))
        }
    }
}

/// Returns the next part of a request, waiting for it until the deadline; `*part` is NULL when there
/// are no more. A request that was not sent by `outlive_client_stream` has none.
///
/// Owner: `*part` is the caller's, until `outlive_part_release`.
///
/// Errors: ECANCELED: no client waits for a reply any more; it let go of the call, or died. ETIMEDOUT;
/// EAGAIN with OUTLIVE_TRY. EPERM, EINVAL, EUSERS, OUTLIVE_DAMAGED.
///
/// If the client dies, the call returns ECANCELED at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_next_part(
    request: *mut outlive_request_t,
    deadline: outlive_deadline_t,
    part: *mut *mut outlive_part_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `part` and a live request that no other thread
        // uses.
        let (out, request) = unsafe { (handle_out(part)?, borrow_mut(request, "a request")?) };
        if let Some(part) = next_part(&mut request.0, deadline)? {
            out.put(Box::into_raw(Box::new(outlive_part_t(part))));
        }
        Ok(())
    })
}

/// Returns the next part of the request to which a stream replies, as `outlive_request_next_part`.
///
/// Owner: `*part` is the caller's, until `outlive_part_release`.
///
/// Errors: as `outlive_request_next_part`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_stream_next_part(
    stream: *mut outlive_stream_t,
    deadline: outlive_deadline_t,
    part: *mut *mut outlive_part_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `part` and a live stream that no other thread uses.
        let (out, stream) = unsafe { (handle_out(part)?, borrow_mut(stream, "a stream")?) };
        // SAFETY: the request stays in the stream.
        let request = unsafe { stream.0.request_mut() };
        if let Some(part) = next_part(request, deadline)? {
            out.put(Box::into_raw(Box::new(outlive_part_t(part))));
        }
        Ok(())
    })
}

/// Returns a part's bytes. NULL for NULL. Owner: the part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_part_data(part: *const outlive_part_t) -> *const c_void {
    // SAFETY: the C caller passes a live part.
    entry_or(core::ptr::null(), || Ok(unsafe { borrow(part, "a part") }?.0.as_ptr().cast()))
}

/// Returns how many bytes a part has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_part_size(part: *const outlive_part_t) -> usize {
    // SAFETY: the C caller passes a live part.
    entry_or(0, || Ok(unsafe { borrow(part, "a part") }?.0.len()))
}

/// Frees a part. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_part_release(part: *mut outlive_part_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(part) }
}
