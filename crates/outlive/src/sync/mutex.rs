//! A named mutex with the value it guards.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;

use super::embedded::{Embed, Place, SharedField};
use super::guard::{LockError, MutexGuard};
use super::primitive::{Home, TypeOf};
use super::primitive::{Inspect, LockDetail};
use super::raw::mutex::RawMutex;
use super::{Holder, order};
use crate::Plain;
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::{Segment, Shared};
use crate::shim::AtomicU64;
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// Guards a value, shared by name between processes, and survives the death of its owner.
///
/// It costs as much as a plain mutex: one compare-exchange to lock, one swap to unlock, and no
/// system call unless a thread waits. It is not fair: a running thread may take the lock before a
/// woken one. A named mutex takes 8 KiB of memory, which includes a value of up to 4 KiB.
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
///         // A process was killed while it held the lock. A number is whole in any case.
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
/// While it holds the lock: the next locker gets [`LockError::OwnerDied`], even if it slept
/// already; and so does each after it, until one [marks the value
/// consistent](MutexGuard::mark_consistent), [gives the lock up](MutexGuard::give_up) or resets it.
/// While it waits: other threads are not affected. While it holds several locks: each of them
/// reports the death. A panic counts as a death: see [`MutexGuard`](MutexGuard#if-it-panics).
pub struct Mutex<T> {
    home: Home<RawMutex>,
    value: NonNull<UnsafeCell<T>>,
    spin_wait: SpinWait,
}

/// The body of a named mutex: the lock at the page's start, the value 64 bytes behind it.
#[repr(C, align(64))]
struct Apart<T> {
    raw: RawMutex,
    reserved: [AtomicU64; 7],
    value: UnsafeCell<T>,
}

// SAFETY: the lock is atomics; the value is `Plain`, and only a guard reaches it.
unsafe impl<T: Plain> Shared for Apart<T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T: Plain> Mutex<T> {
    /// Opens the mutex of that name, or makes it with the given value.
    ///
    /// # Errors
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else,
    /// [`Error::NoSpace`], [`Error::InvalidName`], and errors of the system.
    ///
    /// # If a process dies
    /// While it makes the mutex: no trace of the mutex remains.
    pub fn open(domain: &Domain, name: &str, initial: T) -> Result<Mutex<T>, Error> {
        let init = |cell: &mut Apart<T>| {
            // SAFETY: `T: Plain`, so a copy of `initial`'s bytes is a second, independent value.
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

    /// Sets how this handle waits.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.spin_wait.set(wait);
    }

    /// Takes the lock, waiting as long as a living owner holds it.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard inside, [`LockError::NotRecoverable`],
    /// [`LockError::Deadlock`], [`LockError::Damaged`], [`LockError::System`].
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
    pub fn lock_until(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<MutexGuard<'_, T>, LockError<MutexGuard<'_, T>>> {
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
        let result =
            order::watched(me, self.home.segment(), self.raw(), false, || self.raw().try_lock(me));
        // SAFETY: the lock guards the value beside it, and the handle keeps both mapped.
        unsafe { MutexGuard::settle(result, self.raw(), value_of(self.value), me) }
    }

    /// Makes a guard of the number that [`MutexGuard::into_raw`] returned. Returns `None`, and does
    /// nothing, when the number is 0 or another thread's.
    ///
    /// # Safety
    /// `raw` is 0, or came from a guard of this mutex, and the thread that it names has made no
    /// guard of it since.
    #[inline]
    pub unsafe fn guard_from_raw(&self, raw: u32) -> Option<MutexGuard<'_, T>> {
        // SAFETY: the lock guards the value beside it, the handle keeps both mapped; the caller
        // promises the rest.
        unsafe { MutexGuard::resumed(self.raw(), value_of(self.value), self.home.registry(), raw) }
    }

    /// Does the first half of [`Mutex::lock`], which makes no call; bindings use it to keep their
    /// functions short. On `Err`, call [`Mutex::lock_rest`] at once: the lock may be taken already.
    #[doc(hidden)]
    #[inline]
    pub fn lock_fast(&self) -> Result<MutexGuard<'_, T>, Halfway> {
        let registry = self.home.registry();
        let bits = registry.fast_bits();
        let got = bits != 0 && self.raw().acquire(TokenId::from_own(bits));
        if got && self.raw().is_consistent() {
            let me = Me { registry, id: TokenId::from_own(bits) };
            // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
            // thread holds the lock.
            return Ok(unsafe { MutexGuard::new(self.raw(), value_of(self.value), me) });
        }
        Err(Halfway(got))
    }

    /// Does the second half of [`Mutex::lock`].
    #[doc(hidden)]
    pub fn lock_rest(
        &self,
        halfway: Halfway,
        deadline: impl Into<Deadline>,
    ) -> Result<MutexGuard<'_, T>, LockError<MutexGuard<'_, T>>> {
        let (segment, registry) = (self.home.segment(), self.home.registry());
        lock_at_slow(
            self.raw(),
            self.value,
            segment,
            registry,
            &self.spin_wait,
            deadline.into(),
            halfway.0,
        )
    }

