//! Mutexes: by name, or inside a record.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::sync::{EmbeddedMutex, Halfway, LockError, Mutex, MutexGuard, Untyped, ValueType};
use outlive::{Deadline, Error, Kind};

use crate::argument::{Out, bytes, out};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{
    OUTLIVE_NEVER, OUTLIVE_TRY, in_time, moment, moment_or_past, outlive_deadline_t,
};
use crate::domain::{outlive_domain_t, outlive_peer_info_t};
use crate::opening::{Naming, naming, outlive_opening_t};
use crate::place::{self, Primitive, fast_table, find, find_fast};
use crate::wait::wait;

/// A mutex in shared memory: 8 bytes of a record, or a named one. All zeroes are an unlocked mutex.
/// It is used by its address, like a `pthread_mutex_t`, and never copied.
#[repr(C)]
pub struct outlive_mutex_t {
    words: [u64; 1],
}

const _: () = place::same_shape::<outlive_mutex_t, EmbeddedMutex<()>>();

/// This process's part of a mutex.
pub(crate) struct Handle {
    pub(crate) mutex: Mutex<()>,
    /// The raw form of its holder's guard. Written under the lock; a thread that does not hold the
    /// lock finds another's value there, or 0.
    held: AtomicU32,
}

impl Primitive for Handle {
    type Words = outlive_mutex_t;
    const KIND: Kind = Kind::Mutex;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<Handle> {
        let mutex = untyped.handle::<EmbeddedMutex<()>>(offset)?;
        Some(Handle { mutex, held: AtomicU32::new(0) })
    }
}

impl Handle {
    /// Keeps the lock for the thread. Relaxed: only this thread's own value has a meaning for it,
    /// and it is written only under the lock.
    #[inline]
    pub(crate) fn keep(&self, guard: MutexGuard<'_, ()>) {
        self.held.store(guard.into_raw(), Ordering::Relaxed);
    }

    /// Returns the guard of the lock that the calling thread holds by this handle.
    #[inline]
    pub(crate) fn guard(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        // SAFETY: `keep` wrote the value, from a guard of this mutex. It is this thread's only if
        // this thread kept it and has not taken it since: each taking writes 0 first, or the next
        // holder something else.
        match unsafe { self.mutex.guard_from_raw(self.held.load(Ordering::Relaxed)) } {
            Some(guard) => {
                self.held.store(0, Ordering::Relaxed);
                Ok(guard)
            }
            None => Err(not_held()),
        }
    }

    /// Keeps the guard of a lock that the thread has got, also when it got EOWNERDEAD with it.
    #[inline]
    pub(crate) fn settle<'a>(
        &'a self,
        got: Result<Option<MutexGuard<'a, ()>>, LockError<MutexGuard<'a, ()>>>,
        deadline: outlive_deadline_t,
    ) -> Result<(), Failure> {
        match got {
            Ok(Some(guard)) => {
                self.keep(guard);
                Ok(())
            }
            Ok(None) => in_time(None, deadline, libc::EBUSY),
            Err(error) => Err(self.settle_slow(error)),
        }
    }

    #[cold]
    fn settle_slow<'a>(&'a self, error: LockError<MutexGuard<'a, ()>>) -> Failure {
        match error {
            LockError::OwnerDied(guard) => {
                self.keep(guard);
                Failure::from(LockError::OwnerDied(()))
            }
            other => Failure::from(other),
        }
    }
}

#[cold]
fn not_held() -> Failure {
    Failure::new(
        libc::EPERM,
        "the calling thread does not hold the lock, or took it by another opening",
    )
}

/// Opens the mutex of that name, or makes it, with `size` bytes of value behind it, aligned to 64:
/// `outlive_mutex_value`. 0: a lock alone. `initial`: the value of a new mutex; NULL: zeroes. It is
/// the same as Rust's `Mutex<T>` with a T of as many bytes.
///
/// Owner: `*mutex` is in shared memory, mapped until `outlive_mutex_close`.
///
/// Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: it exists with another size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    size: usize,
    initial: *const c_void,
    mutex: *mut *mut outlive_mutex_t,
) -> c_int {
    // SAFETY: the C caller passes what `outlive_mutex_open` asks for: a live domain, a name, `size`
    // bytes, and a place.
    entry(|| unsafe { open_lock(naming(domain, name, how, mutex)?, Kind::Mutex, size, initial) })
}

