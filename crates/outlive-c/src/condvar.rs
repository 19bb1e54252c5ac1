//! Condition variables, for the mutexes of `mutex.rs`.

use std::ffi::{c_char, c_int};

use outlive::Kind;
use outlive::sync::{Condvar, EmbeddedCondvar, LockError, MutexGuard, Untyped, Woke};

use crate::argument::{borrow, handle_out, text};
use crate::code::{Failure, entry};
use crate::deadline::{moment_or_past, outlive_deadline_t};
use crate::domain::{outlive_domain_t, peer};
use crate::mutex::{Handle as MutexHandle, outlive_mutex_t};
use crate::place::{self, Primitive, fast_table, find};

/// A condition variable in shared memory: 32 bytes of a record, or a named one. All zeroes are a fresh one.
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
/// Errors: as `outlive_mutex_open`.
///
/// If a process dies: while it makes it, nothing is left of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    condvar: *mut *mut outlive_condvar_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, domain, name) = unsafe { (handle_out(condvar)?, borrow(domain, "a domain")?, text(name, "a name")?) };
        Condvar::open(&domain.0, name)?;
        out.put(place::open(Untyped::named(&domain.0, name, Kind::Condvar)?).cast());
        Ok(())
    })
}

/// Closes this opening of a named one. Nobody of this process may wait for it by this address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_close(condvar: *mut outlive_condvar_t) {
    entry(|| place::close(condvar.cast(), Kind::Condvar));
}

/// The guard again, and why.
type Again<'a> = (MutexGuard<'a, ()>, Woke);

/// A wait's end: the mutex is held again, unless locking failed.
fn ended<'a>(mutex: &'a MutexHandle, end: Result<Again<'a>, LockError<Again<'a>>>) -> Result<(), Failure> {
    match end {
        Ok((guard, woke)) => {
            mutex.keep(guard);
            match woke {
                Woke::TimedOut => Err(Failure::new(libc::ETIMEDOUT, "the deadline passed; the mutex is held again")),
                Woke::PeerEnded => Err(Failure::new(libc::ESRCH, "the peer has ended; the mutex is held again")),
                _ => Ok(()),
            }
        }
        Err(LockError::OwnerDied((guard, _))) => mutex.settle(Err(LockError::OwnerDied(guard))),
        Err(LockError::NotRecoverable) => Err(LockError::<()>::NotRecoverable.into()),
        Err(LockError::Damaged) => Err(LockError::<()>::Damaged.into()),
        Err(LockError::System(error)) => Err(error.into()),
        Err(_) => Err(LockError::<()>::NotHeld.into()),
    }
}

/// Gives the mutex back, waits for a notification, and takes the mutex again. May return without one: look at the condition
/// in a loop. Different waiters may use different mutexes.
///
/// Errors: with the mutex held again: EOWNERDEAD: somebody died holding it meanwhile (or had died before, and nobody has
/// declared it consistent): repair, call `outlive_mutex_consistent`, and notify all. ETIMEDOUT (`outlive_condvar_wait_until`).
/// Without it: ENOTRECOVERABLE: somebody gave it up. EPERM: this thread did not hold it. OUTLIVE_DAMAGED. EINVAL: nothing has
/// happened.
///
/// If a process dies: a waiter, its notification goes to another one. A notifier in the middle: perhaps nobody was notified;
/// `outlive_condvar_wait_or_end` watches it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_wait(condvar: *mut outlive_condvar_t, mutex: *mut outlive_mutex_t) -> c_int {
    // SAFETY: as the header asks of the caller.
    unsafe { outlive_condvar_wait_until(condvar, mutex, crate::deadline::OUTLIVE_NEVER) }
}

/// The same, until the deadline. The mutex is taken again without one.
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

/// The same, until the owner of `token` has ended, too: for whoever waits for what only that one can bring.
///
/// Errors: as `outlive_condvar_wait_until`, and ESRCH, with the mutex held again: it has ended.
///
/// If a process dies: the peer's end ends the wait at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_wait_or_end(
    condvar: *mut outlive_condvar_t,
    mutex: *mut outlive_mutex_t,
    domain: *const outlive_domain_t,
    token: u32,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let peer = unsafe { peer(domain, token) }?;
        let (condvar, mutex) = (find::<Handle>(condvar)?, find::<MutexHandle>(mutex)?);
        ended(mutex, condvar.0.wait_or_end(mutex.guard()?, &peer, moment_or_past(deadline)))
    })
}

/// Wakes one of those who wait. With the mutex in hand or after it was given back, never before the change.
///
/// Errors: EINVAL.
///
/// If a process dies: before this has returned, perhaps nobody was woken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_notify_one(condvar: *mut outlive_condvar_t) -> c_int {
    entry(|| {
        find::<Handle>(condvar)?.0.notify_one();
        Ok(())
    })
}

/// Wakes all who wait.
///
/// Errors: EINVAL.
///
/// If a process dies: before this has returned, perhaps nobody was woken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_condvar_notify_all(condvar: *mut outlive_condvar_t) -> c_int {
    entry(|| {
        find::<Handle>(condvar)?.0.notify_all();
        Ok(())
    })
}
