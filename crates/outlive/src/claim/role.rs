//! A role that one process has at a time, and that one of its threads may be inside of: who writes a state.
//!
//! `holder` names the *process*, for notice: others ask it, and watch its end. `inside` names the *thread* that may be
//! acting in the role, for safety: a process token can read dead a moment before its last thread has stopped, and a successor
//! must not come in before. The handle has one owner in its process, so the thread that has it now puts itself into `inside`
//! before its first shared store, by compare-exchange from whom the same handle put there before, and stays there until
//! another thread has it.
//!
//! | holder | inside | meaning | who leaves it, and how |
//! | --- | --- | --- | --- |
//! | 0 | 0 | nobody (yet) | somebody takes it: holder 0 → its process, inside → its thread |
//! | P alive | any | P has it | P leaves: inside → 0, then holder → 0, wake |
//! | P dead | T alive | T is being killed | a taker: holder P → its process, waits for T's end, inside T → its thread; T does not end: holder → ROLE_DIED |
//! | P dead | 0 or T dead | dead: who waits is told | a taker: holder P → its process, inside → its thread |
//! | ROLE_DIED | 0, T | the same, after a sweep or a taker that did not get in | the same |
//!
//! A taker that dies before `inside` leaves an older dead thread there, or 0: both let the next one in. Who sleeps while
//! nobody lives sleeps on `holder` too, with its WAITERS bit; the taker wakes them, and if it dies before it could, the kernel
//! wakes one by `relay`, which wakes the others. The steps are those of a queue's receiver, checked by proof/models/endpoint.pml.

use std::time::Duration;

use crate::liveness::{Me, Peer, Registry, TokenId, WAITERS};
use crate::shim::{AtomicU32, Ordering, fence};
use crate::sys::Errno;
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, WaitError, WaitWords, has_changed, look_again};
use crate::{Deadline, Error};

/// In `holder`: it died, and a sweep removed its id.
pub(crate) const ROLE_DIED: u32 = 1;

/// See the file's head. All zero: nobody has it.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RoleWords {
    // Written by whoever takes the role or leaves it.
    holder: AtomicU32,
    inside: AtomicU32,
    /// Always 0: by it the kernel relays the wake of a taker that dies.
    relay: AtomicU32,
    reserved: AtomicU32,
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::Shared for RoleWords {}
crate::shim::assert_layout!(size_of::<RoleWords>() == 16);

/// The role as a process sees it.
#[derive(Clone, Copy)]
pub(crate) struct Role<'a> {
    pub(crate) words: &'a RoleWords,
    pub(crate) registry: &'static Registry,
}

/// How it stands: `word` is what `holder` said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    word: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Nobody,
    /// This one's end is to be watched: the process, or the last thread of a dead one.
    Living(TokenId),
    Dead,
}

impl Standing {
    /// Whether whoever had it is dead, all of it, and nobody has taken it over.
    pub(crate) fn is_dead(self) -> bool {
        self.state == State::Dead
    }

    pub(crate) fn is_living(self) -> bool {
        matches!(self.state, State::Living(_))
    }

    /// What `holder` said, without its bit for sleepers.
    pub(crate) fn holder(self) -> u32 {
        self.word & !WAITERS
    }

    /// Whether a sweep has taken the name of the dead out.
    pub(crate) fn is_nameless(self) -> bool {
        TokenId::from_word(self.word).is_none()
    }

    /// Whose end would change that. Of the dead, with whom nobody sleeps yet, their own: such a sleep ends at once, and the
    /// next one asks to be woken by who comes ([`Role::add_to`]).
    pub(crate) fn watched(self) -> Option<TokenId> {
        match self.state {
            State::Living(owner) => Some(owner),
            State::Nobody | State::Dead if self.word & WAITERS == 0 => TokenId::from_word(self.word),
            State::Nobody | State::Dead => None,
        }
    }
}

