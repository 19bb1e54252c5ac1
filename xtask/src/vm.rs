//! `cargo xtask vm`: tests on other processors and other kernels, each in an emulated machine.
//!
//! qemu emulates a whole machine, so robust lists, `futex_waitv` and `membarrier` are those of the
//! kernel that is booted. It interprets: what is seen are system calls, alignment, sizes of pages and
//! structs. A processor's weak ordering of memory is not: an x86-64 machine keeps its own stronger
//! order. Loom looks for that.
//!
//! Kernels and the compiler's parts are Debian's packages, unpacked in `target/vm`; only qemu and
//! the other processor's linker are installed. A run of all usual tests writes its row into
//! doc/platforms.md.

mod console;
mod image;
mod inside;
pub(crate) mod packages;
mod processor;
mod programs;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::count::Count;
use crate::crash::finish;
use crate::install;
use crate::paths;
use crate::prefix;
use crate::proof;
use crate::stage;
use console::{Console, Outcome};
use image::{CPIO, Image};
use inside::Test;
use packages::{Kernel, NEWEST, Packages};
use processor::{PROCESSORS, Processor};
use programs::{Program, Programs};

/// What a machine may take to come to its script, and to switch itself off.
const BOOT: Duration = Duration::from_secs(5 * 60);

const USAGE: &str = "usage: cargo xtask vm [--no-install] [aarch64 | x86_64] [--kernel SERIES]... [TEST]...
  --kernel SERIES  a kernel of Debian's, as in 6.1, or newest; without it those of doc/platforms.md
  --no-install     installs no package, and downloads none into target/vm: what is missing is a skipped test
  TEST             what to run inside; another word chooses of the tests with processes those whose names contain it";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    processor: Option<&'a str>,
    series: Vec<&'a str>,
    tests: Vec<&'a str>,
    may_install: bool,
}

impl Asked<'_> {
    fn of(args: &[String]) -> Option<Asked<'_>> {
        let mut asked =
            Asked { processor: None, series: Vec::new(), tests: Vec::new(), may_install: true };
        let mut words = args.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--kernel" => asked.series.push(words.next()?),
                "--no-install" => asked.may_install = false,
                flag if flag.starts_with('-') => return None,
                name if asked.processor.is_none()
                    && PROCESSORS.iter().any(|processor| processor.name == name) =>
                {
                    asked.processor = Some(name);
                }
                name => asked.tests.push(name),
            }
        }
        Some(asked)
    }
}

pub(crate) fn run(args: &[String]) -> ExitCode {
    let Some(asked) = Asked::of(args) else {
        eprintln!("{USAGE}\nTEST is one of: {}", inside::names().join(", "));
        return ExitCode::from(2);
    };
    let mut total = Count::default();
    let is_meant =
        |processor: &&Processor| asked.processor.is_none_or(|name| name == processor.name);
    for processor in PROCESSORS.iter().filter(is_meant) {
        total.add(on_processor(processor, &asked));
    }
    println!("\n{total}");
    finish(total)
}

