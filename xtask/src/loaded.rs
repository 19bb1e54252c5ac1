//! `cargo xtask loaded`: all Rust tests with processes, twice, on a machine that is far too busy.
//!
//! A test that takes a slow answer for a wrong one fails here, and so does code that is right only
//! as long as no process has to wait. It has found more in half an hour than many quiet runs. Sixty
//! programs that do nothing but compute run beside the tests; each ends with this one, whatever
//! becomes of it. Eight tests run at a time: beside so many programs no processor is ever idle, and
//! more of what runs is tests.

use std::os::unix::process::parent_id;
use std::process::{Child, Command, ExitCode};
use std::time::Instant;

use crate::count::Count;
use crate::crash::finish;
use crate::stage::{self, Counts};
use crate::test::cargo;

/// How many programs compute: the load average, by and large.
const PROGRAMS: usize = 60;

/// How many tests run at a time.
const TESTS: &str = "8";

/// The tests of GPU topics. Without `instructions`, which kills at instructions as `cargo xtask
/// crash` does: it counts them instead of waiting, so a load makes it slow and shows nothing.
const GPU_TESTS: [&str; 8] =
    ["block_deaths", "block_faults", "blocks", "deaths", "device", "faults", "frames", "pinned"];

/// The pthread shim's tests by single steps, for the same reason.
const BY_STEPS: &str = "by_steps";

/// How often the tests are run.
const TIMES: usize = 2;

pub(crate) fn run(args: &[String]) -> ExitCode {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let only = match words[..] {
        [] => None,
        ["--compute", parent] => return compute(parent),
        [name] if !name.starts_with('-') => Some(name),
        _ => {
            eprintln!("usage: cargo xtask loaded [NAME]");
            return ExitCode::from(2);
        }
    };
    let gpu = GPU_TESTS.iter().flat_map(|name| ["--test", name]);
    let gpu = ["-p", "outlive-gpu", "--lib"].into_iter().chain(gpu).collect::<Vec<_>>();
    let tests: [(&[&str], &[&str]); 3] = [
        (&["--tests", "-p", "outlive", "-p", "outlive-cli"], &[]),
        (&["--tests", "-p", "outlive-pthread"], &["--skip", BY_STEPS]),
        (&gpu, &[]),
    ];
    // Compiled without the load: that is not what is tested. Each set by itself: its features are
    // its own.
    for (tests, _) in &tests {
        let compiled = cargo(&["test", "--no-run"]).args(*tests).status();
        if !compiled.is_ok_and(|status| status.success()) {
            println!("{}", Count::FAILED);
            return ExitCode::FAILURE;
        }
    }
    let examples = cargo(&["build", "--examples", "-p", "outlive", "-p", "outlive-cli"]).status();
    if !examples.is_ok_and(|status| status.success()) {
        println!("{}", Count::FAILED);
        return ExitCode::FAILURE;
    }
    let Some(load) = Load::begin() else {
        println!("the programs that are the load do not start\n{}", Count::FAILED);
        return ExitCode::FAILURE;
    };
    let mut total = Count::default();
    for time in 1..=TIMES {
        for (tests, options) in &tests {
            let mut command = cargo(&["test", "--no-fail-fast"]);
            command
                .args(*tests)
                .args(only)
                .arg("--")
                .args(*options)
                .env("RUST_TEST_THREADS", TESTS);
            let name = format!("under a load of {PROGRAMS}, {time} of {TIMES}");
            total.add(stage::run_long(&name, command, Counts::ByLines));
        }
    }
    drop(load);
    println!("{total}");
    finish(total)
}

/// Ends when the program that started it does.
fn compute(parent: &str) -> ExitCode {
    let Ok(parent) = parent.parse::<u32>() else { return ExitCode::from(2) };
    while parent_id() == parent {
        let begun = Instant::now();
        let mut number = begun.elapsed().as_nanos();
        for _ in 0..1_000_000 {
            number = std::hint::black_box(
                number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1),
            );
        }
    }
    ExitCode::SUCCESS
}

/// The programs under way.
struct Load(Vec<Child>);

impl Load {
    fn begin() -> Option<Load> {
        let program = std::env::current_exe().ok()?;
        let mut load = Load(Vec::new());
        for _ in 0..PROGRAMS {
            let parent = std::process::id().to_string();
            load.0
                .push(Command::new(&program).args(["loaded", "--compute", &parent]).spawn().ok()?);
        }
        Some(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already needs no kill, and leaves nothing else to learn.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
