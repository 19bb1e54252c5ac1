//! Aeron between two processes of one machine: Java programs (`aeron/Messages.java`) that the
//! benchmark compiles and starts when the first row is asked for, and stops by signal between its
//! turns, so that they take nothing from the others'.
//!
//! Its messages pass through memory that both map, not through its media driver, which only
//! keeps the connections. It wakes no receiver: in its sleeping rows a receiver that finds nothing
//! parks for up to 50 µs, as its documents offer.

use super::{Shape, Wait};
use crate::pubsub::flow::{Latencies, figure};
use outlive_bench::Error;
use outlive_bench::harness::clock;
use outlive_bench::harness::round::{Contender, Figure, Stage};
use outlive_bench::harness::scratch::Scratch;
use outlive_bench::harness::shared::{Board, Shared};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::{Rc, Weak};
use std::time::Duration;
use std::{env, fs, io, mem};

const SOURCE: &str = include_str!("../../aeron/Messages.java");
const HOW: &str = "not installed: a JDK (Debian: openjdk-17-jdk-headless), and in proof/peers mvn -f aeron \
    dependency:copy-dependencies, or AERON_JAR=FILE";
/// It is stopped between turns, and must not be called dead for that.
const TIMEOUTS: [&str; 4] = [
    "-Daeron.client.liveness.timeout=3600000000000",
    "-Daeron.publication.unblock.timeout=7200000000000",
    "-Daeron.driver.timeout=3600000",
    "-Daeron.timer.interval=1000000000",
];
/// What its documents recommend for latency.
const OPTIONS: [&str; 8] = [
    "-Xms64m",
    "-Xmx256m",
    "-Dagrona.disable.bounds.checks=true",
    "-XX:+UseParallelGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:GuaranteedSafepointInterval=300000",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
];
/// A program of Java's has started, and compiled what it runs, by then.
const START_LIMIT: Duration = Duration::from_secs(30);

/// What a row does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AeronTask {
    /// To and fro.
    Latency {
        /// Whether every byte is written and read.
        every_byte: bool,
    },
    /// One way, at full rate.
    Rate,
}

/// Where its classes are: the library's and ours, whose folder goes with the last row.
struct Classes {
    jar: PathBuf,
    ours: Scratch,
}

/// Returns the classes: compiled once while any row lives, or once found impossible.
fn classes() -> Result<Rc<Classes>, String> {
    thread_local! {
        static CLASSES: RefCell<Result<Weak<Classes>, String>> = const { RefCell::new(Ok(Weak::new())) };
    }
    CLASSES.with_borrow_mut(|classes| {
        if let Some(made) = classes.as_ref().map_err(Clone::clone)?.upgrade() {
            return Ok(made);
        }
        let made = compile().map(Rc::new);
        *classes = made.as_ref().map(Rc::downgrade).map_err(Clone::clone);
        made
    })
}

