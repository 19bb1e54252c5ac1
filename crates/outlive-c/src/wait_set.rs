//! Wait sets: waiting for many things at once.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::time::Duration;

use outlive::state::{Change, Watch};
use outlive::topic::{Due, Presence, Writable};
use outlive::wait::{Key, Readiness, Source, Timer, WaitSet};

use crate::argument::{borrow, borrow_mut, handle_out, out};
use crate::client_watch::outlive_client_watch_t;
use crate::code::{Failure, entry};
use crate::deadline::{in_time, moment, moment_or_past, outlive_deadline_t};
use crate::domain::{outlive_domain_t, peer};
use crate::event::{EventHandle, LatchHandle, outlive_event_t, outlive_latch_t};
use crate::jobs::outlive_job_queue_t;
use crate::notifier::outlive_listener_t;
use crate::parts::outlive_request_stream_t;
use crate::place::find;
use crate::queue::outlive_receiver_t;
use crate::rpc::outlive_call_t;
use crate::server::{outlive_request_t, outlive_server_t, outlive_stream_t};
use crate::state::outlive_state_t;
use crate::subscriber::outlive_subscriber_t;
use crate::topic::{outlive_laggard_t, outlive_publisher_t, outlive_topic_t};
use crate::watch::outlive_domain_watch_t;

/// A set of sources to wait for, all of one domain. One thread at a time may use it.
pub struct outlive_wait_set_t {
    set: WaitSet,
    next: u64,
    numbers: HashMap<Key, u64>,
    keys: HashMap<u64, Key>,
    told: HashMap<u64, Told>,
}

/// Sources of which the set tells more than that they are ready, by this process's part of them.
enum Told {
    Timer(Timer),
    State(Watch),
    Topic(Presence),
    Due(Due),
    Room(Writable),
}

/// A receive is worth a try.
pub const OUTLIVE_READABLE: u32 = 1;
/// The peer, or all senders of a queue, have ended.
pub const OUTLIVE_ENDED: u32 = 2;
/// The bits are set; the latch is open.
pub const OUTLIVE_SET: u32 = 3;
/// The timer's moment has passed.
pub const OUTLIVE_ELAPSED: u32 = 4;

/// There is another value; or the publishers or subscribers have changed.
pub const OUTLIVE_CHANGED: u32 = 5;
/// A publish is worth a try.
pub const OUTLIVE_WRITABLE: u32 = 6;
/// The subscriber has got no message, or the publisher has published none, for its period.
pub const OUTLIVE_MISSED: u32 = 7;

/// A source that is ready.
#[repr(C)]
pub struct outlive_ready_t {
    /// Its key, as the call that added it returned it.
    pub key: u64,
    /// What it is ready for: one of the numbers above.
    pub what: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// Makes an empty set, for sources of that domain.
///
/// Owner: `*set` is the caller's, until `outlive_wait_set_close`.
///
/// Errors: EINVAL.
///
/// If a process dies whose end a set waits for, all such sets report it; what a dead sender had
/// sent is still reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_open(
    domain: *const outlive_domain_t,
    set: *mut *mut outlive_wait_set_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `set` and a live domain.
        let (out, domain) = unsafe { (handle_out(set)?, borrow(domain, "a domain")?) };
        out.put(Box::into_raw(Box::new(outlive_wait_set_t {
            set: WaitSet::new(&domain.0),
            next: 1,
            numbers: HashMap::new(),
            keys: HashMap::new(),
            told: HashMap::new(),
        })));
        Ok(())
    })
}

/// Closes a set, and its descriptor. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_close(set: *mut outlive_wait_set_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { crate::domain::close(set) }
}

/// Adds a source; returns its key.
///
/// # Safety
/// The C caller passes a live set that no other thread uses, and a place for `key`.
pub(crate) unsafe fn add(
    set: *mut outlive_wait_set_t,
    source: &impl Source,
    key: *mut u64,
) -> Result<u64, Failure> {
    // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
    let (this, out) = unsafe { (borrow_mut(set, "a set")?, out(key)?) };
    let number = this.next;
    let added = this.set.add(source)?;
    this.next += 1;
    this.numbers.insert(added, number);
    this.keys.insert(number, added);
    out.put(number);
    Ok(number)
}

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

/// Adds a timer: OUTLIVE_ELAPSED from that point in time on, until `outlive_wait_set_take_timer`.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_timer(
    set: *mut outlive_wait_set_t,
    at: outlive_deadline_t,
    key: *mut u64,
) -> c_int {
    // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
    entry(|| unsafe { add_timer(set, Timer::at(moment_or_past(at)), key) })
}

/// Adds a timer that elapses every so many nanoseconds, for the first time that long from now.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_timer_every(
    set: *mut outlive_wait_set_t,
    nanoseconds: u64,
    key: *mut u64,
) -> c_int {
    // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
    entry(|| unsafe { add_timer(set, Timer::every(Duration::from_nanos(nanoseconds)), key) })
}

