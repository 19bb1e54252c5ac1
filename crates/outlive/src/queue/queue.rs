//! A queue as a whole: making, opening and inspecting it.

use core::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use super::Inner;
use super::config::{OnReceiverDeath, QueueConfig};
use super::handles::Sender;
use super::layout::{CONTROL_AT, KEEP_FOR_NEXT_RECEIVER, MOST_MESSAGES, REFUSE_WITHOUT_RECEIVER};
use super::plan::{Annex, Plan, first_slots_of_bound};
use super::ring::Ring;
use super::spare::Spare;
use crate::claim::Holder;
use crate::describe::{Described, Description};
use crate::domain::{agree, check_range, three_openings};
use crate::liveness::{Registry, TokenId};
use crate::payload::Recorded;
use crate::pool::Heap;
use crate::segment::{Opening, Segment, Spec, note_opened};
use crate::shim::Ordering;
use crate::{Domain, Error, Kind, Payload, WaitStrategy};

/// What has become of a queue's messages, as of one moment: a later one has no less of `sent`,
/// `received` and `abandoned`.
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) abandoned: u64,
    pub(super) pending: u64,
}

/// A queue, open in this process; makes its senders and its receiver.
///
/// A queue has any number of [`Sender`]s and one [`Receiver`](super::Receiver) at a time. Messages are bytes
/// (`Queue<[u8]>`), values of a [`Plain`](crate::Plain) type, or slices of one, of any length from
/// 0 bytes to 1 GiB; the messages of one sender arrive in the order in which it sent them. The
/// queue begins with 32 KiB of memory and doubles as needed, in steps of at most 2 MiB, up to
/// `max_bytes`. Then it is full, and a send fails or waits, as the caller chooses. Sending and
/// receiving make no system call unless the other side sleeps or memory is added.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-queue2-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::{SendError, queue::Queue};
///
/// let queue = Queue::<[u8]>::options().max_bytes(1 << 20).open_or_create(&domain, "frames")?;
/// let sender = queue.sender()?;
/// while sender.try_send(&[7; 1000]).is_ok() {}
/// assert_eq!(sender.try_send(&[7; 1000]), Err(SendError::Full { slowest: None }));
/// assert_eq!(queue.counters()?.sent, queue.counters()?.pending);
///
/// let readings = Queue::<[f64; 3]>::open_or_create(&domain, "readings")?;
/// let mut receiver = readings.receiver()?;
/// readings.sender()?.send(&[1.0, 2.0, 3.0])?;
/// assert_eq!(receiver.recv()?, [1.0, 2.0, 3.0]);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Unread messages
/// Messages lie in the queue's file, not in a handle. They stay there when the last handle is
/// dropped and when the last process ends, for whichever process opens that name next: until a
/// receiver takes them, until [`Domain::remove`](crate::Domain::remove) removes the name and the
/// last process that has the queue open has ended, or until the machine restarts.
///
/// # If a process dies
/// Sent messages stay in the queue; see [`Sender`] and [`Receiver`](super::Receiver). If the receiver dies, sends
/// fail or go on: [`OnReceiverDeath`] chooses.
pub struct Queue<M: Payload + ?Sized = [u8]> {
    pub(super) inner: Arc<Inner>,
    _message: PhantomData<fn(&M)>,
}

impl<M: Payload + ?Sized> Clone for Queue<M> {
    fn clone(&self) -> Queue<M> {
        Queue { inner: Arc::clone(&self.inner), _message: PhantomData }
    }
}

/// Options for opening a queue, or for making one.
///
/// An option that is not set takes what is there; a new queue gets the default. An existing queue
/// with another value than one that is set is refused with
/// [`Error::OtherOptions`](crate::Error::OtherOptions). [`wait_strategy`](Self::wait_strategy)
/// concerns this process alone.
#[must_use]
#[derive(Debug)]
pub struct QueueOptions<M: Payload + ?Sized = [u8]> {
    max_bytes: Option<u64>,
    max_messages: Option<u32>,
    slots: Option<u32>,
    slot_bytes: Option<u32>,
    need_receiver: Option<bool>,
    on_receiver_death: Option<OnReceiverDeath>,
    wait: Option<WaitStrategy>,
    description: Option<Description>,
    _message: PhantomData<fn(&M)>,
}

