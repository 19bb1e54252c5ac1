//! The processes of one turn: forked, pinned, and gone when the turn is over, however it ends.
//!
//! They are forked straight from this program, so it must have one thread only. A child ends by
//! `_exit`, dies with its parent (PR_SET_PDEATHSIG), and is killed and waited for when its [`Crew`]
//! is dropped.

use super::clock;
use super::error::{Error, check};
use super::interrupt;
use super::shared::{Shared, ZeroShared};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{fs, mem, ptr, time::Duration};

const TEXT_WORDS: usize = 64;

/// A child's last words. Words, not bytes in a cell: two children may fail at once, and the worst
/// is mixed text.
#[repr(C)]
struct LastWords {
    bytes: AtomicU32,
    text: [AtomicU64; TEXT_WORDS],
}

// SAFETY: atomics only, zero is valid, no pointers.
unsafe impl ZeroShared for LastWords {}

impl LastWords {
    fn write(&self, text: &str) {
        let mut end = text.len().min(TEXT_WORDS * 8);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (word, part) in self.text.iter().zip(text.as_bytes()[..end].chunks(8)) {
            let mut eight = [0; 8];
            eight[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(eight), Ordering::Relaxed);
        }
        self.bytes.store(end as u32, Ordering::Relaxed);
    }

    fn read(&self) -> String {
        let bytes: Vec<u8> =
            self.text.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        let end = (self.bytes.load(Ordering::Relaxed) as usize).min(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

struct Hand {
    name: &'static str,
    pid: libc::pid_t,
    pidfd: OwnedFd,
    ended: bool,
}

/// Some processes that do one thing together.
pub struct Crew {
    hands: Vec<Hand>,
    last_words: Shared<LastWords>,
}

impl Crew {
    /// Returns an empty one.
    pub fn new() -> Result<Self, Error> {
        Ok(Self { hands: Vec::new(), last_words: Shared::new()? })
    }

    /// Forks a child that runs `job`, on one core if asked, and returns its process id.
    pub fn start(
        &mut self,
        name: &'static str,
        core: Option<usize>,
        job: impl FnOnce() -> Result<(), Error>,
    ) -> Result<libc::pid_t, Error> {
        // SAFETY: getpid has no effect.
        let parent = unsafe { libc::getpid() };
        // SAFETY: this program has one thread (`require_one_thread`), so the child may use all it
        // inherits.
        let pid = check(unsafe { libc::fork() }, "forking a process of the benchmark")?;
        if pid == 0 {
            let code = self.run_in_child(parent, core, job);
            // SAFETY: ends the child without running the parent's destructors or flushing its
            // buffers twice.
            unsafe { libc::_exit(code) }
        }
        // SAFETY: the child is ours and not yet waited for, so its id is still its own.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int;
        if fd == -1 {
            let error = Error::last("opening a pidfd (Linux 5.3 or later is needed)");
            kill_and_wait(pid);
            return Err(error);
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
        self.hands.push(Hand { name, pid, pidfd, ended: false });
        Ok(pid)
    }

    fn run_in_child(
        &self,
        parent: libc::pid_t,
        core: Option<usize>,
        job: impl FnOnce() -> Result<(), Error>,
    ) -> i32 {
        interrupt::defaults_in_child();
        // SAFETY: plain calls. The parent is asked after: it may have died before the request took
        // effect.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                return 1;
            }
        }
        // AssertUnwindSafe: after a panic nothing is used again, the process ends.
        let told = catch_unwind(AssertUnwindSafe(|| {
            if let Some(core) = core {
                pin(core)?;
            }
            job()
        }));
        match told {
            Ok(Ok(())) => 0,
            Ok(Err(error)) => {
                self.last_words.write(&error.to_string());
                1
            }
            Err(_) => {
                self.last_words.write("panicked");
                1
            }
        }
    }

    /// Returns whether one has ended already; if it ended badly, how.
    pub fn any_ended(&mut self) -> Result<bool, Error> {
        for hand in self.hands.iter_mut().filter(|hand| !hand.ended) {
            hand.reap(&self.last_words)?;
        }
        Ok(self.hands.iter().any(|hand| hand.ended))
    }

    /// Waits until all have ended well. Returns how often the kernel took a core from one of them
    /// (a busy machine).
    pub fn finish(mut self, limit: Duration) -> Result<u64, Error> {
        let end = clock::now() + limit.as_nanos() as u64;
        let mut preempted = 0;
        while self.hands.iter().any(|hand| !hand.ended) {
            let mut polls: Vec<libc::pollfd> = self
                .hands
                .iter()
                .filter(|hand| !hand.ended)
                .map(|hand| libc::pollfd {
                    fd: hand.pidfd.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                })
                .collect();
            // SAFETY: `polls` is valid for its length. 100 ms: a signal between the check and here
            // waits so long.
            unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 100) };
            interrupt::check()?;
            for hand in self.hands.iter_mut().filter(|hand| !hand.ended) {
                preempted += hand.reap(&self.last_words)?;
            }
            if clock::now() > end {
                let late: Vec<_> =
                    self.hands.iter().filter(|hand| !hand.ended).map(|hand| hand.name).collect();
                return Err(Error::TimedOut(format!("one turn ({})", late.join(", "))));
            }
        }
        Ok(preempted)
    }
}

