//! Reader-writer locks: by name, or inside a record.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use outlive::Kind;
use outlive::sync::{
    EmbeddedRwLock, LockError, OwnedReadGuard, OwnedUpgradableReadGuard, OwnedWriteGuard, RwLock,
    Untyped, UpgradeError,
};

use crate::code::{Failure, entry, entry_or};
use crate::deadline::{in_time, moment, moment_or_past, outlive_deadline_t};
use crate::domain::{give_holders, outlive_domain_t, outlive_peer_info_t};
use crate::held::{self, held_by_thread};
use crate::mutex::open_lock;
use crate::opening::{naming, outlive_opening_t};
use crate::place::{self, Primitive, fast_table, find};

/// A reader-writer lock in shared memory: 4,160 bytes of a record (readers have cache lines of
/// their own), or a named one. All zeroes are an unlocked lock. It is used by its address, like a
/// `pthread_rwlock_t`, and never copied.
#[repr(C, align(64))]
pub struct outlive_rwlock_t {
    words: [u64; 520],
}

const _: () = place::same_shape::<outlive_rwlock_t, EmbeddedRwLock<()>>();

/// This process's part of a lock; guards keep it, also when it is closed.
struct Handle(Arc<RwLock<()>>);

impl Primitive for Handle {
    type Words = outlive_rwlock_t;
    const KIND: Kind = Kind::RwLock;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<Handle> {
        untyped.handle::<EmbeddedRwLock<()>>(offset).map(Arc::new).map(Handle)
    }
}

/// How a thread holds a lock.
enum Held {
    Reading(OwnedReadGuard<()>),
    Upgradable(OwnedUpgradableReadGuard<()>),
    Writing(OwnedWriteGuard<()>),
}

impl Held {
    fn lock(&self) -> &Arc<RwLock<()>> {
        match self {
            Held::Reading(guard) => OwnedReadGuard::lock(guard),
            Held::Upgradable(guard) => OwnedUpgradableReadGuard::lock(guard),
            Held::Writing(guard) => OwnedWriteGuard::lock(guard),
        }
    }

    fn abandon(self) {
        match self {
            Held::Reading(guard) => guard.abandon(),
            Held::Upgradable(guard) => guard.abandon(),
            Held::Writing(guard) => guard.abandon(),
        }
    }
}

held_by_thread!(Held, RwLock<()>, Held::lock);

fn take(lock: *const outlive_rwlock_t) -> Result<Held, Failure> {
    held::take(&find::<Handle>(lock)?.0)
}

fn told(error: LockError<OwnedWriteGuard<()>>) -> Failure {
    match error {
        LockError::OwnerDied(guard) => {
            held::keep(Held::Writing(guard));
            LockError::OwnerDied(()).into()
        }
        other => other.into(),
    }
}

/// Opens the lock of that name, or makes it, with `size` bytes of value behind it, aligned to 64:
/// `outlive_rwlock_value`. `initial`: the value of a new lock; NULL: zeroes. It is the same as
/// Rust's `RwLock<T>` with a T of as many bytes.
///
/// Owner: `*lock` is in shared memory, mapped until `outlive_rwlock_close`.
///
/// Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: it exists with another size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    size: usize,
    initial: *const c_void,
    lock: *mut *mut outlive_rwlock_t,
) -> c_int {
    // SAFETY: the C caller passes what `outlive_mutex_open` asks for: a live domain, a name, `size`
    // bytes, and a place.
    entry(|| unsafe { open_lock(naming(domain, name, how, lock)?, Kind::RwLock, size, initial) })
}

/// Returns the value behind a named lock, which readers may read and only the writer may write.
/// NULL: it has none, or is inside a record.
///
/// Owner: shared memory, mapped until `outlive_rwlock_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_value(lock: *const outlive_rwlock_t) -> *mut c_void {
    entry_or(core::ptr::null_mut(), || {
        Ok(place::value(lock.cast(), Kind::RwLock).map_or(core::ptr::null_mut(), <*mut u8>::cast))
    })
}

/// Closes this opening of a named lock. No thread of this process may hold it or wait for it by
/// this address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_close(lock: *mut outlive_rwlock_t) {
    entry(|| place::close(lock.cast(), Kind::RwLock));
}

