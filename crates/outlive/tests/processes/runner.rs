//! Runs checks, each in a process group of its own, and prints what libtest would print.
//!
//! Checks sleep more than they compute, so several run at a time, by *lanes*: processes of one
//! thread, each with checks of its own one after another, and each the parent of whatever its
//! checks leave behind. A lane takes the next check's number from a pipe, and tells what came of it
//! through another one. A lane that dies leaves a check without a verdict.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlive::Domain;

use crate::child::{self, End};

/// A named check.
pub struct Check {
    /// `module::function`.
    pub name: &'static str,
    /// How long it may take.
    pub seconds: u64,
    /// Panics when it fails.
    pub body: fn(&World),
}

/// Lists a module's checks; `name: 300` gives that one so many seconds, and no less than the 120 of the others: twice
/// what a wait in a check is given.
#[macro_export]
macro_rules! checks {
    (@seconds) => { 120 };
    (@seconds $seconds:literal) => { if $seconds > 120 { $seconds } else { 120 } };
    ($($name:ident $(: $seconds:literal)?),* $(,)?) => {
        /// What this module checks.
        pub const CHECKS: &[$crate::runner::Check] = &[$($crate::runner::Check {
            name: concat!(module_path!(), "::", stringify!($name)),
            seconds: $crate::checks!(@seconds $($seconds)?),
            body: $name,
        }),*];
    };
}

/// What a check has to itself.
pub struct World {
    folder: PathBuf,
}

impl World {
    /// A folder on the memory file system that no other check uses; it exists, and is removed after
    /// the check.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The check's domain, with the coarse recheck switched off: a wake-up that is lost stays
    /// lost, and the check fails.
    pub fn domain(&self) -> Domain {
        self.domain_named("domain")
    }

    /// Another domain of the check's own.
    pub fn domain_named(&self, name: &str) -> Domain {
        Domain::options()
            .recheck(None)
            .open_or_create_at(self.folder.join(name))
            .expect("the check's domain opens")
    }

    /// Ends the check as one that cannot be made here.
    pub fn skip(&self, why: &str) -> ! {
        eprintln!("{SKIPPED}{why}");
        child::exit_now(SKIP_CODE)
    }
}

const SKIP_CODE: i32 = 77;
const SKIPPED: &str = "skipped: ";

/// What the command line asks for; flags of libtest's that make no difference here are accepted.
struct Wanted {
    filters: Vec<String>,
    skips: Vec<String>,
    exact: bool,
    list: bool,
    capture: bool,
    /// Says how long each check took.
    times: bool,
    /// How many run at a time.
    lanes: usize,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Wanted {
        let mut wanted = Wanted {
            filters: Vec::new(),
            skips: Vec::new(),
            exact: false,
            list: false,
            capture: true,
            times: false,
            // The variable as libtest reads it.
            lanes: std::env::var("RUST_TEST_THREADS")
                .ok()
                .and_then(|lanes| lanes.parse().ok())
                .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
                .max(1),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--exact" => wanted.exact = true,
                "--list" => wanted.list = true,
                "--report-time" => wanted.times = true,
                "--nocapture" | "--no-capture" | "--show-output" => wanted.capture = false,
                "--skip" => wanted.skips.extend(rest.next().cloned()),
                "--test-threads" => {
                    wanted.lanes =
                        rest.next().and_then(|lanes| lanes.parse().ok()).unwrap_or(1).max(1);
                }
                "--color" | "--format" | "--logfile" | "-Z" => {
                    rest.next();
                }
                flag if flag.starts_with('-') => {}
                filter => wanted.filters.push(filter.to_owned()),
            }
        }
        wanted
    }

    fn takes(&self, name: &str) -> bool {
        let fits = |filter: &String| {
            if self.exact { name == filter } else { name.contains(filter) }
        };
        (self.filters.is_empty() || self.filters.iter().any(fits)) && !self.skips.iter().any(fits)
    }
}

#[derive(Clone, Copy)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// What came of a check. Why it failed or was skipped lies in a file beside its folder.
struct Report {
    check: u16,
    verdict: Verdict,
    took: Duration,
}

/// Bytes of a report: a pipe takes them in one piece, whatever other processes write beside it.
const REPORT: usize = 12;

impl Report {
    fn write(&self, pipe: &mut PipeWriter) -> io::Result<()> {
        let mut bytes = [0; REPORT];
        bytes[..2].copy_from_slice(&self.check.to_ne_bytes());
        bytes[2] = self.verdict as u8;
        bytes[4..].copy_from_slice(&(self.took.as_millis() as u64).to_ne_bytes());
        pipe.write_all(&bytes)
    }

    /// The next one, until all lanes have ended.
    fn read(pipe: &mut PipeReader) -> Option<Report> {
        let mut bytes = [0; REPORT];
        pipe.read_exact(&mut bytes).ok()?;
        let [c0, c1, verdict, _, took @ ..] = bytes;
        let verdict = match verdict {
            0 => Verdict::Passed,
            1 => Verdict::Failed,
            _ => Verdict::Skipped,
        };
        let took = Duration::from_millis(u64::from_ne_bytes(took));
        Some(Report { check: u16::from_ne_bytes([c0, c1]), verdict, took })
    }
}

