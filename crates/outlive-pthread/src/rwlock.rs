//! `pthread_rwlock_*`: where it is process-shared, the lock is a key, and `holds` knows which
//! threads hold it.
//!
//! | word | meaning | a death here |
//! | --- | --- | --- |
//! | `mark` | ours | the last word that is written: killed before, nothing has been initialised |
//! | `born` | of which table, and so of which domain, the key is | |
//! | `key` | drawn when it was initialised | |
//!
//! None of them changes as long as the lock lives, so no death can spoil them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use libc::{c_int, clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};
use outlive::Deadline;

use crate::holds::{self, Refused, Want};
use crate::{log, real, settings};

/// In the first eight bytes, where glibc counts readers and writers.
const MARK: u64 = u64::from_le_bytes(*b"\xf6olrwlk\xf6");

/// What a reader-writer lock of ours is, in libc's 56 bytes.
#[repr(C)]
struct Lock {
    mark: AtomicU64,
    born: AtomicU64,
    key: AtomicU64,
}

const _: () = assert!(size_of::<Lock>() <= size_of::<pthread_rwlock_t>());
const _: () = assert!(align_of::<Lock>() <= align_of::<pthread_rwlock_t>());

/// How long to wait for it.
#[derive(Clone, Copy)]
enum Until {
    Not,
    Never,
    At(clockid_t, *const timespec),
}

/// Returns the lock, if it is ours.
///
/// # Safety
/// It is initialised.
#[inline]
unsafe fn ours<'a>(lock: *mut pthread_rwlock_t) -> Option<&'a Lock> {
    // SAFETY: as large and as aligned as checked above; all atomics.
    let lock = unsafe { &*lock.cast::<Lock>() };
    (lock.mark.load(Ordering::Relaxed) == MARK).then_some(lock)
}

/// # Safety
/// What POSIX asks of the caller of `pthread_rwlock_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_rwlock_init(
    lock: *mut pthread_rwlock_t,
    attributes: *const pthread_rwlockattr_t,
) -> c_int {
    let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
    // SAFETY: the caller's promise; attributes are looked at only where there are some.
    unsafe {
        if !attributes.is_null() {
            libc::pthread_rwlockattr_getpshared(attributes, &mut shared);
        }
        if shared != libc::PTHREAD_PROCESS_SHARED || settings::is_off() {
            return real::RWLOCK_INIT.get()(lock, attributes);
        }
    }
    let key = holds::random();
    let born = guarded(|| holds::table(key).map(|table| table.born).map_err(Refused::Outlive));
    match born {
        Ok(born) => {
            // SAFETY: the caller's promise.
            let place = unsafe {
                lock.write_bytes(0, 1);
                &*lock.cast::<Lock>()
            };
            place.born.store(born, Ordering::Relaxed);
            place.key.store(key, Ordering::Relaxed);
            // Relaxed: a thread that uses it has learned by other means that it is initialised.
            place.mark.store(MARK, Ordering::Relaxed);
            0
        }
        Err(why) => {
            log::line(
                "rwlock",
                lock as usize,
                format_args!("left to libc, not robust: {}", Why(&why)),
            );
            // SAFETY: the caller's promise.
            unsafe { real::RWLOCK_INIT.get()(lock, attributes) }
        }
    }
}

/// # Safety
/// What POSIX asks of the caller of `pthread_rwlock_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_rwlock_destroy(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { ours(lock) } {
        Some(lock) => {
            // There is nothing else of it.
            lock.mark.store(0, Ordering::Relaxed);
            0
        }
        // SAFETY: the caller's promise.
        None => unsafe { real::RWLOCK_DESTROY.get()(lock) },
    }
}

/// A function that takes it: `name` takes ours by `want` and `until`, and leaves libc's to `REAL`.
macro_rules! takes {
    ($($name:ident($($argument:ident: $type:ty),*) = $real:ident, $want:expr, $until:expr;)*) => {$(
        #[doc = concat!("# Safety\nWhat libc asks of the caller of `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(lock: *mut pthread_rwlock_t, $($argument: $type),*) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                match (ours(lock), real::$real.find()) {
                    (Some(ours), _) => take(ours, $want, $until),
                    (None, Some(real)) => real(lock, $($argument),*),
                    (None, None) => libc::ENOSYS,
                }
            }
        }
    )*};
}

takes! {
    pthread_rwlock_rdlock() = RWLOCK_RDLOCK, Want::Read, Until::Never;
    pthread_rwlock_tryrdlock() = RWLOCK_TRYRDLOCK, Want::Read, Until::Not;
    pthread_rwlock_timedrdlock(until: *const timespec) =
        RWLOCK_TIMEDRDLOCK, Want::Read, Until::At(libc::CLOCK_REALTIME, until);
    pthread_rwlock_clockrdlock(clock: clockid_t, until: *const timespec) =
        RWLOCK_CLOCKRDLOCK, Want::Read, Until::At(clock, until);
    pthread_rwlock_wrlock() = RWLOCK_WRLOCK, Want::Write, Until::Never;
    pthread_rwlock_trywrlock() = RWLOCK_TRYWRLOCK, Want::Write, Until::Not;
    pthread_rwlock_timedwrlock(until: *const timespec) =
        RWLOCK_TIMEDWRLOCK, Want::Write, Until::At(libc::CLOCK_REALTIME, until);
    pthread_rwlock_clockwrlock(clock: clockid_t, until: *const timespec) =
        RWLOCK_CLOCKWRLOCK, Want::Write, Until::At(clock, until);
}

