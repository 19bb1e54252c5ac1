//! Facts about processes and threads.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::Errno;

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
        // Without /proc nothing tells namespaces apart: they all share this number, which no real one has.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(u32::MAX),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

/// When a process was started, in clock ticks since boot; `None` when there is no such process, not even a zombie.
///
/// With the pid it names a process for good: pids are used again, pairs are not.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    start_time_in(&format!("/proc/{pid}/stat"))
}

/// The calling process's own; 0 without /proc.
pub(crate) fn own_start_time() -> u64 {
    start_time_in("/proc/self/stat").unwrap_or(0)
}

fn start_time_in(path: &str) -> Option<u64> {
    let stat = fs::read_to_string(path).ok()?;
    // The program's name stands in brackets and may hold anything: count from the last bracket. State is the 3rd field,
    // start time the 22nd (proc_pid_stat(5)).
    stat.get(stat.rfind(')')? + 2..)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether `/proc` is there and shows the caller's own pid namespace.
pub(crate) fn has_own_proc() -> bool {
    fs::read_link("/proc/self").is_ok_and(|target| target.to_str() == Some(&process_id().to_string()))
}

/// Whether the process of that pid and start time has ended: not there, or a zombie without living threads. (A zombie
/// *main thread* with living siblings is a living process.) Asked only when [`has_own_proc`].
pub(crate) fn is_gone(pid: u32, started: u64) -> bool {
    if start_time(pid) != Some(started) {
        return true;
    }
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    tasks.flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rfind(')').and_then(|at| stat.get(at + 2..at + 3));
        matches!(state, Some("Z" | "X") | None)
    })
}

/// Whether a thread of that process has the file of that device and inode mapped, so that it can write there. Where that
/// cannot be told: yes. Asked only when [`has_own_proc`].
///
/// The threads one by one: a process that ends is taken apart thread by thread, and its first one may be the first to go.
pub(crate) fn has_mapped(pid: u32, device: u64, inode: u64) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return start_time(pid).is_some();
    };
    tasks.flatten().any(|task| match fs::read_to_string(task.path().join("maps")) {
        Ok(maps) => maps.lines().filter_map(mapped_file).any(|file| file == (device, inode)),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    })
}

/// Device and inode of a line of `/proc/PID/maps`: `address perms offset major:minor inode path`.
pub(crate) fn mapped_file(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_ascii_whitespace().skip(3);
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode: u64 = fields.next()?.parse().ok().filter(|&inode| inode != 0)?;
    let major = u32::from_str_radix(major, 16).ok()?;
    let minor = u32::from_str_radix(minor, 16).ok()?;
    Some((rustix::fs::makedev(major, minor), inode))
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
    // SAFETY: no pointers are passed.
    let policy = unsafe { libc::sched_getscheduler(thread as libc::pid_t) };
    if policy == -1 && super::robust::last_errno() == Errno::SRCH {
        return Numbered::Ended;
    }
    // It has a number still; only /proc tells the dead and the kernel's. Where that is missing or another's: neither.
    read_stat(thread).unwrap_or(Numbered::Lives)
}

/// From `/proc/N/stat` (proc_pid_stat(5)): the state is the 3rd field, the flags are the 9th.
fn read_stat(thread: u32) -> Option<Numbered> {
    use std::io::Write;
    const PF_KTHREAD: u32 = 0x0020_0000;
    // The link says the caller's own number, or this is not the caller's /proc.
    let mut own = [0u8; 16];
    let length = rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self", &mut own).ok()?;
    let mut number = [0u8; 16];
    let mut rest = &mut number[..];
    write!(rest, "{}", process_id()).ok()?;
    let left = rest.len();
    if own[..length] != number[..number.len() - left] {
        return None;
    }
    let mut path = [0u8; 32];
    write!(&mut path[..], "/proc/{thread}/stat\0").ok()?;
    let path = std::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()?;
    let mut stat = [0u8; 192];
    let read = rustix::io::read(file, &mut stat).ok()?;
    let stat = &stat[..read];
    // The program's name stands in brackets and may hold anything: count from the last bracket.
    let bracket = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = stat.get(bracket + 2..)?.split(|byte| *byte == b' ');
    let state = fields.next()?;
    let flags: u32 = std::str::from_utf8(fields.nth(5)?).ok()?.parse().ok()?;
    Some(match state {
        b"Z" | b"X" => Numbered::Ended,
        _ if flags & PF_KTHREAD != 0 => Numbered::Kernel,
        _ => Numbered::Lives,
    })
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
    fn a_process_has_one_start_time() {
        let me = super::process_id();
        assert!(super::start_time(me).is_some());
        assert_eq!(super::start_time(me), super::start_time(me));
        assert_eq!(super::start_time(u32::MAX), None);
    }

    #[test]
    fn threads_are_told_apart_by_their_numbers() {
        use super::{Numbered, look_at_thread};
        assert_eq!(look_at_thread(super::thread_id()), Numbered::Lives);
        assert_eq!(look_at_thread(0x3fff_fff0), Numbered::Ended);
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
