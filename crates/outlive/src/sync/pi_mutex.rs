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
//! namespace, which `home` names, set by compare-exchange at the first use. doc/protocols/pi_mutex.md has the argument.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};
use std::time::Duration;

use super::guard::LockError;
use super::home::{Home, TypeOf};
use super::primitive::{Inspect, LockDetail};
use super::raw_mutex::{Acquired, CONSISTENT, INCONSISTENT, NOT_RECOVERABLE, Refused};
use super::record::{Embed, Place, SharedField};
use super::{Holder, Plain, order};
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::Shared;
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::futex::Watch;
use crate::sys::futex_call::{OWNER_DIED, TID_MASK, WAITERS};
use crate::sys::identity;
use crate::sys::libc_mutex::{self, Got, ROOM};
use crate::sys::process::{self, Numbered};
use crate::sys::{Errno, robust};
use crate::wake::WaitRecord;
use crate::{Deadline, Domain, Error, Kind};

/// How long one sleep in libc lasts at most. libc answers a circle of owners (each waits for the next) by sleeping until
/// its deadline: without one it would sleep on after a death had broken the circle.
const SLICE: Duration = Duration::from_secs(1);

/// See the file's head. 64 bytes.
#[repr(C, align(64))]
pub(crate) struct RawPi {
    // Written once, by whoever uses it first: pid namespace << 32 | what libc's mutex looks like.
    home: AtomicU64,
    // Written by the holder.
    state: AtomicU32,
    /// The holder's token: for those who look. What counts is libc's word.
    owner: AtomicU32,
    // Written by libc and the kernel.
    libc_mutex: [AtomicU32; ROOM / 4],
}

const _: () = assert!(size_of::<RawPi>() == 64 && core::mem::offset_of!(RawPi, libc_mutex) == 16);

// SAFETY: atomics only.
unsafe impl Shared for RawPi {}

