//! `cargo xtask crash`: the testkit's kill points.

use std::process::ExitCode;

use crate::stage::{self, Counts};
use crate::test::cargo;

pub(crate) fn run(args: &[String]) -> ExitCode {
    let set = match args {
        [] => "--quick",
        [flag] if flag == "--all" => "--all",
        _ => {
            eprintln!("usage: cargo xtask crash [--all]");
            return ExitCode::from(2);
        }
    };
    // Both programs of the testkit: `crash` starts `victim`, which lies beside it.
    if !matches!(cargo(&["build", "--release", "--quiet", "-p", "outlive-testkit"]).status(), Ok(s) if s.success()) {
        println!("0 passed, 1 failed");
        return ExitCode::FAILURE;
    }
    let command = cargo(&["run", "--release", "--quiet", "-p", "outlive-testkit", "--bin", "crash", "--", set]);
    finish(stage::run_long("crash", command, Counts::ByLines))
}

/// The count as the last line, and as the exit code.
pub(crate) fn finish(count: crate::count::Count) -> ExitCode {
    if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
