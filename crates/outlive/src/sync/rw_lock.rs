//! A named reader-writer lock with the value it guards.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::embedded::{Embed, Place, SharedField};
use super::guard::LockError;
use super::primitive::{Home, TypeOf};
use super::primitive::{Inspect, LockDetail};
use super::raw::rw_lock::{Entered, RawRwLock};
use super::rw_guard::{Held, ReadGuard, WriteGuard};
use super::{Holder, order};
use crate::Shareable;
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::{Segment, Shared};
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// Guards a value for many readers at once or one writer, shared by name between processes, and
/// survives the death of its holders.
///
/// A reader writes to a cache line of its own, so readers on different processors do not slow each
/// other down: up to 64 at once; more share lines, and from 1,025 on they take turns. Reading costs
/// one compare-exchange, giving back one store, with no system call unless a thread waits. A
/// waiting writer keeps new readers out, so readers do not starve writers; a reader that keeps
/// finding writers queues as one of them. Beyond that the lock is not fair. A thread may read
/// several times at once, unless a writer waits: then it gets [`LockError::Deadlock`]. A named lock
/// takes 12 KiB of memory, which includes a value of up to 4,032 bytes.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-rwlock-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{LockError, RwLock};
///
/// let limits = RwLock::<[f64; 2]>::open(&domain, "limits", [0.0, 1.0])?;
/// match limits.read() {
///     Ok(value) => assert!(value[0] <= value[1]),
///     Err(LockError::OwnerDied(mut value)) => {
///         // A writer was killed in here: we have the lock as a writer, to repair what it left.
///         *value = [0.0, 1.0];
///         value.mark_consistent();
///     }
///     Err(other) => panic!("{other}"),
/// }
/// limits.write().unwrap()[1] = 2.0;
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// While it reads: no locker is told, and writers go on at once. While it writes: the next locker,
/// reader or writer, gets [`LockError::OwnerDied`] with a [`WriteGuard`], even if it slept already.
/// Exactly one locker is told; if it does not [mark the value
/// consistent](WriteGuard::mark_consistent), the next one is told, too. While it waits: other
/// threads are not affected. A writer's panic counts as a death, a reader's does not.
pub struct RwLock<T> {
    home: Home<RawRwLock>,
    value: NonNull<UnsafeCell<T>>,
    spin_wait: SpinWait,
}

impl<T> RwLock<T> {
    pub(super) fn segment(&self) -> &Segment {
        self.home.segment()
    }

    pub(super) fn spin_wait(&self) -> &SpinWait {
        &self.spin_wait
    }
}

/// Embeds a reader-writer lock and its value as a field of a [`record!`](crate::record); also the
/// body of a named lock. The value has its own cache line. It takes 4,160 bytes and the value.
///
/// All zeroes are an unlocked lock around a zeroed value. [`Record::handle`](super::Record::handle)
/// returns the [`RwLock`] that uses it.
#[repr(C, align(64))]
pub struct EmbeddedRwLock<T> {
    raw: RawRwLock,
    value: UnsafeCell<T>,
}

// SAFETY: the lock is atomics; the value is `Shareable`, and only a guard reaches it.
unsafe impl<T: Shareable> Shared for EmbeddedRwLock<T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock to read or
// to write.
unsafe impl<T: Send + Sync> Sync for EmbeddedRwLock<T> {}
// SAFETY: the lock is at offset 0, as `primitive` says; the value is `Shareable`, and only a guard
// reaches it.
unsafe impl<T: Shareable> SharedField for EmbeddedRwLock<T> {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        Place {
            offset: core::mem::offset_of!(EmbeddedRwLock<T>, raw),
            kind: Kind::RwLock,
            number: 0,
        }
    }
}

impl<T: Shareable> Embed for EmbeddedRwLock<T> {
    type Handle = RwLock<T>;
    fn handle(home: Home<EmbeddedRwLock<T>>) -> RwLock<T> {
        RwLock::of(home)
    }
}

impl<T: Shareable> EmbeddedRwLock<T> {
    /// Returns the value while no other process can reach it: in
    /// [`Record::open`](super::Record::open)'s initialiser.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock to read or
// to write.
unsafe impl<T: Send + Sync> Send for RwLock<T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock to read or
// to write.
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}