/// Forks the lanes; what they report comes out of the pipe, which ends with the last of them.
fn start_lanes(chosen: &[&Check], base: &Path, lanes: usize, capture: bool) -> PipeReader {
    let (mut next, mut numbers) = io::pipe().expect("a pipe");
    let (reports, mut report_to) = io::pipe().expect("a pipe");
    for index in 0..chosen.len() as u16 {
        // 2 bytes each: a pipe takes the numbers of 32,768 checks before any process reads.
        numbers.write_all(&index.to_ne_bytes()).expect("room in the pipe");
    }
    drop(numbers);
    for _ in 0..lanes.min(chosen.len()) {
        child::start_lane(|| {
            child::adopt_orphans();
            let mut number = [0; 2];
            while next.read_exact(&mut number).is_ok() {
                let number = u16::from_ne_bytes(number);
                let check = chosen[usize::from(number)];
                let begun = Instant::now();
                let (verdict, text) = run_one(check, base, capture);
                let report = Report { check: number, verdict, took: begun.elapsed() };
                if fs::write(words_of(check, base), text).is_err()
                    || report.write(&mut report_to).is_err()
                {
                    break;
                }
            }
        });
    }
    reports
}

/// Runs what the arguments ask for; the exit code.
pub fn run(all: &[&[Check]], arguments: &[String]) -> i32 {
    let wanted = Wanted::parse(arguments);
    let checks: Vec<&Check> = all.iter().copied().flatten().collect();
    let (chosen, left): (Vec<&Check>, Vec<&Check>) =
        checks.into_iter().partition(|check| wanted.takes(short(check.name)));
    if wanted.list {
        for check in &chosen {
            println!("{}: test", short(check.name));
        }
        return 0;
    }
    remove_ended_runs();
    let base = base(std::process::id());
    fs::create_dir(&base).expect("a folder in /dev/shm can be made");
    let begun = Instant::now();
    println!("\nrunning {} tests", chosen.len());
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    let mut silent: Vec<bool> = vec![true; chosen.len()];
    // Output that is not captured is told apart by nothing but its order.
    let lanes = if wanted.capture { wanted.lanes } else { 1 };
    let mut reports = start_lanes(&chosen, &base, lanes, wanted.capture);
    while let Some(report) = Report::read(&mut reports) {
        let check = chosen[usize::from(report.check)];
        let name = short(check.name);
        silent[usize::from(report.check)] = false;
        let words = || fs::read_to_string(words_of(check, &base)).unwrap_or_default();
        let time = if wanted.times {
            format!(" <{:.3}s>", report.took.as_secs_f64())
        } else {
            String::new()
        };
        match report.verdict {
            Verdict::Passed => {
                passed += 1;
                println!("test {name} ... ok{time}");
            }
            Verdict::Skipped => {
                skipped += 1;
                println!("test {name} ... ignored, {}", words());
            }
            Verdict::Failed => {
                println!("test {name} ... FAILED{time}");
                // Here too: of a long output, a reader may have only the part about this line.
                let words = words();
                words.lines().filter(|line| !line.is_empty()).take(3).for_each(|line| {
                    println!("    {line}");
                });
                failed.push((name, words));
            }
        }
    }
    for (check, _) in chosen.iter().zip(&silent).filter(|(_, silent)| **silent) {
        let name = short(check.name);
        println!("test {name} ... FAILED");
        failed.push((name, "the process that ran it has died, or could not begin\n".to_owned()));
    }
    let _ = fs::remove_dir_all(&base);
    if !failed.is_empty() {
        println!("\nfailures:\n");
        for (name, output) in &failed {
            println!("---- {name} ----\n{output}");
        }
    }
    println!(
        "\ntest result: {}. {passed} passed; {} failed; {skipped} ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        failed.len(),
        left.len(),
        begun.elapsed().as_secs_f64()
    );
    if failed.is_empty() { 0 } else { 101 }
}

/// Without the crate's name.
fn short(name: &'static str) -> &'static str {
    name.split_once("::").map_or(name, |(_, rest)| rest)
}

fn base(pid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/outlive-test-{pid}"))
}

/// Folders of runs that were killed themselves.
fn remove_ended_runs() {
    for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("outlive-test-"));
        if let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok())
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            let _ = fs::remove_dir_all(base(pid));
        }
    }
}

/// What a check has to itself.
fn folder_of(check: &Check, base: &Path) -> PathBuf {
    base.join(short(check.name).replace("::", "-"))
}

/// Where the lane leaves why a check failed or was skipped.
fn words_of(check: &Check, base: &Path) -> PathBuf {
    folder_of(check, base).with_extension("words")
}

fn run_one(check: &Check, base: &Path, capture: bool) -> (Verdict, String) {
    let folder = folder_of(check, base);
    fs::create_dir(&folder).expect("a check's folder can be made");
    let mut output = unnamed_file();
    let world = World { folder: folder.clone() };
    let child = child::start_group(|| {
        if capture {
            child::redirect_output(output.as_raw_fd());
        }
        let result = catch_unwind(AssertUnwindSafe(|| (check.body)(&world)));
        i32::from(result.is_err()) * 101
    });
    let end = child::wait_group(child, Duration::from_secs(check.seconds));
    let mut text = String::new();
    let mut bytes = Vec::new();
    if output.rewind().is_ok() && output.read_to_end(&mut bytes).is_ok() {
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    let _ = fs::remove_dir_all(&folder);
    match end {
        Ok(End::Code(0)) => (Verdict::Passed, String::new()),
        Ok(End::Code(SKIP_CODE)) => {
            (Verdict::Skipped, text.rsplit(SKIPPED).next().unwrap_or_default().trim().to_owned())
        }
        Ok(end) => (Verdict::Failed, format!("{text}\nended by {end:?}\n")),
        Err(hung) => (Verdict::Failed, format!("{text}\nhung for {} s:\n{hung}", check.seconds)),
    }
}

/// A file that a check's output goes to, of no name and so never left behind.
fn unnamed_file() -> File {
    // SAFETY: the name is a string, and the descriptor is new and ours.
    unsafe {
        let fd = libc::memfd_create(c"output".as_ptr(), 0);
        assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        File::from_raw_fd(fd)
    }
}
