//! Topics: publish/subscribe, with messages written and read in place.

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

use outlive::topic::{Header, Laggard, Loan, Outgoing, Published, Publisher, Topic};
use outlive::{Deadline, SendError};

use crate::argument::{borrow, borrow_mut, bytes, handle_out, out, out_or_none, with_options};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{OUTLIVE_TRY, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t, outlive_peer_info_t};
use crate::opening::{naming, open_as_bytes, outlive_opening_t};
use crate::sample::outlive_header_t;
use crate::subscriber::outlive_subscriber_t;
use crate::topic_options::{
    outlive_publisher_options_t, outlive_subscriber_options_t, outlive_topic_options_t,
    publisher_options, subscriber_options, topic_options,
};

/// A topic, open in this process; its publishers and subscribers are made from it. All threads may
/// use it at once.
pub struct outlive_topic_t(pub(crate) Topic<[u8]>);

/// Publishes messages to a topic. One thread at a time may use it and its loans.
pub struct outlive_publisher_t(pub(crate) Publisher<[u8]>);

/// Memory that a publisher has lent for a message, to be written in place.
pub struct outlive_loan_t(PhantomData<Loan<[u8]>>);

/// Returns the loan that a handle is.
///
/// # Safety
/// The C caller guarantees a live handle from `outlive_publisher_loan`, which no other thread uses.
#[inline]
unsafe fn loan(handle: NonNull<outlive_loan_t>) -> Loan<[u8]> {
    // SAFETY: the handle comes from `Loan::into_raw`.
    unsafe { Loan::from_raw(handle.cast()) }
}

/// The reliable subscriber that is furthest behind a publisher. Its size never changes.
#[repr(C)]
pub struct outlive_laggard_t {
    /// Its process.
    pub who: outlive_peer_info_t,
    /// How many messages of that publisher it has still to take.
    pub lag: u64,
    /// 1: the publisher's next message waits for it.
    pub is_in_the_way: u32,
    /// 0.
    pub reserved: u32,
}

impl outlive_laggard_t {
    pub(crate) fn of(slowest: Option<&Laggard>) -> Result<outlive_laggard_t, Failure> {
        let nobody = "no reliable subscriber of that publisher is alive and waited for";
        let slowest = slowest.ok_or_else(|| Failure::new(libc::ESRCH, nobody))?;
        Ok(outlive_laggard_t {
            who: outlive_peer_info_t::of_holder(&slowest.who),
            lag: slowest.lag,
            is_in_the_way: u32::from(slowest.is_in_the_way),
            reserved: 0,
        })
    }
}

/// Opens the topic of that name, or makes it, for messages that are bytes. `options` NULL: none is
/// set. With OUTLIVE_OPEN the messages may be of any type, and are bytes here.
///
/// Owner: `*topic` is the caller's, until `outlive_topic_close`. Its publishers and subscribers may
/// outlive it.
///
/// Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: its messages are of a Rust type, or of
/// another description than `payload`.
///
/// If a process dies, the messages that it published stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_topic_options_t,
    topic: *mut *mut outlive_topic_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `topic`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, topic) }?;
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let (mut options, payload) = unsafe { topic_options::<[u8]>(options) }?;
        if let Some(payload) = payload {
            options = options.description(payload);
        }
        let opened = open_as_bytes!(options, naming)?;
        naming.out.put(Box::into_raw(Box::new(outlive_topic_t(opened))));
        Ok(())
    })
}

/// Closes a topic. Its publishers and subscribers stay. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_close(topic: *mut outlive_topic_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(topic) }
}