    /// Gives the lock back whose guard's raw form is in `held`, as [`Mutex::guard_from_raw`] and a
    /// drop do, if that takes no call. Returns false, and does nothing, if it would take one.
    ///
    /// # Safety
    /// As for [`Mutex::guard_from_raw`].
    #[doc(hidden)]
    #[inline]
    pub unsafe fn unlock_fast(&self, held: &core::sync::atomic::AtomicU32) -> bool {
        // Relaxed, both: only the lock's holder writes there, and no other thread's number is ours.
        let raw = held.load(core::sync::atomic::Ordering::Relaxed);
        let is_ours = raw != 0 && raw == self.home.registry().fast_bits();
        if is_ours {
            held.store(0, core::sync::atomic::Ordering::Relaxed);
            // Whatever the lock's state: the next locker is told of it.
            self.raw().release(TokenId::from_own(raw));
        }
        is_ours
    }

    /// Makes a mutex that was given up ([`LockError::NotRecoverable`]) usable again, with this
    /// value. No thread gets the lock before the value is in place.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when a living owner holds it until the deadline,
    /// [`LockError::Deadlock`], [`LockError::Damaged`], [`LockError::System`].
    ///
    /// # If a process dies
    /// During this call: the mutex stays given up, or the next locker gets
    /// [`LockError::OwnerDied`].
    pub fn reset(&self, value: T, deadline: impl Into<Deadline>) -> Result<(), LockError<()>> {
        let me = self.home.me().map_err(LockError::System)?;
        let take = || self.raw().take_to_reset(me, &self.spin_wait, deadline.into());
        let taken = order::watched(me, self.home.segment(), self.raw(), true, take);
        taken.map_err(|refused| LockError::from_refused(refused, me))?;
        // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
        // thread holds the lock.
        unsafe { MutexGuard::new(self.raw(), value_of(self.value), me) }.reset(value);
        Ok(())
    }

    /// Takes the mutex in whatever state it is, given up or not, as if its owner had just died. The
    /// caller repairs the value and [marks it consistent](MutexGuard::mark_consistent). If it drops
    /// the guard without that, a mutex that was given up stays so.
    ///
    /// # Errors
    /// As [`Mutex::reset`].
    ///
    /// # If a process dies
    /// As with [`Mutex::reset`].
    pub fn lock_to_reset(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<MutexGuard<'_, T>, LockError<()>> {
        let me = self.home.me().map_err(LockError::System)?;
        let take = || self.raw().take_to_reset(me, &self.spin_wait, deadline.into());
        let taken = order::watched(me, self.home.segment(), self.raw(), true, take);
        taken.map_err(|refused| LockError::from_refused(refused, me))?;
        // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
        // thread holds the lock.
        Ok(unsafe { MutexGuard::new(self.raw(), value_of(self.value), me) })
    }

    /// Returns the thread that holds the lock just now, dead or alive.
    pub fn holder(&self) -> Option<Holder> {
        self.raw().owner().map(|token| Holder::of(self.home.registry(), token))
    }

    #[inline]
    fn raw(&self) -> &RawMutex {
        self.home.shared()
    }
}

/// Says whether the first half has taken the lock, with the death of its last owner still to be
/// reported.
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
        // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
        // thread holds the lock.
        return Ok(unsafe { MutexGuard::new(raw, value_of(value), me) });
    }
    lock_at_slow(raw, value, segment, registry, spin_wait, deadline, got)
}

/// `got`: this thread has the lock already, and the lock's state has to be reported.
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
    // SAFETY: the lock guards the value beside it, and the handle keeps both mapped.
    unsafe { MutexGuard::settle(result, raw, value_of(value), me) }
}

#[inline]
fn value_of<T>(value: NonNull<UnsafeCell<T>>) -> NonNull<T> {
    // `UnsafeCell<T>` has the layout of `T`.
    value.cast()
}

/// Embeds a mutex and its value as a field of a [`record!`](crate::record). It takes 8 bytes and
/// the value.
///
/// All zeroes are an unlocked mutex around a zeroed value.
/// [`Record::handle`](super::Record::handle) returns the [`Mutex`] that uses it.
#[repr(C)]
pub struct EmbeddedMutex<T> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock.
unsafe impl<T: Send> Sync for EmbeddedMutex<T> {}
// SAFETY: the lock is atomics; the value is `Plain`, and only a guard reaches it.
unsafe impl<T: Plain> Shared for EmbeddedMutex<T> {}
// SAFETY: the lock is at offset 0, as `primitive` says; the value is `Plain`, and only a guard
// reaches it.
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
    /// Takes the lock as [`Mutex::lock_until`] does, for a record, which lends its own `SpinWait`.
    pub(super) fn lock_until(
        &self,
        segment: &Arc<Segment>,
        registry: &'static Registry,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<MutexGuard<'_, T>, LockError<MutexGuard<'_, T>>> {
        lock_at(&self.raw, NonNull::from(&self.value), segment, registry, spin_wait, deadline)
    }

    /// Returns the value while no other process can reach it: in
    /// [`Record::open`](super::Record::open)'s initialiser.
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
