//! Subscribers of a topic: receiving, and what they are told of publishers.

use std::ffi::c_int;

use outlive::RecvError;
use outlive::topic::Subscriber;

use crate::argument::{borrow, borrow_mut, handle_out, out_or_none};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{OUTLIVE_TRY, moment, outlive_deadline_t};
use crate::domain::close;
use crate::sample::outlive_sample_t;

/// Receives the messages of a topic: each subscriber gets all of them. One thread at a time may use
/// it.
pub struct outlive_subscriber_t(pub(crate) Subscriber<[u8]>, Told);

/// What a subscriber was told last.
#[derive(Clone, Copy, Default)]
struct Told {
    /// Of which publisher.
    session: u32,
    pid: u32,
    /// How many messages it has lost, of another publisher perhaps.
    lagged: u64,
}

impl outlive_subscriber_t {
    pub(crate) fn of(subscriber: Subscriber<[u8]>) -> outlive_subscriber_t {
        outlive_subscriber_t(subscriber, Told::default())
    }

    /// Keeps which publisher an error tells of.
    fn tell<T>(&mut self, received: Result<T, RecvError>) -> Result<T, RecvError> {
        match &received {
            Err(RecvError::NewSession { session }) => {
                self.1 = Told { session: *session, pid: 0, ..self.1 };
            }
            Err(RecvError::Lagged { lost }) => self.1.lagged = *lost,
            Err(
                RecvError::NotLively { session, publisher }
                | RecvError::Lively { session, publisher }
                | RecvError::PublisherDied { session, publisher },
            ) => self.1 = Told { session: *session, pid: publisher.pid, ..self.1 },
            _ => {}
        }
        received
    }
}

/// Closes a subscriber. Samples that it took stay valid. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_close(subscriber: *mut outlive_subscriber_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(subscriber) }
}

/// Receives the next message, waiting for it until the deadline.
///
/// Owner: `*sample` is the caller's, until `outlive_sample_release`; up to 256 may be held at a
/// time.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: no message is there. ETIME: no message has come for
/// longer than the period. OUTLIVE_LAGGED: a publisher has stopped waiting for this reliable
/// subscriber, which has lost messages: `outlive_subscriber_lagged` says how many. OUTLIVE_NEW_SESSION: the next message is the first of a start
/// of its publisher. OUTLIVE_NOT_LIVELY, OUTLIVE_LIVELY, EOWNERDEAD: what `liveliness` asks for, of the
/// publisher that `outlive_subscriber_told` names. After each, the next call goes on. ENOBUFS: it
/// holds `max_samples` samples. EPERM: a forked child needs a subscriber of its own.
/// OUTLIVE_DAMAGED: the damaged message is skipped. EINVAL, EUSERS.
///
/// If a publisher dies, its published messages are received as before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_recv(
    subscriber: *mut outlive_subscriber_t,
    sample: *mut *mut outlive_sample_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `sample` and a live subscriber that no other
        // thread uses.
        let (out, subscriber) =
            unsafe { (handle_out(sample)?, borrow_mut(subscriber, "a subscriber")?) };
        let received = match moment(deadline) {
            Some(moment) => subscriber.0.recv_until(moment),
            None => subscriber.0.try_recv(),
        };
        let absent = || if deadline == OUTLIVE_TRY { nothing() } else { Failure::timed_out() };
        let sample = subscriber.tell(received)?.ok_or_else(absent)?;
        out.put(outlive_sample_t::of(sample));
        Ok(())
    })
}

pub(crate) fn nothing() -> Failure {
    Failure::new(libc::EAGAIN, "nothing there just now; wait, or try later")
}

/// Returns the newest message that is there, taken before or not; older ones are skipped, without
/// counting as lost.
///
/// Owner: as `outlive_subscriber_recv`.
///
/// Errors: EAGAIN: no message is there. Otherwise as `outlive_subscriber_recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_latest(
    subscriber: *mut outlive_subscriber_t,
    sample: *mut *mut outlive_sample_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `sample` and a live subscriber that no other
        // thread uses.
        let (out, subscriber) =
            unsafe { (handle_out(sample)?, borrow_mut(subscriber, "a subscriber")?) };
        let received = subscriber.0.latest();
        let sample = subscriber.tell(received)?.ok_or_else(nothing)?;
        out.put(outlive_sample_t::of(sample));
        Ok(())
    })
}

/// Returns how many messages were overwritten before this subscriber took them, so far. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_lost(subscriber: *const outlive_subscriber_t) -> u64 {
    // SAFETY: the C caller passes a live subscriber.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.lost()))
}

/// Returns how many messages were passed over because they were older than its `max_age`, or than
/// their publisher's `lifespan`. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_expired(
    subscriber: *const outlive_subscriber_t,
) -> u64 {
    // SAFETY: the C caller passes a live subscriber.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.expired()))
}

/// Writes the session and the process of the publisher of which a receive told last, by
/// OUTLIVE_NEW_SESSION (whose process is not told: 0), OUTLIVE_NOT_LIVELY, OUTLIVE_LIVELY or
/// EOWNERDEAD; 0 before that. Each place may be NULL.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_told(
    subscriber: *const outlive_subscriber_t,
    session: *mut u32,
    pid: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live subscriber that no other thread uses.
        let told = unsafe { borrow(subscriber, "a subscriber") }?.1;
        // SAFETY: the C caller passes NULL or a place for `session`.
        if let Some(out) = unsafe { out_or_none(session) } {
            out.put(told.session);
        }
        // SAFETY: the C caller passes NULL or a place for `pid`.
        if let Some(out) = unsafe { out_or_none(pid) } {
            out.put(told.pid);
        }
        Ok(())
    })
}

/// Returns how many messages of one publisher this reliable subscriber had lost when a receive told it
/// OUTLIVE_LAGGED last. 0 before that, and for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_lagged(subscriber: *const outlive_subscriber_t) -> u64 {
    // SAFETY: the C caller passes a live subscriber that no other thread uses.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.1.lagged))
}

/// Returns how often a publisher was alive and did nothing for the time that `liveliness` says. 0 for
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_lapses(subscriber: *const outlive_subscriber_t) -> u64 {
    // SAFETY: the C caller passes a live subscriber.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.lapses()))
}

/// Returns how many of its periods have passed without a message; one ETIME stands for all that had
/// passed by then. 0 for NULL, and without a period.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_missed(subscriber: *const outlive_subscriber_t) -> u64 {
    // SAFETY: the C caller passes a live subscriber.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.missed()))
}

/// Returns how many messages are waiting for it. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_lag(subscriber: *const outlive_subscriber_t) -> u64 {
    // SAFETY: the C caller passes a live subscriber.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.lag()))
}

/// Returns how many living publishers there are. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_publisher_count(
    subscriber: *const outlive_subscriber_t,
) -> u32 {
    // SAFETY: the C caller passes a live subscriber.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.publisher_count()))
}
