//! Clients, calls and replies: the asking side of a service.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::task::Poll;

use outlive::describe::{Description, Encoding};
use outlive::rpc::{Call, CallError, Client, Reply, RequestLoan, Service};

use crate::argument::{Out, borrow, borrow_mut, bytes, handle_out, options, used_up};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{OUTLIVE_TRY, moment, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t};
use crate::opening::{Naming, naming, open_as_bytes, outlive_opening_t};
use crate::payload::{description, outlive_payload_t};
use crate::wait::wait_option;

/// Calls a service. All threads may use it at once.
pub struct outlive_client_t(pub(crate) Arc<Client>);

/// A call that is in flight. One thread at a time may use it.
pub struct outlive_call_t(pub(crate) Call<'static>);

/// A reply. All threads may use it at once.
pub struct outlive_reply_t(pub(crate) Reply);

/// Memory for one request, to be written in place. One thread at a time may use it.
pub struct outlive_request_loan_t(RequestLoan<'static>);

/// Options for opening or making a service. Begin with `OUTLIVE_SERVICE_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_service_options_t {
    /// `sizeof(outlive_service_options_t)`.
    pub size: usize,
    /// The most bytes that requests and replies may take together, records included, besides 24 KiB
    /// for each client, 64 KiB to 6 GiB. A new service's default: 1 GiB. The file may take up to 64
    /// KiB more for each 2 MiB of it, where memory of short messages is reused for long ones.
    pub max_bytes: u64,
    /// How this process's end waits: one of the OUTLIVE_WAIT numbers.
    pub wait: u32,
    /// For clients, not 0: calls that are not begun wait for a server, instead of failing with
    /// ENOTCONN or EPIPE.
    pub wait_for_server: u32,
    /// For servers: until when to wait for a living server to leave or to end. `OUTLIVE_TRY`, which
    /// is the default: not at all. With a wait several processes may stand by.
    pub serve_by: outlive_deadline_t,
    /// What a request is, for all languages: see `outlive_topic_options_t`. NULL beside a `reply`:
    /// bytes.
    pub request: *const outlive_payload_t,
    /// What a reply is. NULL beside a `request`: bytes.
    pub reply: *const outlive_payload_t,
    /// The most servers at a time, 1 to 64; a new service's default: 1. Several share the load.
    pub max_servers: u64,
}

/// Opens the service, and returns the options as well. A caller that could be neither its client nor
/// its server makes none.
///
/// # Safety
/// The C caller guarantees NULL, or options of the size that they say.
pub(crate) unsafe fn service<O>(
    naming: &Naming<'_, O>,
    given: *const outlive_service_options_t,
) -> Result<(Service, outlive_service_options_t), Failure> {
    let default = outlive_service_options_t {
        size: 0,
        max_bytes: 0,
        wait: 0,
        wait_for_server: 0,
        serve_by: OUTLIVE_TRY,
        request: core::ptr::null(),
        reply: core::ptr::null(),
        max_servers: 0,
    };
    // SAFETY: the C caller passes NULL, or options of the size that they say; all fields are
    // integers or pointers.
    let given = unsafe { options(given, default) }?;
    let mut options = Service::<[u8], [u8]>::options();
    if let Some(wait) = wait_option(given.wait)? {
        options = options.wait_strategy(wait);
    }
    if given.max_bytes > 0 {
        options = options.max_bytes(given.max_bytes);
    }
    if given.max_servers > 0 {
        options = options.max_servers(u32::try_from(given.max_servers).unwrap_or(u32::MAX));
    }
    // SAFETY: the C caller passes NULL or descriptions.
    let both = unsafe { (description(given.request)?, description(given.reply)?) };
    if let (Some(_), _) | (_, Some(_)) = both {
        let [request, reply] = <[_; 2]>::from(both)
            .map(|one| one.map_or_else(|| Description::encoded("", Encoding::Bytes), Ok));
        options = options.description(request?.with_reply(reply?)?);
    }
    naming.domain.token()?;
    naming.domain.process_token()?;
    let service = open_as_bytes!(options, naming)?;
    Ok((service, given))
}

/// Opens the service of that name as a client, or makes it. `options` NULL: none is set. With
/// OUTLIVE_OPEN its requests and replies may be of any type, and are bytes here.
///
/// Owner: `*client` is the caller's, until `outlive_client_close`.
///
/// Errors: see `outlive_opening_t`. ENOSPC: there is no memory for one more client, or it already has
/// 1,024; a service that this call made stays.
///
/// If a client dies, no server begins those of its calls that were not begun, and its replies are
/// freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_service_options_t,
    client: *mut *mut outlive_client_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `client`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, client) }?;
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let (service, given) = unsafe { service(&naming, options) }?;
        let client = service.client()?;
        client.set_wait_for_server(given.wait_for_server != 0);
        naming.out.put(Box::into_raw(Box::new(outlive_client_t(Arc::new(client)))));
        Ok(())
    })
}

