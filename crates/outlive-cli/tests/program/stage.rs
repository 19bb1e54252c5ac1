//! A domain for one test, and processes of the program that work in it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

/// No step takes longer, unless something hangs.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A folder in memory with a domain in it.
pub struct Stage {
    folder: PathBuf,
}

impl Stage {
    /// Returns a fresh one.
    pub fn new() -> Stage {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() { shm.to_path_buf() } else { std::env::temp_dir() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = base.join(format!("outlive-test-cli-{}-{number}", std::process::id()));
        fs::create_dir(&folder).expect("a folder for the test");
        Stage { folder }
    }

    /// Returns a path beside the domain.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the domain's folder.
    pub fn domain(&self) -> PathBuf {
        self.path("domain")
    }

    /// Returns the program with these arguments, not started yet.
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_outlive"), args)
    }

    /// Returns the program, as it lies there, with these arguments, not started yet.
    pub fn command_of<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .env("OUTLIVE_DOMAIN", self.domain())
            .env_remove("TERM")
            .current_dir(&self.folder);
        // SAFETY: `signal` is async-signal-safe and allocates nothing.
        unsafe { command.pre_exec(heed_interrupts) };
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Ended {
        self.start(args).end()
    }

    /// Runs it to its end with something to read.
    pub fn feed(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut running = self.start(args);
        running.write(input);
        running.end()
    }

    /// Starts it; its input stays open.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::new(self.command(args))
    }

    /// Returns what `ls --json` says of a name.
    pub fn entry(&self, name: &str) -> Option<serde_json::Value> {
        let listing = self.run(&["ls", "--json"]);
        // The domain may not be there yet.
        let listing = (listing.code() == 0).then(|| listing.json())?;
        listing["entries"].as_array()?.iter().find(|entry| entry["name"] == name).cloned()
    }
}

/// Tests that run in a shell's background have inherited an ignored SIGINT, and below `nohup` an
/// ignored SIGHUP, which the program would go on to ignore.
fn heed_interrupts() -> std::io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGHUP] {
        // SAFETY: no handler is installed, the default action is set.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    Ok(())
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A process of the program, its output being read as it comes. Killed if it is dropped.
pub struct Running {
    pub child: Child,
    input: Option<ChildStdin>,
    out: Option<JoinHandle<Vec<u8>>>,
    err: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Starts a command with all three streams piped, save those that were set before.
    pub fn new(mut command: Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::with_own_streams(command);
        running.out = running.child.stdout.take().map(read);
        running
    }

    /// Starts a command whose output no process reads unless the test does.
    pub fn with_own_streams(mut command: Command) -> Running {
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take();
        let err = child.stderr.take().map(read);
        Running { child, input, out: None, err }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives it something to read. It may have ended already.
    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("its input is open");
        let _ = input.write_all(bytes).and_then(|()| input.flush());
    }

    pub fn signal(&self, signal: i32) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
        rustix::process::kill_process(pid, signal).expect("it is there");
    }

    pub fn kill(&self) {
        self.signal(9);
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns whether it sleeps in a wait for something: it reads the signals that ask it to end,
    /// or waits for descriptors.
    pub fn is_waiting(&self) -> bool {
        let Ok(status) = fs::read_to_string(format!("/proc/{}/status", self.pid())) else {
            return false;
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let blocked = u64::from_str_radix(&field("SigBlk:"), 16).unwrap_or(0);
        let where_to = fs::read_to_string(format!("/proc/{}/wchan", self.pid()));
        let polls = where_to.is_ok_and(|name| name.contains("poll"));
        let is_sleeping = field("State:").starts_with('S');
        is_sleeping && (polls || blocked & (1 << (libc::SIGTERM - 1)) != 0)
    }

    /// Returns whether a signal has come that it has not read.
    pub fn is_pending(&self, signal: i32) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let pending = status.lines().filter_map(|line| {
            line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))
        });
        let mut sets = pending.filter_map(|set| u64::from_str_radix(set.trim(), 16).ok());
        sets.any(|set| set & (1 << (signal - 1)) != 0)
    }

    /// Closes its input and waits for its end.
    pub fn end(mut self) -> Ended {
        drop(self.input.take());
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            match self.child.try_wait().expect("it is our child") {
                Some(status) => break status,
                None if Instant::now() > deadline => panic!("process {} hangs", self.pid()),
                None => sleep(Duration::from_millis(2)),
            }
        };
        let text = |reader: Option<JoinHandle<Vec<u8>>>| {
            reader.map_or_else(Vec::new, |reader| reader.join().expect("its output was read"))
        };
        let (out, err) = (text(self.out.take()), text(self.err.take()));
        Ended { status, out, err: String::from_utf8_lossy(&err).into_owned() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn read(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// How a process ended.
pub struct Ended {
    status: ExitStatus,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ended {
    /// Returns its exit code; a signal is shown as a negative number.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| -self.status.signal().unwrap_or(0))
    }

    /// Insists on an exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code(), code, "stdout: {}\nstderr: {}", self.text(), self.err);
        self
    }

    /// Insists that it says something on standard error.
    #[track_caller]
    pub fn says(self, what: &str) -> Ended {
        assert!(self.err.contains(what), "'{what}' is not in: {}", self.err);
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out)
            .unwrap_or_else(|error| panic!("{error} in {}\n{}", self.text(), self.err))
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "still not so: {what}");
        sleep(Duration::from_millis(3));
    }
}

/// Returns the next line of a program's output, waited for.
#[track_caller]
pub fn line(out: &mut BufReader<ChildStdout>) -> String {
    if out.buffer().is_empty() {
        let mut ready = [PollFd::new(out.get_ref(), PollFlags::IN)];
        let ready = poll(&mut ready, Some(&LIMIT.try_into().expect("short"))).expect("polls");
        assert!(ready > 0, "no line comes");
    }
    let mut line = String::new();
    out.read_line(&mut line).expect("read");
    line
}

/// Returns whether a process is there that has not ended.
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rfind(')').and_then(|at| stat.get(at + 2..at + 3));
    !matches!(state, Some("Z" | "X") | None)
}

/// Says that the calling test is skipped, and why: a line that reaches `cargo xtask test`, which
/// counts it. libtest keeps back what tests print, but not what they write.
pub fn skip(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "skipped: {why}");
}
