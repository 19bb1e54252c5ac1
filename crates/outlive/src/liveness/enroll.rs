//! Claiming a slot of the registry: the only moment when a token is not yet there to name its owner.
//!
//! 1. Bind the slot to my pid namespace and libc, once and for good: a thread of another namespace may bear the same
//!    number as the slot's holder, and if that one's trylock were killed in the middle, the kernel would mark the living
//!    holder dead. So no thread of another namespace ever touches the word.
//! 2. Look, then retire: a dead or free slot whose generation is odd goes to the next even one by compare-exchange,
//!    before any trylock. Sleepers on the generation are woken.
//! 3. Trylock. Then look at the generation again: if it has moved, another claimed and died meanwhile and its id must
//!    not come to life: give back, go on. A slot whose libc words are damaged is passed over. Look also whether the word
//!    holds this thread's id and is in the list that the kernel knows: libc writes what *it* takes the thread for.
//! 4. Record tid, pid, start time, name; generation + 1 (Release): now the id is alive.
//! 5. Wake all on the word; its WAITERS bit is never cleared by us.
//! 6. Fence: no claim made with the id is seen before its generation. Only now is the id used.
//!
//! Killed at 2: retired, the next goes on. At 3: the word is marked, generation even, the next goes on. At 4: the same.
//! At 5: the id is dead before it was used; sleepers of the former owner are woken by the mark.
//!
//! After 8,192 uses the numbers of a slot begin again. An old claim could then pass for a new owner's, so the slot
//! rests until a sweep has looked through the whole domain since (`quarantine_ended`).

use super::id::{GENERATION_MASK, TokenId};
use super::registry::Registry;
use super::slot::{HOLDER, Slot, is_alive_word};
use super::slot_words::{PROCESS, THREAD};
use crate::Error;
use crate::shim::{Ordering, fence};
use crate::sys::keeper::Keeper;
use crate::sys::libc_mutex::{self, Taken};
use crate::sys::process::{self, Answer};
use crate::sys::{Errno, clock, futex, identity, robust};

/// What a slot is claimed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenUse {
    /// The calling thread; it holds the libc mutex until it ends.
    Thread,
    /// The process; the caller is its main thread and holds the libc mutex.
    ProcessByMain,
    /// The process; a keeper holds the second word, the caller gives the libc mutex back.
    ProcessByKeeper,
}

impl TokenUse {
    fn kind(self) -> u32 {
        match self {
            TokenUse::Thread => THREAD,
            TokenUse::ProcessByMain | TokenUse::ProcessByKeeper => PROCESS,
        }
    }
}

enum Attempt {
    /// And the keeper that holds it, if it is one that does.
    Claimed(TokenId, Option<Keeper>),
    /// In use, or lost to another claimer.
    Taken,
    /// Out of numbers until the next sweep.
    Quarantined,
    /// libc refuses what lies in it.
    Damaged(Errno),
}

impl Registry {
    /// Claims a slot. Slots are tried from a cursor that each claimer moves on by one, so the one that was given back
    /// longest ago comes first, more or less.
    #[cold]
    pub(super) fn claim(&self, what: TokenUse) -> Result<(TokenId, Option<Keeper>), Error> {
        // A thread may claim in one domain with a wake-up of another domain's in hand.
        robust::beside_libc(|| self.claim_any(what))
    }

    fn claim_any(&self, what: TokenUse) -> Result<(TokenId, Option<Keeper>), Error> {
        let mut damaged = None;
        loop {
            let slots = self.slots();
            let start = self.next_start();
            let mut resting = 0;
            for step in 0..slots {
                let index = start.wrapping_add(step) % slots;
                let Some(slot) = self.slot_at(index) else { break };
                match self.try_claim(index, slot, what)? {
                    Attempt::Claimed(id, keeper) => {
                        self.note_quarantined(resting, step);
                        return Ok((id, keeper));
                    }
                    Attempt::Taken => {}
                    Attempt::Quarantined => resting += 1,
                    Attempt::Damaged(errno) => damaged = Some(errno),
                }
            }
            // At the largest, resting slots are of no use to us: a sweep needs a token itself.
            self.grow(slots).map_err(|error| match (error, damaged) {
                // All but those in use were refused: what libc said of the last one tells more.
                (Error::NoToken { .. }, Some(errno)) => Error::from_errno("take a token in", self.path(), errno),
                (error, _) => error,
            })?;
        }
    }

