//! A barrier whose seats name the participants.
//!
//! `phase` counts phases in its lower 29 bits, the phase's *number*. Of the others, only these mean
//! anything, and a new phase clears all of them:
//!
//! | bit of `phase` | meaning | which thread sets it, and how | a death here |
//! | --- | --- | --- | --- |
//! | 31 if the number is even, 30 if it is odd | the phase is broken | one that found a participant dead: compare-exchange, then it wakes all. One that aborts: ONE `FUTEX_WAKE_OP` sets the bit and wakes all | the sleepers watch the same dead participant's end; an abort has happened whole, or not at all |
//! | 29 | the barrier is being reset | the owner of `repair`: ONE `FUTEX_WAKE_OP` sets the bit and wakes all | the next participant to arrive takes `repair` from the dead one and ends the reset |
//!
//! An abort by a participant whose time ran out must not hit the next phase, which may begin before
//! the kernel's step. So each parity has its own bit: beside the next number the bit means nothing.
//!
//! A seat:
//!
//! | seat | state | which thread changes it, and how | a death here |
//! | --- | --- | --- | --- |
//! | 0 | never taken: the barrier waits for a participant to come | a newcomer: compare-exchange → absent | |
//! | id + AWAY | absent, whatever the phase: it has just joined, or a repair put it there | id: compare-exchange → id + AWAY + BACK | a waiter breaks the barrier, or → OUT; during a reset: a newcomer → its own id + AWAY |
//! | id + AWAY + BACK | the same, and its owner knows | id: compare-exchange → arrived; a repair → id + AWAY | the same |
//! | id, bit 31 ≠ `mark(phase)` | absent | id: compare-exchange → arrived; a repair → id + AWAY | the same |
//! | id, bit 31 = `mark(phase)` | arrived; a new phase makes it absent | id, by arriving again; a repair → id + AWAY | it has arrived: in the next phase it is absent and dead |
//! | OUT | left, or counted out: no participant waits for it | a newcomer: compare-exchange → absent | |
//!
//! `mark` changes with each phase, so one compare-exchange of `phase` makes all arrived
//! participants absent again. The participant that sees all seats arrived does that, is the
//! leader, and wakes all. It may die before the wake, and a sleeper may not watch it: a sleeper
//! looks at the seats one by one, so it has seen *some* participant absent, not necessarily the
//! last to come. That participant passes sooner or later, or dies. So every participant that passes
//! wakes all, and every sleeper watches one from which it learns.
//!
//! A participant that is stopped between its look at the phase and its arrival may go on many
//! repairs later, when another phase has the same mark. So a repair, and a reset, makes each seat
//! AWAY, and only its owner takes it out of that state: the late arrival fails. proof/models has
//! barrier.pml, barrier_abort.pml, barrier_repair.pml and barrier_join.pml;
//! doc/protocols/barrier.md has the argument.

use std::time::Duration;

use super::barrier_phase::{Phase, RESETTING_AT};
use super::mutex::RawMutex;
use crate::Deadline;
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering, fence};
use crate::sys::Errno;
use crate::sys::futex::{self, ALL, InOneStep, Watch};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, MOST_OWNERS, Sleep, SpinWait};

const NOBODY: u32 = 0;
/// No token's id has this bit. Alone in a seat: no participant waits for the seat.
const OUT: u32 = 1 << 30;
/// Beside an id: absent in every phase.
const AWAY: u32 = OUT;
/// In a seat: the phase's mark.
const MARK: u32 = crate::liveness::WAITERS;
/// Beside an id and `AWAY`: the participant has seen that.
const BACK: u32 = MARK;
/// A value of `policy`.
pub(crate) const COUNT_OUT: u32 = 1;

/// See the file's head.
#[repr(C, align(64))]
pub struct BarrierWords {
    phase: AtomicU32,
    // A hint: a seat that was absent lately. A look begins there.
    cursor: AtomicU32,
    // Written once, before the file has a name.
    pub(crate) policy: AtomicU32,
    pub(crate) parties: AtomicU32,
    // Held by the participant that makes a broken barrier whole.
    repair: RawMutex,
    // Counts the seats taken: a participant that is about to sleep must not miss a newcomer.
    joined: AtomicU32,
    reserved: [AtomicU32; 9],
}

