//! The guard of a mutex, and the reasons why a locker gets none.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::order;
use super::raw::mutex::RawMutex;
use super::raw::{Acquired, Refused};
use crate::Error;
use crate::liveness::{Me, Registry, TokenId, WAITERS};
use crate::sys::robust::WakeRelay;

/// A bit in a guard's own copy of the token: the guard keeps `list_op_pending` borrowed until it is
/// dropped. A guard without the bit pays nothing for that possibility.
const KEPT: u32 = WAITERS;
/// A bit in a guard's own copy of the token: the thread was unwinding already when it took the
/// lock, so its panic interrupted no change under this lock. No token's id has this bit.
pub(super) const UNWINDING: u32 = 1 << 30;

/// Gives exclusive access to what a mutex guards, and unlocks the mutex when dropped.
///
/// A guard stays with its thread, because the lock names the thread as its owner. In a forked
/// child, a guard of the parent's has no effect.
///
/// # If a process dies
/// The next locker gets [`LockError::OwnerDied`] with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death, because it
/// may leave the value half-written: the next locker gets [`LockError::OwnerDied`]. A guard that a
/// destructor takes while its thread unwinds already gives the lock back as usual.
pub struct MutexGuard<'a, T> {
    raw: &'a RawMutex,
    value: NonNull<T>,
    me: Me,
    /// Neither Send nor Sync by itself.
    _thread: PhantomData<*mut T>,
}

