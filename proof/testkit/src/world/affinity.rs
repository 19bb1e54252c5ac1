//! Which processor a process runs on.
//!
//! A step is two switches between engine and victim; on one and the same processor they cost a
//! third of what they cost between two (18 µs against 57, seen on a virtual machine). So engine and
//! victim stay on one, survivors run anywhere.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The calling thread runs on this processor alone from here on. Not being allowed to is no error:
/// it costs time only.
pub fn stay_on(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    let _ = sched_setaffinity(None, &only);
}

/// The calling thread may run on every processor again.
pub fn roam() {
    let mut all = CpuSet::new();
    for cpu in 0..CpuSet::MAX_CPU {
        all.set(cpu);
    }
    let _ = sched_setaffinity(None, &all);
}

/// The processors that the calling thread may run on.
#[must_use]
pub fn available() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else {
        return vec![0];
    };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}
