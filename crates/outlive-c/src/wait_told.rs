//! Sources of which a wait set tells more than that they are ready, by this process's part of them:
//! timers, publishers, states, topics.

use std::ffi::c_int;
use std::time::Duration;

use outlive::state::Change;
use outlive::wait::{Source, Timer};

use crate::argument::{borrow, borrow_mut, out};
use crate::code::{Failure, entry};
use crate::deadline::{moment_or_past, outlive_deadline_t};
use crate::state::outlive_state_t;
use crate::topic::{outlive_laggard_t, outlive_publisher_t, outlive_topic_t};
use crate::wait_set::{Told, add, outlive_wait_set_t};

/// Adds a source, and keeps this process's part of it in the set.
///
/// # Safety
/// The C caller passes a live set that no other thread uses, and a place for `key`.
unsafe fn add_told<S: Source>(
    set: *mut outlive_wait_set_t,
    source: S,
    told: fn(S) -> Told,
    key: *mut u64,
) -> Result<(), Failure> {
    // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
    let number = unsafe { add(set, &source, key) }?;
    // SAFETY: the C caller passes a live set that no other thread uses.
    unsafe { borrow_mut(set, "a set") }?.told.insert(number, told(source));
    Ok(())
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
    entry(|| unsafe { add_told(set, Timer::at(moment_or_past(at)), Told::Timer, key) })
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
    entry(|| unsafe {
        add_told(set, Timer::every(Duration::from_nanos(nanoseconds)), Told::Timer, key)
    })
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
        unsafe { add_told(set, room, Told::Room, key) }
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
        unsafe { add_told(set, due, Told::Due, key) }
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
        unsafe { add_told(set, watch, Told::State, key) }
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
        unsafe { add_told(set, presence, Told::Topic, key) }
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
