//! Claiming a slot of the registry: the only moment when no token names the owner yet.
//!
//! 1. Bind the slot to this pid namespace and this libc, once and for good. A thread of another
//!    namespace may have the same number as the slot's holder; if its trylock were killed in the
//!    middle, the kernel would mark the living holder dead. So no thread of another namespace ever
//!    touches the word.
//! 2. Look, then retire: a dead or free slot with an odd generation goes to the next even one by
//!    compare-exchange, before any trylock. Sleepers on the generation are woken.
//! 3. Trylock. Then look at the generation again: if it has moved, another thread claimed and died
//!    meanwhile, and its id must not come to life: give back, go on. A slot whose libc words are
//!    damaged is passed over. Check also that the word holds this thread's id and is in the list
//!    that the kernel knows: libc writes the id that *it* believes the thread has.
//! 4. Record tid, pid, start time, name; generation + 1 (Release): now the id is alive.
//! 5. Wake all on the word; this code never clears its WAITERS bit.
//! 6. Fence: no process sees a claim made with the id before its generation. Only now is the id
//!    used.
//!
//! Killed at 2: retired, the next claimer goes on. At 3: the word is marked, the generation even,
//! the next claimer goes on. At 4: the same. At 5: the id is dead before it was used; the mark
//! wakes sleepers of the former owner.
//!
//! After 8,192 uses the numbers of a slot begin again. An old claim could then pass for a new
//! owner's, so the slot stays in quarantine until a sweep has looked through the whole domain since
//! (`quarantine_ended`).

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
    /// Claimed, with the keeper that holds it, if one does.
    Claimed(TokenId, Option<Keeper>),
    /// In use, or lost to another claimer.
    Taken,
    /// In quarantine: out of numbers until the next sweep.
    Quarantined,
    /// libc refuses the words in it.
    Damaged(Errno),
}

impl Registry {
    /// Claims a slot. It tries slots from a cursor that each claimer moves on by one, so more or
    /// less the one that was given back longest ago comes first.
    #[cold]
    pub(super) fn claim(&self, what: TokenUse) -> Result<(TokenId, Option<Keeper>), Error> {
        // A thread may claim in one domain while it has a wake-up of another domain in hand.
        robust::beside_libc(|| self.claim_any(what))
    }

    fn claim_any(&self, what: TokenUse) -> Result<(TokenId, Option<Keeper>), Error> {
        let mut damaged = None;
        loop {
            let slots = self.slots();
            let start = self.next_start();
            let mut quarantined = 0;
            for step in 0..slots {
                let index = start.wrapping_add(step) % slots;
                let Some(slot) = self.slot_at(index) else { break };
                match self.try_claim(index, slot, what)? {
                    Attempt::Claimed(id, keeper) => {
                        self.note_quarantined(quarantined, step);
                        return Ok((id, keeper));
                    }
                    Attempt::Taken => {}
                    Attempt::Quarantined => quarantined += 1,
                    Attempt::Damaged(errno) => damaged = Some(errno),
                }
            }
            // Beyond the largest registry, quarantined slots cannot help: a sweep needs a
            // token itself.
            self.grow(slots).map_err(|error| match (error, damaged) {
                // libc refused all slots that were not in use: its answer for the last one tells
                // more.
                (Error::NoToken { .. }, Some(errno)) => {
                    Error::from_errno("take a token in", self.path(), errno)
                }
                (error, _) => error,
            })?;
        }
    }