/// Opens a named lock with a value.
///
/// # Safety
/// The C caller guarantees what `outlive_mutex_open` asks for.
pub(crate) unsafe fn open_lock<T>(
    naming: Naming<'_, Out<*mut T>>,
    kind: Kind,
    size: usize,
    initial: *const c_void,
) -> Result<(), Failure> {
    // SAFETY: the caller guarantees the arguments of `outlive_mutex_open`.
    unsafe {
        open_with_value(naming, size, initial, |naming, value, init| {
            Untyped::lock(naming.domain, naming.name, naming.opening, kind, value, init)
        })
    }
}

/// Opens a named lock with a value, by `open`.
///
/// # Safety
/// The caller guarantees what [`open_lock`] asks for.
pub(crate) unsafe fn open_with_value<T>(
    naming: Naming<'_, Out<*mut T>>,
    size: usize,
    initial: *const c_void,
    open: impl FnOnce(
        &Naming<'_, Out<*mut T>>,
        ValueType<'_>,
        &dyn Fn(*mut u8),
    ) -> Result<Untyped, Error>,
) -> Result<(), Failure> {
    let initial = if initial.is_null() {
        None
    } else {
        // SAFETY: the C caller passes `size` readable bytes at `initial`.
        Some(unsafe { bytes(initial, size) }?)
    };
    let untyped = open(&naming, ValueType { name: None, size, align: 1 }, &|at| {
        if let Some(initial) = initial {
            // SAFETY: `at` has `size` bytes, in a file that no other process has yet.
            unsafe { core::ptr::copy_nonoverlapping(initial.as_ptr(), at, initial.len()) };
        }
    })?;
    naming.out.put(place::open(untyped).cast());
    Ok(())
}

/// Returns the value behind a named mutex, which only the lock's holder may touch. NULL: it has
/// none, or is inside a record.
///
/// Owner: shared memory, mapped until `outlive_mutex_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_value(mutex: *const outlive_mutex_t) -> *mut c_void {
    entry_or(core::ptr::null_mut(), || {
        Ok(place::value(mutex.cast(), Kind::Mutex).map_or(core::ptr::null_mut(), <*mut u8>::cast))
    })
}

/// Closes this opening of a named mutex: its address and its value's are invalid from then on. No
/// thread of this process may hold it or wait for it by this address; other processes are not
/// affected. Passing NULL, or what is not an opened named mutex, has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_close(mutex: *mut outlive_mutex_t) {
    entry(|| place::close(mutex.cast(), Kind::Mutex));
}

/// Takes the lock, waiting while a living owner holds it. The lock belongs to the calling thread.
///
/// Errors: EOWNERDEAD: the caller has the lock, but an owner died with it: repair what it guards,
/// call `outlive_mutex_consistent`, and unlock; unlocked without that call, the next locker gets
/// EOWNERDEAD again. ENOTRECOVERABLE: a holder marked it so (`outlive_mutex_mark_not_recoverable`;
/// `outlive_mutex_lock_to_reset` makes it usable again). EDEADLK: this thread holds it already.
/// EINVAL: no mutex that this process has open. OUTLIVE_DAMAGED, EUSERS, ENOSPC.
///
/// If a process dies while it holds the lock, the next locker gets EOWNERDEAD, also one that sleeps
/// already. A waiter's death has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_lock(mutex: *mut outlive_mutex_t) -> c_int {
    // Code that makes no call cannot panic, and keeps this function short.
    let halfway = match find_fast::<Handle>(mutex) {
        None => None,
        Some(handle) => match handle.mutex.lock_fast() {
            Ok(guard) => {
                handle.keep(guard);
                return 0;
            }
            Err(halfway) => Some(halfway),
        },
    };
    lock_slow(mutex, halfway)
}

#[cold]
#[inline(never)]
fn lock_slow(mutex: *mut outlive_mutex_t, halfway: Option<Halfway>) -> c_int {
    entry(|| {
        let handle = find::<Handle>(mutex)?;
        let got = match halfway {
            Some(halfway) => handle.mutex.lock_rest(halfway, Deadline::NEVER),
            None => handle.mutex.lock().map(Some),
        };
        handle.settle(got, OUTLIVE_NEVER)
    })
}

/// Takes the lock if it is free, or its owner is dead; never waits.
///
/// Errors: as `outlive_mutex_lock`, and EBUSY.
///
/// If a process dies: as `outlive_mutex_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_trylock(mutex: *mut outlive_mutex_t) -> c_int {
    entry(|| {
        let handle = find::<Handle>(mutex)?;
        handle.settle(handle.mutex.try_lock(), OUTLIVE_TRY)
    })
}