fn find_jar() -> Option<PathBuf> {
    if let Some(jar) = env::var_os("AERON_JAR") {
        return Some(jar.into());
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("aeron/lib");
    let jars = fs::read_dir(lib).ok()?.flatten().map(|file| file.path());
    jars.filter(|path| path.extension().is_some_and(|extension| extension == "jar")).max()
}

fn compile() -> Result<Classes, String> {
    let jar = find_jar().ok_or(HOW)?;
    let ours = Scratch::under(&env::temp_dir()).map_err(|error| error.to_string())?;
    let source = ours.path().join("Messages.java");
    fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let compiled = Command::new("javac")
        .args(["-nowarn", "-cp"])
        .arg(&jar)
        .arg("-d")
        .args([ours.path(), &source])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match compiled {
        Ok(status) if status.success() => Ok(Classes { jar, ours }),
        _ => Err(HOW.into()),
    }
}

/// A row.
pub(crate) struct Aeron {
    name: &'static str,
    shape: Shape,
    task: AeronTask,
    classes: Rc<Classes>,
    pair: Option<Pair>,
}

impl Aeron {
    /// The rows' name, before the size.
    pub const NAME: &'static str = "aeron";

    /// Returns a row, or why there is none.
    pub fn new(name: &'static str, shape: Shape, task: AeronTask) -> Result<Self, String> {
        let classes = classes()?;
        Ok(Self { name, shape, task, classes, pair: None })
    }
}

/// The two processes; the first has the driver.
struct Pair {
    first: Process,
    second: Process,
    scratch: Scratch,
}

struct Process {
    child: Child,
    orders: ChildStdin,
    told: ChildStdout,
}

impl Process {
    fn start(
        classes: &Classes,
        role: &str,
        folder: &Path,
        shape: Shape,
        every_byte: bool,
    ) -> Result<Self, Error> {
        let mut command = Command::new("java");
        command
            .args(OPTIONS)
            .args(TIMEOUTS)
            .arg("-cp")
            .arg(format!("{}:{}", classes.jar.display(), classes.ours.path().display()))
            .args(["Messages", role])
            .arg(folder.join("driver"))
            .arg(shape.bytes.to_string())
            .arg(every_byte.to_string())
            .arg(if shape.wait == Wait::Busy { "busy" } else { "block" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // SAFETY: prctl is safe to call after a fork; it touches no memory of ours.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            })
        };
        let mut child =
            command.spawn().map_err(|source| Error::System { doing: "starting java", source })?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(told)) => Ok(Self { child, orders, told }),
            _ => Err(Error::Child("a started java has no pipes".into())),
        }
    }

    /// Waits for a line.
    fn expect(&mut self, word: &str, limit: Duration) -> Result<(), Error> {
        let end = clock::now() + limit.as_nanos() as u64;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            outlive_bench::harness::interrupt::check()?;
            if clock::now() > end {
                return Err(Error::TimedOut(format!("aeron's '{word}'")));
            }
            let mut poll =
                libc::pollfd { fd: self.told.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd.
            if unsafe { libc::poll(&mut poll, 1, 100) } > 0 {
                let mut byte = [0];
                match self.told.read(&mut byte) {
                    Ok(1) => line.push(byte[0]),
                    _ => {
                        return Err(Error::Child(format!("aeron's process ended before '{word}'")));
                    }
                }
            }
        }
        if line.trim_ascii_end() == word.as_bytes() {
            Ok(())
        } else {
            Err(Error::Child(format!(
                "aeron said '{}', not '{word}'",
                String::from_utf8_lossy(&line).trim_end()
            )))
        }
    }

    fn order(&mut self, operations: u64, file: &Path) -> Result<(), Error> {
        let told = writeln!(self.orders, "{operations} {}", file.display());
        told.map_err(|source| Error::System { doing: "telling java what to do", source })
    }

    fn signal(&self, signal: i32) {
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    /// Pins the thread that measures.
    fn pin(&self, core: Option<usize>) -> Result<(), Error> {
        let Some(core) = core else { return Ok(()) };
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let tasks =
            tasks.map_err(|source| Error::System { doing: "listing java's threads", source })?;
        for task in tasks.flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let id = task.file_name().to_string_lossy().parse::<libc::pid_t>();
            if let ("messages", Ok(id)) = (name.trim(), id) {
                // SAFETY: plain bits; CPU_SET checks its index; a thread of our own child.
                let pinned = unsafe {
                    let mut set: libc::cpu_set_t = mem::zeroed();
                    libc::CPU_SET(core, &mut set);
                    libc::sched_setaffinity(id, size_of::<libc::cpu_set_t>(), &set)
                };
                return if pinned == 0 {
                    Ok(())
                } else {
                    Err(Error::last("pinning java's thread to a core"))
                };
            }
        }
        Err(Error::Child("java has no thread called messages".into()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Also works on one that is stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pair {
    fn start(row: &Aeron, stage: &Stage) -> Result<Self, Error> {
        let scratch = stage.scratch.inner(&row.name.replace(' ', "-"))?;
        let (roles, every_byte) = match row.task {
            AeronTask::Latency { every_byte } => (["ping", "pong"], every_byte),
            AeronTask::Rate => (["source", "sink"], false),
        };
        let start =
            |role| Process::start(&row.classes, role, scratch.path(), row.shape, every_byte);
        let (mut first, mut second) = (start(roles[0])?, start(roles[1])?);
        first.expect("ready", START_LIMIT)?;
        second.expect("ready", START_LIMIT)?;
        first.pin(stage.first_core())?;
        second.pin(stage.second_core())?;
        Ok(Self { first, second, scratch })
    }
}

impl Contender for Aeron {
    fn name(&self) -> &'static str {
        self.name
    }

    fn fixed_operations(&self) -> Option<u64> {
        Some(match (self.task, self.shape.wait, self.shape.bytes) {
            (AeronTask::Rate, ..) => 1_000_000,
            (_, Wait::Block, ..100_000) => 500,
            (.., ..10_000) => 100_000,
            (.., ..100_000) => 4_000,
            (.., ..2_000_000) => 200,
            _ => 16,
        })
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        if self.pair.is_none() {
            self.pair = Some(Pair::start(self, stage)?);
        }
        let Some(pair) = &mut self.pair else { return Err(Error::Child("aeron is gone".into())) };
        pair.second.signal(libc::SIGCONT);
        pair.first.signal(libc::SIGCONT);
        let file = pair.scratch.path().join("told");
        let limit = stage.turn_limit;
        if self.task == AeronTask::Rate {
            pair.second.order(operations, &file)?;
            pair.first.order(operations, &file)?;
            pair.first.expect("done", limit)?;
            pair.second.expect("done", limit)?;
        } else {
            pair.first.order(operations, &file)?;
            pair.first.expect("done", limit)?;
        }
        pair.first.signal(libc::SIGSTOP);
        pair.second.signal(libc::SIGSTOP);
        let told = fs::read(&file)
            .map_err(|source| Error::System { doing: "reading what java told", source })?;
        let _ = fs::remove_file(&file);
        let (words, _) = told.as_chunks::<8>();
        let board = Shared::<Board>::new()?;
        match (self.task, words) {
            (AeronTask::Rate, [took, count]) => {
                board.leave_mean(u64::from_le_bytes(*took), u64::from_le_bytes(*count));
                board.figure(0)
            }
            (AeronTask::Latency { .. }, [_, ..]) => {
                let mut latencies = Latencies::new()?;
                words.iter().for_each(|took| latencies.count(u64::from_le_bytes(*took)));
                latencies.leave(&board, words.iter().map(|took| u64::from_le_bytes(*took)).sum());
                figure(&board, 0, 2.0)
            }
            _ => Err(Error::Child("java told nothing".into())),
        }
    }
}
