//! The options of topics, publishers and subscribers.

use std::time::Duration;

use outlive::Payload;
use outlive::describe::Description;
use outlive::topic::{
    Durability, PublisherOptions, SubscriberOptions, Topic, TopicConfig, TopicOptions,
};

use crate::argument::{items, options};
use crate::code::Failure;
use crate::payload::{description, outlive_payload_t};
use crate::wait::wait_option;

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
    /// Not 0: a topic whose publishers do not stamp headers that have no stamp. 0: not said.
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
    /// Not 0: a topic whose publishers stamp headers, as a new one's do unless `no_stamps` is set;
    /// an existing one whose publishers do not is refused. 0: not said.
    pub stamps: u32,
    /// Must be 0.
    pub reserved: u32,
}

impl outlive_topic_options_t {
    /// Returns what a topic was made with.
    pub(crate) fn of(found: &TopicConfig) -> outlive_topic_options_t {
        outlive_topic_options_t {
            size: 0,
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
            stamps: u32::from(found.stamps),
            reserved: 0,
        }
    }
}

/// A publisher's `max_blocking`: it waits for a reliable subscriber for as long as that lives. The
/// default.
pub const OUTLIVE_BLOCK_FOREVER: u64 = 0;
/// A publisher's `max_blocking`: it waits for no subscriber; one that is in the way is told what it has
/// lost.
pub const OUTLIVE_BLOCK_NEVER: u64 = 1;

/// Options of a publisher. Begin with `OUTLIVE_PUBLISHER_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_publisher_options_t {
    /// `sizeof(outlive_publisher_options_t)`.
    pub size: usize,
    /// How long a reliable subscriber may be in the way of a message, in nanoseconds; then
    /// publishing goes on without it, and it is told (OUTLIVE_LAGGED). OUTLIVE_BLOCK_FOREVER, which is
    /// 0: for as long as it lives; OUTLIVE_BLOCK_NEVER: not at all.
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
        stamps: 0,
        reserved: 0,
    };
    // SAFETY: the C caller passes NULL or options of the size that they say; all fields are
    // integers or a pointer.
    let given = unsafe { options(given, default) }?;
    let mut options = Topic::<M>::options();
    if let Some(wait) = wait_option(given.wait)? {
        options = options.wait_strategy(wait);
    }
    if given.no_stamps != 0 && given.stamps != 0 {
        return Err(Failure::new(libc::EINVAL, "options that want stamps and no stamps"));
    }
    if given.no_stamps != 0 || given.stamps != 0 {
        options = options.stamps(given.stamps != 0);
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
    match given.max_blocking {
        OUTLIVE_BLOCK_FOREVER => {}
        OUTLIVE_BLOCK_NEVER => options = options.max_blocking(Duration::ZERO),
        span => options = options.max_blocking(Duration::from_nanos(span)),
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
