//! Making and opening a topic.

use core::cell::RefCell;
use core::fmt;
use core::marker::PhantomData;

use super::control::Control;
use super::layout::{
    Capacity, FEWEST_BYTES, FEWEST_SAMPLES, MOST, MOST_BYTES, MOST_DEPTH, NO_STAMPS, PAGE, Plan,
    RELIABLE, USUAL,
};
use super::mapping::Map;
use super::mode::Mode;
use super::topic::Topic;
use crate::describe::{Described, Description};
use crate::domain::{Differ, three_openings};
use crate::durability::Durability;
use crate::error::NO_TYPE;
use crate::payload::Recorded;
use crate::segment::control_file::{self, MadeControlFile};
use crate::segment::{Folder, Opening, Segment, Spec};
use crate::shim::Ordering;
use crate::sys::file::Rights;
use crate::{Domain, Error, Kind, Payload, WaitStrategy};

/// How many messages of each publisher a topic keeps that was not told any number.
const USUAL_DEPTH: u32 = 16;
/// The most bytes that a topic may take that was not told any.
const USUAL_BYTES: u64 = 4 << 30;
/// Bytes of all subscribers' slots, if nothing else is asked for: allowed in a topic of any size.
const USUAL_SLOT_BYTES: u64 = 64 * PAGE;

/// Options for opening a topic, or for making one.
///
/// An option that is not set takes what is there. [`wait_strategy`](Self::wait_strategy) concerns this process alone.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-topic-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::Error;
/// use outlive::topic::Topic;
///
/// let frames = Topic::<[u8]>::options().depth(4).create_new(&domain, "frames")?;
/// assert_eq!(frames.config().depth, 4);
/// let again = Topic::<[u8]>::open(&domain, "frames")?;
/// assert!(again.config().stamps);
/// let deeper = Topic::<[u8]>::options().depth(8).open_or_create(&domain, "frames");
/// assert!(matches!(deeper, Err(Error::OtherOptions { what: "depth", .. })));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "options do nothing until they open or make a topic"]
pub struct TopicOptions<M: Payload + ?Sized = [u8]> {
    asked: Asked,
    _message: PhantomData<fn(&M)>,
}

/// What was set.
#[derive(Clone, Debug, Default)]
struct Asked {
    depth: Option<u32>,
    max_bytes: Option<u64>,
    max_publishers: Option<u32>,
    max_subscribers: Option<u32>,
    max_samples: Option<u32>,
    stamps: Option<bool>,
    reliable: Option<bool>,
    durability: Option<Durability>,
    mode: Option<Mode>,
    /// What is there is taken, whatever was set.
    as_is: bool,
    wait: Option<WaitStrategy>,
    description: Option<Description>,
}

/// What a topic was made with; returned by [`Topic::config`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicConfig {
    /// How many messages of each publisher are kept.
    pub depth: u32,
    /// The most bytes that the topic may take, messages included.
    pub max_bytes: u64,
    /// The most publishers at a time.
    pub max_publishers: u32,
    /// The most subscribers at a time.
    pub max_subscribers: u32,
    /// The most samples of longer messages that a subscriber holds.
    pub max_samples: u32,
    /// Whether publishers stamp each message with the time of day.
    pub stamps: bool,
    /// Whether the topic offers reliable delivery.
    pub reliable: bool,
    /// What the topic offers to subscribers that come later.
    pub durability: Durability,
    /// The mode of the topic's file, as it was when this process opened it.
    pub mode: u32,
}

impl<M: Payload + ?Sized> Clone for TopicOptions<M> {
    fn clone(&self) -> TopicOptions<M> {
        TopicOptions { asked: self.asked.clone(), _message: PhantomData }
    }
}

impl<M: Payload + ?Sized> fmt::Debug for TopicOptions<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TopicOptions").field(&self.asked).finish()
    }
}

