//! A job queue as it is open in this process: its memory, and its three verbs.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};

use super::layout::{
    FIXED_SIZE, HEAD_AT, JobsHead, MOST_MAX_ATTEMPTS, Places, SLOT_HEAD, WORDS_AT,
};
use super::table::{Held, Table};
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::{Segment, copy_in, copy_out};
use crate::shim::{AtomicU64, Ordering};
use crate::sys::probe::{self, probe};
use crate::wake::{Look, SpinWait, wait_for};
use crate::{Deadline, Error, Payload, RecvError, SendError};

/// A look at so many slots takes about half a microsecond.
const MOST_SLOTS_TO_SPIN_OVER: usize = 2_000;

/// See the file's head. The constant words are read once, and checked.
pub(crate) struct Inner {
    pub(super) segment: Segment,
    pub(super) registry: &'static Registry,
    pub(super) spin_wait: SpinWait,
    head: NonNull<JobsHead>,
    words: NonNull<[AtomicU64]>,
    ids: NonNull<[AtomicU64]>,
    pub(super) places: Places,
    pub(super) max_attempts: u32,
    pub(super) is_fixed: bool,
    pub(super) unit: u64,
    /// At most `job_bytes`.
    base: u64,
    /// Where this process looks for a free slot first: behind the last one that it found. A hint:
    /// nothing depends on it.
    hint: AtomicUsize,
}

// SAFETY: it holds pointers into the mapping that its own `segment` keeps, to atomics only.
unsafe impl Send for Inner {}
// SAFETY: a shared reference gives access to atomics only.
unsafe impl Sync for Inner {}

/// A slot's words in shared memory.
#[derive(Clone, Copy)]
struct Contents<'a> {
    len: &'a AtomicU64,
    bytes: &'a [AtomicU64],
}

impl Inner {
    pub(super) fn new(segment: Segment, registry: &'static Registry) -> Result<Inner, Error> {
        let head: &JobsHead = segment.at(HEAD_AT)?;
        let of = |word: &crate::shim::AtomicU32| word.load(Ordering::Relaxed);
        let job_bytes = head.job_bytes.load(Ordering::Relaxed);
        let damaged = || segment.damaged("a job queue's size");
        let places = Places::checked(of(&head.max_jobs), job_bytes).ok_or_else(damaged)?;
        let max_attempts = of(&head.max_attempts);
        if max_attempts > MOST_MAX_ATTEMPTS {
            return Err(damaged());
        }
        let (is_fixed, unit) = (of(&head.options) & FIXED_SIZE != 0, of(&head.unit).max(1));
        let base = u64::from(of(&head.base));
        if base > job_bytes {
            return Err(damaged());
        }
        segment.exists(places.slot_at(0))?;
        let words = |at: u64| {
            // SAFETY: `exists` has checked that the file and the mapping reach to the first slot,
            // which lies behind the words; 8-aligned; atomics.
            let words = unsafe { segment.address(at).cast::<AtomicU64>() };
            NonNull::slice_from_raw_parts(
                NonNull::new(words).unwrap_or(NonNull::dangling()),
                places.max_jobs as usize,
            )
        };
        Ok(Inner {
            head: NonNull::from(head),
            words: words(WORDS_AT),
            ids: words(places.ids_at()),
            registry,
            spin_wait: registry.spin_wait(),
            places,
            max_attempts,
            is_fixed,
            unit: u64::from(unit),
            base,
            hint: AtomicUsize::new(0),
            segment,
        })
    }

    pub(super) fn head(&self) -> &JobsHead {
        // SAFETY: `new` has checked the head's range; it is mapped as long as `segment` is.
        unsafe { self.head.as_ref() }
    }

