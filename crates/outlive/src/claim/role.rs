//! A role that one process has at a time, and in which one of its threads may be acting: the writer
//! of a state, the receiver of a queue, the server of a service.
//!
//! `holder` names the *process*: others read it, and watch its end. `inside` names the *thread*
//! that may be acting in the role: a process token can read dead a moment before its last thread
//! has stopped, and a successor must not come in before. The handle has one owner in its process.
//! So the thread that now has the handle puts itself into `inside` before its first shared store,
//! by compare-exchange from the thread that the same handle put there before, and stays there until
//! another thread has the handle.
//!
//! | holder | inside | meaning | which process changes it, and how |
//! | --- | --- | --- | --- |
//! | 0 | 0 | no process has it | a taker: holder 0 → its process, inside → its thread |
//! | P alive | any | P has it | P leaves: inside → 0, then holder → 0, wake |
//! | P dead | T alive | T is being killed | a taker: holder P → its process, waits for T's end, inside T → its thread; T does not end: holder → ROLE_DIED |
//! | P dead | 0 or T dead | dead: waiters are told | a taker: holder P → its process, inside → its thread |
//! | ROLE_DIED | 0, T | the same, after a sweep or a taker that did not get in | the same |
//!
//! A taker that dies before `inside` leaves an older dead thread there, or 0: both let the next
//! taker in. A waiter that sleeps while no living process has the role sleeps on `holder` too, with
//! its WAITERS bit. The taker wakes such waiters; if it dies before it can, the kernel wakes one by
//! `relay`, which wakes the others. proof/models/endpoint.pml checks who comes in, and
//! proof/models/state_wait.pml who is woken.

use std::path::Path;
use std::time::Duration;

use crate::liveness::{Me, Peer, Registry, TokenId, WAITERS};
use crate::segment::Segment;
use crate::shim::{AtomicU32, Ordering, fence};
use crate::sys::Errno;
use crate::sys::futex::{self, Watch};
use crate::sys::probe::{self, probe};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, WaitError, WaitWords, has_changed, look_again};
use crate::{Deadline, Error};

/// In `holder`: the holder died, and a sweep removed its id.
pub(crate) const ROLE_DIED: u32 = 1;

/// See the file's head. All zeroes: no process has the role.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RoleWords {
    // Written by the process that takes the role or leaves it.
    holder: AtomicU32,
    inside: AtomicU32,
    /// Always 0: on this word the kernel relays the wake of a taker that dies.
    relay: AtomicU32,
    reserved: AtomicU32,
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RoleWords {}
crate::shim::assert_layout!(size_of::<RoleWords>() == 16);

impl RoleWords {
    #[inline]
    pub(crate) fn role(&self, registry: &'static Registry) -> Role<'_> {
        let RoleWords { holder, inside, relay, .. } = self;
        Role { holder, inside, relay, registry }
    }
}

/// The role as a process sees it: its three words, wherever they lie (see [`RoleWords`]).
#[derive(Clone, Copy)]
pub(crate) struct Role<'a> {
    pub(crate) holder: &'a AtomicU32,
    pub(crate) inside: &'a AtomicU32,
    pub(crate) relay: &'a AtomicU32,
    pub(crate) registry: &'static Registry,
}

/// The state of the role; `word` is the value of `holder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    word: u32,
    pub(crate) state: RoleState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoleState {
    Nobody,
    /// The waiter watches the end of this one: the process, or the last thread of a dead process.
    Living(TokenId),
    Dead,
}

impl Standing {
    /// Returns whether the former holder is dead, and no process has taken over.
    pub(crate) fn is_dead(self) -> bool {
        self.state == RoleState::Dead
    }

    #[inline]
    pub(crate) fn is_living(self) -> bool {
        matches!(self.state, RoleState::Living(_))
    }

    /// Returns whether `holder` has a value that no process writes there.
    pub(crate) fn is_damaged(self) -> bool {
        self.is_dead() && self.is_nameless() && self.holder() != ROLE_DIED
    }

    /// Returns the value of `holder`, without its bit for sleepers.
    pub(crate) fn holder(self) -> u32 {
        self.word & !WAITERS
    }