impl<M: Payload + ?Sized> TopicOptions<M> {
    /// Sets how many messages of each publisher are kept, 1 to 65,536, rounded up to a power of
    /// two. That is the maximum lag of a subscriber and its longest history. Default for a new
    /// topic: 16.
    ///
    /// Choose a small depth for large messages: a publisher writes depth + 1 places in turn, and
    /// writes slower to places that its caches do not hold (16 of 1 MiB: half as fast as 2).
    pub fn depth(mut self, messages: u32) -> TopicOptions<M> {
        self.asked.depth = Some(messages);
        self
    }

    /// Sets the most bytes that the topic may take, messages included: 64 KiB to 6 GiB. Default for
    /// a new topic: a quarter of the file system, and at most 4 GiB. The file may take up to 64 KiB
    /// more for each 2 MiB of it, where memory of short messages is reused for long ones.
    pub fn max_bytes(mut self, bytes: u64) -> TopicOptions<M> {
        self.asked.max_bytes = Some(bytes);
        self
    }

    /// Sets how many publishers the topic has room for at a time, 1 to 1,024. Default for a new
    /// topic: 62. Times the depth, which is a power of two, at most 16,777,216 messages.
    ///
    /// Room for one takes 128 bytes, and 8 in the slot of each subscriber; its ring takes depth × 256
    /// bytes once there is such a publisher. A publisher that is there costs each receive one load,
    /// and each publish of another publisher one.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-most-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::Error;
    /// use outlive::topic::Topic;
    /// let options = Topic::<u64>::options().max_publishers(200).max_subscribers(1);
    /// let topic = options.open_or_create(&domain, "positions")?;
    /// let publishers = (0..200).map(|_| topic.publisher()).collect::<Result<Vec<_>, _>>()?;
    /// assert!(matches!(topic.publisher(), Err(Error::TooMany { what: "publishers", max: 200, .. })));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_publishers(mut self, publishers: u32) -> TopicOptions<M> {
        self.asked.max_publishers = Some(publishers);
        self
    }

    /// Sets how many subscribers the topic has room for at a time, 1 to 1,024. Default for a new
    /// topic: 64.
    ///
    /// Room for one takes address space alone. A subscriber that has been there takes 32 bytes, 4
    /// for each of [`max_samples`](Self::max_samples) and 8 for each of
    /// [`max_publishers`](Self::max_publishers), in whole pages: 4 KiB by default. It costs a
    /// publisher that looks for memory to use again some loads, once in many messages.
    pub fn max_subscribers(mut self, subscribers: u32) -> TopicOptions<M> {
        self.asked.max_subscribers = Some(subscribers);
        self
    }

    /// Sets how many samples a subscriber can hold at a time, 8 to 65,536. Default for a new topic:
    /// 256. A short message (168 bytes) is copied when it is taken, and does not count.
    ///
    /// Room for one takes 4 bytes in the slot of each subscriber. A sample that is held keeps its
    /// message's memory in use, and costs each publisher's look for memory to use again one load.
    pub fn max_samples(mut self, samples: u32) -> TopicOptions<M> {
        self.asked.max_samples = Some(samples);
        self
    }

    /// Sets whether publishers stamp each message with the time of day (some 20 ns each). Default
    /// for a new topic: yes.
    pub fn stamps(mut self, stamps: bool) -> TopicOptions<M> {
        self.asked.stamps = Some(stamps);
        self
    }

    /// Sets whether the topic offers reliable delivery: whether its publishers wait for subscribers
    /// that [ask for it](super::SubscriberOptions::reliable). Default for a new topic: no.
    ///
    /// A reliable subscriber that is stopped, or does not receive, holds the publishers up, so it
    /// is for them to agree: of a topic that does not offer reliable delivery no subscriber gets
    /// it.
    pub fn reliable(mut self, offered: bool) -> TopicOptions<M> {
        self.asked.reliable = Some(offered);
        self
    }

    /// Sets what the topic offers to subscribers that come later, as history and by
    /// [`Subscriber::latest`](super::Subscriber::latest). Default for a new topic:
    /// [`Durability::TransientLocal`], what living publishers have published; so that data of
    /// yesterday's run is not taken for new.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-durability-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::{Durability, Subscriber, Topic};
    /// let options = Topic::<u64>::options().durability(Durability::Persistent);
    /// let kept = options.create_new(&domain, "kept")?;
    /// let lively = Topic::<u64>::open_or_create(&domain, "lively")?;
    /// for topic in [&kept, &lively] {
    ///     topic.publisher()?.publish(&7)?;            // and the publisher is gone
    /// }
    /// let late = || Subscriber::options().history(1);
    /// assert_eq!(*kept.subscriber_with(late())?.recv()?, 7);
    /// assert!(lively.subscriber_with(late())?.try_recv()?.is_none());
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn durability(mut self, offered: Durability) -> TopicOptions<M> {
        self.asked.durability = Some(offered);
        self
    }

    /// Sets which members of the group that shares the domain may publish, by the mode of the topic's
    /// files, whatever the umask. Default for a new topic: that of all files of the domain, 0600 or, in
    /// a [group](crate::DomainOptions::group)'s, 0660.
    ///
    /// | mode | the user that made the topic | other members of the group |
    /// | --- | --- | --- |
    /// | `0o660` | publishes, subscribes | publish, subscribe |
    /// | `0o640` | publishes, subscribes | subscribe alone |
    /// | `0o600` | publishes, subscribes | cannot open it |
    ///
    /// A member that may not is told [`Error::Permission`]: by [`Topic::publisher`], or by the opening.
    /// The kernel keeps it out of the messages' memory; what subscribers write lies in another file,
    /// whose mode is 0660 then. In a domain of one user, no other user comes that far, whatever the
    /// mode. A member can still remove the name with `rm`, because the domain's folder is the group's.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-mode-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::Topic;
    /// let motors = Topic::<[f32; 6]>::options().mode(0o640).create_new(&domain, "motors")?;
    /// assert_eq!(motors.config().mode, 0o640);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mode(mut self, mode: u32) -> TopicOptions<M> {
        self.asked.mode = Some(Mode(mode));
        self
    }

    /// Takes an existing topic as it is: the depth and the other options are for the topic that is
    /// made if there is none. [`Topic::config`] says what is there. Its type must agree nevertheless.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-as-is-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::Topic;
    /// Topic::<u64>::options().depth(4).create_new(&domain, "steps")?;
    /// let other = Topic::<u64>::options().depth(64).reliable(true);
    /// let told = other.clone().open_or_create(&domain, "steps").map(drop).unwrap_err();
    /// assert!(told.to_string().contains("depth 64, reliable true"));   // all that differs
    /// let topic = other.as_is().open_or_create(&domain, "steps")?;
    /// assert_eq!(topic.config().depth, 4);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn as_is(mut self) -> TopicOptions<M> {
        self.asked.as_is = true;
        self
    }

    /// Sets how this process's handles wait.
    pub fn wait_strategy(mut self, wait: WaitStrategy) -> TopicOptions<M> {
        self.asked.wait = Some(wait);
        self
    }

    /// Sets what a profile of the configuration file says of topics, and leaves the rest as it is;
    /// what is set later wins.
    #[cfg(feature = "config")]
    pub fn profile(mut self, profile: &crate::config::Profile) -> TopicOptions<M> {
        self.asked.depth = profile.depth.or(self.asked.depth);
        self.asked.max_bytes = profile.max_bytes.or(self.asked.max_bytes);
        self.asked.max_publishers = profile.max_publishers.or(self.asked.max_publishers);
        self.asked.max_subscribers = profile.max_subscribers.or(self.asked.max_subscribers);
        self.asked.max_samples = profile.max_samples.or(self.asked.max_samples);
        self.asked.stamps = profile.stamps.or(self.asked.stamps);
        self.asked.durability = profile.durability.or(self.asked.durability);
        // A profile is for both sides: where it wants subscribers to be reliable, the topic offers it.
        if profile.reliable == Some(true) {
            self.asked.reliable = Some(true);
        }
        self.asked.mode = profile.mode.map(Mode).or(self.asked.mode);
        self.asked.wait = profile.wait_strategy.or(self.asked.wait);
        self
    }

    three_openings!(
        Topic<M>,
        "topic",
        "[`Error::OtherType`](crate::Error::OtherType) when its messages have another type, \
         [`Error::InvalidOption`](crate::Error::InvalidOption) when no topic can have such an \
         option."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Topic<M>, Error> {
        const { assert!(M::METADATA.align <= 64, "payloads are aligned to 64 bytes") };
        let asked = self.asked;
        let depth = asked.depth.map(checked_depth).transpose()?;
        let max_bytes = asked.max_bytes.map(checked_bytes).transpose()?;
        let mode = asked.mode.map(Mode::checked).transpose()?;
        let bytes = match max_bytes {
            Some(bytes) => bytes,
            // What exists has its own.
            None if opening == Opening::Open => FEWEST_BYTES,
            None => {
                let quarter = domain.folder().most_bytes()? / 4;
                quarter.clamp(FEWEST_BYTES, USUAL_BYTES)
            }
        };
        let plan = asked.plan(depth.unwrap_or(USUAL_DEPTH), bytes)?;
        if opening != Opening::Open && plan.initial() > bytes / 2 {
            return Err(Error::InvalidOption {
                what: "a topic's max_bytes",
                wanted: bytes.to_string().into(),
                why: "64 KiB, and 256 bytes for each of max_publishers, or more",
            });
        }
        // Slots are never given back, and payloads need what they leave.
        let slots = u64::from(plan.capacity.subscribers) * plan.subscriber_slot_bytes();
        if opening != Opening::Open && slots > (bytes / 2).max(USUAL_SLOT_BYTES) {
            return Err(Error::InvalidOption {
                what: "a topic's max_subscribers",
                wanted: format!("{}, with slots of {slots} bytes", plan.capacity.subscribers)
                    .into(),
                why: "fewer, fewer samples or publishers, or twice as many max_bytes",
            });
        }
        let metadata = M::METADATA;
        if metadata.is_bytes() {
            asked.check_alignment()?;
        }
        let (type_name, type_size, type_align) = match &asked.description {
            Some(_) if metadata.is_bytes() => {
                let types = Recorded::described(metadata, asked.description.as_ref());
                // Of bytes a topic has always recorded their size.
                (types.name, types.size.max(1), types.align)
            }
            _ => (metadata.type_name(), metadata.size, metadata.align as u64),
        };
        let spec = Spec {
            kind: Kind::Topic,
            type_name,
            type_size,
            type_align,
            reserve: plan.end,
            max_bytes: bytes,
            initial: plan.initial(),
            description: asked.description.clone(),
        };
        let without_stamps = u32::from(asked.stamps == Some(false)) * NO_STAMPS;
        let reliable = u32::from(asked.reliable == Some(true)) * RELIABLE;
        let options = without_stamps | reliable | asked.durability.unwrap_or_default().to_bits();
        let folder = domain.folder();
        // The last one that was made; each before it is removed as the next takes its place.
        let made = RefCell::new(None);
        let init = |segment: &Segment| {
            plan.write(segment, options)?;
            // Before it has a name: no process opens it with another mode.
            mode.map_or(Ok(()), |mode| segment.set_mode(mode.0))?;
            let (control, mode) = (Control::spec(&plan), mode.map(Mode::of_control));
            made.replace(Some(MadeControlFile::make(folder, segment, &control, mode)?));
            Ok(())
        };
        let prepare = |segment: &Segment| Map::of(segment, folder);
        let (segment, map) = unless_removed(folder, name, || {
            domain.open_prepared(name, opening, &spec, init, prepare)
        })
        .map_err(|error| asked.tell_all(domain, name, error))?;
        if let Some(made) = made.into_inner() {
            made.settle(&segment);
        }
        asked.finish(segment, map, domain)
    }
}

