//! Topics: messages to many processes, written and read in place.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

use outlive::Deadline;
use outlive::topic::{Header, Loan, PublishError, Published, Publisher, Sample, Subscriber, SubscriberOptions, Topic};

use crate::argument::{borrow, borrow_mut, bytes, handle_out, items, options, out, out_or_none, text};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{OUTLIVE_TRY, moment, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t};
use crate::wait::wait;

/// A topic, open in this process: where publishers and subscribers are made. May be used by all threads at once.
pub struct outlive_topic_t(pub(crate) Topic<[u8]>);

/// The end that messages go into. It and its loans are used by one thread at a time.
pub struct outlive_publisher_t(pub(crate) Rc<Lender>);

/// A publisher, and room for a loan's handle: it seldom has two at a time. Counted without atomics: one thread at a time has
/// all of it.
pub(crate) struct Lender {
    pub(crate) publisher: Publisher<[u8]>,
    spare: Cell<Option<Box<MaybeUninit<outlive_loan_t>>>>,
}

/// Memory that a publisher has lent for a message, to be written in place.
pub struct outlive_loan_t {
    // In this order they are dropped.
    /// Borrows from `lender`.
    loan: Loan<'static, [u8]>,
    lender: Rc<Lender>,
}

impl outlive_loan_t {
    #[inline]
    fn new(lender: &Rc<Lender>, size: usize) -> Result<*mut outlive_loan_t, PublishError> {
        // SAFETY: what an Rc has stays where it is as long as there is an Rc, and this one is dropped after the loan.
        let loan = unsafe { &*Rc::as_ptr(lender) }.publisher.loan(size)?;
        let room = lender.spare.take().unwrap_or_else(Box::new_uninit);
        Ok(Box::into_raw(Box::write(room, outlive_loan_t { loan, lender: Rc::clone(lender) })))
    }

    /// Takes it out of its room.
    ///
    /// # Safety
    /// From `new`, once.
    #[inline]
    unsafe fn take(this: NonNull<outlive_loan_t>) -> outlive_loan_t {
        // SAFETY: the caller's promise: a box's, and whole.
        let (loan, room) = unsafe { (this.read(), Box::from_raw(this.cast::<MaybeUninit<_>>().as_ptr())) };
        loan.lender.spare.set(Some(room));
        loan
    }
}

/// The end that messages come out of: each subscriber gets all of them. Used by one thread at a time.
pub struct outlive_subscriber_t(pub(crate) Subscriber<[u8]>);

/// A message that was taken: it stays as it is until it is released, whatever its publisher does. May be used by all threads
/// at once, and longer than its subscriber.
pub struct outlive_sample_t(PhantomData<Sample<[u8]>>);

impl outlive_sample_t {
    /// The handle is the sample itself, which is one pointer.
    #[inline]
    fn of(sample: Sample<[u8]>) -> *mut outlive_sample_t {
        sample.into_raw().as_ptr().cast()
    }
}

/// The sample that a handle is.
///
/// # Safety
/// NULL, or from `outlive_sample_t::of`, for as long as `'a`.
#[inline]
unsafe fn sample<'a>(handle: *const outlive_sample_t) -> Result<impl Deref<Target = Sample<[u8]>> + 'a, Failure> {
    // SAFETY: the caller's promise; only looked at.
    let handle = NonNull::from(unsafe { borrow(handle, "a sample") }?);
    // SAFETY: as above; not dropped here.
    Ok(ManuallyDrop::new(unsafe { Sample::from_raw(handle.cast()) }))
}

/// How to make a topic; one that is there keeps what it was made with. Begin with `OUTLIVE_TOPIC_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_topic_options_t {
    /// `sizeof(outlive_topic_options_t)`.
    pub size: usize,
    /// The most bytes that the topic may take, messages and all. Where memory of short messages is used for
    /// long ones, the file may take up to 64 KiB more for each 2 MiB of it. 0: a quarter of the file system,
    /// at most 4 GiB.
    pub max_bytes: u64,
    /// How many messages of each publisher are kept: as many may a subscriber be behind, and get as history. 0: 16.
    pub depth: u32,
    /// Not 0: publishers leave headers without a stamp as they are.
    pub no_stamps: u32,
    /// How this process's ends wait: one of the OUTLIVE_WAIT numbers.
    pub wait: u32,
    /// Not 0: the topic must be there already; its messages may be of any type, and are bytes here.
    pub must_exist: u32,
}

