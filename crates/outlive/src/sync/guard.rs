//! The guard of a lock of any kind, and the reasons why a locker gets none.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::lock::{ExclusiveLock, Leaving, RawLock};
use super::order;
use super::raw::Refused;
use crate::Error;
use crate::liveness::{Me, TokenId, WAITERS};
use crate::sys::robust::WakeRelay;

/// A bit in a guard's own copy of the token: the guard keeps `list_op_pending` borrowed until it is
/// dropped. A guard without the bit pays nothing for that possibility. A field for either bit would
/// make a guard too large for registers.
pub(super) const KEPT: u32 = WAITERS;
/// A bit in a guard's own copy of the token: the thread was unwinding already when it took the
/// lock, so its panic interrupted no change under this lock. No token's id has this bit.
pub(super) const UNWINDING: u32 = 1 << 30;

/// A thread's hold on a lock: dropping it unlocks.
pub(super) struct Hold<'a, R: RawLock> {
    pub(super) words: &'a R::Words,
    /// The thread; its id carries KEPT and UNWINDING.
    pub(super) me: Me,
    pub(super) held: R::Held<'a>,
    /// Neither Send nor Sync by itself.
    _thread: PhantomData<*mut ()>,
}

impl<'a, R: RawLock> Hold<'a, R> {
    /// Makes the hold of a lock that `me` has just taken.
    #[inline]
    pub(super) fn new(words: &'a R::Words, mut me: Me, held: R::Held<'a>) -> Hold<'a, R> {
        if R::EXCLUSIVE && std::thread::panicking() {
            me.id = TokenId::from_own(me.id.as_u32() | UNWINDING);
        }
        Hold { words, me, held, _thread: PhantomData }
    }

    /// Returns the thread that has the lock, if it is of this process: a forked child has another
    /// token or none, and the lock is its parent's.
    pub(super) fn owner(&self) -> Option<Me> {
        let me = without_bits(self.me);
        (me.registry.current_bits() == me.id.as_u32()).then_some(me)
    }

    /// Ends the hold without unlocking.
    #[inline]
    pub(super) fn forget(self) {
        core::mem::forget(self);
    }

    fn end(self, how: Leaving) {
        let hold = ManuallyDrop::new(self);
        leave::<R>(hold.words, hold.me, hold.held, how);
    }
}

impl<R: RawLock> Drop for Hold<'_, R> {
    #[inline]
    fn drop(&mut self) {
        // A forked child has another token or none: the lock is its parent's.
        if self.me.registry.fast_bits() == self.me.id.as_u32()
            && !(R::EXCLUSIVE && std::thread::panicking())
        {
            R::unlock(self.words, self.me, self.held, Leaving::Finished);
        } else {
            // Not `self`: a guard whose address is taken lives in memory, which would slow the fast
            // path.
            drop_slow::<R>(self.words, self.me, self.held);
        }
    }
}

/// Ends a hold in a process that records the order of locks, in a forked child, in a thread that
/// unwinds, or with a wake relay to end.
#[cold]
#[inline(never)]
fn drop_slow<R: RawLock>(words: &R::Words, me: Me, held: R::Held<'_>) {
    let unwinds = std::thread::panicking() && me.id.as_u32() & UNWINDING == 0;
    let how = if R::EXCLUSIVE && unwinds { Leaving::Unfinished } else { Leaving::Finished };
    leave::<R>(words, me, held, how);
}

/// Unlocks, and gives back what the guard kept besides the lock.
#[cold]
fn leave<R: RawLock>(words: &R::Words, me: Me, held: R::Held<'_>, how: Leaving) {
    let own = without_bits(me);
    if own.registry.current_bits() != own.id.as_u32() {
        R::forget(held);
        return;
    }
    if own.registry.watches_order() {
        // Once a process records the order, it goes on: locks taken before that were not recorded.
        order::gives_back(words);
    }
    R::unlock(words, own, held, how);
    if me.id.as_u32() & KEPT != 0 {
        // Died just before: the kernel wakes one waiter for nothing.
        drop(WakeRelay::resume(own.list()));
    }
}

/// Returns the token's own id.
fn without_bits(me: Me) -> Me {
    Me { id: TokenId::from_own(me.id.as_u32() & !(KEPT | UNWINDING)), ..me }
}

/// Gives access to what a lock guards, and unlocks the lock when dropped: a
/// [`MutexGuard`](super::MutexGuard) and the like, which say more.
///
/// A guard stays with its thread, because the lock names the thread as its owner. In a forked
/// child, a guard of the parent's has no effect.
///
/// # If a process dies
/// The next locker gets [`LockError::OwnerDied`] with a guard; after a reader's death no locker is
/// told.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death, because it
/// may leave the value half-written: the next locker gets [`LockError::OwnerDied`]. A guard that a
/// destructor takes while its thread unwinds already gives the lock back as usual. A reader's panic
/// is told to no locker.
pub struct Guard<'a, R: RawLock, T> {
    pub(super) value: NonNull<T>,
    pub(super) hold: Hold<'a, R>,
}

// SAFETY: a shared guard gives no more than `&T`, and `T: Sync`.
unsafe impl<R: RawLock, T: Sync> Sync for Guard<'_, R, T> {}

impl<'a, R: RawLock, T> Guard<'a, R, T> {
    /// Makes the guard of a lock that `me` has just taken.
    ///
    /// # Safety
    /// `value` is what `words` guard: valid for `'a`, and touched by lock holders only; `me` holds
    /// the lock.
    #[inline]
    pub(super) unsafe fn new(
        words: &'a R::Words,
        value: NonNull<T>,
        me: Me,
        held: R::Held<'a>,
    ) -> Guard<'a, R, T> {
        Guard { value, hold: Hold::new(words, me, held) }
    }
}

impl<R: ExclusiveLock, T> Guard<'_, R, T> {
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
        !R::is_consistent(self.hold.words)
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. If the
    /// guard is dropped without this, the next locker gets `OwnerDied` again.
    pub fn mark_consistent(&mut self) {
        R::mark_consistent(self.hold.words);
    }

    /// Unlocks, and gives the lock up, because what it guards cannot be repaired. Every later
    /// locker gets [`LockError::NotRecoverable`], until a process calls `reset` or
    /// [`lock_to_reset`](super::Mutex::lock_to_reset). In a forked child it has no effect.
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
        self.hold.end(Leaving::GivenUp);
    }
}

impl<R: RawLock, T> Deref for Guard<'_, R, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock; `new`'s caller promised that the pointer is valid.
        unsafe { self.value.as_ref() }
    }
}

impl<R: ExclusiveLock, T> DerefMut for Guard<'_, R, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread alone holds the lock; `&mut self` excludes a second borrow here.
        unsafe { self.value.as_mut() }
    }
}

impl<R: RawLock, T: fmt::Debug> fmt::Debug for Guard<'_, R, T> {
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

impl LockError<Infallible> {
    /// Returns the same reason in the type of a call whose other errors have a guard.
    pub(super) fn without_guard<G>(self) -> LockError<G> {
        self.map(|never| match never {})
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
