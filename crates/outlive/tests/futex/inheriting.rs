//! The PI calls, where the kernel decides by the word.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use outlive::futex::{FutexError, OWNER_DIED, TID_MASK, WAITERS};
use outlive::{Deadline, futex};

use crate::thread::{Caller, PATIENCE, wait_until, word};

const SOON: Duration = Duration::from_millis(3);

#[test]
fn the_word_names_its_owner() {
    let word = word(0);
    futex::lock_pi(word, Deadline::NEVER).expect("free");
    // A word that the kernel set itself may say that a thread waits.
    assert_eq!(word.load(Ordering::SeqCst) & TID_MASK, futex::thread_id());
    assert_eq!(futex::lock_pi(word, Deadline::after(SOON)), Err(FutexError::Deadlock));
    assert_eq!(futex::trylock_pi(word), Err(FutexError::Deadlock));
    futex::unlock_pi(word).expect("ours");
    assert_eq!(word.load(Ordering::SeqCst), 0);
    assert_eq!(futex::unlock_pi(word), Err(FutexError::NotPermitted), "nobody's");
}

#[test]
fn another_s_lock_is_waited_for_and_handed_over() {
    let word = word(0);
    futex::lock_pi(word, Deadline::NEVER).expect("free");
    let other = Caller::start(move || {
        let tried = futex::trylock_pi(word);
        let stolen = futex::unlock_pi(word);
        let late = [
            futex::lock_pi(word, Deadline::after(SOON)),
            futex::lock_pi(word, Deadline::at_time_of_day(SystemTime::now() + SOON)),
        ];
        (tried, stolen, late)
    });
    let (tried, stolen, late) = other.result();
    assert_eq!(tried, Err(FutexError::Again));
    assert_eq!(stolen, Err(FutexError::NotPermitted));
    // A monotonic deadline wants Linux 5.14.
    assert!(matches!(late[0], Err(FutexError::TimedOut | FutexError::Absent)), "{late:?}");
    assert_eq!(late[1], Err(FutexError::TimedOut));
    let waiter = Caller::asleep(move || {
        futex::lock_pi(word, Deadline::NEVER).and_then(|()| futex::unlock_pi(word))
    });
    assert_ne!(word.load(Ordering::SeqCst) & WAITERS, 0, "so that the owner calls the kernel");
    futex::unlock_pi(word).expect("ours");
    assert_eq!(waiter.result(), Ok(()));
    assert_eq!(word.load(Ordering::SeqCst), 0);
}

#[test]
fn a_signal_does_not_end_the_wait() {
    crate::thread::handle(libc::SIGALRM, 0);
    let word = word(0);
    futex::lock_pi(word, Deadline::NEVER).expect("free");
    let waiter = Caller::asleep(move || {
        futex::lock_pi(word, Deadline::NEVER).and_then(|()| futex::unlock_pi(word))
    });
    waiter.signal(libc::SIGALRM);
    std::thread::sleep(SOON);
    futex::unlock_pi(word).expect("ours");
    assert_eq!(waiter.result(), Ok(()));
}

#[test]
fn a_number_that_is_nobody_s() {
    // Above every thread number that Linux gives out.
    assert_eq!(
        futex::lock_pi(word(0x0fff_fff0), Deadline::after(SOON)),
        Err(FutexError::NoSuchThread)
    );
    assert_eq!(futex::trylock_pi(word(0x0fff_fff0)), Err(FutexError::NoSuchThread));
}

#[test]
fn a_kernel_thread_s_number_is_refused() {
    // kthreadd, in the first pid namespace.
    let name = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if name.trim() != "kthreadd" {
        crate::skip("no kernel threads to be seen from this pid namespace");
        return;
    }
    assert_eq!(futex::lock_pi(word(2), Deadline::after(SOON)), Err(FutexError::NotPermitted));
}

#[test]
fn the_mark_of_a_death_stays_for_the_next_owner() {
    let word = word(OWNER_DIED);
    futex::lock_pi(word, Deadline::after(SOON)).expect("nobody's");
    assert_eq!(
        word.load(Ordering::SeqCst) & (OWNER_DIED | TID_MASK),
        OWNER_DIED | futex::thread_id()
    );
    // The kernel leaves the bit to us; unlocking clears it with the rest.
    futex::unlock_pi(word).expect("ours");
    assert_eq!(word.load(Ordering::SeqCst), 0);
}

/// Also without a robust list.
#[test]
fn an_owner_that_ends_hands_over_to_a_sleeper_and_leaves_the_mark() {
    let word = word(0);
    let (end, told_to_end) = std::sync::mpsc::channel::<()>();
    let owner = Caller::start(move || {
        futex::lock_pi(word, Deadline::NEVER).expect("free");
        told_to_end.recv().ok();
    });
    wait_until("it has the lock", || word.load(Ordering::SeqCst) & TID_MASK == owner.tid());
    let waiter = Caller::asleep(move || {
        let got = futex::lock_pi(word, Deadline::after(PATIENCE));
        (got, word.load(Ordering::SeqCst), futex::thread_id())
    });
    end.send(()).expect("it waits");
    owner.result();
    let (got, value, tid) = waiter.result();
    assert_eq!(got, Ok(()));
    assert_eq!(value & TID_MASK, tid);
    assert_ne!(value & OWNER_DIED, 0, "{value:#x}");
}

/// While no thread sleeps on it, the kernel knows nothing of the lock: the dead owner's number
/// stays.
#[test]
fn an_owner_that_ends_unnoticed_leaves_its_number() {
    let word = word(0);
    let owner = Caller::start(move || {
        word.compare_exchange(0, futex::thread_id(), Ordering::Acquire, Ordering::Relaxed)
            .expect("free");
    });
    let tid = owner.tid();
    owner.result();
    wait_until("it has ended", || {
        !std::path::Path::new(&format!("/proc/self/task/{tid}")).exists()
    });
    assert_eq!(word.load(Ordering::SeqCst), tid);
    assert_eq!(futex::lock_pi(word, Deadline::after(SOON)), Err(FutexError::NoSuchThread));
}

#[test]
fn two_that_wait_for_each_other_are_told() {
    let (one, two) = (word(0), word(0));
    futex::lock_pi(one, Deadline::NEVER).expect("free");
    let other = Caller::asleep(move || {
        futex::lock_pi(two, Deadline::NEVER).expect("free");
        futex::lock_pi(one, Deadline::NEVER).expect("in the end");
        futex::unlock_pi(one).and_then(|()| futex::unlock_pi(two))
    });
    assert_eq!(
        futex::lock_pi(two, Deadline::after(PATIENCE)),
        Err(FutexError::Deadlock),
        "it waits for us"
    );
    futex::unlock_pi(one).expect("ours");
    assert_eq!(other.result(), Ok(()));
}

#[test]
fn plain_and_pi_sleepers_do_not_mix() {
    let word = word(0);
    futex::lock_pi(word, Deadline::NEVER).expect("free");
    let waiter = Caller::asleep(move || {
        futex::lock_pi(word, Deadline::NEVER).and_then(|()| futex::unlock_pi(word))
    });
    assert_eq!(futex::wake(word, 1), Err(FutexError::Invalid));
    futex::unlock_pi(word).expect("ours");
    assert_eq!(waiter.result(), Ok(()));
}