/// How to subscribe. Begin with `OUTLIVE_SUBSCRIBER_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_subscriber_options_t {
    /// `sizeof(outlive_subscriber_options_t)`.
    pub size: usize,
    /// Not 0: publishers wait until this subscriber has taken a message before they overwrite it. Its death releases them.
    pub reliable: u32,
    /// How many messages of each publisher from before the joining to take, as far as they are there.
    pub history: u32,
    /// The most messages of each publisher to be behind; older ones are passed over, and counted as lost. 0: as many as the
    /// topic keeps.
    pub keep_last: u32,
    /// 0.
    pub reserved: u32,
    /// Messages with these keys only; none: all messages. Copied.
    pub keys: *const u64,
    /// How many keys.
    pub key_count: usize,
    /// How often there ought to be a message, in nanoseconds: receiving fails with ETIME when none comes for so long. 0: not
    /// said.
    pub period: u64,
}

/// What goes with a message, as its publisher fills it in. Of a fixed size for ever.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_header_t {
    /// When: nanoseconds since 1970, or whatever the users of a topic agree on. 0: publishers fill in the time of day, unless the
    /// topic has no stamps.
    pub stamp: u64,
    /// Which frame of reference, sensor or stream: the users' business.
    pub frame: u64,
    /// By which subscribers may choose.
    pub key: u64,
    /// The users' own.
    pub own: [u8; 32],
}

impl outlive_header_t {
    pub(crate) fn to_rust(self) -> Header {
        Header { stamp: self.stamp, frame: self.frame, key: self.key, own: self.own }
    }
}

/// Opens the topic of that name, or makes it, for messages that are bytes. `options` NULL: as by default.
///
/// Owner: `*topic` is the caller's, until `outlive_topic_close`. Its ends may be used longer than it.
///
/// Errors: EINVAL, OUTLIVE_OTHER_KIND, OUTLIVE_OTHER_TYPE (its messages are of a type of Rust's: `must_exist` opens it all the
/// same), ENOSPC, ENOMEM, EACCES, ENOENT (with `must_exist`), OUTLIVE_OTHER_VERSION, OUTLIVE_NOT_OURS, OUTLIVE_DAMAGED, and
/// what the system says.
///
/// If a process dies: while it makes the topic, nothing is left of it. What was published stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    options: *const outlive_topic_options_t,
    topic: *mut *mut outlive_topic_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, domain, name) = unsafe { (handle_out(topic)?, borrow(domain, "a domain")?, text(name, "a name")?) };
        let default = outlive_topic_options_t { size: 0, max_bytes: 0, depth: 0, no_stamps: 0, wait: 0, must_exist: 0 };
        // SAFETY: as above; integers.
        let given = unsafe { self::options(options, default) }?;
        let wait = wait(given.wait)?;
        let opened = if given.must_exist != 0 {
            let topic = Topic::open_as_bytes(&domain.0, name)?;
            topic.set_wait(wait);
            topic
        } else {
            let mut how = Topic::<[u8]>::options().stamps(given.no_stamps == 0).wait(wait);
            if given.depth > 0 {
                how = how.depth(given.depth);
            }
            if given.max_bytes > 0 {
                how = how.max_bytes(given.max_bytes);
            }
            how.open(&domain.0, name)?
        };
        out.put(Box::into_raw(Box::new(outlive_topic_t(opened))));
        Ok(())
    })
}

/// Lets go of a topic. Its ends stay. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_close(topic: *mut outlive_topic_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(topic) }
}

