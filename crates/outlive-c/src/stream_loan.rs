//! Parts of a request, and replies of a stream, that are written where the other side reads them.

use std::ffi::{c_int, c_void};

use outlive::SendError;
use outlive::rpc::{CallError, LentPart, LentReply};

use crate::argument::{borrow_mut, handle_out, used_up};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, outlive_deadline_t};
use crate::domain::close;
use crate::parts::outlive_request_stream_t;
use crate::server::outlive_stream_t;

/// Memory for a part of a request, to be written in place. One thread at a time may use it.
pub struct outlive_part_loan_t(LentPart);

/// Memory for a reply of a stream, to be written in place. One thread at a time may use it.
pub struct outlive_stream_loan_t(LentReply);

/// Lends by `lend`, and puts the loan's handle in its place.
///
/// # Safety
/// The C caller passes a live stream that no other thread uses, and a place for `loan`.
unsafe fn lend<S, L>(
    stream: *mut S,
    loan: *mut *mut L,
    lend: impl FnOnce(&mut S) -> Result<L, Failure>,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `loan` and a live stream that no other thread uses.
        let (out, stream) = unsafe { (handle_out(loan)?, borrow_mut(stream, "a stream")?) };
        out.put(Box::into_raw(Box::new(lend(stream)?)));
        Ok(())
    })
}

/// Returns where a loan is written.
///
/// # Safety
/// The C caller passes NULL or a live loan that no other thread uses.
unsafe fn data<L>(loan: *mut L, bytes: impl FnOnce(&mut L) -> &mut [u8]) -> *mut c_void {
    entry_or(core::ptr::null_mut(), || {
        // SAFETY: the C caller passes a live loan that no other thread uses.
        Ok(bytes(unsafe { borrow_mut(loan, "a loan") }?).as_mut_ptr().cast())
    })
}

/// Sends a loan by `send`, which returns it with the error when it could not be sent: it is given back
/// then.
///
/// # Safety
/// The C caller passes a live loan, which it gives up, and a live stream that no other thread uses.
unsafe fn send<S, L, E: Into<Failure>, Back>(
    stream: *mut S,
    loan: *mut L,
    send: impl FnOnce(&mut S, L) -> Option<(E, Back)>,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan, which it gives up.
        let loan = unsafe { used_up(loan, "a loan") }?;
        // SAFETY: the C caller passes a live stream that no other thread uses.
        let stream = unsafe { borrow_mut(stream, "a stream") }?;
        send(stream, *loan).map_or(Ok(()), |(error, _)| Err(error.into()))
    })
}

/// Lends memory for a part of a request, `size` bytes, to be written in place: the server reads it there,
/// and no byte is copied. Its contents are arbitrary. Waits until the deadline while eight parts are under
/// way, or while the service's memory is in use.
///
/// Owner: `*loan` is the caller's, until `outlive_request_stream_send_loan` or
/// `outlive_part_loan_release`.
///
/// Errors: as `outlive_request_stream_send`.
///
/// If the process dies, the service has the memory back once its last thread has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_stream_loan(
    stream: *mut outlive_request_stream_t,
    size: usize,
    deadline: outlive_deadline_t,
    loan: *mut *mut outlive_part_loan_t,
) -> c_int {
    let part = |stream: &mut outlive_request_stream_t| {
        Ok(outlive_part_loan_t(stream.0.lend_part(size, moment(deadline))?))
    };
    // SAFETY: the C caller passes a place for `loan` and a live stream that no other thread uses.
    unsafe { lend(stream, loan, part) }
}

/// Returns where the part is written: aligned to 64 bytes, as many as were asked for. NULL for NULL.
/// Owner: the loan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_part_loan_data(loan: *mut outlive_part_loan_t) -> *mut c_void {
    // SAFETY: the C caller passes NULL or a live loan that no other thread uses.
    unsafe { data(loan, |loan| loan.0.bytes()) }
}

/// Sends a part that `outlive_request_stream_loan` of this stream has lent. Never waits.
///
/// Owner: the loan is consumed, also by a call that fails.
///
/// Errors: as `outlive_request_stream_send`; EAGAIN when other parts have taken the place since it was lent:
/// of several loans open at once, no more go than there are places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_stream_send_loan(
    stream: *mut outlive_request_stream_t,
    loan: *mut outlive_part_loan_t,
) -> c_int {
    let sent = |stream: &mut outlive_request_stream_t, loan: outlive_part_loan_t| {
        stream.0.send_lent(loan.0).map(|(error, part)| match error {
            // As of a reply: no deadline has passed.
            CallError::TimedOut { .. } => (Failure::from(SendError::Full { slowest: None }), part),
            other => (other.into(), part),
        })
    };
    // SAFETY: the C caller passes a live loan, which it gives up, and a live stream that no other thread
    // uses.
    unsafe { send(stream, loan, sent) }
}

/// Gives a loan back unsent; the stream goes on. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_part_loan_release(loan: *mut outlive_part_loan_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(loan) }
}

/// Lends memory for a reply of a stream, `size` bytes, to be written in place: the client reads it there,
/// and no byte of a long one is copied. Its contents are arbitrary. Waits until the deadline while eight
/// replies are under way.
///
/// Owner: `*loan` is the caller's, until `outlive_stream_send_loan` or `outlive_stream_loan_release`.
///
/// Errors: as `outlive_stream_send`.
///
/// If the process dies before the reply is sent, the client is told; the service has the memory back
/// once the last thread of this process has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_stream_loan(
    stream: *mut outlive_stream_t,
    size: usize,
    deadline: outlive_deadline_t,
    loan: *mut *mut outlive_stream_loan_t,
) -> c_int {
    let reply = |stream: &mut outlive_stream_t| {
        Ok(outlive_stream_loan_t(stream.0.lend_reply(size, moment(deadline))?))
    };
    // SAFETY: the C caller passes a place for `loan` and a live stream that no other thread uses.
    unsafe { lend(stream, loan, reply) }
}

/// Returns where the reply is written: aligned to 8 bytes, as many as were asked for. NULL for NULL.
/// Owner: the loan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_stream_loan_data(loan: *mut outlive_stream_loan_t) -> *mut c_void {
    // SAFETY: the C caller passes NULL or a live loan that no other thread uses.
    unsafe { data(loan, |loan| loan.0.bytes()) }
}

/// Sends a reply that `outlive_stream_loan` of this stream has lent. Never waits.
///
/// Owner: the loan is consumed, also by a call that fails.
///
/// Errors: as `outlive_stream_send`; EAGAIN when other replies have taken the place since it was lent: of
/// several loans open at once, no more go than there are places.
///
/// If the process dies: after a return of 0 the client has the reply, even if this process dies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_stream_send_loan(
    stream: *mut outlive_stream_t,
    loan: *mut outlive_stream_loan_t,
) -> c_int {
    // SAFETY: the C caller passes a live loan, which it gives up, and a live stream that no other thread
    // uses.
    unsafe { send(stream, loan, |stream, loan| stream.0.send_lent(loan.0)) }
}

/// Gives a loan back unsent; the stream goes on. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_stream_loan_release(loan: *mut outlive_stream_loan_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(loan) }
}
