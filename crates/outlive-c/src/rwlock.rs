//! Reader-writer locks: by name, or inside a record.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use outlive::Kind;
use outlive::sync::{EmbeddedRwLock, LockError, ReadGuard, RwLock, WriteGuard};

use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, outlive_deadline_t};
use crate::domain::{give_holders, outlive_domain_t, outlive_peer_info_t};
use crate::mutex::open_lock;
use crate::place::{self, Primitive, find};

/// A reader-writer lock in shared memory: 4,160 bytes of a record (readers have cache lines of their own), or a named one. All
/// zeroes are an unlocked one. It is used by its address, like a `pthread_rwlock_t`, and never copied.
#[repr(C, align(64))]
pub struct outlive_rwlock_t {
    words: [u64; 520],
}

const _: () = assert!(size_of::<outlive_rwlock_t>() == size_of::<EmbeddedRwLock<()>>());

struct Handle {
    lock: RwLock<()>,
    /// Of all handles ever, so that what a thread holds of a closed one is not taken for another's at the same address.
    number: u64,
}

impl Primitive for Handle {
    type Words = outlive_rwlock_t;
    type Field = EmbeddedRwLock<()>;
    const KIND: Kind = Kind::RwLock;
    const NUMBER: usize = 5;
    fn new(lock: RwLock<()>) -> Handle {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Handle { lock, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

/// How a thread holds a lock. The handle lives as long as its file is open, and nothing is found of a closed one.
enum Held {
    Reading(ReadGuard<'static, ()>),
    Writing(WriteGuard<'static, ()>),
}

/// What the thread holds, by handle's number; the last one taken is the last.
struct HeldByThread(Vec<(u64, Held)>);

impl Drop for HeldByThread {
    /// A thread that ends with a lock in hand has died with it, as far as others are concerned.
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(_, held)| core::mem::forget(held));
    }
}

thread_local! {
    static HELD: RefCell<HeldByThread> = const { RefCell::new(HeldByThread(Vec::new())) };
}

fn held<R>(act: impl FnOnce(&mut Vec<(u64, Held)>) -> R) -> R {
    HELD.with(|list| act(&mut list.borrow_mut().0))
}

impl Handle {
    fn keep(&self, guard: Held) {
        held(|list| list.push((self.number, guard)));
    }

    fn take(&self) -> Result<Held, Failure> {
        held(|list| {
            let at = list.iter().rposition(|(number, _)| *number == self.number)?;
            Some(list.remove(at).1)
        })
        .ok_or_else(|| {
            Failure::new(libc::EPERM, "the calling thread does not hold the lock, or took it by another opening")
        })
    }

    fn told(&self, error: LockError<WriteGuard<'static, ()>>) -> Failure {
        match error {
            LockError::OwnerDied(guard) => {
                self.keep(Held::Writing(guard));
                LockError::OwnerDied(()).into()
            }
            other => other.into(),
        }
    }
}

/// Opens the lock of that name, or makes it, with `size` bytes of value behind it, aligned to 64: `outlive_rwlock_value`.
/// `initial`: the value if it is made; NULL: zeroes. Rust's `RwLock<T>` with a T of as many bytes is the same.
///
/// Owner: `*lock` is in shared memory, mapped until `outlive_rwlock_close`.
///
/// Errors: as `outlive_mutex_open`.
///
/// If a process dies: while it makes the lock, nothing is left of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    size: usize,
    initial: *const c_void,
    lock: *mut *mut outlive_rwlock_t,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| unsafe { open_lock(domain, name, Kind::RwLock, size, initial, lock) })
}

/// The value behind a named lock, to be read by readers and written by the writer only. NULL: it has none, or is inside a
/// record.
///
/// Owner: shared memory, mapped until `outlive_rwlock_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_value(lock: *const outlive_rwlock_t) -> *mut c_void {
    entry_or(core::ptr::null_mut(), || {
        Ok(place::value(lock.cast(), Kind::RwLock).map_or(core::ptr::null_mut(), <*mut u8>::cast))
    })
}

/// Closes this opening of a named lock. Nobody of this process may hold it or wait for it by this address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_close(lock: *mut outlive_rwlock_t) {
    entry(|| place::close(lock.cast(), Kind::RwLock));
}

/// Takes the lock to read, waiting until the deadline as long as a living writer holds it or waits for it. It belongs to the
/// calling thread, which may read several times at once unless a writer waits.
///
/// Errors: EOWNERDEAD: a writer died, and you have the lock alone, *as its writer*, to repair what it left:
/// `outlive_rwlock_consistent`, then unlock or `outlive_rwlock_downgrade`. ENOTRECOVERABLE: it was given up. EDEADLK: this
/// thread writes, or reads already while a writer waits for that. ETIMEDOUT; EBUSY with OUTLIVE_TRY. EINVAL: no such lock that
/// this process has open. OUTLIVE_DAMAGED, EUSERS, ENOSPC.
///
/// If a process dies: reading, nobody is told, writers go on at once. Writing, exactly one is told, the next to come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_read(lock: *mut outlive_rwlock_t, deadline: outlive_deadline_t) -> c_int {
    entry(|| {
        let handle = find::<Handle>(lock)?;
        let got = match moment(deadline) {
            Some(moment) => handle.lock.read_until(moment),
            None => handle.lock.try_read(),
        };
        handle.keep(Held::Reading(got.map_err(|error| handle.told(error))?));
        Ok(())
    })
}