/// How many publishers and subscribers live. Each place may be NULL.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_counts(
    topic: *const outlive_topic_t,
    publishers: *mut u32,
    subscribers: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let topic = unsafe { borrow(topic, "a topic") }?;
        // SAFETY: as above.
        if let Some(out) = unsafe { out_or_none(publishers) } {
            out.put(topic.0.publishers().len() as u32);
        }
        // SAFETY: as above.
        if let Some(out) = unsafe { out_or_none(subscribers) } {
            out.put(topic.0.subscribers().len() as u32);
        }
        Ok(())
    })
}

/// A new publisher: up to 62 at a time.
///
/// Owner: `*publisher` is the caller's, until `outlive_publisher_close`.
///
/// Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_publisher(
    topic: *const outlive_topic_t,
    publisher: *mut *mut outlive_publisher_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, topic) = unsafe { (handle_out(publisher)?, borrow(topic, "a topic")?) };
        let lender = Lender { publisher: topic.0.publisher()?, spare: Cell::new(None) };
        out.put(Box::into_raw(Box::new(outlive_publisher_t(Rc::new(lender)))));
        Ok(())
    })
}

/// How to subscribe, as C says it.
///
/// # Safety
/// NULL, or such options.
pub(crate) unsafe fn subscriber_options(
    options: *const outlive_subscriber_options_t,
) -> Result<SubscriberOptions, Failure> {
    let default = outlive_subscriber_options_t {
        size: 0,
        reliable: 0,
        history: 0,
        keep_last: 0,
        reserved: 0,
        keys: core::ptr::null(),
        key_count: 0,
        period: 0,
    };
    // SAFETY: the caller's promise; integers and a pointer.
    let given = unsafe { self::options(options, default) }?;
    Ok(SubscriberOptions {
        reliable: given.reliable != 0,
        history: given.history,
        keep_last: if given.keep_last == 0 { u32::MAX } else { given.keep_last },
        // SAFETY: the caller's promise.
        keys: unsafe { items(given.keys, given.key_count, "keys") }?.to_vec(),
        period: (given.period > 0).then(|| Duration::from_nanos(given.period)),
    })
}

/// A new subscriber: up to 64 at a time. `options` NULL: to all that is published from now on.
///
/// Owner: `*subscriber` is the caller's, until `outlive_subscriber_close`.
///
/// Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
///
/// If a process dies: in here, as if it had never come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_subscriber(
    topic: *const outlive_topic_t,
    options: *const outlive_subscriber_options_t,
    subscriber: *mut *mut outlive_subscriber_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, topic) = unsafe { (handle_out(subscriber)?, borrow(topic, "a topic")?) };
        // SAFETY: as above.
        let how = unsafe { subscriber_options(options) }?;
        out.put(Box::into_raw(Box::new(outlive_subscriber_t(topic.0.subscriber_with(how)?))));
        Ok(())
    })
}

/// Drops a publisher; its loans must have been published or dropped. What it published stays. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_close(publisher: *mut outlive_publisher_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(publisher) }
}

/// Drops a subscriber. Samples that it took stay. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_close(subscriber: *mut outlive_subscriber_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(subscriber) }
}

/// Lends memory for a message of `size` bytes, from 0 to 1 GiB, to be written in place: `*data`, aligned to 8, of more
/// than 168 bytes to 64. Its bytes are not defined.
///
/// Owner: `*loan` and `*data` are the caller's, until `outlive_publisher_publish` or `outlive_loan_drop`.
///
/// Errors: ENOSPC: the topic is at its largest, and subscribers hold what is there. EMSGSIZE, EINVAL, EPERM (a forked child
/// needs a publisher of its own), EUSERS, OUTLIVE_DAMAGED.
///
/// If a process dies: its loans are free again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_loan(
    publisher: *mut outlive_publisher_t,
    size: usize,
    loan: *mut *mut outlive_loan_t,
    data: *mut *mut c_void,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, place) = unsafe { (handle_out(loan)?, crate::argument::out(data)?) };
        // SAFETY: as above.
        let publisher = unsafe { borrow(publisher, "a publisher") }?;
        let loan = outlive_loan_t::new(&publisher.0, size)?;
        // SAFETY: made just now.
        let bytes = unsafe { &mut (*loan).loan };
        // Without any, an address all the same.
        place.put(if bytes.is_empty() { loan.cast() } else { bytes.as_mut_ptr().cast() });
        out.put(loan);
        Ok(())
    })
}