/// Takes the lock, waiting until the deadline.
///
/// Errors: as `outlive_mutex_lock`, and ETIMEDOUT; EBUSY with OUTLIVE_TRY.
///
/// If a process dies: as `outlive_mutex_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_lock_until(
    mutex: *mut outlive_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let handle = find::<Handle>(mutex)?;
        match moment(deadline) {
            Some(moment) => handle.settle(handle.mutex.lock_until(moment), deadline),
            None => handle.settle(handle.mutex.try_lock(), deadline),
        }
    })
}

/// Unlocks the mutex. After EOWNERDEAD, and without `outlive_mutex_consistent`, the next locker
/// gets EOWNERDEAD again (pthread's robust mutexes become ENOTRECOVERABLE then).
///
/// Errors: EPERM: this thread does not hold it (also in a forked child: the parent holds it).
/// EINVAL.
///
/// If a process dies during the call, the lock is free, or the next locker gets EOWNERDEAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_unlock(mutex: *mut outlive_mutex_t) -> c_int {
    // As in `outlive_mutex_lock`: no call, no panic.
    let done = find_fast::<Handle>(mutex).is_some_and(|handle| {
        // SAFETY: `keep` wrote the value, from a guard of this mutex that this thread has.
        unsafe { handle.mutex.unlock_fast(&handle.held) }
    });
    if done { 0 } else { unlock_slow(mutex) }
}

#[cold]
#[inline(never)]
fn unlock_slow(mutex: *mut outlive_mutex_t) -> c_int {
    entry(|| {
        drop(find::<Handle>(mutex)?.guard()?);
        Ok(())
    })
}

/// Declares after EOWNERDEAD that what the lock guards is whole again. The caller holds the lock.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_consistent(mutex: *mut outlive_mutex_t) -> c_int {
    entry(|| {
        let handle = find::<Handle>(mutex)?;
        let mut guard = handle.guard()?;
        guard.mark_consistent();
        handle.keep(guard);
        Ok(())
    })
}

/// Marks the mutex not recoverable, because what it guards cannot be made whole, and unlocks it.
/// Every later locker gets ENOTRECOVERABLE, until a thread calls `outlive_mutex_lock_to_reset`. The
/// caller holds the lock, with EOWNERDEAD or without.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
///
/// If a process dies during the call, the lock is not recoverable, or the next locker gets
/// EOWNERDEAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_mark_not_recoverable(mutex: *mut outlive_mutex_t) -> c_int {
    entry(|| {
        find::<Handle>(mutex)?.guard()?.mark_not_recoverable();
        Ok(())
    })
}

/// Returns whether the calling thread holds it, its last owner died with it, and no holder has
/// declared it consistent since: the same as EOWNERDEAD, for code that does not see the return
/// code. False for what is no such lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_owner_died(mutex: *const outlive_mutex_t) -> bool {
    entry_or(false, || {
        let handle = find::<Handle>(mutex)?;
        let guard = handle.guard()?;
        let died = guard.owner_died();
        handle.keep(guard);
        Ok(died)
    })
}

/// Takes a mutex in any state, recoverable or not, waiting for a living owner until
/// the deadline. Make whole what it guards, call `outlive_mutex_consistent`, and unlock. Unlocked
/// without that call, a mutex that was not recoverable stays so.
///
/// Errors: as `outlive_mutex_lock_until`, except EOWNERDEAD and ENOTRECOVERABLE.
///
/// If a process dies in the middle of the repair, the mutex stays not recoverable, or the next
/// locker gets EOWNERDEAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_lock_to_reset(
    mutex: *mut outlive_mutex_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let handle = find::<Handle>(mutex)?;
        let got = handle.mutex.lock_to_reset_until(moment_or_past(deadline))?;
        handle.keep(got.ok_or_else(Failure::timed_out)?);
        Ok(())
    })
}

/// Writes the thread that holds it now, dead or alive, to `*info`.
///
/// Errors: ESRCH: no thread holds it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_holder(
    mutex: *const outlive_mutex_t,
    info: *mut outlive_peer_info_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `info`.
        let out = unsafe { out(info) }?;
        let holder = find::<Handle>(mutex)?.mutex.holder();
        let holder = holder.ok_or_else(|| Failure::new(libc::ESRCH, "no thread holds the lock"))?;
        out.put(outlive_peer_info_t::of_holder(&holder));
        Ok(())
    })
}

/// Sets how this process waits for this mutex: one of the OUTLIVE_WAIT numbers.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_mutex_set_wait(mutex: *mut outlive_mutex_t, how: u32) -> c_int {
    entry(|| {
        find::<Handle>(mutex)?.mutex.set_wait_strategy(wait(how)?);
        Ok(())
    })
}
