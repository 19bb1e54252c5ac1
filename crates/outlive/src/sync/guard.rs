//! The guard of a lock of any kind.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::error::{AcquireError, LockError};
use super::order;
use super::raw::condvar::RawCondvar;
use super::raw::{Acquired, Refused};
use super::raw_lock::{CondvarLock, ExclusiveLock, Leaving, RawLock, UniqueLock};
use crate::liveness::{Me, TokenId, WAITERS};
use crate::segment::Segment;
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
    // Another guard may have taken the field over since, and kept it: then it goes on to have it.
    if me.id.as_u32() & KEPT != 0
        && let Some((_relayed, relay)) = resume_relay_of(words, own)
    {
        if R::is_held_again(words, own) {
            // An outer guard goes on: if this thread dies with it, the next waiter is told.
            relay.hand_on();
        } else {
            // Died just before: the kernel wakes one waiter for nothing.
            drop(relay);
        }
    }
}

thread_local! {
    /// The condition variable to whose word this thread's kept relay leads: it stays mapped until
    /// the kernel has no more use for the word. So a guard need not borrow the condition variable
    /// on which it waited. Not dropped when the thread ends, which is when the kernel looks.
    static RELAYED: Cell<Option<ManuallyDrop<Relayed>>> = const { Cell::new(None) };
}

/// A condition variable, and the file in which it lies.
pub(super) struct Relayed {
    /// Keeps it mapped.
    _file: Arc<Segment>,
    condvar: NonNull<RawCondvar>,
    /// The words of the mutex whose guard keeps the relay. Only compared.
    words: *const (),
    /// The thread's wait ended by a notification, which it has used.
    has_used: bool,
}

impl Relayed {
    pub(super) fn new<W>(
        file: &Arc<Segment>,
        condvar: &RawCondvar,
        words: &W,
        has_used: bool,
    ) -> Relayed {
        let (words, condvar) = (core::ptr::from_ref(words).cast(), NonNull::from(condvar));
        Relayed { _file: Arc::clone(file), condvar, words, has_used }
    }

    /// Returns whether a guard of that mutex keeps the relay.
    fn is_kept_by<W>(&self, words: &W) -> bool {
        core::ptr::eq(self.words, core::ptr::from_ref(words).cast())
    }

    /// Hands the notification on that the thread has used, if it has used one: it is about to wait
    /// for something else, without the mutex. The relay wakes a waiter when it is led elsewhere.
    pub(super) fn hand_on_unless(&self, stays: Option<&RawCondvar>) {
        if self.has_used && stays.map(NonNull::from) != Some(self.condvar) {
            // SAFETY: it lies in `_file`, which is mapped.
            unsafe { self.condvar.as_ref() }.hand_on();
        }
    }
}

/// Keeps a relay that leads to a word of that condition variable until it is resumed. Returns false
/// if it has ended instead.
fn keep_relay(relay: WakeRelay, to: Relayed) -> bool {
    let kept = relay.keep();
    if kept {
        RELAYED.set(Some(ManuallyDrop::new(to)));
    }
    kept
}

/// Takes back the relay that this thread keeps, and what keeps its word mapped; `None` if it keeps
/// none.
fn resume_relay(me: Me) -> Option<(Relayed, WakeRelay)> {
    let relayed = ManuallyDrop::into_inner(RELAYED.take()?);
    Some((relayed, WakeRelay::resume(me.list())))
}

/// Takes back the relay that this thread keeps for a guard of that mutex; `None` if it keeps none,
/// or another guard's.
fn resume_relay_of<W>(words: &W, me: Me) -> Option<(Relayed, WakeRelay)> {
    let relayed = ManuallyDrop::into_inner(RELAYED.take()?);
    if relayed.is_kept_by(words) {
        return Some((relayed, WakeRelay::resume(me.list())));
    }
    RELAYED.set(Some(ManuallyDrop::new(relayed)));
    None
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
/// The next locker gets [`LockError::OwnerDied`](super::LockError::OwnerDied) with a guard; after a
/// reader's death no locker is told.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death, because it
/// may leave the value half-written: the next locker gets
/// [`LockError::OwnerDied`](super::LockError::OwnerDied). A guard that a destructor takes while its
/// thread is already unwinding unlocks as usual. A reader's panic is told to no locker.
pub struct Guard<'a, R: RawLock, T, K = ()> {
    pub(super) value: NonNull<T>,
    /// A guard may give `&mut T`, so a `T` that lives longer does not do for one that lives shorter.
    invariant: PhantomData<*mut T>,
    pub(super) hold: Hold<'a, R>,
    /// What keeps the words and the value mapped: nothing in a guard that borrows the lock, an
    /// `Arc` in one that owns it (`owned.rs`). Dropped after `hold`, which unlocks.
    pub(super) keep: K,
}