impl<M: Described + ?Sized> TopicOptions<M> {
    /// Keeps the description of the messages' type in a new topic, and wants an existing topic to
    /// have the same one, whatever language it comes from. An existing topic without any is compared
    /// by the type's name, size and alignment.
    pub fn described(mut self) -> TopicOptions<M> {
        self.asked.description = Some(M::description());
        self
    }
}

impl TopicOptions<[u8]> {
    /// Sets the description of the messages' type, of which they are the bytes: for types that
    /// are known at run time alone. [`TopicOptions::described`] is for Rust's own.
    pub fn description(mut self, description: Description) -> TopicOptions<[u8]> {
        self.asked.description = Some(description);
        self
    }

    /// Opens the existing topic of that name as [`Topic::open_as_bytes`] does, with these options.
    ///
    /// # Errors
    /// As [`TopicOptions::open`], without [`Error::OtherType`].
    pub fn open_as_bytes(self, domain: &Domain, name: &str) -> Result<Topic<[u8]>, Error> {
        self.asked.check_alignment()?;
        let folder = domain.folder();
        let (segment, map) = unless_removed(folder, name, || {
            let segment = domain.open_segment_with(name, Rights::Read)?;
            segment.expect(Kind::Topic)?;
            if let Some(wanted) = &self.asked.description {
                segment.check_description(wanted)?;
            }
            let map = Map::of(&segment, folder)?;
            Ok((segment, map))
        })
        .map_err(|error| self.asked.tell_all(domain, name, error))?;
        self.asked.finish(segment, map, domain)
    }
}

