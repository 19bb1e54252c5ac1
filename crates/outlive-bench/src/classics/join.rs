//! Waiting for a thread's end, as `pthread_join` does.
//!
//! A thread that was cloned with `CLONE_CHILD_CLEARTID` (or has called `set_tid_address`) names a
//! word. When it ends, for whatever reason, the kernel stores 0 there and wakes one sleeper; the
//! stack may be used again from then on, since the thread will not touch it any more.
//!
//! The kernel does so only if others still use the same memory: for threads, not for the child of a
//! `fork`. For a process there is a pidfd, or a robust lock's word, which is what `outlive::Peer`
//! watches.
//!
//! The thread below is a bare one, unknown to libc: it shares its maker's thread-local storage, so
//! it must not call anything that uses `errno`, allocates or panics.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::{Deadline, futex};

const STACK: usize = 64 << 10;

/// What the thread is given, and what it leaves.
struct Task {
    /// The thread's number as long as it runs, then 0. The kernel writes it, both times.
    running: AtomicU32,
    job: fn(u32) -> u32,
    argument: u32,
    result: AtomicU32,
}

/// A thread that can be waited for.
pub struct Thread {
    task: Box<Task>,
    _stack: Box<[u128]>,
}

impl Thread {
    /// Starts it. The job may compute, and nothing else: see the file's head.
    pub fn start(job: fn(u32) -> u32, argument: u32) -> io::Result<Thread> {
        let mut stack = vec![0u128; STACK / size_of::<u128>()].into_boxed_slice();
        let task =
            Box::new(Task { running: AtomicU32::new(0), job, argument, result: AtomicU32::new(0) });
        let flags = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM
            // The word gets the number before either of us goes on, and 0 at the end.
            | libc::CLONE_PARENT_SETTID
            | libc::CLONE_CHILD_CLEARTID;
        let word = task.running.as_ptr();
        // SAFETY: stack and task live until `join` or `drop` has seen the thread's end; the stack
        // grows down from its end, which is aligned to 16 bytes.
        let started = unsafe {
            libc::clone(
                run,
                stack.as_mut_ptr_range().end.cast(),
                flags,
                (&raw const *task).cast_mut().cast(),
                word,
                core::ptr::null_mut::<c_void>(),
                word,
            )
        };
        if started == -1 {
            Err(io::Error::last_os_error())
        } else {
            Ok(Thread { task, _stack: stack })
        }
    }

    /// Waits until it has ended; its result.
    pub fn join(self) -> u32 {
        self.wait();
        self.task.result.load(Ordering::Relaxed)
    }

    fn wait(&self) {
        loop {
            // Acquire pairs with the kernel's store at the end: all that the thread did is there.
            match self.task.running.load(Ordering::Acquire) {
                0 => return,
                // The kernel wakes without a private flag: so must be waited for, which outlive's
                // calls are always.
                number => match futex::wait(&self.task.running, number, Deadline::NEVER) {
                    Err(error) if !error.is_look_again() => panic!("{error}"),
                    _ => {}
                },
            }
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Its stack must not go before it does.
        self.wait();
    }
}

/// The thread's whole life. When it returns, libc's `clone` calls `exit` for this thread alone.
extern "C" fn run(task: *mut c_void) -> c_int {
    // SAFETY: the maker keeps the task until the word is 0.
    let task = unsafe { &*task.cast_const().cast::<Task>() };
    task.result.store((task.job)(task.argument), Ordering::Relaxed);
    0
}