/// A barrier as a process sees it; the process knows the number of seats from when it opened the
/// file.
#[derive(Clone, Copy)]
pub(crate) struct RawBarrier<'a> {
    pub(crate) words: &'a BarrierWords,
    pub(crate) seats: &'a [AtomicU32],
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The caller opened the next phase.
    Leader,
    Other,
}

/// Why a wait, or a newcomer, did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stuck {
    Broken,
    TimedOut,
    /// Every seat has an owner.
    Full,
    /// The seat has another owner now: a stray write, or a repair without the caller.
    NotSeated,
    Damaged,
    System(Errno),
}

/// What a look at the seats found.
enum Look {
    /// The phase is over: this participant or another ended it.
    Over(Result<Passed, Stuck>),
    /// These participants are absent and alive; in a crowd, some of them. Beside them, the value of
    /// `phase` before the look.
    Absent(Vec<TokenId>, Phase),
}

fn mark(phase: u32) -> u32 {
    if phase & 1 == 0 { MARK } else { 0 }
}

/// Returns the seat's owner.
fn owner_of(seen: u32) -> Option<TokenId> {
    TokenId::from_word(seen & !AWAY)
}

fn has_arrived(seen: u32, phase: u32) -> bool {
    seen & AWAY == 0 && seen & MARK == mark(phase)
}

/// Each waiter in a crowd watches so many absent participants: many waiters together watch all.
const FEW: usize = 8;
/// How often a waiter in a crowd looks at the participants that it does not watch.
const LOOK: Duration = Duration::from_secs(1);

