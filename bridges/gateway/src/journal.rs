//! What a receiver knows of each stream, in shared memory of its own domain: so that its successor
//! goes on where it was killed.
//!
//! The journal lies in a mutex that the acting gateway holds as long as it lives. A second gateway
//! waits for that lock, and so for the first one's death. An entry is written by one thread at a time:
//!
//! | step | a successor finds | and |
//! | --- | --- | --- |
//! | `place`, `number`, then `intent` = next + 1 | an intent; the message is in the local ring, or not | asks the topic: [`Entry::settle`] |
//! | the message is published | the same | |
//! | `next` + 1: the intent is of no message any more | the count is right | |

use std::fs::File;
use std::io::Read;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::sync::{Mutex as InProcess, PoisonError};
use std::time::Duration;

use outlive::sync::{AcquireError, LockError, Mutex, MutexGuard};
use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use outlive::{Domain, Error, TokenId};

use crate::wire::{Origin, StreamId};

/// As many streams as a receiver can have: publishers of other machines, the ended ones not counted.
pub const MOST_STREAMS: usize = 2048;

/// How often a successor asks whether the one before it has exited.
const ASK_AGAIN: Duration = Duration::from_millis(1);

/// `next` of a stream that begins where its sender says.
const UNKNOWN: u64 = u64::MAX;

/// A stream's words. Its bytes are the file's: all are read as they are found.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[zerocopy(crate = "outlive::zerocopy")]
#[repr(C)]
struct Words {
    /// 0: free; 1: in use; 2: its stream has ended, and may be repeated.
    used: u64,
    origin: [u64; 2],
    instance: u64,
    session: u64,
    next: u64,
    /// For which number of the stream the two words below are, plus 1; 0: none.
    intent: u64,
    /// The local ring, and above it the stand-in's session.
    place: u64,
    /// The number that the message will have there.
    number: u64,
    /// Counts the streams that have ended.
    ended: u64,
    /// The instance of the local topic.
    local: u64,
    unused: [u64; 5],
}

/// All of it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[zerocopy(crate = "outlive::zerocopy")]
#[repr(C)]
struct Shared {
    /// The domain's number for others; 0: not chosen yet.
    origin: [u64; 2],
    /// How often a gateway has begun.
    starts: u64,
    /// The token of the process that did so last.
    gateway: u64,
    unused: [u64; 12],
    streams: [Words; MOST_STREAMS],
}

impl Shared {
    const EMPTY: Shared = Shared {
        origin: [0; 2],
        starts: 0,
        gateway: 0,
        unused: [0; 12],
        streams: [Words {
            used: 0,
            origin: [0; 2],
            instance: 0,
            session: 0,
            next: 0,
            intent: 0,
            place: 0,
            number: 0,
            ended: 0,
            local: 0,
            unused: [0; 5],
        }; MOST_STREAMS],
    };
}

/// The journal of the acting gateway.
pub struct Journal {
    shared: *mut Shared,
    /// By entry: whether a stream of this process has it.
    taken: InProcess<Vec<bool>>,
    /// The domain's number for others.
    pub origin: Origin,
    /// Whether a gateway acted here before.
    pub is_successor: bool,
    /// Which start of the gateway this is.
    pub start: u64,
    /// Counts the streams that have ended.
    ended: AtomicU64,
}

// SAFETY: `shared` points to memory that the lock's guard, which is never dropped, keeps mapped and this
// process's alone; each entry is written by the thread that holds its `Entry`.
unsafe impl Send for Journal {}
// SAFETY: as above; `taken` is behind a lock.
unsafe impl Sync for Journal {}

/// A stream's entry.
pub struct Entry {
    journal: &'static Journal,
    index: usize,
}

/// Why there is no journal.
#[derive(Debug)]
pub enum Failed {
    /// The domain refused.
    Domain(Error),
    /// The lock cannot be taken.
    Lock(AcquireError),
    /// No random bytes.
    Random(std::io::Error),
}

