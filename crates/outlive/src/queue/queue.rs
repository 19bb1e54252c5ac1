//! A queue as a whole: making, opening and inspecting it.

use std::sync::Arc;

use super::Inner;
use super::layout::{self, CONTROL_AT, HEAD_AT, MOST_REGIONS, QueueHead, REFUSE_WITHOUT_RECEIVER};
use super::receiver::Receiver;
use super::ring::Ring;
use super::send::Sender;
use crate::claim::Holder;
use crate::liveness::{Registry, TokenId};
use crate::pool::{Heap, SPAN, Shape};
use crate::segment::{MOST_RESERVED, Opening, Segment, Spec};
use crate::shim::Ordering;
use crate::wake::SpinWait;
use crate::{Domain, Error, Kind, WaitStrategy};

/// A queue, open in this process; makes its senders and its receiver.
///
/// A queue has any number of [`Sender`]s and one [`Receiver`] at a time. Messages are byte strings
/// of 0 bytes to 1 GiB; the messages of one sender arrive in the order in which it sent them. The
/// queue begins with 32 KiB of memory and doubles as needed, in steps of at most 2 MiB, up to
/// `max_bytes`. Then it is full, and a send fails or waits, as the caller chooses. Sending and
/// receiving make no system call unless the other side sleeps or memory is added.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-queue2-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::queue::{Queue, SendError};
///
/// let queue = Queue::options().max_bytes(1 << 20).create(&domain, "frames")?;
/// let sender = queue.sender()?;
/// while sender.try_send(&[7; 1000]).is_ok() {}
/// assert_eq!(sender.try_send(&[7; 1000]), Err(SendError::Full));
/// assert_eq!(queue.counters()?.sent, queue.counters()?.pending);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// Sent messages stay in the queue; see [`Sender`] and [`Receiver`].
#[derive(Clone)]
pub struct Queue {
    pub(super) inner: Arc<Inner>,
}

/// Options for making a queue. An existing queue keeps the options that it was made with.
#[derive(Clone, Debug)]
pub struct QueueOptions {
    max_bytes: Option<u64>,
    first_slots: u32,
    slot_bytes: u32,
    need_receiver: bool,
    wait: WaitStrategy,
}

/// Counts what has happened to a queue. The figures are exact when the queue is quiet; while it is
/// in use, each is true of some moment.
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
    /// The largest backlog seen, in slots; sampled from time to time.
    pub high_water: u64,
    /// Bytes of memory that the queue takes now.
    pub bytes: u64,
    /// The most bytes that it may take.
    pub max_bytes: u64,
}

