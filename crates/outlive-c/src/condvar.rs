//! Condition variables, for mutexes of all kinds.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use outlive::Kind;
use outlive::sync::{AcquireError, Condvar, EmbeddedCondvar, LockError, MutexGuard, Untyped, Woke};

use crate::ceiling_mutex::{self, outlive_ceiling_mutex_t};
use crate::code::{Failure, entry};
use crate::deadline::{OUTLIVE_NEVER, moment_or_past, outlive_deadline_t};
use crate::domain::{outlive_domain_t, peer};
use crate::held::{self, Hold};
use crate::mutex::{Handle as MutexHandle, outlive_mutex_t};
use crate::opening::{naming, open_as, outlive_opening_t};
use crate::pi_mutex::{self, outlive_pi_mutex_t};
use crate::place::{self, Primitive, fast_table, find};
use crate::reentrant_mutex::{self, outlive_reentrant_mutex_t};

/// A condition variable in shared memory: 32 bytes of a record, or a named one. All zeroes are a
/// new one.
#[repr(C)]
pub struct outlive_condvar_t {
    words: [u64; 4],
}

const _: () = place::same_shape::<outlive_condvar_t, EmbeddedCondvar>();

struct Handle(Condvar);

impl Primitive for Handle {
    type Words = outlive_condvar_t;
    const KIND: Kind = Kind::Condvar;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<Handle> {
        untyped.handle::<EmbeddedCondvar>(offset).map(Handle)
    }
}

/// Opens the condition variable of that name, or makes it.
///
/// Owner: `*condvar` is in shared memory, mapped until `outlive_condvar_close`.
///
/// Errors: see `outlive_opening_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    condvar: *mut *mut outlive_condvar_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `condvar`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, condvar) }?;
        let condvar = open_as!(Condvar::options(), naming)?;
        naming.out.put(place::open(Untyped::of(&condvar)?).cast());
        Ok(())
    })
}

/// Closes this opening of a named condition variable. No thread of this process may wait for it by
/// this address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_close(condvar: *mut outlive_condvar_t) {
    entry(|| place::close(condvar.cast(), Kind::Condvar));
}

/// Ends a wait: the mutex is held again, unless locking failed.
fn ended<'a>(
    mutex: &'a MutexHandle,
    end: Result<(MutexGuard<'a, ()>, Woke), LockError<MutexGuard<'a, ()>>>,
) -> Result<(), Failure> {
    match end {
        Ok((guard, woke)) => {
            mutex.keep(guard);
            said(woke)
        }
        Err(error @ LockError::OwnerDied(_)) => mutex.settle(Err(error), OUTLIVE_NEVER),
        Err(error) => Err(refused(error.into())),
    }
}

/// Ends a wait under a mutex whose guard the thread keeps: as `ended`.
fn ended_by<H: Hold>(end: Result<(H, Woke), LockError<H>>) -> Result<(), Failure> {
    match end {
        Ok((guard, woke)) => {
            held::keep(guard);
            said(woke)
        }
        Err(error @ LockError::OwnerDied(_)) => held::settle(Err(error), OUTLIVE_NEVER),
        Err(error) => Err(refused(error.into())),
    }
}

/// Returns the code of a wait that ended with the mutex held.
fn said(woke: Woke) -> Result<(), Failure> {
    match woke {
        Woke::TimedOut => {
            Err(Failure::new(libc::ETIMEDOUT, "the deadline passed; the mutex is held again"))
        }
        Woke::PeerEnded => {
            Err(Failure::new(libc::ESRCH, "the peer has ended; the mutex is held again"))
        }
        _ => Ok(()),
    }
}

/// Returns the error of a wait that ended without the mutex.
fn refused(error: AcquireError) -> Failure {
    match error {
        AcquireError::NotRecoverable
        | AcquireError::AboveCeiling
        | AcquireError::Damaged
        | AcquireError::System(_) => error.into(),
        _ => AcquireError::NotHeld.into(),
    }
}

/// Unlocks the mutex, waits for a notification, and locks the mutex again.
///
/// It may return without a notification: check the condition in a loop. Different waiters may use
/// different mutexes.
///
/// Errors with the mutex held again: EOWNERDEAD: an owner died holding it meanwhile (or had died
/// before, and no holder has declared it consistent): repair, call `outlive_mutex_consistent`, and
/// notify all. ETIMEDOUT (`outlive_condvar_wait_until`). Errors without it: ENOTRECOVERABLE: a
/// holder marked it so. EPERM: this thread did not hold it. OUTLIVE_DAMAGED. EINVAL: nothing has
/// happened.
///
/// If a process dies: a dead waiter's notification goes to another waiter. If a notifier dies in
/// the middle, perhaps no waiter was notified; `outlive_condvar_wait_or_end` watches it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_wait(
    condvar: *mut outlive_condvar_t,
    mutex: *mut outlive_mutex_t,
) -> c_int {
    // SAFETY: the C caller passes what `outlive_condvar_wait_until` asks for.
    unsafe { outlive_condvar_wait_until(condvar, mutex, crate::deadline::OUTLIVE_NEVER) }
}