/// Counts what has happened to a queue. The figures are exact when the queue is quiet; while it is
/// in use, each is true of some moment, and what has been counted of `sent`, `received` and
/// `abandoned` is counted in each later look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Messages sent and acknowledged: the received and the pending ones.
    pub sent: u64,
    /// Messages received for good.
    pub received: u64,
    /// Messages in the queue.
    pub pending: u64,
    /// Messages whose sender died during the send; none of them was acknowledged. A batch counts
    /// once.
    pub abandoned: u64,
    /// Messages handed out again because a receiver died before it committed them.
    pub redelivered: u64,
    /// How often memory was added to the rings.
    pub grown: u64,
    /// The largest backlog seen, in slots. It is looked at from time to time, and now.
    pub high_water: u64,
    /// Bytes of memory that the queue takes now.
    pub bytes: u64,
    /// The most bytes that it may take.
    pub max_bytes: u64,
    /// The most unread messages that it can hold, if its messages are bounded: as many as
    /// [`max_messages`](QueueOptions::max_messages), or fewer, if there was no memory for more when
    /// they were needed.
    pub places: Option<u64>,
}

impl<M: Payload + ?Sized> QueueOptions<M> {
    /// Sets the most bytes that the queue may take, messages included: 64 KiB to 6 GiB. Default: a
    /// quarter of the file system, and at most 6 GiB. The file may take up to 64 KiB more for each
    /// 2 MiB of it, where memory of short messages is reused for long ones. Two senders that make it
    /// grow at the same moment may both find room: then it takes more by what one of them needs, a
    /// step (64 KiB for messages, 2 MiB of slots at most) or one long message.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the most unread messages that the queue holds, 1 to 1,048,576. Default: none, bytes
    /// alone bound it.
    ///
    /// With so many messages unread, or with `max_bytes` in use, the queue is full: a send waits,
    /// or fails, until the receiver has taken a message. A message counts until its receiver has
    /// committed it. A batch counts as one message. The queue has as many slots as this from the
    /// beginning, or the first 2 MiB of them, or as many as three quarters of `max_bytes` hold;
    /// [`slots`](Self::slots) cannot be set with it. If there is no memory for more when they are
    /// needed, it stays with the slots that it has, also when there is memory again:
    /// [`Counters::places`] says how many these are.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-bound-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::{SendError, queue::Queue};
    ///
    /// let queue = Queue::<[u8]>::options().max_messages(2).open_or_create(&domain, "requests")?;
    /// let (sender, mut receiver) = (queue.sender()?, queue.receiver()?);
    /// sender.send(b"one")?;
    /// sender.send(b"two")?;
    /// assert_eq!(sender.try_send(b"three"), Err(SendError::Full { slowest: None }));
    /// assert_eq!(receiver.recv()?, b"one");
    /// sender.try_send(b"three")?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// A sender that dies during a send may leave a slot that holds no message. It counts as a
    /// message until the receiver gets past it.
    pub fn max_messages(mut self, messages: u32) -> Self {
        self.max_messages = Some(messages);
        self
    }

    /// Sets the number of slots to begin with, 1 to 65,536; it is rounded up to a power of two, at
    /// least 4. Default: 64.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Sets the bytes of a slot, 1 to 4,096; they are rounded up to a power of two, at least 64.
    /// Default: 128. A message of up to `slot_bytes` − 24 bytes lies in its slot; a larger one lies
    /// in an object of the pool, to which the slot refers.
    pub fn slot_bytes(mut self, bytes: u32) -> Self {
        self.slot_bytes = Some(bytes);
        self
    }

    /// Sets whether a send fails with [`SendError::NoReceiver`](crate::SendError::NoReceiver) while
    /// the queue has no receiver. Default: no, messages wait for a receiver.
    pub fn need_receiver(mut self, needed: bool) -> Self {
        self.need_receiver = Some(needed);
        self
    }

