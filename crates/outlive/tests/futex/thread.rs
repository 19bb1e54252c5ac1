//! A thread that makes one call, and can be seen asleep in it.

use std::fs;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outlive::futex::thread_id;

/// How long any wait of a test lasts at most.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// See the file's head.
pub struct Caller<R> {
    tid: u32,
    thread: JoinHandle<R>,
}

impl<R: Send + 'static> Caller<R> {
    /// Starts it.
    pub fn start(call: impl FnOnce() -> R + Send + 'static) -> Caller<R> {
        let (report, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            report.send(thread_id()).expect("the test waits for it");
            call()
        });
        Caller { tid: told.recv().expect("it says its number"), thread }
    }

    /// Starts it and sees it asleep in a futex call.
    pub fn asleep(call: impl FnOnce() -> R + Send + 'static) -> Caller<R> {
        let caller = Caller::start(call);
        wait_until("the caller sleeps", || caller.is_asleep());
        caller
    }

    pub fn is_asleep(&self) -> bool {
        let path = format!("/proc/self/task/{}", self.tid);
        let call = fs::read_to_string(format!("{path}/syscall")).unwrap_or_default();
        let number = call.split(' ').next().and_then(|number| number.parse::<libc::c_long>().ok());
        number.is_some_and(|number| number == libc::SYS_futex || number == libc::SYS_futex_waitv)
    }

    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Sends the thread a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: no pointers; the thread lives until it is joined.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.tid, signal) };
        assert_eq!(sent, 0);
    }

    /// What the call gave.
    pub fn result(self) -> R {
        wait_until("the call returns", || self.thread.is_finished());
        self.thread.join().expect("the caller does not panic")
    }
}

/// Looks until it is so; fails when it is not so in time.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A word that lives as long as the program: threads may be given it.
pub fn word(value: u32) -> &'static std::sync::atomic::AtomicU32 {
    Box::leak(Box::new(std::sync::atomic::AtomicU32::new(value)))
}

/// Lets a signal be handled by doing nothing; with or without `SA_RESTART`.
pub fn handle(signal: i32, flags: i32) {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a handler that does nothing may run anywhere; the struct is plain data.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const action, core::ptr::null_mut()), 0);
    }
}
