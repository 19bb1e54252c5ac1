//! Sources of a wait set whose own functions tell all that there is to tell of them.

use std::ffi::c_int;

use crate::argument::borrow;
use crate::client_watch::outlive_client_watch_t;
use crate::code::entry;
use crate::domain::{outlive_domain_t, peer};
use crate::event::{EventHandle, LatchHandle, outlive_event_t, outlive_latch_t};
use crate::jobs::outlive_job_queue_t;
use crate::notifier::outlive_listener_t;
use crate::parts::outlive_request_stream_t;
use crate::place::find;
use crate::queue::outlive_receiver_t;
use crate::rpc::outlive_call_t;
use crate::server::{outlive_request_t, outlive_server_t, outlive_stream_t};
use crate::subscriber::outlive_subscriber_t;
use crate::wait_set::{add, outlive_wait_set_t};
use crate::watch::outlive_domain_watch_t;

/// Adds a queue's receiver: OUTLIVE_READABLE when a receive is worth a try, OUTLIVE_ENDED when a
/// receive would return EPIPE because the senders are gone. Call what is ready with OUTLIVE_TRY.
///
/// Errors: EXDEV: the source is of another domain. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_receiver(
    set: *mut outlive_wait_set_t,
    receiver: *const outlive_receiver_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live receiver.
        let receiver = unsafe { borrow(receiver, "a receiver") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &receiver.receiver, key) }.map(drop)
    })
}

/// Adds a job queue: OUTLIVE_READABLE when there is a job to be taken, a dead worker's included.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_job_queue(
    set: *mut outlive_wait_set_t,
    queue: *const outlive_job_queue_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live job queue.
        let queue = unsafe { borrow(queue, "a job queue") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &queue.0, key) }.map(drop)
    })
}

/// Adds a listener: OUTLIVE_READABLE. Once in a while `outlive_listener_wait` with OUTLIVE_TRY finds
/// nothing then.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_listener(
    set: *mut outlive_wait_set_t,
    listener: *const outlive_listener_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live listener, a live set that no other thread uses, and a
        // place for `key`.
        unsafe { add(set, &borrow(listener, "a listener")?.0, key) }.map(drop)
    })
}

/// Adds a topic's subscriber: OUTLIVE_READABLE; OUTLIVE_MISSED when none has come for its period,
/// until a receive has returned ETIME; OUTLIVE_CHANGED when there is something to tell of a
/// publisher's liveliness, until a receive has returned it.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_subscriber(
    set: *mut outlive_wait_set_t,
    subscriber: *const outlive_subscriber_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live subscriber.
        let subscriber = unsafe { borrow(subscriber, "a subscriber") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &subscriber.0, key) }.map(drop)
    })
}

/// Adds bits of an event: OUTLIVE_SET as long as any of them is set, or all of them with `all` not
/// 0. The set clears none.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_event(
    set: *mut outlive_wait_set_t,
    event: *const outlive_event_t,
    bits: u32,
    all: u32,
    key: *mut u64,
) -> c_int {
    entry(|| {
        let event = &find::<EventHandle>(event)?.0;
        let bits = if all == 0 { event.any_of(bits) } else { event.all_of(bits) };
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &bits, key) }.map(drop)
    })
}

/// Adds a latch: OUTLIVE_SET once it is open.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_latch(
    set: *mut outlive_wait_set_t,
    latch: *const outlive_latch_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        let latch = &find::<LatchHandle>(latch)?.0;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, latch, key) }.map(drop)
    })
}

/// Adds a token's owner: OUTLIVE_ENDED when it has ended.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_peer(
    set: *mut outlive_wait_set_t,
    domain: *const outlive_domain_t,
    token: u32,
    key: *mut u64,
) -> c_int {
    // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key` and a
    // live domain.
    entry(|| unsafe { add(set, &peer(domain, token)?, key) }.map(drop))
}

/// Adds a service's server: OUTLIVE_READABLE when a request is worth a try.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_server(
    set: *mut outlive_wait_set_t,
    server: *const outlive_server_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live server.
        let server = unsafe { borrow(server, "a server") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &server.0, key) }.map(drop)
    })
}

/// Adds a call: OUTLIVE_READABLE when a reply, or its end, is there; OUTLIVE_ENDED when there is no
/// server any more.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_call(
    set: *mut outlive_wait_set_t,
    call: *const outlive_call_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live call.
        let call = unsafe { borrow(call, "a call") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &call.0, key) }.map(drop)
    })
}

/// Adds a request that the server has: OUTLIVE_ENDED when its client wants no reply any more, or is
/// dead. Once it is answered, it is not ready again.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_request(
    set: *mut outlive_wait_set_t,
    request: *const outlive_request_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live request.
        let request = unsafe { borrow(request, "a request") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &request.0, key) }.map(drop)
    })
}

/// Adds a stream of replies that the server sends: OUTLIVE_ENDED when its client wants no further
/// reply, or is dead. Once it has ended, it is not ready again.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_stream(
    set: *mut outlive_wait_set_t,
    stream: *const outlive_stream_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live stream.
        let stream = unsafe { borrow(stream, "a stream") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &stream.0, key) }.map(drop)
    })
}

/// Adds the parts of a request that the server has: OUTLIVE_READABLE when
/// `outlive_request_next_part` has a part, or says that there are no more; OUTLIVE_ENDED when no client
/// waits for a reply any more. Once it is answered, it is not ready again.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_parts(
    set: *mut outlive_wait_set_t,
    request: *const outlive_request_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live request.
        let request = unsafe { borrow(request, "a request") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &request.0.parts(), key) }.map(drop)
    })
}

/// Adds the parts of the request to which a stream replies, as `outlive_wait_set_add_parts`, for
/// `outlive_stream_next_part`.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_stream_parts(
    set: *mut outlive_wait_set_t,
    stream: *const outlive_stream_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live stream.
        let stream = unsafe { borrow(stream, "a stream") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &stream.0.parts(), key) }.map(drop)
    })
}

/// Adds the replies to a request whose parts are sent, as `outlive_wait_set_add_call`, for
/// `outlive_request_stream_next`; also the replies that come after `outlive_request_stream_finish`.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_request_stream(
    set: *mut outlive_wait_set_t,
    stream: *const outlive_request_stream_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live stream.
        let stream = unsafe { borrow(stream, "a stream") }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &stream.0, key) }.map(drop)
    })
}

/// Adds a watch of a domain: OUTLIVE_CHANGED when the domain's contents differ from those of its
/// last `outlive_domain_watch_changed`, until the next one.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_domain_watch(
    set: *mut outlive_wait_set_t,
    watch: *const outlive_domain_watch_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live watch, a live set that no other thread uses, and a
        // place for `key`.
        unsafe { add(set, &borrow(watch, "a watch")?.watch, key) }.map(drop)
    })
}

/// Adds a watch of a service's clients: OUTLIVE_CHANGED when something has become of one, until
/// `outlive_client_watch_next` has told it.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_client_watch(
    set: *mut outlive_wait_set_t,
    watch: *const outlive_client_watch_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live watch, a live set that no other thread uses, and a
        // place for `key`.
        unsafe { add(set, &borrow(watch, "a watch")?.0, key) }.map(drop)
    })
}