impl RawPi {
    /// Makes it this namespace's and this libc's, if it is nobody's yet; refuses another's.
    fn bind(&self, me: Me, path: &std::path::Path) -> Result<(), Error> {
        let layout = libc_mutex::inheriting_layout()
            .map_err(|errno| Error::from_errno("lay out a mutex with priority inheritance in", path, errno))?;
        let mine = me.registry.binding()? >> 32 << 32 | u64::from(layout.mark());
        // Acquire pairs with the Release below: libc's words were prepared before.
        let mut home = self.home.load(Ordering::Acquire);
        if home == 0 {
            // Two who prepare at once store the same values, unless they are of two libcs: so first come, then prepare,
            // and whoever finds it bound prepares again (`prepare` stores only what is missing).
            home = match self.home.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => mine,
                Err(theirs) => theirs,
            };
        }
        if home != mine {
            let path = path.to_path_buf();
            return Err(if home >> 32 == mine >> 32 {
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
    fn is_bound_to(&self, namespace: u32) -> bool {
        namespace != 0 && self.home.load(Ordering::Relaxed) >> 32 == u64::from(namespace)
    }

    /// libc's lock word.
    fn word(&self) -> &AtomicU32 {
        // A damaged offset must not lead outside.
        let offset = self.home.load(Ordering::Relaxed) as u8 as usize;
        self.libc_mutex.get(offset / 4).unwrap_or(&self.libc_mutex[0])
    }

    fn mutex(&self) -> *mut u8 {
        self.libc_mutex.as_ptr().cast_mut().cast()
    }

    /// Takes it; `None` never waits.
    #[inline]
    fn lock(&self, me: Me, deadline: Option<Deadline>) -> Result<Acquired, Refused> {
        self.acquire(me, deadline).and_then(|()| self.entered(me))
    }

    /// Takes it, whatever state it is in; `None` never waits.
    #[inline]
    fn acquire(&self, me: Me, deadline: Option<Deadline>) -> Result<(), Refused> {
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
    fn release_unfinished(&self, me: Me) {
        if self.state.load(Ordering::Relaxed) == CONSISTENT {
            // Relaxed: libc's lock orders it. Died just after: the next hears of a death from libc as well.
            self.state.store(INCONSISTENT, Ordering::Relaxed);
        }
        self.release(me);
    }

    /// Gives it back, and up: every locker is refused until somebody resets it. The calling thread holds it.
    #[cold]
    fn give_up(&self, me: Me) {
        // Relaxed: libc's lock orders it. Died just after: the next hears of a death from libc, and is refused.
        self.state.store(NOT_RECOVERABLE, Ordering::Relaxed);
        self.release(me);
    }

    /// Gives it back, its state as it is: not marked consistent by a holder that was told, the next one is told again. The
    /// calling thread holds it.
    #[inline]
    fn release(&self, me: Me) {
        // An error says that the word is no longer ours: a stray write, which the next locker meets.
        // SAFETY: the calling thread's own list; the lock is held by this thread.
        let _ = unsafe { robust::beside_libc_of(me.list(), || libc_mutex::give_back(self.mutex())) };
    }

    /// Who holds it, or died holding it.
    fn holder(&self, registry: &'static Registry) -> Option<Holder> {
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

/// A lock with a value, shared by name between processes, for real-time threads: while somebody waits for it, its holder
/// runs with the waiter's priority, so that a thread of middling priority cannot keep both from running. It survives
/// whoever holds it, as [`Mutex`](super::Mutex) does.
///
/// Priority inheritance is the kernel's, the mutex inside is libc's. Hence: all who use it belong to one pid namespace and
/// to one C library; others get [`Error::OtherNamespace`] or [`Error::OtherLibc`]. It never spins. Its file stays
/// mapped until the process ends. Some 1.5 times the cost of a [`Mutex`](super::Mutex) when nobody waits.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-pi-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{LockError, PiMutex};
///
/// let valve = PiMutex::<u64>::open(&domain, "valve", 0)?;
/// match valve.lock() {
///     Ok(mut position) => *position += 1,
///     Err(LockError::OwnerDied(mut position)) => {
///         // Somebody was killed in here. A number is whole whatever happened.
///         position.mark_consistent();
///     }
///     Err(other) => panic!("{other}"),
/// }
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// Holding the lock: the next to lock is told, [`LockError::OwnerDied`], also if it was asleep already. Waiting for it:
/// nobody notices, and its priority is no longer lent.
pub struct PiMutex<T> {
    home: Home<RawPi>,
    value: NonNull<UnsafeCell<T>>,
    /// Whether this process has seen to it that libc's words are prepared.
    bound: AtomicBool,
}

/// The body of a named one.
#[repr(C, align(64))]
struct Apart<T> {
    raw: RawPi,
    value: UnsafeCell<T>,
}

// SAFETY: the lock is atomics; the value is Plain and reached under the lock only.
unsafe impl<T: Plain> Shared for Apart<T> {}
// SAFETY: the value is reached under the lock only.
unsafe impl<T: Send> Send for PiMutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for PiMutex<T> {}

impl<T: Plain> PiMutex<T> {
    /// Opens the mutex of that name, or makes it with the value given.
    ///
    /// # Errors
    /// [`Error::OtherNamespace`] and [`Error::OtherLibc`] when it belongs to another pid namespace or C library;
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else, [`Error::NoSpace`],
    /// [`Error::InvalidName`], and what the system says (`ENOTSUP` where it has no priority inheritance).
    ///
    /// # If a process dies
    /// While it makes the mutex: nothing is left of it.
    pub fn open(domain: &Domain, name: &str, initial: T) -> Result<PiMutex<T>, Error> {
        let init = |cell: &mut Apart<T>| {
            // SAFETY: T is plain, so its bytes may be copied.
            *cell.value.get_mut() = unsafe { core::ptr::read(&raw const initial) };
        };
        let home = Home::<Apart<T>>::open(domain, name, Kind::PiMutex, TypeOf::a::<T>(), init)?;
        // Before it is kept, so that an error leaves nothing mapped.
        let file = home.file()?;
        home.shared().raw.bind(home.me()?, home.path())?;
        let home = home.kept(Some(file));
        let value = NonNull::from(&home.shared().value);
        Ok(PiMutex { home: home.part(|cell| &cell.raw), value, bound: AtomicBool::new(true) })
    }

    fn embedded(home: Home<EmbeddedPiMutex<T>>) -> PiMutex<T> {
        let file = home.file().ok();
        let home = home.kept(file);
        let value = NonNull::from(&home.shared().value);
        PiMutex { home: home.part(|embedded| &embedded.raw), value, bound: AtomicBool::new(false) }
    }

    /// Takes the lock, waiting as long as a living owner holds it, and lending that one the caller's priority.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard inside, [`LockError::NotRecoverable`], [`LockError::Deadlock`] (this
    /// thread holds it; a circle of several is not found, and lasts until a deadline or a death), [`LockError::Damaged`],
    /// [`LockError::System`] (also [`Error::OtherNamespace`], [`Error::OtherLibc`]).
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock(&self) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        self.lock_until(Deadline::NEVER)
    }

    /// Takes the lock, waiting until the deadline.
    ///
    /// On the holder's own processor a deadline may be noticed late: the holder runs with the waiter's priority by then,
    /// and goes on until it gives the lock back (the caller then has it) or sleeps. With glibc before 2.35, Linux before 5.14, and musl, waits know the time of day only: there a clock that is set
    /// back lengthens a wait to a monotonic deadline.
    ///
    /// # Errors
    /// As [`PiMutex::lock`], and [`LockError::TimedOut`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock_until(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        match self.enter_fast() {
            Some(me) => self.settle(me, self.raw().lock(me, Some(deadline.into()))),
            None => self.lock_slow(Some(deadline.into())),
        }
    }

    /// Takes the lock if it is free, or its owner is dead.
    ///
    /// # Errors
    /// As [`PiMutex::lock`], and [`LockError::WouldBlock`].
    #[inline]
    pub fn try_lock(&self) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        match self.enter_fast() {
            Some(me) => self.settle(me, self.raw().lock(me, None)),
            None => self.lock_slow(None),
        }
    }

    /// By a thread without a token, a process that has not used it yet, or one that watches the order of locks.
    #[cold]
    #[inline(never)]
    fn lock_slow(&self, wait: Option<Deadline>) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        let me = self.enter().map_err(LockError::System)?;
        let raw = self.raw();
        self.settle(me, order::watched(me, self.home.segment(), raw, wait.is_some(), || raw.lock(me, wait)))
    }

    /// Makes a mutex that was given up ([`LockError::NotRecoverable`]) usable again, with this value.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when a living owner holds it until the deadline, [`LockError::Deadlock`],
    /// [`LockError::Damaged`], [`LockError::System`].
    ///
    /// # If a process dies
    /// In here: it stays given up, or the next to lock is told that an owner died.
    pub fn reset(&self, value: T, deadline: impl Into<Deadline>) -> Result<(), LockError<()>> {
        let me = self.enter().map_err(LockError::System)?;
        let raw = self.raw();
        let take = || raw.acquire(me, Some(deadline.into()));
        let taken = order::watched(me, self.home.segment(), raw, true, take);
        taken.map_err(|refused| LockError::from_refused(refused, me))?;
        raw.owner.store(me.id.as_u32(), Ordering::Relaxed);
        let mut guard = self.guard(me);
        // Died in here: marked by the kernel, told by libc.
        *guard = value;
        guard.mark_consistent();
        Ok(())
    }

    /// Who holds it just now.
    pub fn holder(&self) -> Option<Holder> {
        self.raw().holder(self.home.registry())
    }

    /// The calling thread, if fast paths may be taken and it is known to belong to the lock's namespace: a forked child
    /// may not.
    #[inline]
    fn enter_fast(&self) -> Option<Me> {
        let registry = self.home.registry();
        let bits = registry.fast_bits();
        // Acquire pairs with the Release below: libc's words are prepared.
        if bits == 0
            || !self.bound.load(StdOrdering::Acquire)
            || !self.raw().is_bound_to(identity::known_pid_namespace())
        {
            return None;
        }
        Some(Me { registry, id: TokenId::from_own(bits) })
    }

    #[cold]
    fn enter(&self) -> Result<Me, Error> {
        let me = self.home.me()?;
        self.raw().bind(me, self.home.path())?;
        self.bound.store(true, StdOrdering::Release);
        Ok(me)
    }

    #[inline]
    fn settle(
        &self,
        me: Me,
        locked: Result<Acquired, Refused>,
    ) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        match locked {
            Ok(Acquired::Clean) => Ok(self.guard(me)),
            Ok(Acquired::OwnerDied) => Err(LockError::OwnerDied(self.guard(me))),
            Err(refused) => Err(LockError::from_refused(refused, me)),
        }
    }