/// Waits as `outlive_condvar_wait` does, until the deadline. The mutex is locked again without a
/// deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_wait_until(
    condvar: *mut outlive_condvar_t,
    mutex: *mut outlive_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let (condvar, mutex) = (find::<Handle>(condvar)?, find::<MutexHandle>(mutex)?);
        ended(mutex, condvar.0.wait_until(mutex.guard()?, moment_or_past(deadline)))
    })
}

/// Waits as `outlive_condvar_wait_until` does, and also until the owner of `token` has ended: for a
/// thread that waits for what only that owner can do.
///
/// Errors: as `outlive_condvar_wait_until`, and ESRCH, with the mutex held again: the owner has
/// ended.
///
/// If the owner of `token` dies, its end ends the wait at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_wait_or_end(
    condvar: *mut outlive_condvar_t,
    mutex: *mut outlive_mutex_t,
    domain: *const outlive_domain_t,
    token: u32,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain.
        let peer = unsafe { peer(domain, token) }?;
        let (condvar, mutex) = (find::<Handle>(condvar)?, find::<MutexHandle>(mutex)?);
        ended(mutex, condvar.0.wait_or_end_until(mutex.guard()?, &peer, moment_or_past(deadline)))
    })
}

/// Waits as `outlive_condvar_wait_until` does, under a mutex with priority inheritance. The holder of
/// the mutex inherits the priority of waiters that have been woken and queue for it, and the kernel
/// hands the mutex to the most urgent one. A waiter that sleeps lends its priority to no thread.
///
/// Errors: as `outlive_condvar_wait_until`.
///
/// If a process dies: as with `outlive_condvar_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_wait_pi_mutex(
    condvar: *mut outlive_condvar_t,
    mutex: *mut outlive_pi_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let condvar = find::<Handle>(condvar)?;
        let guard = held::take::<pi_mutex::Guard>(&find::<pi_mutex::Handle>(mutex)?.0)?;
        ended_by(condvar.0.wait_until(guard, moment_or_past(deadline)))
    })
}

/// Waits as `outlive_condvar_wait_until` does, under a mutex with a ceiling. The waiter sleeps with
/// its own priority, and is raised to the ceiling before it takes the mutex again.
///
/// Errors: as `outlive_condvar_wait_until`. Without the mutex also EINVAL, EPERM: the thread's own
/// priority is above the ceiling by now, or it may not run at the ceiling any more.
///
/// If a process dies: as with `outlive_condvar_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_wait_ceiling_mutex(
    condvar: *mut outlive_condvar_t,
    mutex: *mut outlive_ceiling_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let condvar = find::<Handle>(condvar)?;
        let guard = held::take::<ceiling_mutex::Guard>(&find::<ceiling_mutex::Handle>(mutex)?.0)?;
        ended_by(condvar.0.wait_until(guard, moment_or_past(deadline)))
    })
}

/// Waits as `outlive_condvar_wait_until` does, under a mutex that the thread may have locked several
/// times. It is unlocked as a whole, and locked as often again.
///
/// Errors: as `outlive_condvar_wait_until`. Without the mutex, the thread has nothing to unlock, by
/// whatever opening it had locked it.
///
/// If a process dies: as with `outlive_condvar_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_wait_reentrant_mutex(
    condvar: *mut outlive_condvar_t,
    mutex: *mut outlive_reentrant_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let condvar = find::<Handle>(condvar)?;
        let mutex = &find::<reentrant_mutex::Handle>(mutex)?.0;
        let guard = held::take::<reentrant_mutex::Guard>(mutex)?;
        // SAFETY: no guard of the thread's has given a reference, and those that it has besides, by
        // whatever opening, are dropped here if the mutex is lost.
        let end = unsafe { condvar.0.wait_with_outer_guards(guard, moment_or_past(deadline)) };
        if matches!(end, Err(LockError::Failed(_))) {
            // Those of this mutex are the only ones whose mutex the thread does not have.
            held::retain::<reentrant_mutex::Guard>(|guard| {
                reentrant_mutex::Guard::lock(guard).depth() > 0
            });
        }
        ended_by(end)
    })
}

/// Wakes one waiter. Call it with the mutex held or after unlocking it, never before the change.
///
/// Errors: EINVAL.
///
/// If a process dies before this has returned, perhaps no waiter was woken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_notify_one(condvar: *mut outlive_condvar_t) -> c_int {
    entry(|| {
        find::<Handle>(condvar)?.0.notify_one();
        Ok(())
    })
}

/// Wakes all waiters.
///
/// Errors: EINVAL.
///
/// If a process dies before this has returned, perhaps no waiter was woken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_notify_all(condvar: *mut outlive_condvar_t) -> c_int {
    entry(|| {
        find::<Handle>(condvar)?.0.notify_all();
        Ok(())
    })
}
