//! A mutex that lends its holder the priority of its waiters: libc's robust, process-shared mutex
//! with priority inheritance, made to tell of deaths as the other locks do.
//!
//! | libc's word | state | meaning | a death here |
//! | --- | --- | --- | --- |
//! | 0 | consistent | free | |
//! | thread id (+ WAITERS) | consistent | held | the kernel marks the word, or hands it to a sleeper, marked |
//! | OWNER_DIED (+ id) | any | its owner died; libc tells the next locker | the same again |
//! | thread id | inconsistent | its holder was told of a death, or panics | marked; told again |
//! | 0 | inconsistent | a holder that was told, or that panicked, did not mark it consistent | the next locker is told |
//! | thread id | not recoverable | its holder marks it so, or is about to be refused | marked; refused |
//! | 0 | not recoverable | free, and no process may have it | every locker is refused until `reset` |
//!
//! Why libc's mutex: the kernel finds a lock to mark by the robust list; a thread has one such
//! list, and libc owns it. The word must hold the thread id, not a token, so that the kernel knows
//! to which thread it lends: hence the mutex works within one pid namespace, which `binding` names,
//! set by compare-exchange at the first use. doc/protocols/pi_mutex.md has the argument.

use std::time::Duration;

use super::mutex::{CONSISTENT, INCONSISTENT, NOT_RECOVERABLE};
use super::relock::Relock;
use super::{Acquired, Refused};
use crate::claim::Holder;
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::SharedLayout;
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::futex::Watch;
use crate::sys::futex_call::{OWNER_DIED, TID_MASK, WAITERS};
use crate::sys::libc_mutex::{self, Got, ROOM};
use crate::sys::process::{self, Numbered};
use crate::sys::{Errno, robust};
use crate::wake::{SpinWait, WaitRecord};
use crate::{Deadline, Error};

/// How long one sleep in libc lasts at most. libc answers a cycle of owners (each waits for the
/// next) by sleeping until its deadline; without a deadline it would sleep on after a death had
/// broken the cycle.
const SLICE: Duration = Duration::from_secs(1);

/// See the file's head. 64 bytes.
#[repr(C, align(64))]
pub struct RawPi {
    // The first user writes it once: pid namespace << 32 | what libc's mutex looks like.
    binding: AtomicU64,
    // Written by the holder.
    pub(crate) state: AtomicU32,
    /// The holder's token, for inspection. Only libc's word decides.
    pub(crate) owner: AtomicU32,
    // Written by libc and the kernel.
    libc_mutex: [AtomicU32; ROOM / 4],
}

const _: () = assert!(size_of::<RawPi>() == 64 && core::mem::offset_of!(RawPi, libc_mutex) == 16);

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl SharedLayout for RawPi {}

