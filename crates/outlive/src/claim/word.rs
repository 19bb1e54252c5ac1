//! A word that names its owner: taking it, taking it over from a dead owner, leaving it.
//!
//! | word | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | free | |
//! | id | the thread with that token owns it | the next taker takes it over by compare-exchange, and knows that it did |
//! | id + WAITERS | owned, and a thread may sleep until it is not | the same; the kernel's mark wakes one sleeper, which wakes all |
//! | id + marks | owned; the owner tells others something by bits beside its id (`MARKS`) | as without them |
//! | `DIED` | its owner is dead, and a sweep has taken the name out | as a dead owner's id |
//! | else | the user's own value, at which a claim ends; or a stray write | |
//!
//! A mutex and a value that is made once are such a word and a second one that only the owner
//! writes. proof/models/mutex.pml checks this protocol with deaths at any step, and so do the loom
//! tests in sync/raw/mutex.rs and sync/raw/once.rs. doc/protocols/mutex.md has the argument.

use crate::Deadline;
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::Errno;
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, SpinWait};

const WAITERS: u32 = crate::liveness::WAITERS;
/// In place of a dead owner's id, because its token may be given out again. The letters "DIED"; no
/// id, because bit 29 is not set, and a number that a stray write is unlikely to leave.
pub(crate) const DIED: u32 = 0x4449_4544;

/// See the file's head. `MARKS` are the bits that its owner may set beside its id; any other bit
/// there is a stray write's.
#[repr(transparent)]
pub(crate) struct Word<const MARKS: u32 = 0>(AtomicU32);

/// How a thread became the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// The word was free.
    Free,
    /// From a dead owner.
    TakenOver,
}

/// Why a thread did not become the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclaimed {
    /// This thread owns the word already.
    Deadlock,
    /// A living thread owns it.
    WouldBlock,
    /// A living thread still owned it when the deadline passed.
    TimedOut,
    /// A living thread owns it, and has set a mark that the caller heeds.
    Marked,
    /// The word has this value, which no claim leaves.
    Other(u32),
    System(Errno),
}

/// Which marks beside a living owner's id tell a thread that wants the word to wait no longer.
#[derive(Clone, Copy)]
pub(crate) struct Heed<'a> {
    pub(crate) marks: u32,
    /// They count only while this word is 0. The owner, which alone writes it, does not make it 0
    /// while it has one of them set.
    pub(crate) unless: &'a AtomicU32,
}

impl Heed<'_> {
    /// Returns whether that value of the word has a mark that counts.
    fn sees_mark(self, seen: u32) -> bool {
        // Relaxed: the caller's Acquire load of the word orders it.
        seen & self.marks != 0 && self.unless.load(Ordering::Relaxed) == 0
    }
}

impl<const MARKS: u32> Word<MARKS> {
    /// Returns the owner that a value of this word names.
    #[inline]
    pub(crate) fn owner_in(seen: u32) -> Option<TokenId> {
        // All ones is what a stray write leaves most easily. With all marks out it would read as an
        // id: the last generation's of a slot that hardly any domain has.
        if MARKS != 0 && seen == u32::MAX {
            return None;
        }
        TokenId::from_word(seen & !MARKS)
    }

    /// Takes the word for `id` if it is free.
    #[inline]
    pub(crate) fn acquire(&self, id: TokenId) -> bool {
        // Acquire pairs with the Release in `release`; on failure too, for what a dead owner left.
        // Died just after: the word names us, so the next taker takes it over, and knows.
        self.0.compare_exchange(0, id.as_u32(), Ordering::Acquire, Ordering::Acquire).is_ok()
    }

    /// Takes the word likewise, for a caller that next looks whether readers are inside.
    #[inline]
    pub(crate) fn acquire_before_looking(&self, id: TokenId) -> bool {
        // SeqCst: comes before the look in the order of a reader's claim and look, see `RawRwLock`.
        // Otherwise as in `acquire`.
        self.0.compare_exchange(0, id.as_u32(), Ordering::SeqCst, Ordering::Acquire).is_ok()
    }

