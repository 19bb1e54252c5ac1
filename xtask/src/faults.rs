//! `cargo xtask faults`: the testkit's scenarios with system calls that fail, one at a time.

use std::process::ExitCode;

use crate::crash::{build_testkit, finish};
use crate::stage::{self, Counts};
use crate::test::{cargo, testkit};

const USAGE: &str = "usage: cargo xtask faults [--all] [NAME]...";

pub(crate) fn run(args: &[String]) -> ExitCode {
    if args.iter().any(|arg| arg.starts_with('-') && arg != "--all") {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    if !build_testkit() {
        println!("0 passed, 1 failed");
        return ExitCode::FAILURE;
    }
    let mut faults = testkit("crash");
    faults.arg("--fault");
    for arg in args {
        if arg == "--all" {
            faults.arg(arg)
        } else {
            faults.args(["--only", arg])
        };
    }
    let mut total = stage::run_long("faults", faults, Counts::ByLines);
    if args.iter().all(|arg| arg == "--all") {
        let test = [
            "test",
            "--profile",
            "testkit",
            "-p",
            "outlive-gpu",
            "--test",
            "instructions",
            "--",
            "--fault",
        ];
        let mut test = cargo(&test);
        test.args(args);
        total.add(stage::run_long(
            "faults, GPU topics with the fake driver",
            test,
            Counts::ByLines,
        ));
    }
    println!("in all: {total}");
    finish(total)
}
