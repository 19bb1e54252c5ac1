//! The C library's mutexes between processes: plain, robust, with priority inheritance, and with a
//! ceiling.

use super::number::Number;
use super::{Handle, Held, Lock};
use crate::harness::error::Error;
use crate::harness::realtime;
use crate::harness::round::Stage;
use crate::harness::shared::{Shared, ZeroShared};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The mutex with its number beside it, on the same cache line, as one would write it.
#[repr(C, align(64))]
pub(crate) struct Guarded {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    number: Number,
}

// SAFETY: a PTHREAD_PROCESS_SHARED mutex is made for this, and the number is reached under it only.
unsafe impl Sync for Guarded {}
// SAFETY: zero is valid, no pointers.
unsafe impl ZeroShared for Guarded {}

/// What makes the mutexes differ.
pub(crate) trait Flavour: Sync + 'static {
    /// The row's name.
    const NAME: &'static str;
    /// Sets the attribute; returns the C library's result.
    fn set(attributes: *mut libc::pthread_mutexattr_t) -> libc::c_int;
    /// Makes the calling process one that may use it.
    fn become_user() -> Result<(), Error> {
        Ok(())
    }
    /// Returns why it cannot take part.
    fn refuses() -> Option<String> {
        None
    }
}

/// Nothing special.
pub(crate) struct Plain;
/// PTHREAD_MUTEX_ROBUST.
pub(crate) struct Robust;
/// PTHREAD_PRIO_INHERIT.
pub(crate) struct PriorityInheriting;
/// PTHREAD_PRIO_PROTECT: a holder runs at the mutex's ceiling. Its users must be real-time
/// processes.
pub(crate) struct PriorityProtecting;

impl Flavour for Plain {
    const NAME: &'static str = "pthread";
    fn set(_: *mut libc::pthread_mutexattr_t) -> libc::c_int {
        0
    }
}

impl Flavour for Robust {
    const NAME: &'static str = "pthread_robust";
    fn set(attributes: *mut libc::pthread_mutexattr_t) -> libc::c_int {
        // SAFETY: called with initialised attributes only.
        unsafe { libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST) }
    }
}

impl Flavour for PriorityInheriting {
    const NAME: &'static str = "pthread_pi";
    fn set(attributes: *mut libc::pthread_mutexattr_t) -> libc::c_int {
        // SAFETY: called with initialised attributes only.
        unsafe { libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_INHERIT) }
    }
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    // Missing in the libc crate.
    fn pthread_mutexattr_setprioceiling(
        attributes: *mut libc::pthread_mutexattr_t,
        ceiling: libc::c_int,
    ) -> libc::c_int;
}

impl Flavour for PriorityProtecting {
    const NAME: &'static str = "pthread_protect";

    #[cfg(target_env = "gnu")]
    fn set(attributes: *mut libc::pthread_mutexattr_t) -> libc::c_int {
        // SAFETY: called with initialised attributes only; the declaration above is POSIX's.
        unsafe {
            libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_PROTECT)
                | pthread_mutexattr_setprioceiling(attributes, realtime::CEILING)
        }
    }

    #[cfg(not(target_env = "gnu"))]
    fn set(_: *mut libc::pthread_mutexattr_t) -> libc::c_int {
        libc::ENOTSUP
    }

    fn become_user() -> Result<(), Error> {
        realtime::enter(realtime::USER)
    }

    fn refuses() -> Option<String> {
        if cfg!(target_env = "gnu") {
            realtime::refuses()
        } else {
            Some("this C library has no ceilings".into())
        }
    }
}

/// The row.
pub(crate) struct Pthread<F>(PhantomData<F>);

/// A process's view of the mutex.
pub(crate) struct View<'place, F> {
    guarded: &'place Guarded,
    flavour: PhantomData<F>,
}

impl<F: Flavour> Lock for Pthread<F> {
    const NAME: &'static str = F::NAME;
    type Place = Shared<Guarded>;
    type Handle<'place> = View<'place, F>;

    fn place(_: &Stage, _: &'static str) -> Result<Shared<Guarded>, Error> {
        let guarded = Shared::<Guarded>::new()?;
        let mut attributes = MaybeUninit::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised first; no other process has the mutex yet.
        let failed = unsafe {
            libc::pthread_mutexattr_init(attributes)
                | libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED)
                | F::set(attributes)
                | libc::pthread_mutex_init(guarded.mutex.get(), attributes)
        };
        if failed == 0 {
            Ok(guarded)
        } else {
            Err(Error::Refused(format!("the C library has no {} mutex between processes", F::NAME)))
        }
    }

    fn open(place: &Shared<Guarded>) -> Result<View<'_, F>, Error> {
        F::become_user()?;
        Ok(View { guarded: place, flavour: PhantomData })
    }

    fn refuses() -> Option<String> {
        F::refuses()
    }
}

impl<F: Flavour> Handle for View<'_, F> {
    type Held<'handle>
        = Locked<'handle>
    where
        Self: 'handle;

    #[inline]
    fn acquire(&self) -> Result<Locked<'_>, Error> {
        // SAFETY: mapped and initialised for as long as the place is borrowed.
        match unsafe { libc::pthread_mutex_lock(self.guarded.mutex.get()) } {
            0 => Ok(Locked(self.guarded)),
            _ => Err(Error::Wrong(format!("{} could not be locked", F::NAME))),
        }
    }
}

/// The mutex, locked.
pub(crate) struct Locked<'handle>(&'handle Guarded);

impl Held for Locked<'_> {
    #[inline]
    fn touch(&mut self) -> u64 {
        // SAFETY: this process holds the mutex.
        unsafe { self.0.number.raise() }
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        // SAFETY: mapped and initialised in `place`; this process holds it.
        match unsafe { libc::pthread_mutex_unlock(self.0.mutex.get()) } {
            0 => Ok(()),
            _ => Err(Error::Wrong("a pthread mutex could not be unlocked".into())),
        }
    }
}