/// Returns random numbers, never all zero.
///
/// # Errors
/// The system has none.
pub fn random() -> std::io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes).max(1))
}

impl Journal {
    /// Waits until no other gateway of that name acts in the domain, and takes the journal over.
    ///
    /// The calling thread owns the lock: it has to live as long as the gateway acts. `waits` is called
    /// once if another gateway acts.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn take(
        domain: &Domain,
        gateway: &str,
        waits: impl FnOnce(),
    ) -> Result<&'static Journal, Failed> {
        let name = format!("outlive-gateway.{gateway}.journal");
        let lock = Mutex::<Shared>::options(Shared::EMPTY)
            .open_or_create(domain, &name)
            .map_err(Failed::Domain)?;
        // Never given back but by this process's end.
        let lock: &'static Mutex<Shared> = Box::leak(Box::new(lock));
        let guard = match lock.try_lock() {
            Ok(None) => {
                waits();
                lock.lock().map(Some)
            }
            other => other,
        };
        let mut guard: MutexGuard<'static, Shared> = match guard {
            Ok(Some(guard)) => guard,
            // What it was doing is in the intents.
            Err(LockError::OwnerDied(mut guard)) => {
                guard.mark_consistent();
                guard
            }
            Ok(None) => unreachable!("it has waited for the lock"),
            Err(error) => return Err(Failed::Lock(error.into())),
        };
        if guard.origin == [0; 2] {
            let number = random().map_err(Failed::Random)?;
            guard.origin = [number as u64, (number >> 64) as u64];
        }
        // The lock's thread is gone; another one of that process may still be publishing.
        while let Some(before) = TokenId::from_u32(guard.gateway as u32)
            && matches!(domain.writes_no_more(before, &name), Ok(false))
            && !domain.peer(before).is_alive()
        {
            std::thread::sleep(ASK_AGAIN);
        }
        guard.gateway = u64::from(domain.process_token().map_err(Failed::Domain)?.as_u32());
        let is_successor = guard.starts > 0;
        guard.starts = guard.starts.wrapping_add(1);
        let start = guard.starts;
        let origin = Origin(u128::from(guard.origin[0]) | u128::from(guard.origin[1]) << 64);
        let ended =
            guard.streams.iter().map(|words| words.ended.saturating_add(1)).max().unwrap_or(0);
        let shared: *mut Shared = &mut *guard;
        std::mem::forget(guard);
        let taken = InProcess::new(vec![false; MOST_STREAMS]);
        Ok(Box::leak(Box::new(Journal {
            shared,
            taken,
            origin,
            is_successor,
            start,
            ended: AtomicU64::new(ended),
        })))
    }

    fn words(&self, index: usize) -> *mut Words {
        // SAFETY: the pointer is the lock's, and `index` below `MOST_STREAMS` by `vec` and `entry`.
        unsafe { (&raw mut (*self.shared).streams).cast::<Words>().add(index) }
    }

    fn load(&self, index: usize) -> Words {
        // SAFETY: plain bytes, of an entry that no thread writes meanwhile: see the callers.
        unsafe { self.words(index).read_volatile() }
    }

    /// Returns the highest session of that topic that any gateway of this domain has known.
    pub fn highest(&self, origin: Origin, instance: u64) -> Option<u32> {
        self.of(origin, instance).map(|words| words.session as u32).max()
    }

    /// Returns the sessions of that topic of which not all has been published, as far as is known.
    pub fn unfinished(&self, origin: Origin, instance: u64) -> Vec<u32> {
        let unfinished = self.of(origin, instance).filter(|words| words.used == 1);
        unfinished.map(|words| words.session as u32).collect()
    }

    fn of(&self, origin: Origin, instance: u64) -> impl Iterator<Item = Words> {
        let is_of = move |words: &Words| {
            words.used != 0
                && Origin(u128::from(words.origin[0]) | u128::from(words.origin[1]) << 64) == origin
                && words.instance == instance
        };
        (0..MOST_STREAMS).map(|index| self.load(index)).filter(is_of)
    }

    /// Returns the entry of a stream: the one that a predecessor has left, or a free one. `None`: all
    /// are in use.
    pub fn entry(&'static self, stream: StreamId) -> Option<Entry> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of = |words: &Words| {
            words.used != 0
                && Origin(u128::from(words.origin[0]) | u128::from(words.origin[1]) << 64)
                    == stream.origin
                && words.instance == stream.instance
                && words.session == u64::from(stream.session)
        };
        let free = || (0..MOST_STREAMS).filter(|&index| !taken[index]);
        if let Some(index) = free().find(|&index| is_of(&self.load(index))) {
            taken[index] = true;
            return Some(Entry { journal: self, index });
        }
        // Then one that is free, then the one whose stream ended first of all.
        let index = free().find(|&index| self.load(index).used == 0).or_else(|| {
            free().min_by_key(|&index| {
                let words = self.load(index);
                (words.used == 1, words.ended)
            })
        })?;
        taken[index] = true;
        let entry = Entry { journal: self, index };
        entry.word(offset_of!(Words, used)).store(0, Ordering::Release);
        // If this process died in between, the entry is free: these stores do not come before that one.
        compiler_fence(Ordering::SeqCst);
        for (word, value) in [
            (entry.word(offset_of!(Words, origin)), stream.origin.0 as u64),
            (entry.word(offset_of!(Words, origin) + 8), (stream.origin.0 >> 64) as u64),
            (entry.word(offset_of!(Words, instance)), stream.instance),
            (entry.word(offset_of!(Words, session)), u64::from(stream.session)),
            (entry.word(offset_of!(Words, next)), UNKNOWN),
            (entry.word(offset_of!(Words, intent)), 0),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        entry.word(offset_of!(Words, used)).store(1, Ordering::Release);
        Some(entry)
    }
}