impl QueueOptions {
    /// Sets the most bytes that the queue may take, messages included. At least 64 KiB; default: a
    /// quarter of the file system, and at most 6 GiB. The file may take up to 64 KiB more for each
    /// 2 MiB of it, where memory of short messages is reused for long ones.
    pub fn max_bytes(mut self, bytes: u64) -> QueueOptions {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the number of slots to begin with, rounded up to a power of two from 4 to 65,536.
    /// Default: 64.
    pub fn first_slots(mut self, slots: u32) -> QueueOptions {
        self.first_slots = slots;
        self
    }

    /// Sets the bytes of a slot, rounded up to a power of two from 64 to 4,096. Default: 128. A
    /// message of up to 24 bytes less lies in its slot; a larger one lies in an object of the pool,
    /// to which the slot refers.
    pub fn slot_bytes(mut self, bytes: u32) -> QueueOptions {
        self.slot_bytes = bytes;
        self
    }

    /// Sets whether a send fails with [`SendError::NoReceiver`](super::SendError::NoReceiver) while
    /// the queue has no receiver. Default: no, messages wait for a receiver.
    pub fn need_receiver(mut self, needed: bool) -> QueueOptions {
        self.need_receiver = needed;
        self
    }

    /// Sets how this process's handles wait.
    pub fn wait(mut self, wait: WaitStrategy) -> QueueOptions {
        self.wait = wait;
        self
    }

    /// Opens the queue of that name, or makes it with these options if there is none.
    ///
    /// # Errors
    /// [`Error::OtherKind`] when the name is in use for something else, [`Error::NoSpace`],
    /// [`Error::InvalidName`], and errors of the system.
    ///
    /// # If a process dies
    /// If this process dies while it makes the queue, nothing is left of it.
    pub fn create(self, domain: &Domain, name: &str) -> Result<Queue, Error> {
        self.create_as(domain, name, Opening::OpenOrCreate, Kind::Queue, Annex { len: 0, first: 0 })
    }

    /// Does the same for a file of that kind, with another layer's words in it.
    pub(crate) fn create_as(
        self,
        domain: &Domain,
        name: &str,
        opening: Opening,
        kind: Kind,
        annex: Annex,
    ) -> Result<Queue, Error> {
        let slot_bytes = self.slot_bytes.clamp(64, 4096).next_power_of_two();
        let first_slots = self.first_slots.clamp(4, 65_536).next_power_of_two();
        let quarter = domain.folder().file_system_bytes()? / 4;
        let max_bytes = self.max_bytes.unwrap_or(quarter).clamp(64 << 10, MOST_BYTES);
        // Where another layer's words carry the messages, the ring holds none.
        let most_regions = if annex.len == 0 { MOST_REGIONS } else { 1 };
        let plan = Plan::new(
            u64::from(slot_bytes),
            u64::from(first_slots),
            most_regions,
            max_bytes,
            annex.len,
        );
        let spec = Spec {
            kind,
            type_name: String::new(),
            type_size: 0,
            type_align: 1,
            reserve: plan.end,
            max_bytes,
            initial: CONTROL_AT + Heap::FIRST_CONTROL,
        };
        let segment = domain.open_as(name, opening, &spec, |segment| {
            segment.grow(plan.rings_at, u64::from(slot_bytes * first_slots))?;
            if annex.first > 0 {
                segment.grow(plan.annex_at, annex.first)?;
            }
            let head: &QueueHead = segment.at(HEAD_AT)?;
            head.slot_bytes.store(slot_bytes, Ordering::Relaxed);
            head.first_slots.store(first_slots, Ordering::Relaxed);
            head.regions.store(plan.regions, Ordering::Relaxed);
            head.options
                .store(u32::from(self.need_receiver) * REFUSE_WITHOUT_RECEIVER, Ordering::Relaxed);
            head.pool_tags_at.store(plan.tags_at, Ordering::Relaxed);
            head.pool_spans_at.store(plan.spans_at, Ordering::Relaxed);
            head.pool_spans.store(plan.spans, Ordering::Relaxed);
            head.limits[0].store(u64::from(first_slots), Ordering::Relaxed);
            Ok(())
        })?;
        Queue::finish_as(segment, domain.registry(), self.wait, kind)
    }
}

/// The most bytes of a queue: rings and pool of that size fit into the address space reserved for
/// one file.
const MOST_BYTES: u64 = 6 << 30;

/// Another layer's words, between slots and tags: address space, and bytes that exist from the
/// beginning.
#[derive(Clone, Copy)]
pub(crate) struct Annex {
    pub(crate) len: u64,
    pub(crate) first: u64,
}

/// Where each part lies in the file.
struct Plan {
    regions: u32,
    rings_at: u64,
    annex_at: u64,
    tags_at: u64,
    spans: u32,
    spans_at: u64,
    end: u64,
}

impl Plan {
    fn new(
        slot_bytes: u64,
        first_slots: u64,
        most_regions: usize,
        max_bytes: u64,
        annex: u64,
    ) -> Plan {
        let first = slot_bytes * first_slots;
        // As many regions as reach max_bytes together; max_bytes may cut the last one short.
        let mut regions = 1;
        while first * ((1 << regions) - 1) < max_bytes && (regions as usize) < most_regions {
            regions += 1;
        }
        let rings = first * ((1 << regions) - 1);
        // Offsets for objects: as much as they may take, half as much again for runs that do not
        // fit into gaps, and a few spans, since each class begins one.
        let wanted = (max_bytes + max_bytes / 2).div_ceil(SPAN) + 64;
        let room = MOST_RESERVED.saturating_sub(rings + annex) / (SPAN + SPAN / 16);
        let spans = wanted.min(room.saturating_sub(1)).clamp(1, 4096) as u32;
        let rings_at = CONTROL_AT + Heap::control_bytes(spans);
        let annex_at = (rings_at + rings).next_multiple_of(4096);
        let tags_at = (annex_at + annex).next_multiple_of(4096);
        let spans_at = (tags_at + Shape::QUEUE.tag_bytes(spans)).next_multiple_of(SPAN);
        Plan {
            regions,
            rings_at,
            annex_at,
            tags_at,
            spans,
            spans_at,
            end: spans_at + u64::from(spans) * SPAN,
        }
    }
}

impl Queue {
    /// Returns the default options, for changing them.
    pub fn options() -> QueueOptions {
        QueueOptions {
            max_bytes: None,
            first_slots: 64,
            slot_bytes: 128,
            need_receiver: false,
            wait: WaitStrategy::Adaptive,
        }
    }

    /// Opens the queue of that name, or makes it with default options if there is none.
    ///
    /// # Errors
    /// The errors of [`QueueOptions::create`].
    pub fn create(domain: &Domain, name: &str) -> Result<Queue, Error> {
        Queue::options().create(domain, name)
    }

    /// Opens the existing queue of that name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OtherKind`], [`Error::Damaged`], and errors of the system.
    pub fn open(domain: &Domain, name: &str) -> Result<Queue, Error> {
        Queue::finish(domain.open_segment(name)?, domain.registry(), WaitStrategy::Adaptive)
    }

    pub(crate) fn finish(
        segment: Segment,
        registry: &'static Registry,
        wait: WaitStrategy,
    ) -> Result<Queue, Error> {
        Queue::finish_as(segment, registry, wait, Kind::Queue)
    }

