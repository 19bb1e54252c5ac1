//! Runs checks one after another, each in a process group of its own, and prints what libtest would print.

use std::fs::{self, File};
use std::io::{Read, Seek};
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

/// Lists a module's checks; `name: 60` gives that one so many seconds instead of 30.
#[macro_export]
macro_rules! checks {
    (@seconds) => { 30 };
    (@seconds $seconds:literal) => { $seconds };
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
    /// A folder on the memory file system that nobody else uses; exists, and is removed after the check.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The check's domain, with the coarse re-check switched off: a wake-up that is lost stays lost, and the check fails.
    pub fn domain(&self) -> Domain {
        self.domain_named("domain")
    }

    /// Another domain of the check's own.
    pub fn domain_named(&self, name: &str) -> Domain {
        Domain::options().recheck(None).open_at(self.folder.join(name)).expect("the check's domain opens")
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
}

impl Wanted {
    fn parse(arguments: &[String]) -> Wanted {
        let mut wanted =
            Wanted { filters: Vec::new(), skips: Vec::new(), exact: false, list: false, capture: true, times: false };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--exact" => wanted.exact = true,
                "--list" => wanted.list = true,
                "--report-time" => wanted.times = true,
                "--nocapture" | "--no-capture" | "--show-output" => wanted.capture = false,
                "--skip" => wanted.skips.extend(rest.next().cloned()),
                "--test-threads" | "--color" | "--format" | "--logfile" | "-Z" => {
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

enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
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
    child::adopt_orphans();
    remove_ended_runs();
    let base = base(std::process::id());
    fs::create_dir(&base).expect("a folder in /dev/shm can be made");
    let begun = Instant::now();
    println!("\nrunning {} tests", chosen.len());
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for check in &chosen {
        let name = short(check.name);
        let started = Instant::now();
        let verdict = run_one(check, &base, wanted.capture);
        let took = started.elapsed().as_secs_f64();
        let time = if wanted.times { format!(" <{took:.3}s>") } else { String::new() };
        match verdict {
            Verdict::Passed => {
                passed += 1;
                println!("test {name} ... ok{time}");
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                println!("test {name} ... ignored, {why}");
            }
            Verdict::Failed(output) => {
                println!("test {name} ... FAILED{time}");
                failed.push((name, output));
            }
        }
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

fn run_one(check: &Check, base: &Path, capture: bool) -> Verdict {
    let folder = base.join(short(check.name).replace("::", "-"));
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
        Ok(End::Code(0)) => Verdict::Passed,
        Ok(End::Code(SKIP_CODE)) => {
            let why = text.rsplit(SKIPPED).next().unwrap_or_default();
            Verdict::Skipped(why.trim().to_owned())
        }
        Ok(end) => Verdict::Failed(format!("{text}\nended by {end:?}\n")),
        Err(hung) => Verdict::Failed(format!("{text}\nhung for {} s:\n{hung}", check.seconds)),
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