/// What is to go with a loan.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_loan_set_header(loan: *mut outlive_loan_t, header: *const outlive_header_t) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (loan, header) = unsafe { (borrow_mut(loan, "a loan")?, borrow(header, "a header")?) };
        loan.loan.set_header(header.to_rust());
        Ok(())
    })
}

/// Gives a loan back unpublished. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_loan_drop(loan: *mut outlive_loan_t) {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        drop(NonNull::new(loan).map(|loan| unsafe { outlive_loan_t::take(loan) }));
        Ok(())
    });
}

/// What `OUTLIVE_TRY` makes of a deadline that has passed.
fn tried(error: PublishError, deadline: outlive_deadline_t) -> Failure {
    match error {
        PublishError::TimedOut { slowest } if deadline == OUTLIVE_TRY => PublishError::Full { slowest }.into(),
        other => other.into(),
    }
}

/// # Safety
/// NULL, or a place for a number.
unsafe fn tell(published: &Published<'_>, sequence: *mut u64) {
    // SAFETY: the caller's promise.
    if let Some(out) = unsafe { out_or_none(sequence) } {
        out.put(published.sequence());
    }
}

/// Publishes a loan. Waits, until the deadline, only for a reliable subscriber that has not taken what lies in the way.
/// `*sequence` (may be NULL): its number among the messages of this publisher's ring.
///
/// Owner: the loan is used up, whatever comes of it.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: such a subscriber lives and has not taken it. EPERM, EINVAL, EUSERS,
/// OUTLIVE_DAMAGED. Nothing was published then.
///
/// If a process dies: 0 says that the message is there, whatever becomes of this process; dead in the middle, nobody gets it.
/// A reliable subscriber's death ends the wait at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_publish(
    publisher: *mut outlive_publisher_t,
    loan: *mut outlive_loan_t,
    deadline: outlive_deadline_t,
    sequence: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let loan = NonNull::from(unsafe { borrow_mut(loan, "a loan") }?);
        // SAFETY: as above; it is used up.
        let outlive_loan_t { loan, lender: _lender } = unsafe { outlive_loan_t::take(loan) };
        // SAFETY: as above.
        let publisher = &unsafe { borrow(publisher, "a publisher") }?.0.publisher;
        let published = publisher.publish_until(loan, moment_or_past(deadline));
        let published = published.map_err(|error| tried(error, deadline))?;
        // SAFETY: as above.
        unsafe { tell(&published, sequence) };
        Ok(())
    })
}

/// Publishes a copy of `size` bytes, with `header` (NULL: none).
///
/// Errors: as `outlive_publisher_loan` and `outlive_publisher_publish`.
///
/// If a process dies: as `outlive_publisher_publish`.
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
        // SAFETY: as the header asks of the caller.
        let (publisher, message) = unsafe { (borrow(publisher, "a publisher")?, bytes(data, size)?) };
        let publisher = &publisher.0.publisher;
        // SAFETY: as above.
        let header = unsafe { header.as_ref() };
        let until = moment_or_past(deadline);
        let published = match header {
            None => publisher.publish_copy_until(message, until),
            Some(header) => publish_with(publisher, message, header.to_rust(), until),
        };
        let published = published.map_err(|error| tried(error, deadline))?;
        // SAFETY: as above.
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
) -> Result<Published<'p>, PublishError> {
    let mut loan = publisher.loan(message.len())?;
    loan.copy_from_slice(message);
    loan.set_header(header);
    publisher.publish_until(loan, until)
}