/// Makes memory for `messages` requests and replies of up to `size` bytes each, and brings it in, so
/// that calls of that length are no page faults. Requests of up to 232 bytes and replies of up to 112
/// need none. A client that sleeps for its reply makes a system call.
///
/// Errors: ENOSPC: the service, or the file system, has no room for all of it. EMSGSIZE, EINVAL,
/// OUTLIVE_DAMAGED.
///
/// If the process dies, other processes use what was made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_prefault(
    client: *const outlive_client_t,
    messages: usize,
    size: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live client.
        let client = unsafe { borrow(client, "a client") }?;
        Ok(client.0.prefault(messages, size)?)
    })
}

/// Says that the client is there, although it has nothing to ask: to those that watch the service's
/// clients it is as if it had made a call. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_assert_liveliness(client: *const outlive_client_t) {
    // SAFETY: the C caller passes NULL or a live client.
    if let Some(client) = unsafe { client.as_ref() } {
        client.0.assert_liveliness();
    }
}

/// Closes a client. Its calls go on until they are dropped. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_close(client: *mut outlive_client_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(client) }
}

/// Sends a request, and waits for the reply until the deadline.
///
/// Owner: `*reply` is the caller's, until `outlive_reply_release`.
///
/// Errors: EPIPE: the server died, and no server had begun the call. ECONNRESET: the server died
/// after it had begun the call, which may have taken effect. ENOTCONN: there is no server.
/// ECONNABORTED: the server dropped the request. OUTLIVE_FAILED: the server could not do what was
/// asked, and said why: `outlive_last_error` returns its words. ETIMEDOUT: the call is cancelled. EMSGSIZE, EAGAIN
/// (1,024 calls are in flight), EPERM (a forked child needs a client of its own), EINVAL, EUSERS,
/// OUTLIVE_DAMAGED.
///
/// If the server dies, the call ends at once. No call is ever begun twice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_call(
    client: *mut outlive_client_t,
    data: *const c_void,
    size: usize,
    deadline: outlive_deadline_t,
    reply: *mut *mut outlive_reply_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `reply` and a live client.
        let (out, client) = unsafe { (handle_out(reply)?, borrow(client, "a client")?) };
        // SAFETY: the C caller passes `size` readable bytes at `data`.
        let request = unsafe { bytes(data, size) }?;
        let reply = client.0.call_until(request, moment_or_past(deadline))?;
        out.put(Box::into_raw(Box::new(outlive_reply_t(reply))));
        Ok(())
    })
}

/// Sends a request without waiting for the reply; the deadline is for memory for a long request,
/// and, with `wait_for_server`, for a server.
///
/// Owner: `*call` is the caller's, until `outlive_call_release`.
///
/// Errors: as `outlive_client_call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_begin(
    client: *mut outlive_client_t,
    data: *const c_void,
    size: usize,
    deadline: outlive_deadline_t,
    call: *mut *mut outlive_call_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `call` and a live client.
        let (out, client) = unsafe { (handle_out(call)?, borrow(client, "a client")?) };
        // SAFETY: the C caller passes `size` readable bytes at `data`.
        let request = unsafe { bytes(data, size) }?;
        let call = client.0.begin_owned_until(request, moment_or_past(deadline))?;
        out.put(Box::into_raw(Box::new(outlive_call_t(call))));
        Ok(())
    })
}

/// Lends memory for a request of `size` bytes, to be written in place, waiting until the deadline while
/// the service's memory is in use: the server reads it there, and no byte of a long one is copied. Its
/// contents are arbitrary.
///
/// Owner: `*loan` is the caller's, until `outlive_request_loan_begin`, `outlive_request_loan_call` or
/// `outlive_request_loan_release`.
///
/// Errors: ETIMEDOUT, also with OUTLIVE_TRY: there is no memory. EMSGSIZE, EPERM, EINVAL, EUSERS,
/// OUTLIVE_DAMAGED.
///
/// If the process dies, the service has the memory back once its last thread has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_loan(
    client: *mut outlive_client_t,
    size: usize,
    deadline: outlive_deadline_t,
    loan: *mut *mut outlive_request_loan_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `loan` and a live client.
        let (out, client) = unsafe { (handle_out(loan)?, borrow(client, "a client")?) };
        let loan = client.0.loan_keeping(size, moment_or_past(deadline))?;
        out.put(Box::into_raw(Box::new(outlive_request_loan_t(loan))));
        Ok(())
    })
}