impl Hand {
    /// Takes the child's end if it has come; tells how often it was preempted.
    fn reap(&mut self, last_words: &LastWords) -> Result<u64, Error> {
        let mut status = 0;
        // SAFETY: rusage is plain data.
        let mut usage: libc::rusage = unsafe { mem::zeroed() };
        // SAFETY: our own child, valid places.
        let pid = unsafe { libc::wait4(self.pid, &mut status, libc::WNOHANG, &mut usage) };
        if check(pid, "waiting for a process of the benchmark")? == 0 {
            return Ok(0);
        }
        self.ended = true;
        if libc::WIFSIGNALED(status) {
            Err(Error::Child(format!(
                "the {} was killed by signal {}",
                self.name,
                libc::WTERMSIG(status)
            )))
        } else if libc::WEXITSTATUS(status) != 0 {
            Err(Error::Child(format!("the {} failed: {}", self.name, last_words.read())))
        } else {
            Ok(usage.ru_nivcsw as u64)
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for hand in self.hands.iter().filter(|hand| !hand.ended) {
            kill_and_wait(hand.pid);
        }
    }
}

fn kill_and_wait(pid: libc::pid_t) {
    // SAFETY: called only for our own children that were not waited for: the id cannot be
    // another's. SIGKILL is certain, so the wait ends.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        while libc::waitpid(pid, ptr::null_mut(), 0) == -1
            && *libc::__errno_location() == libc::EINTR
        {}
    }
}

/// Sleeps until this process is killed; for a child that only has to be there.
pub fn stay() -> ! {
    loop {
        // SAFETY: returns only after a handled signal, and a child handles none.
        unsafe { libc::pause() };
    }
}

/// Returns the cores that this process may use.
pub fn allowed_cores() -> Result<Vec<usize>, Error> {
    // SAFETY: a cpu_set_t is plain bits; the call fills at most its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        check(
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set),
            "asking which cores are allowed",
        )?;
        set
    };
    // SAFETY: CPU_ISSET reads the set within its bounds.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect())
}

/// Keeps the calling thread on one core.
pub fn pin(core: usize) -> Result<(), Error> {
    // SAFETY: plain bits; CPU_SET checks its index against the set's size.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(core, &mut set);
        check(
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set),
            "pinning a process to a core",
        )?;
    }
    Ok(())
}

/// Sets the niceness of this process and of those it will fork.
pub fn set_niceness(niceness: i32) -> Result<(), Error> {
    // SAFETY: no memory is touched.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) }, "setting the niceness")
        .map(drop)
}

/// Fails if the program has several threads: a fork would copy their locks in any state.
pub fn require_one_thread() -> Result<(), Error> {
    let threads = fs::read_dir("/proc/self/task")
        .map_err(|source| Error::System { doing: "counting this program's threads", source })?
        .count();
    if threads == 1 {
        Ok(())
    } else {
        Err(Error::Refused(format!(
            "a benchmark forks, and this program already runs {threads} threads"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // cargo's test harness has several threads, and a forked child of such a program may do little:
    // no allocation. So these jobs only compare, call the kernel, or return a value made before the
    // fork.

    #[test]
    fn a_job_that_ends_well_is_waited_for() {
        let mut crew = Crew::new().unwrap();
        crew.start("worker", None, || Ok(())).unwrap();
        crew.finish(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn a_killed_child_is_told() {
        let mut crew = Crew::new().unwrap();
        let pid = crew.start("sleeper", None, || stay()).unwrap();
        // SAFETY: our own child.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        let told = crew.finish(Duration::from_secs(10)).unwrap_err().to_string();
        assert!(told.contains("the sleeper was killed by signal 9"), "{told}");
    }

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let mut crew = Crew::new().unwrap();
        let pid = crew.start("sleeper", None, || stay()).unwrap();
        let told = crew.finish(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(told, Error::TimedOut(_)), "{told}");
        // SAFETY: no memory is touched; it is waited for already, so none of this
        // program's processes has that id.
        assert_eq!(unsafe { libc::waitpid(pid, ptr::null_mut(), libc::WNOHANG) }, -1);
    }

    #[test]
    fn last_words_keep_whole_characters() {
        let words = Shared::<LastWords>::new().unwrap();
        words.write("short — words");
        assert_eq!(words.read(), "short — words");
        words.write(&"é".repeat(400));
        assert_eq!(words.read(), "é".repeat(256));
    }
}