    /// Of the lock, which `me` has just taken.
    #[inline]
    fn guard(&self, me: Me) -> PiMutexGuard<'_, T> {
        let unwinding = std::thread::panicking();
        PiMutexGuard { raw: self.raw(), value: self.value.cast(), me, unwinding, _thread: PhantomData }
    }

    #[inline]
    fn raw(&self) -> &RawPi {
        self.home.shared()
    }
}

/// Exclusive access to what a [`PiMutex`] guards; gives the lock back when dropped.
///
/// Stays with its thread, which runs with the priority of whoever waits. In a forked child a guard of the parent's does
/// nothing.
///
/// # If a process dies
/// The next to lock gets [`LockError::OwnerDied`] with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics).
pub struct PiMutexGuard<'a, T> {
    raw: &'a RawPi,
    value: NonNull<T>,
    me: Me,
    /// Whether the thread was unwinding already when it took the lock.
    unwinding: bool,
    /// Neither Send nor Sync by itself.
    _thread: PhantomData<*mut T>,
}

// SAFETY: sharing a guard shares `&T` only.
unsafe impl<T: Sync> Sync for PiMutexGuard<'_, T> {}

impl<T> PiMutexGuard<'_, T> {
    /// Whether an owner died or panicked with it, and nothing has been marked consistent since: what
    /// [`LockError::OwnerDied`] said.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        // Relaxed: written by holders only.
        self.raw.state.load(Ordering::Relaxed) != CONSISTENT
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. If the guard is dropped without it,
    /// the next to lock is told again.
    pub fn mark_consistent(&mut self) {
        self.raw.state.store(CONSISTENT, Ordering::Relaxed);
    }

    /// Gives the lock back, and gives it up: what it guards cannot be made whole. Every later locker gets
    /// [`LockError::NotRecoverable`], until somebody calls [`PiMutex::reset`]. In a forked child it does nothing.
    ///
    /// # If a process dies
    /// In here: the lock is given up, or the next to lock is told that an owner died.
    pub fn give_up(self) {
        let (raw, me) = (self.raw, self.me);
        core::mem::forget(self);
        give_back(raw, me, RawPi::give_up);
    }
}