/// Takes the lock for reading, waiting until the deadline while a living writer holds it or waits
/// for it. The lock belongs to the calling thread, which may read several times at once unless a
/// writer waits.
///
/// Errors: EOWNERDEAD: a writer died, and the caller has the lock alone, *as its writer*, to repair
/// what that one left: call `outlive_rwlock_consistent`, then unlock or `outlive_rwlock_downgrade`;
/// unlocked without that call, the next locker gets EOWNERDEAD again. ENOTRECOVERABLE: a holder
/// marked it so (`outlive_rwlock_mark_not_recoverable`). EDEADLK: this thread writes, or reads
/// already while a writer waits for that. ETIMEDOUT; EBUSY with OUTLIVE_TRY. EINVAL: no such lock
/// that this process has open. OUTLIVE_DAMAGED, EUSERS, ENOSPC.
///
/// If a reader dies, writers go on at once, without a report. If a writer dies, exactly one locker
/// is told, the next one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_read(
    lock: *mut outlive_rwlock_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let handle = find::<Handle>(lock)?;
        let got = match moment(deadline) {
            Some(moment) => handle.0.read_owned_until(moment),
            None => handle.0.try_read_owned(),
        };
        let got = got.map_err(told)?;
        held::keep(Held::Reading(in_time(got, deadline, libc::EBUSY)?));
        Ok(())
    })
}

/// Takes the lock for reading, with the right to become the writer (`outlive_rwlock_upgrade`),
/// waiting until the deadline while a living writer or another such reader holds it. Other readers
/// enter beside it, also while a writer waits for it.
///
/// Errors: EDEADLK: this thread writes or is such a reader already, or reads while another thread
/// writes, waits to, or is such a reader. Otherwise as `outlive_rwlock_read`.
///
/// If a process dies: as `outlive_rwlock_read`. The death of such a reader is a reader's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_upgradable_read(
    lock: *mut outlive_rwlock_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let handle = find::<Handle>(lock)?;
        let got = match moment(deadline) {
            Some(moment) => handle.0.upgradable_read_owned_until(moment),
            None => handle.0.try_upgradable_read_owned(),
        };
        let got = got.map_err(told)?;
        held::keep(Held::Upgradable(in_time(got, deadline, libc::EBUSY)?));
        Ok(())
    })
}

/// Takes the lock for writing, waiting until the deadline for all living readers and writers to
/// leave. New readers wait meanwhile.
///
/// Errors: EOWNERDEAD: the caller has the lock, but its last writer died with it. EDEADLK: this
/// thread reads or writes already. Otherwise as `outlive_rwlock_read`.
///
/// If a process dies: as `outlive_rwlock_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_write(
    lock: *mut outlive_rwlock_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let handle = find::<Handle>(lock)?;
        let got = match moment(deadline) {
            Some(moment) => handle.0.write_owned_until(moment),
            None => handle.0.try_write_owned(),
        };
        let got = got.map_err(told)?;
        held::keep(Held::Writing(in_time(got, deadline, libc::EBUSY)?));
        Ok(())
    })
}

/// Unlocks what the thread took of the lock last.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_unlock(lock: *mut outlive_rwlock_t) -> c_int {
    entry(|| {
        drop(take(lock)?);
        Ok(())
    })
}

/// Declares after EOWNERDEAD that what the lock guards is whole again. Without this call, the next
/// locker, reader or writer, gets EOWNERDEAD again.
///
/// Errors: EPERM: this thread does not hold it as its writer. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_consistent(lock: *mut outlive_rwlock_t) -> c_int {
    entry(|| match take(lock)? {
        Held::Writing(mut guard) => {
            guard.mark_consistent();
            held::keep(Held::Writing(guard));
            Ok(())
        }
        reading => {
            held::keep(reading);
            Err(Failure::new(libc::EPERM, "only a writer declares what it guards whole"))
        }
    })
}

/// Marks the lock not recoverable, because what it guards cannot be made whole, and unlocks it. All
/// later lockers, readers and writers, get ENOTRECOVERABLE, until a thread calls
/// `outlive_rwlock_reset`. The caller has the lock as its writer.
///
/// Errors: EPERM: this thread does not hold it as its writer. EINVAL.
///
/// If a process dies during the call, the lock is not recoverable, or the next locker gets
/// EOWNERDEAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_mark_not_recoverable(lock: *mut outlive_rwlock_t) -> c_int {
    entry(|| match take(lock)? {
        Held::Writing(guard) => {
            guard.mark_not_recoverable();
            Ok(())
        }
        reading => {
            held::keep(reading);
            Err(Failure::new(libc::EPERM, "only a writer marks a lock not recoverable"))
        }
    })
}

/// Returns whether the calling thread holds it, its last owner died with it, and no holder has
/// declared it consistent since: the same as EOWNERDEAD, for code that does not see the return
/// code. False for what is no such lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_owner_died(lock: *const outlive_rwlock_t) -> bool {
    entry_or(false, || {
        let held = take(lock)?;
        let died = matches!(&held, Held::Writing(guard) if guard.owner_died());
        held::keep(held);
        Ok(died)
    })
}

