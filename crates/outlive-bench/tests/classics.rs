//! The teaching examples do what they say.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use outlive_bench::classics::{Barrier, Mutex2, Mutex3, Mutex4, Thread};

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
    count(Mutex2::lock, Mutex2::unlock);
}

#[test]
fn mutex_of_three_states() {
    count(Mutex3::lock, Mutex3::unlock);
}

#[test]
fn mutex_of_four_states() {
    count(Mutex4::lock, Mutex4::unlock);
}

#[test]
fn all_meet_and_one_is_serial() {
    const THREADS: u32 = 50;
    const ROUNDS: u32 = 40;
    let (barrier, come, serial) = (Barrier::default(), AtomicU32::new(0), AtomicU32::new(0));
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
        .map(|n| Thread::start(|n| (1..=n * 10_000).fold(0, u32::wrapping_add), n).unwrap())
        .collect();
    for (n, thread) in (1u32..20).zip(threads) {
        let wanted = (1..=n * 10_000).fold(0, u32::wrapping_add);
        assert_eq!(thread.join(), wanted);
    }
    // Dropped without being joined: waited for all the same.
    drop(Thread::start(|n| n, 1).unwrap());
}