/// Takes the lock to write, waiting until the deadline until no living thread reads or writes. New readers wait meanwhile.
///
/// Errors: EOWNERDEAD: the lock is yours, but its last writer died with it. EDEADLK: this thread reads or writes already.
/// Otherwise as `outlive_rwlock_read`.
///
/// If a process dies: as `outlive_rwlock_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_write(lock: *mut outlive_rwlock_t, deadline: outlive_deadline_t) -> c_int {
    entry(|| {
        let handle = find::<Handle>(lock)?;
        let got = match moment(deadline) {
            Some(moment) => handle.lock.write_until(moment),
            None => handle.lock.try_write(),
        };
        handle.keep(Held::Writing(got.map_err(|error| handle.told(error))?));
        Ok(())
    })
}

/// Gives the lock back, what the thread took of it last.
///
/// Errors: EPERM: this thread does not hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_unlock(lock: *mut outlive_rwlock_t) -> c_int {
    entry(|| {
        drop(find::<Handle>(lock)?.take()?);
        Ok(())
    })
}

/// Declares that what the lock guards is whole again, after EOWNERDEAD. Unlocked without, it is given up for good
/// (`outlive_rwlock_reset`).
///
/// Errors: EPERM: this thread does not hold it as its writer. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_consistent(lock: *mut outlive_rwlock_t) -> c_int {
    entry(|| {
        let handle = find::<Handle>(lock)?;
        match handle.take()? {
            Held::Writing(mut guard) => {
                guard.mark_consistent();
                handle.keep(Held::Writing(guard));
                Ok(())
            }
            reading => {
                handle.keep(reading);
                Err(Failure::new(libc::EPERM, "only a writer declares what it guards whole"))
            }
        }
    })
}

/// From reader to writer, once the other readers have left, waiting for them until the deadline. Nobody writes in between, so
/// what was read still holds.
///
/// Errors: with the lock held to read as before: EBUSY: a writer waits already, or others read with OUTLIVE_TRY: give the lock
/// back and take it as a writer. EDEADLK: this thread reads a second time. ETIMEDOUT, OUTLIVE_DAMAGED. EPERM: this thread does
/// not read. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_upgrade(lock: *mut outlive_rwlock_t, deadline: outlive_deadline_t) -> c_int {
    entry(|| {
        let handle = find::<Handle>(lock)?;
        let guard = match handle.take()? {
            Held::Reading(guard) => guard,
            writing => {
                handle.keep(writing);
                return Err(Failure::new(libc::EPERM, "the calling thread has the lock as its writer already"));
            }
        };
        let got = match moment(deadline) {
            Some(moment) => guard.upgrade_until(moment),
            None => guard.try_upgrade(),
        };
        match got {
            Ok(guard) => {
                handle.keep(Held::Writing(guard));
                Ok(())
            }
            Err(refused) => {
                let reason = Failure::from(refused.reason);
                handle.keep(Held::Reading(refused.guard));
                Err(reason)
            }
        }
    })
}

/// From writer to reader; nobody writes in between.
///
/// Errors: EPERM: this thread does not hold it as its writer, or it came with EOWNERDEAD and nothing was declared consistent:
/// held as before. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_downgrade(lock: *mut outlive_rwlock_t) -> c_int {
    entry(|| {
        let handle = find::<Handle>(lock)?;
        let refused = match handle.take()? {
            Held::Writing(guard) => match guard.downgrade() {
                Ok(guard) => {
                    handle.keep(Held::Reading(guard));
                    return Ok(());
                }
                Err(guard) => Held::Writing(guard),
            },
            reading => reading,
        };
        handle.keep(refused);
        Err(Failure::new(libc::EPERM, "only a writer of what is consistent becomes a reader"))
    })
}

/// Makes a lock that was given up (ENOTRECOVERABLE) usable again. What it guards was made whole before, by an agreement of its
/// users.
///
/// Errors: as `outlive_rwlock_write`, but for EOWNERDEAD and ENOTRECOVERABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_reset(lock: *mut outlive_rwlock_t, deadline: outlive_deadline_t) -> c_int {
    entry(|| Ok(find::<Handle>(lock)?.lock.reset((), crate::deadline::moment_or_past(deadline))?))
}

/// Who holds it just now: one writer, or any number of readers. As many as fit into `infos`; `*count` says how many there are.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_rwlock_holders(
    lock: *const outlive_rwlock_t,
    infos: *mut outlive_peer_info_t,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| unsafe { give_holders(&find::<Handle>(lock)?.lock.holders(), infos, capacity, count) })
}
