//! Sleeping, waking, timeouts, bit sets, `WAKE_OP`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use outlive::futex::{ALL, Change, Comparison, FutexError, WakeOp};
use outlive::{Deadline, futex};

use crate::thread::{Caller, PATIENCE, handle, word};

const SOON: Duration = Duration::from_millis(3);

#[test]
fn another_value_is_no_sleep() {
    let word = word(5);
    assert_eq!(futex::wait(word, 4, Deadline::NEVER), Err(FutexError::Again));
    assert_eq!(futex::wait_for(word, 4, PATIENCE), Err(FutexError::Again));
    assert_eq!(futex::wait_bitset(word, 4, 1, Deadline::NEVER), Err(FutexError::Again));
    // Compared before the clock is looked at.
    assert_eq!(futex::wait(word, 4, Deadline::after(Duration::ZERO)), Err(FutexError::Again));
}

#[test]
fn every_form_of_timeout_ends_a_sleep() {
    let word = word(0);
    let begun = Instant::now();
    assert_eq!(futex::wait_for(word, 0, SOON), Err(FutexError::TimedOut), "relative");
    assert_eq!(
        futex::wait(word, 0, Deadline::after(SOON)),
        Err(FutexError::TimedOut),
        "a span made a moment"
    );
    assert_eq!(
        futex::wait(word, 0, Deadline::at(Instant::now() + SOON)),
        Err(FutexError::TimedOut),
        "absolute, monotonic"
    );
    assert_eq!(
        futex::wait(word, 0, Deadline::at_time_of_day(SystemTime::now() + SOON)),
        Err(FutexError::TimedOut),
        "absolute, time of day"
    );
    assert_eq!(
        futex::wait_bitset(word, 0, 1, Deadline::at_time_of_day(SystemTime::now() + SOON)),
        Err(FutexError::TimedOut)
    );
    assert!(begun.elapsed() >= SOON * 4, "none ended early: {:?}", begun.elapsed());
    // What is over is over at once, on both clocks.
    assert_eq!(futex::wait(word, 0, Deadline::after(Duration::ZERO)), Err(FutexError::TimedOut));
    assert_eq!(
        futex::wait(word, 0, Deadline::at_time_of_day(SystemTime::UNIX_EPOCH)),
        Err(FutexError::TimedOut)
    );
}

#[test]
fn a_span_too_long_for_the_clock_is_for_ever() {
    let word = word(0);
    let caller = Caller::asleep(move || futex::wait_for(word, 0, Duration::MAX));
    assert_eq!(futex::wake(word, 1), Ok(1));
    assert_eq!(caller.result(), Ok(()));
}

#[test]
fn so_many_are_woken_as_asked_and_not_by_a_change_alone() {
    let word = word(0);
    let callers: Vec<_> = (0..4)
        .map(|_| Caller::asleep(move || futex::wait(word, 0, Deadline::after(PATIENCE))))
        .collect();
    word.store(1, Ordering::SeqCst);
    assert!(callers.iter().all(Caller::is_asleep), "a change wakes nobody");
    assert_eq!(futex::wake(word, 1), Ok(1));
    assert_eq!(futex::wake(word, 2), Ok(2));
    // A count that does not fit into the kernel's `int` means all waiters; it is no error.
    assert_eq!(futex::wake(word, u32::MAX), Ok(1));
    for caller in callers {
        assert_eq!(caller.result(), Ok(()));
    }
    assert_eq!(futex::wake(word, ALL), Ok(0));
}

#[test]
fn waking_none_wakes_one() {
    let word = word(0);
    let callers: Vec<_> = (0..2)
        .map(|_| Caller::asleep(move || futex::wait(word, 0, Deadline::after(PATIENCE))))
        .collect();
    assert_eq!(futex::wake(word, 0), Ok(1));
    assert_eq!(futex::wake(word, ALL), Ok(1));
    for caller in callers {
        assert_eq!(caller.result(), Ok(()));
    }
}