/// How often a name is looked for whose control file is gone.
const LOOKS: u32 = 100;

/// Opens a topic, and again if another process has removed it between the openings of its two files:
/// the name goes first, so it is gone then, or another topic's.
pub(super) fn unless_removed<T>(
    folder: &Folder,
    name: &str,
    open: impl Fn() -> Result<T, Error>,
) -> Result<T, Error> {
    for _ in 0..LOOKS {
        match open() {
            Err(Error::NotFound { path }) if control_file::is_path_of_one(&path) => {}
            other => return other,
        }
        std::thread::yield_now();
    }
    Err(Error::Damaged { path: folder.file_path(name), what: "its control file, which is missing" })
}

impl Asked {
    /// Returns the plan of a new topic.
    fn plan(&self, depth: u32, max_bytes: u64) -> Result<Plan, Error> {
        let refused = |what, wanted: u32, why| {
            Err(Error::InvalidOption { what, wanted: wanted.to_string().into(), why })
        };
        let capacity = Capacity {
            publishers: self.max_publishers.unwrap_or(USUAL.publishers),
            subscribers: self.max_subscribers.unwrap_or(USUAL.subscribers),
            samples: self.max_samples.unwrap_or(USUAL.samples),
        };
        if !(1..=MOST.publishers).contains(&capacity.publishers) {
            return refused("a topic's max_publishers", capacity.publishers, "one from 1 to 1,024");
        }
        if !(1..=MOST.subscribers).contains(&capacity.subscribers) {
            let most = "one from 1 to 1,024";
            return refused("a topic's max_subscribers", capacity.subscribers, most);
        }
        if !(FEWEST_SAMPLES..=MOST.samples).contains(&capacity.samples) {
            return refused("a topic's max_samples", capacity.samples, "one from 8 to 65,536");
        }
        Plan::new(depth, max_bytes, capacity).ok_or_else(|| Error::InvalidOption {
            what: "a topic's max_publishers",
            wanted: format!("{}, of a depth of {depth}", capacity.publishers).into(),
            why: "at most 16,777,216 divided by the depth",
        })
    }

