//! Plain pthread programs, compiled by the system's C compiler, started with the shim or without
//! it.
#![allow(dead_code, reason = "each test program uses its own part of it")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long anything may take that has to happen.
pub const SOON: Duration = Duration::from_secs(60);
/// Says that the calling test is skipped, and why: a line that reaches `cargo xtask test`, which
/// counts it. libtest keeps back what tests print, but not what they write.
pub fn skip(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "skipped: {why}");
}

/// Returns how many times as long everything may take beside what else runs here.
pub fn stretch() -> u32 {
    let average = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running: f64 = average.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(1.0);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    // An average of the last minute is late: twice of it.
    (2.0 * running / processors).clamp(1.0, 20.0) as u32
}

/// How long something must not happen for, to be called a hang: longer than any recheck.
pub const HANG: Duration = Duration::from_millis(1500);

/// Returns the shared library. Cargo builds it before the tests of this package and puts it beside
/// them.
pub fn shim() -> PathBuf {
    let beside = std::env::current_exe().expect("a test has a path");
    let library = beside.with_file_name("liboutlive_pthread.so");
    assert!(
        library.exists(),
        "{} is not there; run `cargo test -p outlive-pthread`",
        library.display()
    );
    library
}

/// Compiles `tests/c/SOURCE`; each test program once.
pub fn compile(compiler: &str, source: &str) -> PathBuf {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let name = format!("{}-{}", source.replace('.', "-"), std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !program.exists() {
        let compiled = Command::new(compiler)
            // Bound at once: a first call is then as long as the next.
            .args(["-O1", "-Wall", "-Werror", "-pthread", "-Wl,-z,now"])
            .arg(&from)
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap_or_else(|error| panic!("{compiler} is needed: {error}"));
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    }
    program
}

/// A test's own folder, with the file in which its locks lie, its domain and its log; gone when it
/// is over.
pub struct Place {
    folder: PathBuf,
    pub with_shim: bool,
    environment: Vec<(&'static str, String)>,
}

impl Place {
    /// Returns where programs run with the shim, or without.
    pub fn new(name: &str, with_shim: bool) -> Place {
        let folder = format!("/dev/shm/outlive-pthread-{}-{name}-{with_shim}", std::process::id());
        let folder = PathBuf::from(folder);
        std::fs::create_dir(&folder).expect("a folder of our own");
        Place { folder, with_shim, environment: Vec::new() }
    }

    /// The same for both, the way without first: what it is to find must be there.
    pub fn without_and_with(name: &str) -> [Place; 2] {
        [Place::new(name, false), Place::new(name, true)]
    }

    pub fn set(mut self, variable: &'static str, value: &str) -> Place {
        self.environment.push((variable, value.to_owned()));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns a command that knows where things are.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_remove("LD_PRELOAD")
            .env("OUTLIVE_DOMAIN", self.path("domain"))
            .stdin(Stdio::null());
        if self.with_shim {
            command.env("LD_PRELOAD", shim()).env("OUTLIVE_PTHREAD_LOG", self.path("log"));
        }
        for (variable, value) in &self.environment {
            command.env(variable, value);
        }
        command
    }

    /// Starts `steps` with these, separated by spaces.
    pub fn start(&self, steps: &str) -> Running {
        let mut command = self.command(&compile("cc", "steps.c"));
        command.arg(self.path("locks")).args(steps.split(' '));
        Running::start(command, steps)
    }

    /// Runs these steps to their end and gives their lines.
    pub fn run(&self, steps: &str) -> String {
        self.start(steps).all_lines()
    }

    /// Returns what the shim has written.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A program of ours that runs; killed, if it still does, when it is dropped.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    what: String,
}

impl Running {
    pub fn start(mut command: Command, what: &str) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("just compiled");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (to, lines) = channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| to.send(line))
        });
        Running { child, lines, what: what.to_owned() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line; it must come soon.
    #[track_caller]
    pub fn line(&self) -> String {
        match self.lines.recv_timeout(SOON) {
            Ok(line) => line,
            Err(error) => panic!("`{}` said nothing for {SOON:?}: {error}", self.what),
        }
    }

    /// Reads on until it says this.
    #[track_caller]
    pub fn until(&self, wanted: &str) {
        while self.line() != wanted {}
    }

    /// It must not say anything now.
    #[track_caller]
    pub fn hangs(&self) {
        match self.lines.recv_timeout(HANG) {
            Err(RecvTimeoutError::Timeout) => {}
            said => panic!("`{}` was to hang and went on: {said:?}", self.what),
        }
    }

    /// It must not go on: it hangs, or ends badly.
    #[track_caller]
    pub fn hangs_or_fails(self) {
        match self.lines.recv_timeout(HANG) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                assert!(!self.ends().success(), "it was to fail")
            }
            Ok(said) => panic!("`{}` was to fail and went on: {said}", self.what),
        }
    }

    /// Waits until it sleeps in the kernel on a futex.
    #[track_caller]
    pub fn falls_asleep(&self) {
        let by = Instant::now() + SOON;
        loop {
            let call = std::fs::read_to_string(format!("/proc/{}/syscall", self.pid()))
                .unwrap_or_default();
            let number = call.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(-1);
            if number == libc::SYS_futex || number == libc::SYS_futex_waitv {
                return;
            }
            assert!(Instant::now() < by, "`{}` does not sleep: {call}", self.what);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// SIGKILL, and it is over.
    pub fn kill(mut self) {
        self.child.kill().expect("ours");
        self.child.wait().expect("ours");
    }

    /// Everything that it says until it ends, which must be soon, and well.
    #[track_caller]
    pub fn all_lines(mut self) -> String {
        let by = Instant::now() + SOON;
        let mut all = Vec::new();
        loop {
            match self.lines.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(line) => all.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("`{}` did not end; it said {all:?}", self.what)
                }
            }
        }
        let status = self.child.wait().expect("ours");
        assert!(status.success(), "`{}`: {status}; it said {all:?}", self.what);
        all.join(", ")
    }

    /// Returns the last line that it says before it ends. It keeps its own deadlines,
    /// within ten minutes of a quiet machine.
    pub fn last_line(&self) -> String {
        let mut last = String::new();
        let by = Instant::now() + Duration::from_secs(600) * stretch();
        while let Ok(line) = self.lines.recv_timeout(by.saturating_duration_since(Instant::now())) {
            last = line;
        }
        last
    }

    /// How it ended.
    pub fn ends(mut self) -> std::process::ExitStatus {
        let by = Instant::now() + SOON;
        while Instant::now() < by {
            if let Some(status) = self.child.try_wait().expect("ours") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("`{}` did not end", self.what);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