impl RawPi {
    /// Binds it to this namespace and this libc, if it is not bound yet; refuses if it is bound
    /// elsewhere.
    pub(crate) fn bind(&self, me: Me, path: &std::path::Path) -> Result<(), Error> {
        let layout = libc_mutex::inheriting_layout().map_err(|errno| {
            Error::from_errno("lay out a mutex with priority inheritance in", path, errno)
        })?;
        let mine = me.registry.binding()? >> 32 << 32 | u64::from(layout.mark());
        // Acquire pairs with the Release below: libc's words were prepared before it.
        let mut binding = self.binding.load(Ordering::Acquire);
        if binding == 0 {
            // Two processes that prepare at once store the same values, unless they use two libcs:
            // so claim first, then prepare; and a process that finds it bound prepares again
            // (`prepare` stores only what is missing).
            binding =
                match self.binding.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => mine,
                    Err(theirs) => theirs,
                };
        }
        if binding != mine {
            let path = path.to_path_buf();
            let is_libc = binding >> 32 == mine >> 32;
            let what = if is_libc { "C library" } else { "pid namespace" };
            return Err(Error::OtherEnvironment { path, what });
        }
        libc_mutex::prepare(&layout, &self.libc_mutex);
        Ok(())
    }

    /// Returns whether it is bound to that namespace; 0, of a process that does not know its own
    /// yet, is never bound.
    #[inline]
    pub(crate) fn is_bound_to(&self, namespace: u32) -> bool {
        namespace != 0 && self.binding.load(Ordering::Relaxed) >> 32 == u64::from(namespace)
    }

    /// Returns libc's lock word.
    pub(crate) fn word(&self) -> &AtomicU32 {
        // A damaged offset must not lead outside.
        let offset = self.binding.load(Ordering::Relaxed) as u8 as usize;
        self.libc_mutex.get(offset / 4).unwrap_or(&self.libc_mutex[0])
    }

    fn mutex(&self) -> *mut u8 {
        self.libc_mutex.as_ptr().cast_mut().cast()
    }

    /// Takes the lock; with `None` it never waits.
    #[inline]
    pub(crate) fn lock(&self, me: Me, deadline: Option<Deadline>) -> Result<Acquired, Refused> {
        self.acquire(me, deadline).and_then(|()| self.entered(me))
    }

    /// Takes the lock, whatever its state; with `None` it never waits.
    #[inline]
    pub(crate) fn acquire(&self, me: Me, deadline: Option<Deadline>) -> Result<(), Refused> {
        // The thread may have a condition variable's wake-up in hand, with the mutex of its wait.
        // SAFETY: `me.list()` is the calling thread's own robust list.
        unsafe { robust::beside_libc_of(me.list(), || self.acquire_of_libc(me, deadline)) }
    }

    /// Takes the lock, whatever its state, if that needs no system call.
    #[inline]
    pub(crate) fn try_acquire(&self, me: Me) -> bool {
        // SAFETY: `me.list()` is the calling thread's own robust list. `bind` has bound the words
        // to this libc and prepared them; a handle's mapping stays until the process ends.
        match unsafe { robust::beside_libc_of(me.list(), || libc_mutex::try_lock(self.mutex())) } {
            Ok(Got::Clean) => true,
            Ok(Got::OwnerDied) => self.inherit().is_ok(),
            _ => false,
        }
    }

    #[inline]
    fn acquire_of_libc(&self, me: Me, deadline: Option<Deadline>) -> Result<(), Refused> {
        // SAFETY: `bind` has bound the words to this libc and prepared them; a handle's mapping
        // stays until the process ends.
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
            // libc ends this process when it meets a number that no thread has or that is the
            // kernel's.
            match if owner == 0 { Numbered::Lives } else { process::look_at_thread(owner) } {
                Numbered::Lives => {}
                Numbered::Ended => self.mark_died(me, seen),
                Numbered::Kernel => return Err(Refused::Damaged),
            }
            let got = match deadline {
                // SAFETY: `bind` has bound the words to this libc and prepared them; a handle's
                // mapping stays until the process ends.
                None => unsafe { libc_mutex::try_lock(self.mutex()) },
                Some(deadline) => {
                    let note = WaitRecord::begin(
                        me.registry,
                        Some(&Watch { word: self.word(), expected: seen }),
                    );
                    let until = deadline.earlier(Deadline::after(SLICE));
                    // SAFETY: `bind` has bound the words to this libc and prepared them; a handle's
                    // mapping stays until the process ends.
                    let got = unsafe { libc_mutex::lock_until(self.mutex(), until) };
                    WaitRecord::end(note, got == Ok(Got::TimedOut));
                    got
                }
            };
            match got {
                Ok(Got::Clean) if self.word().load(Ordering::Relaxed) & TID_MASK == own => {
                    return Ok(());
                }
                Ok(Got::OwnerDied) => return self.inherit(),
                // libc takes some of the kernel's answers to a damaged word for success.
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

    /// Marks the word in the kernel's place: the kernel loses its mark when the memory of a process
    /// is reaped before the kernel walks the robust list.
    ///
    /// A compare-exchange on exactly what was seen: only threads that do this can change a word
    /// that names a dead thread.
    #[cold]
    fn mark_died(&self, me: Me, seen: u32) {
        let marked = seen & WAITERS | OWNER_DIED;
        if self.word().compare_exchange(seen, marked, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            me.registry.count_rescue();
        }
    }

    /// Takes over what a dead owner left: the lock is ours.
    #[cold]
    fn inherit(&self) -> Result<(), Refused> {
        if self.state.load(Ordering::Relaxed) == CONSISTENT {
            // Died just before or after: the kernel marks it, so libc tells the next locker as
            // well.
            self.state.store(INCONSISTENT, Ordering::Relaxed);
        }
        // SAFETY: libc has just given this thread the lock, with EOWNERDEAD.
        unsafe { libc_mutex::mark_consistent(self.mutex()) }.map_err(|errno| {
            // SAFETY: this thread holds the lock.
            let _ = unsafe { libc_mutex::give_back(self.mutex()) };
            refusal(errno)
        })
    }

    /// Leaves the token of the caller, which has just taken the lock, and returns whether what the
    /// lock guards is whole.
    #[inline]
    pub(crate) fn note_owner(&self, me: Me) -> bool {
        // Relaxed: for inspection only.
        self.owner.store(me.id.as_u32(), Ordering::Relaxed);
        // Relaxed: only holders write it, and libc's lock orders it.
        self.state.load(Ordering::Relaxed) == CONSISTENT
    }

    /// Decides what the lock's state means to the caller, which has just taken it.
    #[inline]
    pub(crate) fn entered(&self, me: Me) -> Result<Acquired, Refused> {
        if self.note_owner(me) {
            return Ok(Acquired::Clean);
        }
        self.entered_slow(me, self.state.load(Ordering::Relaxed))
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

    /// Unlocks when a panic has interrupted the holder's change: the next locker is told, as of a
    /// death.
    #[cold]
    pub(crate) fn release_unfinished(&self, me: Me) {
        if self.state.load(Ordering::Relaxed) == CONSISTENT {
            // Relaxed: libc's lock orders it. Died just after: libc tells the next locker as well.
            self.state.store(INCONSISTENT, Ordering::Relaxed);
        }
        self.release(me);
    }

    /// Marks the lock not recoverable, and unlocks it: every locker is refused until a process
    /// resets it. The calling thread holds it.
    #[cold]
    pub(crate) fn mark_not_recoverable(&self, me: Me) {
        // Relaxed: libc's lock orders it. Died just after: libc tells the next locker, which is
        // then refused.
        self.state.store(NOT_RECOVERABLE, Ordering::Relaxed);
        self.release(me);
    }

    /// Unlocks and leaves the state: if a holder that was told did not mark it consistent, the next
    /// locker is told again. The calling thread holds the lock.
    #[inline]
    pub(crate) fn release(&self, me: Me) {
        // An error says that the word is no longer ours: a stray write, which the next locker
        // meets.
        // SAFETY: `me.list()` is the calling thread's own robust list, and this thread holds the
        // lock.
        let _ =
            unsafe { robust::beside_libc_of(me.list(), || libc_mutex::give_back(self.mutex())) };
    }

    /// Returns the thread that holds the lock, or died holding it.
    pub(crate) fn holder(&self, registry: &'static Registry) -> Option<Holder> {
        let word = self.word().load(Ordering::Acquire);
        let token = TokenId::from_word(self.owner.load(Ordering::Relaxed))?;
        let holder = Holder::of(registry, token);
        // The holder writes its token after it has taken the lock: until then the token is an
        // earlier holder's.
        let is_it = match word & TID_MASK {
            0 => word & OWNER_DIED != 0 && !holder.alive,
            tid => holder.tid == tid,
        };
        is_it.then_some(holder)
    }
}

impl Relock for &RawPi {
    const TAKES_LIST: bool = true;

    /// A spin could keep a less urgent holder or notifier from running.
    const SPINS: bool = false;

    fn is_consistent(&self) -> bool {
        // Relaxed: only holders write it, and libc's lock orders it.
        self.state.load(Ordering::Relaxed) == CONSISTENT
    }

    fn release(&self, me: Me) {
        RawPi::release(self, me);
    }

    fn try_lock(&self, me: Me) -> Result<Acquired, Refused> {
        RawPi::lock(self, me, None)
    }

    fn lock(&self, me: Me, _: &SpinWait, deadline: Deadline) -> Result<Acquired, Refused> {
        RawPi::lock(self, me, Some(deadline))
    }

    fn is_free(&self) -> bool {
        self.word().load(Ordering::Relaxed) & TID_MASK == 0
    }

    fn is_left_by_dead(&self) -> bool {
        self.word().load(Ordering::Relaxed) & OWNER_DIED != 0
    }
}

/// Turns libc's error into a refusal.
#[cold]
fn refusal(errno: Errno) -> Refused {
    match errno {
        // Self-deadlock is found before libc is asked; only a stray write makes libc return the
        // others.
        Errno::INVAL | Errno::NOTRECOVERABLE | Errno::PERM | Errno::SRCH | Errno::DEADLK => {
            Refused::Damaged
        }
        errno => Refused::System(errno),
    }
}
