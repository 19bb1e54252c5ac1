//! Children and what becomes of them: well, an error code, a signal, a hang, or too much memory.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use crate::board::Board;
use crate::operations;

/// How long one operation may take: each asks for milliseconds, but becoming a receiver may take
/// two seconds for each of the three queues.
pub const LONGEST: Duration = Duration::from_secs(8);
/// How long it may take if it cannot be told from one that has got no processor on a busy machine.
const LONGEST_STARVED: Duration = Duration::from_secs(30);
/// So much processor time says that it was not starved.
const BUSY: Duration = Duration::from_secs(2);
/// How much memory a child may have touched, shared and own together.
const MOST_MEMORY: u64 = 768 << 20;
/// How much more address space than at its start a child may take.
const MOST_ADDRESSES: u64 = 3 << 30;

/// Why a round is a find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    Signal(i32),
    /// The code, and what was printed: a panic's message.
    Code(i32, String),
    /// What its threads did meanwhile.
    Hang(String),
    Memory(u64),
}

/// A find: what was wrong, and in which operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    pub wrong: Wrong,
    pub operation: &'static str,
}

impl Find {
    /// Returns whether it is the same trouble, as far as can be told.
    pub fn is_like(&self, other: &Find) -> bool {
        let kind = |find: &Find| match &find.wrong {
            Wrong::Signal(signal) => format!("signal {signal}"),
            // The first line says where.
            Wrong::Code(code, text) => {
                format!("{code} {}", text.lines().next().unwrap_or_default())
            }
            Wrong::Hang(_) => "hang".to_owned(),
            Wrong::Memory(_) => "memory".to_owned(),
        };
        kind(self) == kind(other)
            && (self.operation == other.operation || matches!(self.wrong, Wrong::Code(..)))
    }
}

impl fmt::Display for Find {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wrong {
            Wrong::Signal(signal) => write!(f, "killed by signal {signal} in '{}'", self.operation),
            Wrong::Code(code, text) => {
                write!(f, "ended with code {code} in '{}': {}", self.operation, text.trim())
            }
            Wrong::Hang(doing) => {
                write!(
                    f,
                    "did not come back from '{}' for {} s: {doing}",
                    self.operation,
                    LONGEST.as_secs()
                )
            }
            Wrong::Memory(bytes) => {
                write!(f, "took {} MiB of memory in or before '{}'", bytes >> 20, self.operation)
            }
        }
    }
}

/// A child; killed when dropped.
pub struct Child {
    pid: i32,
    output: File,
    ended: bool,
}

impl Child {
    /// Forks. The child ends with 101 at its first panic, in whatever thread.
    pub fn start(body: impl FnOnce()) -> Child {
        // SAFETY: the name is a string, and the descriptor is new and ours.
        let output =
            unsafe { File::from_raw_fd(libc::memfd_create(c"output".as_ptr(), libc::MFD_CLOEXEC)) };
        // SAFETY: this process has one thread, so the child may do anything.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: no pointers are passed.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::dup2(output.as_raw_fd(), 2);
            }
            std::panic::set_hook(Box::new(|info| {
                eprintln!("{info}");
                // SAFETY: always.
                unsafe { libc::_exit(101) }
            }));
            body();
            // SAFETY: always.
            unsafe { libc::_exit(0) }
        }
        Child { pid, output, ended: false }
    }

    fn text(&mut self) -> String {
        let mut bytes = Vec::new();
        let _ = self.output.rewind();
        let _ = self.output.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runnable, and has not run much: perhaps it only gets no processor.
    fn may_be_starved(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let fields: Vec<&str> =
            stat.rfind(')').map_or("", |at| &stat[at + 2..]).split(' ').collect();
        // State is the first after the name; ticks of 10 ms in user and kernel mode the 12th and
        // 13th.
        let ticks =
            |n: usize| fields.get(n).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
        fields.first() == Some(&"R") && Duration::from_millis(10 * (ticks(11) + ticks(12))) < BUSY
    }

    /// Running, or asleep in which system call, by thread; with `OUTLIVE_FUZZ_GDB` set, what gdb
    /// says.
    fn doing(&self) -> String {
        if std::env::var_os("OUTLIVE_FUZZ_GDB").is_some() {
            let pid = self.pid.to_string();
            let gdb = std::process::Command::new("gdb")
                .args(["-p", &pid, "-batch", "-ex", "bt"])
                .output();
            return gdb.map_or_else(
                |error| error.to_string(),
                |said| String::from_utf8_lossy(&said.stdout).into_owned(),
            );
        }
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        let calls = tasks.into_iter().flatten().flatten().map(|task| {
            let call = std::fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
            call.split(' ').next().unwrap_or_default().trim().to_owned()
        });
        format!("in system calls {:?}", calls.collect::<Vec<_>>())
    }

    /// Status and memory if it has ended.
    fn reap(&mut self) -> Option<(i32, u64)> {
        let mut status = 0;
        // SAFETY: all zeroes are a value of it.
        let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
        // SAFETY: two places of ours.
        let got = unsafe { libc::wait4(self.pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if got != self.pid {
            return None;
        }
        self.ended = true;
        Some((status, usage.ru_maxrss as u64 * 1024))
    }

    /// Waits for a child that is no round's: it has to end well.
    pub fn wait_well(mut self) {
        let begun = Instant::now();
        loop {
            if let Some((status, _)) = self.reap() {
                assert_eq!(status, 0, "{}", self.text());
                return;
            }
            assert!(begun.elapsed() < LONGEST * 4, "a child that prepares hangs");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Returns what has become of it, if it has ended or hangs.
    pub fn look(&mut self, board: Board, place: usize) -> Option<Result<(), Find>> {
        let ended = self.reap();
        let (operation, span) = board.current(place);
        let operation = operations::name(operation);
        let find = |wrong| Some(Err(Find { wrong, operation }));
        match ended {
            None if span > LONGEST_STARVED || span > LONGEST && !self.may_be_starved() => {
                find(Wrong::Hang(self.doing()))
            }
            None => None,
            Some((status, _)) if libc::WIFSIGNALED(status) => {
                find(Wrong::Signal(libc::WTERMSIG(status)))
            }
            Some((status, _)) if libc::WEXITSTATUS(status) != 0 => {
                let text = self.text();
                find(Wrong::Code(libc::WEXITSTATUS(status), text))
            }
            Some((_, memory)) if memory > MOST_MEMORY => find(Wrong::Memory(memory)),
            Some(_) => Some(Ok(())),
        }
    }

    /// Waits for its end.
    pub fn wait(mut self, board: Board, place: usize) -> Result<(), Find> {
        loop {
            if let Some(end) = self.look(board, place) {
                return end;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            // SAFETY: no pointers but null are passed; the pid is our child's, not waited for yet.
            unsafe {
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, core::ptr::null_mut(), 0);
            }
        }
    }
}

/// In a child: from now on an allocation beyond bounds fails, and ends it by a signal.
pub fn limit_memory() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = pages.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let limit = pages * 4096 + MOST_ADDRESSES;
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: a place of ours.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
}