/// Why the role was not to be had.
#[derive(Debug)]
pub(crate) enum NoRole {
    /// That process has it.
    Taken {
        pid: u32,
    },
    /// It died, but a thread of this process has not come to its end.
    Ending {
        pid: u32,
    },
    Damaged,
    System(Error),
}

/// How long the last thread of a dead holder is given to end. The kernel has killed it already.
const LONGEST_END: Duration = Duration::from_secs(2);

impl Role<'_> {
    /// Makes the calling thread's process the holder.
    pub(crate) fn take(self, me: Me, process: TokenId) -> Result<(), NoRole> {
        let holder = &self.words.holder;
        let pass = WakeRelay::begin(me.list());
        // Died between the exchange and the wake below: the kernel wakes one of those who wait for somebody to come.
        pass.to(&self.words.relay);
        let before = loop {
            let word = holder.load(Ordering::Acquire);
            if let Some(token) = TokenId::from_word(word) {
                let peer = Peer::new(self.registry, token);
                if peer.is_alive() {
                    return Err(NoRole::Taken { pid: peer.info().map_or(0, |info| info.pid) });
                }
            } else if !matches!(word & !WAITERS, 0 | ROLE_DIED) {
                return Err(NoRole::Damaged);
            }
            // AcqRel: all that a predecessor wrote is seen; who sees us finds us alive.
            if holder.compare_exchange(word, process.as_u32(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                if word & WAITERS != 0 {
                    futex::wake_all(holder);
                }
                break if TokenId::from_word(word).is_some() { ROLE_DIED } else { word & !WAITERS };
            }
        };
        let result = self.take_inside(me, process);
        if result.is_err() {
            // As it was found: others would otherwise take us for the holder.
            self.leave_holder(process, before);
        }
        // What comes next is after all that a predecessor did, for everybody.
        fence(Ordering::SeqCst);
        result
    }

    /// The second step: the thread that may still be inside has to end first.
    fn take_inside(self, me: Me, process: TokenId) -> Result<(), NoRole> {
        let inside = &self.words.inside;
        // Died just before: `inside` names an older dead thread, or nobody, and the next taker goes on from there.
        let deadline = Deadline::after(LONGEST_END);
        loop {
            let seen = inside.load(Ordering::Acquire);
            self.wait_until_outside(seen, deadline)?;
            // Without this, a thread that was merely slow would rob a successor whose own thread has ended since.
            let holder = self.words.holder.load(Ordering::Acquire);
            if TokenId::from_word(holder) != Some(process) {
                return Err(NoRole::Taken { pid: 0 });
            }
            // By compare-exchange: a thread of the dead process that is still running may have passed the handle on.
            if inside.compare_exchange(seen, me.id.as_u32(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Ok(());
            }
        }
    }

    /// The dead process's thread may still be between two instructions.
    fn wait_until_outside(self, inside: u32, deadline: Deadline) -> Result<(), NoRole> {
        let Some(thread) = TokenId::from_word(inside) else {
            return Ok(());
        };
        let thread = Peer::new(self.registry, thread);
        match thread.wait_dead(deadline) {
            Ok(()) => Ok(()),
            Err(WaitError::TimedOut) => Err(NoRole::Ending { pid: thread.info().map_or(0, |info| info.pid) }),
            Err(WaitError::System(error)) => Err(NoRole::System(error)),
        }
    }

    /// Another thread of the holder has the handle now: from whom the handle last put there, so that one who was taken for
    /// dead does not come in again. False: it is the holder no longer.
    #[cold]
    pub(crate) fn pass_inside(self, me: Me, process: TokenId, last: u32) -> bool {
        // A forked child has its parent's handle, and is not its parent. AcqRel: before any other shared store of this
        // thread. Died just after: the next taker waits for this thread's end.
        let inside = &self.words.inside;
        self.registry.process_token_if_any() == Some(process)
            && inside.compare_exchange(last, me.id.as_u32(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The holder leaves, in good order. A forked child's copy leaves nothing.
    pub(crate) fn leave(self, process: TokenId, inside: u32) {
        if self.registry.process_token_if_any() != Some(process) {
            return;
        }
        // First `inside`: were it left to name this thread, which lives on, a successor's successor would wait for its end.
        // From what we last put there: failed, we were taken for dead, and another has it.
        if self.words.inside.compare_exchange(inside, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.leave_holder(process, 0);
        }
    }

    /// Takes our process's name out of `holder`, if it is still there.
    fn leave_holder(self, process: TokenId, leaving: u32) {
        let holder = &self.words.holder;
        let mut word = holder.load(Ordering::Relaxed);
        while TokenId::from_word(word) == Some(process) {
            match holder.compare_exchange(word, leaving | word & WAITERS, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    // Whoever sleeps watches this word. Died just before: they watch our token as well.
                    futex::wake_all(holder);
                    return;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Who has it, dead or alive.
    pub(crate) fn holder(self) -> Option<TokenId> {
        TokenId::from_word(self.words.holder.load(Ordering::Acquire))
    }

    /// How it stands just now. What a holder that reads dead here had done is seen by whoever looks after this.
    pub(crate) fn standing(self) -> Standing {
        let word = self.words.holder.load(Ordering::Acquire);
        let living = |word| TokenId::from_word(word).filter(|&id| self.registry.is_alive(id));
        let state = match (word & !WAITERS, living(word)) {
            (0, _) => State::Nobody,
            (_, Some(process)) => State::Living(process),
            // Its last thread may be at it still.
            _ => living(self.words.inside.load(Ordering::Acquire)).map_or(State::Dead, State::Living),
        };
        Standing { word, state }
    }

    /// Sleeps until `word` changes or the role does not stand like that any more.
    #[cold]
    pub(crate) fn sleep(
        self,
        pass: &WakeRelay,
        word: Option<Watch<'_>>,
        seen: Standing,
        deadline: Deadline,
    ) -> Result<Asleep, Errno> {
        let RoleWords { holder, relay, .. } = self.words;
        if let State::Living(owner) = seen.state {
            let holder = Watch { word: holder, expected: seen.word };
            let words = [word.unwrap_or(holder), holder];
            let words = &words[usize::from(word.is_none())..];
            return Sleep::on(self.registry, words).behind(pass, &[owner]).until(deadline);
        }
        pass.to(relay);
        let asked = seen.word | WAITERS;
        if !self.ask(asked) {
            return look_again(deadline);
        }
        // A wake-up by `relay` may have died with a wait set.
        let (own, relay) = (Watch { word: holder, expected: asked }, Watch { word: relay, expected: 0 });
        let words = [relay, word.unwrap_or(own), own];
        let words = &words[..if word.is_some() { 3 } else { 2 }];
        let end = Sleep::on(self.registry, words).about(1).until_it_comes(deadline, || has_changed(words));
        self.woken(asked);
        end
    }

    /// Nobody lives, and `holder` said that, but for WAITERS: from now on whoever comes wakes who sleeps on it. False: it says
    /// something else.
    fn ask(self, asked: u32) -> bool {
        let RoleWords { holder, relay, .. } = self.words;
        // A stray write. It means nothing but 0.
        if relay.load(Ordering::Relaxed) != 0 {
            relay.store(0, Ordering::Relaxed);
        }
        let now = holder.load(Ordering::Acquire);
        if now | WAITERS != asked {
            // Woken by `x` or come late: whoever came may have died before waking the others.
            futex::wake_all(holder);
            return false;
        }
        if now == asked {
            return true;
        }
        // Whoever sleeps there slept on what it said before, and whoever changed it may have died before waking them. The
        // kernel would then wake one by `x`: not to be us, who know. Died just after: the next one does it again.
        futex::wake_all(holder);
        holder.compare_exchange(now, asked, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// What one who has slept on what it asked for owes the others.
    pub(crate) fn woken(self, asked: u32) {
        if self.words.holder.load(Ordering::Acquire) | WAITERS != asked {
            futex::wake_all(&self.words.holder);
        }
    }

    /// The words on which a wait set sleeps as long as it stands as just now, `word` among them. What it asked for, for
    /// [`Role::woken`]; `None`: somebody lives, whose end it watches ([`Standing::watched`], of a look behind this).
    pub(crate) fn add_to<'w>(self, word: Watch<'w>, words: &mut WaitWords<'w>) -> Option<u32>
    where
        Self: 'w,
    {
        let RoleWords { holder, relay, .. } = self.words;
        let seen = self.standing();
        if seen.is_living() {
            words.add(&[word, Watch { word: holder, expected: seen.word }]);
            return None;
        }
        let asked = seen.word | WAITERS;
        // It says something else: then so does the sleep, at once.
        let _ = self.ask(asked);
        words.add(&[Watch { word: relay, expected: 0 }, word, Watch { word: holder, expected: asked }]);
        words.relay_by(relay);
        Some(asked)
    }

    /// See [`sweep_role`].
    pub(crate) fn sweep(self, dry_run: bool, kept: &mut Vec<TokenId>) -> u32 {
        let RoleWords { holder, inside, .. } = self.words;
        sweep_role(self.registry, holder, inside, dry_run, kept)
    }
}

/// A sweep's part: takes the names of the dead out of a role's words. Returns how many there were. The name of a dead thread
/// whose process has the role still stays, and goes into `kept`.
pub(crate) fn sweep_role(
    registry: &Registry,
    holder: &AtomicU32,
    inside: &AtomicU32,
    dry_run: bool,
    kept: &mut Vec<TokenId>,
) -> u32 {
    let is_dead = |word: u32| TokenId::from_word(word).is_some_and(|id| !registry.is_alive(id));
    let mut claims = 0;
    // In this order: a holder seen dead or missing after `inside` proves that `inside` is no later owner's.
    let thread = inside.load(Ordering::Acquire);
    let process = holder.load(Ordering::Acquire);
    // `inside` first: a successor may come in as soon as the holder's name is gone.
    if is_dead(thread) && (is_dead(process) || TokenId::from_word(process).is_none()) {
        claims += 1;
        if !dry_run {
            let _ = inside.compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    } else if is_dead(thread) {
        kept.extend(TokenId::from_word(thread));
    }
    if is_dead(process) && TokenId::from_word(thread).is_none_or(|id| !registry.is_alive(id)) {
        claims += 1;
        if !dry_run {
            let mut seen = process;
            // Again when a waiter has set its bit meanwhile: it leaves the name where it is.
            while TokenId::from_word(seen) == TokenId::from_word(process) {
                let died = ROLE_DIED | seen & WAITERS;
                match holder.compare_exchange(seen, died, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(now) => seen = now,
                }
            }
            futex::wake_all(holder);
        }
    }
    claims
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::Slot;

    /// Nobody lives in the role, and the waiter asks to be woken by the next holder: the sweep must take the dead holder's
    /// name out all the same.
    #[test]
    fn loom_role_a_sweep_leaves_no_dead_holders_name_beside_a_waiter() {
        loom::model(|| {
            let registry: &'static Registry = Box::leak(Box::new(Registry::new(vec![Slot::held_by(100)])));
            let process = TokenId::new(0, 0);
            let words = Arc::new(RoleWords { holder: AtomicU32::new(process.as_u32()), ..RoleWords::default() });
            registry.slots[0].mark_died();
            let waiter = {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    let role = Role { words: &words, registry };
                    role.ask(role.standing().word | WAITERS)
                })
            };
            let role = Role { words: &words, registry };
            role.sweep(false, &mut Vec::new());
            assert_eq!(role.holder(), None, "the dead holder's id may be given out again after the sweep");
            waiter.join().unwrap();
            assert!(role.standing().is_dead(), "a waiter is told as by the name");
        });
    }
}