    /// Takes the word if it is free or its owner is dead; never waits.
    #[cold]
    pub(crate) fn try_claim(&self, me: Me) -> Result<Claimed, Unclaimed> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let mine = match seen {
                0 => me.id.as_u32(),
                // WAITERS, because others may sleep on the old value.
                DIED => me.id.as_u32() | WAITERS,
                _ => match Self::owner_in(seen).ok_or(Unclaimed::Other(seen))? {
                    owner if owner == me.id => return Err(Unclaimed::Deadlock),
                    owner if me.is_alive(owner) => return Err(Unclaimed::WouldBlock),
                    _ => me.id.as_u32() | WAITERS,
                },
            };
            // As in `acquire`. Died just after: we are the dead owner, and the next taker knows.
            match self.0.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Acquire) {
                Ok(0) => return Ok(Claimed::Free),
                Ok(_) => return Ok(Claimed::TakenOver),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the word, and waits until the deadline while a living thread owns it.
    #[cold]
    pub(crate) fn claim(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<Claimed, Unclaimed> {
        self.claim_heeding(me, spin_wait, deadline, Heed { marks: 0, unless: &self.0 })
    }

    /// Takes the word likewise, unless its living owner has set a mark that the caller heeds.
    #[cold]
    pub(crate) fn claim_heeding(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
        heed: Heed<'_>,
    ) -> Result<Claimed, Unclaimed> {
        // Spinning only loads: a death leaves nothing. Relaxed: `try_claim` loads again.
        spin_wait.spin_until(deadline, || Self::owner_in(self.0.load(Ordering::Relaxed)).is_none());
        // Given back when this function returns, in whatever way.
        let mut relay = None;
        let mut last_try = false;
        loop {
            match self.try_claim(me) {
                Err(Unclaimed::WouldBlock) if heed.sees_mark(self.0.load(Ordering::Acquire)) => {
                    return Err(Unclaimed::Marked);
                }
                Err(Unclaimed::WouldBlock) if last_try => return Err(Unclaimed::TimedOut),
                Err(Unclaimed::WouldBlock) => {}
                settled => return settled,
            }
            let slept = self.sleep_behind_owner(me, &mut relay, deadline, heed);
            last_try = slept.map_err(Unclaimed::System)? == Asleep::TimedOut;
        }
    }

    /// Sleeps until the word changes or its living owner ends; returns at once if there is no such
    /// owner, or if it has set a mark that the caller heeds. The caller keeps `relay` until it has
    /// what it wants.
    #[cold]
    pub(crate) fn sleep_behind_owner(
        &self,
        me: Me,
        relay: &mut Option<WakeRelay>,
        deadline: Deadline,
        heed: Heed<'_>,
    ) -> Result<Asleep, Errno> {
        let seen = self.0.load(Ordering::Acquire);
        let Some(owner) = Self::owner_in(seen).filter(|owner| *owner != me.id) else {
            return Ok(Asleep::LookAgain);
        };
        let waited_for = seen | WAITERS;
        let mut words = [Watch { word: &self.0, expected: waited_for }; 2];
        let mut len = 1;
        if seen & heed.marks != 0 {
            let expected = heed.unless.load(Ordering::Relaxed);
            if expected == 0 {
                return Ok(Asleep::LookAgain);
            }
            // The owner may take the mark out, clear this word, and set the mark again, all before
            // we are in the queue: then the first word has the same value as before, and the wake
            // has been. It cleared this one before that wake, and the kernel looks at it after it
            // has queued us on the first.
            words[1] = Watch { word: heed.unless, expected };
            len = 2;
        }
        // Acquire: if the owner has set its mark again meanwhile, and woken no thread, because the
        // bit was not there, we see in the second word what it cleared before. Otherwise the bit only
        // asks the owner to wake us. Died just after: an empty wake, no harm.
        if seen & WAITERS == 0
            && self
                .0
                .compare_exchange(seen, waited_for, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return Ok(Asleep::LookAgain);
        }
        let relay = relay.get_or_insert_with(|| WakeRelay::begin(me.list()));
        // A mark that this sleeper does not heed wakes it in vain, or not at all.
        let has_changed = || {
            let now = self.0.load(Ordering::Acquire);
            (now ^ waited_for) & !MARKS != 0 || heed.sees_mark(now)
        };
        Sleep::on(me.registry, &words[..len])
            .behind(relay, &[owner])
            .until_it_comes(deadline, has_changed)
    }

    /// Leaves the word, free or with the user's own value in it. The caller, whose token has that
    /// id, owns the word: one locked instruction, no load. If another thread owns it by now, because
    /// a process declared this one dead, nothing changes.
    #[inline]
    pub(crate) fn release(&self, id: TokenId, left: u16) {
        self.release_marked(id, 0, left);
    }

    /// Leaves the word likewise, in which the owner has set those marks.
    #[inline]
    pub(crate) fn release_marked(&self, id: TokenId, marks: u32, left: u16) {
        let held = id.as_u32() | marks;
        // Release pairs with every Acquire above. With WAITERS the word is not left here: if this
        // thread were stopped before the wake, the sleepers would not know. Died just before: the
        // next taker takes over.
        if self
            .0
            .compare_exchange(held, u32::from(left), Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            self.release_to_sleepers(held, left);
        }
    }

    /// Leaves the word and wakes all sleepers, in one step: an owner that is stopped before it still
    /// owns the word, one that is stopped after it has woken every sleeper. If it is killed before
    /// it, the sleepers watch our token, and the kernel's mark wakes one of them, which wakes the
    /// rest.
    ///
    /// All: if one waiter alone were woken, and killed or stopped before it runs, the others would
    /// sleep on, because they watch our token and not the next owner's.
    #[cold]
    #[inline(never)]
    fn release_to_sleepers(&self, held: u32, left: u16) {
        let held = held | WAITERS;
        // Relaxed: only an owner takes WAITERS away. Another value belongs to another thread: then
        // there is nothing to leave.
        if self.0.load(Ordering::Relaxed) == held {
            futex::set_and_wake_all(&self.0, held, left);
        }
    }

    /// Leaves [`DIED`] in place of a dead owner's id, so that no claim of the dead remains. The next
    /// taker knows of the death as by the id. Returns whether there was one.
    pub(crate) fn sweep(&self, me: Me, dry_run: bool) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        let Some(owner) = Self::owner_in(seen) else {
            return false;
        };
        if me.is_alive(owner) {
            return false;
        }
        // Again when a waiter has set its bit meanwhile: it may die before it takes the word over.
        while !dry_run && Self::owner_in(seen) == Some(owner) {
            // In one step: a sweep that became the owner could be stopped as the owner. AcqRel: the
            // next owner, which takes over by an Acquire, sees what the dead owner wrote. Relaxed:
            // after a failure it tries again, or the word is another thread's.
            match self.0.compare_exchange(seen, DIED, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    if seen & WAITERS != 0 {
                        // Died or stopped just before: the sleepers watch the dead owner's token,
                        // as if there were no sweep.
                        futex::wake_all(&self.0);
                    }
                    break;
                }
                Err(now) => seen = now,
            }
        }
        true
    }

    /// Takes the word for `id` if it is free, with those marks beside the id.
    #[inline]
    pub(crate) fn acquire_marked(&self, id: TokenId, marks: u32) -> bool {
        let mine = id.as_u32() | marks;
        // As in `acquire`.
        self.0.compare_exchange(0, mine, Ordering::Acquire, Ordering::Acquire).is_ok()
    }

    /// Sets the mark of that bit beside the owner's id, and wakes the sleepers, which may heed it.
    /// The caller, whose token has that id, owns the word. Does nothing if another thread owns it
    /// by now.
    #[cold]
    pub(crate) fn set_mark(&self, id: TokenId, bit: u8) {
        // Release: what the owner wrote is seen by those that heed the mark. Died or stopped just
        // before: the word is owned without the mark; just after: with it.
        if let Err(seen) = self.0.compare_exchange(
            id.as_u32(),
            id.as_u32() | 1 << bit,
            Ordering::Release,
            Ordering::Relaxed,
        ) && seen == id.as_u32() | WAITERS
        {
            futex::set_bit_and_wake_all(&self.0, seen, bit);
        }
    }

    /// Takes a mark out that the owner has set. The caller, whose token has that id, owns the word.
    /// Returns false, and does nothing, if another thread owns the word by now.
    #[cold]
    pub(crate) fn clear_mark(&self, id: TokenId, bit: u8) -> bool {
        let mark = 1 << bit;
        let mut seen = id.as_u32() | mark;
        // Twice at most: only WAITERS can come in between, and only the owner takes it away.
        // SeqCst: comes before the owner's look at the words of those that heeded the mark, see
        // `RawRwLock`. Died just after: the word names a dead owner, as with the mark.
        while seen & !WAITERS == id.as_u32() | mark {
            match self.0.compare_exchange(seen, seen & !mark, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Returns whether the word still names `id`: if a process declared that owner dead, another
    /// may own the word by now.
    pub(crate) fn is_held_by(&self, id: TokenId) -> bool {
        // Relaxed: the owner's own store, or another's, of which nothing else is read.
        self.0.load(Ordering::Relaxed) & !WAITERS == id.as_u32()
    }

    /// Returns the owner, dead or alive.
    pub(crate) fn owner(&self) -> Option<TokenId> {
        Self::owner_in(self.0.load(Ordering::Acquire))
    }

    /// Returns the value, with that ordering.
    #[inline]
    pub(crate) fn load(&self, ordering: Ordering) -> u32 {
        self.0.load(ordering)
    }

    /// Returns the word itself.
    #[inline]
    pub(crate) fn as_atomic(&self) -> &AtomicU32 {
        &self.0
    }
}

#[cfg(any(test, loom))]
impl<const MARKS: u32> Word<MARKS> {
    /// Makes a word with that value.
    pub(crate) fn new(value: u32) -> Word<MARKS> {
        Word(AtomicU32::new(value))
    }
}