// SAFETY: a shared guard gives no more than `&T`, and `T: Sync`.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T> MutexGuard<'a, T> {
    /// Makes the guard of a lock that `me` has just taken.
    ///
    /// # Safety
    /// As for [`MutexGuard::settle`]; `me` holds `raw`.
    #[inline]
    pub(super) unsafe fn new(
        raw: &'a RawMutex,
        value: NonNull<T>,
        mut me: Me,
    ) -> MutexGuard<'a, T> {
        if std::thread::panicking() {
            me.id = TokenId::from_own(me.id.as_u32() | UNWINDING);
        }
        MutexGuard { raw, value, me, _thread: PhantomData }
    }

    /// Makes the guard again that [`MutexGuard::into_raw`] gave up, if it is of the calling thread.
    ///
    /// # Safety
    /// As for [`MutexGuard::settle`]; `bits` came from a guard of this lock, and no guard was made
    /// of them since.
    #[inline]
    pub(super) unsafe fn resumed(
        raw: &'a RawMutex,
        value: NonNull<T>,
        registry: &'static Registry,
        bits: u32,
    ) -> Option<MutexGuard<'a, T>> {
        let mine = bits != 0 && bits & !(KEPT | UNWINDING) == registry.current_bits();
        let me = Me { registry, id: TokenId::from_own(bits & !UNWINDING) };
        // Lazily: a guard made and dropped here would give the lock back for a thread without a
        // token, whose number is 0 as well.
        // SAFETY: the caller promises that `bits` came from a guard of this lock and `raw` guards
        // `value`. A panic before this does not count, as with a guard taken just now.
        mine.then(|| unsafe { MutexGuard::new(raw, value, me) })
    }

    /// Gives the guard up without unlocking, for bindings to languages without guards.
    /// [`Mutex::guard_from_raw`](super::Mutex::guard_from_raw) makes a guard again of the number
    /// returned, which is never 0. A panic in between is not reported.
    ///
    /// # If a process dies
    /// As while a guard is held.
    #[inline]
    pub fn into_raw(self) -> u32 {
        let bits = self.me.id.as_u32();
        core::mem::forget(self);
        bits
    }

    /// Turns the raw result into what the user sees.
    ///
    /// # Safety
    /// `value` is what `raw` guards: valid for `'a`, and touched by lock holders only.
    #[inline]
    pub(super) unsafe fn settle(
        result: Result<Acquired, Refused>,
        raw: &'a RawMutex,
        value: NonNull<T>,
        me: Me,
    ) -> Result<MutexGuard<'a, T>, LockError<MutexGuard<'a, T>>> {
        match result {
            // SAFETY: the caller promises that `raw` guards `value`, valid for `'a`; `me` has just
            // taken `raw`.
            Ok(Acquired::Clean) => Ok(unsafe { MutexGuard::new(raw, value, me) }),
            Ok(Acquired::OwnerDied) => {
                // SAFETY: as in the first arm.
                Err(LockError::OwnerDied(unsafe { MutexGuard::new(raw, value, me) }))
            }
            Err(refused) => Err(LockError::from_refused(refused, me)),
        }
    }

    /// Unlocks for the time of `meanwhile`, which locks again. If `meanwhile` returns a wake relay,
    /// the new guard keeps it until it is dropped.
    pub(super) fn give_back_during(
        self,
        meanwhile: impl FnOnce(
            &'a RawMutex,
            Me,
            WakeRelay,
        ) -> (Result<Acquired, Refused>, Option<WakeRelay>),
    ) -> Result<MutexGuard<'a, T>, LockError<MutexGuard<'a, T>>> {
        let (raw, value) = (self.raw, self.value);
        let bits = self.me.id.as_u32();
        let me = Me { id: TokenId::from_own(bits & !(KEPT | UNWINDING)), ..self.me };
        if me.registry.current_bits() != me.id.as_u32() {
            return Err(LockError::NotHeld);
        }
        core::mem::forget(self);
        let relay = if bits & KEPT == 0 {
            WakeRelay::begin(me.list())
        } else {
            WakeRelay::resume(me.list())
        };
        let (result, relay) = meanwhile(raw, me, relay);
        if result.is_err() {
            order::gives_back(raw);
        }
        let kept = relay.is_some_and(WakeRelay::keep);
        let holder =
            if kept { Me { id: TokenId::from_own(me.id.as_u32() | KEPT), ..me } } else { me };
        // SAFETY: the old guard's promise holds for the new one: the same lock and value, which
        // `meanwhile` has taken again.
        unsafe { MutexGuard::settle(result, raw, value, holder) }
    }

    /// Ends a reset: stores the value and unlocks a lock that was taken in whatever state.
    pub(super) fn reset(mut self, value: T) {
        // Died from here on: the lock still names us, so the next locker is told, or it stays given
        // up.
        *self = value;
        self.mark_consistent();
    }

    /// Returns whether an owner died or panicked holding the lock and no holder has marked the
    /// value consistent since. [`LockError::OwnerDied`] reported it.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        !self.raw.is_consistent()
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. If the
    /// guard is dropped without this, the next locker gets `OwnerDied` again.
    pub fn mark_consistent(&mut self) {
        self.raw.mark_consistent();
    }

    /// Unlocks, and gives the lock up, because what it guards cannot be repaired. Every later
    /// locker gets [`LockError::NotRecoverable`], until a process calls
    /// [`Mutex::reset`](super::Mutex::reset) or
    /// [`Mutex::lock_to_reset`](super::Mutex::lock_to_reset). In a forked child it has no effect.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-give-up-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::sync::{LockError, Mutex};
    ///
    /// let total = Mutex::<u64>::open(&domain, "total", 0)?;
    /// total.lock().unwrap().give_up();
    /// assert!(matches!(total.lock(), Err(LockError::NotRecoverable)));
    /// total.reset(5, outlive::Deadline::NEVER).unwrap();
    /// assert_eq!(*total.lock().unwrap(), 5);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # If a process dies
    /// During this call: the lock is given up, or the next locker gets [`LockError::OwnerDied`].
    pub fn give_up(self) {
        let (raw, me) = (self.raw, self.me);
        core::mem::forget(self);
        give_back(raw, me, RawMutex::give_up);
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock; `new`'s caller promised that the pointer is valid.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, so no other reaches the value; `&mut self` excludes a
        // second borrow here.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // A forked child has another token or none: the lock is its parent's.
        if self.me.registry.fast_bits() == self.me.id.as_u32() && !std::thread::panicking() {
            self.raw.release(self.me.id);
        } else {
            // Not `self`: a guard whose address is taken lives in memory, which would slow the fast
            // path.
            drop_slow(self.raw, self.me);
        }
    }
}

/// Drops a guard in a process that records the order of locks, in a forked child, in a thread that
/// unwinds, or with a wake relay to end.
#[cold]
#[inline(never)]
fn drop_slow(raw: &RawMutex, me: Me) {
    let unfinished = std::thread::panicking() && me.id.as_u32() & UNWINDING == 0;
    give_back(raw, me, if unfinished { RawMutex::release_unfinished } else { RawMutex::release });
}

