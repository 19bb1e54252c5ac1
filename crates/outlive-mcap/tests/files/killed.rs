//! The writer is killed before and after each of its system calls, and at random.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use outlive_mcap::{Compression, Writer};

use crate::drive::{Folder, check_finished, options, position, put};
use crate::independent;
use crate::victim::{FILE, GROUPS, TRACED};

/// A victim, which goes with the test whatever happens.
struct Victim {
    child: Child,
    out: BufReader<ChildStderr>,
    /// A thread of it that this one traces.
    thread: Option<i32>,
}

impl Victim {
    fn start(path: &Path, groups: u64, traced: bool) -> Victim {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "victim::victim", "--nocapture"]);
        command.env(FILE, path).env(GROUPS, groups.to_string());
        if traced {
            command.env(TRACED, "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("this program runs");
        let out = BufReader::new(child.stderr.take().expect("a pipe"));
        Victim { child, out, thread: None }
    }

    /// Returns the next number that it told, or `None` at its end.
    fn told(&mut self) -> Option<u64> {
        let mut line = String::new();
        while self.out.read_line(&mut line).is_ok_and(|read| read > 0) {
            // A death may cut the last line.
            if let Some(number) = line.strip_prefix('#').and_then(|text| text.strip_suffix('\n')) {
                return number.parse().ok();
            }
            line.clear();
        }
        None
    }

    /// Kills it, and returns the last number that it told.
    fn kill(&mut self) -> u64 {
        self.end();
        let mut last = 0;
        while let Some(number) = self.told() {
            last = number;
        }
        last
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        if let Some(thread) = self.thread.take() {
            // The process is not gone before the tracer of its thread has seen that one's end.
            while libc::WIFSTOPPED(wait_for(thread)) {}
        }
        let _ = self.child.wait();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for a traced thread, for a bounded time; returns its status.
fn wait_for(thread: i32) -> i32 {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let mut status = 0;
        // SAFETY: `status` is this function's own.
        let waited = unsafe { libc::waitpid(thread, &mut status, libc::__WALL | libc::WNOHANG) };
        if waited == thread {
            return status;
        }
        assert!(waited == 0 && Instant::now() < until, "the victim's thread {thread} is lost");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Lets a victim run to its stop number `stop` at a system call (they alternate: before and after
/// it), and kills it there. Returns the last message that it told, or `None` if it was through.
fn kill_at(path: &Path, stop: u32) -> Option<u64> {
    let mut victim = Victim::start(path, 2, true);
    let thread = victim.told().expect("the victim's thread") as i32;
    victim.thread = Some(thread);
    let mut status = wait_for(thread);
    assert!(libc::WIFSTOPPED(status), "{status:#x}");
    for _ in 0..=stop {
        // SAFETY: the thread is traced by this one, and stopped.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, thread, 0, 0) };
        status = wait_for(thread);
        if !libc::WIFSTOPPED(status) {
            victim.thread = None;
            return None;
        }
    }
    Some(victim.kill())
}

/// Checks the file of a dead victim: what it told is in it, and it is continued and finished.
fn check(path: &Path, told: u64) -> u64 {
    let (mut writer, tail) = match path.exists() {
        true => Writer::<Vec<u8>>::resume(path, options(Compression::None)).expect("a file"),
        false => {
            assert_eq!(told, 0);
            return 0;
        }
    };
    let last = position(&tail.positions);
    assert!(last >= told, "{told} messages were in the file, and {last} are");
    put(&mut writer, last + 1).expect("room");
    writer.finish(&crate::drive::positions(last + 1)).expect("room");
    drop(writer);
    check_finished(path, last + 1);
    last
}

#[test]
fn killed_at_each_system_call() {
    let folder = Folder::new();
    let python = independent::reader("killed_at_each_system_call");
    let mut stops = 0;
    for stop in 0..2000 {
        let path = folder.file(&format!("{stop}.mcap"));
        let first = kill_at(&path, stop);
        if let (Some(python), true) = (&python, path.exists()) {
            python.check_beginning(&path, first.unwrap_or(10));
        }
        // The second victim resumes what the first left, and is killed there, too.
        let second = kill_at(&path, stop);
        let told = second.or(first);
        check(&path, told.unwrap_or(0).max(first.unwrap_or(10)));
        if let (Some(python), true) = (&python, path.exists()) {
            python.check_finished(&path);
        }
        let _ = std::fs::remove_file(&path);
        if first.is_none() {
            stops = stop;
            break;
        }
    }
    println!("killed at {stops} stops");
    assert!(stops > 20, "the victim makes more system calls than {stops}");
}

#[test]
fn killed_at_random() {
    let folder = Folder::new();
    let path = folder.file("random.mcap");
    // Steps of a generator whose only merit is that it spreads.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut told = 0;
    for _ in 0..25 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut victim = Victim::start(&path, u64::MAX, false);
        // It has begun, and then it lives for a while.
        told = victim.told().unwrap_or(told).max(told);
        std::thread::sleep(Duration::from_micros(random % 3000));
        told = victim.kill().max(told);
        let (_, tail) =
            Writer::<Vec<u8>>::resume(&path, options(Compression::None)).expect("a file");
        let last = position(&tail.positions);
        assert!(last >= told, "{told} messages were in the file, and {last} are");
    }
    check(&path, told);
}