/// What a successor learns of the message that was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// None was, or it is known what became of it.
    Known,
    /// It may have been published: it will be published again.
    Uncertain,
}

impl Entry {
    /// Returns one of its words, by its offset.
    fn word(&self, offset: usize) -> &AtomicU64 {
        let words = self.journal.words(self.index).cast::<u8>();
        // SAFETY: an offset of one of its words, aligned to 8 bytes, in memory that stays mapped; while
        // the entry is taken, it is reached through atomics alone.
        unsafe { AtomicU64::from_ptr(words.add(offset).cast()) }
    }

    /// Returns the number of the message to be published next; `None`: not known.
    pub fn next(&self) -> Option<u64> {
        let next = self.word(offset_of!(Words, next)).load(Ordering::Relaxed);
        (next != UNKNOWN).then_some(next)
    }

    /// All before that number has been published, or passed over.
    pub fn set_next(&self, next: u64) {
        // Release: after what it counts. If this process died just before, the intent says so.
        self.word(offset_of!(Words, next)).store(next, Ordering::Release);
    }

    /// Message `next` of the stream is about to be published in that instance of the local topic, in that
    /// ring, by that session, with
    /// that number.
    pub fn intend(&self, next: u64, local: u64, ring: u32, session: u32, number: u64) {
        // Not before `next` of the message before.
        compiler_fence(Ordering::SeqCst);
        // If this process died before the last store, the intent is of an earlier message.
        let place = u64::from(session) << 32 | u64::from(ring);
        self.word(offset_of!(Words, local)).store(local, Ordering::Relaxed);
        self.word(offset_of!(Words, place)).store(place, Ordering::Relaxed);
        self.word(offset_of!(Words, number)).store(number, Ordering::Release);
        self.word(offset_of!(Words, intent)).store(next.wrapping_add(1), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    /// A predecessor may have died between publishing and counting: asks `has_published` with local
    /// ring, session and number.
    pub fn settle(
        &self,
        local: u64,
        has_published: impl FnOnce(u32, u32, u64) -> Option<bool>,
    ) -> Settled {
        let Some(next) = self.next() else { return Settled::Known };
        if self.word(offset_of!(Words, intent)).load(Ordering::Relaxed) != next.wrapping_add(1) {
            return Settled::Known;
        }
        if self.word(offset_of!(Words, local)).load(Ordering::Relaxed) != local {
            // That topic was removed: this one has not got the message.
            return Settled::Known;
        }
        let place = self.word(offset_of!(Words, place)).load(Ordering::Relaxed);
        let number = self.word(offset_of!(Words, number)).load(Ordering::Relaxed);
        match has_published(place as u32, (place >> 32) as u32, number) {
            Some(true) => {
                self.set_next(next.saturating_add(1));
                Settled::Known
            }
            Some(false) => Settled::Known,
            None => Settled::Uncertain,
        }
    }
}

impl Entry {
    /// Whether a gateway has published all of the stream: what comes of it is a repeat.
    pub fn is_over(&self) -> bool {
        self.word(offset_of!(Words, used)).load(Ordering::Relaxed) == 2
    }

    /// The stream is over, and all of it has been published. Its entry stays as long as no other
    /// stream needs it: a message that comes late is a repeat.
    pub fn end(self) {
        let ended = self.journal.ended.fetch_add(1, Ordering::Relaxed);
        self.word(offset_of!(Words, ended)).store(ended, Ordering::Relaxed);
        self.word(offset_of!(Words, used)).store(2, Ordering::Release);
    }
}

impl Drop for Entry {
    /// Another stream of this process may take it up again; its words stay.
    fn drop(&mut self) {
        let mut taken = self.journal.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken[self.index] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_domain(name: &str, test: impl FnOnce(&Domain)) {
        let folder = std::env::temp_dir().join(format!("outlive-{name}-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        test(&domain);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    fn stream(session: u32) -> StreamId {
        StreamId { origin: Origin(9), instance: 7, session }
    }

    #[test]
    fn an_entry_is_found_again_and_an_intent_is_settled() {
        with_domain("journal", |domain| {
            let journal = Journal::take(domain, "j", || panic!("none acts")).expect("taken");
            assert!(!journal.is_successor);
            let entry = journal.entry(stream(1)).expect("free");
            assert_eq!(entry.next(), None);
            entry.set_next(5);
            entry.intend(5, 8, 2, 3, 40);
            drop(entry);
            let entry = journal.entry(stream(1)).expect("there");
            assert_eq!(entry.next(), Some(5));
            assert_eq!(entry.settle(8, |_, _, _| None), Settled::Uncertain);
            // The local topic was made anew.
            assert_eq!(entry.settle(9, |_, _, _| panic!("asked")), Settled::Known);
            // It was not published: it is the next one still.
            assert_eq!(entry.settle(8, |_, _, _| Some(false)), Settled::Known);
            assert_eq!(entry.next(), Some(5));
            let asked = |ring, session, number| {
                assert_eq!((ring, session, number), (2, 3, 40));
                Some(true)
            };
            assert_eq!(entry.settle(8, asked), Settled::Known);
            assert_eq!(entry.next(), Some(6));
            // The intent was for 5.
            assert_eq!(entry.settle(8, |_, _, _| panic!("asked twice")), Settled::Known);
            assert_ne!(journal.entry(stream(2)).expect("free").index, entry.index);
            // What comes of it later is a repeat.
            entry.end();
            assert_eq!(journal.entry(stream(1)).expect("kept").next(), Some(6));
        });
    }

    #[test]
    fn no_more_streams_than_there_is_room_for() {
        with_domain("journal-full", |domain| {
            let journal = Journal::take(domain, "j", || ()).expect("taken");
            let entries: Vec<Entry> = (0..MOST_STREAMS as u32)
                .map_while(|session| journal.entry(stream(session)))
                .collect();
            assert_eq!(entries.len(), MOST_STREAMS);
            assert!(journal.entry(stream(u32::MAX)).is_none());
            for entry in entries {
                entry.end();
            }
            // The one that ended first goes.
            assert!(journal.entry(stream(u32::MAX)).is_some());
            assert_eq!(journal.entry(stream(1)).map(|entry| entry.index), Some(1));
        });
    }
}