    /// Sets what a send does while the receiver is dead and no other process has become the
    /// receiver. Default: [`OnReceiverDeath::Fail`], the sender is told at once.
    pub fn on_receiver_death(mut self, on_receiver_death: OnReceiverDeath) -> Self {
        self.on_receiver_death = Some(on_receiver_death);
        self
    }

    /// Sets how this process's handles wait.
    pub fn wait_strategy(mut self, wait: WaitStrategy) -> Self {
        self.wait = Some(wait);
        self
    }

    three_openings!(
        Queue<M>,
        "queue",
        "[`Error::OtherType`](crate::Error::OtherType) when its messages are of another type,
         [`Error::InvalidOption`](crate::Error::InvalidOption) for an option out of its range."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Queue<M>, Error> {
        let types = Recorded::described(M::METADATA, self.description.as_ref());
        self.open_kind(domain, name, opening, Kind::Queue, types, Annex::NONE)
    }

    /// Does the same for a file of that kind, with another layer's words in it.
    pub(crate) fn open_kind(
        self,
        domain: &Domain,
        name: &str,
        opening: Opening,
        kind: Kind,
        types: Recorded,
        annex: Annex,
    ) -> Result<Queue<M>, Error> {
        let (slots, slot_bytes) = self.checked()?;
        let max_bytes = match self.max_bytes {
            Some(bytes) => bytes,
            // Nothing is made.
            None if opening == Opening::Open => MOST_BYTES,
            None => match annex.usual_bytes {
                Some(bytes) => bytes,
                None => (domain.folder().most_bytes()? / 4).clamp(LEAST_BYTES, MOST_BYTES),
            },
        };
        let slot_bytes = slot_bytes.unwrap_or(128);
        let slots = match self.max_messages {
            Some(bound) => first_slots_of_bound(bound, slot_bytes, max_bytes),
            None => slots.unwrap_or(64),
        };
        let made = QueueConfig {
            max_bytes,
            max_messages: self.max_messages,
            slots,
            slot_bytes,
            need_receiver: self.need_receiver.unwrap_or(false),
            on_receiver_death: self.on_receiver_death.unwrap_or_default(),
        };
        let plan = Plan::new(made, annex);
        let spec = Spec {
            kind,
            type_name: types.name,
            type_size: types.size,
            type_align: types.align,
            reserve: plan.end,
            max_bytes,
            initial: CONTROL_AT + Heap::FIRST_CONTROL,
            description: self.description.clone(),
        };
        let segment =
            domain.open_as(name, opening, &spec, |segment| plan.write(segment, made, annex))?;
        self.agreed(Queue::finish_as(segment, domain.registry(), self.wait, kind)?)
    }

    /// Returns the slots and their bytes as a file has them, after a look at all ranges.
    fn checked(&self) -> Result<(Option<u32>, Option<u32>), Error> {
        check_range("max_bytes", self.max_bytes, LEAST_BYTES..=MOST_BYTES, "64 KiB to 6 GiB")?;
        let range = 1..=MOST_MESSAGES;
        check_range("max_messages", self.max_messages, range, "1 to 1,048,576")?;
        check_range("the number of slots", self.slots, 1..=MOST_SLOTS, "1 to 65,536")?;
        check_range("slot_bytes", self.slot_bytes, 1..=MOST_SLOT_BYTES, "1 to 4,096")?;
        if let (Some(_), Some(slots)) = (self.max_messages, self.slots) {
            let (what, wanted) = ("the number of slots", slots.to_string().into());
            return Err(Error::InvalidOption { what, wanted, why: "none beside max_messages" });
        }
        let slots = self.slots.map(|slots| slots.next_power_of_two().max(4));
        let slot_bytes = self.slot_bytes.map(|bytes| bytes.next_power_of_two().max(64));
        Ok((slots, slot_bytes))
    }

