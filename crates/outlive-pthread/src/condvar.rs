//! `pthread_cond_*`: a counter in the place of libc's condition variable, where that is
//! process-shared.
//!
//! libc's condition variable counts its waiters, and waits for them to leave: after a waiter is
//! killed, it waits for ever. This one neither names nor counts threads:
//!
//! | step | killed here |
//! | --- | --- |
//! | wait 1: read `count`, the mutex in hand | the mutex's next owner is told |
//! | wait 2: `sleeps` + 1 | one signal makes a system call that wakes no thread |
//! | wait 3: give the mutex back | |
//! | wait 4: sleep in the kernel as long as `count` is what was read, a second at most | the kernel takes the sleeper out of its queue |
//! | wait 5: take the mutex | |
//! | signal and broadcast 1: read `sleeps`; if it is `woken`, no thread sleeps | |
//! | signal 2: one system call that raises `count` *and* wakes all | before it, or after: there is no state between |
//! | signal 3: `woken` = what was read in 1 | one signal makes a system call that wakes no thread |
//!
//! A thread that signals after step 3 of a wait raises `count`, so step 4 does not sleep; or it
//! sees `woken` equal to `sleeps`, so another signaller has raised `count` after step 2. A signal
//! wakes all waiters: a single woken waiter could be killed, and the signal would be lost with it.
//! A wait returns after a second at the latest. So a signal that was never sent, because its sender
//! was killed before, delays the others and does not block them for ever. The same holds for a
//! thread that slept through exactly 2^32 signals. POSIX allows a wait to return without a signal.
//!
//! A thread that is cancelled leaves step 4 at once, takes the mutex in a handler (step 5), and
//! unwinds from there. To the others it looks like a thread that was killed in step 4.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{
    c_int, c_long, c_void, clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, timespec,
};

use crate::{mutex, real, settings};

/// In the first eight bytes, where glibc counts waits, by twos from 0.
const MARK: u64 = u64::from_le_bytes(*b"\xf6olcond\xf6");

/// What a condition variable of ours is, in libc's 48 bytes.
#[repr(C)]
struct Sequence {
    // Written when it is initialised and destroyed.
    mark: AtomicU64,
    /// The clock of its deadlines.
    clock: AtomicU32,
    // Written by signallers.
    count: AtomicU32,
    /// How many sleeps a signal has ended. A value that is too low is harmless; it is never too
    /// high.
    woken: AtomicU32,
    // Written by waiters.
    sleeps: AtomicU32,
}

const _: () = assert!(size_of::<Sequence>() <= size_of::<pthread_cond_t>());
const _: () = assert!(align_of::<Sequence>() <= align_of::<pthread_cond_t>());

/// Returns the condition variable, if it is ours.
///
/// # Safety
/// It is initialised.
#[inline]
unsafe fn ours<'a>(cond: *mut pthread_cond_t) -> Option<&'a Sequence> {
    // SAFETY: as large and as aligned as checked above; all atomics.
    let sequence = unsafe { &*cond.cast::<Sequence>() };
    (sequence.mark.load(Ordering::Relaxed) == MARK).then_some(sequence)
}

/// # Safety
/// What POSIX asks of the caller of `pthread_cond_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_init(
    cond: *mut pthread_cond_t,
    attributes: *const pthread_condattr_t,
) -> c_int {
    let (mut shared, mut clock) = (libc::PTHREAD_PROCESS_PRIVATE, libc::CLOCK_REALTIME);
    // SAFETY: the caller's promise; attributes are looked at only where there are some.
    unsafe {
        if !attributes.is_null() {
            libc::pthread_condattr_getpshared(attributes, &mut shared);
            libc::pthread_condattr_getclock(attributes, &mut clock);
        }
        if shared != libc::PTHREAD_PROCESS_SHARED || settings::is_off() {
            return real::COND_INIT.get()(cond, attributes);
        }
        cond.write_bytes(0, 1);
        let sequence = &*cond.cast::<Sequence>();
        sequence.clock.store(clock as u32, Ordering::Relaxed);
        // Relaxed: a thread that uses it has learned by other means that it is initialised.
        sequence.mark.store(MARK, Ordering::Relaxed);
    }
    0
}

/// # Safety
/// What POSIX asks of the caller of `pthread_cond_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_destroy(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { ours(cond) } {
        Some(sequence) => {
            // No waiter has to leave first: a woken one does not read this memory again.
            sequence.mark.store(0, Ordering::Relaxed);
            0
        }
        // SAFETY: the caller's promise.
        None => unsafe { real::COND_DESTROY.get()(cond) },
    }
}

