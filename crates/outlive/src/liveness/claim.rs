//! Claiming a slot of the registry: the only moment when a token is not yet there to name its owner.
//!
//! 1. Bind the slot to my pid namespace and libc, once and for good: a thread of another namespace may bear the same
//!    number as the slot's holder, and if that one's trylock were killed in the middle, the kernel would mark the living
//!    holder dead. So no thread of another namespace ever touches the word.
//! 2. Look, then retire: a dead or free slot whose generation is odd goes to the next even one by compare-exchange,
//!    before any trylock. Sleepers on the generation are woken.
//! 3. Trylock. Then look at the generation again: if it has moved, another claimed and died meanwhile and its id must
//!    not come to life: give back, go on.
//! 4. Record tid, pid, start time, name; generation + 1 (Release): now the id is alive.
//! 5. Wake all on the word; its WAITERS bit is never cleared by us.
//! 6. Fence: no claim made with the id is seen before its generation. Only now is the id used.
//!
//! Killed at 2: retired, the next goes on. At 3: the word is marked, generation even, the next goes on. At 4: the same.
//! At 5: the id is dead before it was used; sleepers of the former owner are woken by the mark.
//!
//! After 8,192 uses the numbers of a slot begin again. An old claim could then pass for a new owner's, so the slot
//! rests until a sweep has looked through the whole domain since (`rested`).

use super::id::{GENERATION_MASK, TokenId};
use super::registry::Registry;
use super::slot::{Slot, is_alive_word};
use crate::Error;
use crate::shim::{Ordering, fence};
use crate::sys::libc_mutex::{self, Taken};
use crate::sys::{Errno, clock, futex, process, robust};

/// What a slot is claimed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// The calling thread; it holds the libc mutex until it ends.
    Thread,
    /// The process; the caller is its main thread and holds the libc mutex.
    ProcessByMain,
    /// The process; a keeper holds the second word, the caller gives the libc mutex back.
    ProcessByKeeper,
}

impl For {
    fn kind(self) -> u32 {
        match self {
            For::Thread => 1,
            For::ProcessByMain | For::ProcessByKeeper => 2,
        }
    }
}

enum Attempt {
    Claimed(TokenId),
    /// In use, or lost to another claimer.
    Taken,
    /// Out of numbers until the next sweep.
    Resting,
}

impl Registry {
    /// Claims a slot. Slots are tried from a cursor that each claimer moves on by one, so the one that was given back
    /// longest ago comes first, more or less.
    #[cold]
    pub(super) fn claim(&self, what: For) -> Result<TokenId, Error> {
        // A thread may claim in one domain with a wake-up of another domain's in hand.
        robust::beside_libc(|| self.claim_any(what))
    }

    fn claim_any(&self, what: For) -> Result<TokenId, Error> {
        loop {
            let slots = self.slots();
            let start = self.next_start();
            let mut resting = 0;
            for step in 0..slots {
                let index = start.wrapping_add(step) % slots;
                let Some(slot) = self.slot_at(index) else { break };
                match self.try_claim(index, slot, what)? {
                    Attempt::Claimed(id) => {
                        self.note_resting(resting, step);
                        return Ok(id);
                    }
                    Attempt::Taken => {}
                    Attempt::Resting => resting += 1,
                }
            }
            // At the largest, resting slots are of no use to us: a sweep needs a token itself.
            self.grow()?;
        }
    }

