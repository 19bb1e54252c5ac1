//! `pthread_mutex_*`: libc's robust mutex in the place of its plain one.
//!
//! A process-shared mutex that is initialised without robustness is made robust, and marked:
//! a program that gets `EOWNERDEAD` for a marked one never asked for it. A mutex for which the
//! program itself asked for robustness has no mark, and its caller gets what libc says; Outlive's
//! own tokens are such mutexes.
//!
//! The mark lies in a word that glibc uses in plain mutexes only (how often to spin, and
//! transactions), and holds the thread that locked it last:
//!
//! | mark | meaning | died here |
//! | --- | --- | --- |
//! | without our bits | not ours | libc's business |
//! | bits, 0 | ours, no thread has had it | |
//! | bits, thread | ours, this thread had it last, or has it | libc marks the lock; the next owner reads the name here and is told, or repairs |
//!
//! Only the holder writes it. If the holder is killed between libc's lock and this note, the mark
//! names the holder before: "last known".
//!
//! libc gives a mutex back in two steps: it stores 0, and then it wakes one sleeper. A process that
//! is stopped between the two leaves the sleepers beside a free mutex; so does a sleeper that is
//! stopped with the notice of a death. So a thread that sleeps for a marked mutex looks at it after
//! each `settings::recheck`. A mutex with priority inheritance needs no look: the kernel itself
//! hands it over.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};

use crate::condvar::after;
use crate::{log, real, settings};

/// glibc's words: `int lock; unsigned count; int owner; unsigned nusers; int kind; spins, elision`.
/// The same on x86-64 and aarch64; tests/mutexes.rs sees whether they still are what they were.
const LOCK: usize = 0;
const OWNER: usize = 8;
const KIND: usize = 16;
const MARK: usize = 20;
/// In the mark: ours, for no count of spins or aborted transactions comes near it. Thread ids stay
/// below 2^22.
const BITS: u32 = 0x2d7 << 22;
const THREAD: u32 = (1 << 22) - 1;
/// In the lock's word, beside the kernel's two flags: the thread that holds it.
const HOLDER: u32 = 0x3fff_ffff;
/// In the kind: with priority inheritance.
const INHERITS: u32 = 32;

#[cfg(target_arch = "x86_64")]
const _: () = assert!(size_of::<pthread_mutex_t>() == 40);
#[cfg(target_arch = "aarch64")]
const _: () = assert!(size_of::<pthread_mutex_t>() == 48);

/// Returns a word of the mutex.
///
/// # Safety
/// The mutex is initialised, and `at` one of the offsets above.
#[inline]
unsafe fn word<'a>(mutex: *mut pthread_mutex_t, at: usize) -> &'a AtomicU32 {
    // SAFETY: inside the mutex, and aligned as it is.
    unsafe { &*mutex.byte_add(at).cast::<AtomicU32>() }
}

/// # Safety
/// What POSIX asks of the caller of `pthread_mutex_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_init(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    let init = real::MUTEX_INIT.get();
    // SAFETY: the caller's promise; attributes are looked at only where there are some.
    unsafe {
        if attributes.is_null() || !is_plain_and_shared(attributes) || settings::is_off() {
            return init(mutex, attributes);
        }
        let error = init_robust(mutex, attributes);
        if error == 0 {
            word(mutex, MARK).store(BITS, Ordering::Relaxed);
            return 0;
        }
        // Priority protection, for one, does not go together with it.
        log::line(
            "mutex",
            mutex as usize,
            format_args!("left to libc: it cannot be made robust (error {error})"),
        );
        init(mutex, attributes)
    }
}

unsafe fn is_plain_and_shared(attributes: *const pthread_mutexattr_t) -> bool {
    let (mut shared, mut robust) = (0, 0);
    // SAFETY: the attributes are initialised, as the caller promised.
    unsafe {
        libc::pthread_mutexattr_getpshared(attributes, &mut shared) == 0
            && shared == libc::PTHREAD_PROCESS_SHARED
            && real::pthread_mutexattr_getrobust(attributes, &mut robust) == 0
            && robust == libc::PTHREAD_MUTEX_STALLED
    }
}

