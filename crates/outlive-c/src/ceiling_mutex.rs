//! Mutexes with a priority ceiling: handles, whose locks are the thread's.

use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

use outlive::sync::{CeilingGuard, CeilingMutex, LockError};

use crate::argument::{borrow, handle_out, out, text};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t, outlive_peer_info_t};
use crate::owned::Owned;

/// A mutex whose holders run at its ceiling, a real-time priority of 1 to 99, open in this process. May be used by all threads
/// at once; the lock belongs to the thread that took it. Since ABI 2.
pub struct outlive_ceiling_mutex_t(Arc<CeilingMutex<()>>);

type Held = Owned<CeilingGuard<'static, ()>, CeilingMutex<()>>;

/// The locks that the thread holds.
struct Mine(Vec<Held>);

impl Drop for Mine {
    /// A thread that ends with a lock in hand has died with it, as far as others are concerned.
    fn drop(&mut self) {
        self.0.drain(..).for_each(Owned::abandon);
    }
}

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine(Vec::new())) };
}

/// What the thread holds of it.
fn with_held<R>(mutex: &outlive_ceiling_mutex_t, act: impl FnOnce(&mut Vec<Held>, usize) -> R) -> Result<R, Failure> {
    MINE.with(|mine| {
        let held = &mut mine.borrow_mut().0;
        let at = held.iter().position(|held| held.is_of(&mutex.0))?;
        Some(act(held, at))
    })
    .ok_or_else(|| Failure::new(libc::EPERM, "the calling thread does not hold the lock by this handle"))
}

/// Opens the mutex of that name, or makes it with that ceiling. Rust's `CeilingMutex<()>` is the same.
///
/// Owner: `*mutex` is the caller's, until `outlive_ceiling_mutex_close`.
///
/// Errors: as `outlive_mutex_open`; EINVAL also when it is there with another ceiling, or when none of 1 to 99 is asked for.
/// Since ABI 2.
///
/// If a process dies: while it makes the mutex, nothing is left of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    ceiling: u32,
    mutex: *mut *mut outlive_ceiling_mutex_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, domain, name) = unsafe { (handle_out(mutex)?, borrow(domain, "a domain")?, text(name, "a name")?) };
        let opened = CeilingMutex::open(&domain.0, name, ceiling, ())?;
        out.put(Box::into_raw(Box::new(outlive_ceiling_mutex_t(Arc::new(opened)))));
        Ok(())
    })
}

/// Lets go of a mutex. What threads hold by it stays theirs until they end. NULL is nothing. Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_close(mutex: *mut outlive_ceiling_mutex_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(mutex) }
}

/// Takes the lock, at the ceiling already while it waits, until the deadline, as long as a living owner holds it.
///
/// Errors: as `outlive_mutex_lock_until`; EINVAL: the thread's own priority is higher than the ceiling. EPERM: no right to run
/// at the ceiling. Since ABI 2.
///
/// If a process dies: as `outlive_mutex_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_lock(
    mutex: *mut outlive_ceiling_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let mutex = unsafe { borrow(mutex, "a mutex") }?;
        let mut told = Ok(());
        let held = Owned::new(Arc::clone(&mutex.0), |mutex| {
            let got = match moment(deadline) {
                Some(moment) => mutex.lock_until(moment),
                None => mutex.try_lock(),
            };
            match got {
                Ok(guard) => Ok(guard),
                Err(LockError::OwnerDied(guard)) => {
                    told = Err(LockError::OwnerDied(()).into());
                    Ok(guard)
                }
                Err(other) => Err(Failure::from(other)),
            }
        })?;
        MINE.with(|mine| mine.borrow_mut().0.push(held));
        told
    })
}

/// Gives the lock back, and then lowers the thread.
///
/// Errors: EPERM: this thread does not hold it by this handle. EINVAL. Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_unlock(mutex: *mut outlive_ceiling_mutex_t) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        drop(with_held(unsafe { borrow(mutex, "a mutex") }?, |held, at| held.remove(at))?);
        Ok(())
    })
}

/// Declares that what the lock guards is whole again, after EOWNERDEAD. The caller holds the lock.
///
/// Errors: EPERM: this thread does not hold it by this handle. EINVAL. Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_consistent(mutex: *mut outlive_ceiling_mutex_t) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        with_held(unsafe { borrow(mutex, "a mutex") }?, |held, at| held[at].part_mut().mark_consistent())
    })
}

/// As `outlive_mutex_owner_died`. Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_owner_died(mutex: *const outlive_ceiling_mutex_t) -> bool {
    entry_or(false, || {
        // SAFETY: as the header asks of the caller.
        with_held(unsafe { borrow(mutex, "a mutex") }?, |held, at| held[at].part().owner_died())
    })
}

/// Makes a mutex that was given up (ENOTRECOVERABLE) usable again. What it guards was made whole before, by an agreement of its
/// users.
///
/// Errors: as `outlive_ceiling_mutex_lock`, but for EOWNERDEAD and ENOTRECOVERABLE. Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_reset(
    mutex: *mut outlive_ceiling_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| Ok(unsafe { borrow(mutex, "a mutex") }?.0.reset((), moment_or_past(deadline))?))
}

/// Who holds it just now, dead or alive.
///
/// Errors: ESRCH: nobody. EINVAL. Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_holder(
    mutex: *const outlive_ceiling_mutex_t,
    info: *mut outlive_peer_info_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (mutex, out) = unsafe { (borrow(mutex, "a mutex")?, out(info)?) };
        let holder = mutex.0.holder().ok_or_else(|| Failure::new(libc::ESRCH, "nobody holds the lock"))?;
        out.put(outlive_peer_info_t::of_holder(&holder));
        Ok(())
    })
}