#[test]
fn a_wake_up_may_come_without_a_change() {
    let word = word(0);
    let caller = Caller::asleep(move || futex::wait(word, 0, Deadline::NEVER));
    assert_eq!(futex::wake(word, 1), Ok(1));
    assert_eq!(caller.result(), Ok(()), "woken, and the word is what it was");
}

#[test]
fn a_signal_handler_ends_a_sleep_unless_it_restarts() {
    handle(libc::SIGUSR1, 0);
    handle(libc::SIGUSR2, libc::SA_RESTART);
    let word = word(0);
    let caller = Caller::asleep(move || futex::wait(word, 0, Deadline::NEVER));
    caller.signal(libc::SIGUSR1);
    assert_eq!(caller.result(), Err(FutexError::Interrupted));
    // With SA_RESTART and without a deadline the kernel sleeps on.
    let caller = Caller::asleep(move || futex::wait(word, 0, Deadline::NEVER));
    caller.signal(libc::SIGUSR2);
    std::thread::sleep(SOON);
    assert_eq!(futex::wake(word, 1), Ok(1));
    assert_eq!(caller.result(), Ok(()));
    // With a deadline it never does, absolute or relative.
    let caller = Caller::asleep(move || futex::wait(word, 0, Deadline::after(PATIENCE)));
    caller.signal(libc::SIGUSR2);
    assert_eq!(caller.result(), Err(FutexError::Interrupted));
    let caller = Caller::asleep(move || futex::wait_for(word, 0, PATIENCE));
    caller.signal(libc::SIGUSR2);
    assert_eq!(caller.result(), Err(FutexError::Interrupted));
}

#[test]
fn bits_choose_among_the_sleepers() {
    let word = word(0);
    let first =
        Caller::asleep(move || futex::wait_bitset(word, 0, 0b01, Deadline::after(PATIENCE)));
    let second = Caller::asleep(move || futex::wait_bitset(word, 0, 0b10, Deadline::NEVER));
    let plain = Caller::asleep(move || futex::wait(word, 0, Deadline::NEVER));
    assert_eq!(futex::wake_bitset(word, ALL, 0b100), Ok(1), "wait has all bits");
    assert_eq!(plain.result(), Ok(()));
    assert_eq!(futex::wake_bitset(word, ALL, 0b10), Ok(1));
    assert_eq!(second.result(), Ok(()));
    assert_eq!(futex::wake(word, ALL), Ok(1), "wake has all bits, too");
    assert_eq!(first.result(), Ok(()));
    // No bits make no sense.
    assert_eq!(futex::wait_bitset(word, 0, 0, Deadline::after(SOON)), Err(FutexError::Invalid));
    assert_eq!(futex::wake_bitset(word, 1, 0), Err(FutexError::Invalid));
}

fn op(change: Change, when: Comparison, than: u16) -> WakeOp {
    WakeOp { change, when, than }
}

#[test]
fn wake_op_changes_the_second_word_in_each_way() {
    let (here, there) = (word(0), word(0));
    let after = |before: u32, change: Change| {
        there.store(before, Ordering::SeqCst);
        assert_eq!(futex::wake_op(here, 1, there, 1, op(change, Comparison::Eq, 0)), Ok(0));
        there.load(Ordering::SeqCst)
    };
    assert_eq!(after(7, Change::Set(3)), 3);
    assert_eq!(after(7, Change::Add(3)), 10);
    assert_eq!(after(0b0101, Change::Or(0b0011)), 0b0111);
    assert_eq!(after(0b0101, Change::AndNot(0b0011)), 0b0100);
    assert_eq!(after(0b0101, Change::Xor(0b0011)), 0b0110);
    assert_eq!(after(1, Change::SetBit(31)), 1 << 31 | 1);
    assert_eq!(after(u32::MAX, Change::ClearBit(31)), u32::MAX >> 1);
    // Twelve bits, read as signed.
    assert_eq!(after(7, Change::Set(0xfff)), u32::MAX);
    assert_eq!(after(7, Change::Add(0xfff)), 6);
    assert_eq!(after(7, Change::Set(0x7ff)), 0x7ff);
}