/// As asked for, and robust.
unsafe fn init_robust(mutex: *mut pthread_mutex_t, asked: *const pthread_mutexattr_t) -> c_int {
    let mut ours = core::mem::MaybeUninit::<pthread_mutexattr_t>::uninit();
    let (mut kind, mut protocol) = (0, 0);
    // SAFETY: `asked` is initialised, as the caller promised; `ours` is, by its first call.
    unsafe {
        let ours = ours.as_mut_ptr();
        libc::pthread_mutexattr_init(ours);
        let mut error = real::pthread_mutexattr_gettype(asked, &mut kind);
        let mut then = |next: &mut dyn FnMut() -> c_int| {
            if error == 0 {
                error = next();
            }
        };
        then(&mut || libc::pthread_mutexattr_settype(ours, kind));
        then(&mut || libc::pthread_mutexattr_getprotocol(asked, &mut protocol));
        then(&mut || libc::pthread_mutexattr_setprotocol(ours, protocol));
        then(&mut || libc::pthread_mutexattr_setpshared(ours, libc::PTHREAD_PROCESS_SHARED));
        then(&mut || libc::pthread_mutexattr_setrobust(ours, libc::PTHREAD_MUTEX_ROBUST));
        then(&mut || real::MUTEX_INIT.get()(mutex, ours));
        libc::pthread_mutexattr_destroy(ours);
        error
    }
}

/// libc refuses to destroy a plain mutex that a thread holds, and destroys a robust one. A program
/// that has asked for a plain one gets what libc says of that.
///
/// # Safety
/// What POSIX asks of the caller of `pthread_mutex_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        // The holder's thread id, which the kernel removes when that thread dies: what a dead
        // thread holds may be destroyed. Relaxed: a thread that destroys a mutex which others may
        // still lock gets no sound answer from libc either.
        if is_marked(mutex) && word(mutex, LOCK).load(Ordering::Relaxed) & HOLDER != 0 {
            return libc::EBUSY;
        }
        real::MUTEX_DESTROY.get()(mutex)
    }
}

/// # Safety
/// What POSIX asks of the caller of `pthread_mutex_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        settle(
            mutex,
            if looks(mutex) { lock_looking(mutex, None) } else { real::MUTEX_LOCK.get()(mutex) },
        )
    }
}

/// # Safety
/// What POSIX asks of the caller of `pthread_mutex_trylock`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match real::MUTEX_TRYLOCK.get()(mutex) {
            // A robust mutex that checks errors says so of one that this thread holds; a plain one
            // says what POSIX asks for. Both kinds with priority inheritance say EDEADLK.
            libc::EDEADLK if looks(mutex) => libc::EBUSY,
            got => settle(mutex, got),
        }
    }
}

/// # Safety
/// What POSIX asks of the caller of `pthread_mutex_timedlock`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let got = if looks(mutex) {
            lock_looking(mutex, Some((libc::CLOCK_REALTIME, until)))
        } else {
            real::MUTEX_TIMEDLOCK.get()(mutex, until)
        };
        settle(mutex, got)
    }
}

/// # Safety
/// What glibc asks of the caller of `pthread_mutex_clocklock`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    match real::MUTEX_CLOCKLOCK.find() {
        // SAFETY: the caller's promise.
        Some(clocklock) => unsafe {
            // libc looks at the clock first, also where the mutex is free.
            let is_clock = clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_MONOTONIC;
            let got = if is_clock && looks(mutex) {
                lock_looking(mutex, Some((clock, until)))
            } else {
                clocklock(mutex, clock, until)
            };
            settle(mutex, got)
        },
        None => libc::ENOSYS,
    }
}

/// Returns whether a thread that sleeps for it looks at it now and then: see the file's head.
#[inline]
unsafe fn looks(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: the caller's promise to POSIX: the mutex is initialised. Relaxed: its kind is what it
    // was when it was initialised.
    unsafe { is_marked(mutex) && word(mutex, KIND).load(Ordering::Relaxed) & INHERITS == 0 }
}

/// Returns whether the shim made it robust without the program's knowledge.
#[inline]
unsafe fn is_marked(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: the caller's promise to POSIX: the mutex is initialised. Relaxed: one that is marked
    // is so from then on.
    unsafe { word(mutex, MARK).load(Ordering::Relaxed) & !THREAD == BITS }
}

/// Locks, if there is one until a deadline, and looks at the mutex now and then meanwhile.
#[inline]
unsafe fn lock_looking(
    mutex: *mut pthread_mutex_t,
    until: Option<(clockid_t, *const timespec)>,
) -> c_int {
    // SAFETY: the caller's promise to POSIX.
    unsafe {
        match real::MUTEX_TRYLOCK.get()(mutex) {
            // Also of one that this thread has itself: libc's lock knows what its type says to
            // that.
            libc::EBUSY => lock_looking_slow(mutex, until),
            got => got,
        }
    }
}