    /// Returns the queue, unless it was made with other options.
    fn agreed(&self, queue: Queue<M>) -> Result<Queue<M>, Error> {
        let (slots, slot_bytes) = self.checked()?;
        let (segment, found) = (&queue.inner.ring.segment, queue.config());
        agree(segment, "max_bytes", found.max_bytes, self.max_bytes)?;
        if self.max_messages.is_some() && self.max_messages != found.max_messages {
            // A queue without a bound has 0 here.
            let bound = found.max_messages.unwrap_or(0);
            agree(segment, "max_messages", bound, self.max_messages)?;
        }
        agree(segment, "number of slots to begin with", found.slots, slots)?;
        agree(segment, "slot_bytes", found.slot_bytes, slot_bytes)?;
        agree(segment, "option need_receiver", found.need_receiver, self.need_receiver)?;
        agree(
            segment,
            "option on_receiver_death",
            found.on_receiver_death.name(),
            self.on_receiver_death.map(OnReceiverDeath::name),
        )?;
        Ok(queue)
    }
}

impl<M: Described + ?Sized> QueueOptions<M> {
    /// Keeps the description of the messages' type in a new queue, and wants an existing queue to
    /// have the same one: as [`TopicOptions::described`](crate::topic::TopicOptions::described).
    pub fn described(mut self) -> Self {
        self.description = Some(M::description());
        self
    }
}

impl QueueOptions {
    /// Sets the description of the messages' type, of which they are the bytes: for types that
    /// are known at run time alone.
    pub fn description(mut self, description: Description) -> Self {
        self.description = Some(description);
        self
    }

    /// Sets how another layer's handles wait, if that was said.
    pub(crate) fn maybe_wait(mut self, wait: Option<WaitStrategy>) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the description of another layer's file.
    pub(crate) fn maybe_description(mut self, description: Option<Description>) -> Self {
        self.description = description;
        self
    }

    /// Opens the existing queue of that name as [`Queue::open_as_bytes`] does, with these options.
    ///
    /// # Errors
    /// As [`QueueOptions::open`], without [`Error::OtherType`].
    pub fn open_as_bytes(self, domain: &Domain, name: &str) -> Result<Queue, Error> {
        self.open_kind_as_bytes(domain, name, Kind::Queue)
    }

    /// Does the same for a file of that kind.
    pub(crate) fn open_kind_as_bytes(
        self,
        domain: &Domain,
        name: &str,
        kind: Kind,
    ) -> Result<Queue, Error> {
        self.checked()?;
        let segment = domain.open_segment(name)?;
        if let Some(wanted) = &self.description {
            segment.expect(kind)?;
            segment.check_description(wanted)?;
        }
        let queue = Queue::finish_as(segment, domain.registry(), self.wait, kind)?;
        self.agreed(queue)
    }
}

/// The least and the most bytes of a queue: rings and pool of that size fit into the address space
/// reserved for one file.
const LEAST_BYTES: u64 = 64 << 10;
const MOST_BYTES: u64 = 6 << 30;
const MOST_SLOTS: u32 = 65_536;
const MOST_SLOT_BYTES: u32 = 4096;

impl<M: Payload + ?Sized> Queue<M> {
    /// Returns options of which none is set.
    pub fn options() -> QueueOptions<M> {
        QueueOptions {
            max_bytes: None,
            max_messages: None,
            slots: None,
            slot_bytes: None,
            need_receiver: None,
            on_receiver_death: None,
            wait: None,
            description: None,
            _message: PhantomData,
        }
    }

    /// Opens the queue of that name, or makes it with default options if there is none.
    ///
    /// # Errors
    /// The errors of [`QueueOptions::open_or_create`].
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<Queue<M>, Error> {
        Queue::options().open_or_create(domain, name)
    }

    /// Opens the existing queue of that name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OtherKind`], [`Error::OtherType`], [`Error::Damaged`], and
    /// errors of the system.
    pub fn open(domain: &Domain, name: &str) -> Result<Queue<M>, Error> {
        Queue::options().open(domain, name)
    }