/// Writes what the topic was made with into `config`, which begins with its size as
/// OUTLIVE_TOPIC_OPTIONS_INIT sets it: depth, max_bytes, stamps, no_stamps, reliable, durability,
/// max_publishers, max_subscribers, max_samples and mode; the rest is 0.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_config(
    topic: *const outlive_topic_t,
    config: *mut outlive_topic_options_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live topic.
        let found = unsafe { borrow(topic, "a topic") }?.0.config();
        let found = outlive_topic_options_t::of(&found);
        // SAFETY: the C caller passes NULL or options of the size that they say, which no other
        // thread uses; all fields are integers or a pointer.
        unsafe {
            with_options(config, |config| {
                *config = outlive_topic_options_t { size: config.size, ..found };
            })
        }
    })
}

/// Returns how many living publishers and subscribers there are. Each place may be NULL.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_counts(
    topic: *const outlive_topic_t,
    publishers: *mut u32,
    subscribers: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live topic.
        let topic = unsafe { borrow(topic, "a topic") }?;
        // SAFETY: the C caller passes NULL or a place for `publishers`.
        if let Some(out) = unsafe { out_or_none(publishers) } {
            out.put(topic.0.publishers().len() as u32);
        }
        // SAFETY: the C caller passes NULL or a place for `subscribers`.
        if let Some(out) = unsafe { out_or_none(subscribers) } {
            out.put(topic.0.subscribers().len() as u32);
        }
        Ok(())
    })
}

/// Makes a new publisher: up to `max_publishers` at a time. `options` NULL: none is set.
///
/// Owner: `*publisher` is the caller's, until `outlive_publisher_close`.
///
/// Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_publisher(
    topic: *const outlive_topic_t,
    options: *const outlive_publisher_options_t,
    publisher: *mut *mut outlive_publisher_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `publisher` and a live topic.
        let (out, topic) = unsafe { (handle_out(publisher)?, borrow(topic, "a topic")?) };
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let how = unsafe { publisher_options(options) }?;
        out.put(Box::into_raw(Box::new(outlive_publisher_t(topic.0.publisher_with(how)?))));
        Ok(())
    })
}

/// Makes a new subscriber: up to `max_subscribers` at a time. `options` NULL: it receives what is published from
/// now on.
///
/// Owner: `*subscriber` is the caller's, until `outlive_subscriber_close`.
///
/// Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED; OUTLIVE_OTHER_OPTIONS: it asks for more than the
/// topic offers.
///
/// If a process dies during the call, there is no new subscriber.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_subscriber(
    topic: *const outlive_topic_t,
    options: *const outlive_subscriber_options_t,
    subscriber: *mut *mut outlive_subscriber_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `subscriber` and a live topic.
        let (out, topic) = unsafe { (handle_out(subscriber)?, borrow(topic, "a topic")?) };
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let how = unsafe { subscriber_options(options) }?;
        let subscriber = topic.0.subscriber_with(how)?;
        out.put(Box::into_raw(Box::new(outlive_subscriber_t::of(subscriber))));
        Ok(())
    })
}

/// Closes a publisher. Its published messages stay; a loan of it can only be dropped then. Passing
/// NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_close(publisher: *mut outlive_publisher_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(publisher) }
}

/// Makes memory for messages of up to `size` bytes, brings it in, and keeps it for this publisher, so
/// that lending and publishing them is neither a page fault nor a system call. `held`: how many are
/// in use at a time beside those in the ring: loans, and samples that subscribers hold. Subscribers
/// see the memory in mappings of their own: each calls `outlive_domain_prefault` after this.
///
/// Errors: ENOSPC: the topic, or the file system, has no room for all of it; no message is given up.
/// EMSGSIZE, EINVAL, EPERM, OUTLIVE_DAMAGED.
///
/// If the process dies, the next publisher has the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_prefault(
    publisher: *mut outlive_publisher_t,
    held: usize,
    size: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live publisher.
        let publisher = unsafe { borrow(publisher, "a publisher") }?;
        Ok(publisher.0.prefault(held, size)?)
    })
}

