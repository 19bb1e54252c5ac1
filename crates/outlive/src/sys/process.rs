//! Facts about processes and threads.

use std::fs;
use std::os::unix::fs::MetadataExt;

pub(crate) use super::procfs::mapped_file;
use super::procfs::{self, Proc, Stat};
use super::{Errno, identity};

/// The calling thread's id in its own pid namespace.
pub(crate) fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// The calling process's id in its own pid namespace.
pub(crate) fn process_id() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// Whether the caller is its process's first thread.
pub(crate) fn is_main_thread() -> bool {
    thread_id() == process_id()
}

/// Which pid namespace this process lives in: equal numbers name the same thread only within one.
pub(crate) fn pid_namespace() -> Result<u32, Errno> {
    // Inode numbers of namespaces are 32 bits wide in the kernel.
    match fs::metadata("/proc/self/ns/pid") {
        Ok(meta) => Ok(meta.ino() as u32),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(identity::NAMELESS),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

/// Whether a process or thread is still there. Only [`Answer::Gone`] may have consequences for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is there, and it is the same one.
    Alive,
    /// It is not there, or only its corpse: it executes no more instructions of its own.
    Gone,
    /// Nothing tells. It may be alive.
    Unknown,
}

/// What a token says of its owner; 0 where it cannot be told (no `/proc`, no descriptor left).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    /// When the process was started: see [`procfs::start_time`].
    pub(crate) started: u64,
    /// When the thread was: see [`procfs::start_mark`].
    pub(crate) mark: u32,
    /// The program's short name, as `ps` shows it.
    pub(crate) program: [u8; 16],
}

/// About the calling process and thread.
pub(crate) fn own() -> Own {
    let Some(proc) = Proc::any() else { return Own::default() };
    let Some(stat) = proc.own_stat() else { return Own::default() };
    let offset = identity::time_offset(stat.started, || proc.time_offset());
    let started = |stat: Option<Stat>| stat.map_or(0, |stat| procfs::start_time(stat.started, offset));
    let of_process = started(Some(stat));
    let of_thread = if is_main_thread() { of_process } else { started(proc.own_thread_stat()) };
    Own { started: of_process, mark: procfs::start_mark(of_thread), program: stat.name }
}

/// Whether the process of that pid and start time (0: not known) is there. The number is of the caller's own pid namespace.
///
/// | evidence | answer |
/// | --- | --- |
/// | `kill(pid, 0)` says `ESRCH` | gone: `hidepid`, a lack of descriptors and time namespaces have no part in it |
/// | `/proc/PID/stat`: a zombie, and no other thread that is not released | gone |
/// | the same: another start time, and both are known | gone: another process has the number |
/// | the same start time | alive |
/// | anything else: `ENOENT` by `/proc` too, which `hidepid` feigns | unknown |
pub(crate) fn ask_process(pid: u32, started: u64) -> Answer {
    if !is_number(pid) {
        return Answer::Unknown;
    }
    // SAFETY: no pointers are passed. The number is positive, so this asks after one process and signals nobody.
    let there = unsafe { libc::kill(pid as libc::pid_t, 0) };
    if there == -1 && super::robust::last_errno() == Errno::SRCH {
        return Answer::Gone;
    }
    let Some(proc) = Proc::own() else { return Answer::Unknown };
    let Some(stat) = proc.stat(pid, None) else { return Answer::Unknown };
    // A zombie whose siblings live is a living process. The count is taken after the state: a leader that another thread's
    // `execve` has just put aside counts that thread, or nobody.
    if stat.state == b'Z' && stat.threads == 1 {
        return Answer::Gone;
    }
    match procfs::start_time(stat.started, proc.time_offset()) {
        now if now == 0 || started == 0 => Answer::Unknown,
        now if procfs::is_same_start(now, started) => Answer::Alive,
        _ => Answer::Gone,
    }
}