    pub(crate) fn finish_as(
        segment: Segment,
        registry: &'static Registry,
        wait: Option<WaitStrategy>,
        kind: Kind,
    ) -> Result<Queue<M>, Error> {
        segment.expect(kind)?;
        let ring = Ring::new(segment)?;
        let options = ring.head().options.load(Ordering::Relaxed);
        let need_receiver = options & REFUSE_WITHOUT_RECEIVER != 0;
        let keeps = options & KEEP_FOR_NEXT_RECEIVER != 0;
        let spin_wait = registry.spin_wait();
        if let Some(wait) = wait {
            spin_wait.set(wait);
        }
        let annex_bytes = OnceLock::new();
        let spare = Spare::default();
        let inner =
            Arc::new(Inner { ring, registry, spin_wait, need_receiver, keeps, annex_bytes, spare });
        note_opened(registry.index, &inner);
        Ok(Queue { inner, _message: PhantomData })
    }

    /// Returns the description of the messages' type, if the queue's maker gave one. It is read
    /// from the file.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when a stray write hit it; errors of the system.
    pub fn description(&self) -> Result<Option<Description>, Error> {
        self.inner.ring.segment.description()
    }

    /// Returns a number that no other queue has, nor has had: one that is removed and made again has
    /// another, and so has the queue of that name after the machine was started anew. It is drawn by
    /// the time and the place of the file's making, in 64 bits.
    pub fn id(&self) -> u64 {
        self.inner.ring.head().id.load(Ordering::Relaxed)
    }

    /// Returns what the queue was made with.
    pub fn config(&self) -> QueueConfig {
        let Inner { ref ring, need_receiver, keeps, .. } = *self.inner;
        let on_receiver_death = if keeps { OnReceiverDeath::Keep } else { OnReceiverDeath::Fail };
        let (slots, slot_bytes) = ring.first_slots();
        let (max_bytes, max_messages) = (ring.segment.header().max_bytes(), ring.max_messages());
        QueueConfig { max_bytes, max_messages, slots, slot_bytes, need_receiver, on_receiver_death }
    }

    /// Makes a new sender.
    ///
    /// # Errors
    /// [`Error::NoToken`] or [`Error::NoSpace`] when the calling thread cannot get a token.
    pub fn sender(&self) -> Result<Sender<M>, Error> {
        Sender::new(Arc::clone(&self.inner))
    }

