//! Runs the classics that [`outlive_bench::classics`] shows, each built on `outlive::futex`: `cargo
//! run --profile dist -p outlive-bench --example futex`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use outlive_bench::classics::{Barrier, Mutex2, Mutex3, Mutex4, Thread};

const THREADS: u32 = 4;
const TIMES: u64 = 200_000;

fn main() {
    count("mutex of two states", Mutex2::lock, Mutex2::unlock);
    count("mutex of three states", Mutex3::lock, Mutex3::unlock);
    count("mutex of four states", Mutex4::lock, Mutex4::unlock);
    meet(500, 20);
    let thread = Thread::start(|n| (1..=n).sum(), 1_000).expect("a thread can be started");
    println!("a thread's end was waited for: it left {}", thread.join());
}

/// Some threads raise one counter inside the lock, without an atomic addition: a lock that fails
/// loses some.
fn count(name: &str, lock: fn(&AtomicU32), unlock: fn(&AtomicU32)) {
    let (word, counter) = (AtomicU32::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    lock(&word);
                    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    unlock(&word);
                }
            });
        }
    });
    let wanted = u64::from(THREADS) * TIMES;
    assert_eq!(counter.into_inner(), wanted, "the {name} let two in at once");
    println!(
        "{name}: {THREADS} threads counted to {wanted} in {:.3} s",
        begun.elapsed().as_secs_f64()
    );
}

/// Many threads meet again and again.
fn meet(threads: u32, rounds: u32) {
    let (barrier, serial) = (Barrier::default(), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..rounds {
                    if barrier.wait(threads) {
                        serial.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(serial.into_inner(), rounds, "one serial participant in each round");
    println!("barrier: {threads} threads met {rounds} times");
}
