//! A named mutex with the value it guards.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;

use super::embedded::{Embed, Place, SharedField};
use super::guard::{LockError, MutexGuard};
use super::primitive::{Home, TypeOf};
use super::primitive::{Inspect, LockDetail};
use super::raw::mutex::RawMutex;
use super::{Holder, Plain, order};
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::{Segment, Shared};
use crate::shim::AtomicU64;
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// A lock with a value, shared by name between processes; it survives whoever holds it.
///
/// As fast as a plain mutex: one compare-exchange to lock, one swap to unlock, no system call unless somebody waits.
/// Not fair: a thread that is running may take the lock before one that has been woken. A named mutex takes 8 KiB of
/// memory and up to 4 KiB of value in it.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-mutex-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{LockError, Mutex};
///
/// let total = Mutex::<u64>::open(&domain, "total", 0)?;
/// match total.lock() {
///     Ok(mut value) => *value += 1,
///     Err(LockError::OwnerDied(mut value)) => {
///         // Somebody was killed in here. A number is whole whatever happened.
///         *value += 1;
///         value.mark_consistent();
///     }
///     Err(other) => panic!("{other}"),
/// }
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// Holding the lock: the next to lock is told, [`LockError::OwnerDied`], also if it was asleep already; and each after it, until
/// one [marks it consistent](MutexGuard::mark_consistent), [gives it up](MutexGuard::give_up) or resets it. Waiting for it:
/// nobody notices. Between locking and unlocking several locks: each is told on its own. A panic counts as a death: see
/// [`MutexGuard`](MutexGuard#if-it-panics).
pub struct Mutex<T> {
    home: Home<RawMutex>,
    value: NonNull<UnsafeCell<T>>,
    spin_wait: SpinWait,
}

/// The body of a named mutex: the lock at the page's start, the value in the next line but one.
#[repr(C, align(64))]
struct Apart<T> {
    raw: RawMutex,
    reserved: [AtomicU64; 7],
    value: UnsafeCell<T>,
}

