//! The C library's mutexes between processes: plain, robust, and with priority inheritance.

use super::super::error::Error;
use super::super::round::Stage;
use super::super::shared::{Shared, ZeroShared};
use super::Lock;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The mutex with its counter beside it, on the same cache line, as one would write it.
#[repr(C, align(64))]
pub(super) struct Guarded {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    counter: UnsafeCell<u64>,
}

// SAFETY: a PTHREAD_PROCESS_SHARED mutex is made for this, and the counter is reached under it only; zero is valid.
unsafe impl ZeroShared for Guarded {}

/// What makes the mutexes differ.
pub(super) trait Flavour {
    /// The row's name.
    const NAME: &'static str;
    /// The attribute to set; the C library's return value.
    fn set(attributes: *mut libc::pthread_mutexattr_t) -> libc::c_int;
}

/// Nothing special.
pub(super) struct Plain;
/// PTHREAD_MUTEX_ROBUST.
pub(super) struct Robust;
/// PTHREAD_PRIO_INHERIT.
pub(super) struct PriorityInheriting;

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

/// A process's view of the mutex.
pub(super) struct Pthread<F> {
    guarded: *const Guarded,
    flavour: PhantomData<F>,
}

impl<F: Flavour> Lock for Pthread<F> {
    const NAME: &'static str = F::NAME;
    type Place = Shared<Guarded>;

    fn place(_: &Stage) -> Result<Shared<Guarded>, Error> {
        let guarded = Shared::<Guarded>::new()?;
        let mut attributes = MaybeUninit::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised first; nobody else has the mutex yet.
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

    fn open(place: &Shared<Guarded>) -> Result<Self, Error> {
        Ok(Self { guarded: &**place, flavour: PhantomData })
    }

    #[inline]
    fn with<R>(&self, body: impl FnOnce(&mut u64) -> R) -> Result<R, Error> {
        // SAFETY: mapped and initialised for as long as the turn lasts, which is longer than its processes; the counter
        // is ours while we hold the mutex.
        unsafe {
            let guarded = &*self.guarded;
            if libc::pthread_mutex_lock(guarded.mutex.get()) != 0 {
                return Err(Error::Wrong(format!("{} could not be locked", F::NAME)));
            }
            let result = body(&mut *guarded.counter.get());
            libc::pthread_mutex_unlock(guarded.mutex.get());
            Ok(result)
        }
    }
}