    /// Refuses a description of bytes that are to be aligned to more than memory of a topic is. A
    /// Rust type is refused when it is compiled.
    fn check_alignment(&self) -> Result<(), Error> {
        match &self.description {
            Some(description) if description.align() > 64 => Err(Error::InvalidOption {
                what: "a payload's description",
                wanted: format!("aligned to {} bytes", description.align()).into(),
                why: "aligned to at most 64 bytes",
            }),
            _ => Ok(()),
        }
    }

    /// Returns the topic in that file, unless it was made with other options.
    fn finish<M: Payload + ?Sized>(
        self,
        segment: Segment,
        map: Map,
        domain: &Domain,
    ) -> Result<Topic<M>, Error> {
        let topic = Topic::finish(segment, map, domain.registry(), self.wait);
        if !self.as_is {
            self.agree(&topic.inner.segment, &topic.config())?;
        }
        Ok(topic)
    }

    /// Refuses a topic that was made with other values than were set, and names them all.
    fn agree(&self, segment: &Segment, found: &TopicConfig) -> Result<(), Error> {
        self.differ(found)?.finish(segment)
    }

    /// Adds to the error of another type which options differ, too.
    #[cold]
    fn tell_all(&self, domain: &Domain, name: &str, error: Error) -> Error {
        let Error::OtherType { path, mut found, mut wanted } = error else { return error };
        // Without a type of its own the program is told how to give one, and of the options then.
        if !self.as_is
            && wanted != NO_TYPE
            && let Ok(topic) = Topic::<[u8]>::options().open_as_bytes(domain, name)
            && let Ok(differ) = self.differ(&topic.config())
            && let Some((is, should)) = differ.named()
        {
            found = format!("{found} with {is}");
            wanted = format!("{wanted} with {should}");
        }
        Error::OtherType { path, found, wanted }
    }