impl<T: Shareable> RwLock<T> {
    /// Opens the lock of that name, or makes it with the given value.
    ///
    /// # Errors
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else,
    /// [`Error::NoSpace`], [`Error::InvalidName`], and errors of the system.
    ///
    /// # If a process dies
    /// While it makes the lock: no trace of the lock remains.
    pub fn open(domain: &Domain, name: &str, initial: T) -> Result<RwLock<T>, Error> {
        let init = |body: &mut EmbeddedRwLock<T>| {
            // SAFETY: `T: Shareable` is plain bytes, so a copy of `initial`'s bytes is a second,
            // independent value.
            *body.value.get_mut() = unsafe { core::ptr::read(&raw const initial) };
        };
        Home::<EmbeddedRwLock<T>>::open(domain, name, Kind::RwLock, TypeOf::a::<T>(), init)
            .map(RwLock::of)
    }

    fn of(home: Home<EmbeddedRwLock<T>>) -> RwLock<T> {
        let value = NonNull::from(&home.shared().value);
        RwLock { home: home.part(|body| &body.raw), value, spin_wait: SpinWait::new() }
    }

    /// Sets how this handle waits.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.spin_wait.set(wait);
    }

    /// Takes the lock to read, and waits as long as a living writer holds it or waits for it.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with a write guard inside: a writer died, and the caller has the
    /// lock as a writer, to repair what it left. [`LockError::NotRecoverable`];
    /// [`LockError::Deadlock`] when this thread writes, or reads already while a writer waits for
    /// that; [`LockError::Damaged`], [`LockError::System`].
    ///
    /// # If a process dies
    /// The writer's death ends the wait at once.
    #[inline]
    pub fn read(&self) -> Result<ReadGuard<'_, T>, LockError<WriteGuard<'_, T>>> {
        self.read_until(Deadline::NEVER)
    }

    /// Takes the lock to read, and waits until the deadline.
    ///
    /// # Errors
    /// As [`RwLock::read`], and [`LockError::TimedOut`].
    ///
    /// # If a process dies
    /// The writer's death ends the wait at once.
    #[inline]
    pub fn read_until(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<ReadGuard<'_, T>, LockError<WriteGuard<'_, T>>> {
        self.read_with(|| Some(deadline.into()))
    }

    /// Takes the lock to read if no living writer holds it or waits for it.
    ///
    /// # Errors
    /// As [`RwLock::read`], and [`LockError::WouldBlock`].
    #[inline]
    pub fn try_read(&self) -> Result<ReadGuard<'_, T>, LockError<WriteGuard<'_, T>>> {
        self.read_with(|| None)
    }

    #[inline]
    fn read_with(
        &self,
        wait: impl FnOnce() -> Option<Deadline>,
    ) -> Result<ReadGuard<'_, T>, LockError<WriteGuard<'_, T>>> {
        let (raw, registry) = (self.home.shared(), self.home.registry());
        let bits = registry.fast_bits();
        if bits != 0 {
            let id = TokenId::from_own(bits);
            if let Some(word) = raw.enter(id) {
                // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and
                // this thread reads.
                return Ok(unsafe { ReadGuard::new(self.held(Me { registry, id }), word) });
            }
        }
        self.read_slow(wait())
    }

    #[cold]
    #[inline(never)]
    fn read_slow(
        &self,
        wait: Option<Deadline>,
    ) -> Result<ReadGuard<'_, T>, LockError<WriteGuard<'_, T>>> {
        let me = self.home.me().map_err(LockError::System)?;
        let held = self.held(me);
        match self.watched(me, wait.is_some(), |raw| raw.read_slow(me, &self.spin_wait, wait)) {
            // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
            // thread reads.
            Ok(Entered::Reading(word)) => Ok(unsafe { ReadGuard::new(held, word) }),
            // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
            // thread holds the lock.
            Ok(Entered::Repairing) => Err(LockError::OwnerDied(unsafe { WriteGuard::new(held) })),
            Err(refused) => Err(LockError::from_refused(refused, me)),
        }
    }

    /// Takes the lock to write, and waits until no living thread reads or writes. New readers wait
    /// meanwhile.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard inside, [`LockError::NotRecoverable`],
    /// [`LockError::Deadlock`] when this thread reads or writes already, [`LockError::Damaged`],
    /// [`LockError::System`].
    ///
    /// # If a process dies
    /// A holder's death ends the wait at once.
    #[inline]
    pub fn write(&self) -> Result<WriteGuard<'_, T>, LockError<WriteGuard<'_, T>>> {
        self.write_until(Deadline::NEVER)
    }

    /// Takes the lock to write, and waits until the deadline.
    ///
    /// # Errors
    /// As [`RwLock::write`], and [`LockError::TimedOut`].
    ///
    /// # If a process dies
    /// A holder's death ends the wait at once.
    #[inline]
    pub fn write_until(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<WriteGuard<'_, T>, LockError<WriteGuard<'_, T>>> {
        let (raw, registry) = (self.home.shared(), self.home.registry());
        let bits = registry.fast_bits();
        let got = bits != 0 && raw.acquire(TokenId::from_own(bits));
        if got && raw.begin_if_ready() {
            let me = Me { registry, id: TokenId::from_own(bits) };
            // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
            // thread holds the lock.
            return Ok(unsafe { WriteGuard::new(self.held(me)) });
        }
        self.write_slow(Some(deadline.into()), got)
    }

    /// Takes the lock to write if no living thread reads or writes. While it looks, it keeps new
    /// readers out: a `try_read` just then may fail.
    ///
    /// # Errors
    /// As [`RwLock::write`], and [`LockError::WouldBlock`].
    pub fn try_write(&self) -> Result<WriteGuard<'_, T>, LockError<WriteGuard<'_, T>>> {
        self.write_slow(None, false)
    }

    /// `acquired`: this thread has the lock already, and readers are inside or the lock's state has
    /// to be reported.
    #[cold]
    #[inline(never)]
    fn write_slow(
        &self,
        wait: Option<Deadline>,
        acquired: bool,
    ) -> Result<WriteGuard<'_, T>, LockError<WriteGuard<'_, T>>> {
        let me = self.home.me().map_err(LockError::System)?;
        match self
            .watched(me, wait.is_some(), |raw| raw.write_slow(me, &self.spin_wait, wait, acquired))
        {
            // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
            // thread holds the lock.
            Ok(got) => unsafe { WriteGuard::settle(got, self.held(me)) },
            Err(refused) => Err(LockError::from_refused(refused, me)),
        }
    }

    /// Makes a lock that was given up ([`LockError::NotRecoverable`]) usable again, with this
    /// value. No thread gets the lock before the value is in place.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when a living thread holds it until the deadline,
    /// [`LockError::Deadlock`], [`LockError::Damaged`], [`LockError::System`].
    ///
    /// # If a process dies
    /// During this call: the lock is as it was, or the next locker gets
    /// [`LockError::OwnerDied`].
    pub fn reset(&self, value: T, deadline: impl Into<Deadline>) -> Result<(), LockError<()>> {
        let me = self.home.me().map_err(LockError::System)?;
        let taken =
            self.watched(me, true, |raw| raw.take_to_reset(me, &self.spin_wait, deadline.into()));
        taken.map_err(|refused| LockError::from_refused(refused, me))?;
        // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
        // thread holds the lock.
        let mut guard = unsafe { WriteGuard::new(self.held(me)) };
        *guard = value;
        guard.mark_consistent();
        Ok(())
    }

    /// Returns the threads that hold the lock just now: one writer, or any number of readers. A
    /// writer beside readers waits for them.
    pub fn holders(&self) -> Vec<Holder> {
        holders(self.home.shared(), self.home.registry())
    }

    /// Takes the lock by `take` on the slow path, and records the order of locks if the process
    /// does so.
    fn watched<'a, R, E>(
        &'a self,
        me: Me,
        waits: bool,
        take: impl FnOnce(&'a RawRwLock) -> Result<R, E>,
    ) -> Result<R, E> {
        let raw = self.home.shared();
        order::watched(me, self.home.segment(), raw, waits, || take(raw))
    }

    #[inline]
    fn held(&self, me: Me) -> Held<'_, T> {
        // `UnsafeCell<T>` has the layout of `T`.
        let value = self.value.cast();
        Held { raw: self.home.shared(), value, handle: self, me, _thread: PhantomData }
    }
}

fn holders(raw: &RawRwLock, registry: &'static Registry) -> Vec<Holder> {
    raw.writer().into_iter().chain(raw.readers()).map(|token| Holder::of(registry, token)).collect()
}

impl Inspect for &RawRwLock {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let (readers, writes) = (self.readers().len() as u64, self.writer().is_some());
        let plural = if readers == 1 { "" } else { "s" };
        LockDetail {
            state: match (readers, writes) {
                (0, _) => None,
                (_, false) => Some(format!("held by {readers} reader{plural}")),
                (_, true) => Some(format!("held by {readers} reader{plural}, a writer waits")),
            },
            holders: holders(self, registry),
            not_recoverable: self.is_not_recoverable(),
            figures: vec![("readers", readers), ("depth", u64::from(self.depth()))],
        }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        RawRwLock::sweep(self, me, dry_run)
    }
}

const _: () = assert!(size_of::<EmbeddedRwLock<u64>>() == 64 + 4096 + 64);
