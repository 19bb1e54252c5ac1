//! `waitv`: several words at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use outlive::futex::{FutexError, MOST_WATCHES, Watch};
use outlive::{Deadline, futex};

use crate::thread::{Caller, PATIENCE, handle, word};

const SOON: Duration = Duration::from_millis(3);

/// False, with a message, where the kernel lacks it or a container forbids it.
fn is_there() -> bool {
    let there = outlive::abilities::has_futex_waitv();
    if !there {
        crate::skip("no futex_waitv here");
    }
    there
}

fn words<const N: usize>() -> [&'static AtomicU32; N] {
    core::array::from_fn(|_| word(0))
}

fn watch<const N: usize>(words: [&'static AtomicU32; N]) -> [Watch<'static>; N] {
    words.map(|word| Watch { word, expected: 0 })
}

#[test]
fn any_of_them_wakes_also_the_last_of_128() {
    if !is_there() {
        return;
    }
    let all = words::<MOST_WATCHES>();
    for which in [0, 64, 127] {
        let caller = Caller::asleep(move || futex::waitv(&watch(all), Deadline::after(PATIENCE)));
        assert_eq!(futex::wake(all[which], 1), Ok(1));
        assert_eq!(caller.result(), Ok(which));
    }
}

#[test]
fn too_many_or_none_make_no_sense() {
    if !is_there() {
        return;
    }
    assert_eq!(futex::waitv(&[], Deadline::after(SOON)), Err(FutexError::Invalid));
    assert_eq!(
        futex::waitv(&watch(words::<129>()), Deadline::after(SOON)),
        Err(FutexError::Invalid)
    );
}

#[test]
fn one_that_differs_is_no_sleep() {
    if !is_there() {
        return;
    }
    let all = words::<3>();
    all[2].store(1, Ordering::SeqCst);
    assert_eq!(futex::waitv(&watch(all), Deadline::NEVER), Err(FutexError::Again));
}

#[test]
fn both_clocks_end_it() {
    if !is_there() {
        return;
    }
    let all = watch(words::<2>());
    assert_eq!(futex::waitv(&all, Deadline::after(SOON)), Err(FutexError::TimedOut));
    assert_eq!(
        futex::waitv(&all, Deadline::at_time_of_day(SystemTime::now() + SOON)),
        Err(FutexError::TimedOut)
    );
    assert_eq!(
        futex::waitv(&all, Deadline::at_time_of_day(SystemTime::UNIX_EPOCH)),
        Err(FutexError::TimedOut)
    );
}

#[test]
fn a_signal_handler_ends_it() {
    if !is_there() {
        return;
    }
    handle(libc::SIGHUP, 0);
    let caller = Caller::asleep(move || futex::waitv(&watch(words::<2>()), Deadline::NEVER));
    caller.signal(libc::SIGHUP);
    assert_eq!(caller.result(), Err(FutexError::Interrupted));
}

/// Two words are woken before the sleeper runs: both wake-ups count it as woken, or one of them
/// does; in any case it learns one index only.
#[test]
fn the_index_is_only_a_hint() {
    if !is_there() {
        return;
    }
    let all = words::<2>();
    let mut swallowed = 0;
    for _ in 0..200 {
        let caller = Caller::asleep(move || futex::waitv(&watch(all), Deadline::after(PATIENCE)));
        let woken = [futex::wake(all[0], 1).unwrap(), futex::wake(all[1], 1).unwrap()];
        let told = caller.result().expect("woken");
        assert_eq!(woken[told], 1, "the index is of a word that was woken");
        swallowed += u32::from(woken == [1, 1]);
    }
    assert!(swallowed > 0, "never were both wake-ups used up for one return: nothing was tested");
}

#[test]
fn the_same_word_twice_is_one_sleeper_in_two_places() {
    if !is_there() {
        return;
    }
    let [one] = words::<1>();
    let caller = Caller::asleep(move || {
        let watch = Watch { word: one, expected: 0 };
        futex::waitv(&[watch, watch], Deadline::after(PATIENCE))
    });
    assert_eq!(futex::wake(one, futex::ALL).map(|woken| woken >= 1), Ok(true));
    assert!(caller.result().is_ok());
}