/// Lends memory for a message of `size` bytes, from 0 to 1 GiB, to be written in place: `*data`,
/// aligned to 8, or to 64 if it has more than 168 bytes. Its contents are arbitrary.
///
/// Owner: `*loan` and `*data` are the caller's, until `outlive_publisher_publish` or
/// `outlive_loan_release`.
///
/// Errors: ENOSPC: the topic is at its largest, and subscribers hold its messages. EMSGSIZE,
/// EINVAL, EPERM (a forked child needs a publisher of its own), EUSERS, OUTLIVE_DAMAGED.
///
/// If the process dies, its loans are free again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_loan(
    publisher: *mut outlive_publisher_t,
    size: usize,
    loan: *mut *mut outlive_loan_t,
    data: *mut *mut c_void,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `loan` and a place for `data`.
        let (out, place) = unsafe { (handle_out(loan)?, self::out(data)?) };
        // SAFETY: the C caller passes a live publisher.
        let publisher = unsafe { borrow(publisher, "a publisher") }?;
        let mut loan = publisher.0.loan(size)?;
        let bytes = if size == 0 { core::ptr::null_mut() } else { loan.as_mut_ptr() };
        let loan = loan.into_raw().as_ptr();
        // A loan of no bytes has a valid address, too.
        place.put(if bytes.is_null() { loan } else { bytes.cast() });
        out.put(loan.cast());
        Ok(())
    })
}

/// Sets the header that is published with a loan.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_loan_set_header(
    loan: *mut outlive_loan_t,
    header: *const outlive_header_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan that no other thread uses and a readable header.
        let (loan, header) = unsafe { (borrow_mut(loan, "a loan")?, borrow(header, "a header")?) };
        // SAFETY: the C caller passes a live loan that no other thread uses; `ManuallyDrop` keeps
        // this copy from being dropped.
        let mut loan = ManuallyDrop::new(unsafe { self::loan(NonNull::from(loan)) });
        loan.set_header(header.to_rust());
        Ok(())
    })
}

/// Gives a loan back unpublished. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_loan_release(loan: *mut outlive_loan_t) {
    entry(|| {
        // SAFETY: the C caller passes a loan of this library's, which it gives up.
        drop(NonNull::new(loan).map(|handle| unsafe { self::loan(handle) }));
        Ok(())
    });
}

/// Returns the failure; with `OUTLIVE_TRY`, a deadline that has passed is EAGAIN.
fn tried(error: SendError, deadline: outlive_deadline_t) -> Failure {
    match error {
        SendError::TimedOut { slowest } if deadline == OUTLIVE_TRY => {
            SendError::Full { slowest }.into()
        }
        other => other.into(),
    }
}

/// # Safety
/// The C caller guarantees that `sequence` is NULL, or a place for a number.
unsafe fn tell(published: &Published<'_>, sequence: *mut u64) {
    // SAFETY: the C caller passes NULL or a place for `sequence`.
    if let Some(out) = unsafe { out_or_none(sequence) } {
        out.put(published.sequence());
    }
}

/// Publishes a loan. It waits, until the deadline, only for a reliable subscriber that has not
/// taken the message that would be overwritten. `*sequence` (may be NULL): its number among the
/// messages of this publisher's ring.
///
/// Owner: the loan is consumed, also by a call that fails.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: such a subscriber is alive and has not taken its
/// message; `outlive_last_error_pid` is its process. EPERM, EINVAL, EUSERS, OUTLIVE_DAMAGED. After an error the loan was not published.
///
/// If the process dies: after a return of 0 the message is published, even if this process dies; if
/// it dies during the call, subscribers get the whole message or none of it. A reliable
/// subscriber's death ends the wait at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_publish(
    publisher: *mut outlive_publisher_t,
    loan: *mut outlive_loan_t,
    deadline: outlive_deadline_t,
    sequence: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan that no other thread uses.
        let loan = NonNull::from(unsafe { borrow_mut(loan, "a loan") }?);
        // SAFETY: the C caller passes a loan of this library's, which it gives up.
        let loan = unsafe { self::loan(loan) };
        // SAFETY: the C caller passes a live publisher.
        let publisher = &unsafe { borrow(publisher, "a publisher") }?.0;
        let published = publisher.publish_until(loan, moment_or_past(deadline));
        let published = published.map_err(|error| tried(error, deadline))?;
        // SAFETY: the C caller passes NULL or a place for `sequence`.
        unsafe { tell(&published, sequence) };
        Ok(())
    })
}

