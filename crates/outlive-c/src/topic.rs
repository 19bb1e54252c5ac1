//! Topics: publish/subscribe, with messages written and read in place.

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::time::Duration;

use outlive::describe::Description;
use outlive::topic::{
    Durability, Header, Loan, Outgoing, Published, Publisher, PublisherOptions, SubscriberOptions,
    Topic, TopicOptions,
};
use outlive::{Deadline, Payload, SendError};

use crate::argument::{borrow, borrow_mut, bytes, handle_out, items, options, out_or_none};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{OUTLIVE_TRY, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t};
use crate::opening::{naming, open_as_bytes, outlive_opening_t};
use crate::payload::{description, outlive_payload_t};
use crate::sample::outlive_header_t;
use crate::subscriber::outlive_subscriber_t;
use crate::wait::wait;

/// What a topic keeps for subscribers that come later: not said.
pub const OUTLIVE_DURABILITY_ANY: u32 = 0;
/// A subscriber gets what is published while it is there.
pub const OUTLIVE_VOLATILE: u32 = 1;
/// A later subscriber gets what living publishers have published. A new topic's default.
pub const OUTLIVE_TRANSIENT_LOCAL: u32 = 2;
/// Messages outlive their publishers.
pub const OUTLIVE_PERSISTENT: u32 = 3;

/// Returns the durability of that number; `None`: not said.
fn durability(number: u32) -> Result<Option<Durability>, Failure> {
    match number {
        OUTLIVE_DURABILITY_ANY => Ok(None),
        OUTLIVE_VOLATILE => Ok(Some(Durability::Volatile)),
        OUTLIVE_TRANSIENT_LOCAL => Ok(Some(Durability::TransientLocal)),
        OUTLIVE_PERSISTENT => Ok(Some(Durability::Persistent)),
        _ => Err(Failure::new(libc::EINVAL, "none of the numbers of durability")),
    }
}

/// Returns the number of a durability.
pub(crate) fn durability_number(durability: Durability) -> u32 {
    match durability {
        Durability::Volatile => OUTLIVE_VOLATILE,
        Durability::TransientLocal => OUTLIVE_TRANSIENT_LOCAL,
        Durability::Persistent => OUTLIVE_PERSISTENT,
        _ => OUTLIVE_DURABILITY_ANY,
    }
}

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

/// Options for opening or making a topic. Begin with `OUTLIVE_TOPIC_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_topic_options_t {
    /// `sizeof(outlive_topic_options_t)`.
    pub size: usize,
    /// The most bytes that the topic may take, messages included, 64 KiB to 6 GiB. A new topic's
    /// default: a quarter of the file system, at most 4 GiB. The file may take up to 64 KiB more
    /// for each 2 MiB of it, where memory of short messages is reused for long ones.
    pub max_bytes: u64,
    /// How many messages of each publisher are kept, 1 to 65,536, rounded up to a power of two: the
    /// maximum lag of a subscriber, and its longest history. A new topic's default: 16.
    pub depth: u32,
    /// Not 0: publishers do not stamp headers that have no stamp.
    pub no_stamps: u32,
    /// How this process's ends wait: one of the OUTLIVE_WAIT numbers.
    pub wait: u32,
    /// Not 0: the topic offers reliable delivery: its publishers wait for subscribers that ask for
    /// it. 0: a new topic does not offer it, an existing one is taken as it is.
    pub reliable: u32,
    /// What a message is, for all languages: OUTLIVE_PAYLOAD makes it. A new topic keeps it; an
    /// existing one with another description is refused with OUTLIVE_OTHER_TYPE, and
    /// `outlive_last_error` names the first field that differs. NULL: messages are bytes.
    pub payload: *const outlive_payload_t,
    /// What the topic keeps for subscribers that come later: OUTLIVE_VOLATILE,
    /// OUTLIVE_TRANSIENT_LOCAL, OUTLIVE_PERSISTENT, or 0: not said.
    pub durability: u32,
    /// Not 0: an existing topic is taken as it is, and the options above, but for `payload`, are for
    /// a new one; `outlive_topic_config` says what is there. 0: what was set must be there, else the
    /// topic is refused with EINVAL, and `outlive_last_error` names all that differs.
    pub as_is: u32,
    /// The most publishers at a time, 1 to 1,024. A new topic's default: 62. Room for one takes 128
    /// bytes.
    pub max_publishers: u32,
    /// The most subscribers at a time, 1 to 1,024. A new topic's default: 64. One that has been
    /// there takes 4 KiB, or more with the two other numbers.
    pub max_subscribers: u32,
    /// The most samples of more than 168 bytes that a subscriber holds at a time, 8 to 65,536. A new
    /// topic's default: 256. Room for one takes 4 bytes for each subscriber.
    pub max_samples: u32,
    /// Which members of the group that shares the domain may publish, by the mode of the topic's
    /// file: 0660, 0640 (others than the topic's maker subscribe alone) or 0600 (they cannot open it),
    /// whatever the umask. A new topic's default (0): 0600, in a group's domain 0660.
    pub mode: u32,
}