    fn try_claim(&self, index: u32, slot: &'static Slot, what: TokenUse) -> Result<Attempt, Error> {
        let binding = slot.binding.load(Ordering::Relaxed);
        let mine = self.binding()?;
        if binding != mine
            && (binding != 0
                || slot
                    .binding
                    .compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed)
                    .is_err())
        {
            return Ok(Attempt::Taken);
        }
        // Generation first, then the words: a word that reads dead after the generation is that
        // generation's or a later one's; for a later one the compare-exchange fails.
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
            if slot
                .generation()
                .compare_exchange(generation, even, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                return Ok(Attempt::Taken);
            }
            // Sleepers on the old generation watch a dead owner.
            futex::wake_all(slot.generation());
            generation = even;
        }
        if generation >> 1 & GENERATION_MASK == 0
            && slot.quarantine_ended.load(Ordering::Acquire) != generation
        {
            return Ok(Attempt::Quarantined);
        }
        libc_mutex::prepare(&self.layout, slot.libc_mutex());
        let mutex = slot.libc_mutex().as_ptr().cast_mut().cast::<u8>();
        // Release pairs with the Acquire load of the word in `Slot::is_alive`: libc's trylock is an
        // acquire and no more, and a process that sees the word held by us must see the generation
        // retired.
        fence(Ordering::Release);
        let failed = |errno: Errno| Error::from_errno("take a token in", self.path(), errno);
        // SAFETY: `prepare` has just laid the words out for this libc; the registry is never
        // unmapped (registry.rs).
        match unsafe { libc_mutex::try_take(mutex) } {
            Ok(Taken::Busy) => return Ok(Attempt::Taken),
            Ok(Taken::Mine) => {}
            // A stray write (libc says ENOTRECOVERABLE or EINVAL): one slot less.
            Err(errno) => return Ok(Attempt::Damaged(errno)),
        }
        let holder = slot.word().load(Ordering::Relaxed) & HOLDER;
        // SAFETY: this thread has just taken the mutex.
        let will_be_marked = unsafe { libc_mutex::is_listed(&self.layout, mutex) };
        if holder != process::thread_id() || will_be_marked != Ok(true) {
            // libc takes this thread for another, or the kernel has no list of it: no process would
            // learn of its end.
            // SAFETY: this thread has just taken the mutex, as far as libc is concerned.
            unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
            futex::wake_all(slot.word());
            will_be_marked.map_err(failed)?;
            return Err(Error::ForeignThread { path: self.path().to_path_buf() });
        }
        if slot.generation().load(Ordering::Acquire) != generation {
            // SAFETY: this thread has just taken the mutex.
            unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
            futex::wake_all(slot.word());
            return Ok(Attempt::Taken);
        }
        let by_keeper = what == TokenUse::ProcessByKeeper;
        // By keeper: no thread is recorded for the first word, so only the second counts. Release
        // pairs with the Acquire load of the tid in `Slot::is_held_by_first`: a process that sees
        // our tid sees the generation retired.
        slot.tid.store(if by_keeper { 0 } else { process::thread_id() }, Ordering::Release);
        record(slot, what);
        let mut keeper = None;
        if by_keeper {
            // SAFETY: `slot.keeper` lies in the registry's mapping, which is never unmapped
            // (registry.rs).
            match unsafe { crate::sys::keeper::start(&slot.keeper) } {
                Ok(started) => keeper = Some(started),
                Err(errno) => {
                    // SAFETY: this thread has taken the mutex above.
                    unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
                    return Err(failed(errno));
                }
            }
        }
        let odd = generation.wrapping_add(1);
        // Release: a process that sees the generation sees the tid and the rest.
        slot.generation().store(odd, Ordering::Release);
        if by_keeper {
            // SAFETY: this thread has taken the mutex above. From here on others may find the word
            // free, and the keeper's held.
            unsafe { libc_mutex::give_back(mutex) }.map_err(failed)?;
        }
        futex::wake_all(slot.word());
        // SeqCst: with the first claim that holds the id, a store that others may see; on ARM the
        // claim could otherwise be visible before the generation, and a live owner would read dead
        // (litmus: message passing).
        fence(Ordering::SeqCst);
        Ok(Attempt::Claimed(TokenId::new(index, odd >> 1), keeper))
    }

    /// Declares an owner dead that is gone although its words do not say so. Part of the recheck.
    ///
    /// The kernel loses the mark when it reaps the memory of a process before it walks the robust
    /// lists, and when a thread other than the first one calls `execve`. Only [`Answer::Gone`]
    /// counts: an owner of which `/proc` tells nothing lives.
    #[cold]
    pub(crate) fn retire_if_gone(&self, owner: TokenId) {
        let Some(slot) = self.slot(owner) else { return };
        // Acquire: what is asked below concerns this generation, or a later one, and then the
        // exchange fails.
        let generation = slot.generation().load(Ordering::Acquire);
        // Looked at again afterwards: the kernel has marked an ordinary end in between by then.
        if !slot.is_alive(owner) || self.ask(slot) != Answer::Gone || !slot.is_alive(owner) {
            return;
        }
        // Retire it: no claim has an even generation. The word stays as it is, and the slot stays
        // unusable until that thread id is dead for libc too, which is to say for good: each lost
        // mark costs one slot.
        self.retire(slot, generation);
    }

    /// Returns whether the owner of that slot exists, as far as the system says.
    fn ask(&self, slot: &Slot) -> Answer {
        // Another pid namespace's numbers mean nothing here.
        if !self.is_of_my_namespace(slot) {
            return Answer::Unknown;
        }
        // Relaxed, all: written before the generation that the caller has read, and the caller
        // looks at that again.
        let pid = slot.pid.load(Ordering::Relaxed);
        let started = slot.start_time();
        match slot.kind() {
            PROCESS => process::ask_process(pid, started),
            THREAD => process::ask_thread(
                pid,
                started,
                slot.tid.load(Ordering::Relaxed),
                slot.start_mark(),
            ),
            // A stray write.
            _ => Answer::Unknown,
        }
    }

    /// Ends a generation that was in use: from now on no claim has it. Returns whether this caller
    /// did it.
    ///
    /// If the caller dies just after, the sleepers on the words look again at their recheck.
    fn retire(&self, slot: &Slot, generation: u32) -> bool {
        let even = generation.wrapping_add(1);
        // Release: a process that sees the generation retired sees what was found out before.
        // Acquire: a claimer goes on from here.
        let retired = slot
            .generation()
            .compare_exchange(generation, even, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if retired {
            futex::wake_all(slot.generation());
            futex::wake_all(slot.word());
        }
        retired
    }

    /// Returns whether that dead token belongs to a process that has not exited yet (or has become
    /// another program), as far as can be told. One of its threads may still be writing to a pool,
    /// and a process that asks about that reads the pid here, so such a slot is not given out.
    /// Where pids tell nothing, returns false.
    fn may_still_write(&self, slot: &Slot) -> bool {
        slot.is_process()
            && slot.binding.load(Ordering::Relaxed) >> 32 != u64::from(identity::NAMELESS)
            && self.ask(slot) != Answer::Gone
    }

    /// Returns whether two tokens are of one pid namespace, so that their pids may be compared.
    pub(crate) fn are_of_one_namespace(&self, one: TokenId, other: TokenId) -> bool {
        let namespace = |id| {
            let slot: Option<&Slot> = self.slot(id);
            slot.map(|slot| slot.binding.load(Ordering::Relaxed) >> 32)
        };
        namespace(one).is_some() && namespace(one) == namespace(other)
    }

    /// Returns whether pid and tid of that slot mean anything to this process. Without `/proc` they
    /// do not: all namespaces of unknown number share one.
    pub(super) fn is_of_my_namespace(&self, slot: &Slot) -> bool {
        let namespace = slot.binding.load(Ordering::Relaxed) >> 32;
        namespace != u64::from(identity::NAMELESS)
            && self.binding().is_ok_and(|mine| mine >> 32 == namespace)
    }

    /// Ends the quarantine of those slots. The caller has looked through every claim of the domain
    /// since it listed `quarantined`, and no claim by a dead owner is left but those of `kept`, whose
    /// slots stay in quarantine.
    pub(crate) fn end_quarantine(&self, quarantined: &[(u32, u32)], kept: &[TokenId]) {
        for &(index, generation) in quarantined {
            if kept.iter().any(|id| id.slot() == index) {
                continue;
            }
            if let Some(slot) = self.slot_at(index) {
                // Release pairs with the Acquire in `try_claim`: the sweep comes before the next
                // use.
                slot.quarantine_ended.store(generation, Ordering::Release);
            }
        }
    }

    /// Returns the slots in quarantine just now, and their generations.
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

    /// Returns the slots whose owners are dead and will write nothing more, with their generations.
    pub(crate) fn dead(&self) -> Vec<(u32, u32)> {
        (0..self.slots())
            .filter_map(|index| {
                let slot = self.slot_at(index)?;
                let generation = slot.generation().load(Ordering::Acquire);
                let dead = !is_alive_word(slot.word().load(Ordering::Acquire))
                    && !is_alive_word(slot.keeper.load(Ordering::Acquire));
                (generation & 1 != 0 && dead && !self.may_still_write(slot))
                    .then_some((index, generation))
            })
            .collect()
    }

    /// Retires those of [`Registry::dead`], and returns how many.
    pub(crate) fn retire_dead(&self, dead: &[(u32, u32)]) -> u32 {
        let retires = |&&(index, generation): &&(u32, u32)| {
            self.slot_at(index).is_some_and(|slot| self.retire(slot, generation))
        };
        dead.iter().filter(retires).count() as u32
    }
}

/// Records which process and program the owner is, for inspection.
fn record(slot: &Slot, what: TokenUse) {
    let own = process::own();
    let mark = if what == TokenUse::Thread { own.mark } else { 0 };
    slot.pid.store(process::process_id(), Ordering::Relaxed);
    slot.set_kind(what.kind());
    slot.set_started(own.started, mark);
    slot.since.store(clock::monotonic_nanos(), Ordering::Relaxed);
    // The last owner may have died asleep.
    slot.waiting_at.store(0, Ordering::Relaxed);
    for (word, bytes) in slot.program.iter().zip(own.program.chunks_exact(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Ordering::Relaxed);
    }
}