#[cold]
unsafe fn lock_looking_slow(
    mutex: *mut pthread_mutex_t,
    until: Option<(clockid_t, *const timespec)>,
) -> c_int {
    // SAFETY: the caller's promise to POSIX.
    unsafe {
        // As libc does it, without a look.
        let lock = || match (until, real::MUTEX_CLOCKLOCK.find()) {
            (None, _) => real::MUTEX_LOCK.get()(mutex),
            (Some((clock, until)), Some(clocklock)) => clocklock(mutex, clock, until),
            (Some((_, until)), None) => real::MUTEX_TIMEDLOCK.get()(mutex, until),
        };
        let (Some(span), Some(clocklock)) = (settings::recheck(), real::MUTEX_CLOCKLOCK.find())
        else {
            return lock();
        };
        loop {
            if let Some((clock, until)) = until {
                let soon = after(clock, span);
                let until = *until;
                // The last slice; or no time that there is, which libc tells.
                if !(0..1_000_000_000).contains(&until.tv_nsec)
                    || (until.tv_sec, until.tv_nsec) <= (soon.tv_sec, soon.tv_nsec)
                {
                    return lock();
                }
            }
            // Not on the clock of the deadline, which may be set back meanwhile.
            match clocklock(mutex, libc::CLOCK_MONOTONIC, &after(libc::CLOCK_MONOTONIC, span)) {
                libc::ETIMEDOUT => {}
                got => return got,
            }
        }
    }
}

/// What the caller of a locking function gets, of what libc said.
#[inline]
unsafe fn settle(mutex: *mut pthread_mutex_t, got: c_int) -> c_int {
    // SAFETY: libc has just looked at it, so it is a mutex.
    unsafe {
        match got {
            0 => {
                note(mutex);
                0
            }
            libc::EOWNERDEAD | libc::ENOTRECOVERABLE => settle_slow(mutex, got),
            other => other,
        }
    }
}

/// The same for a wait on a condition variable: the mutex is ours also when the deadline passed.
///
/// # Safety
/// `got` is what libc's wait returned for this mutex.
pub(crate) unsafe fn settle_wait(mutex: *mut pthread_mutex_t, got: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if got == libc::ETIMEDOUT {
            note(mutex);
        }
        settle(mutex, got)
    }
}

/// Notes in a marked mutex who has it: us.
#[inline]
unsafe fn note(mutex: *mut pthread_mutex_t) {
    // SAFETY: the callers have the mutex, which the program keeps valid while a call uses it.
    unsafe {
        let mark = word(mutex, MARK);
        if mark.load(Ordering::Relaxed) & !THREAD == BITS {
            // Died just before: the mark names the holder before. Relaxed: a thread that reads it
            // has the lock.
            mark.store(
                BITS | word(mutex, OWNER).load(Ordering::Relaxed) & THREAD,
                Ordering::Relaxed,
            );
        }
    }
}

/// Handles what libc reports of a lock whose owner died: this thread has the lock now; or the lock
/// is not recoverable, by an unlock without `pthread_mutex_consistent`, because these mutexes are
/// libc's and keep libc's meaning.
#[cold]
unsafe fn settle_slow(mutex: *mut pthread_mutex_t, got: c_int) -> c_int {
    // SAFETY: the caller has the mutex, which the program keeps valid while a call uses it.
    let mark = unsafe { word(mutex, MARK) };
    let before = mark.load(Ordering::Relaxed);
    if before & !THREAD != BITS {
        // The program asked for robustness by itself.
        return got;
    }
    if got == libc::ENOTRECOVERABLE {
        let why = format_args!(
            "a thread was told of a death and gave it back without repair (ENOTRECOVERABLE)"
        );
        return log::refuse("mutex", mutex as usize, got, why);
    }
    let strict = settings::is_strict();
    // SAFETY: this thread holds it, and libc has said EOWNERDEAD for it.
    if !strict && unsafe { libc::pthread_mutex_consistent(mutex) } != 0 {
        return got;
    }
    // Died between the two: libc marks the lock for this thread, and the next owner reports the
    // predecessor again. SAFETY: no memory is passed.
    let me = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    mark.store(BITS | me & THREAD, Ordering::Relaxed);
    let then = if strict { "EOWNERDEAD is returned" } else { "made consistent and given to us" };
    let thread = before & THREAD;
    if thread == 0 || thread == me {
        log::line("mutex", mutex as usize, format_args!("its holder died; {then}"));
    } else {
        log::line(
            "mutex",
            mutex as usize,
            format_args!("its last known holder, thread {thread}, died; {then}"),
        );
    }
    if strict { got } else { 0 }
}