/// Runs the tests on a processor, under each kernel.
fn on_processor(processor: &Processor, asked: &Asked) -> Count {
    let kernels = if asked.series.is_empty() { processor.kernels } else { &asked.series[..] };
    let skip = |why: &str| stage::skip(&format!("tests on {}", processor.name), why);
    let needs = [&processor.qemu, &processor.compiler, &CPIO];
    install::install(&needs, asked.may_install);
    if let Some(why) = install::lacking(&needs) {
        return skip(&why);
    }
    // From its root: the programs lie in the machine at the same path.
    let folder = paths::root().join(prefix::target()).join("vm");
    let packages = match Packages::open(&folder, asked.may_install) {
        Ok(packages) => packages,
        Err(why) => return skip(&why),
    };
    let tests = inside::chosen(&asked.tests);
    let mut wanted: Vec<Program> = Vec::new();
    for test in &tests {
        if !wanted.contains(&test.program) {
            wanted.push(test.program);
        }
    }
    let mut total = Count::default();
    let (busybox, rust) = match parts(processor, &packages) {
        Ok(parts) => parts,
        Err(why) => return skip(&why),
    };
    let ready = || {
        let programs = Programs::build(processor, rust.as_deref(), &folder, &wanted)?;
        let machines = machines(processor, &tests);
        let images = machines.into_iter().map(|(cpu, tests)| {
            let mut image = Image::begin(
                processor,
                folder.join(format!("{}-{cpu}", processor.name)),
                &busybox,
            )?;
            for test in &tests {
                image.add(test, &programs.files(test.program)?)?;
            }
            Ok(Machine { processor, cpu, image: image.pack()?, tests })
        });
        images.collect::<Result<Vec<Machine>, String>>()
    };
    let machines = match ready() {
        Ok(machines) => machines,
        Err(why) => {
            println!("{}: {why}", processor.name);
            return Count::FAILED;
        }
    };
    for series in kernels {
        let kernel = match packages.kernel(series, processor.debian) {
            Ok(kernel) => kernel,
            Err(why) => {
                total.add(stage::skip(&format!("{}, Linux {series}", processor.name), &why));
                continue;
            }
        };
        let begun = Instant::now();
        let (mut outcomes, mut absent) = (Vec::new(), None);
        for machine in &machines {
            println!("\n== {} ({}), Linux {}", processor.name, machine.cpu, kernel.release);
            let console = machine.boot(&kernel);
            outcomes.extend(console.outcomes);
            absent = absent.or(console.absent);
        }
        let took = begun.elapsed();
        let count = outcomes.iter().fold(Count::default(), |mut count, outcome| {
            count.add(outcome.count);
            count
        });
        println!("== {}, Linux {series}: {count} in {}", processor.name, stage::minutes(took));
        total.add(count);
        if asked.tests.is_empty()
            && let Err(error) = record(processor, series, &kernel, &outcomes, absent, took)
        {
            println!("{}: {error}", paths::PLATFORMS);
            total.add(Count::FAILED);
        }
    }
    total
}

/// Returns what of other packages is needed: a shell for the machine, and a compiler for it if it is
/// another one than this.
fn parts(processor: &Processor, packages: &Packages) -> Result<(PathBuf, Option<PathBuf>), String> {
    let busybox = packages.busybox(processor.debian)?;
    if processor.is_native() {
        return Ok((busybox, None));
    }
    let this = PROCESSORS.iter().find(|other| other.is_native());
    let host = this.ok_or("this machine's processor is none of these")?;
    Ok((busybox, Some(packages.rust(host.debian, processor.debian)?)))
}

/// A machine, what it boots into, and what is run there.
struct Machine<'a> {
    processor: &'a Processor,
    cpu: &'static str,
    image: PathBuf,
    tests: Vec<Test>,
}

/// Returns which tests run on which of the processor's kinds.
fn machines(processor: &Processor, tests: &[Test]) -> Vec<(&'static str, Vec<Test>)> {
    let mut machines: Vec<(&'static str, Vec<Test>)> = Vec::new();
    for test in tests {
        let cpu = if test.is_stepped { processor.stepped_cpu } else { processor.cpu };
        match machines.iter_mut().find(|(other, _)| *other == cpu) {
            Some((_, tests)) => tests.push(test.clone()),
            None => machines.push((cpu, vec![test.clone()])),
        }
    }
    machines
}

impl Machine<'_> {
    /// Boots it with this kernel, and reads its console until it is off; it is killed when its
    /// tests' time is over.
    fn boot(&self, kernel: &Kernel) -> Console<'_> {
        let mut console = Console::new(&self.tests);
        if let Err(error) = self.read(kernel, &mut console) {
            println!("{}: {error}", self.processor.qemu.program);
        }
        if !console.has_booted {
            println!("the kernel has not come to its script");
        }
        console.close();
        console
    }

    fn read(&self, kernel: &Kernel, console: &mut Console) -> std::io::Result<()> {
        let limit = BOOT + Duration::from_secs(self.tests.iter().map(|test| test.limit).sum());
        let mut command = self.processor.emulator(self.cpu);
        command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&self.image);
        // Only what is an emergency, so that no message cuts a test's line in two.
        let line = format!("console={} quiet loglevel=1 panic=-1", self.processor.console);
        command.args(["-append", &line]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let pid = child.id();
        // Dropping `ended` is the news.
        let (ended, waiting) = mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if waiting.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                println!("== the machine hangs: killed after {}", stage::minutes(limit));
                stage::kill_with_descendants(pid);
            }
        });
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n') {
                let told = console.line(&String::from_utf8_lossy(&line?));
                // With a mark before each: a test's closing line is no count of this command's.
                told.iter().flat_map(|told| told.lines()).for_each(|line| println!("| {line}"));
            }
        }
        child.wait()?;
        drop(ended);
        // It only sleeps and prints: nothing to learn from how it ended.
        let _ = watchdog.join();
        Ok(())
    }
}