/// # Safety
/// What POSIX asks of the caller of `pthread_rwlock_unlock`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { ours(lock) } {
        Some(lock) => match guarded(|| table(lock)?.give_back(lock.key.load(Ordering::Relaxed))) {
            Ok(()) => 0,
            Err(why) => error_of(lock, &why),
        },
        // SAFETY: the caller's promise.
        None => unsafe { real::RWLOCK_UNLOCK.get()(lock) },
    }
}

/// # Safety
/// A time in `until` is there.
unsafe fn take(lock: &Lock, want: Want, until: Until) -> c_int {
    // As libc, which looks at the time first, also where the lock is free.
    if let Until::At(clock, until) = until
        // SAFETY: the caller's promise.
        && !is_time(clock, unsafe { *until })
    {
        return libc::EINVAL;
    }
    let key = lock.key.load(Ordering::Relaxed);
    let strict = settings::is_strict();
    let want = if strict && want == Want::Read { Want::ReadOrRepair } else { want };
    let taken = guarded(|| {
        let table = table(lock)?;
        match until {
            Until::Not => table.take(key, want, None),
            Until::Never => table.take(key, want, Some(Deadline::NEVER)),
            // A call that need not wait reads no clock.
            Until::At(clock, until) => match table.take(key, want, None) {
                Err(Refused::WouldBlock) => {
                    // SAFETY: the caller's promise.
                    table.take(key, want, Some(deadline(clock, unsafe { *until })))
                }
                other => other,
            },
        }
    });
    match taken {
        Ok(None) => 0,
        Ok(Some(died)) => {
            let then =
                if strict { "EOWNERDEAD is returned" } else { "made consistent and given to us" };
            let (pid, tid) = (died.pid, died.tid);
            let what = format_args!("its writer, process {pid}, thread {tid}, died; {then}");
            log::line("rwlock", core::ptr::from_ref(lock) as usize, what);
            if strict { libc::EOWNERDEAD } else { 0 }
        }
        Err(why) => error_of(lock, &why),
    }
}

/// Returns the table of its key, if it is in this process's domain.
fn table(lock: &Lock) -> Result<&'static holds::Open, Refused> {
    let table = holds::table(lock.key.load(Ordering::Relaxed)).map_err(Refused::Outlive)?;
    if table.born == lock.born.load(Ordering::Relaxed) {
        Ok(table)
    } else {
        Err(Refused::Broken(
            "it was initialised in another domain (another user, another OUTLIVE_DOMAIN, or before that was removed)",
        ))
    }
}

/// Runs what allocates and may panic, with cancellation off.
fn guarded<R>(run: impl FnOnce() -> Result<R, Refused>) -> Result<R, Refused> {
    log::quietly(|| {
        catch_unwind(AssertUnwindSafe(run))
            .unwrap_or(Err(Refused::Broken("a panic inside the shim; please report it")))
    })
}

fn is_time(clock: clockid_t, until: timespec) -> bool {
    (clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_MONOTONIC)
        && (0..1_000_000_000).contains(&until.tv_nsec)
}

/// Returns the deadline at a time that `is_time`.
fn deadline(clock: clockid_t, until: timespec) -> Deadline {
    let since = Duration::new(until.tv_sec.try_into().unwrap_or(0), until.tv_nsec as u32);
    if clock == libc::CLOCK_REALTIME {
        return SystemTime::UNIX_EPOCH
            .checked_add(since)
            .map_or(Deadline::NEVER, Deadline::at_time_of_day);
    }
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of our own.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    Deadline::after(since.saturating_sub(Duration::new(now.tv_sec as u64, now.tv_nsec as u32)))
}

fn error_of(lock: &Lock, why: &Refused) -> c_int {
    let error = match why {
        Refused::WouldBlock => return libc::EBUSY,
        Refused::TimedOut => return libc::ETIMEDOUT,
        Refused::Deadlock => return libc::EDEADLK,
        Refused::NotHeld => return libc::EPERM,
        Refused::Full => libc::EAGAIN,
        Refused::Broken(_) => libc::EINVAL,
        Refused::Outlive(_) => libc::ENOMEM,
    };
    log::refuse("rwlock", core::ptr::from_ref(lock) as usize, error, format_args!("{}", Why(why)))
}

/// The reason in words.
struct Why<'a>(&'a Refused);

impl std::fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Refused::Full => f.write_str("2048 threads hold locks of its table already"),
            Refused::Broken(why) => f.write_str(why),
            Refused::Outlive(error) => error.fmt(f),
            _ => f.write_str("it cannot be had now"),
        }
    }
}