// SAFETY: the lock is atomics; the value is Plain and reached under the lock only.
unsafe impl<T: Plain> Shared for Apart<T> {}
// SAFETY: the value is reached under the lock only.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T: Plain> Mutex<T> {
    /// Opens the mutex of that name, or makes it with the value given.
    ///
    /// # Errors
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else, [`Error::NoSpace`],
    /// [`Error::InvalidName`], and what the system says.
    ///
    /// # If a process dies
    /// While it makes the mutex: nothing is left of it.
    pub fn open(domain: &Domain, name: &str, initial: T) -> Result<Mutex<T>, Error> {
        let init = |cell: &mut Apart<T>| {
            // SAFETY: T is plain, so its bytes may be copied.
            *cell.value.get_mut() = unsafe { core::ptr::read(&raw const initial) };
        };
        let home = Home::<Apart<T>>::open(domain, name, Kind::Mutex, TypeOf::a::<T>(), init)?;
        let value = NonNull::from(&home.shared().value);
        Ok(Mutex { home: home.part(|cell| &cell.raw), value, spin_wait: SpinWait::new() })
    }

    pub(super) fn embedded(home: Home<EmbeddedMutex<T>>) -> Mutex<T> {
        let value = NonNull::from(&home.shared().value);
        Mutex { home: home.part(|embedded| &embedded.raw), value, spin_wait: SpinWait::new() }
    }

    /// How waiting is done through this handle.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.spin_wait.set(wait);
    }

    /// Takes the lock, waiting as long as a living owner holds it.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard inside, [`LockError::NotRecoverable`], [`LockError::Deadlock`],
    /// [`LockError::Damaged`], [`LockError::System`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, LockError<MutexGuard<'_, T>>> {
        self.lock_until(Deadline::NEVER)
    }

    /// Takes the lock, waiting until the deadline.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and [`LockError::TimedOut`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock_until(&self, deadline: impl Into<Deadline>) -> Result<MutexGuard<'_, T>, LockError<MutexGuard<'_, T>>> {
        let (raw, value, spin_wait) = (self.raw(), self.value, &self.spin_wait);
        lock_at(raw, value, self.home.segment(), self.home.registry(), spin_wait, deadline.into())
    }

    /// Takes the lock if it is free, or its owner is dead.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and [`LockError::WouldBlock`].
    #[inline]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, LockError<MutexGuard<'_, T>>> {
        let me = self.home.me().map_err(LockError::System)?;
        let result = order::watched(me, self.home.segment(), self.raw(), false, || self.raw().try_lock(me));
        // SAFETY: the value beside the lock is what it guards.
        unsafe { MutexGuard::settle(result, self.raw(), value_of(self.value), me) }
    }

    /// The guard that [`MutexGuard::into_raw`] gave up; `None`, and nothing has happened, when it is another thread's or none.
    ///
    /// # Safety
    /// `raw` is 0, or came from a guard of this handle's, and no guard was made of it since by the thread whose it is.
    #[inline]
    pub unsafe fn guard_from_raw(&self, raw: u32) -> Option<MutexGuard<'_, T>> {
        // SAFETY: the value beside the lock is what it guards; the caller's promise.
        unsafe { MutexGuard::resumed(self.raw(), value_of(self.value), self.home.registry(), raw) }
    }

    /// The first half of [`Mutex::lock`], which makes no call: for bindings, whose functions it keeps short. `Err` goes to
    /// [`Mutex::lock_rest`] at once: perhaps the lock is taken already.
    #[doc(hidden)]
    #[inline]
    pub fn lock_fast(&self) -> Result<MutexGuard<'_, T>, Halfway> {
        let registry = self.home.registry();
        let bits = registry.fast_bits();
        let got = bits != 0 && self.raw().acquire(TokenId::from_own(bits));
        if got && self.raw().is_consistent() {
            let me = Me { registry, id: TokenId::from_own(bits) };
            // SAFETY: the value beside the lock is what it guards, and the lock is ours.
            return Ok(unsafe { MutexGuard::new(self.raw(), value_of(self.value), me) });
        }
        Err(Halfway(got))
    }

    /// The other half.
    #[doc(hidden)]
    pub fn lock_rest(
        &self,
        halfway: Halfway,
        deadline: impl Into<Deadline>,
    ) -> Result<MutexGuard<'_, T>, LockError<MutexGuard<'_, T>>> {
        let (segment, registry) = (self.home.segment(), self.home.registry());
        lock_at_slow(self.raw(), self.value, segment, registry, &self.spin_wait, deadline.into(), halfway.0)
    }

    /// Gives back the lock whose guard's raw form stands there, as [`Mutex::guard_from_raw`] and a drop do, if that takes no
    /// call; false: nothing has happened.
    ///
    /// # Safety
    /// As for [`Mutex::guard_from_raw`].
    #[doc(hidden)]
    #[inline]
    pub unsafe fn unlock_fast(&self, held: &core::sync::atomic::AtomicU32) -> bool {
        // Relaxed, both: under the lock only its holder writes there, and no other thread's number is ours.
        let raw = held.load(core::sync::atomic::Ordering::Relaxed);
        let is_ours = raw != 0 && raw == self.home.registry().fast_bits();
        if is_ours {
            held.store(0, core::sync::atomic::Ordering::Relaxed);
            // Whatever its state: that is for the next one to be told.
            self.raw().release(TokenId::from_own(raw));
        }
        is_ours
    }

    /// Makes a mutex that was given up ([`LockError::NotRecoverable`]) usable again, with this value. Nobody comes in
    /// before the value is there.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when a living owner holds it until the deadline, [`LockError::Deadlock`],
    /// [`LockError::Damaged`], [`LockError::System`].
    ///
    /// # If a process dies
    /// In the middle of this: the mutex stays given up, or the next to lock is told that an owner died.
    pub fn reset(&self, value: T, deadline: impl Into<Deadline>) -> Result<(), LockError<()>> {
        let me = self.home.me().map_err(LockError::System)?;
        let take = || self.raw().take_to_reset(me, &self.spin_wait, deadline.into());
        let taken = order::watched(me, self.home.segment(), self.raw(), true, take);
        taken.map_err(|refused| LockError::from_refused(refused, me))?;
        // SAFETY: the value beside the lock is what it guards, and the lock is ours.
        unsafe { MutexGuard::new(self.raw(), value_of(self.value), me) }.reset(value);
        Ok(())
    }

    /// Takes the mutex in whatever state it is in, given up or not, as if its owner had just died: make whole what it guards
    /// and [mark it consistent](MutexGuard::mark_consistent). If the guard is dropped without, a mutex that was given up stays so.
    ///
    /// # Errors
    /// As [`Mutex::reset`].
    ///
    /// # If a process dies
    /// As with [`Mutex::reset`].
    pub fn lock_to_reset(&self, deadline: impl Into<Deadline>) -> Result<MutexGuard<'_, T>, LockError<()>> {
        let me = self.home.me().map_err(LockError::System)?;
        let take = || self.raw().take_to_reset(me, &self.spin_wait, deadline.into());
        let taken = order::watched(me, self.home.segment(), self.raw(), true, take);
        taken.map_err(|refused| LockError::from_refused(refused, me))?;
        // SAFETY: the value beside the lock is what it guards, and the lock is ours.
        Ok(unsafe { MutexGuard::new(self.raw(), value_of(self.value), me) })
    }

    /// Who holds it just now.
    pub fn holder(&self) -> Option<Holder> {
        self.raw().owner().map(|token| Holder::of(self.home.registry(), token))
    }

    #[inline]
    fn raw(&self) -> &RawMutex {
        self.home.shared()
    }
}

