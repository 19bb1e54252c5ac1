//! `cargo xtask crash`: the testkit's kill points and stops, of victims in Rust and in C.

use std::process::ExitCode;

use std::path::PathBuf;
use std::process::Command;

use crate::count::Count;
use crate::install::is_there;
use crate::paths;
use crate::prefix::{self, Profile};
use crate::stage::{self, Counts};
use crate::test::{cargo, testkit};

pub(crate) fn run(args: &[String]) -> ExitCode {
    let Some(Asked { all, brief, telling, stop, recheck, part }) = Asked::of(args) else {
        eprintln!(
            "usage: cargo xtask crash [--brief | --all] [--stop [--telling]] [--recheck on|off] [--part K/N]"
        );
        return ExitCode::from(2);
    };
    if !build_testkit() {
        println!("0 passed, 1 failed");
        return ExitCode::FAILURE;
    }
    let crash = |points: &str| {
        let mut crash = testkit("crash");
        crash.arg(points);
        crash.args(stop.then_some("--stop"));
        crash.args(recheck.into_iter().flat_map(|which| ["--recheck", which]));
        crash.args(part.into_iter().flat_map(|part| ["--part", part]));
        crash
    };
    let points = match (all, brief, telling) {
        (true, ..) => "--all",
        (_, true, _) => "--brief",
        (.., true) => "--telling",
        _ => "--quick",
    };
    let mut total =
        stage::run_long(if stop { "stops" } else { "crash" }, crash(points), Counts::ByLines);
    // The C functions call the state machines of the Rust ones, so fewer stops show what they add.
    let mut of_c = crash(if stop && !all { "--brief" } else { points });
    if !stop && !all && recheck.is_none() {
        // What sleepers do without the recheck is what both have seen of Rust's victims.
        of_c.args(["--recheck", "off"]);
    }
    total.add(victims_in_c(of_c, if stop { "stops, victims in C" } else { "crash, victims in C" }));
    if all && !stop {
        // Their telling points are among the Rust tests.
        let test = [
            "test",
            "--profile",
            "testkit",
            "-p",
            "outlive-gpu",
            "--test",
            "instructions",
            "--",
            "--all",
        ];
        total.add(stage::run_long(
            "crash, GPU topics with the fake driver",
            cargo(&test),
            Counts::ByLines,
        ));
    }
    // No closing line: the caller, which adds them up, has both already.
    println!("in all: {total}");
    finish(total)
}

/// What was asked for.
struct Asked<'a> {
    all: bool,
    brief: bool,
    telling: bool,
    stop: bool,
    recheck: Option<&'a str>,
    part: Option<&'a str>,
}

impl Asked<'_> {
    fn of(args: &[String]) -> Option<Asked<'_>> {
        let mut asked = Asked {
            all: false,
            brief: false,
            telling: false,
            stop: false,
            recheck: None,
            part: None,
        };
        let mut words = args.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--all" => asked.all = true,
                "--brief" => asked.brief = true,
                "--telling" => asked.telling = true,
                "--stop" => asked.stop = true,
                "--recheck" => asked.recheck = Some(words.next()?),
                "--part" => asked.part = Some(words.next()?),
                _ => return None,
            }
        }
        let points = u32::from(asked.brief) + u32::from(asked.all) + u32::from(asked.telling);
        (points <= 1 && (asked.stop || !asked.telling)).then_some(asked)
    }
}

/// The programs of the testkit: `crash` starts `victim`, which lies beside it.
pub(crate) const BUILD_TESTKIT: [&str; 6] =
    ["build", "--profile", "testkit", "--quiet", "-p", "outlive-testkit"];

pub(crate) fn build_testkit() -> bool {
    matches!(cargo(&BUILD_TESTKIT).status(), Ok(status) if status.success())
}

/// Runs the same survivors beside a victim in C.
fn victims_in_c(mut crash: Command, title: &str) -> Count {
    if !is_there("cc") {
        println!("victims in C: skipped, there is no cc\n{}", Count::SKIPPED);
        return Count::SKIPPED;
    }
    match victim_in_c() {
        Ok(victim) => {
            crash.arg("--victim").arg(victim);
            stage::run_long(title, crash, Counts::ByLines)
        }
        Err(why) => {
            println!("victims in C: {why}\n{}", Count::FAILED);
            Count::FAILED
        }
    }
}

fn victim_in_c() -> Result<PathBuf, String> {
    let installed = prefix::target().join("c/installed");
    prefix::install(&installed, Profile::Dev).map_err(|error| error.to_string())?;
    let (lib, victim) = (installed.join("lib"), prefix::target().join("c/victim"));
    let mut compile = Command::new("cc");
    // Bound at once: a first call is then as long as the next.
    compile
        .args(["-O1", "-Wall", "-Werror", "-Wl,-z,now", "-o"])
        .arg(&victim)
        .arg("-I")
        .arg(installed.join("include"));
    compile
        .arg("-I")
        .arg(paths::at(paths::TESTKIT_C))
        .arg(paths::at(paths::C).join("tests/c/victim.c"));
    compile.arg("-L").arg(&lib).arg(format!("-Wl,-rpath,{}", lib.display())).arg("-loutlive");
    match compile.status() {
        Ok(status) if status.success() => Ok(victim),
        Ok(_) => Err("victim.c could not be compiled and linked".to_owned()),
        Err(error) => Err(format!("cc: {error}")),
    }
}

/// Prints the count as the last line, and returns it as the exit code.
pub(crate) fn finish(count: crate::count::Count) -> ExitCode {
    if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