/// # Safety
/// The C caller passes a live set that no other thread uses, and a place for `key`.
unsafe fn add_timer(
    set: *mut outlive_wait_set_t,
    timer: Timer,
    key: *mut u64,
) -> Result<(), Failure> {
    // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
    let number = unsafe { add(set, &timer, key) }?;
    // SAFETY: the C caller passes a live set that no other thread uses.
    unsafe { borrow_mut(set, "a set") }?.told.insert(number, Told::Timer(timer));
    Ok(())
}

/// Returns in `*elapsed` how often a timer has elapsed since the last call. From then on it is not
/// ready until it elapses again.
///
/// Errors: EINVAL: the key is no timer of this set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_take_timer(
    set: *mut outlive_wait_set_t,
    key: u64,
    elapsed: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set and a place for `elapsed`.
        let (set, out) = unsafe { (borrow(set, "a set")?, out(elapsed)?) };
        let Some(Told::Timer(timer)) = set.told.get(&key) else {
            return Err(Failure::new(libc::EINVAL, "no timer of this set has that key"));
        };
        out.put(timer.take());
        Ok(())
    })
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

/// Adds a publisher: OUTLIVE_WRITABLE when no living reliable subscriber is in the way;
/// `outlive_wait_set_slowest` says which one is.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_publisher(
    set: *mut outlive_wait_set_t,
    publisher: *const outlive_publisher_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live publisher.
        let room = unsafe { borrow(publisher, "a publisher") }?.0.writable();
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        let number = unsafe { add(set, &room, key) }?;
        // SAFETY: the C caller passes a live set that no other thread uses.
        unsafe { borrow_mut(set, "a set") }?.told.insert(number, Told::Room(room));
        Ok(())
    })
}

/// Writes which reliable subscriber is furthest behind a publisher of the set, as
/// `outlive_publisher_slowest`: for which process the set waits. The publisher may be another
/// thread's, and waiting.
///
/// Errors: ESRCH: there is no such subscriber, or the publisher has ended. EINVAL: the key is no
/// publisher of this set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_slowest(
    set: *mut outlive_wait_set_t,
    key: u64,
    laggard: *mut outlive_laggard_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set and a place for `laggard`.
        let (set, out) = unsafe { (borrow(set, "a set")?, out(laggard)?) };
        let Some(Told::Room(room)) = set.told.get(&key) else {
            return Err(Failure::new(libc::EINVAL, "no publisher of this set has that key"));
        };
        out.put(outlive_laggard_t::of(room.slowest().as_ref())?);
        Ok(())
    })
}

/// Adds the period of a publisher: OUTLIVE_MISSED when it has published nothing for its period, until
/// it does or `outlive_wait_set_take_missed` is called; never without a period. The set may be
/// another thread's, which so learns that the publisher's thread hangs.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_due(
    set: *mut outlive_wait_set_t,
    publisher: *const outlive_publisher_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live publisher.
        let due = unsafe { borrow(publisher, "a publisher") }?.0.due();
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        let number = unsafe { add(set, &due, key) }?;
        // SAFETY: the C caller passes a live set that no other thread uses.
        unsafe { borrow_mut(set, "a set") }?.told.insert(number, Told::Due(due));
        Ok(())
    })
}

/// Returns in `*periods` how many periods have passed without a message since the publisher's last
/// message, or the last call. From then on it is not ready before the end of the next.
///
/// Errors: EINVAL: the key is no publisher's period of this set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_take_missed(
    set: *mut outlive_wait_set_t,
    key: u64,
    periods: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set and a place for `periods`.
        let (set, out) = unsafe { (borrow(set, "a set")?, out(periods)?) };
        let Some(Told::Due(due)) = set.told.get(&key) else {
            let why = "no publisher's period of this set has that key";
            return Err(Failure::new(libc::EINVAL, why));
        };
        out.put(due.take());
        Ok(())
    })
}

/// Adds a state: OUTLIVE_CHANGED for a value, the present one first; OUTLIVE_ENDED for a writer's
/// death; each until `outlive_wait_set_take_state`.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_state(
    set: *mut outlive_wait_set_t,
    state: *const outlive_state_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live state.
        let watch = unsafe { borrow(state, "a state") }?.0.watch();
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        let number = unsafe { add(set, &watch, key) }?;
        // SAFETY: the C caller passes a live set that no other thread uses.
        unsafe { borrow_mut(set, "a set") }?.told.insert(number, Told::State(watch));
        Ok(())
    })
}

/// Takes a state's news: `*version` is that of the present value. From then on it is not ready
/// until the next change.
///
/// Errors: EPIPE: its writer died. EAGAIN: there is no news. EINVAL: the key is no state of this
/// set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_take_state(
    set: *mut outlive_wait_set_t,
    key: u64,
    version: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set that no other thread uses and a place for
        // `version`.
        let (set, out) = unsafe { (borrow_mut(set, "a set")?, out(version)?) };
        let Some(Told::State(watch)) = set.told.get_mut(&key) else {
            return Err(Failure::new(libc::EINVAL, "no state of this set has that key"));
        };
        match watch.try_changed()? {
            Some(Change::WriterDied { version }) => {
                out.put(version);
                Err(Failure::new(
                    libc::EPIPE,
                    "the state's writer died; another process may take over",
                ))
            }
            Some(Change::Value { version }) => {
                out.put(version);
                Ok(())
            }
            _ => Err(Failure::new(libc::EAGAIN, "nothing is new about the state")),
        }
    })
}