    pub(crate) fn finish_as(
        segment: Segment,
        registry: &'static Registry,
        wait: WaitStrategy,
        kind: Kind,
    ) -> Result<Queue, Error> {
        segment.expect(kind)?;
        let ring = Ring::new(segment)?;
        let refuse = ring.head().options.load(Ordering::Relaxed) & REFUSE_WITHOUT_RECEIVER != 0;
        let spin_wait = SpinWait::new();
        spin_wait.set(wait);
        let inner = Inner { ring, registry, spin_wait, need_receiver: refuse };
        Ok(Queue { inner: Arc::new(inner) })
    }

    /// Makes a new sender.
    ///
    /// # Errors
    /// [`Error::NoToken`] or [`Error::NoSpace`] when the calling thread cannot get a token.
    pub fn sender(&self) -> Result<Sender, Error> {
        Sender::new(Arc::clone(&self.inner))
    }

    /// Makes this process the queue's receiver if there is none, or if it is dead.
    ///
    /// The new receiver goes on where its predecessor stopped: the message that the predecessor had
    /// peeked at and not committed comes first.
    ///
    /// # Errors
    /// [`Error::ReceiverTaken`] while another receiver lives, [`Error::ReceiverEnding`] while a
    /// thread of the dead one has not ended, [`Error::NoToken`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// If this process dies while it takes over, the next process to call this function takes over.
    pub fn receiver(&self) -> Result<Receiver, Error> {
        Receiver::new(Arc::clone(&self.inner))
    }

    /// Returns what has happened to the queue so far.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn counters(&self) -> Result<Counters, Error> {
        let ring = &self.inner.ring;
        let words = &ring.head().receiver_words;
        let (pending, in_batch) = self.pending()?;
        let (received, abandoned) = self.settled_counts()?;
        let received = received.saturating_add(in_batch);
        Ok(Counters {
            sent: received.saturating_add(pending),
            received,
            pending,
            abandoned,
            redelivered: words.redelivered.load(Ordering::Relaxed),
            grown: ring.times_grown(),
            high_water: words.high_water.load(Ordering::Relaxed),
            bytes: ring.bytes()?,
            max_bytes: ring.segment.header().max_bytes(),
        })
    }

    /// Returns the received and abandoned counts; where a receiver died between giving a slot back
    /// and counting it, its journal has them.
    fn settled_counts(&self) -> Result<(u64, u64), Error> {
        let ring = &self.inner.ring;
        let words = &ring.head().receiver_words;
        let region = words.region.load(Ordering::Acquire).min(ring.regions() - 1);
        let head = ring.head().regions_words[region as usize].head.load(Ordering::Acquire);
        let ahead = super::sweep::is_given_back(ring, region, ring.limit(region)?, head);
        let journal = words.journal.load(Ordering::Acquire) == layout::pack(region, head, 0);
        Ok(if ahead && journal {
            (
                words.next_received.load(Ordering::Relaxed),
                words.next_abandoned.load(Ordering::Relaxed),
            )
        } else {
            (words.received.load(Ordering::Relaxed), words.abandoned.load(Ordering::Relaxed))
        })
    }

    /// Counts the messages in the queue, and those of the batch at the head that have been
    /// received.
    fn pending(&self) -> Result<(u64, u64), Error> {
        let ring = &self.inner.ring;
        let words = &ring.head().receiver_words;
        let (mut pending, mut in_batch) = (0, 0);
        let progress = words.progress.load(Ordering::Acquire);
        let first = words.region.load(Ordering::Acquire);
        for region in first..ring.regions() {
            let limit = ring.limit(region)?;
            let region_words = &ring.head().regions_words[region as usize];
            let from = region_words.head.load(Ordering::Acquire);
            // One more than the tail: a slot may be READY although its sender died before it moved
            // the tail.
            let to =
                (region_words.tail.load(Ordering::Acquire) & !layout::CLOSED).saturating_add(1);
            for position in from..to.min(from.saturating_add(limit & !layout::SEALED)) {
                let Some(place) = ring.place(region, limit, position) else {
                    break;
                };
                let slot = ring.slot(region, place.index);
                // Not counted if it was given back and only the head has still to move.
                if slot.head.ready.load(Ordering::Acquire) == layout::published(place.lap)
                    && !super::sweep::is_given_back(ring, region, limit, position)
                {
                    let meta = layout::Meta::decode(slot.head.meta.load(Ordering::Relaxed));
                    pending += meta.messages();
                    if meta.batch > 0 && progress & !0xff_ffff == layout::pack(region, position, 0)
                    {
                        in_batch = u64::from(layout::within(progress)).min(meta.messages());
                        pending -= in_batch;
                    }
                }
            }
        }
        Ok((pending, in_batch))
    }

    /// Returns the process that receives, dead or alive.
    pub fn current_receiver(&self) -> Option<Holder> {
        let word = self.inner.ring.head().receiver.load(Ordering::Acquire);
        TokenId::from_word(word).map(|token| Holder::of(self.inner.registry, token))
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

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}