/// Whether the lock has been taken already, by somebody who is to be told what became of its last owner.
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "the lock may be taken"]
pub struct Halfway(bool);

/// Locks `raw`, which guards `value`, for the calling thread.
#[inline]
fn lock_at<'a, T>(
    raw: &'a RawMutex,
    value: NonNull<UnsafeCell<T>>,
    segment: &Arc<Segment>,
    registry: &'static Registry,
    spin_wait: &SpinWait,
    deadline: Deadline,
) -> Result<MutexGuard<'a, T>, LockError<MutexGuard<'a, T>>> {
    let bits = registry.fast_bits();
    let got = bits != 0 && raw.acquire(TokenId::from_own(bits));
    if got && raw.is_consistent() {
        let me = Me { registry, id: TokenId::from_own(bits) };
        // SAFETY: the value beside the lock is what it guards, and the lock is ours.
        return Ok(unsafe { MutexGuard::new(raw, value_of(value), me) });
    }
    lock_at_slow(raw, value, segment, registry, spin_wait, deadline, got)
}

/// `got`: the lock is ours already, and something is wrong with what it guards.
#[cold]
#[inline(never)]
fn lock_at_slow<'a, T>(
    raw: &'a RawMutex,
    value: NonNull<UnsafeCell<T>>,
    segment: &Arc<Segment>,
    registry: &'static Registry,
    spin_wait: &SpinWait,
    deadline: Deadline,
    got: bool,
) -> Result<MutexGuard<'a, T>, LockError<MutexGuard<'a, T>>> {
    let me = registry.me().map_err(LockError::System)?;
    let take = || if got { raw.entered(me) } else { raw.lock(me, spin_wait, deadline) };
    let result = order::watched(me, segment, raw, true, take);
    // SAFETY: the value beside the lock is what it guards.
    unsafe { MutexGuard::settle(result, raw, value_of(value), me) }
}

#[inline]
fn value_of<T>(value: NonNull<UnsafeCell<T>>) -> NonNull<T> {
    // `UnsafeCell<T>` has the layout of `T`.
    value.cast()
}

/// A mutex and its value, for use as a field of a [`record!`](crate::record). 8 bytes and the value.
///
/// All zeroes are an unlocked mutex around a zeroed value. [`Record::handle`](super::Record::handle) gives the
/// [`Mutex`] to use it by.
#[repr(C)]
pub struct EmbeddedMutex<T> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached under the lock only.
unsafe impl<T: Send> Sync for EmbeddedMutex<T> {}
// SAFETY: the lock is atomics; the value is Plain and reached under the lock only.
unsafe impl<T: Plain> Shared for EmbeddedMutex<T> {}
// SAFETY: the lock is at the start; the value is Plain and under it.
unsafe impl<T: Plain> SharedField for EmbeddedMutex<T> {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        Place { offset: core::mem::offset_of!(EmbeddedMutex<T>, raw), kind: Kind::Mutex, number: 0 }
    }
}

impl<T: Plain> Embed for EmbeddedMutex<T> {
    type Handle = Mutex<T>;
    fn handle(home: Home<EmbeddedMutex<T>>) -> Mutex<T> {
        Mutex::embedded(home)
    }
}

impl<T: Plain> EmbeddedMutex<T> {
    /// As [`Mutex::lock_until`], for a record, which lends its own `SpinWait`.
    pub(super) fn lock_until(
        &self,
        segment: &Arc<Segment>,
        registry: &'static Registry,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<MutexGuard<'_, T>, LockError<MutexGuard<'_, T>>> {
        lock_at(&self.raw, NonNull::from(&self.value), segment, registry, spin_wait, deadline)
    }

    /// The value, where nobody else can reach it: in [`Record::open`](super::Record::open)'s initialiser.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl Inspect for RawMutex {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        LockDetail {
            holders: self.owner().map(|token| Holder::of(registry, token)).into_iter().collect(),
            not_recoverable: self.is_not_recoverable(),
            ..LockDetail::default()
        }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        u32::from(RawMutex::sweep(self, me, dry_run))
    }
}

const _: () = assert!(size_of::<EmbeddedMutex<u64>>() == 16);