    /// Returns whether a sweep has taken the dead holder's name out.
    pub(crate) fn is_nameless(self) -> bool {
        TokenId::from_word(self.word).is_none()
    }

    /// Returns the token whose end would change this state. For a dead holder behind which no
    /// waiter sleeps yet, its own: such a sleep ends at once, and the next one asks the next taker
    /// for a wake-up ([`Role::add_to`]).
    pub(crate) fn watched(self) -> Option<TokenId> {
        match self.state {
            RoleState::Living(owner) => Some(owner),
            _ if self.word & WAITERS == 0 => TokenId::from_word(self.word),
            _ => None,
        }
    }
}

/// A role that this process has. The handle has one owner, which passes it from thread to thread.
#[derive(Clone, Copy)]
pub(crate) struct HeldRole {
    process: TokenId,
    /// The thread that this handle last put into the shared `inside`.
    inside: u32,
}

impl HeldRole {
    #[inline]
    pub(crate) fn is_inside(self, me: Me) -> bool {
        self.inside == me.id.as_u32()
    }

    /// Puts the calling thread, which got the handle, into `inside`: by compare-exchange from the
    /// thread that the handle put there last, so that a holder that was declared dead does not come
    /// in again. Returns `None` if this process is no longer the holder.
    #[cold]
    pub(crate) fn enter(self, role: Role<'_>, me: Me) -> Option<HeldRole> {
        // A forked child has its parent's handle, but is not the holder.
        if role.registry.process_token_if_any() != Some(self.process) {
            return None;
        }
        // AcqRel: before any other shared store of this thread. Died just after: the next taker
        // waits for this thread's end.
        let inside = me.id.as_u32();
        role.inside
            .compare_exchange(self.inside, inside, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
            .then_some(HeldRole { inside, ..self })
    }

    /// Leaves the role in good order. In a forked child it has no effect, and returns false.
    pub(crate) fn leave(self, role: Role<'_>) -> bool {
        self.leave_as(role, 0)
    }

    /// Leaves the role as the death of this process would: others are told of a death.
    pub(crate) fn disown(self, role: Role<'_>) -> bool {
        self.leave_as(role, ROLE_DIED)
    }

    fn leave_as(self, role: Role<'_>, leaving: u32) -> bool {
        if role.registry.process_token_if_any() != Some(self.process) {
            return false;
        }
        // `inside` first: if it still named this thread, which lives on, a later successor would
        // wait for its end. From the value that we put there last: if that fails, we were declared
        // dead, and another process has the role.
        if role.inside.compare_exchange(self.inside, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            role.leave_holder(self.process, leaving);
        }
        true
    }
}

/// How long the last thread of a dead holder has to exit. The kernel has killed it already.
const LONGEST_END: Duration = Duration::from_secs(2);

/// Returns what a try to take a role has brought: `None` while another process has it, or while the
/// last thread of a dead one has not exited.
pub(crate) fn unless_taken<H>(taken: Result<H, Error>) -> Result<Option<H>, Error> {
    match taken {
        Err(Error::Taken { .. } | Error::Ending { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// Why a thread did not get into `inside`.
enum NotInside {
    /// Another process, of that pid, took the role, as this one seemed dead.
    Taken {
        pid: Option<u32>,
    },
    /// The dead holder's thread, of that process, has not exited.
    Ending {
        pid: Option<u32>,
    },
    System(Error),
}

/// Returns the owner's process; `None` when the registry does not know the owner any more.
fn pid_of(owner: &Peer) -> Option<u32> {
    owner.info().map(|info| info.pid)
}

impl Role<'_> {
    /// Makes the calling thread's process the holder. It waits for the last thread of a dead holder
    /// until the deadline, and two seconds at most. `name`: what errors call the role of the words
    /// in that file.
    ///
    /// # Errors
    /// [`Error::Taken`], [`Error::Ending`], [`Error::Damaged`], and errors of the system.
    pub(crate) fn take(
        self,
        name: &'static str,
        segment: &Segment,
        deadline: Deadline,
    ) -> Result<HeldRole, Error> {
        let process = self.registry.process_token()?;
        let me = self.registry.me()?;
        let path = || segment.path().to_path_buf();
        let holder = self.holder;
        let pass = WakeRelay::begin(me.list());
        // Died between the exchange and the wake below: the kernel wakes one of the waiters for a
        // holder.
        pass.to(self.relay);
        let before = loop {
            let word = holder.load(Ordering::Acquire);
            if let Some(token) = TokenId::from_word(word) {
                let peer = Peer::new(self.registry, token);
                if peer.is_alive() {
                    let pid = pid_of(&peer);
                    return Err(Error::Taken { role: name, path: path(), pid });
                }
            } else if !matches!(word & !WAITERS, 0 | ROLE_DIED) {
                return Err(segment.damaged("the word of a role's holder"));
            }
            // AcqRel: the caller sees all that a predecessor wrote; a process that sees us finds us
            // alive.
            if holder
                .compare_exchange(word, process.as_u32(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                if word & WAITERS != 0 {
                    futex::wake_all(holder);
                }
                if let Some(dead) = TokenId::from_word(word) {
                    let pid = || Peer::new(self.registry, dead).info().map_or(0, |info| info.pid);
                    probe!(took_over, segment.path(), pid().into(), probe::OF_A_ROLE);
                }
                break if TokenId::from_word(word).is_some() { ROLE_DIED } else { word & !WAITERS };
            }
        };
        let result = match self.take_inside(me, process, deadline) {
            Ok(()) => Ok(HeldRole { process, inside: me.id.as_u32() }),
            Err(NotInside::Taken { pid }) => Err(Error::Taken { role: name, path: path(), pid }),
            Err(NotInside::Ending { pid }) => Err(Error::Ending { role: name, path: path(), pid }),
            Err(NotInside::System(error)) => Err(error),
        };
        if result.is_err() {
            // As it was found: otherwise others would take us for the holder.
            self.leave_holder(process, before);
        }
        // In place of a fence before which the predecessor may have died: the one between the last
        // value that it stored and the taker's first look at what readers store (a state's cells).
        fence(Ordering::SeqCst);
        result
    }

    /// Repeats `take`, which makes this process the holder by [`Role::take`], until no other process
    /// is in the way: it sleeps while a living process has the role, and its end wakes it. `None`:
    /// the deadline has passed. Several that wait are all woken, and the one whose exchange comes
    /// first has the role; the others sleep behind it. `registry_path` is for errors of the sleep.
    #[cold]
    pub(crate) fn wait_to_take<H>(
        self,
        registry_path: &Path,
        deadline: Deadline,
        mut take: impl FnMut() -> Result<H, Error>,
    ) -> Result<Option<H>, Error> {
        loop {
            // Before the name is in `holder`: others would take a process that only waits for a
            // dead one's last thread for the holder.
            if !deadline.has_passed() && !self.wait_free(registry_path, deadline)? {
                return Ok(None);
            }
            let taken = unless_taken(take())?;
            if taken.is_some() || deadline.has_passed() {
                return Ok(taken);
            }
        }
    }

    /// Waits until no living process has the role, and no thread of a dead one. Returns `false` when
    /// the deadline passed.
    fn wait_free(self, registry_path: &Path, deadline: Deadline) -> Result<bool, Error> {
        let me = self.registry.me()?;
        let relay = WakeRelay::begin(me.list());
        loop {
            let standing = self.standing();
            if !standing.is_living() {
                return Ok(true);
            }
            if deadline.has_passed() {
                return Ok(false);
            }
            let slept = self.sleep(&relay, &[], standing, deadline);
            slept.map_err(|errno| Error::from_errno("wait in", registry_path, errno))?;
        }
    }

    /// Does the second step: the thread that may still be inside has to end first.
    fn take_inside(self, me: Me, process: TokenId, deadline: Deadline) -> Result<(), NotInside> {
        let inside = self.inside;
        // Died just before: `inside` names an older dead thread, or none, and the next taker goes
        // on from there.
        let deadline = Deadline::after(LONGEST_END).earlier(deadline);
        loop {
            let seen = inside.load(Ordering::Acquire);
            self.wait_until_outside(seen, deadline)?;
            // Without this, a merely slow thread would rob a successor whose own thread has ended
            // since.
            let holder = self.holder.load(Ordering::Acquire);
            let now = TokenId::from_word(holder);
            if now != Some(process) {
                let pid = now.and_then(|now| pid_of(&Peer::new(self.registry, now)));
                return Err(NotInside::Taken { pid });
            }
            // By compare-exchange: a running thread of the dead process may have passed the handle
            // on.
            if inside
                .compare_exchange(seen, me.id.as_u32(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Ok(());
            }
        }
    }

    /// Waits until the dead process's thread has ended: it may still be between two instructions.
    fn wait_until_outside(self, inside: u32, deadline: Deadline) -> Result<(), NotInside> {
        let Some(thread) = TokenId::from_word(inside) else {
            return Ok(());
        };
        let thread = Peer::new(self.registry, thread);
        match thread.wait_dead_until(deadline) {
            Ok(()) => Ok(()),
            Err(WaitError::TimedOut) => Err(NotInside::Ending { pid: pid_of(&thread) }),
            Err(WaitError::System(error)) => Err(NotInside::System(error)),
        }
    }

    /// Takes our process's name out of `holder`, if it is still there.
    fn leave_holder(self, process: TokenId, leaving: u32) {
        let holder = self.holder;
        let mut word = holder.load(Ordering::Relaxed);
        while TokenId::from_word(word) == Some(process) {
            match holder.compare_exchange(
                word,
                leaving | word & WAITERS,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    // Sleepers watch this word. Died just before: they watch our token as well.
                    futex::wake_all(holder);
                    return;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Returns the value of `holder`, to sleep on.
    pub(super) fn word(self) -> u32 {
        self.holder.load(Ordering::Acquire)
    }

    /// Returns the holder, dead or alive.
    pub(crate) fn holder(self) -> Option<TokenId> {
        TokenId::from_word(self.holder.load(Ordering::Acquire))
    }

    /// Returns the state just now. If the holder reads dead here, later loads see what it had done.
    pub(crate) fn standing(self) -> Standing {
        let seen = self.standing_of_process();
        // The last thread of a dead process may still be acting.
        let inside = || TokenId::from_word(self.inside.load(Ordering::Acquire));
        match seen.is_dead().then(inside).flatten() {
            Some(thread) if self.registry.is_alive(thread) => {
                Standing { state: RoleState::Living(thread), ..seen }
            }
            _ => seen,
        }
    }

    /// Returns the state just now as the process's token tells it: the last thread of a dead
    /// process may still be acting.
    #[inline]
    pub(crate) fn standing_of_process(self) -> Standing {
        // Acquire pairs with `take`.
        let word = self.holder.load(Ordering::Acquire);
        let state = match TokenId::from_word(word) {
            Some(process) if self.registry.is_alive(process) => RoleState::Living(process),
            None if word & !WAITERS == 0 => RoleState::Nobody,
            _ => RoleState::Dead,
        };
        Standing { word, state }
    }

    /// Sleeps until one of `also` changes, two words at most, or the role's state does.
    #[cold]
    pub(crate) fn sleep(
        self,
        pass: &WakeRelay,
        also: &[Watch<'_>],
        seen: Standing,
        deadline: Deadline,
    ) -> Result<Asleep, Errno> {
        let Role { holder, relay, registry, .. } = self;
        if let RoleState::Living(owner) = seen.state {
            let mut words = [Watch { word: holder, expected: seen.word }; 3];
            let also = &also[..also.len().min(2)];
            words[..also.len()].copy_from_slice(also);
            let words = &words[..=also.len()];
            return Sleep::on(registry, words).behind(pass, &[owner]).until(deadline);
        }
        pass.to(relay);
        let asked = seen.word | WAITERS;
        if !self.ask(asked) {
            return look_again(deadline);
        }
        // A wake-up by `relay` may have died together with a wait set. The sleep watches no
        // process: the next taker may be stopped before its wake.
        let (own, relay) =
            (Watch { word: holder, expected: asked }, Watch { word: relay, expected: 0 });
        let mut words = [own; 4];
        let also = &also[..also.len().min(2)];
        words[0] = relay;
        words[1..][..also.len()].copy_from_slice(also);
        let words = &words[..2 + also.len()];
        let end = Sleep::on(registry, words)
            .about(words.len() - 1)
            .until_it_comes(deadline, || has_changed(words));
        self.woken(asked);
        end
    }

    /// Asks for a wake-up while no living process has the role, and `holder` says so (but for
    /// WAITERS): from now on the next taker wakes its sleepers. Returns false if `holder` says
    /// something else.
    fn ask(self, asked: u32) -> bool {
        let Role { holder, relay, .. } = self;
        // A stray write: the word never means anything but 0.
        if relay.load(Ordering::Relaxed) != 0 {
            relay.store(0, Ordering::Relaxed);
        }
        let now = holder.load(Ordering::Acquire);
        if now | WAITERS != asked {
            // Woken by the relay word, or late: the taker may have died before it woke the others.
            futex::wake_all(holder);
            return false;
        }
        if now == asked {
            return true;
        }
        // Sleepers there slept on an older value, and the process that changed it may have died
        // before it woke them. The kernel would then wake one by the relay word, and must not
        // choose this thread, which looks already. Died just after: the next waiter does it again.
        futex::wake_all(holder);
        holder.compare_exchange(now, asked, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Wakes the other sleepers if `holder` has changed: a waiter that slept on what it asked for
    /// must call this.
    pub(crate) fn woken(self, asked: u32) {
        if self.holder.load(Ordering::Acquire) | WAITERS != asked {
            futex::wake_all(self.holder);
        }
    }

    /// Adds the words on which a wait set sleeps as long as the state stays as just now. Returns
    /// what it asked for, for [`Role::woken`]; or `None` if a living holder exists, whose end the
    /// set watches ([`Standing::watched`], from a later look).
    pub(crate) fn add_to<'w>(self, words: &mut WaitWords<'w>) -> Option<u32>
    where
        Self: 'w,
    {
        let seen = self.standing();
        if seen.is_living() {
            words.add(&[Watch { word: self.holder, expected: seen.word }]);
            return None;
        }
        let asked = seen.word | WAITERS;
        // `holder` says something else: then the sleep ends at once.
        let _ = self.ask(asked);
        words.add(&[
            Watch { word: self.relay, expected: 0 },
            Watch { word: self.holder, expected: asked },
        ]);
        words.relay_by(self.relay);
        Some(asked)
    }

    /// Does a sweep's part: takes the names of the dead out of the role's words, and returns how
    /// many there were. The name of a dead thread whose process still has the role stays, and goes
    /// into `kept`.
    pub(crate) fn sweep(self, dry_run: bool, kept: &mut Vec<TokenId>) -> u32 {
        let Role { holder, inside, registry, .. } = self;
        let is_dead = |word: u32| TokenId::from_word(word).is_some_and(|id| !registry.is_alive(id));
        let mut claims = 0;
        // In this order: a holder that is dead or missing after the load of `inside` proves that
        // `inside` is no later owner's.
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
                // Again when a waiter has set its bit meanwhile: that leaves the name where it is.
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
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::Slot;
    use crate::shim::explore_all;

    /// No living process has the role, and the waiter asks the next holder for a wake-up: the sweep
    /// must take the dead holder's name out all the same.
    #[test]
    fn loom_role_a_sweep_leaves_no_dead_holders_name_beside_a_waiter() {
        explore_all(|| {
            let registry: &'static Registry =
                Box::leak(Box::new(Registry::new(vec![Slot::held_by(100)])));
            let process = TokenId::new(0, 0);
            let words = Arc::new(RoleWords {
                holder: AtomicU32::new(process.as_u32()),
                ..RoleWords::default()
            });
            registry.slots[0].mark_died();
            let waiter = {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    let role = words.role(registry);
                    role.ask(role.standing().word | WAITERS)
                })
            };
            let role = words.role(registry);
            role.sweep(false, &mut Vec::new());
            assert_eq!(
                role.holder(),
                None,
                "the dead holder's id may be given out again after the sweep"
            );
            waiter.join().unwrap();
            assert!(role.standing().is_dead(), "a waiter is told as by the name");
        });
    }
}
