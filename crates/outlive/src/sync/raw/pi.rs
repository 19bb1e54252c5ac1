//! A mutex that lends its holder the priority of whoever waits for it: libc's robust, process-shared, inheriting one,
//! made to tell of deaths as ours do.
//!
//! | libc's word | state | meaning | a death here |
//! | --- | --- | --- | --- |
//! | 0 | consistent | free | |
//! | thread id (+ WAITERS) | consistent | held | the kernel marks the word, or hands it to a sleeper, marked |
//! | OWNER_DIED (+ id) | any | its owner died; the next to lock hears it from libc | the same again |
//! | thread id | inconsistent | held by one who was told, or who panics | marked; told again |
//! | 0 | inconsistent | not marked consistent by one who was told, or who panicked | the next is told |
//! | thread id | not recoverable | being given up, or refused | marked; refused |
//! | 0 | not recoverable | given up | every lock is refused until `reset` |
//!
//! Why libc's: the kernel finds a lock to mark by the robust list, of which a thread has one, and that is libc's. Its word
//! must hold the thread id, not a token, so that the kernel knows whom to lend to: hence it works within one pid
//! namespace, which `binding` names, set by compare-exchange at the first use. doc/protocols/pi_mutex.md has the argument.

use std::time::Duration;

use super::mutex::{CONSISTENT, INCONSISTENT, NOT_RECOVERABLE};
use super::{Acquired, Refused};
use crate::claim::Holder;
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::Shared;
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::futex::Watch;
use crate::sys::futex_call::{OWNER_DIED, TID_MASK, WAITERS};
use crate::sys::libc_mutex::{self, Got, ROOM};
use crate::sys::process::{self, Numbered};
use crate::sys::{Errno, robust};
use crate::wake::WaitRecord;
use crate::{Deadline, Error};

/// How long one sleep in libc lasts at most. libc answers a circle of owners (each waits for the next) by sleeping until
/// its deadline: without one it would sleep on after a death had broken the circle.
const SLICE: Duration = Duration::from_secs(1);

/// See the file's head. 64 bytes.
#[repr(C, align(64))]
pub(crate) struct RawPi {
    // Written once, by whoever uses it first: pid namespace << 32 | what libc's mutex looks like.
    binding: AtomicU64,
    // Written by the holder.
    pub(crate) state: AtomicU32,
    /// The holder's token: for those who look. What counts is libc's word.
    pub(crate) owner: AtomicU32,
    // Written by libc and the kernel.
    libc_mutex: [AtomicU32; ROOM / 4],
}

const _: () = assert!(size_of::<RawPi>() == 64 && core::mem::offset_of!(RawPi, libc_mutex) == 16);

// SAFETY: atomics only.
unsafe impl Shared for RawPi {}