/// # Safety
/// What POSIX asks of the caller of `pthread_cond_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match ours(cond) {
            Some(sequence) => wait(sequence, mutex, libc::CLOCK_MONOTONIC, None),
            None => mutex::settle_wait(mutex, real::COND_WAIT.get()(cond, mutex)),
        }
    }
}

/// # Safety
/// What POSIX asks of the caller of `pthread_cond_timedwait`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match ours(cond) {
            Some(sequence) => {
                let clock = sequence.clock.load(Ordering::Relaxed) as clockid_t;
                wait(sequence, mutex, clock, Some(*until))
            }
            None => mutex::settle_wait(mutex, real::COND_TIMEDWAIT.get()(cond, mutex, until)),
        }
    }
}

/// # Safety
/// What glibc asks of the caller of `pthread_cond_clockwait`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match (ours(cond), real::COND_CLOCKWAIT.find()) {
            (Some(sequence), _) => wait(sequence, mutex, clock, Some(*until)),
            (None, Some(clockwait)) => {
                mutex::settle_wait(mutex, clockwait(cond, mutex, clock, until))
            }
            (None, None) => libc::ENOSYS,
        }
    }
}

/// # Safety
/// What POSIX asks of the caller of `pthread_cond_signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match ours(cond) {
            Some(sequence) => signal_all(sequence),
            None => real::COND_SIGNAL.get()(cond),
        }
    }
}

/// # Safety
/// What POSIX asks of the caller of `pthread_cond_broadcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match ours(cond) {
            Some(sequence) => signal_all(sequence),
            None => real::COND_BROADCAST.get()(cond),
        }
    }
}

/// A wait, step by step as in the table. Without anything to drop: a thread that is cancelled
/// unwinds from here.
unsafe fn wait(
    sequence: &Sequence,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: Option<timespec>,
) -> c_int {
    if until.is_some_and(|until| !(0..1_000_000_000).contains(&until.tv_nsec))
        || (clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC)
    {
        return libc::EINVAL;
    }
    // SAFETY: the caller's promise; a thread that is cancelled has the mutex, here and below.
    unsafe {
        real::pthread_testcancel();
        // Acquire: before the next line. A thread that changed something under the mutex before
        // this one raises `count` after that, or has raised it. A thread that will change it takes
        // the mutex after this one has given it back, so its step of `count` is not in `seen`.
        let seen = sequence.count.load(Ordering::Acquire);
        // Release pairs with the signaller's Acquire: a signaller that reads a `sleeps` with this
        // sleep in it raises `count` after this thread has read it.
        sequence.sleeps.fetch_add(1, Ordering::AcqRel);
        let error = real::MUTEX_UNLOCK.get()(mutex);
        if error != 0 {
            return error;
        }
        let timed_out = sleep(&sequence.count, seen, clock, until, mutex);
        let error = mutex::pthread_mutex_lock(mutex);
        real::pthread_testcancel();
        match error {
            0 if timed_out => libc::ETIMEDOUT,
            other => other,
        }
    }
}

/// Sleeps as long as the word has the value seen; returns true when the deadline passed. A thread
/// that is cancelled meanwhile takes the mutex and unwinds from here.
///
/// # Safety
/// The thread may take the mutex, and there is nothing to drop in the shim's frames above.
unsafe fn sleep(
    word: &AtomicU32,
    seen: u32,
    clock: clockid_t,
    until: Option<timespec>,
    mutex: *mut pthread_mutex_t,
) -> bool {
    let recheck = settings::recheck().map(|span| after(libc::CLOCK_MONOTONIC, span));
    let (clock, end, is_deadline) = match (until, recheck) {
        (None, None) => (libc::CLOCK_MONOTONIC, None, false),
        (None, Some(recheck)) => (libc::CLOCK_MONOTONIC, Some(recheck), false),
        // Long past: the kernel would refuse it as no valid time.
        (Some(until), _) if until.tv_sec < 0 => return true,
        (Some(until), None) => (clock, Some(until), true),
        (Some(until), Some(recheck)) => {
            // By the deadline's own clock. If that is the time of day and is set meanwhile, the
            // recheck's clock is not affected.
            let soon = after(clock, settings::recheck().unwrap_or(0));
            if (until.tv_sec, until.tv_nsec) <= (soon.tv_sec, soon.tv_nsec) {
                (clock, Some(until), true)
            } else {
                (libc::CLOCK_MONOTONIC, Some(recheck), false)
            }
        }
    };
    let realtime = if clock == libc::CLOCK_REALTIME { libc::FUTEX_CLOCK_REALTIME } else { 0 };
    let end: *const timespec = end.as_ref().map_or(core::ptr::null(), |end| end);
    // SAFETY: errno is this thread's own; the word and the time are there. Not the private kind:
    // the word is shared.
    unsafe {
        let errno = *libc::__errno_location();
        let operation = libc::FUTEX_WAIT_BITSET | realtime;
        let slept = cancellable(word.as_ptr(), operation, seen, end, mutex);
        // EAGAIN and EINTR are ordinary: the caller checks its condition.
        let timed_out = slept == -1 && *libc::__errno_location() == libc::ETIMEDOUT;
        *libc::__errno_location() = errno;
        timed_out && is_deadline
    }
}