impl RawBarrier<'_> {
    /// Takes a seat. The participant is absent until it arrives.
    pub(crate) fn join(self, me: Me, spin_wait: &SpinWait) -> Result<usize, Stuck> {
        // Another round when a reset came in between; bounded, since damaged words may change for
        // ever.
        for _ in 0..1000 {
            let mut phase = self.phase();
            if phase.is_resetting() {
                // A process may have died in that reset, and then this one ends it. While another
                // thread is at it, the seats can be taken all the same.
                self.end_reset(me, spin_wait, Deadline::at_nanos(0)).ok();
                phase = self.phase();
            }
            if phase.is_broken() {
                return Err(Stuck::Broken);
            }
            if let Some(joined) = self.take_seat(me, phase) {
                return joined;
            }
        }
        Err(Stuck::Damaged)
    }

    /// Looks for a seat from the first on. `None`: look again, because a participant has died and
    /// the phase is another one now, perhaps broken, or because a reset has ended meanwhile.
    fn take_seat(self, me: Me, phase: Phase) -> Option<Result<usize, Stuck>> {
        let absent = me.id.as_u32() | AWAY;
        for (index, seat) in self.seats.iter().enumerate() {
            if let Stands::Dead = self.stands(me, phase.number(), index)
                && phase.is_whole()
            {
                // It may have died before it woke the waiters that must watch it.
                self.break_it(phase.number());
                return None;
            }
            let seen = seat.load(Ordering::Acquire);
            // The reset takes a dead participant's seat away as well, and may be stopped before
            // it gets there.
            let is_dead = phase.is_resetting() && self.is_dead(me, seen);
            if is_dead {
                // Seen dead before this look at the phase: so it died before the reset's end, and
                // no participant of a later phase is missed.
                fence(Ordering::Acquire);
                if self.phase() != phase {
                    return None;
                }
            }
            let is_free = is_dead || seen == NOBODY || seen == OUT;
            if is_free
                && seat.compare_exchange(seen, absent, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                // The waiters must watch us as well. Died just before: as if we had never come.
                // Pairs with the load in `wait`: a waiter that reads the old number, and not our
                // seat, does not fall asleep, or is woken.
                self.words.joined.fetch_add(1, Ordering::Release);
                if !self.is_crowd() {
                    futex::wake_all(&self.words.phase);
                }
                return Some(Ok(index));
            }
            if is_dead {
                // The reset has freed the seat just now, or another newcomer has it.
                return None;
            }
        }
        Some(Err(Stuck::Full))
    }

    /// Gives the seat up: from now on no participant waits for it.
    pub(crate) fn leave(self, me: Me, index: usize) {
        let Some(seat) = self.seat_of(me, index) else { return };
        // Died just after: the waiters watch our end, and look again.
        seat.store(OUT, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let phase = self.phase();
        if phase.is_whole()
            && let Look::Over(end) = self.look(me, phase.number(), index)
        {
            self.wake_sleepers(end);
        }
    }

    /// Wakes all sleepers. A sleeper may watch this participant only, which was absent when it
    /// looked: it learns from this wake that the phase is over if the participant that opened the
    /// next one died before its own.
    fn wake_sleepers(self, end: Result<Passed, Stuck>) {
        if end != Ok(Passed::Leader) {
            futex::wake_all(&self.words.phase);
        }
    }

    /// Arrives in the present phase, and returns its number. Waits for a reset that another thread
    /// is making, until the deadline: then it has not arrived.
    pub(crate) fn arrive(
        self,
        me: Me,
        index: usize,
        spin_wait: &SpinWait,
        deadline: Option<Deadline>,
    ) -> Result<u32, Stuck> {
        // Another round after each repair in between; bounded, since damaged words may change for
        // ever.
        for _ in 0..1000 {
            let seat = self.seat_of(me, index).ok_or(Stuck::NotSeated)?;
            let mut seen = seat.load(Ordering::Acquire);
            if seen == me.id.as_u32() | AWAY {
                // Died just after: absent as before. Acquire pairs with the Release of a repair:
                // the look at the phase comes after.
                let _ =
                    seat.compare_exchange(seen, seen | BACK, Ordering::AcqRel, Ordering::Relaxed);
                seen |= BACK;
            }
            // After the seat's word: a later repair changes the seat, so that the exchange below
            // fails.
            let phase = self.phase();
            if phase.is_resetting() {
                self.end_reset(me, spin_wait, deadline.unwrap_or(Deadline::at_nanos(0)))?;
                continue;
            }
            if phase.is_broken() {
                return Err(Stuck::Broken);
            }
            let phase = phase.number();
            let arrived = me.id.as_u32() | mark(phase);
            // Release pairs with the Acquire of the participant that opens the next phase, which
            // then sees what was done before.
            if seat.compare_exchange(seen, arrived, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                // Arrived before the look at the others: of two last arrivals, at least one sees
                // the other.
                fence(Ordering::SeqCst);
                return Ok(phase);
            }
        }
        Err(Stuck::NotSeated)
    }

    /// Waits until all have arrived in that phase, in which the caller has arrived. After a timeout
    /// the arrival counts.
    pub(crate) fn wait(
        self,
        me: Me,
        index: usize,
        phase: u32,
        spin_wait: &SpinWait,
        deadline: Option<Deadline>,
    ) -> Result<Passed, Stuck> {
        if let Look::Over(end) = self.look(me, phase, index) {
            self.wake_sleepers(end);
            return end;
        }
        let Some(deadline) = deadline else { return Err(Stuck::TimedOut) };
        spin_wait.spin(|| !Phase(self.words.phase.load(Ordering::Relaxed)).is_still(phase));
        let relay = WakeRelay::begin(me.list());
        let mut turn = index;
        loop {
            let joined = self.words.joined.load(Ordering::Acquire);
            let (owners, seen) = match self.look(me, phase, turn) {
                Look::Over(end) => {
                    self.wake_sleepers(end);
                    return end;
                }
                Look::Absent(owners, seen) => (owners, seen),
            };
            if deadline.has_passed() {
                return Err(Stuck::TimedOut);
            }
            // Each waiter in a crowd watches some participants only, so it looks at all of them now
            // and then.
            let until =
                if self.is_crowd() { deadline.earlier(Deadline::after(LOOK)) } else { deadline };
            let watch = [
                Watch { word: &self.words.phase, expected: seen.0 },
                Watch { word: &self.words.joined, expected: joined },
            ];
            // A crowd joins in a rush, and each waiter looks again by itself.
            let watched = if self.is_crowd() { &watch[..1] } else { &watch[..] };
            match Sleep::on(me.registry, watched).behind(&relay, &owners).until(until) {
                Ok(Asleep::LookAgain | Asleep::TimedOut) => {}
                Err(errno) => return Err(Stuck::System(errno)),
            }
            turn = (turn + FEW) % self.seats.len().max(1);
        }
    }

    fn look(self, me: Me, phase: u32, turn: usize) -> Look {
        let now = self.phase();
        if !now.is_still(phase) {
            return Look::Over(Self::end(phase, now));
        }
        let seats = self.seats.len();
        let start = self.words.cursor.load(Ordering::Relaxed) as usize % seats;
        for index in (0..seats).map(|n| (start + n) % seats) {
            match self.stands(me, phase, index) {
                Stands::Arrived => {}
                Stands::Absent(owner) => {
                    self.words.cursor.store(index as u32, Ordering::Relaxed);
                    return self.absent(me, now, owner, turn);
                }
                Stands::Dead => return self.found_dead(phase),
            }
        }
        Look::Over(self.open_next(phase))
    }

    /// Returns absent participants, as many as one waiter can watch: the one that was found, which
    /// may have died since and is watched all the same, and others in turn, so that many waiters
    /// together watch all. It looks at every seat, and so finds a dead participant that this waiter
    /// does not watch.
    fn absent(self, me: Me, seen: Phase, found: Option<TokenId>, turn: usize) -> Look {
        let phase = seen.number();
        let seats = self.seats.len();
        let most = if self.is_crowd() { FEW } else { MOST_OWNERS };
        let mut owners = Vec::with_capacity(most);
        owners.extend(found);
        for index in (0..seats).map(|n| (turn + n) % seats) {
            match self.stands(me, phase, index) {
                Stands::Absent(Some(owner)) if owners.len() < most && !owners.contains(&owner) => {
                    owners.push(owner)
                }
                Stands::Dead => return self.found_dead(phase),
                _ => {}
            }
        }
        Look::Absent(owners, seen)
    }

    fn found_dead(self, phase: u32) -> Look {
        self.break_it(phase);
        Look::Over(Self::end(phase, self.phase()))
    }

    fn stands(self, me: Me, phase: u32, index: usize) -> Stands {
        let Some(seat) = self.seats.get(index) else { return Stands::Arrived };
        let seen = seat.load(Ordering::Acquire);
        if seen == OUT {
            return Stands::Arrived;
        }
        let Some(owner) = owner_of(seen) else { return Stands::Absent(None) };
        if has_arrived(seen, phase) {
            return Stands::Arrived;
        }
        if me.is_alive(owner) {
            return Stands::Absent(Some(owner));
        }
        // Did it arrive before its end? If not, a second waiter finds the seat out already.
        fence(Ordering::Acquire);
        if seat.load(Ordering::Acquire) != seen {
            return self.stands(me, phase, index);
        }
        if !self.counts_out() {
            return Stands::Dead;
        }
        let _ = seat.compare_exchange(seen, OUT, Ordering::AcqRel, Ordering::Relaxed);
        self.stands(me, phase, index)
    }

    fn phase(self) -> Phase {
        // Acquire pairs with the Release of the thread that began the phase.
        Phase(self.words.phase.load(Ordering::Acquire))
    }

    /// Begins the next phase: all have arrived.
    fn open_next(self, phase: u32) -> Result<Passed, Stuck> {
        let mut seen = self.phase();
        // Again when a bit came that means nothing in this phase.
        while seen.is_still(phase) {
            match self.change(seen, seen.further(1)) {
                Ok(()) => {
                    // Died just before: the sleepers that watch us wake; the others learn it from
                    // those they watch, see `wake_sleepers`.
                    futex::wake_all(&self.words.phase);
                    return Ok(Passed::Leader);
                }
                Err(now) => seen = now,
            }
        }
        Self::end(phase, seen)
    }

    fn change(self, from: Phase, to: Phase) -> Result<(), Phase> {
        let phase = &self.words.phase;
        phase
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(Phase)
    }

    /// Breaks that phase for a dead participant.
    fn break_it(self, phase: u32) {
        let mut seen = self.phase();
        while seen.is_still(phase) {
            match self.change(seen, seen.broken()) {
                Ok(()) => {
                    // Died just before: the others watch the same dead participant, whose end wakes
                    // them all.
                    futex::wake_all(&self.words.phase);
                    return;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Breaks the barrier, whichever phase it is in.
    pub(crate) fn abort(self) {
        loop {
            let seen = self.phase();
            if seen.is_broken() {
                return;
            }
            // One step, since no sleeper watches the thread that aborts: stopped or killed before
            // it, nothing has happened; after it, no sleeper is left. If the next phase has begun
            // meanwhile, the bit means nothing there, and the next round breaks that one.
            InOneStep::SetBit(Phase::broken_at(seen.0)).and_wake(&self.words.phase, ALL);
        }
    }

    /// Breaks the phase in which the caller has arrived, unless it is over; returns how it ended.
    pub(crate) fn abort_phase(self, phase: u32) -> Result<Passed, Stuck> {
        if self.phase().is_still(phase) {
            // As in `abort`. In the next phase, which may have begun, the bit means nothing. A
            // later one of the same parity cannot come without the caller, but by a reset or a
            // repair.
            InOneStep::SetBit(Phase::broken_at(phase)).and_wake(&self.words.phase, ALL);
        } else {
            // As each participant that finds the phase over: see `wake_sleepers`.
            futex::wake_all(&self.words.phase);
        }
        Self::end(phase, self.phase())
    }

    /// Returns what the phase `now` means to a participant that arrived in `phase`.
    fn end(phase: u32, now: Phase) -> Result<Passed, Stuck> {
        // The next phase, broken meanwhile or not: the old one has ended. The repair of a broken
        // phase goes three further: see `renew`.
        if now.number() == Phase(phase).further(1).number() {
            Ok(Passed::Other)
        } else {
            Err(Stuck::Broken)
        }
    }

    /// Makes a broken barrier whole: dead participants lose their seats, living ones keep theirs
    /// and are absent.
    pub(crate) fn repair(
        self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<(), Stuck> {
        self.alone(me, spin_wait, deadline, || {
            let phase = self.phase();
            if !phase.is_whole() {
                self.renew(me, phase);
            }
        })
    }

    /// Makes a barrier whole as a repair does, and breaks the present phase for the participants
    /// that have arrived in it.
    pub(crate) fn reset(
        self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<(), Stuck> {
        self.alone(me, spin_wait, deadline, || {
            if self.phase().is_whole() {
                // One step, as in `abort`. Died just after: no sleeper is left, and the next
                // participant that arrives ends the reset. If the next phase has begun meanwhile,
                // it is that one which is reset.
                InOneStep::SetBit(RESETTING_AT).and_wake(&self.words.phase, ALL);
            }
            self.renew(me, self.phase());
        })
    }

    /// Ends a reset during which a process died, or waits until another thread has ended it.
    fn end_reset(self, me: Me, spin_wait: &SpinWait, deadline: Deadline) -> Result<(), Stuck> {
        self.alone(me, spin_wait, deadline, || {
            let phase = self.phase();
            if phase.is_resetting() {
                self.renew(me, phase);
            }
        })
    }

    /// Does the work as the owner of `repair`.
    fn alone(
        self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
        work: impl FnOnce(),
    ) -> Result<(), Stuck> {
        match self.words.repair.lock(me, spin_wait, deadline) {
            Ok(_) => self.words.repair.mark_consistent(),
            Err(super::Refused::System(errno)) => return Err(Stuck::System(errno)),
            Err(super::Refused::TimedOut | super::Refused::WouldBlock) => {
                return Err(Stuck::TimedOut);
            }
            // No thread gives this word up, and this one has it once: a stray write.
            Err(_) => return Err(Stuck::Damaged),
        }
        work();
        self.words.repair.release(me.id);
        Ok(())
    }

    /// Begins a new phase in the place of one that is not whole, as the owner of `repair`.
    fn renew(self, me: Me, phase: Phase) {
        let free = if self.counts_out() { OUT } else { NOBODY };
        for seat in self.seats {
            let seen = seat.load(Ordering::Acquire);
            let Some(owner) = owner_of(seen) else { continue };
            let word = if me.is_alive(owner) { owner.as_u32() | AWAY } else { free };
            // Release pairs with `arrive`: an owner that sees its seat AWAY sees a phase that is
            // not whole, or a later one. Failed: the owner has just arrived in that phase, or come
            // back; it does no more in that phase.
            let _ = seat.compare_exchange(seen, word, Ordering::AcqRel, Ordering::Relaxed);
        }
        let mut seen = phase;
        // Died before: still not whole, and the next owner of `repair` does all this again. An
        // abort since then stays: the barrier is broken.
        while !seen.is_whole() && (phase.is_broken() || !seen.is_broken()) {
            // Three further, and not one: a participant that slept through all this must not take
            // it for an ordinary end. An odd number, so that an arrival in the old phase reads as
            // an absence.
            match self.change(seen, seen.further(3)) {
                Ok(()) => break,
                Err(now) => seen = now,
            }
        }
        futex::wake_all(&self.words.phase);
    }

    /// Returns the thread that repairs the barrier, dead or alive: other repairing threads wait for
    /// it.
    #[cfg(feature = "testing")]
    pub(crate) fn repairer(self) -> Option<TokenId> {
        self.words.repair.owner()
    }

    pub(crate) fn is_broken(self) -> bool {
        self.phase().is_broken()
    }

    /// Returns how many participants have arrived in the present phase and not passed.
    pub(crate) fn arrived(self) -> usize {
        if !self.phase().is_whole() {
            return 0;
        }
        self.participants().iter().filter(|(_, arrived)| *arrived).count()
    }

    /// Returns the participants, dead or alive, and whether each has arrived.
    pub(crate) fn participants(self) -> Vec<(TokenId, bool)> {
        let phase = self.phase().number();
        let word = |seat: &AtomicU32| seat.load(Ordering::Acquire);
        let seated = self.seats.iter().map(word).filter_map(|seen| Some((owner_of(seen)?, seen)));
        seated.map(|(id, seen)| (id, has_arrived(seen, phase))).collect()
    }

    /// Does a sweep's part: dead participants lose their seats, and waiters learn of it as from any
    /// participant.
    pub(crate) fn sweep(self, me: Me, dry_run: bool) -> u32 {
        // A process died in a repair: the next repair does the rest of it.
        let mut found = u32::from(self.words.repair.sweep(me, dry_run));
        for seat in self.seats {
            let seen = seat.load(Ordering::Acquire);
            if !self.is_dead(me, seen) {
                continue;
            }
            found += 1;
            if dry_run {
                continue;
            }
            let word = if self.counts_out() {
                OUT
            } else {
                // Broken before the name goes: the waiters are told in any case. Those of a phase
                // that is being reset have been told.
                let mut phase = self.phase();
                while phase.is_whole() {
                    self.break_it(phase.number());
                    phase = self.phase();
                }
                NOBODY
            };
            let dead = owner_of(seen);
            let mut seen = seen;
            // Again when a slow repairer has changed the seat meanwhile: it leaves the name where
            // it is.
            while owner_of(seen) == dead {
                match seat.compare_exchange(seen, word, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(now) => seen = now,
                }
            }
            futex::wake_all(&self.words.phase);
        }
        found
    }

    /// Returns whether there are more participants than one waiter can watch: then each watches
    /// some of them in turn, and looks at all of them now and then.
    fn is_crowd(self) -> bool {
        self.seats.len() > MOST_OWNERS
    }

    fn counts_out(self) -> bool {
        self.words.policy.load(Ordering::Relaxed) == COUNT_OUT
    }

    fn is_dead(self, me: Me, seen: u32) -> bool {
        owner_of(seen).is_some_and(|owner| !me.is_alive(owner))
    }

    fn seat_of(&self, me: Me, index: usize) -> Option<&AtomicU32> {
        self.seats.get(index).filter(|seat| owner_of(seat.load(Ordering::Relaxed)) == Some(me.id))
    }
}

enum Stands {
    Arrived,
    /// Never taken, or a living participant's.
    Absent(Option<TokenId>),
    /// Its participant died, and that breaks the barrier.
    Dead,
}

#[cfg(all(test, loom))]
#[path = "barrier_tests.rs"]
mod loom_tests;