    fn try_claim(&self, index: u32, slot: &'static Slot, what: TokenUse) -> Result<Attempt, Error> {
        let binding = slot.binding.load(Ordering::Relaxed);
        let mine = self.binding()?;
        if binding != mine
            && (binding != 0 || slot.binding.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed).is_err())
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
        if generation >> 1 & GENERATION_MASK == 0 && slot.quarantine_ended.load(Ordering::Acquire) != generation {
            return Ok(Attempt::Quarantined);
        }
        libc_mutex::prepare(&self.layout, slot.libc_mutex());
        let mutex = slot.libc_mutex().as_ptr().cast_mut().cast::<u8>();
        // Release pairs with the Acquire load of the word in `Slot::is_alive`: libc's trylock is an acquire and no more, and
        // whoever sees the word held by us must see the generation retired.
        fence(Ordering::Release);
        let failed = |errno: Errno| Error::from_errno("take a token in", self.path(), errno);
        // SAFETY: prepared just now, bound to this libc, never unmapped.
        match unsafe { libc_mutex::try_take(mutex) } {
            Ok(Taken::Busy) => return Ok(Attempt::Taken),
            Ok(Taken::Mine) => {}
            // A stray write (libc says ENOTRECOVERABLE or EINVAL): one slot less.
            Err(errno) => return Ok(Attempt::Damaged(errno)),
        }
        let holder = slot.word().load(Ordering::Relaxed) & HOLDER;
        // SAFETY: taken just now by this thread.
        let will_be_marked = unsafe { libc_mutex::is_listed(&self.layout, mutex) };
        if holder != process::thread_id() || will_be_marked != Ok(true) {
            // libc takes this thread for another, or the kernel has no list of it: its end would go untold.
            // SAFETY: taken just now by this thread, as far as libc is concerned.
            unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
            futex::wake_all(slot.word());
            will_be_marked.map_err(failed)?;
            return Err(Error::ForeignThread { path: self.path().to_path_buf() });
        }
        if slot.generation().load(Ordering::Acquire) != generation {
            // SAFETY: taken just now by this thread.
            unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
            futex::wake_all(slot.word());
            return Ok(Attempt::Taken);
        }
        let by_keeper = what == TokenUse::ProcessByKeeper;
        // By keeper: no thread is recorded for the first word, so only the second counts.
        // Release pairs with the Acquire load of the tid in `Slot::is_held_by_first`: whoever sees our tid sees the
        // generation retired.
        slot.tid.store(if by_keeper { 0 } else { process::thread_id() }, Ordering::Release);
        record(slot, what);
        let mut keeper = None;
        if by_keeper {
            // SAFETY: the registry is never unmapped.
            match unsafe { crate::sys::keeper::start(&slot.keeper) } {
                Ok(started) => keeper = Some(started),
                Err(errno) => {
                    // SAFETY: taken above by this thread.
                    unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
                    return Err(failed(errno));
                }
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
        Ok(Attempt::Claimed(TokenId::new(index, odd >> 1), keeper))
    }

    /// Declares dead an owner that is gone although its words do not say so. Part of the recheck.
    ///
    /// The kernel loses the mark when the memory of a process is reaped before its robust lists are walked, and when a thread
    /// other than the first one calls `execve`. Only [`Answer::Gone`] counts: an owner of whom nothing can be learned lives.
    #[cold]
    pub(crate) fn retire_if_gone(&self, owner: TokenId) {
        let Some(slot) = self.slot(owner) else { return };
        // Acquire: what is asked about below is this generation's, or a later one's, and then the exchange fails.
        let generation = slot.generation().load(Ordering::Acquire);
        // Looked at again afterwards: an ordinary end in between has been marked by then.
        if !slot.is_alive(owner) || self.ask(slot) != Answer::Gone || !slot.is_alive(owner) {
            return;
        }
        // Retire it: nobody's claim bears an even generation. The word stays as it is and the slot stays unusable until
        // that thread id is dead for libc too, which is to say for good: a slot lost for a mark lost.
        self.retire(slot, generation);
    }

    /// Whether the owner of that slot is there, by what the system says of it.
    fn ask(&self, slot: &Slot) -> Answer {
        // Another pid namespace's numbers mean nothing here.
        if !self.is_of_my_namespace(slot) {
            return Answer::Unknown;
        }
        // Relaxed, all: written before the generation that the caller has read, and it looks at that again.
        let pid = slot.pid.load(Ordering::Relaxed);
        let started = slot.start_time();
        match slot.kind() {
            PROCESS => process::ask_process(pid, started),
            THREAD => process::ask_thread(pid, started, slot.tid.load(Ordering::Relaxed), slot.start_mark()),
            // A stray write.
            _ => Answer::Unknown,
        }
    }

    /// Ends a generation that was in use: from now on no claim bears it. Says whether it was this caller that did.
    ///
    /// If the caller dies just after, the sleepers on the words look again after the recheck interval.
    fn retire(&self, slot: &Slot, generation: u32) -> bool {
        let even = generation.wrapping_add(1);
        // Release: a process that sees the generation retired sees what was found out before. Acquire: a claimer goes on from
        // here.
        let retired = slot.generation().compare_exchange(generation, even, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if retired {
            futex::wake_all(slot.generation());
            futex::wake_all(slot.word());
        }
        retired
    }

    /// Whether that dead token is a process's that has not ended yet (or has become another program), as far as can be told: one
    /// of its threads may be writing to a pool still, and a process that asks about that asks here for its pid. Such a slot is not
    /// given out. Where pids tell nothing, nothing is lost with the slot.
    fn may_still_write(&self, slot: &Slot) -> bool {
        slot.is_process()
            && slot.binding.load(Ordering::Relaxed) >> 32 != u64::from(identity::NAMELESS)
            && self.ask(slot) != Answer::Gone
    }

    /// Whether pid and tid of that slot mean anything to this process. Without `/proc` they do not: all namespaces of which
    /// nobody could tell the number share one.
    pub(super) fn is_of_my_namespace(&self, slot: &Slot) -> bool {
        let namespace = slot.binding.load(Ordering::Relaxed) >> 32;
        namespace != u64::from(identity::NAMELESS) && self.binding().is_ok_and(|mine| mine >> 32 == namespace)
    }

    /// Lets slots that rested be used again. The caller has looked through every claim of the domain since `resting`
    /// was taken down, and no claim by a dead owner is left but those that are `kept`, whose slots rest on.
    pub(crate) fn end_quarantine(&self, resting: &[(u32, u32)], kept: &[TokenId]) {
        for &(index, generation) in resting {
            if kept.iter().any(|id| id.slot() == index) {
                continue;
            }
            if let Some(slot) = self.slot_at(index) {
                // Release pairs with the Acquire in `try_claim`: the sweep comes before the next use.
                slot.quarantine_ended.store(generation, Ordering::Release);
            }
        }
    }

    /// The slots that rest just now, and their generations.
    pub(crate) fn quarantined(&self) -> Vec<(u32, u32)> {
        (0..self.slots())
            .filter_map(|index| {
                let slot = self.slot_at(index)?;
                let generation = slot.generation().load(Ordering::Acquire);
                let rests = generation & 1 == 0
                    && generation != 0
                    && generation >> 1 & GENERATION_MASK == 0
                    && slot.quarantine_ended.load(Ordering::Relaxed) != generation;
                rests.then_some((index, generation))
            })
            .collect()
    }

    /// Slots whose owners are dead, and will write nothing more, with their generations.
    pub(crate) fn dead(&self) -> Vec<(u32, u32)> {
        (0..self.slots())
            .filter_map(|index| {
                let slot = self.slot_at(index)?;
                let generation = slot.generation().load(Ordering::Acquire);
                let dead = !is_alive_word(slot.word().load(Ordering::Acquire))
                    && !is_alive_word(slot.keeper.load(Ordering::Acquire));
                (generation & 1 != 0 && dead && !self.may_still_write(slot)).then_some((index, generation))
            })
            .collect()
    }

    /// Retires those of [`Registry::dead`], and says how many.
    pub(crate) fn retire_dead(&self, dead: &[(u32, u32)]) -> u32 {
        let retires =
            |&&(index, generation): &&(u32, u32)| self.slot_at(index).is_some_and(|slot| self.retire(slot, generation));
        dead.iter().filter(retires).count() as u32
    }
}

/// Who the owner is, for people.
fn record(slot: &Slot, what: TokenUse) {
    let own = process::own();
    let mark = if what == TokenUse::Thread { own.mark } else { 0 };
    slot.pid.store(process::process_id(), Ordering::Relaxed);
    slot.set_kind(what.kind());
    slot.set_started(own.started, mark);
    slot.since.store(clock::monotonic_nanos(), Ordering::Relaxed);
    // The last owner may have died in its sleep.
    slot.waiting_at.store(0, Ordering::Relaxed);
    for (word, bytes) in slot.program.iter().zip(own.program.chunks_exact(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Ordering::Relaxed);
    }
}
