//! A notifier's file as this process has it mapped: the ends that have joined, and telling all
//! listeners.

use std::ptr::NonNull;

use super::ids::IDS;
use super::layout::{
    HEAD_AT, INITIAL, LISTENER_BYTES, MOST_LISTENERS, MOST_NOTIFIERS, NotifierHead, listener_at,
};
use super::listener_slot::ListenerSlot;
use super::notifier_slot::{NotifierSlot, Seen};
use crate::liveness::{ASK_AGAIN, Ends, LONGEST_CARE, Registry, TokenId};
use crate::segment::Segment;
use crate::shim::{AtomicU32, Ordering, fence};
use crate::sys::futex::Watch;
use crate::wake::{Sleep, SpinWait};
use crate::{Deadline, Error};

/// See the file's head.
pub(super) struct Inner {
    pub(super) segment: Segment,
    pub(super) registry: &'static Registry,
    pub(super) spin_wait: SpinWait,
    head: NonNull<NotifierHead>,
    /// Device and inode.
    file_id: (u64, u64),
}

// SAFETY: it holds a pointer into the mapping that its own `segment` keeps, to atomics only.
unsafe impl Send for Inner {}
// SAFETY: a shared reference gives access to atomics only.
unsafe impl Sync for Inner {}

impl Inner {
    pub(super) fn new(segment: Segment, registry: &'static Registry) -> Result<Inner, Error> {
        segment.exists(INITIAL)?;
        let head = NonNull::from(segment.at::<NotifierHead>(HEAD_AT)?);
        let file_id = segment.facts()?.identity();
        Ok(Inner { head, registry, spin_wait: registry.spin_wait(), file_id, segment })
    }

    pub(super) fn head(&self) -> &NotifierHead {
        // SAFETY: `new` has checked the head's range; it is mapped as long as `segment` is.
        unsafe { self.head.as_ref() }
    }

    /// Returns a number that the maker set, if any; a damaged one counts as none.
    pub(super) fn made_with(word: &AtomicU32) -> Option<u32> {
        // Relaxed: constant since the file was made.
        word.load(Ordering::Relaxed).checked_sub(1).filter(|id| (*id as usize) < IDS)
    }

    /// Returns how many listeners' slots there are.
    pub(super) fn listener_count(&self) -> u32 {
        // Acquire pairs with `take_listener_slot`: they exist.
        self.head().listener_slots.load(Ordering::Acquire).min(MOST_LISTENERS)
    }

    /// Returns an existing listener's slot.
    pub(super) fn listener(&self, index: u32) -> Result<&ListenerSlot, Error> {
        self.segment.at(listener_at(index))
    }

    /// Returns all listeners' slots that exist.
    pub(super) fn listeners(&self) -> impl Iterator<Item = &ListenerSlot> {
        (0..self.listener_count()).map_while(|index| self.listener(index).ok())
    }

    /// Returns the notifiers' slots that have ever been in use.
    pub(super) fn notifiers(&self) -> &[NotifierSlot] {
        // Acquire pairs with `take_notifier_slot`.
        let used = self.head().notifier_slots.load(Ordering::Acquire) as usize;
        &self.head().notifiers[..used.min(MOST_NOTIFIERS)]
    }

    /// Returns what is in each notifier's slot just now: living owners alone.
    pub(super) fn seen(&self) -> impl Iterator<Item = Seen> {
        self.notifiers().iter().map(|slot| slot.look(self.registry))
    }

    /// Adds a notice of that number, below [`IDS`], to the counts of each living listener, or only
    /// makes each look again. Returns how many there were.
    pub(super) fn tell(&self, id: Option<u32>) -> u32 {
        let mut told = 0;
        // What is notified, and a notifier's slot, come before the look at which processes listen:
        // pairs with the fence in `ListenerSlot::join`.
        fence(Ordering::SeqCst);
        // Died or stopped in the middle: some listeners have the notice, and the call has not
        // returned.
        for slot in self.listeners() {
            let is_listening =
                slot.listening().is_some_and(|process| self.registry.is_alive(process));
            // Also one whose gateway has died: it counts for the next one.
            if !is_listening && !slot.is_kept() {
                continue;
            }
            match id {
                Some(id) => slot.add(id, 1),
                None => slot.notifications.notify_all(),
            }
            told += u32::from(is_listening);
        }
        told
    }

    /// Takes a notifier's slot for this process, and lets listeners know of it.
    pub(super) fn take_notifier_slot(&self, process: TokenId) -> Result<u32, Error> {
        for (index, slot) in (0..).zip(&self.head().notifiers) {
            // Before the slot, so that no look passes over a notifier. Died just after: a free slot
            // is looked at.
            self.head().notifier_slots.fetch_max(index + 1, Ordering::Release);
            if slot.take(self.registry, process) {
                // Listeners that sleep look again, and then watch this process's end. Died just
                // before: a listener finds that at its next look, at its recheck at the latest.
                self.tell(Inner::made_with(&self.head().on_created));
                return Ok(index);
            }
        }
        Err(self.too_many("notifiers", MOST_NOTIFIERS as u32))
    }

    /// Tells that a notifier leaves, and frees its slot.
    pub(super) fn leave_notifier_slot(&self, index: u32, process: TokenId) {
        // Died after this: it is told as left, and as died as well.
        if let Some(id) = Inner::made_with(&self.head().on_left) {
            self.tell(Some(id));
        }
        if let Some(slot) = self.head().notifiers.get(index as usize) {
            slot.leave(process);
        }
    }

    /// Takes a listener's slot for this process, which does not listen yet.
    pub(super) fn take_listener_slot(&self, process: TokenId) -> Result<u32, Error> {
        let deadline = Deadline::after(LONGEST_CARE);
        // A dead gateway's last of all.
        let mut kept_too = false;
        loop {
            let ends = self.ends();
            let mut is_ending = false;
            for index in 0..MOST_LISTENERS {
                if index >= self.listener_count() {
                    // Any number of processes may do it at once. Died just after: the pages are
                    // there for the next one.
                    self.segment.grow(listener_at(index), LISTENER_BYTES)?;
                    // Release pairs with `listener_count`: the pages.
                    self.head().listener_slots.fetch_max(index + 1, Ordering::Release);
                }
                let slot = self.listener(index)?;
                // A thread of a dead listener's process that has not ended may still take notices.
                if slot.take(process, kept_too, |owner| ends.has_ended(owner)) {
                    return Ok(index);
                }
                let is_dead = |owner: TokenId| !self.registry.is_alive(owner);
                is_ending |= (kept_too || !slot.is_kept()) && slot.owner().is_none_or(is_dead);
            }
            if !is_ending && !std::mem::replace(&mut kept_too, true) {
                continue;
            }
            if !is_ending || deadline.has_passed() {
                return Err(self.too_many("listeners", MOST_LISTENERS));
            }
            let slots = &self.head().listener_slots;
            let pause = Watch { word: slots, expected: slots.load(Ordering::Relaxed) };
            Sleep::on(self.registry, &[pause]).until(Deadline::after(ASK_AGAIN)).map_err(
                |errno| {
                    Error::from_errno("wait for a listener's slot of", self.segment.path(), errno)
                },
            )?;
        }
    }

    /// Returns which processes have ended, as of now.
    pub(super) fn ends(&self) -> Ends {
        Ends::new(self.registry, self.file_id)
    }

    fn too_many(&self, what: &'static str, max: u32) -> Error {
        Error::TooMany { what, path: self.segment.path().to_path_buf(), max }
    }
}