/// Unlocks by `how`, and gives back what the guard kept besides the lock.
#[cold]
fn give_back(raw: &RawMutex, me: Me, how: fn(&RawMutex, TokenId)) {
    let bits = me.id.as_u32();
    if me.registry.current_bits() != bits & !(KEPT | UNWINDING) {
        return;
    }
    if me.registry.watches_order() {
        // Once a process records the order, it goes on: locks taken before that were not recorded.
        order::gives_back(raw);
    }
    how(raw, TokenId::from_own(bits & !(KEPT | UNWINDING)));
    if bits & KEPT != 0 {
        // Died just before: the kernel wakes one waiter for nothing.
        drop(WakeRelay::resume(me.list()));
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Says why a lock was not taken, or was taken with a warning.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError<G> {
    /// The caller has the lock, but an owner died or panicked holding it: what it guards may be
    /// half-written. Repair it and call [`MutexGuard::mark_consistent`] on the guard inside; if the
    /// guard is dropped without that, the next locker gets this error again.
    OwnerDied(G),
    /// A holder gave the lock up ([`MutexGuard::give_up`]). [`Mutex::reset`](super::Mutex::reset)
    /// makes it usable again.
    NotRecoverable,
    /// This thread holds the lock already.
    Deadlock,
    /// The guard came with a `fork`: the parent holds its lock.
    NotHeld,
    /// A living owner holds the lock (only from `try_` forms).
    WouldBlock,
    /// The deadline passed while a living owner held the lock.
    TimedOut,
    /// The thread's own priority is higher than the lock's ceiling (only from a
    /// [`CeilingMutex`](super::CeilingMutex)).
    AboveCeiling,
    /// The lock's bytes hold an impossible value: a stray write or a hostile process changed them.
    Damaged,
    /// The calling thread could not get a token, or the system refused to wait.
    System(Error),
}

impl<G> LockError<G> {
    /// Replaces the guard inside.
    pub(super) fn map<H>(self, guard: impl FnOnce(G) -> H) -> LockError<H> {
        match self {
            LockError::OwnerDied(g) => LockError::OwnerDied(guard(g)),
            LockError::NotRecoverable => LockError::NotRecoverable,
            LockError::Deadlock => LockError::Deadlock,
            LockError::NotHeld => LockError::NotHeld,
            LockError::WouldBlock => LockError::WouldBlock,
            LockError::TimedOut => LockError::TimedOut,
            LockError::AboveCeiling => LockError::AboveCeiling,
            LockError::Damaged => LockError::Damaged,
            LockError::System(error) => LockError::System(error),
        }
    }

    #[cold]
    pub(super) fn from_refused(refused: Refused, me: Me) -> LockError<G> {
        match refused {
            Refused::NotRecoverable => LockError::NotRecoverable,
            Refused::Deadlock => LockError::Deadlock,
            Refused::WouldBlock => LockError::WouldBlock,
            Refused::TimedOut => LockError::TimedOut,
            Refused::Damaged => LockError::Damaged,
            Refused::System(errno) => LockError::System(Error::from_errno(
                "wait for a lock in",
                me.registry.path(),
                errno,
            )),
        }
    }
}

impl<G> fmt::Display for LockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::OwnerDied(_) => {
                f.write_str("an owner died or panicked holding the lock; check what it guards, then mark it consistent")
            }
            LockError::NotRecoverable => {
                f.write_str("the lock was given up by a holder; reset it once what it guards is whole")
            }
            LockError::Deadlock => f.write_str("this thread holds the lock already; give it back first"),
            LockError::NotHeld => f.write_str("the guard is of the process that forked this one; lock anew"),
            LockError::WouldBlock => f.write_str("somebody holds the lock; wait for it, or try later"),
            LockError::TimedOut => f.write_str("somebody still held the lock when the deadline passed"),
            LockError::AboveCeiling => {
                f.write_str("this thread's priority is above the lock's ceiling; give the lock a higher one")
            }
            LockError::Damaged => {
                f.write_str("the lock's bytes make no sense; somebody wrote over it: look for the stray write")
            }
            LockError::System(error) => error.fmt(f),
        }
    }
}

impl<G: fmt::Debug> std::error::Error for LockError<G> {}
