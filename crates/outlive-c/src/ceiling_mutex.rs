//! Mutexes with a priority ceiling: by name, or inside a record.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use outlive::Kind;
use outlive::sync::{CeilingMutex, EmbeddedCeilingMutex, OwnedCeilingMutexGuard, Untyped};

use crate::argument::out;
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::{outlive_domain_t, outlive_peer_info_t};
use crate::held::{self, held_by_thread};
use crate::mutex::open_with_value;
use crate::opening::{Naming, naming, outlive_opening_t};
use crate::place::{self, Primitive, fast_table, find};

/// A mutex in shared memory whose holders run at its ceiling, a real-time priority of 1 to 99. It
/// takes 16 bytes of a record, with its ceiling in its place (`OUTLIVE_CEILING_PLACE`), or is a
/// named one. All zeroes are an unlocked mutex. The lock belongs to the thread that took it.
#[repr(C)]
pub struct outlive_ceiling_mutex_t {
    words: [u64; 2],
}

const _: () = place::same_shape::<outlive_ceiling_mutex_t, EmbeddedCeilingMutex<(), 1>>();

/// This process's part of a mutex; guards keep it, also when it is closed.
pub(crate) struct Handle(pub(crate) Arc<CeilingMutex<()>>);

impl Primitive for Handle {
    type Words = outlive_ceiling_mutex_t;
    const KIND: Kind = Kind::CeilingMutex;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<Handle> {
        untyped.ceiling_mutex(offset).map(Arc::new).map(Handle)
    }
}

pub(crate) type Guard = OwnedCeilingMutexGuard<()>;
held_by_thread!(Guard, CeilingMutex<()>, Guard::lock);

/// Opens the mutex of that name, or makes it with that ceiling, and with `size` bytes of value
/// behind it, as `outlive_mutex_open`. `ceiling` 0, with OUTLIVE_OPEN: the ceiling that it has. It
/// is the same as Rust's `CeilingMutex<T>` with a T of as many bytes.
///
/// Owner: `*mutex` is in shared memory, mapped until `outlive_ceiling_mutex_close`.
///
/// Errors: see `outlive_opening_t`; EINVAL also when `ceiling` is not 1 to 99. OUTLIVE_OTHER_TYPE:
/// it exists with another size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    ceiling: u32,
    size: usize,
    initial: *const c_void,
    mutex: *mut *mut outlive_ceiling_mutex_t,
) -> c_int {
    // SAFETY: the C caller passes a live domain, a name, `size` bytes at `initial`, and a place for
    // the handle.
    entry(|| unsafe {
        open_with_value(naming(domain, name, how, mutex)?, size, initial, |naming, value, init| {
            let Naming { domain, name, opening, .. } = naming;
            Untyped::ceiling_lock(domain, name, *opening, ceiling, value, init)
        })
    })
}

/// Returns the value behind a named mutex. NULL: it has none, or is inside a record.
///
/// Owner: shared memory, mapped until `outlive_ceiling_mutex_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_value(
    mutex: *const outlive_ceiling_mutex_t,
) -> *mut c_void {
    entry_or(core::ptr::null_mut(), || {
        Ok(place::value(mutex.cast(), Kind::CeilingMutex)
            .map_or(core::ptr::null_mut(), <*mut u8>::cast))
    })
}

/// Closes this opening of a named mutex. Locks that threads hold by it stay theirs until they end;
/// no thread of this process may wait for it by this address. Passing NULL, or what is not an
/// opened named mutex, has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_close(mutex: *mut outlive_ceiling_mutex_t) {
    entry(|| place::close(mutex.cast(), Kind::CeilingMutex));
}

/// Takes the lock, waiting until the deadline while a living owner holds it; the waiter already
/// runs at the ceiling.
///
/// Errors: as `outlive_mutex_lock_until`; EINVAL: the thread's own priority is higher than the
/// ceiling. EPERM: the thread may not run at the ceiling.
///
/// If a process dies: as `outlive_mutex_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_lock(
    mutex: *mut outlive_ceiling_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let handle = find::<Handle>(mutex)?;
        match moment(deadline) {
            Some(moment) => held::settle(handle.0.lock_owned_until(moment), deadline),
            None => held::settle(handle.0.try_lock_owned(), deadline),
        }
    })
}

/// Unlocks the mutex, and then lowers the thread's priority.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_unlock(
    mutex: *mut outlive_ceiling_mutex_t,
) -> c_int {
    entry(|| {
        drop(held::take::<Guard>(&find::<Handle>(mutex)?.0)?);
        Ok(())
    })
}

/// Declares after EOWNERDEAD that what the lock guards is whole again. The caller holds the lock.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_consistent(
    mutex: *mut outlive_ceiling_mutex_t,
) -> c_int {
    entry(|| {
        let mut guard = held::take::<Guard>(&find::<Handle>(mutex)?.0)?;
        guard.mark_consistent();
        held::keep(guard);
        Ok(())
    })
}

/// Unlocks the mutex as `outlive_mutex_mark_not_recoverable` does, then lowers the thread's
/// priority; `outlive_ceiling_mutex_reset` makes it usable again.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_mark_not_recoverable(
    mutex: *mut outlive_ceiling_mutex_t,
) -> c_int {
    entry(|| {
        held::take::<Guard>(&find::<Handle>(mutex)?.0)?.mark_not_recoverable();
        Ok(())
    })
}

/// Returns whether EOWNERDEAD was reported and not repaired, as `outlive_mutex_owner_died`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_owner_died(
    mutex: *const outlive_ceiling_mutex_t,
) -> bool {
    entry_or(false, || {
        let guard = held::take::<Guard>(&find::<Handle>(mutex)?.0)?;
        let died = guard.owner_died();
        held::keep(guard);
        Ok(died)
    })
}

/// Makes a mutex usable again that was marked not recoverable (ENOTRECOVERABLE). Its users have
/// agreed on making what it guards whole before.
///
/// Errors: as `outlive_ceiling_mutex_lock`, except EOWNERDEAD and ENOTRECOVERABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_reset(
    mutex: *mut outlive_ceiling_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let handle = find::<Handle>(mutex)?;
        let got = handle.0.lock_to_reset_until(moment_or_past(deadline))?;
        got.ok_or_else(Failure::timed_out)?.mark_consistent();
        Ok(())
    })
}

/// Writes the thread that holds it now, dead or alive, to `*info`.
///
/// Errors: ESRCH: no thread holds it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_ceiling_mutex_holder(
    mutex: *const outlive_ceiling_mutex_t,
    info: *mut outlive_peer_info_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `info`.
        let out = unsafe { out(info) }?;
        let holder = find::<Handle>(mutex)?
            .0
            .holder()
            .ok_or_else(|| Failure::new(libc::ESRCH, "no thread holds the lock"))?;
        out.put(outlive_peer_info_t::of_holder(&holder));
        Ok(())
    })
}
