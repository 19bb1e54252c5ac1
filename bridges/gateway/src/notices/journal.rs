//! How many notices a receiver has told, in shared memory of its own domain: so that its successor goes
//! on where it was killed.
//!
//! It lies in a mutex that the acting gateway holds as long as it lives, as the journal's.
//!
//! | step, for each number | a successor finds | and |
//! | --- | --- | --- |
//! | `to`, then `intent` = number + 1 | an intent; no listener, some or all have the notices | tells them once more: "uncertain" |
//! | listeners have the notices | the same | |
//! | the number's total = `to` | the intent is of what has been told | goes on |
//! | `intent` = 0 | | |

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::sync::{Mutex as InProcess, PoisonError};

use outlive::Domain;
use outlive::sync::{LockError, Mutex, MutexGuard};
use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::notices::wire::{IDS, Totals};
use crate::wire::Origin;

/// As many notifiers of other domains are told here.
pub const MOST: usize = 256;

/// A notifier's words. Its bytes are the file's: all are read as they are found.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[zerocopy(crate = "outlive::zerocopy")]
#[repr(C)]
struct Words {
    /// 0: free; 1: in use.
    used: u64,
    origin: [u64; 2],
    tenure: u64,
    /// When it was opened last, in openings of all.
    at: u64,
    /// Which number is being told, plus 1; 0: none.
    intent: u64,
    /// Its total by then.
    to: u64,
    unused: u64,
    totals: Totals,
}

/// All of it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[zerocopy(crate = "outlive::zerocopy")]
#[repr(C)]
struct Shared {
    openings: u64,
    unused: [u64; 7],
    notifiers: [Words; MOST],
}

const EMPTY: Words = Words {
    used: 0,
    origin: [0; 2],
    tenure: 0,
    at: 0,
    intent: 0,
    to: 0,
    unused: 0,
    totals: [0; IDS],
};

/// See the head of this file.
pub struct NoticeJournal {
    shared: *mut Shared,
    /// By entry: whether this process uses it.
    taken: InProcess<Vec<bool>>,
}

// SAFETY: `shared` points to memory that the lock's guard, which is never dropped, keeps mapped and this
// process's alone; each entry is used by the one that holds its `Entry`.
unsafe impl Send for NoticeJournal {}
// SAFETY: as above; `taken` is behind a lock, under which an entry is given out.
unsafe impl Sync for NoticeJournal {}

/// A notifier's entry.
pub struct Entry {
    journal: &'static NoticeJournal,
    index: usize,
    /// What its predecessor may have told already: the number, and how many.
    pub uncertain: Option<(u32, u64)>,
}

impl NoticeJournal {
    /// Takes it over. The process has the gateway's journal, and so no other uses this one; the calling
    /// thread owns the lock, and has to live as long as the gateway acts.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(domain: &Domain, gateway: &str) -> Result<&'static NoticeJournal, String> {
        let name = format!("outlive-gateway.{gateway}.notices");
        let empty = Shared { openings: 0, unused: [0; 7], notifiers: [EMPTY; MOST] };
        let lock = Mutex::<Shared>::options(empty).open_or_create(domain, &name);
        let lock: &'static Mutex<Shared> =
            Box::leak(Box::new(lock.map_err(|error| error.to_string())?));
        let mut guard: MutexGuard<'static, Shared> = match lock.lock() {
            Ok(guard) => guard,
            // What it was telling is in the intents.
            Err(LockError::OwnerDied(mut guard)) => {
                guard.mark_consistent();
                guard
            }
            Err(error) => return Err(error.to_string()),
        };
        let shared: *mut Shared = &mut *guard;
        std::mem::forget(guard);
        let taken = InProcess::new(vec![false; MOST]);
        Ok(Box::leak(Box::new(NoticeJournal { shared, taken })))
    }

    fn words(&self, index: usize) -> *mut Words {
        // SAFETY: the pointer is the lock's, and `index` below `MOST` by `entry`.
        unsafe { (&raw mut (*self.shared).notifiers).cast::<Words>().add(index) }
    }

    fn word(&self, index: usize, offset: usize) -> &AtomicU64 {
        let words = self.words(index).cast::<u8>();
        // SAFETY: an offset of one of its words, aligned to 8 bytes, in memory that stays mapped, and that
        // is reached through atomics alone.
        unsafe { AtomicU64::from_ptr(words.add(offset).cast()) }
    }

    fn read(&self, index: usize, offset: usize) -> u64 {
        self.word(index, offset).load(Ordering::Relaxed)
    }

    /// Returns the entry of a notifier elsewhere: the one that a predecessor has left, or a free one, or the
    /// one that was opened longest ago. `None`: all are in use.
    pub fn entry(&'static self, origin: Origin, tenure: u64) -> Option<Entry> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = || (0..MOST).filter(|&index| !taken[index]);
        let halves = [origin.0 as u64, (origin.0 >> 64) as u64];
        let is_its = |index: usize| {
            self.read(index, offset_of!(Words, used)) == 1
                && self.read(index, offset_of!(Words, origin)) == halves[0]
                && self.read(index, offset_of!(Words, origin) + 8) == halves[1]
                && self.read(index, offset_of!(Words, tenure)) == tenure
        };
        let found = free().find(|&index| is_its(index));
        let order = |index: &usize| {
            let used = self.read(*index, offset_of!(Words, used));
            (used, self.read(*index, offset_of!(Words, at)))
        };
        let index = found.or_else(|| free().min_by_key(order))?;
        taken[index] = true;
        if found.is_none() {
            self.word(index, offset_of!(Words, used)).store(0, Ordering::Release);
            // If this process died in between, the entry is free: these stores do not come before that one.
            compiler_fence(Ordering::SeqCst);
            for (offset, value) in [
                (offset_of!(Words, origin), halves[0]),
                (offset_of!(Words, origin) + 8, halves[1]),
                (offset_of!(Words, tenure), tenure),
                (offset_of!(Words, intent), 0),
            ] {
                self.word(index, offset).store(value, Ordering::Relaxed);
            }
        }
        // SAFETY: the head's first word, in memory that stays mapped and is reached through atomics alone.
        let openings = unsafe { AtomicU64::from_ptr((&raw mut (*self.shared).openings).cast()) };
        let at = openings.fetch_add(1, Ordering::Relaxed);
        self.word(index, offset_of!(Words, at)).store(at, Ordering::Relaxed);
        let mut entry = Entry { journal: self, index, uncertain: None };
        entry.uncertain = entry.settle();
        Some(entry)
    }
}