/// How many subscribers live. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_subscriber_count(publisher: *const outlive_publisher_t) -> u32 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { borrow(publisher, "a publisher") }?.0.publisher.subscriber_count()))
}

/// What is next; waits for it until the deadline.
///
/// Owner: `*sample` is the caller's, until `outlive_sample_release`; up to 256 may be held at a time.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: nothing there. ETIME: nothing has come for longer than the period. ENOBUFS:
/// 256 are held. EPERM: a forked child needs a subscriber of its own. OUTLIVE_DAMAGED: what was there is passed over. EINVAL,
/// EUSERS.
///
/// If a process dies: a publisher, what it had published is taken as before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_recv(
    subscriber: *mut outlive_subscriber_t,
    sample: *mut *mut outlive_sample_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, subscriber) = unsafe { (handle_out(sample)?, borrow_mut(subscriber, "a subscriber")?) };
        let sample = match moment(deadline) {
            Some(moment) => subscriber.0.recv_until(moment)?,
            None => subscriber.0.try_recv()?.ok_or_else(nothing)?,
        };
        out.put(outlive_sample_t::of(sample));
        Ok(())
    })
}

pub(crate) fn nothing() -> Failure {
    Failure::new(libc::EAGAIN, "nothing there just now; wait, or try later")
}

/// The newest message that there is, taken before or not; those before it are passed over, without counting as lost.
///
/// Owner: as `outlive_subscriber_recv`.
///
/// Errors: EAGAIN: nobody has ever published. Otherwise as `outlive_subscriber_recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_latest(
    subscriber: *mut outlive_subscriber_t,
    sample: *mut *mut outlive_sample_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, subscriber) = unsafe { (handle_out(sample)?, borrow_mut(subscriber, "a subscriber")?) };
        let sample = subscriber.0.latest()?.ok_or_else(nothing)?;
        out.put(outlive_sample_t::of(sample));
        Ok(())
    })
}

/// How many messages were overwritten before this subscriber came to them, so far. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_lost(subscriber: *const outlive_subscriber_t) -> u64 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.lost()))
}

/// How many messages lie there for it. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_lag(subscriber: *const outlive_subscriber_t) -> u64 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.lag()))
}

/// How many publishers live. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_subscriber_publisher_count(subscriber: *const outlive_subscriber_t) -> u32 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.publisher_count()))
}

/// A sample's bytes, to read: aligned to 8, of more than 168 bytes to 64. NULL for NULL.
///
/// Owner: the sample.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_data(sample: *const outlive_sample_t) -> *const c_void {
    // SAFETY: as the header asks of the caller.
    entry_or(core::ptr::null(), || Ok(unsafe { self::sample(sample) }?.bytes().as_ptr().cast()))
}

/// How many bytes it has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_size(sample: *const outlive_sample_t) -> usize {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { self::sample(sample) }?.bytes().len()))
}

/// What its publisher said besides; all zero if nothing.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_header(
    sample: *const outlive_sample_t,
    header: *mut outlive_header_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (sample, out) = unsafe { (self::sample(sample)?, out(header)?) };
        let Header { stamp, frame, key, own } = sample.header();
        out.put(outlive_header_t { stamp, frame, key, own });
        Ok(())
    })
}

/// Its number among the messages of its publisher's ring, without gaps but for what was lost. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_sequence(sample: *const outlive_sample_t) -> u64 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { self::sample(sample) }?.sequence()))
}

/// Its order among all messages of the topic: what was published before another's publishing began has a lower one. 0 for
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_order(sample: *const outlive_sample_t) -> u64 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { self::sample(sample) }?.order()))
}

/// The token of the process that published it. 0: not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_publisher(sample: *const outlive_sample_t) -> u32 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { self::sample(sample) }?.publisher().map_or(0, |token| token.as_u32())))
}

/// Lets go of a sample: its memory can be used again. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_release(sample: *mut outlive_sample_t) {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        drop(NonNull::new(sample).map(|handle| unsafe { Sample::<[u8]>::from_raw(handle.cast()) }));
        Ok(())
    });
}