    /// Returns what has happened to the queue so far.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn counters(&self) -> Result<Counters, Error> {
        let ring = &self.inner.ring;
        let words = &ring.head().receiver_words;
        let Tally { sent, received, abandoned, pending } = self.tally()?;
        Ok(Counters {
            sent,
            received,
            pending,
            abandoned,
            redelivered: words.redelivered.load(Ordering::Relaxed),
            grown: ring.times_grown(),
            high_water: words.high_water.load(Ordering::Relaxed).max(pending),
            bytes: ring.bytes()?,
            max_bytes: ring.segment.header().max_bytes(),
            places: ring.places(),
        })
    }

    /// Returns the processes that send, dead or alive: those in the table, which has room for 1,024
    /// senders.
    pub fn senders(&self) -> Vec<Holder> {
        let words = self.inner.ring.senders().iter().map(|entry| entry.load(Ordering::Acquire));
        words
            .filter_map(TokenId::from_word)
            .map(|token| Holder::of(self.inner.registry, token))
            .collect()
    }

    /// Returns whether the queue's name has been removed: processes that have it open go on, no
    /// other process finds it.
    pub fn is_removed(&self) -> bool {
        self.inner.ring.segment.header().is_removed()
    }

    /// Returns the attributes that its maker gave it.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when a process wrote over them, and errors of the
    /// system.
    pub fn attributes(&self) -> Result<crate::Attributes, crate::Error> {
        self.inner.ring.segment.attributes()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Queue {
    /// Opens the existing queue of that name for messages as bytes, whatever type they have.
    ///
    /// A message whose length is not the type's is [`RecvError::Encoding`](crate::RecvError::Encoding)
    /// for a receiver of the type.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-queue-bytes-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::queue::Queue;
    ///
    /// let levels = Queue::<u32>::open_or_create(&domain, "levels")?;
    /// let bytes = Queue::open_as_bytes(&domain, "levels")?;   // in another program, as a rule
    /// bytes.sender()?.send(&7_u32.to_ne_bytes())?;
    /// assert_eq!(levels.receiver()?.recv()?, 7);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Queue::open`], [`Error::OtherType`] aside.
    pub fn open_as_bytes(domain: &Domain, name: &str) -> Result<Queue, Error> {
        Queue::options().open_as_bytes(domain, name)
    }

    /// Opens a queue of messages of any type, for inspection.
    pub(crate) fn finish(segment: Segment, registry: &'static Registry) -> Result<Queue, Error> {
        Queue::finish_as(segment, registry, None, Kind::Queue)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Deadline, RecvError, SendError};

    /// A process that does not keep to the type sends a message of a length that no value has.
    #[test]
    fn a_message_that_is_no_value_of_the_type_is_skipped() {
        let folder = std::env::temp_dir().join(format!("outlive-no-value-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let values = Queue::<u64>::open_or_create(&domain, "q").expect("made");
        let bytes: Queue = Queue { inner: Arc::clone(&values.inner), _message: PhantomData };
        let sender = bytes.sender().expect("a sender");
        let mut receiver = values.receiver().expect("the only one");
        let encoding = |error| assert!(matches!(error, Some(RecvError::Encoding(_))), "{error:?}");
        for _ in 0..2 {
            sender.send(b"short").expect("room");
        }
        sender.send_batch(&[b"in".as_slice(), b"a", b"batch"]).expect("room");
        encoding(receiver.try_recv().err());
        encoding(receiver.try_peek().err());
        (0..3).for_each(|_| encoding(receiver.recv().err()));
        assert_eq!(receiver.try_recv(), Ok(None));
        values.sender().expect("a sender").send(&7).expect("room");
        assert_eq!(receiver.recv(), Ok(7));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// A queue of one message has a lap for each, and soon more of them than a claim's bits tell
    /// apart.
    #[test]
    fn a_sweep_takes_a_message_of_a_late_lap_for_no_claim_of_an_early_one() {
        use std::sync::atomic::Ordering::{Acquire, Relaxed};

        let folder = std::env::temp_dir().join(format!("outlive-late-lap-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let queue = Queue::<[u8]>::options().max_messages(1).open_or_create(&domain, "q");
        let queue = queue.expect("made");
        let (inner, late) = (&*queue.inner, 1 << 33);
        let words = &inner.ring.head().regions_words[0];
        words.head.store(late, Relaxed);
        words.tail.store(late, Relaxed);
        let send = || queue.sender().expect("a sender").send(&[7; 500]).expect("room");
        std::thread::scope(|threads| threads.spawn(send).join().expect("it has ended"));
        let claim = || inner.ring.slot(0, 0).claim.load(Acquire);
        let before = claim();
        let me = inner.registry.me().expect("a token");
        super::super::sweep::sweep(inner, me, false, &mut Vec::new()).expect("whole");
        assert_eq!(claim(), before, "the message is there, its sender has nothing left to write");
        assert_eq!(queue.counters().expect("counts").pending, 1);
        assert_eq!(queue.receiver().expect("the first").recv().expect("sent"), [7; 500]);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// A wait whose time is over before it begins is a try: it does not spin.
    #[test]
    fn a_deadline_that_has_passed_makes_nobody_spin() {
        let folder = std::env::temp_dir().join(format!("outlive-past-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let queue = Queue::<[u8]>::options()
            .max_bytes(64 << 10)
            .open_or_create(&domain, "q")
            .expect("made");
        let (sender, mut receiver) = (queue.sender().expect("one"), queue.receiver().expect("one"));
        let past = Deadline::at_nanos(0);
        for deadline in [None, Some(past)] {
            assert!(!queue.inner.spin(deadline, || panic!("it spins")));
        }
        assert_eq!(receiver.recv_until(past), Ok(None));
        assert!(matches!(receiver.peek_until(past), Ok(None)));
        let full = loop {
            if let Err(error) = sender.send_until(&[1; 100], past) {
                break error;
            }
        };
        assert_eq!(full, SendError::TimedOut { slowest: None });
        assert_eq!(sender.try_send(&[1; 100]), Err(SendError::Full { slowest: None }));
        assert_eq!(receiver.recv_until(past), Ok(Some(vec![1; 100])), "what is there is received");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
