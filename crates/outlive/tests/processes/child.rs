//! Children by `fork`: started, stopped, killed by their pids, and waited for with a deadline.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long any single wait of a check lasts at most, on a machine that is not busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// So much of it more on a busy one at most.
const MOST_PATIENT: f64 = 8.0;

/// Returns whether that is a hang by now: where many others want each processor, everything takes
/// so many times as long.
fn is_too_long(waited: Duration, patience: Duration) -> bool {
    if waited < patience {
        return false;
    }
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running: f64 = average.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(1.0);
    let processors = std::thread::available_parallelism().map_or(1.0, |number| number.get() as f64);
    // An average of the last minute is late: twice of it.
    waited >= patience.mul_f64((2.0 * running / processors).clamp(1.0, MOST_PATIENT))
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code; a panic is 101.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A child; killed when dropped before it has ended.
pub struct Child {
    pid: i32,
    end: Option<End>,
}

impl Child {
    /// Forks a child that runs `body` and ends. It dies with the thread that forked it.
    pub fn start(body: impl FnOnce()) -> Child {
        let pid = fork(|| {
            // SAFETY: no pointers are passed.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            i32::from(catch_unwind(AssertUnwindSafe(body)).is_err()) * 101
        });
        Child { pid, end: None }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn signal(&self, signal: i32) {
        assert!(self.end.is_none(), "a pid that was waited for is somebody else's");
        // SAFETY: no pointers are passed; the pid is our child's until it is waited for.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Kills it and sees it dead.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        assert_eq!(self.wait(), End::Signal(libc::SIGKILL), "killed before it ended");
    }

    /// Stops it and sees it stopped.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        wait_until("a stopped child stops", || {
            fs::read_to_string(format!("/proc/{}/task/{0}/stat", self.pid))
                .is_ok_and(|stat| stat.contains(") T "))
        });
    }

    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    pub fn has_ended(&mut self) -> bool {
        if self.end.is_none() {
            self.end = reap(self.pid);
        }
        self.end.is_some()
    }

    /// How it ends; fails when it does not.
    pub fn wait(&mut self) -> End {
        let pid = self.pid;
        wait_until(&format!("child {pid} ends"), || self.has_ended());
        self.end.expect("it has ended")
    }

    /// The same for one that has no limit of its own: this process dies with its parent, which has
    /// one.
    pub fn wait_however_long(mut self) -> End {
        while !self.has_ended() {
            std::thread::sleep(Duration::from_micros(200));
        }
        self.end.expect("it has ended")
    }

    /// Waits for it and fails unless it ended well.
    pub fn finish(mut self) {
        assert_eq!(self.wait(), End::Code(0), "child {}", self.pid);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.signal(libc::SIGKILL);
            let begun = Instant::now();
            while !self.has_ended() && !is_too_long(begun.elapsed(), PATIENCE) {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}

/// Looks until it is so; fails when it is not so in time.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(!is_too_long(begun.elapsed(), PATIENCE), "waited in vain: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn fork(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs ordinary code; checks fork before they start threads, or call little
    // in the child.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        let code = body();
        exit_now(code);
    }
    pid
}

/// Ends the process without destructors and without what libc does at an exit.
pub fn exit_now(code: i32) -> ! {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    // SAFETY: always.
    unsafe { libc::_exit(code) }
}

fn reap(pid: i32) -> Option<End> {
    let mut status = 0;
    // SAFETY: status is a place for an int.
    let got = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
    if got == 0 {
        return None;
    }
    assert_eq!(got, pid, "waitpid: {}", std::io::Error::last_os_error());
    Some(if libc::WIFEXITED(status) {
        End::Code(libc::WEXITSTATUS(status))
    } else {
        End::Signal(libc::WTERMSIG(status))
    })
}

/// Whatever a check's children leave becomes the runner's child.
pub fn adopt_orphans() {
    // SAFETY: no pointers are passed.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Forks a process that runs checks; it dies with its parent. The parent does not wait for it: its
/// end closes its pipe.
pub fn start_lane(body: impl FnOnce()) {
    fork(|| {
        // SAFETY: no pointers are passed.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        body();
        0
    });
}

/// Forks a check, in a process group of its own.
pub fn start_group(body: impl FnOnce() -> i32) -> i32 {
    let pid = fork(|| {
        // SAFETY: no pointers are passed.
        unsafe {
            libc::setpgid(0, 0);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        body()
    });
    // SAFETY: no pointers are passed. Parent and child both make this call, so the group exists
    // whichever of the two runs first.
    unsafe { libc::setpgid(pid, pid) };
    pid
}

/// Waits for a check and ends its whole group; the error tells what the processes that still lived
/// at the deadline were doing.
pub fn wait_group(pid: i32, deadline: Duration) -> Result<End, String> {
    let begun = Instant::now();
    let mut end = reap(pid);
    while end.is_none() && !is_too_long(begun.elapsed(), deadline) {
        std::thread::sleep(Duration::from_micros(200));
        end = reap(pid);
    }
    let hung = if end.is_none() { describe_group(pid) } else { String::new() };
    // SAFETY: no pointers are passed; the group is the one made above.
    unsafe { libc::kill(-pid, libc::SIGKILL) };
    // All processes of the group, the check itself if it hung, and orphans that came to us.
    let begun = Instant::now();
    while !is_too_long(begun.elapsed(), PATIENCE) {
        // SAFETY: no status is asked for.
        let got = unsafe { libc::waitpid(-1, core::ptr::null_mut(), libc::WNOHANG) };
        match got {
            0 => std::thread::sleep(Duration::from_micros(200)),
            got if got < 0 => break,
            _ => {}
        }
    }
    end.ok_or(hung)
}

/// Returns what the processes of a group are doing, for a person who looks into a hang.
fn describe_group(group: i32) -> String {
    let mut text = String::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let of_group = stat
            .rfind(')')
            .and_then(|at| stat.get(at + 2..))
            .and_then(|rest| rest.split(' ').nth(2))
            .is_some_and(|field| field == group.to_string());
        if !of_group {
            continue;
        }
        for task in fs::read_dir(process.path().join("task")).into_iter().flatten().flatten() {
            let call = fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            let state = stat.rfind(')').and_then(|at| stat.get(at + 2..at + 3)).unwrap_or("?");
            text += &format!("{} {state} in system call {}\n", task.path().display(), call.trim());
        }
    }
    text
}

/// Sends what this process prints to a file.
pub fn redirect_output(fd: i32) {
    // SAFETY: no pointers are passed.
    unsafe {
        libc::dup2(fd, 1);
        libc::dup2(fd, 2);
    }
}