impl RawPi {
    /// Makes it this namespace's and this libc's, if it is nobody's yet; refuses another's.
    pub(crate) fn bind(&self, me: Me, path: &std::path::Path) -> Result<(), Error> {
        let layout = libc_mutex::inheriting_layout()
            .map_err(|errno| Error::from_errno("lay out a mutex with priority inheritance in", path, errno))?;
        let mine = me.registry.binding()? >> 32 << 32 | u64::from(layout.mark());
        // Acquire pairs with the Release below: libc's words were prepared before.
        let mut binding = self.binding.load(Ordering::Acquire);
        if binding == 0 {
            // Two who prepare at once store the same values, unless they are of two libcs: so first come, then prepare,
            // and whoever finds it bound prepares again (`prepare` stores only what is missing).
            binding = match self.binding.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => mine,
                Err(theirs) => theirs,
            };
        }
        if binding != mine {
            let path = path.to_path_buf();
            return Err(if binding >> 32 == mine >> 32 {
                Error::OtherLibc { path }
            } else {
                Error::OtherNamespace { path }
            });
        }
        libc_mutex::prepare(&layout, &self.libc_mutex);
        Ok(())
    }

    /// `namespace` is 0 where the process does not know its own yet: that binds nothing.
    #[inline]
    pub(crate) fn is_bound_to(&self, namespace: u32) -> bool {
        namespace != 0 && self.binding.load(Ordering::Relaxed) >> 32 == u64::from(namespace)
    }

    /// libc's lock word.
    pub(crate) fn word(&self) -> &AtomicU32 {
        // A damaged offset must not lead outside.
        let offset = self.binding.load(Ordering::Relaxed) as u8 as usize;
        self.libc_mutex.get(offset / 4).unwrap_or(&self.libc_mutex[0])
    }

    fn mutex(&self) -> *mut u8 {
        self.libc_mutex.as_ptr().cast_mut().cast()
    }

    /// Takes it; `None` never waits.
    #[inline]
    pub(crate) fn lock(&self, me: Me, deadline: Option<Deadline>) -> Result<Acquired, Refused> {
        self.acquire(me, deadline).and_then(|()| self.entered(me))
    }

    /// Takes it, whatever state it is in; `None` never waits.
    #[inline]
    pub(crate) fn acquire(&self, me: Me, deadline: Option<Deadline>) -> Result<(), Refused> {
        // A thread that has a condition variable's wake-up in hand, with the mutex of its wait, may come here.
        // SAFETY: the calling thread's own list.
        unsafe { robust::beside_libc_of(me.list(), || self.acquire_of_libc(me, deadline)) }
    }

    #[inline]
    fn acquire_of_libc(&self, me: Me, deadline: Option<Deadline>) -> Result<(), Refused> {
        // SAFETY: bound to this libc and prepared; a handle's mapping is kept until the process ends.
        match unsafe { libc_mutex::try_lock(self.mutex()) } {
            Ok(Got::Clean) => Ok(()),
            Ok(Got::OwnerDied) => self.inherit(),
            Ok(Got::Busy | Got::TimedOut) => self.acquire_slow(me, deadline),
            Err(errno) => Err(refusal(errno)),
        }
    }

    #[cold]
    fn acquire_slow(&self, me: Me, deadline: Option<Deadline>) -> Result<(), Refused> {
        let own = process::thread_id();
        robust::begin_acquisition();
        loop {
            let seen = self.word().load(Ordering::Acquire);
            let owner = seen & TID_MASK;
            if owner == own {
                return Err(Refused::Deadlock);
            }
            // libc ends this process on meeting a number that is nobody's or the kernel's.
            match if owner == 0 { Numbered::Lives } else { process::look_at_thread(owner) } {
                Numbered::Lives => {}
                Numbered::Ended => self.mark_died(me, seen),
                Numbered::Kernel => return Err(Refused::Damaged),
            }
            let got = match deadline {
                // SAFETY: as in `acquire`.
                None => unsafe { libc_mutex::try_lock(self.mutex()) },
                Some(deadline) => {
                    let note = WaitRecord::begin(me.registry, Some(&Watch { word: self.word(), expected: seen }));
                    let until = deadline.earlier(Deadline::after(SLICE));
                    // SAFETY: as in `acquire`.
                    let got = unsafe { libc_mutex::lock_until(self.mutex(), until) };
                    WaitRecord::end(note, got == Ok(Got::TimedOut));
                    got
                }
            };
            match got {
                Ok(Got::Clean) if self.word().load(Ordering::Relaxed) & TID_MASK == own => return Ok(()),
                Ok(Got::OwnerDied) => return self.inherit(),
                // libc takes some answers of the kernel's to a damaged word for a yes.
                Ok(Got::Clean) => return Err(Refused::Damaged),
                Ok(Got::Busy | Got::TimedOut) => match deadline {
                    None => return Err(Refused::WouldBlock),
                    Some(deadline) if deadline.has_passed() => return Err(Refused::TimedOut),
                    Some(_) => {}
                },
                Err(errno) => return Err(refusal(errno)),
            }
        }
    }

    /// The kernel loses its mark when the memory of a process is reaped before its robust list is walked. We make it
    /// instead.
    ///
    /// A compare-exchange on exactly what was seen: a word that names the dead can be changed by nobody but those who
    /// do this.
    #[cold]
    fn mark_died(&self, me: Me, seen: u32) {
        let marked = seen & WAITERS | OWNER_DIED;
        if self.word().compare_exchange(seen, marked, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            me.registry.count_rescue();
        }
    }

    /// Ours, from a dead owner.
    #[cold]
    fn inherit(&self) -> Result<(), Refused> {
        if self.state.load(Ordering::Relaxed) == CONSISTENT {
            // Died just before or after: marked by the kernel, so libc tells the next as well.
            self.state.store(INCONSISTENT, Ordering::Relaxed);
        }
        // SAFETY: libc has just given it to us so.
        unsafe { libc_mutex::mark_consistent(self.mutex()) }.map_err(|errno| {
            // SAFETY: held by this thread.
            let _ = unsafe { libc_mutex::give_back(self.mutex()) };
            refusal(errno)
        })
    }

    /// The lock is ours: is it of any use?
    #[inline]
    fn entered(&self, me: Me) -> Result<Acquired, Refused> {
        // Relaxed: for those who look.
        self.owner.store(me.id.as_u32(), Ordering::Relaxed);
        // Relaxed: written by holders only, libc's lock orders it.
        match self.state.load(Ordering::Relaxed) {
            CONSISTENT => Ok(Acquired::Clean),
            state => self.entered_slow(me, state),
        }
    }

    #[cold]
    fn entered_slow(&self, me: Me, state: u32) -> Result<Acquired, Refused> {
        if state == INCONSISTENT {
            me.registry.count_owner_death();
            return Ok(Acquired::OwnerDied);
        }
        self.release(me);
        Err(if state == NOT_RECOVERABLE { Refused::NotRecoverable } else { Refused::Damaged })
    }

    /// Gives it back when a panic has cut the holder's work in half: the next one is told, as of a death.
    #[cold]
    pub(crate) fn release_unfinished(&self, me: Me) {
        if self.state.load(Ordering::Relaxed) == CONSISTENT {
            // Relaxed: libc's lock orders it. Died just after: the next hears of a death from libc as well.
            self.state.store(INCONSISTENT, Ordering::Relaxed);
        }
        self.release(me);
    }

    /// Gives it back, and up: every locker is refused until somebody resets it. The calling thread holds it.
    #[cold]
    pub(crate) fn give_up(&self, me: Me) {
        // Relaxed: libc's lock orders it. Died just after: the next hears of a death from libc, and is refused.
        self.state.store(NOT_RECOVERABLE, Ordering::Relaxed);
        self.release(me);
    }

    /// Gives it back, its state as it is: not marked consistent by a holder that was told, the next one is told again. The
    /// calling thread holds it.
    #[inline]
    pub(crate) fn release(&self, me: Me) {
        // An error says that the word is no longer ours: a stray write, which the next locker meets.
        // SAFETY: the calling thread's own list; the lock is held by this thread.
        let _ = unsafe { robust::beside_libc_of(me.list(), || libc_mutex::give_back(self.mutex())) };
    }

    /// Who holds it, or died holding it.
    pub(crate) fn holder(&self, registry: &'static Registry) -> Option<Holder> {
        let word = self.word().load(Ordering::Acquire);
        let token = TokenId::from_word(self.owner.load(Ordering::Relaxed))?;
        let holder = Holder::of(registry, token);
        // The token is written after the lock is taken: until then it is somebody else's, who had it before.
        let is_it = match word & TID_MASK {
            0 => word & OWNER_DIED != 0 && !holder.alive,
            tid => holder.tid == tid,
        };
        is_it.then_some(holder)
    }
}

/// What libc refused for.
#[cold]
fn refusal(errno: Errno) -> Refused {
    match errno {
        // Self-deadlock is found before libc is asked; the rest can only be said of words that nobody of ours wrote.
        Errno::INVAL | Errno::NOTRECOVERABLE | Errno::PERM | Errno::SRCH | Errno::DEADLK => Refused::Damaged,
        errno => Refused::System(errno),
    }
}
