//! A topic's control file: the words that subscribers write.
//!
//! ```text
//! page 0      header of every file
//! page 3      JoinWords: what publishers have to know of subscribers
//! page 4..    ControlHead: where subscribers sleep, and announce that they come and go; behind it,
//!             64 bytes for each ring: where its publisher sleeps that waits for subscribers
//!             subscribers' slots, each from a page on
//! ```
//! A process that only subscribes has these mappings of it, besides that of the topic's own file, which
//! can only be read:
//!
//! | part | mapped |
//! | --- | --- |
//! | all of it | from a descriptor that cannot write |
//! | page 3 | writable while it joins |
//! | pages 4 up to the slots | writable |
//! | its own slots | writable as long as it has them |
//!
//! A process that publishes has all of both files writable. doc/protocols/topic.md, "Who may write
//! what", says what that keeps out.

use core::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::layout::{ANNOUNCING_AT, ControlHead, JOIN_AT, JoinWords, Plan, SPACE_BYTES, SPACES_AT};
use super::subscriber_words::SubscriberWords;
use crate::Error;
use crate::segment::{Folder, Segment, Spec, View, Writer, control_file};
use crate::shim::AtomicU64;
use crate::sys::file::Rights;
use crate::sys::map::PAGE;
use crate::sys::resident::Residency;
use crate::wake::EventCount;

/// A topic's control file, as this process has it mapped.
pub(super) struct Control {
    /// All of it. Writable for publishers, and for processes that clean up.
    segment: Segment,
    /// The pages that subscribers share, unless all is writable.
    announcing: Option<View>,
    /// In one of the two.
    head: NonNull<ControlHead>,
    /// In the first one.
    joined: NonNull<JoinWords>,
    /// This process's own slots, for bringing them in.
    own: Mutex<Vec<Weak<OwnSlot>>>,
}

// SAFETY: the pointers point into mappings that the value keeps; all that lies there is atomic.
unsafe impl Send for Control {}
// SAFETY: as for `Send` above.
unsafe impl Sync for Control {}

/// A subscriber's slot that this process may write.
pub(super) struct OwnSlot {
    view: View,
    pub(super) index: u32,
}

impl OwnSlot {
    /// Returns its words.
    pub(super) fn words(&self, plan: &Plan) -> SubscriberWords<'_> {
        // SAFETY: `Joiner::map` has mapped a slot of the topic's plan, which is all atomics.
        unsafe { SubscriberWords::at(self.view.base().as_ptr(), plan) }
    }
}

impl Control {
    /// Describes the control file of a topic of that plan.
    pub(super) fn spec(plan: &Plan) -> Spec {
        Spec {
            kind: crate::Kind::Topic,
            type_name: "a topic's control words".to_owned(),
            type_size: 0,
            type_align: 1,
            description: None,
            reserve: plan.control_end(),
            max_bytes: plan.control_end(),
            initial: plan.subscriber_slot_at(0),
        }
    }

    /// Opens the control file of a topic's file, for a process that only subscribes.
    ///
    /// # Errors
    /// [`Error::NotFound`]: the topic has been removed meanwhile.
    pub(super) fn open(folder: &Folder, topic: &Segment, plan: &Plan) -> Result<Control, Error> {
        let segment = control_file::open(folder, topic)?;
        segment.exists(plan.subscriber_slot_at(0))?;
        // A publisher that did not see a slot would use again what its subscriber holds.
        segment.expect_mapped(plan.control_end())?;
        let shared = plan.subscriber_slot_at(0) - ANNOUNCING_AT;
        let announcing = segment.writer()?.part(ANNOUNCING_AT, shared)?;
        let head = announcing.base().cast();
        let joined = NonNull::from(segment.at::<JoinWords>(JOIN_AT)?);
        let announcing = Some(announcing);
        Ok(Control { segment, announcing, head, joined, own: Mutex::default() })
    }

    /// Maps the same file for a process that publishes, or cleans up.
    pub(super) fn writable(&self, plan: &Plan) -> Result<Control, Error> {
        let segment = self.segment.again(Rights::ReadWrite)?;
        segment.expect_mapped(plan.control_end())?;
        let head = NonNull::from(segment.at::<ControlHead>(ANNOUNCING_AT)?);
        let joined = NonNull::from(segment.at::<JoinWords>(JOIN_AT)?);
        Ok(Control { segment, announcing: None, head, joined, own: Mutex::default() })
    }