#[test]
fn wake_op_wakes_there_if_the_old_value_compares_so() {
    let cases = [
        (Comparison::Eq, [false, true, false]),
        (Comparison::Ne, [true, false, true]),
        (Comparison::Lt, [true, false, false]),
        (Comparison::Le, [true, true, false]),
        (Comparison::Gt, [false, false, true]),
        (Comparison::Ge, [false, true, true]),
    ];
    let (here, there) = (word(0), word(0));
    for (when, wanted) in cases {
        for (old, wakes) in [4, 5, 6].into_iter().zip(wanted) {
            there.store(old, Ordering::SeqCst);
            let near = Caller::asleep(move || futex::wait(here, 0, Deadline::after(PATIENCE)));
            let far = Caller::asleep(move || futex::wait(there, old, Deadline::after(PATIENCE)));
            // Compared is the value from before the change.
            let woken = futex::wake_op(here, 1, there, 1, op(Change::Set(5), when, 5));
            assert_eq!(woken, Ok(1 + u32::from(wakes)), "{old} {when:?} 5");
            assert_eq!(near.result(), Ok(()));
            assert_eq!(futex::wake(there, 1), Ok(u32::from(!wakes)));
            assert_eq!(far.result(), Ok(()));
        }
    }
    // Signed: a large old value is less than 0.
    there.store(u32::MAX, Ordering::SeqCst);
    let far = Caller::asleep(move || futex::wait(there, u32::MAX, Deadline::after(PATIENCE)));
    assert_eq!(futex::wake_op(here, 1, there, 1, op(Change::Set(0), Comparison::Lt, 0)), Ok(1));
    assert_eq!(far.result(), Ok(()));
}

#[test]
fn wake_op_refuses_what_its_twelve_bits_do_not_hold() {
    let (here, there) = (word(0), word(9));
    for change in [Change::Set(0x1000), Change::SetBit(32), Change::ClearBit(255)] {
        assert_eq!(
            futex::wake_op(here, 1, there, 1, op(change, Comparison::Eq, 0)),
            Err(FutexError::Invalid)
        );
    }
    let wide = op(Change::Set(0), Comparison::Eq, 0x1000);
    assert_eq!(futex::wake_op(here, 1, there, 1, wide), Err(FutexError::Invalid));
    assert_eq!(there.load(Ordering::SeqCst), 9, "nothing was changed");
}

#[test]
fn memory_that_may_not_be_used_is_a_fault() {
    // SAFETY: the mapping is fresh and no other code uses it; the kernel alone reaches the words.
    let page = unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let page = libc::mmap(core::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<std::sync::atomic::AtomicU32>()
    };
    assert_eq!(futex::wait(page, 0, Deadline::after(SOON)), Err(FutexError::Fault));
    assert_eq!(futex::wake(page, 1), Err(FutexError::Fault));
    assert_eq!(futex::trylock_pi(page), Err(FutexError::Fault));
    let set = op(Change::Set(0), Comparison::Eq, 0);
    assert_eq!(futex::wake_op(word(0), 1, page, 1, set), Err(FutexError::Fault));
}

#[test]
fn errors_tell_their_number_and_what_to_do() {
    let all = [
        (FutexError::Again, libc::EAGAIN),
        (FutexError::Interrupted, libc::EINTR),
        (FutexError::TimedOut, libc::ETIMEDOUT),
        (FutexError::Invalid, libc::EINVAL),
        (FutexError::Deadlock, libc::EDEADLK),
        (FutexError::NoSuchThread, libc::ESRCH),
        (FutexError::NotPermitted, libc::EPERM),
        (FutexError::Fault, libc::EFAULT),
        (FutexError::NoMemory, libc::ENOMEM),
        (FutexError::Absent, libc::ENOSYS),
        (FutexError::Other(libc::EACCES), libc::EACCES),
    ];
    for (error, number) in all {
        assert_eq!(error.errno(), number);
        assert!(error.to_string().contains(';'), "{error}: what happened; what to do");
        assert_eq!(std::io::Error::from(error).raw_os_error(), Some(number));
        assert_eq!(error.is_look_again(), [libc::EAGAIN, libc::EINTR].contains(&number));
    }
}