/// Adds a topic: OUTLIVE_CHANGED when its publishers or subscribers differ from the last report,
/// until `outlive_wait_set_take_topic`.
///
/// Errors: EXDEV, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_topic(
    set: *mut outlive_wait_set_t,
    topic: *const outlive_topic_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live topic.
        let presence = unsafe { borrow(topic, "a topic") }?.0.watch();
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        let number = unsafe { add(set, &presence, key) }?;
        // SAFETY: the C caller passes a live set that no other thread uses.
        unsafe { borrow_mut(set, "a set") }?.told.insert(number, Told::Topic(presence));
        Ok(())
    })
}

/// Takes a topic's news: `*publishers` and `*subscribers` are how many there are now. From then on
/// it is not ready until the next change.
///
/// Errors: EAGAIN: there is no change. EINVAL: the key is no topic of this set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_take_topic(
    set: *mut outlive_wait_set_t,
    key: u64,
    publishers: *mut u32,
    subscribers: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set that no other thread uses, a place for
        // `publishers`, and a place for `subscribers`.
        let (set, publishers, subscribers) =
            unsafe { (borrow_mut(set, "a set")?, out(publishers)?, out(subscribers)?) };
        let Some(Told::Topic(presence)) = set.told.get_mut(&key) else {
            return Err(Failure::new(libc::EINVAL, "no topic of this set has that key"));
        };
        let present = presence.try_changed()?;
        let present = present.ok_or_else(|| {
            Failure::new(libc::EAGAIN, "no publisher or subscriber has come or gone")
        })?;
        publishers.put(present.publishers.len() as u32);
        subscribers.put(present.subscribers.len() as u32);
        Ok(())
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

/// Removes a source from the set. The handle that it was made from may be closed before or after.
///
/// Errors: EINVAL: the set does not have it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_remove(set: *mut outlive_wait_set_t, key: u64) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set that no other thread uses.
        let set = unsafe { borrow_mut(set, "a set") }?;
        let known = set
            .keys
            .remove(&key)
            .ok_or_else(|| Failure::new(libc::EINVAL, "nothing in this set has that key"))?;
        set.numbers.remove(&known);
        set.told.remove(&key);
        set.set.remove(known);
        Ok(())
    })
}

/// Waits until a source is ready, or until the deadline, and writes all that are ready then to
/// `ready`, as many as fit; `*count` is how many were written. A source is reported as long as it
/// is ready, so those that did not fit are reported the next time.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: no source is ready. EINVAL, EUSERS, and errors of
/// the system.
///
/// If a process dies that waits in a set, that has no effect on others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_wait(
    set: *mut outlive_wait_set_t,
    ready: *mut outlive_ready_t,
    capacity: usize,
    count: *mut usize,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set that no other thread uses and a place for `count`.
        let (this, out) = unsafe { (borrow_mut(set, "a set")?, out(count)?) };
        if ready.is_null() || capacity == 0 {
            return Err(Failure::new(libc::EINVAL, "no room for what is ready"));
        }
        let found = match moment(deadline) {
            Some(moment) => this.set.wait_until(moment)?,
            None => this.set.try_wait()?,
        };
        let mut written = 0;
        for (key, what) in found.take(capacity) {
            let what = match what {
                Readiness::Readable => OUTLIVE_READABLE,
                Readiness::Ended => OUTLIVE_ENDED,
                Readiness::Set => OUTLIVE_SET,
                Readiness::Elapsed => OUTLIVE_ELAPSED,
                Readiness::Changed => OUTLIVE_CHANGED,
                Readiness::Writable => OUTLIVE_WRITABLE,
                Readiness::Missed => OUTLIVE_MISSED,
                _ => 0,
            };
            let key = this.numbers.get(&key).copied().unwrap_or(0);
            // SAFETY: `written` is below `capacity`, for which the C caller passes room at `ready`.
            unsafe { ready.add(written).write(outlive_ready_t { key, what, reserved: 0 }) };
            written += 1;
        }
        if written == 0 {
            return in_time(None, deadline, libc::EAGAIN);
        }
        out.put(written);
        Ok(())
    })
}

/// Returns a descriptor that is readable when a source is ready, for `epoll` and `poll`; it stays
/// readable until `outlive_wait_set_wait` with OUTLIVE_TRY has found nothing.
///
/// Owner: the set; do not read from it, and do not close it.
///
/// Errors: EINVAL, EUSERS, EMFILE, and errors of the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_fd(
    set: *mut outlive_wait_set_t,
    fd: *mut c_int,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set that no other thread uses and a place for `fd`.
        let (set, out) = unsafe { (borrow_mut(set, "a set")?, out(fd)?) };
        out.put(set.set.as_fd()?.as_raw_fd());
        Ok(())
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