    #[inline]
    pub(super) fn head(&self) -> &ControlHead {
        // SAFETY: it points to the head in a mapping that `self` keeps; all atomics.
        unsafe { self.head.as_ref() }
    }

    /// Returns what subscribers wrote when they joined, to be read.
    #[inline]
    pub(super) fn joined(&self) -> &JoinWords {
        // SAFETY: it points to the words in a mapping that `self` keeps; all atomics.
        unsafe { self.joined.as_ref() }
    }

    /// Returns the eventcount on which the publisher of a ring waits for subscribers, for a ring
    /// below the most publishers.
    #[inline]
    pub(super) fn space(&self, ring: u32) -> &EventCount {
        let offset = SPACES_AT - ANNOUNCING_AT + u64::from(ring) * SPACE_BYTES;
        // SAFETY: before the subscribers' slots, which `open` has found to exist, and mapped with
        // the head; aligned; all atomics.
        unsafe { self.head.cast::<u8>().add(offset as usize).cast::<EventCount>().as_ref() }
    }

    /// Returns an existing subscriber's slot: to be read, and written where all is writable.
    pub(super) fn slot(&self, index: u32, plan: &Plan) -> Result<SubscriberWords<'_>, Error> {
        let (at, bytes) = (plan.subscriber_slot_at(index), plan.subscriber_slot_bytes());
        let _: &AtomicU64 = self.segment.at(at + bytes - 8)?;
        // SAFETY: `at` has checked that its last word is in the mapping and the file; page-aligned;
        // all atomics.
        Ok(unsafe { SubscriberWords::at(self.segment.address(at), plan) })
    }

    /// Returns so many slots, or those of them that exist, as [`slot`](Self::slot) does.
    pub(super) fn slots<'s>(
        &'s self,
        mut count: u32,
        plan: &'s Plan,
    ) -> impl Iterator<Item = SubscriberWords<'s>> {
        // One check for all: a file has, and a process maps, no slot without those before it.
        while count > 0 && self.slot(count - 1, plan).is_err() {
            count -= 1;
        }
        (0..count).map(|index| {
            let at = plan.subscriber_slot_at(index);
            // SAFETY: the last of them is in the mapping and the file, so all are; page-aligned; all
            // atomics.
            unsafe { SubscriberWords::at(self.segment.address(at), plan) }
        })
    }

    /// Begins to join: the file is open for writing as long as this takes.
    pub(super) fn joiner(&self) -> Result<Joiner<'_>, Error> {
        let writer = self.segment.writer()?;
        let view = writer.part(JOIN_AT, PAGE)?;
        Ok(Joiner { control: self, writer, view })
    }

    pub(super) fn make_resident(
        &self,
        slots: u32,
        plan: &Plan,
        how: Residency,
    ) -> Result<(), Error> {
        let bytes = u64::from(slots) * plan.subscriber_slot_bytes();
        self.segment.make_part_resident(0, plan.subscriber_slot_at(0) + bytes, how)?;
        if let Some(announcing) = &self.announcing {
            self.segment.make_view_resident(announcing, how)?;
        }
        let own: Vec<_> = {
            let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            own.iter().filter_map(Weak::upgrade).collect()
        };
        own.iter().try_for_each(|slot| self.segment.make_view_resident(&slot.view, how))
    }
}

/// A process that is about to take a subscriber's slot.
pub(super) struct Joiner<'c> {
    control: &'c Control,
    writer: Writer<'c>,
    /// The page of [`JoinWords`].
    view: View,
}

impl Joiner<'_> {
    /// Returns what subscribers write when they join.
    pub(super) fn words(&self) -> &JoinWords {
        // SAFETY: the view is the page on which they lie; all atomics.
        unsafe { self.view.base().cast().as_ref() }
    }

    /// Makes a slot's pages.
    pub(super) fn make(&self, index: u32, plan: &Plan) -> Result<(), Error> {
        self.writer.grow(plan.subscriber_slot_at(index), plan.subscriber_slot_bytes())
    }

    /// Maps an existing slot, which may be this process's soon.
    pub(super) fn map(&self, index: u32, plan: &Plan) -> Result<Arc<OwnSlot>, Error> {
        let view =
            self.writer.part(plan.subscriber_slot_at(index), plan.subscriber_slot_bytes())?;
        let slot = Arc::new(OwnSlot { view, index });
        // As with malloc: a child forked while a thread is in here must not come here before exec.
        let mut own = self.control.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|slot| slot.strong_count() > 0);
        own.push(Arc::downgrade(&slot));
        Ok(slot)
    }
}