// SAFETY: a shared guard gives no more than `&T`, and `T: Sync`.
unsafe impl<R: RawLock, T: Sync, K: Sync> Sync for Guard<'_, R, T, K> {}

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
        Guard { value, invariant: PhantomData, hold: Hold::new(words, me, held), keep: () }
    }

    /// Makes it a guard that keeps that, too.
    pub(super) fn keeping<K>(self, keep: K) -> Guard<'a, R, T, K> {
        Guard { value: self.value, invariant: PhantomData, hold: self.hold, keep }
    }
}

impl<R: RawLock, T, K> Guard<'_, R, T, K> {
    /// Ends the guard without unlocking: its thread goes on holding the lock until it ends, and the
    /// next locker is then told of a death. Unlike [`std::mem::forget`], this lets go of the `Arc`
    /// in an owned guard.
    pub fn abandon(self) {
        self.hold.forget();
    }
}

impl<R: UniqueLock, T, K> Guard<'_, R, T, K> {
    /// Ends a reset: stores the value and unlocks a lock that was taken in whatever state.
    pub(super) fn reset(mut self, value: T) {
        // Died from here on: the lock still names us, so the next locker is told, or it stays not
        // recoverable.
        *self = value;
        self.mark_consistent();
    }
}

/// The end of a time without the lock: its guard again, if it was taken.
type GivenBack<'a, R, T, K> = Result<Option<Guard<'a, R, T, K>>, LockError<Guard<'a, R, T, K>>>;

impl<'a, R: CondvarLock, T, K> Guard<'a, R, T, K> {
    /// Unlocks for the time of `meanwhile`, which locks again; `None` if a living thread has the
    /// lock by then. If `meanwhile` returns a wake relay, which leads to a word of `file`, the new
    /// guard keeps it until it is dropped; `meanwhile` also says whether a notification ended the
    /// wait. `waits_on` is the condition variable whose plain waiter the thread becomes, if it does.
    /// Without `also_outer`, a thread with other guards of the lock is refused: they give access to
    /// the value, and would be left without the lock if `meanwhile` does not get it again.
    pub(super) fn give_back_during(
        self,
        file: &Arc<Segment>,
        waits_on: Option<&RawCondvar>,
        also_outer: bool,
        meanwhile: impl FnOnce(
            &R::Relock<'a>,
            Me,
            WakeRelay,
        ) -> (Result<Acquired, Refused>, Option<WakeRelay>, bool),
    ) -> GivenBack<'a, R, T, K> {
        let Some(me) = self.hold.owner() else {
            return Err(LockError::Failed(AcquireError::NotHeld));
        };
        if !also_outer && R::has_outer_guards(self.hold.words) {
            return Err(LockError::Failed(AcquireError::Deadlock));
        }
        let Guard { value, hold, keep, .. } = self;
        let (words, held) = (hold.words, hold.held);
        hold.forget();
        let kept = resume_relay(me);
        // Also that of an outer guard of the same mutex, which the wait gives up as well.
        let is_own = kept.as_ref().is_some_and(|(relayed, _)| relayed.is_kept_by(words));
        // `before` stays mapped until the new wait has led the field elsewhere.
        let (before, relay) = kept.unzip();
        let mut relay = relay.unwrap_or_else(|| WakeRelay::begin(me.list()));
        before.iter().filter(|_| is_own).for_each(|before| before.hand_on_unless(waits_on));
        if R::TAKES_LIST || before.is_some() && !is_own {
            // libc's unlock takes the field, and this thread may die in it with a wake-up in hand: of
            // an earlier wait under this guard, or under another one that it holds. Of another one
            // in any case: from here on the field is this guard's, and is kept for it.
            relay.hand_on();
            relay = WakeRelay::begin(me.list());
        }
        let (result, relay, notified) = meanwhile(&R::relock(words, held), me, relay);
        if result.is_err() {
            order::gives_back(words);
        }
        let kept = relay
            .zip(waits_on)
            .is_some_and(|(relay, on)| keep_relay(relay, Relayed::new(file, on, words, notified)));
        let holder =
            if kept { Me { id: TokenId::from_own(me.id.as_u32() | KEPT), ..me } } else { me };
        // SAFETY: the old guard's promise holds for the new one: the same lock and value, which
        // `meanwhile` has taken again.
        let guard = || unsafe { Guard::new(words, value, holder, held) }.keeping(keep);
        match result {
            Ok(Acquired::Clean) => Ok(Some(guard())),
            Ok(Acquired::OwnerDied) => Err(LockError::OwnerDied(guard())),
            Err(refused) => match AcquireError::from_refused(refused, me) {
                Some(error) => Err(LockError::Failed(error)),
                None => Ok(None),
            },
        }
    }
}