/// Publishes a copy of `size` bytes, with `header` (NULL: none).
///
/// Errors: as `outlive_publisher_loan` and `outlive_publisher_publish`.
///
/// If a process dies: as with `outlive_publisher_publish`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_publish_copy(
    publisher: *mut outlive_publisher_t,
    data: *const c_void,
    size: usize,
    header: *const outlive_header_t,
    deadline: outlive_deadline_t,
    sequence: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live publisher and `size` readable bytes at `data`.
        let (publisher, message) =
            unsafe { (borrow(publisher, "a publisher")?, bytes(data, size)?) };
        let publisher = &publisher.0;
        // SAFETY: the C caller passes NULL or a readable header.
        let header = unsafe { header.as_ref() };
        let until = moment_or_past(deadline);
        let published = match header {
            None => publisher.publish_until(message, until),
            Some(header) => publish_with(publisher, message, header.to_rust(), until),
        };
        let published = published.map_err(|error| tried(error, deadline))?;
        // SAFETY: the C caller passes NULL or a place for `sequence`.
        unsafe { tell(&published, sequence) };
        Ok(())
    })
}

#[inline(never)]
fn publish_with<'p>(
    publisher: &'p Publisher<[u8]>,
    message: &[u8],
    header: Header,
    until: Deadline,
) -> Result<Published<'p>, SendError> {
    publisher.publish_until(Outgoing::new(message).header(header), until)
}

/// Returns how many living subscribers there are. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_subscriber_count(
    publisher: *const outlive_publisher_t,
) -> u32 {
    // SAFETY: the C caller passes a live publisher.
    entry_or(0, || Ok(unsafe { borrow(publisher, "a publisher") }?.0.subscriber_count()))
}

/// Says that the publisher is there, although it has nothing to publish: to subscribers that ask for
/// its liveliness it is as if it had published. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_assert_liveliness(publisher: *mut outlive_publisher_t) {
    // SAFETY: the C caller passes NULL or a live publisher that no other thread uses.
    if let Some(publisher) = unsafe { publisher.as_ref() } {
        publisher.0.assert_liveliness();
    }
}

/// Returns how often this publisher has stopped waiting for a reliable subscriber that was in its way
/// for longer than its `max_blocking`. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_stopped_waiting(
    publisher: *const outlive_publisher_t,
) -> u64 {
    // SAFETY: the C caller passes a live publisher.
    entry_or(0, || Ok(unsafe { borrow(publisher, "a publisher") }?.0.stopped_waiting()))
}

/// Writes which reliable subscriber is furthest behind this publisher, of several the first. It looks at
/// all subscribers, and waits for none. One of which the publisher has stopped waiting is left out.
/// `outlive_wait_set_slowest` is for another thread.
///
/// Errors: ESRCH: there is no such subscriber; EINVAL.
///
/// If a subscriber dies, it is left out, at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_slowest(
    publisher: *const outlive_publisher_t,
    laggard: *mut outlive_laggard_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live publisher that no other thread uses, and a place for
        // `laggard`.
        let (publisher, out) = unsafe { (borrow(publisher, "a publisher")?, out(laggard)?) };
        out.put(outlive_laggard_t::of(publisher.0.slowest().as_ref())?);
        Ok(())
    })
}

/// Returns how many periods have passed without a message of this publisher: those before its last
/// message, and those that a wait set has taken since. 0 for NULL, and without a period.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_missed(publisher: *const outlive_publisher_t) -> u64 {
    // SAFETY: the C caller passes a live publisher.
    entry_or(0, || Ok(unsafe { borrow(publisher, "a publisher") }?.0.missed()))
}