/// Returns where the request is written: aligned to 8 bytes, as many as were asked for. NULL for NULL.
/// Owner: the loan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_loan_data(
    loan: *mut outlive_request_loan_t,
) -> *mut c_void {
    entry_or(core::ptr::null_mut(), || {
        // SAFETY: the C caller passes a live loan that no other thread uses.
        Ok(unsafe { borrow_mut(loan, "a loan") }?.0.as_mut_ptr().cast())
    })
}

/// Sends the request, without waiting for the reply: as `outlive_client_begin`.
///
/// Owner: the loan is consumed, also by a call that fails; `*call` is the caller's, until
/// `outlive_call_release`.
///
/// Errors: as `outlive_client_call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_loan_begin(
    loan: *mut outlive_request_loan_t,
    deadline: outlive_deadline_t,
    call: *mut *mut outlive_call_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `call`.
        let out = unsafe { handle_out(call) }?;
        // SAFETY: the C caller passes a live loan, which it gives up.
        let loan = unsafe { used_up(loan, "a loan") }?;
        let call = loan.0.begin_until(moment_or_past(deadline))?;
        out.put(Box::into_raw(Box::new(outlive_call_t(call))));
        Ok(())
    })
}

/// Sends the request, and waits for the reply until the deadline: as `outlive_client_call`.
///
/// Owner: the loan is consumed, also by a call that fails; `*reply` is the caller's, until
/// `outlive_reply_release`.
///
/// Errors: as `outlive_client_call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_loan_call(
    loan: *mut outlive_request_loan_t,
    deadline: outlive_deadline_t,
    reply: *mut *mut outlive_reply_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `reply`.
        let out = unsafe { handle_out(reply) }?;
        // SAFETY: the C caller passes a live loan, which it gives up.
        let loan = unsafe { used_up(loan, "a loan") }?;
        let reply = loan.0.call_until(moment_or_past(deadline))?;
        out.put(Box::into_raw(Box::new(outlive_reply_t(reply))));
        Ok(())
    })
}

/// Gives a loan back unsent. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_request_loan_release(loan: *mut outlive_request_loan_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(loan) }
}

/// Returns the next reply of a call, waiting for it until the deadline; `*reply` is NULL when there
/// are no more.
///
/// Owner: `*reply` is the caller's, until `outlive_reply_release`.
///
/// Errors: as `outlive_client_call`; ETIMEDOUT does not cancel the call; EAGAIN with OUTLIVE_TRY:
/// not yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_call_next(
    call: *mut outlive_call_t,
    deadline: outlive_deadline_t,
    reply: *mut *mut outlive_reply_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `reply` and a live call that no other thread
        // uses.
        let (out, call) = unsafe { (handle_out(reply)?, borrow_mut(call, "a call")?) };
        next_reply(&mut call.0, deadline, out)
    })
}

/// Puts a call's next reply, if there is one.
pub(crate) fn next_reply(
    pending: &mut Call<'static>,
    deadline: outlive_deadline_t,
    out: Out<*mut outlive_reply_t>,
) -> Result<(), Failure> {
    let next = match moment(deadline) {
        Some(moment) => pending.next_until(moment)?,
        None => pending.try_next()?,
    };
    let Poll::Ready(next) = next else {
        return Err(match moment(deadline) {
            Some(_) => CallError::TimedOut { begun: pending.is_begun() }.into(),
            None => Failure::new(libc::EAGAIN, "no reply just now; wait for it"),
        });
    };
    if let Some(reply) = next {
        out.put(Box::into_raw(Box::new(outlive_reply_t(reply))));
    }
    Ok(())
}

/// Drops a call; one that is not over is cancelled. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_call_release(call: *mut outlive_call_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(call) }
}

/// Returns a reply's bytes. NULL for NULL. Owner: the reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reply_data(reply: *const outlive_reply_t) -> *const c_void {
    // SAFETY: the C caller passes a live reply.
    entry_or(core::ptr::null(), || Ok(unsafe { borrow(reply, "a reply") }?.0.as_ptr().cast()))
}

/// Returns how many bytes a reply has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reply_size(reply: *const outlive_reply_t) -> usize {
    // SAFETY: the C caller passes a live reply.
    entry_or(0, || Ok(unsafe { borrow(reply, "a reply") }?.0.len()))
}

/// Frees a reply. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reply_release(reply: *mut outlive_reply_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(reply) }
}
