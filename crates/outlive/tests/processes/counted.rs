//! How often a wait goes to sleep: its calls that sleep on a word, counted by a tracer.
//!
//! The kernel's own count of sleeps (`ru_nvcsw`) has in it what the kernel sleeps for by itself: a
//! page that is fetched, a lock of its own. Calls are exact, so a check needs no second try.

use crate::asleep::is_sleep;
use crate::child::Child;

/// The calling process's tracer counts what it does in there. See [`sleeps_of`].
pub fn counted(wait: impl FnOnce()) {
    mark();
    wait();
    mark();
}

/// A stop of which the tracer learns, and which it makes nothing of.
fn mark() {
    // SAFETY: always.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Runs `life` in a child, and says how often the child and its threads went to sleep on a word
/// inside of [`counted`]. `None`: a process may not be traced here.
pub fn sleeps_of(life: impl FnOnce()) -> Option<u64> {
    const REFUSED: i32 = 87;
    let child = Child::start(|| {
        let none = core::ptr::null_mut::<libc::c_void>();
        // SAFETY: no memory is passed.
        if unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, none, none) } != 0 {
            crate::child::exit_now(REFUSED);
        }
        mark();
        // A process asks once, by a call that does not sleep; before others look for it asleep.
        outlive::abilities::has_futex_waitv();
        life();
    });
    let pid = child.pid();
    let (mut sleeps, mut marks) = (0, 0);
    loop {
        let mut status = 0;
        // SAFETY: status is a place for an int. Threads, too.
        let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
        assert!(tid > 0, "the child is there");
        if !libc::WIFSTOPPED(status) {
            if tid != pid {
                continue;
            }
            // Reaped by us: its end is told here.
            std::mem::forget(child);
            let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            assert!(matches!(code, Some(0 | REFUSED)), "the traced child ended: {status:x}");
            return (code == Some(0)).then_some(sleeps);
        }
        let signal = match libc::WSTOPSIG(status) {
            at if at == libc::SIGTRAP | 0x80 => {
                // Between the first mark, which begins the trace, and the second there is only what
                // prepares.
                sleeps += u64::from(marks == 2 && goes_to_sleep(tid));
                0
            }
            // A mark; or the first stop of a thread.
            libc::SIGSTOP => {
                marks += u32::from(tid == pid);
                if marks == 1 && tid == pid {
                    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE;
                    request(libc::PTRACE_SETOPTIONS, tid, options as usize);
                }
                0
            }
            // An event: a thread has been made.
            libc::SIGTRAP => 0,
            other => other,
        };
        request(libc::PTRACE_SYSCALL, tid, signal as usize);
    }
}

fn request(request: libc::c_uint, tid: i32, data: usize) {
    let none = core::ptr::null_mut::<libc::c_void>();
    // SAFETY: neither request reads or writes memory of ours. One that is killed meanwhile is told
    // of by the next wait.
    unsafe {
        libc::ptrace(request, tid, none, core::ptr::without_provenance_mut::<libc::c_void>(data))
    };
}

/// Returns whether the thread is about to make a call that sleeps on a word.
fn goes_to_sleep(tid: i32) -> bool {
    // SAFETY: zeroes are a value, and the kernel fills in as much as it is told there is.
    unsafe {
        let mut info: libc::ptrace_syscall_info = std::mem::zeroed();
        let bytes = core::ptr::without_provenance_mut::<libc::c_void>(size_of_val(&info));
        if libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, tid, bytes, &raw mut info) <= 0
            || info.op != libc::PTRACE_SYSCALL_INFO_ENTRY
        {
            return false;
        }
        let entry = info.u.entry;
        match entry.nr as libc::c_long {
            libc::SYS_futex_waitv => true,
            libc::SYS_futex => is_sleep(entry.args[1] as i32),
            _ => false,
        }
    }
}