/// Options of a publisher. Begin with `OUTLIVE_PUBLISHER_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_publisher_options_t {
    /// `sizeof(outlive_publisher_options_t)`.
    pub size: usize,
    /// How long a reliable subscriber may be in the way of a message, in nanoseconds; then
    /// publishing goes on without it, and it is told (OUTLIVE_LAGGED). 0: for ever; 1: not at all.
    pub max_blocking: u64,
    /// How often this publisher means to publish, in nanoseconds: each period that passes without a
    /// message is counted (`outlive_publisher_missed`), and a wait set tells it
    /// (`outlive_wait_set_add_due`). 0: not said.
    pub period: u64,
    /// How long a message counts, in nanoseconds, by its stamp: subscribers pass over an older one
    /// and count it (`outlive_subscriber_expired`). A topic without stamps refuses it. 0: for ever.
    pub lifespan: u64,
}

/// Options of a subscriber. Begin with `OUTLIVE_SUBSCRIBER_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_subscriber_options_t {
    /// `sizeof(outlive_subscriber_options_t)`.
    pub size: usize,
    /// Not 0: publishers wait until this subscriber has taken a message before they overwrite it.
    /// Its death releases them. The topic has to offer it: see `outlive_topic_options_t`.
    pub reliable: u32,
    /// How many messages of each publisher from before the subscription to receive, as far as they
    /// are still there.
    pub history: u32,
    /// The maximum lag behind each publisher, in messages; older ones are skipped, and counted as
    /// lost. 0: the topic's depth.
    pub keep_last: u32,
    /// Which earlier messages to get at most, by one of the numbers of the topic's options; it is
    /// refused if the topic offers less. 0: what the topic offers.
    pub durability: u32,
    /// Receive only messages with these keys; none: all messages. The array is copied.
    pub keys: *const u64,
    /// How many keys.
    pub key_count: usize,
    /// How often to expect a message, in nanoseconds: receiving fails with ETIME when none comes
    /// for so long, a wait set says OUTLIVE_MISSED, and each period that passes is counted
    /// (`outlive_subscriber_missed`). 0: no such limit.
    pub period: u64,
    /// Not 0: it is told of each start of a publisher before the first message of it: receiving
    /// returns OUTLIVE_NEW_SESSION, once.
    pub sessions: u32,
    /// Must be 0.
    pub reserved: u32,
    /// How old a message may be, in nanoseconds, by its stamp; older ones are passed over and counted
    /// (`outlive_subscriber_expired`). A topic without stamps refuses it. 0: any age.
    pub max_age: u64,
    /// How long a publisher may live and do nothing, in nanoseconds: then receiving returns
    /// OUTLIVE_NOT_LIVELY, once, behind its messages; OUTLIVE_LIVELY when it does something again;
    /// EOWNERDEAD when it has died, at once. `outlive_subscriber_told` says which publisher. 0: it is
    /// told of none of that.
    pub liveliness: u64,
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

/// Returns the core's options for those of a C caller, and the description of messages.
///
/// # Safety
/// The C caller guarantees NULL, or options of the size that they say.
pub(crate) unsafe fn topic_options<M: Payload + ?Sized>(
    given: *const outlive_topic_options_t,
) -> Result<(TopicOptions<M>, Option<Description>), Failure> {
    let default = outlive_topic_options_t {
        size: 0,
        max_bytes: 0,
        depth: 0,
        no_stamps: 0,
        wait: 0,
        reliable: 0,
        payload: core::ptr::null(),
        durability: 0,
        as_is: 0,
        max_publishers: 0,
        max_subscribers: 0,
        max_samples: 0,
        mode: 0,
    };
    // SAFETY: the C caller passes NULL or options of the size that they say; all fields are
    // integers or a pointer.
    let given = unsafe { options(given, default) }?;
    let mut options = Topic::<M>::options().wait_strategy(wait(given.wait)?);
    if given.no_stamps != 0 {
        options = options.stamps(false);
    }
    if given.reliable != 0 {
        options = options.reliable(true);
    }
    if let Some(durability) = durability(given.durability)? {
        options = options.durability(durability);
    }
    if given.as_is != 0 {
        options = options.as_is();
    }
    if given.depth > 0 {
        options = options.depth(given.depth);
    }
    if given.max_bytes > 0 {
        options = options.max_bytes(given.max_bytes);
    }
    if given.max_publishers > 0 {
        options = options.max_publishers(given.max_publishers);
    }
    if given.max_subscribers > 0 {
        options = options.max_subscribers(given.max_subscribers);
    }
    if given.max_samples > 0 {
        options = options.max_samples(given.max_samples);
    }
    if given.mode != 0 {
        options = options.mode(given.mode);
    }
    // SAFETY: the C caller passes NULL or a description.
    let payload = unsafe { description(given.payload) }?;
    Ok((options, payload))
}