    pub(super) fn table(&self) -> Table<'_> {
        let JobsHead { tickets, slots, jobs, room, finished, .. } = self.head();
        // SAFETY: `new` has checked both ranges; they are mapped as long as `segment` is.
        let (words, ids) = unsafe { (self.words.as_ref(), self.ids.as_ref()) };
        let max_attempts = self.max_attempts;
        Table { words, ids, tickets, slots, max_attempts, jobs, room, finished }
    }

    /// Returns how to spin before a sleep; `None` where one look takes longer than a spin's round
    /// should.
    fn spin_wait(&self) -> Option<&SpinWait> {
        (self.table().len() <= MOST_SLOTS_TO_SPIN_OVER).then_some(&self.spin_wait)
    }

    /// Returns the most bytes of a job.
    pub(super) fn job_bytes(&self) -> u64 {
        self.places.job_bytes
    }

    fn contents(&self, index: usize) -> Result<Contents<'_>, Error> {
        let at = self.places.slot_at(index as u32);
        // `slots` may be damaged: asked of the file.
        self.segment.exists(at + self.places.step())?;
        // SAFETY: `exists` has checked the file and the mapping up to the slot's end; 64-aligned,
        // as the first slot and the step are; atomics.
        unsafe {
            let len = &*self.segment.address(at).cast::<AtomicU64>();
            let bytes = core::slice::from_raw_parts(
                self.segment.address(at + SLOT_HEAD).cast::<AtomicU64>(),
                self.job_bytes().div_ceil(8) as usize,
            );
            Ok(Contents { len, bytes })
        }
    }

    /// Returns a copy of a job.
    pub(super) fn read<M: Payload + ?Sized>(&self, index: usize) -> Result<M::Owned, Error> {
        match self.read_or_damaged::<M>(index)? {
            (data, false) => Ok(data),
            (_, true) => Err(self.segment.damaged("a job's length")),
        }
    }

    /// Returns a copy of a job, and whether its length is damaged: then the copy is of as many
    /// bytes as a job can have, at most of those that the length says.
    pub(super) fn read_or_damaged<M: Payload + ?Sized>(
        &self,
        index: usize,
    ) -> Result<(M::Owned, bool), Error> {
        let payload = self.contents(index)?;
        let (len, is_damaged) = self.len_or_damaged(payload);
        // SAFETY: it writes `len` bytes, for which `make` has room; the slot has as many, as `len`
        // is `max` at most.
        let made = unsafe {
            M::make(len, |to| {
                copy_out(payload.bytes, to, len);
                Ok(((), len))
            })
        };
        let damaged = || self.segment.damaged("a job's length");
        made?.map(|(data, ())| (data, is_damaged)).ok_or_else(damaged)
    }

    /// Returns whether a job's length is damaged, or cannot be read.
    pub(super) fn is_damaged(&self, index: usize) -> bool {
        self.contents(index).map_or(true, |payload| self.len_or_damaged(payload).1)
    }

    /// Returns the length of a job, as one that is possible, and whether the job says another.
    fn len_or_damaged(&self, payload: Contents<'_>) -> (usize, bool) {
        let max = self.job_bytes();
        let told = payload.len.load(Ordering::Relaxed);
        let items = told.min(max).saturating_sub(self.base) / self.unit * self.unit;
        let possible = if self.is_fixed { max } else { self.base + items };
        (possible as usize, told != possible)
    }

    /// Returns whether jobs may have so many bytes.
    fn check_len(&self, len: u64) -> Result<(), SendError> {
        let max = self.job_bytes();
        let items = len.saturating_sub(self.base).next_multiple_of(self.unit);
        let wanted = if self.is_fixed { max } else { self.base.saturating_add(items) };
        match () {
            () if wanted != len => Err(SendError::OtherLength { len, wanted }),
            () if len > max => Err(SendError::TooLarge { len, max }),
            () => Ok(()),
        }
    }

    /// Puts a job, waiting for a slot until the deadline; `None` does not wait. Returns its ticket.
    pub(super) fn put(&self, bytes: &[u8], deadline: Option<Deadline>) -> Result<u64, SendError> {
        self.check_len(bytes.len() as u64)?;
        let me = self.registry.me()?;
        let (table, room) = (self.table(), &self.head().room);
        let look = || self.claim(me);
        let deadline_or_now = deadline.unwrap_or(Deadline::at_nanos(0));
        let has_free = || table.has_free();
        let claimed = self.note_wait(probe::FOR_ROOM, deadline_or_now, has_free, || {
            wait_for(me, self.spin_wait(), room, deadline_or_now, has_free, look)
        })?;
        let Some(held) = claimed else {
            return Err(match deadline {
                None => SendError::Full { slowest: None },
                Some(_) => SendError::TimedOut { slowest: None },
            });
        };
        let payload = match self.contents(held.index) {
            Ok(payload) => payload,
            Err(error) => {
                table.abandon(held);
                return Err(error.into());
            }
        };
        // Relaxed: the word says that they are whole.
        payload.len.store(bytes.len() as u64, Ordering::Relaxed);
        copy_in(payload.bytes, bytes);
        let job = table.publish(held).ok_or(SendError::NotOwner)?;
        probe!(job_put, self.segment.path(), job, bytes.len() as u64);
        Ok(job)
    }

    fn claim(&self, me: Me) -> Result<Look<Held>, Error> {
        loop {
            let seen = self.table().len();
            match self.table().claim(me, self.hint.load(StdOrdering::Relaxed)) {
                Look::Got(held) => {
                    self.hint.store(held.index + 1, StdOrdering::Relaxed);
                    return Ok(Look::Got(held));
                }
                Look::Nothing(owners) if !self.grow(seen as u32)? => {
                    return Ok(Look::Nothing(owners));
                }
                Look::Nothing(_) => {}
            }
        }
    }

    /// Makes more slots, if there are still as many as the caller has seen. Returns whether there
    /// are more now.
    #[cold]
    fn grow(&self, seen: u32) -> Result<bool, Error> {
        let more = self.places.more_slots(seen);
        if more <= seen {
            return Ok(false);
        }
        if self.table().len() == seen as usize {
            let (from, to) = (self.places.slot_at(seen), self.places.slot_at(more));
            match self.segment.grow(from, to - from) {
                Ok(()) => {}
                // The file system is full: the queue is as large as it can be just now.
                Err(Error::NoSpace { .. }) => return Ok(false),
                Err(other) => return Err(other),
            }
            // Release pairs with `len`: the pages. Died just before: they exist, and the next
            // producer asks for them again.
            self.head().slots.fetch_max(more, Ordering::Release);
        }
        Ok(true)
    }

    /// Makes slots until there are so many.
    pub(super) fn make_slots(&self, jobs: usize) -> Result<(), SendError> {
        loop {
            let seen = self.table().len();
            if seen >= jobs {
                return Ok(());
            }
            if !self.grow(seen as u32)? {
                let wanted = (jobs - seen) as u64;
                let wanted = wanted.saturating_mul(self.places.step());
                return Err(SendError::NoSpace { wanted, held: 0 });
            }
        }
    }

    /// Takes a job, waiting until the deadline; `None` when none came.
    pub(super) fn take(&self, deadline: Deadline) -> Result<Option<(TokenId, Held)>, RecvError> {
        let process = self.registry.process_token()?;
        let me = self.registry.me()?;
        let (table, jobs) = (self.table(), &self.head().jobs);
        let look = || Ok::<_, Error>(table.take(me, process));
        let has_waiting = || table.has_waiting();
        let held = self.note_wait(probe::FOR_MESSAGES, deadline, has_waiting, || {
            wait_for(me, self.spin_wait(), jobs, deadline, has_waiting, look)
        })?;
        if let Some(held) = &held {
            probe!(job_take, self.segment.path(), held.id, held.word.attempts().into());
        }
        Ok(held.map(|held| (process, held)))
    }

    /// Waits until all jobs are done or set aside, or until the deadline; returns whether they are.
    pub(super) fn join(&self, deadline: Deadline) -> Result<bool, Error> {
        let me = self.registry.me()?;
        let (table, finished) = (self.table(), &self.head().finished);
        let is_done = || matches!(table.all_done(me), Look::Got(()));
        let look = || Ok(table.all_done(me));
        let done = self.note_wait(probe::FOR_ALL_DONE, deadline, is_done, || {
            wait_for(me, self.spin_wait(), finished, deadline, is_done, look)
        })?;
        Ok(done.is_some())
    }

    /// Waits; a tool that watches is told of it, if what is waited for is not there.
    #[inline]
    fn note_wait<T>(
        &self,
        what: u64,
        deadline: Deadline,
        is_there: impl Fn() -> bool,
        wait: impl FnOnce() -> T,
    ) -> T {
        let is_watched = probe::job_wait::is_watched() || probe::job_waited::is_watched();
        if !is_watched || deadline.has_passed() || is_there() {
            return wait();
        }
        probe!(job_wait, self.segment.path(), what);
        let got = wait();
        probe!(job_waited, self.segment.path(), what);
        got
    }
}