/// Makes the futex call; a thread that is cancelled before or meanwhile does not finish it, takes
/// the mutex and unwinds.
///
/// A thread that is cancelled is not woken from a futex: glibc sends it a signal only where it may
/// be cancelled at any instruction. So it may be, for the length of the system call, as in glibc's
/// own cancellation points. Nothing here needs a drop, and `real::syscall` may unwind.
#[inline(never)]
unsafe fn cancellable(
    word: *mut u32,
    operation: c_int,
    seen: u32,
    end: *const timespec,
    mutex: *mut pthread_mutex_t,
) -> c_long {
    let mut handler = real::CleanupBuffer::EMPTY;
    let mut kind = 0;
    let none = core::ptr::null::<u32>();
    // SAFETY: the buffer stays where it is until it is popped, or the thread unwinds past it; the
    // others are the caller's promise.
    unsafe {
        real::_pthread_cleanup_push(&raw mut handler, take_mutex, mutex.cast());
        // Ends the thread here if it was cancelled before.
        real::pthread_setcanceltype(real::CANCEL_ASYNCHRONOUS, &raw mut kind);
        let slept = real::syscall(libc::SYS_futex, word, operation, seen, end, none, u32::MAX);
        real::pthread_setcanceltype(kind, &raw mut kind);
        real::_pthread_cleanup_pop(&raw mut handler, 0);
        slept
    }
}

/// What a cancelled thread does before the program's own handlers run: these find the mutex taken.
unsafe extern "C" fn take_mutex(mutex: *mut c_void) {
    // SAFETY: a waiter's mutex, which the program keeps until the wait is over. An error has no way
    // to the program: the thread ends.
    unsafe { mutex::pthread_mutex_lock(mutex.cast()) };
}

/// Returns what that clock will show after so many nanoseconds.
pub(crate) fn after(clock: clockid_t, span: u64) -> timespec {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of our own.
    unsafe { libc::clock_gettime(clock, &mut now) };
    let nanos = now.tv_nsec as u64 + span;
    timespec {
        tv_sec: now.tv_sec + (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as c_long,
    }
}

/// Raises `count` and wakes all waiters, in one system call: the kernel does both or, if the caller
/// is killed before, neither.
fn signal_all(sequence: &Sequence) -> c_int {
    // Acquire: before all that follows; pairs with the waiter's Release.
    let sleeps = sequence.sleeps.load(Ordering::Acquire);
    if sequence.woken.load(Ordering::Relaxed) != sleeps {
        wake_all(&sequence.count);
        // Killed before: the next signal wakes no thread, in vain. Another signaller's older number
        // has the same effect.
        // Release: after the wake.
        sequence.woken.store(sleeps, Ordering::Release);
    }
    0
}

fn wake_all(count: &AtomicU32) {
    let word = count.as_ptr();
    // count += 1; the call may also wake sleepers of a second word, of which there is none.
    const ADD_ONE: u32 = (libc::FUTEX_OP_ADD as u32) << 28 | 1 << 12;
    // SAFETY: errno is this thread's own; the word is there, and is the first word and the second.
    unsafe {
        let errno = *libc::__errno_location();
        let done = libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE_OP,
            i32::MAX,
            0usize,
            word,
            ADD_ONE,
        );
        if done == -1 {
            // A kernel without FUTEX_WAKE_OP. Killed between the two: the next signal wakes the
            // waiters.
            count.fetch_add(1, Ordering::SeqCst);
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX);
        }
        *libc::__errno_location() = errno;
    }
}
