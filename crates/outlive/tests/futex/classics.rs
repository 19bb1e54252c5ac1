//! The teaching examples do what they say.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[path = "../../examples/futex/barrier.rs"]
mod barrier;
#[path = "../../examples/futex/join.rs"]
mod join;
#[path = "../../examples/futex/mutex2.rs"]
mod mutex2;
#[path = "../../examples/futex/mutex3.rs"]
mod mutex3;
#[path = "../../examples/futex/mutex4.rs"]
mod mutex4;

/// Threads count together, with a loss if two are ever inside at once, and a hang if a sleeper is
/// forgotten.
fn count(lock: fn(&AtomicU32), unlock: fn(&AtomicU32)) {
    const EACH: u64 = 30_000;
    for threads in [1, 2, 7] {
        let (word, counter) = (AtomicU32::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for n in 0..EACH {
                        lock(&word);
                        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        if n % 1024 == 0 {
                            // So that others come to sleep.
                            std::thread::yield_now();
                        }
                        unlock(&word);
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), threads * EACH);
        assert_eq!(word.into_inner() & 1, 0, "free");
    }
}

#[test]
fn mutex_of_two_states() {
    count(mutex2::Mutex2::lock, mutex2::Mutex2::unlock);
}

#[test]
fn mutex_of_three_states() {
    count(mutex3::Mutex3::lock, mutex3::Mutex3::unlock);
}

#[test]
fn mutex_of_four_states() {
    count(mutex4::Mutex4::lock, mutex4::Mutex4::unlock);
}

#[test]
fn all_meet_and_one_is_serial() {
    const THREADS: u32 = 50;
    const ROUNDS: u32 = 40;
    let (barrier, come, serial) =
        (barrier::Barrier::default(), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    come.fetch_add(1, Ordering::Relaxed);
                    if barrier.wait(THREADS) {
                        serial.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(
                        come.load(Ordering::Relaxed) >= THREADS * round,
                        "went on before all had come"
                    );
                }
            });
        }
    });
    assert_eq!(serial.into_inner(), ROUNDS);
}

#[test]
fn a_thread_s_end_is_waited_for() {
    let threads: Vec<_> = (1..20)
        .map(|n| join::Thread::start(|n| (1..=n * 10_000).fold(0, u32::wrapping_add), n).unwrap())
        .collect();
    for (n, thread) in (1u32..20).zip(threads) {
        let wanted = (1..=n * 10_000).fold(0, u32::wrapping_add);
        assert_eq!(thread.join(), wanted);
    }
    // Dropped without being joined: waited for all the same.
    drop(join::Thread::start(|n| n, 1).unwrap());
}