/// Writes the platform's row of the page, and leaves the others as they are.
fn record(
    processor: &Processor,
    series: &str,
    kernel: &Kernel,
    outcomes: &[Outcome],
    absent: Option<Vec<String>>,
    took: Duration,
) -> std::io::Result<()> {
    let told = |outcome: &Outcome| match (outcome.count.failed, outcome.count.passed) {
        (0, 1) => outcome.name.clone(),
        _ => format!("{} {}", outcome.name, in_short(outcome.count)),
    };
    let name = platform(processor.name, series);
    let row = format!(
        "| {name} | {} | {} | {} | {} | {} | {} |",
        kernel.release,
        proof::today(),
        proof::commit(),
        outcomes.iter().map(told).collect::<Vec<_>>().join(", "),
        match absent {
            None => "not known: the doctor has said nothing".to_owned(),
            Some(absent) if absent.is_empty() => "nothing".to_owned(),
            Some(absent) => absent.join(", "),
        },
        stage::minutes(took),
    );
    let page = paths::at(paths::PLATFORMS);
    let text = fs::read_to_string(&page)?;
    fs::write(page, proof::with_row(&text, &name, &row))
}

/// Returns a count as the table has it.
fn in_short(count: Count) -> String {
    let more = |number: u64, word| {
        if number == 0 { String::new() } else { format!(" ({number} {word})") }
    };
    format!("{}{}{}", count.passed, more(count.failed, "failed"), more(count.skipped, "skipped"))
}

/// Returns how the page calls a processor with a kernel.
fn platform(processor: &str, series: &str) -> String {
    let processor = processor.replace("x86_64", "x86-64");
    match series {
        NEWEST => format!("{processor}, newest Linux"),
        series => format!("{processor}, Linux {series}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let of = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            Asked::of(&words).map(|asked| format!("{asked:?}"))
        };
        let all = Asked { processor: None, series: vec![], tests: vec![], may_install: true };
        assert_eq!(of(""), Some(format!("{all:?}")));
        let some = Asked {
            processor: Some("x86_64"),
            series: vec!["5.10", "6.1"],
            tests: vec!["tokens"],
            may_install: false,
        };
        let line = "x86_64 --kernel 5.10 --no-install --kernel 6.1 tokens";
        assert_eq!(of(line), Some(format!("{some:?}")));
        assert_eq!((of("--kernel"), of("--fast")), (None, None));
    }

    #[test]
    fn tests_that_step_have_a_machine_that_can_be_stepped() {
        let names = |name: &str| {
            let processor = PROCESSORS.iter().find(|one| one.name == name).expect("known");
            let machines = machines(processor, &inside::chosen(&["doctor", "steps", "tokens"]));
            machines.into_iter().map(|(cpu, tests)| (cpu, tests.len())).collect::<Vec<_>>()
        };
        assert_eq!(names("aarch64"), [("cortex-a72", 2), ("cortex-a76", 1)]);
        assert_eq!(names("x86_64"), [("max", 3)]);
    }

    #[test]
    fn the_page_has_a_row_for_each_platform() {
        let page = fs::read_to_string(paths::at(paths::PLATFORMS)).expect("readable");
        for processor in &PROCESSORS {
            for series in processor.kernels {
                let begins = format!("| {} |", platform(processor.name, series));
                assert!(page.lines().any(|line| line.starts_with(&begins)), "{begins}");
            }
        }
    }
}
