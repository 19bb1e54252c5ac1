//! A named mutex with the value it guards.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::Plain;
use super::guard::{Guard, LockError};
use super::raw_mutex::{RawMutex, Refused};
use super::record::Embedded;
use crate::liveness::{Me, Patience, Peer, Registry, TokenId};
use crate::segment::{BODY, Segment, Shared, Spec};
use crate::shim::AtomicU64;
use crate::{Deadline, Domain, Error, Kind, Wait};

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
/// Holding the lock: the next to lock is told, [`LockError::OwnerDied`], also if it was asleep already. Waiting for it:
/// nobody notices. Between locking and unlocking several locks: each is told on its own.
pub struct Mutex<T> {
    cell: NonNull<Cell<T>>,
    registry: &'static Registry,
    patience: Patience,
    /// Keeps the file mapped.
    _segment: Segment,
    _value: PhantomData<T>,
}

/// The body of a named mutex: the lock at the page's start, the value in the next line but one.
#[repr(C, align(64))]
struct Cell<T> {
    raw: RawMutex,
    reserved: [AtomicU64; 7],
    value: UnsafeCell<T>,
}

// SAFETY: the lock is atomics; the value is Plain and reached under the lock only.
unsafe impl<T: Plain> Shared for Cell<T> {}
// SAFETY: the value is reached under the lock only.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The token that the lock names.
    pub token: TokenId,
    /// Its process, in that process's pid namespace; 0 when no longer known.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// Its program.
    pub program: String,
    /// Whether it lives: a dead holder's lock is taken over by the next to lock.
    pub alive: bool,
}

impl Holder {
    pub(crate) fn of(registry: &'static Registry, token: TokenId) -> Holder {
        let peer = Peer::new(registry, token);
        let info = peer.info();
        Holder {
            token,
            pid: info.as_ref().map_or(0, |i| i.pid),
            tid: info.as_ref().map_or(0, |i| i.tid),
            program: info.map_or_else(String::new, |i| i.program),
            alive: peer.is_alive(),
        }
    }
}

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
        const { assert!(align_of::<T>() <= 4096) };
        let bytes = BODY + size_of::<Cell<T>>() as u64;
        let spec = Spec {
            kind: Kind::Mutex,
            type_name: std::any::type_name::<T>().to_owned(),
            type_size: size_of::<T>() as u64,
            type_align: align_of::<T>() as u64,
            reserve: bytes,
            max_bytes: bytes,
            initial: bytes,
        };
        let segment = domain.create_or_open(name, &spec, |segment| {
            let cell = segment.at::<Cell<T>>(BODY)?;
            // SAFETY: the file has no name yet, so nobody else reaches it; T is plain, so its bytes may be copied.
            unsafe { cell.value.get().write_unaligned(core::ptr::read(&raw const initial)) };
            Ok(())
        })?;
        let cell = NonNull::from(segment.at::<Cell<T>>(BODY)?);
        Ok(Mutex {
            cell,
            registry: domain.registry(),
            patience: Patience::new(),
            _segment: segment,
            _value: PhantomData,
        })
    }

    /// How waiting is done through this handle.
    pub fn set_wait(&self, wait: Wait) {
        self.patience.set(wait);
    }

    #[inline]
    fn cell(&self) -> &Cell<T> {
        // SAFETY: checked when opened; mapped as long as the segment is.
        unsafe { self.cell.as_ref() }
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
    pub fn lock(&self) -> Result<Guard<'_, T>, LockError<Guard<'_, T>>> {
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
    pub fn lock_until(&self, deadline: impl Into<Deadline>) -> Result<Guard<'_, T>, LockError<Guard<'_, T>>> {
        lock_at(&self.cell().raw, &self.cell().value, self.registry, &self.patience, deadline.into())
    }

    /// Takes the lock if it is free, or its owner is dead.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and [`LockError::WouldBlock`].
    #[inline]
    pub fn try_lock(&self) -> Result<Guard<'_, T>, LockError<Guard<'_, T>>> {
        let me = self.registry.me().map_err(LockError::System)?;
        let cell = self.cell();
        // SAFETY: the value beside the lock is what it guards.
        unsafe { Guard::settle(cell.raw.try_lock(me), &cell.raw, value_of(&cell.value), me) }
    }

    /// Makes a mutex that was given up ([`LockError::NotRecoverable`]) usable again, with this value.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when a living owner holds it until the deadline, [`LockError::Deadlock`],
    /// [`LockError::Damaged`], [`LockError::System`].
    pub fn reset(&self, value: T, deadline: impl Into<Deadline>) -> Result<(), LockError<()>> {
        let me = self.registry.me().map_err(LockError::System)?;
        let deadline = deadline.into();
        let cell = self.cell();
        cell.raw.reset(me, &self.patience, deadline).map_err(|refused| match refused {
            Refused::Deadlock => LockError::Deadlock,
            Refused::TimedOut => LockError::TimedOut,
            Refused::System(errno) => {
                LockError::System(Error::from_errno("wait for a lock in", self.registry.path(), errno))
            }
            _ => LockError::Damaged,
        })?;
        match self.lock_until(deadline) {
            Ok(mut guard) => *guard = value,
            Err(LockError::OwnerDied(mut guard)) => {
                *guard = value;
                guard.mark_consistent();
            }
            Err(_) => return Err(LockError::TimedOut),
        }
        Ok(())
    }

    /// Who holds it just now.
    pub fn holder(&self) -> Option<Holder> {
        self.cell().raw.owner().map(|token| Holder::of(self.registry, token))
    }
}

/// Locks `raw`, which guards `value`, for the calling thread.
#[inline]
pub(super) fn lock_at<'a, T>(
    raw: &'a RawMutex,
    value: &'a UnsafeCell<T>,
    registry: &'static Registry,
    patience: &Patience,
    deadline: Deadline,
) -> Result<Guard<'a, T>, LockError<Guard<'a, T>>> {
    let bits = registry.current_bits();
    let got = bits != 0 && raw.acquire(TokenId::from_own(bits));
    if got && raw.is_consistent() {
        let me = Me { registry, id: TokenId::from_own(bits) };
        // SAFETY: the value beside the lock is what it guards, and the lock is ours.
        return Ok(unsafe { Guard::new(raw, value_of(value), me) });
    }
    lock_at_slow(raw, value, registry, patience, deadline, got)
}

/// `got`: the lock is ours already, and something is wrong with what it guards.
#[cold]
#[inline(never)]
fn lock_at_slow<'a, T>(
    raw: &'a RawMutex,
    value: &'a UnsafeCell<T>,
    registry: &'static Registry,
    patience: &Patience,
    deadline: Deadline,
    got: bool,
) -> Result<Guard<'a, T>, LockError<Guard<'a, T>>> {
    let me = registry.me().map_err(LockError::System)?;
    let result = if got { raw.entered(registry) } else { raw.lock(me, patience, deadline) };
    // SAFETY: the value beside the lock is what it guards.
    unsafe { Guard::settle(result, raw, value_of(value), me) }
}

#[inline]
pub(super) fn value_of<T>(value: &UnsafeCell<T>) -> NonNull<T> {
    // SAFETY: UnsafeCell::get of a reference is never null.
    unsafe { NonNull::new_unchecked(value.get()) }
}

/// A named mutex of any type, for those who look at a domain from outside.
pub(crate) fn raw_of(segment: &Segment) -> Result<&RawMutex, Error> {
    segment.at::<RawMutex>(BODY)
}

const _: () = assert!(size_of::<Embedded<u64>>() == 16);
