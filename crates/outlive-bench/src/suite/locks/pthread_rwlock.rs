//! The C library's readers-writer lock between processes, as its readers have it and as its writers
//! do.

use super::number::Number;
use super::{Handle, Held, Lock};
use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::shared::{Shared, ZeroShared};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// The lock with its number beside it.
#[repr(C, align(64))]
pub(super) struct Guarded {
    lock: UnsafeCell<libc::pthread_rwlock_t>,
    number: Number,
}

// SAFETY: a PTHREAD_PROCESS_SHARED lock is made for this, and the number is reached under it only.
unsafe impl Sync for Guarded {}
// SAFETY: zero is valid, no pointers.
unsafe impl ZeroShared for Guarded {}

/// The rows: the one that writes, and the one that reads.
pub(super) struct PthreadRwLock<const WRITES: bool>;

/// A process's view.
pub(super) struct View<'place, const WRITES: bool>(&'place Guarded);

impl<const WRITES: bool> Lock for PthreadRwLock<WRITES> {
    const NAME: &'static str = if WRITES { "pthread_rwlock_write" } else { "pthread_rwlock_read" };
    const SHARED: bool = !WRITES;
    type Place = Shared<Guarded>;
    type Handle<'place> = View<'place, WRITES>;

    fn place(_: &Stage, _: &'static str) -> Result<Shared<Guarded>, Error> {
        let guarded = Shared::<Guarded>::new()?;
        let mut attributes = MaybeUninit::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised first; no other process has the lock or the number
        // yet.
        let failed = unsafe {
            if !WRITES {
                guarded.number.set_for_readers();
            }
            libc::pthread_rwlockattr_init(attributes)
                | libc::pthread_rwlockattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED)
                | libc::pthread_rwlock_init(guarded.lock.get(), attributes)
        };
        if failed == 0 {
            Ok(guarded)
        } else {
            Err(Error::Refused("the C library has no readers-writer lock between processes".into()))
        }
    }

    fn open(place: &Shared<Guarded>) -> Result<View<'_, WRITES>, Error> {
        Ok(View(place))
    }
}

impl<const WRITES: bool> Handle for View<'_, WRITES> {
    type Held<'handle>
        = Locked<'handle, WRITES>
    where
        Self: 'handle;

    #[inline]
    fn acquire(&self) -> Result<Locked<'_, WRITES>, Error> {
        let lock = self.0.lock.get();
        // SAFETY: mapped and initialised for as long as the place is borrowed.
        let failed = unsafe {
            if WRITES {
                libc::pthread_rwlock_wrlock(lock)
            } else {
                libc::pthread_rwlock_rdlock(lock)
            }
        };
        match failed {
            0 => Ok(Locked(self.0)),
            _ => Err(Error::Wrong("a pthread readers-writer lock could not be locked".into())),
        }
    }
}

/// The lock, held.
pub(super) struct Locked<'handle, const WRITES: bool>(&'handle Guarded);

impl<const WRITES: bool> Held for Locked<'_, WRITES> {
    #[inline]
    fn touch(&mut self) -> u64 {
        // SAFETY: this process holds the lock, alone if it writes.
        unsafe { if WRITES { self.0.number.raise() } else { self.0.number.read() } }
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        // SAFETY: mapped and initialised in `place`; this process holds it.
        match unsafe { libc::pthread_rwlock_unlock(self.0.lock.get()) } {
            0 => Ok(()),
            _ => Err(Error::Wrong("a pthread readers-writer lock could not be unlocked".into())),
        }
    }
}