impl<T> Deref for PiMutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock; the value beside it is what it guards.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for PiMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock, so nobody else touches it; `&mut self` keeps this process from doing so twice.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for PiMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // A forked child has no token, or another one: the lock is its parent's.
        if self.me.registry.fast_bits() == self.me.id.as_u32() && !std::thread::panicking() {
            self.raw.release(self.me);
        } else {
            let unfinished = std::thread::panicking() && !self.unwinding;
            // Not `self`: see `Guard`.
            give_back(self.raw, self.me, if unfinished { RawPi::release_unfinished } else { RawPi::release });
        }
    }
}

/// Gives the lock back by `how`, in a process that may watch the order of locks, or be a forked child.
#[cold]
#[inline(never)]
fn give_back(raw: &RawPi, me: Me, how: fn(&RawPi, Me)) {
    if me.registry.current_bits() == me.id.as_u32() {
        order::gives_back(raw);
        how(raw, me);
    }
}

impl<T: fmt::Debug> fmt::Debug for PiMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A [`PiMutex`] and its value, for use as a field of a [`record!`](crate::record). 64 bytes and the value.
///
/// All zeroes are an unlocked one around a zeroed value. [`Record::handle`](super::Record::handle) gives the [`PiMutex`]
/// to use it by; the record's file then stays mapped until the process ends.
#[repr(C)]
pub struct EmbeddedPiMutex<T> {
    raw: RawPi,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached under the lock only.
unsafe impl<T: Send> Sync for EmbeddedPiMutex<T> {}
// SAFETY: the lock is atomics; the value is Plain and reached under the lock only.
unsafe impl<T: Plain> Shared for EmbeddedPiMutex<T> {}
// SAFETY: the lock is at the start; the value is Plain and under it.
unsafe impl<T: Plain> SharedField for EmbeddedPiMutex<T> {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        Place { offset: core::mem::offset_of!(EmbeddedPiMutex<T>, raw), kind: Kind::PiMutex, number: 0 }
    }
}

impl<T: Plain> Embed for EmbeddedPiMutex<T> {
    type Handle = PiMutex<T>;
    fn handle(home: Home<EmbeddedPiMutex<T>>) -> PiMutex<T> {
        PiMutex::embedded(home)
    }
}

impl<T: Plain> EmbeddedPiMutex<T> {
    /// The value, where nobody else can reach it: in [`Record::open`](super::Record::open)'s initialiser.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl Inspect for RawPi {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let holder = self.holder(registry);
        let word = self.word().load(Ordering::Relaxed);
        // Taken by somebody who has not left a name yet, or who died before it could.
        let state = match word & TID_MASK {
            0 if word & OWNER_DIED != 0 => Some("its owner died; the next to lock is told".to_owned()),
            tid if tid != 0 && holder.is_none() => Some(format!("held by thread {tid}")),
            _ => None,
        };
        LockDetail {
            holders: holder.into_iter().collect(),
            not_recoverable: self.state.load(Ordering::Relaxed) == NOT_RECOVERABLE,
            state,
            ..LockDetail::default()
        }
    }

    /// Nothing: the kernel has taken the dead one's number out of the word, and left its mark for the next to lock.
    /// The token beside it is no claim.
    fn sweep(&self, _: Me, _: bool) -> u32 {
        0
    }
}
