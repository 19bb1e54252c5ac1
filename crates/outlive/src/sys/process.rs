//! Metadata about processes and threads.

use std::fs;

pub(crate) use super::procfs::mapped_file;
use super::procfs::{self, Proc, Stat};
use super::{Errno, identity};

/// Returns the calling thread's id in its own pid namespace.
pub(crate) fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Returns the calling process's id in its own pid namespace.
pub(crate) fn process_id() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// Returns whether the caller is its process's first thread.
pub(crate) fn is_main_thread() -> bool {
    thread_id() == process_id()
}

/// Says whether a process or thread still exists. Only [`Answer::Gone`] may have consequences for
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It exists, and is the same one.
    Alive,
    /// It does not exist, or only as a zombie: it executes no more instructions of its own.
    Gone,
    /// Unknown: it may be alive.
    Unknown,
}

/// What a token says of its owner; 0 where the process cannot find out (no `/proc`, no descriptor
/// left).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    /// When the process was started: see [`procfs::start_time`].
    pub(crate) started: u64,
    /// When the thread was started: see [`procfs::start_mark`].
    pub(crate) mark: u32,
    /// The program's short name, as `ps` shows it.
    pub(crate) program: [u8; 16],
}

/// Returns this for the calling process and thread.
pub(crate) fn own() -> Own {
    let Some(proc) = Proc::any() else { return Own::default() };
    let Some(stat) = proc.own_stat() else { return Own::default() };
    let offset = identity::time_offset(stat.started, || proc.time_offset());
    let started =
        |stat: Option<Stat>| stat.map_or(0, |stat| procfs::start_time(stat.started, offset));
    let of_process = started(Some(stat));
    let of_thread = if is_main_thread() { of_process } else { started(proc.own_thread_stat()) };
    Own { started: of_process, mark: procfs::start_mark(of_thread), program: stat.name }
}

/// Asks whether the process of that pid and start time (0: not known) exists. The number is of the
/// caller's own pid namespace.
///
/// | evidence | answer |
/// | --- | --- |
/// | `kill(pid, 0)` says `ESRCH` | gone, whatever `hidepid`, the lack of descriptors and time namespaces do |
/// | `/proc/PID/stat`: a zombie, and no other thread that is not released | gone |
/// | the same: another start time, and both are known | gone: another process has the number |
/// | the same start time | alive |
/// | anything else: `ENOENT` by `/proc` too, which `hidepid` feigns | unknown |
pub(crate) fn ask_process(pid: u32, started: u64) -> Answer {
    if !is_number(pid) {
        return Answer::Unknown;
    }
    // SAFETY: no pointers are passed. The number is positive, so this asks after one process and
    // sends no signal.
    let there = unsafe { libc::kill(pid as libc::pid_t, 0) };
    if there == -1 && super::robust::last_errno() == Errno::SRCH {
        return Answer::Gone;
    }
    let Some(proc) = Proc::own() else { return Answer::Unknown };
    let Some(stat) = proc.stat(pid, None) else { return Answer::Unknown };
    // A zombie leader with living threads is a living process. The kernel reads the count after the
    // state: a leader that another thread's `execve` has just put aside counts that thread, or
    // none.
    if stat.state == b'Z' && stat.threads == 1 {
        return Answer::Gone;
    }
    match procfs::start_time(stat.started, proc.time_offset()) {
        now if now == 0 || started == 0 => Answer::Unknown,
        now if procfs::is_same_start(now, started) => Answer::Alive,
        _ => Answer::Gone,
    }
}

/// Asks whether the thread of that number and start mark (0: not known) of that process exists.
///
/// The process may exist without it. If a thread other than the first one calls `execve`, it takes
/// the first one's number, before the kernel looks for its robust locks: those then hold a number
/// that no thread has any more.
pub(crate) fn ask_thread(pid: u32, started: u64, thread: u32, mark: u32) -> Answer {
    let process = ask_process(pid, started);
    if process == Answer::Gone || !is_number(thread) || !is_number(pid) {
        return process;
    }
    // SAFETY: no pointers are passed. Both numbers are positive, so this asks after one thread and
    // sends no signal.
    let there =
        unsafe { libc::syscall(libc::SYS_tgkill, pid as libc::pid_t, thread as libc::pid_t, 0) };
    if there == -1 && super::robust::last_errno() == Errno::SRCH {
        return Answer::Gone;
    }
    let Some(proc) = Proc::own() else { return Answer::Unknown };
    let Some(stat) = proc.stat(pid, Some(thread)) else { return Answer::Unknown };
    // A thread is a zombie only after the kernel has walked its robust list.
    if matches!(stat.state, b'Z' | b'X') {
        return Answer::Gone;
    }
    match procfs::start_mark(procfs::start_time(stat.started, proc.time_offset())) {
        now if now == 0 || mark == 0 => Answer::Unknown,
        now if procfs::is_same_mark(now, mark) => process,
        _ => Answer::Gone,
    }
}