/// Whether the thread of that number and start mark (0: not known) of that process is there.
///
/// A process may be there without it. Of a thread that calls `execve` and is not the first one, its process takes the first
/// one's number instead, before the kernel looks for its robust locks: those bear a number that no thread has any more.
pub(crate) fn ask_thread(pid: u32, started: u64, thread: u32, mark: u32) -> Answer {
    let process = ask_process(pid, started);
    if process == Answer::Gone || !is_number(thread) || !is_number(pid) {
        return process;
    }
    // SAFETY: no pointers are passed. Both numbers are positive, so this asks after one thread and signals nobody.
    let there = unsafe { libc::syscall(libc::SYS_tgkill, pid as libc::pid_t, thread as libc::pid_t, 0) };
    if there == -1 && super::robust::last_errno() == Errno::SRCH {
        return Answer::Gone;
    }
    let Some(proc) = Proc::own() else { return Answer::Unknown };
    let Some(stat) = proc.stat(pid, Some(thread)) else { return Answer::Unknown };
    // A thread is one from the moment when its robust list has been walked.
    if matches!(stat.state, b'Z' | b'X') {
        return Answer::Gone;
    }
    match procfs::start_mark(procfs::start_time(stat.started, proc.time_offset())) {
        now if now == 0 || mark == 0 => Answer::Unknown,
        now if procfs::is_same_mark(now, mark) => process,
        _ => Answer::Gone,
    }
}

/// Whether a thread of that process has the file of that device and inode mapped, so that it can write there; `None` where that
/// cannot be told. The caller has it mapped.
///
/// A pid that has been given out anew says of the former process that it writes no more: this one's mappings may be asked.
pub(crate) fn has_mapped(pid: u32, file: (u64, u64)) -> Option<bool> {
    Proc::own()?.has_mapped(pid, file)
}

/// Whether that can be a process or thread: what a shared word says may be anything, and `kill` takes 0 and negative numbers
/// for groups.
fn is_number(id: u32) -> bool {
    // The kernel's PID_MAX_LIMIT.
    (1..=1 << 22).contains(&id)
}

/// Whether `/proc` is there and shows the caller's own pid namespace.
pub(crate) fn has_own_proc() -> bool {
    Proc::own().is_some()
}

/// What is known of a thread by its number, in the caller's pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    /// It is there, as far as can be seen.
    Lives,
    /// It is not there, or waits to be buried.
    Ended,
    /// It is the kernel's own.
    Kernel,
}

/// Does not allocate: real-time threads ask.
pub(crate) fn look_at_thread(thread: u32) -> Numbered {
    const PF_KTHREAD: u32 = 0x0020_0000;
    // SAFETY: no pointers are passed.
    let policy = unsafe { libc::sched_getscheduler(thread as libc::pid_t) };
    if policy == -1 && super::robust::last_errno() == Errno::SRCH {
        return Numbered::Ended;
    }
    // It has a number still; only /proc tells the dead and the kernel's. Where that is missing or another's: neither.
    match Proc::own().and_then(|proc| proc.stat_of_any(thread)) {
        None => Numbered::Lives,
        Some(stat) if matches!(stat.state, b'Z' | b'X') => Numbered::Ended,
        Some(stat) if stat.flags & PF_KTHREAD != 0 => Numbered::Kernel,
        Some(_) => Numbered::Lives,
    }
}

/// Whether this thread runs under a real-time policy, where spinning can keep the very thread that is waited for from
/// running.
pub(crate) fn is_real_time() -> bool {
    // SAFETY: no pointers are passed.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy == libc::SCHED_FIFO || policy == libc::SCHED_RR
}

/// How many processors the machine has running. Not how many this thread may use: pinned to one of two, it does well to
/// spin for somebody on the other.
pub(crate) fn processors() -> u32 {
    // SAFETY: no pointers are passed.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(online).unwrap_or(1)
}

/// The effective user.
pub(crate) fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The program's short name, at most 15 bytes, as `ps` shows it.
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
        assert_eq!(ask_thread(me, started, thread_id(), mark ^ 0x8000), Answer::Gone, "another one with that number");
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