impl<R: ExclusiveLock, T, K> Guard<'_, R, T, K> {
    /// Returns whether an owner died or panicked holding the lock and no holder has marked the
    /// value consistent since. [`LockError::OwnerDied`](super::LockError::OwnerDied) reported it.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        !R::is_consistent(self.hold.words)
    }

    /// Declares that what the lock guards is whole again, after
    /// [`LockError::OwnerDied`](super::LockError::OwnerDied). If the guard is dropped without this,
    /// the next locker gets `OwnerDied` again.
    pub fn mark_consistent(&mut self) {
        R::mark_consistent(self.hold.words);
    }

    /// Marks the lock not recoverable, because what it guards cannot be repaired, and unlocks it.
    /// Every later locker gets
    /// [`AcquireError::NotRecoverable`](super::AcquireError::NotRecoverable), until a process calls
    /// `reset` or [`lock_to_reset`](super::Mutex::lock_to_reset). In a forked child it has no
    /// effect.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-not-recoverable-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{AcquireError, LockError, Mutex};
    ///
    /// let total = Mutex::<u64>::options(0).open_or_create(&domain, "total")?;
    /// total.lock().unwrap().mark_not_recoverable();
    /// assert!(matches!(total.lock(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    /// total.reset(5).unwrap();
    /// assert_eq!(*total.lock().unwrap(), 5);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # If a process dies
    /// During this call: the lock is not recoverable, or the next locker gets
    /// [`LockError::OwnerDied`](super::LockError::OwnerDied).
    pub fn mark_not_recoverable(self) {
        self.hold.end(Leaving::NotRecoverable);
    }
}

impl<R: RawLock, T, K> Deref for Guard<'_, R, T, K> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock; `new`'s caller promised that the pointer is valid.
        unsafe { self.value.as_ref() }
    }
}

impl<R: UniqueLock, T, K> DerefMut for Guard<'_, R, T, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread alone holds the lock; `&mut self` excludes a second borrow here.
        unsafe { self.value.as_mut() }
    }
}

impl<R: RawLock, T: fmt::Debug, K> fmt::Debug for Guard<'_, R, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<'a, R: UniqueLock, T, K> LockError<Guard<'a, R, T, K>> {
    /// Repairs what a dead owner left, marks it consistent, and returns the guard.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-repair-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{AcquireError, Mutex};
    ///
    /// /// Adds to both, which are equal whenever the lock is free.
    /// fn add(both: &Mutex<[u64; 2]>) -> Result<(), AcquireError> {
    ///     let mut both = both.lock().or_else(|error| error.repair(|both| both[1] = both[0]))?;
    ///     both[0] += 1;
    ///     both[1] += 1;
    ///     Ok(())
    /// }
    /// let both = Mutex::options([0, 0]).open_or_create(&domain, "both")?;
    /// add(&both)?;
    /// assert_eq!(*both.lock().unwrap(), [1, 1]);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error that kept the caller from having the lock.
    ///
    /// # If a process dies
    /// During this call: the next locker is told of a death.
    ///
    /// # If it panics
    /// A panic of `repair` counts as a death.
    pub fn repair(self, repair: impl FnOnce(&mut T)) -> Result<Guard<'a, R, T, K>, AcquireError> {
        match self {
            LockError::OwnerDied(mut guard) => {
                repair(&mut guard);
                guard.mark_consistent();
                Ok(guard)
            }
            LockError::Failed(error) => Err(error),
        }
    }
}