    fn try_claim(&self, index: u32, slot: &'static Slot, what: For) -> Result<Attempt, Error> {
        let home = slot.home.load(Ordering::Relaxed);
        let mine = self.home()?;
        if home != mine
            && (home != 0 || slot.home.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed).is_err())
        {
            return Ok(Attempt::Taken);
        }
        // Generation first, then the words: a word seen dead after the generation is that generation's or a later
        // one's, and of a later one the compare-exchange knows nothing.
        let mut generation = slot.generation().load(Ordering::Acquire);
        let held = |word: u32| is_alive_word(word);
        if held(slot.word().load(Ordering::Acquire)) || held(slot.keeper.load(Ordering::Acquire)) {
            return Ok(Attempt::Taken);
        }
        if generation & 1 == 1 {
            if self.may_still_write(slot) {
                return Ok(Attempt::Taken);
            }
            let even = generation.wrapping_add(1);
            if slot.generation().compare_exchange(generation, even, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                return Ok(Attempt::Taken);
            }
            // Whoever sleeps on the old generation has an owner that is dead.
            futex::wake_all(slot.generation());
            generation = even;
        }
        if generation >> 1 & GENERATION_MASK == 0 && slot.rested.load(Ordering::Acquire) != generation {
            return Ok(Attempt::Resting);
        }
        libc_mutex::prepare(&self.layout, slot.libc_mutex());
        let mutex = slot.libc_mutex().as_ptr().cast_mut().cast::<u8>();
        // Release pairs with the Acquire load of the word in `Slot::is_alive`: libc's trylock is an acquire and no more, and
        // whoever sees the word held by us must see the generation retired.
        fence(Ordering::Release);
        let failed = |errno: Errno| Error::from_errno("take a token in", self.path(), errno);
        // SAFETY: prepared just now, bound to this libc, never unmapped.
        match unsafe { libc_mutex::try_take(mutex) }.map_err(failed)? {
            Taken::Busy => return Ok(Attempt::Taken),
            Taken::Mine => {}
        }
        if slot.generation().load(Ordering::Acquire) != generation {
            // SAFETY: taken just now by this thread.
            unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
            futex::wake_all(slot.word());
            return Ok(Attempt::Taken);
        }
        let by_keeper = what == For::ProcessByKeeper;
        // By keeper: no thread is recorded for the first word, so only the second counts.
        // Release pairs with the Acquire load of the tid in `Slot::is_held_by_first`: whoever sees our tid sees the
        // generation retired.
        slot.tid.store(if by_keeper { 0 } else { process::thread_id() }, Ordering::Release);
        record(slot, what);
        if by_keeper {
            // SAFETY: the registry is never unmapped.
            let started = unsafe { crate::sys::keeper::start(&slot.keeper) };
            if let Err(errno) = started {
                // SAFETY: taken above by this thread.
                unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
                return Err(failed(errno));
            }
        }
        let odd = generation.wrapping_add(1);
        // Release: whoever sees the generation sees tid and the rest.
        slot.generation().store(odd, Ordering::Release);
        if by_keeper {
            // SAFETY: taken above by this thread. From here on others may look at the word, see it free, and find the
            // keeper's held.
            unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
        }
        futex::wake_all(slot.word());
        // SeqCst: with the first claim that bears the id, a store that others may see; on ARM the claim would otherwise
        // be visible before the generation, and a live owner read as dead (litmus: message passing).
        fence(Ordering::SeqCst);
        Ok(Attempt::Claimed(TokenId::new(index, odd >> 1)))
    }

    /// Declares dead an owner whose process has ended although its words do not say so: the kernel loses the mark when
    /// the memory of a process is reaped before its robust lists are walked. Part of the coarse re-check.
    #[cold]
    pub(crate) fn confirm(&self, owner: TokenId) {
        let Some(slot) = self.slot(owner) else { return };
        // Another pid namespace's numbers mean nothing here, nor does a /proc that is of another.
        if !self.is_of_my_namespace(slot) || !process::has_own_proc() {
            return;
        }
        let generation = slot.generation().load(Ordering::Acquire);
        let pid = slot.pid.load(Ordering::Relaxed);
        let started = slot.start_time.load(Ordering::Relaxed);
        // Looked at again after /proc: an ordinary end in between has been marked by then.
        if !slot.is_alive(owner) || !process::is_gone(pid, started) || !slot.is_alive(owner) {
            return;
        }
        // Retire it: nobody's claim bears an even generation. The word stays as it is and the slot stays unusable until
        // that thread id is dead for libc too, which is to say for good: a slot lost for a mark lost.
        let even = generation.wrapping_add(1);
        if slot.generation().compare_exchange(generation, even, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            futex::wake_all(slot.generation());
            futex::wake_all(slot.word());
        }
    }

    /// Whether that dead token is a process's that has not ended yet (or has become another program): one of its threads may be
    /// writing to a pool still, and who asks about that asks here for its pid. Such a slot is given to nobody.
    fn may_still_write(&self, slot: &Slot) -> bool {
        slot.kind() == For::ProcessByMain.kind()
            && self.is_of_my_namespace(slot)
            && process::has_own_proc()
            && !process::is_gone(slot.pid.load(Ordering::Relaxed), slot.start_time.load(Ordering::Relaxed))
    }

    /// Whether pid and tid of that slot mean anything to this process.
    pub(super) fn is_of_my_namespace(&self, slot: &Slot) -> bool {
        self.home().is_ok_and(|home| home >> 32 == slot.home.load(Ordering::Relaxed) >> 32)
    }

    /// Lets slots that rested be used again. The caller has looked through every claim of the domain since `resting`
    /// was taken down, and no claim by a dead owner is left.
    pub(crate) fn end_rest(&self, resting: &[(u32, u32)]) {
        for &(index, generation) in resting {
            if let Some(slot) = self.slot_at(index) {
                // Release pairs with the Acquire in `try_claim`: the sweep comes before the next use.
                slot.rested.store(generation, Ordering::Release);
            }
        }
    }

    /// The slots that rest just now, and their generations.
    pub(crate) fn resting(&self) -> Vec<(u32, u32)> {
        (0..self.slots())
            .filter_map(|index| {
                let slot = self.slot_at(index)?;
                let generation = slot.generation().load(Ordering::Acquire);
                let rests = generation & 1 == 0
                    && generation != 0
                    && generation >> 1 & GENERATION_MASK == 0
                    && slot.rested.load(Ordering::Relaxed) != generation;
                rests.then_some((index, generation))
            })
            .collect()
    }

    /// Retires every slot whose owner is dead, and says how many those were.
    pub(crate) fn retire_dead(&self, dry_run: bool) -> u32 {
        let mut retired = 0;
        for index in 0..self.slots() {
            let Some(slot) = self.slot_at(index) else { break };
            let generation = slot.generation().load(Ordering::Acquire);
            let dead = !is_alive_word(slot.word().load(Ordering::Acquire))
                && !is_alive_word(slot.keeper.load(Ordering::Acquire));
            if generation & 1 == 0 || !dead || self.may_still_write(slot) {
                continue;
            }
            let even = generation.wrapping_add(1);
            if dry_run {
                retired += 1;
            } else if slot.generation().compare_exchange(generation, even, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                futex::wake_all(slot.generation());
                futex::wake_all(slot.word());
                retired += 1;
            }
        }
        retired
    }
}

/// Who the owner is, for people.
fn record(slot: &Slot, what: For) {
    let pid = process::process_id();
    slot.pid.store(pid, Ordering::Relaxed);
    slot.set_kind(what.kind());
    slot.start_time.store(process::own_start_time(), Ordering::Relaxed);
    slot.since.store(clock::monotonic_nanos(), Ordering::Relaxed);
    // The last owner may have died in its sleep.
    slot.waiting_at.store(0, Ordering::Relaxed);
    let name = process::program_name();
    for (word, bytes) in slot.program.iter().zip(name.chunks_exact(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Ordering::Relaxed);
    }
}