/// Returns whether a thread of that process has the file of that device and inode mapped, so that
/// it can write there; `None` if unknown. The caller has the file mapped.
///
/// If the pid was given out again, the former process writes no more, and it does no harm to look
/// at the new one's mappings.
pub(crate) fn has_mapped(pid: u32, file: (u64, u64)) -> Option<bool> {
    Proc::own()?.has_mapped(pid, file)
}

/// Returns whether that can be a process or thread: a shared word may hold anything, and `kill`
/// takes 0 and negative numbers for groups.
fn is_number(id: u32) -> bool {
    // The kernel's PID_MAX_LIMIT.
    (1..=1 << 22).contains(&id)
}

/// Returns whether `/proc` exists and shows the caller's own pid namespace.
pub(crate) fn has_own_proc() -> bool {
    Proc::own().is_some()
}

/// What is known of a thread by its number, in the caller's pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    /// It exists, as far as can be seen.
    Lives,
    /// It does not exist, or is a zombie.
    Ended,
    /// It is a kernel thread.
    Kernel,
}

/// Looks at a thread by its number. Does not allocate, because real-time threads call it.
pub(crate) fn look_at_thread(thread: u32) -> Numbered {
    const PF_KTHREAD: u32 = 0x0020_0000;
    // SAFETY: no pointers are passed; the call only reads the policy.
    let policy = unsafe { libc::sched_getscheduler(thread as libc::pid_t) };
    if policy == -1 && super::robust::last_errno() == Errno::SRCH {
        return Numbered::Ended;
    }
    // The number still exists; only /proc tells zombies and kernel threads. Without /proc, or with
    // another namespace's: neither.
    match Proc::own().and_then(|proc| proc.stat_of_any(thread)) {
        None => Numbered::Lives,
        Some(stat) if matches!(stat.state, b'Z' | b'X') => Numbered::Ended,
        Some(stat) if stat.flags & PF_KTHREAD != 0 => Numbered::Kernel,
        Some(_) => Numbered::Lives,
    }
}

/// Returns whether this thread runs under a real-time policy, where spinning can keep the thread
/// that it waits for from running.
pub(crate) fn is_real_time() -> bool {
    // SAFETY: no pointers are passed; the call only reads the policy.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy == libc::SCHED_FIFO || policy == libc::SCHED_RR
}

/// Returns how many processors the machine has online. Not how many this thread may use: a thread
/// pinned to one of two processors does well to spin for a thread on the other.
pub(crate) fn processors() -> u32 {
    // SAFETY: no pointers are passed; the call only reads a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(online).unwrap_or(1)
}

/// Returns the effective user's id.
pub(crate) fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the program's short name, at most 15 bytes, as `ps` shows it.
pub(crate) fn program_name() -> [u8; 16] {
    let mut name = [0; 16];
    if let Ok(comm) = fs::read("/proc/self/comm") {
        let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
        let len = comm.len().min(15);
        name[..len].copy_from_slice(&comm[..len]);
    }
    name
}

#[cfg(test)]
mod tests {
    #[test]
    fn three_answers_about_a_process() {
        use super::{Answer, Own, ask_process, ask_thread, process_id, thread_id};
        let (me, Own { started, mark, .. }) = (process_id(), super::own());
        assert_eq!(super::own().program, super::program_name());
        assert_ne!((started, mark), (0, 0), "/proc is there");
        assert_eq!(ask_process(me, started), Answer::Alive);
        assert_eq!(ask_process(me, 0), Answer::Unknown, "taken without a descriptor left");
        assert_eq!(ask_process(me, started + 1_000), Answer::Gone, "another one with that number");
        assert_eq!(ask_process(0x003f_fff0, started), Answer::Gone);
        for nonsense in [0, u32::MAX, 1 << 31, (1 << 22) + 1] {
            assert_eq!(ask_process(nonsense, started), Answer::Unknown);
        }
        assert_eq!(ask_thread(me, started, thread_id(), mark), Answer::Alive);
        assert_eq!(ask_thread(me, started, thread_id(), 0), Answer::Unknown);
        assert_eq!(
            ask_thread(me, started, thread_id(), mark ^ 0x8000),
            Answer::Gone,
            "another one with that number"
        );
        assert_eq!(ask_thread(me, started, 1, mark), Answer::Gone, "of another process");
    }

    #[test]
    fn threads_are_told_apart_by_their_numbers() {
        use super::{Numbered, look_at_thread};
        assert_eq!(look_at_thread(super::thread_id()), Numbered::Lives);
        assert_eq!(look_at_thread(0x003f_fff0), Numbered::Ended);
        if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
            assert_eq!(look_at_thread(2), Numbered::Kernel);
        }
        let mut child = std::process::Command::new("true").spawn().expect("true is there");
        let begun = std::time::Instant::now();
        while look_at_thread(child.id()) != Numbered::Ended {
            assert!(begun.elapsed().as_secs() < 20, "a zombie has ended");
        }
        child.wait().expect("it was a zombie until now");
    }
}