    fn differ(&self, found: &TopicConfig) -> Result<Differ, Error> {
        let mut differ = Differ::default();
        differ.note("depth", found.depth, self.depth.map(checked_depth).transpose()?);
        differ.note("max_bytes", found.max_bytes, self.max_bytes);
        differ.note("max_publishers", found.max_publishers, self.max_publishers);
        differ.note("max_subscribers", found.max_subscribers, self.max_subscribers);
        differ.note("max_samples", found.max_samples, self.max_samples);
        differ.note("option stamps", found.stamps, self.stamps);
        differ.note("option reliable", found.reliable, self.reliable);
        differ.note("durability", found.durability, self.durability);
        differ.note("mode", Mode(found.mode), self.mode);
        Ok(differ)
    }
}

fn checked_depth(depth: u32) -> Result<u32, Error> {
    match depth {
        1..=MOST_DEPTH => Ok(depth.next_power_of_two()),
        _ => Err(Error::InvalidOption {
            what: "a topic's depth",
            wanted: depth.to_string().into(),
            why: "one from 1 to 65,536",
        }),
    }
}

fn checked_bytes(bytes: u64) -> Result<u64, Error> {
    match bytes {
        FEWEST_BYTES..=MOST_BYTES => Ok(bytes),
        _ => Err(Error::InvalidOption {
            what: "a topic's max_bytes",
            wanted: bytes.to_string().into(),
            why: "a number of bytes from 64 KiB to 6 GiB",
        }),
    }
}

impl<M: Payload + ?Sized> Topic<M> {
    /// Returns options, of which none is set.
    pub fn options() -> TopicOptions<M> {
        TopicOptions { asked: Asked::default(), _message: PhantomData }
    }

    /// Opens the existing topic of that name.
    ///
    /// # Errors
    /// The errors of [`TopicOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Topic<M>, Error> {
        Topic::options().open(domain, name)
    }

    /// Opens the topic of that name, or makes it with default options if there is none.
    ///
    /// # Errors
    /// The errors of [`TopicOptions::open_or_create`].
    ///
    /// # If a process dies
    /// The same as with [`TopicOptions::open_or_create`].
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<Topic<M>, Error> {
        Topic::options().open_or_create(domain, name)
    }

    /// Returns the description of the messages' type, if the topic's maker gave one. It is read
    /// from the file.
    ///
    /// # Errors
    /// [`Error::Damaged`] when a stray write hit it; errors of the system.
    pub fn description(&self) -> Result<Option<Description>, Error> {
        self.inner.segment.description()
    }

    /// Returns what the topic was made with.
    #[must_use]
    pub fn config(&self) -> TopicConfig {
        let options = self.inner.head().options.load(Ordering::Relaxed);
        TopicConfig {
            depth: self.inner.plan.depth,
            max_bytes: self.inner.segment.header().max_bytes(),
            max_publishers: self.inner.plan.capacity.publishers,
            max_subscribers: self.inner.plan.capacity.subscribers,
            max_samples: self.inner.plan.capacity.samples,
            stamps: options & NO_STAMPS == 0,
            reliable: options & RELIABLE != 0,
            durability: Durability::of_bits(options),
            mode: self.inner.mode,
        }
    }
}