impl Entry {
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.journal.word(self.index, offset)
    }

    /// Returns what a predecessor was telling; it will be told again. The intent stays until then: if this
    /// process dies before it has said so, the next one says it.
    fn settle(&self) -> Option<(u32, u64)> {
        let intent = self.word(offset_of!(Words, intent)).load(Ordering::Relaxed);
        let id = intent.checked_sub(1).filter(|id| *id < IDS as u64)? as usize;
        let to = self.word(offset_of!(Words, to)).load(Ordering::Relaxed);
        let notices = to.saturating_sub(self.total(id));
        (notices > 0).then_some((id as u32, notices))
    }

    /// Whether it is known how many have been told.
    pub fn is_begun(&self) -> bool {
        self.word(offset_of!(Words, used)).load(Ordering::Relaxed) == 1
    }

    /// Begins with these totals: what was before is not told.
    pub fn begin(&self, totals: &Totals) {
        totals.iter().enumerate().for_each(|(id, total)| self.set_total(id, *total));
        // Died before this: it begins later.
        self.word(offset_of!(Words, used)).store(1, Ordering::Release);
    }

    fn total(&self, id: usize) -> u64 {
        self.word(offset_of!(Words, totals) + 8 * id).load(Ordering::Relaxed)
    }

    fn set_total(&self, id: usize, total: u64) {
        self.word(offset_of!(Words, totals) + 8 * id).store(total, Ordering::Release);
    }

    /// Tells what is new in these totals. They only grow: of a number that has a lower one, nothing is.
    pub fn tell(&self, totals: &Totals, add: impl Fn(u32, u64)) {
        for (id, to) in totals.iter().enumerate() {
            let notices = to.saturating_sub(self.total(id));
            if notices == 0 {
                continue;
            }
            self.word(offset_of!(Words, to)).store(*to, Ordering::Relaxed);
            // Release: behind `to`. Died just after: told again, as uncertain.
            self.word(offset_of!(Words, intent)).store(id as u64 + 1, Ordering::Release);
            compiler_fence(Ordering::SeqCst);
            add(id as u32, notices);
            // Release: listeners have them. Died just before: told again. Just after: the intent is of what
            // has been told.
            self.set_total(id, *to);
            self.word(offset_of!(Words, intent)).store(0, Ordering::Release);
        }
    }

    /// Returns all of what has been told.
    pub fn totals(&self) -> Totals {
        std::array::from_fn(|id| self.total(id))
    }
}

impl Drop for Entry {
    /// It may be taken up again; its words stay.
    fn drop(&mut self) {
        let mut taken = self.journal.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken[self.index] = false;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn totals_are_told_once_and_what_was_under_way_again() {
        let folder = std::env::temp_dir().join(format!("outlive-notices-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let journal = NoticeJournal::take(&domain, "j").expect("taken");
        let told = RefCell::new(Vec::new());
        let add = |id, notices| told.borrow_mut().push((id, notices));
        let entry = journal.entry(Origin(1 << 100), 7).expect("free");
        assert!(!entry.is_begun());
        let mut totals = [5; IDS];
        entry.begin(&totals);
        entry.tell(&totals, add);
        (totals[3], totals[63]) = (9, 6);
        entry.tell(&totals, add);
        entry.tell(&[2; IDS], add);
        assert_eq!(told.take(), [(3, 4), (63, 1)]);
        assert_eq!((entry.totals(), entry.uncertain), (totals, None));
        // Killed in the middle of telling 10 more.
        entry.word(offset_of!(Words, to)).store(19, Ordering::Relaxed);
        entry.word(offset_of!(Words, intent)).store(4, Ordering::Relaxed);
        drop(entry);
        let entry = journal.entry(Origin(1 << 100), 7).expect("there");
        assert_eq!((entry.is_begun(), entry.uncertain), (true, Some((3, 10))));
        totals[3] = 20;
        entry.tell(&totals, add);
        assert_eq!(told.take(), [(3, 11)]);
        // Killed just after it was told.
        entry.word(offset_of!(Words, intent)).store(4, Ordering::Relaxed);
        entry.word(offset_of!(Words, to)).store(20, Ordering::Relaxed);
        drop(entry);
        let entry = journal.entry(Origin(1 << 100), 7).expect("there");
        assert_eq!(entry.uncertain, None);
        // No more than there is room for; those that are in use stay.
        let others: Vec<Entry> =
            (0..MOST as u64).map_while(|tenure| journal.entry(Origin(2), tenure)).collect();
        assert_eq!(others.len(), MOST - 1);
        drop(entry);
        assert!(journal.entry(Origin(3), 0).is_some_and(|entry| !entry.is_begun()));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
