//! Is a thread asleep on a futex? The kernel tells which system call it sleeps in.

use std::fs;

use crate::child::wait_until;

const LOCK_PI2: i32 = 13;

/// Waits until the main thread of that process is asleep on a futex.
pub fn wait_asleep(pid: i32) {
    wait_thread_asleep(pid, pid);
}

/// Waits until that thread of that process is asleep on a futex.
pub fn wait_thread_asleep(pid: i32, tid: i32) {
    wait_until(&format!("thread {tid} of process {pid} falls asleep"), || is_asleep(pid, tid));
}

fn is_asleep(pid: i32, tid: i32) -> bool {
    match sleeping_call(pid, tid) {
        (Some(libc::SYS_futex_waitv), _) => true,
        // A call that wakes is no sleep, though a tracer may have stopped the thread in it.
        (Some(libc::SYS_futex), operation) => operation.is_some_and(is_sleep),
        _ => false,
    }
}

/// The system call that the thread sleeps in, and its second argument: of a futex call the operation.
fn sleeping_call(pid: i32, tid: i32) -> (Option<libc::c_long>, Option<i32>) {
    let path = format!("/proc/{pid}/task/{tid}/syscall");
    let call = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut words = call.split_whitespace();
    // "running" is no number. The arguments follow, in hexadecimal.
    let number = words.next().and_then(|number| number.parse::<libc::c_long>().ok());
    let operation = words.nth(1).and_then(|word| word.strip_prefix("0x"));
    let operation = operation.and_then(|word| i64::from_str_radix(word, 16).ok());
    (number, operation.map(|operation| operation as i32))
}

/// Returns whether the main thread of that process sleeps in the queue of a mutex with priority
/// inheritance.
pub fn queues_for_pi_mutex(pid: i32) -> bool {
    match sleeping_call(pid, pid) {
        (Some(libc::SYS_futex), Some(operation)) => {
            matches!(operation & libc::FUTEX_CMD_MASK, libc::FUTEX_LOCK_PI | LOCK_PI2)
        }
        _ => false,
    }
}

/// Waits until the main threads of these processes sleep on futexes, none of them in the queue of a
/// mutex with priority inheritance. Two looks find so: before the first, one may have woken another.
pub fn wait_all_asleep_outside(pids: &[i32]) {
    let mut looks = 0;
    wait_until("all sleep, and none for a mutex", || {
        let asleep = pids.iter().all(|&pid| is_asleep(pid, pid) && !queues_for_pi_mutex(pid));
        looks = if asleep { looks + 1 } else { 0 };
        looks == 2
    });
}

/// Returns whether a call of `futex` with that operation sleeps on its word.
pub fn is_sleep(operation: i32) -> bool {
    let sleeping = [
        libc::FUTEX_WAIT,
        libc::FUTEX_WAIT_BITSET,
        libc::FUTEX_LOCK_PI,
        libc::FUTEX_WAIT_REQUEUE_PI,
        LOCK_PI2,
    ];
    sleeping.contains(&(operation & libc::FUTEX_CMD_MASK))
}

/// Waits until the main thread of that process has gone to sleep `looks` more times: it has
/// rechecked between two sleeps.
pub fn wait_looks(pid: i32, looks: u64) {
    let before = sleeps_of(pid);
    wait_until(&format!("process {pid} looks {looks} times"), || sleeps_of(pid) >= before + looks);
}

/// How often the main thread of that process has given up its processor to sleep.
pub fn sleeps_of(pid: i32) -> u64 {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse::<u64>().ok()).expect("a number")
}

/// The calling thread's id.
pub fn thread_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}
