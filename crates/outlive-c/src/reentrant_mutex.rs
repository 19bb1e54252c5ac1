//! Mutexes that their holder may lock again: by name, or inside a record.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use outlive::Kind;
use outlive::sync::{EmbeddedReentrantMutex, OwnedReentrantMutexGuard, ReentrantMutex, Untyped};

use crate::argument::out;
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::{outlive_domain_t, outlive_peer_info_t};
use crate::held::{self, held_by_thread};
use crate::mutex::open_lock;
use crate::opening::{naming, outlive_opening_t};
use crate::place::{self, Primitive, fast_table, find};
use crate::wait::wait;

/// A mutex in shared memory that the thread that holds it may lock again, like POSIX's
/// PTHREAD_MUTEX_RECURSIVE: 16 bytes of a record, or a named one. All zeroes are an unlocked mutex.
/// It is unlocked when it has been unlocked as often as locked.
#[repr(C)]
pub struct outlive_reentrant_mutex_t {
    words: [u64; 2],
}

const _: () = place::same_shape::<outlive_reentrant_mutex_t, EmbeddedReentrantMutex<()>>();

/// This process's part of a mutex; guards keep it, also when it is closed.
pub(crate) struct Handle(pub(crate) Arc<ReentrantMutex<()>>);

impl Primitive for Handle {
    type Words = outlive_reentrant_mutex_t;
    const KIND: Kind = Kind::ReentrantMutex;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<Handle> {
        untyped.handle::<EmbeddedReentrantMutex<()>>(offset).map(Arc::new).map(Handle)
    }
}

pub(crate) type Guard = OwnedReentrantMutexGuard<()>;
held_by_thread!(Guard, ReentrantMutex<()>, Guard::lock);

/// Opens the mutex of that name, or makes it, with `size` bytes of value behind it: as
/// `outlive_mutex_open`.
///
/// Owner: `*mutex` is in shared memory, mapped until `outlive_reentrant_mutex_close`.
///
/// Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: it exists with another size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    size: usize,
    initial: *const c_void,
    mutex: *mut *mut outlive_reentrant_mutex_t,
) -> c_int {
    // SAFETY: the C caller passes what `outlive_mutex_open` asks for: a live domain, a name, `size`
    // bytes, and a place.
    entry(|| unsafe {
        open_lock(naming(domain, name, how, mutex)?, Kind::ReentrantMutex, size, initial)
    })
}

/// Returns the value behind a named mutex. NULL: it has none, or is inside a record.
///
/// Owner: shared memory, mapped until `outlive_reentrant_mutex_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_value(
    mutex: *const outlive_reentrant_mutex_t,
) -> *mut c_void {
    entry_or(core::ptr::null_mut(), || {
        Ok(place::value(mutex.cast(), Kind::ReentrantMutex)
            .map_or(core::ptr::null_mut(), <*mut u8>::cast))
    })
}

/// Closes this opening of a named mutex. No thread of this process may hold it or wait for it by
/// this address. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_close(mutex: *mut outlive_reentrant_mutex_t) {
    entry(|| place::close(mutex.cast(), Kind::ReentrantMutex));
}

/// Takes the lock, waiting until the deadline while another living thread holds it. The thread that
/// holds it takes it once more, and is not told again that an owner died.
///
/// Errors: as `outlive_mutex_lock_until`, except EDEADLK; EUSERS: the thread has locked it
/// 4,294,967,295 times.
///
/// If a process dies: as with `outlive_mutex_lock`, however often it had locked it; the next locker
/// has locked it once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_lock(
    mutex: *mut outlive_reentrant_mutex_t,
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

/// Undoes one `outlive_reentrant_mutex_lock` of this thread by this address; the last one unlocks the
/// mutex.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_unlock(
    mutex: *mut outlive_reentrant_mutex_t,
) -> c_int {
    entry(|| {
        drop(held::take::<Guard>(&find::<Handle>(mutex)?.0)?);
        Ok(())
    })
}

/// Declares after EOWNERDEAD that what the lock guards is whole again. The caller holds the lock. It
/// has no effect once this thread has called `outlive_reentrant_mutex_mark_not_recoverable`.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_consistent(
    mutex: *mut outlive_reentrant_mutex_t,
) -> c_int {
    entry(|| {
        let mut guard = held::take::<Guard>(&find::<Handle>(mutex)?.0)?;
        guard.mark_consistent();
        held::keep(guard);
        Ok(())
    })
}

/// Marks the mutex not recoverable as `outlive_mutex_mark_not_recoverable` does, and undoes one
/// `outlive_reentrant_mutex_lock`; only `outlive_reentrant_mutex_reset` makes it usable again.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_mark_not_recoverable(
    mutex: *mut outlive_reentrant_mutex_t,
) -> c_int {
    entry(|| {
        held::take::<Guard>(&find::<Handle>(mutex)?.0)?.mark_not_recoverable();
        Ok(())
    })
}

/// Returns whether the calling thread holds it, its last owner died with it, and no holder has
/// declared it consistent since: the same as EOWNERDEAD, for code that does not see the return
/// code. False for what is no such lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_owner_died(
    mutex: *const outlive_reentrant_mutex_t,
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
/// Errors: as `outlive_reentrant_mutex_lock`, except EOWNERDEAD and ENOTRECOVERABLE. EDEADLK: this
/// thread holds it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_reset(
    mutex: *mut outlive_reentrant_mutex_t,
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
pub unsafe extern "C" fn outlive_reentrant_mutex_holder(
    mutex: *const outlive_reentrant_mutex_t,
    info: *mut outlive_peer_info_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `info`.
        let out = unsafe { out(info) }?;
        let holder = find::<Handle>(mutex)?.0.holder();
        let holder = holder.ok_or_else(|| Failure::new(libc::ESRCH, "no thread holds the lock"))?;
        out.put(outlive_peer_info_t::of_holder(&holder));
        Ok(())
    })
}

/// Sets how this process waits for this mutex: one of the OUTLIVE_WAIT numbers.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_reentrant_mutex_set_wait(
    mutex: *mut outlive_reentrant_mutex_t,
    how: u32,
) -> c_int {
    entry(|| {
        find::<Handle>(mutex)?.0.set_wait_strategy(wait(how)?);
        Ok(())
    })
}