/// Turns the caller from a reader into the writer once the other readers have left, waiting for
/// them until the deadline. No other thread writes in between, so what it read still holds.
///
/// Errors, with the lock still held for reading: EBUSY: a writer waits already, or another thread
/// is the upgradable reader, which never happens to one that took the lock by
/// `outlive_rwlock_upgradable_read`; or other threads read, with OUTLIVE_TRY: unlock and lock for
/// writing. EDEADLK: this thread reads a second time. ETIMEDOUT, OUTLIVE_DAMAGED. EPERM: this
/// thread does not read. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_upgrade(
    lock: *mut outlive_rwlock_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let moment = moment(deadline);
        let (kept, told) = match take(lock)? {
            Held::Reading(guard) => {
                let got = match moment {
                    Some(moment) => guard.upgrade_until(moment),
                    None => guard.try_upgrade(),
                };
                upgraded(got, Held::Reading)
            }
            Held::Upgradable(guard) => {
                let got = match moment {
                    Some(moment) => guard.upgrade_until(moment),
                    None => guard.try_upgrade(),
                };
                upgraded(got, Held::Upgradable)
            }
            writing => {
                let why = "the calling thread has the lock as its writer already";
                (writing, Err(Failure::new(libc::EPERM, why)))
            }
        };
        held::keep(kept);
        told
    })
}

/// Returns what the thread holds after an upgrade, and what C is told.
fn upgraded<G>(
    got: Result<OwnedWriteGuard<()>, UpgradeError<G>>,
    as_before: impl FnOnce(G) -> Held,
) -> (Held, Result<(), Failure>) {
    match got {
        Ok(guard) => (Held::Writing(guard), Ok(())),
        Err(refused) => {
            let reason = refused_upgrade(&refused);
            (as_before(refused.into_guard()), Err(reason))
        }
    }
}

/// Returns the code of a reader that could not become a writer.
fn refused_upgrade<G>(error: &UpgradeError<G>) -> Failure {
    let told = match error {
        UpgradeError::Failed(_, error) => return error.clone().into(),
        UpgradeError::TimedOut(_) => return Failure::timed_out(),
        _ => "another thread reads, or waits to write: give the lock back and take it as a writer",
    };
    Failure::new(libc::EBUSY, told)
}

/// Turns the caller from the writer, or the upgradable reader, into an ordinary reader; no other
/// thread writes in between.
///
/// Errors: EPERM: this thread holds it as an ordinary reader or not at all, or it got EOWNERDEAD
/// and has not declared it consistent: it holds the lock as before. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_downgrade(lock: *mut outlive_rwlock_t) -> c_int {
    entry(|| {
        let (kept, done) = match take(lock)? {
            Held::Writing(guard) => match guard.downgrade() {
                Ok(guard) => (Held::Reading(guard), true),
                Err(guard) => (Held::Writing(guard), false),
            },
            Held::Upgradable(guard) => match guard.downgrade() {
                Ok(guard) => (Held::Reading(guard), true),
                Err(guard) => (Held::Upgradable(guard), false),
            },
            reading => (reading, false),
        };
        downgraded(kept, done)
    })
}

/// Turns the caller from the writer into the upgradable reader (`outlive_rwlock_upgradable_read`);
/// no other thread writes in between.
///
/// Errors: EPERM: this thread does not hold it as its writer, or it got EOWNERDEAD and has not
/// declared it consistent: it holds the lock as before. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_downgrade_to_upgradable(
    lock: *mut outlive_rwlock_t,
) -> c_int {
    entry(|| {
        let (kept, done) = match take(lock)? {
            Held::Writing(guard) => match guard.downgrade_to_upgradable() {
                Ok(guard) => (Held::Upgradable(guard), true),
                Err(guard) => (Held::Writing(guard), false),
            },
            reading => (reading, false),
        };
        downgraded(kept, done)
    })
}

/// Keeps what the thread holds after a downgrade.
fn downgraded(kept: Held, done: bool) -> Result<(), Failure> {
    held::keep(kept);
    if done {
        return Ok(());
    }
    Err(Failure::new(libc::EPERM, "only a writer of what is consistent becomes a reader"))
}

/// Makes a lock usable again that was marked not recoverable (ENOTRECOVERABLE). Its users have
/// agreed on making what it guards whole before.
///
/// Errors: as `outlive_rwlock_write`, except EOWNERDEAD and ENOTRECOVERABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_reset(
    lock: *mut outlive_rwlock_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let handle = find::<Handle>(lock)?;
        let got = handle.0.write_to_reset_until(moment_or_past(deadline))?;
        got.ok_or_else(Failure::timed_out)?.mark_consistent();
        Ok(())
    })
}

/// Writes the present holders, one writer or any number of readers, to `infos`, as many as fit, the
/// upgradable reader first;
/// `*count` is how many there are.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_holders(
    lock: *const outlive_rwlock_t,
    infos: *mut outlive_peer_info_t,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the C caller passes room for `capacity` entries at `infos`, and a place for `count`.
    entry(|| unsafe { give_holders(&find::<Handle>(lock)?.0.holders(), infos, capacity, count) })
}
