//! Processes from outside: which process a pid is, whether it lives, and waiting for its end.
//!
//! A pid alone may name another process by now; a pid with its start time names one process for
//! good.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::signals::wait_readable;

/// Returns when a process was started, in clock ticks since boot; `None` when there is no such
/// process.
pub fn start_time(pid: u32) -> Option<u64> {
    stat_field(pid, 22)?.parse().ok()
}

/// Returns the program's name, as `ps` shows it.
pub fn program(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// Returns its command line as typed, in one line, without what a terminal would obey; its
/// beginning, if it is long.
pub fn command_line(pid: u32) -> Option<String> {
    const SHOWN: usize = 120;
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = words.strip_suffix(b"\0").unwrap_or(&words);
    if words.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(words).replace('\0', " ").escape_debug().to_string();
    let text = text.replace("\\'", "'").replace("\\\"", "\"");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => Some(format!("{}…", &text[..end])),
        None => Some(text),
    }
}

/// Returns the processes that it has started and not waited for; none where the kernel does not
/// list them.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    lists
        .iter()
        .flat_map(|list| list.split(' '))
        .filter_map(|pid| pid.trim().parse().ok())
        .collect()
}

/// Returns how long ago it was started.
pub fn age(pid: u32) -> Option<Duration> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    let started = start_time(pid)? as f64 / rustix::param::clock_ticks_per_second() as f64;
    Some(Duration::from_secs_f64((uptime - started).max(0.0)))
}

/// Returns which pid namespace this process lives in: pids of another one mean nothing here.
pub fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino())
}

/// Returns a field of `/proc/PID/stat`, numbered as in proc_pid_stat(5).
fn stat_field(pid: u32, number: usize) -> Option<String> {
    field(&fs::read(format!("/proc/{pid}/stat")).ok()?, number)
}

fn field(stat: &[u8], number: usize) -> Option<String> {
    // The program's name is in brackets and may hold any bytes: count from the last bracket, behind
    // which is field 3.
    let bracket = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = String::from_utf8_lossy(stat.get(bracket + 2..)?);
    fields.split_ascii_whitespace().nth(number - 3).map(str::to_owned)
}

/// A process that can be waited for, also when it is not a child of this one.
pub struct Process {
    fd: OwnedFd,
}

impl Process {
    /// Returns the process of that pid, if there is one. With a start time (0: not known): that
    /// very one, as far as can be told; one whose start time cannot be read (`hidepid`, no
    /// descriptor left) is there.
    pub fn find(pid: u32, started: Option<u64>) -> io::Result<Option<Process>> {
        let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let fd = match pidfd_open(id, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            // A thread's id that is no process's.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // Compared after it was opened: from here on the descriptor and the start time speak of the
        // same process.
        if let (Some(started), Some(now)) =
            (started.filter(|&started| started != 0), start_time(pid))
            && started != now
        {
            return Ok(None);
        }
        Ok(Some(Process { fd }))
    }

    /// Waits for its end. False: the deadline came first.
    pub fn wait(&self, deadline: Option<Instant>) -> io::Result<bool> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if wait_readable(&[self.fd.as_fd()], left)?[0] {
                return Ok(true);
            }
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
        }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Has the kernel kill this process when the thread that started it ends. False: it has ended
/// already.
pub fn die_with_parent(parent: u32) -> io::Result<bool> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Asked after the request took effect: otherwise the child would never notice a parent that
    // died before.
    Ok(rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().get() as u32 == parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_nobody_is_not() {
        let me = std::process::id();
        assert!(start_time(me).is_some());
        assert!(Process::find(me, start_time(me)).expect("asked").is_some());
        assert!(Process::find(me, Some(1)).expect("asked").is_none());
        assert!(Process::find(u32::MAX, None).expect("asked").is_none());
    }

    #[test]
    fn brackets_in_a_name_do_not_confuse() {
        assert_eq!(field(b"7 (a) b) c) S 1 7 7", 3).as_deref(), Some("S"));
        assert_eq!(
            field(b"7 (a) b) \xd0) S 1 7 7", 4).as_deref(),
            Some("1"),
            "cut inside a letter"
        );
        assert_eq!(field(b"", 3), None);
    }

    #[test]
    fn a_zombie_has_ended() {
        let mut child = std::process::Command::new("true").spawn().expect("started");
        let process = Process::find(child.id(), None).expect("asked").expect("not waited for yet");
        assert!(process.wait(Some(Instant::now() + Duration::from_secs(30))).expect("waited"));
        child.wait().expect("reaped");
    }
}
