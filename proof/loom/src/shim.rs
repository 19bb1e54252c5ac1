//! Loom's atomics, under the names of the library's shim, and how a test is explored.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};

pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Numbers: loom follows every atomic.
pub(crate) type Pad32 = u32;
pub(crate) type Pad64 = u64;

macro_rules! assert_layout {
    ($($fact:expr),+ $(,)?) => {};
}
pub(crate) use assert_layout;

pub(crate) const fn fewer_under_loom(_all: usize, few: usize) -> usize {
    few
}

/// Loom's compiler keeps all in order.
pub(crate) fn compiler_fence(_: Ordering) {}

/// Lets another thread run.
pub(crate) fn spin_hint() {
    loom::thread::yield_now();
}

/// Loom takes SeqCst accesses for AcqRel ones, and knows their order from fences only.
pub(crate) fn order_seq_cst_accesses() {
    fence(Ordering::SeqCst);
}

/// The longest execution, in accesses. Loom allows 1,000 unless told otherwise.
const MOST_BRANCHES: usize = 20_000;

/// Explores a test's executions with at most so many preemptions.
///
/// Fails if there is one execution alone: such a test passes whatever the code does. As a rule a
/// thread then reads a word before it changes it, and so hides from loom that another thread has
/// read the word (proof/models/weak-memory.md, "What loom leaves out").
pub(crate) fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    check(Some(preemptions), test);
}

/// Explores all executions of a test, and fails if there is one alone: see [`explore`].
pub(crate) fn explore_all(test: impl Fn() + Sync + Send + 'static) {
    check(None, test);
}

fn check(preemptions: Option<usize>, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions.or(model.preemption_bound);
    model.max_branches = MOST_BRANCHES;
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&executions);
    model.check(move || {
        counted.fetch_add(1, StdOrdering::Relaxed);
        test();
    });
    let executions = executions.load(StdOrdering::Relaxed);
    println!("{executions} executions");
    assert!(executions > 1, "one execution alone: this test cannot fail");
}

#[cfg(test)]
mod tests {
    use loom::thread;

    use super::*;

    /// Whether both orders of a look and a change are explored; with `hidden` the thread that makes
    /// the change has read the word before.
    fn look_beside_a_change(hidden: bool) {
        explore_all(move || {
            let word = loom::sync::Arc::new(AtomicU32::new(0));
            let changing = {
                let word = loom::sync::Arc::clone(&word);
                thread::spawn(move || {
                    if hidden {
                        word.load(Ordering::Acquire);
                    }
                    word.fetch_add(1, Ordering::AcqRel);
                })
            };
            word.load(Ordering::Acquire);
            changing.join().unwrap();
        });
    }

    #[test]
    fn loom_explores_both_orders() {
        look_beside_a_change(false);
    }

    /// When loom sees through this (its issue 392), the tests need not be written around it.
    #[test]
    #[should_panic = "one execution alone"]
    fn loom_a_test_with_one_execution_fails() {
        look_beside_a_change(true);
    }
}
