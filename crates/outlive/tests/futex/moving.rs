//! Requeueing: from word to word without having run.

use std::sync::atomic::Ordering;

use outlive::futex::{ALL, FutexError};
use outlive::{Deadline, futex};

use crate::thread::{Caller, PATIENCE, word};

#[test]
fn some_are_woken_and_the_others_moved() {
    let (from, to) = (word(0), word(0));
    let callers: Vec<_> = (0..5)
        .map(|_| Caller::asleep(move || futex::wait(from, 0, Deadline::after(PATIENCE))))
        .collect();
    assert_eq!(futex::cmp_requeue(from, 1, 1, 1, to), Err(FutexError::Again), "it is 0");
    // Both counts together.
    assert_eq!(futex::cmp_requeue(from, 0, 1, 2, to), Ok(3));
    assert_eq!(futex::wake(to, ALL), Ok(2), "the moved ones");
    assert_eq!(futex::wake(from, ALL), Ok(2), "the others");
    for caller in callers {
        assert_eq!(caller.result(), Ok(()));
    }
}

#[test]
fn requeue_without_comparing_counts_both_too() {
    let (from, to) = (word(0), word(0));
    let callers: Vec<_> = (0..3)
        .map(|_| Caller::asleep(move || futex::wait(from, 0, Deadline::after(PATIENCE))))
        .collect();
    from.store(1, Ordering::SeqCst);
    assert_eq!(futex::requeue(from, 1, ALL, to), Ok(3), "it does not look at the word");
    assert_eq!(futex::wake(to, ALL), Ok(2));
    for caller in callers {
        assert_eq!(caller.result(), Ok(()));
    }
}

#[test]
fn to_the_same_word_they_stay_and_are_counted() {
    let from = word(0);
    let caller = Caller::asleep(move || futex::wait(from, 0, Deadline::after(PATIENCE)));
    assert_eq!(futex::cmp_requeue(from, 0, 0, ALL, from), Ok(1));
    assert!(caller.is_asleep());
    assert_eq!(futex::wake(from, ALL), Ok(1));
    assert_eq!(caller.result(), Ok(()));
}

#[test]
fn a_moved_sleeper_keeps_its_deadline_and_its_bits() {
    let (from, to) = (word(0), word(0));
    let soon = std::time::Duration::from_millis(200);
    let caller = Caller::asleep(move || futex::wait_bitset(from, 0, 0b10, Deadline::after(soon)));
    assert_eq!(futex::cmp_requeue(from, 0, 0, 1, to), Ok(1));
    assert_eq!(futex::wake_bitset(to, ALL, 0b01), Ok(0), "not its bits");
    assert_eq!(caller.result(), Err(FutexError::TimedOut));
}

#[test]
fn a_waiter_is_moved_to_a_pi_lock_and_has_it_on_return() {
    let (bell, lock) = (word(0), word(0));
    futex::lock_pi(lock, Deadline::NEVER).expect("free");
    let callers: Vec<_> = (0..2)
        .map(|_| {
            Caller::asleep(move || {
                futex::wait_requeue_pi(bell, 0, Deadline::after(PATIENCE), lock)?;
                assert_eq!(lock.load(Ordering::SeqCst) & futex::TID_MASK, futex::thread_id());
                futex::unlock_pi(lock)
            })
        })
        .collect();
    assert_eq!(futex::cmp_requeue_pi(bell, 1, ALL, lock), Err(FutexError::Again), "it is 0");
    // Held by us, so the first is moved, not woken; the count is of both.
    assert_eq!(futex::cmp_requeue_pi(bell, 0, ALL, lock), Ok(2));
    assert!(callers.iter().all(Caller::is_asleep));
    assert_ne!(lock.load(Ordering::SeqCst) & futex::WAITERS, 0);
    assert_eq!(futex::unlock_pi(lock), Ok(()));
    for caller in callers {
        assert_eq!(caller.result(), Ok(()));
    }
    assert_eq!(lock.load(Ordering::SeqCst), 0);
}

#[test]
fn a_pi_waiter_gives_up_in_several_ways() {
    let (bell, lock) = (word(0), word(0));
    assert_eq!(
        futex::wait_requeue_pi(bell, 1, Deadline::after(PATIENCE), lock),
        Err(FutexError::Again)
    );
    let soon = std::time::Duration::from_millis(3);
    assert_eq!(
        futex::wait_requeue_pi(bell, 0, Deadline::after(soon), lock),
        Err(FutexError::TimedOut)
    );
    let at = std::time::SystemTime::now() + soon;
    assert_eq!(
        futex::wait_requeue_pi(bell, 0, Deadline::at_time_of_day(at), lock),
        Err(FutexError::TimedOut),
        "time of day"
    );
    assert_eq!(
        futex::wait_requeue_pi(bell, 0, Deadline::after(soon), bell),
        Err(FutexError::Invalid),
        "one word"
    );
    assert_eq!(futex::cmp_requeue_pi(bell, 0, 1, bell), Err(FutexError::Invalid), "one word");
    // It waits for one lock and is to be moved to another.
    let other = word(0);
    let caller = Caller::asleep(move || {
        futex::wait_requeue_pi(bell, 0, Deadline::after(std::time::Duration::from_secs(1)), lock)
    });
    assert_eq!(futex::cmp_requeue_pi(bell, 0, 1, other), Err(FutexError::Invalid));
    // A plain wake does not know what to do with it either.
    assert_eq!(futex::wake(bell, 1), Err(FutexError::Invalid));
    assert_eq!(caller.result(), Err(FutexError::TimedOut));
}

#[test]
fn a_plain_sleeper_cannot_be_moved_to_a_pi_lock() {
    let (bell, lock) = (word(0), word(0));
    let caller = Caller::asleep(move || futex::wait(bell, 0, Deadline::after(PATIENCE)));
    assert_eq!(futex::cmp_requeue_pi(bell, 0, 1, lock), Err(FutexError::Invalid));
    assert_eq!(futex::wake(bell, 1), Ok(1));
    assert_eq!(caller.result(), Ok(()));
}