/// Closes a topic. Its publishers and subscribers stay. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_topic_close(topic: *mut outlive_topic_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(topic) }
}

/// Writes what the topic was made with into `config`: depth, max_bytes, no_stamps, reliable,
/// durability, max_publishers, max_subscribers, max_samples and mode; the rest is 0.
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
        // SAFETY: the C caller passes NULL or a place for `config`.
        let out = unsafe { out_or_none(config) };
        let out = out.ok_or_else(|| Failure::new(libc::EINVAL, "no place for the config"))?;
        out.put(outlive_topic_options_t {
            size: size_of::<outlive_topic_options_t>(),
            max_bytes: found.max_bytes,
            depth: found.depth,
            no_stamps: u32::from(!found.stamps),
            wait: 0,
            reliable: u32::from(found.reliable),
            payload: core::ptr::null(),
            durability: durability_number(found.durability),
            as_is: 0,
            max_publishers: found.max_publishers,
            max_subscribers: found.max_subscribers,
            max_samples: found.max_samples,
            mode: found.mode,
        });
        Ok(())
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

/// Reads the options of a publisher.
///
/// # Safety
/// The C caller guarantees NULL, or options of the size that they say.
pub(crate) unsafe fn publisher_options(
    given: *const outlive_publisher_options_t,
) -> Result<PublisherOptions, Failure> {
    let default = outlive_publisher_options_t { size: 0, max_blocking: 0, period: 0, lifespan: 0 };
    // SAFETY: the C caller passes NULL or options of the size that they say; all fields are
    // integers.
    let given = unsafe { options(given, default) }?;
    let mut options = PublisherOptions::default();
    if given.max_blocking > 0 {
        options = options.max_blocking(Duration::from_nanos(given.max_blocking));
    }
    if given.lifespan > 0 {
        options = options.lifespan(Duration::from_nanos(given.lifespan));
    }
    if given.period > 0 {
        options = options.period(Duration::from_nanos(given.period));
    }
    Ok(options)
}

/// Reads the options of a subscriber.
///
/// # Safety
/// The C caller guarantees NULL, or options of the size that they say.
pub(crate) unsafe fn subscriber_options(
    options: *const outlive_subscriber_options_t,
) -> Result<SubscriberOptions, Failure> {
    let default = outlive_subscriber_options_t {
        size: 0,
        reliable: 0,
        history: 0,
        keep_last: 0,
        durability: 0,
        keys: core::ptr::null(),
        key_count: 0,
        period: 0,
        sessions: 0,
        reserved: 0,
        max_age: 0,
        liveliness: 0,
    };
    // SAFETY: the C caller passes NULL, or options of the size that they say; all fields are
    // integers or a pointer.
    let given = unsafe { self::options(options, default) }?;
    // SAFETY: the C caller passes `key_count` readable keys at `keys`.
    let keys = unsafe { items(given.keys, given.key_count, "keys") }?;
    let mut options = SubscriberOptions::default()
        .reliable(given.reliable != 0)
        .history(given.history)
        .keys(keys)
        .sessions(given.sessions != 0);
    if let Some(durability) = durability(given.durability)? {
        options = options.durability(durability);
    }
    if given.keep_last != 0 {
        options = options.keep_last(given.keep_last);
    }
    if given.max_age != 0 {
        options = options.max_age(Duration::from_nanos(given.max_age));
    }
    if given.liveliness != 0 {
        options = options.liveliness(Duration::from_nanos(given.liveliness));
    }
    if given.period != 0 {
        options = options.period(Duration::from_nanos(given.period));
    }
    Ok(options)
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
        let (out, place) = unsafe { (handle_out(loan)?, crate::argument::out(data)?) };
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
/// message. EPERM, EINVAL, EUSERS, OUTLIVE_DAMAGED. After an error the loan was not published.
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

/// Returns how many periods have passed without a message of this publisher: those before its last
/// message, and those that a wait set has taken since. 0 for NULL, and without a period.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_publisher_missed(publisher: *const outlive_publisher_t) -> u64 {
    // SAFETY: the C caller passes a live publisher.
    entry_or(0, || Ok(unsafe { borrow(publisher, "a publisher") }?.0.missed()))
}
