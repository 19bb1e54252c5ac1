//! `cargo xtask soak`: processes killed, stopped and replaced at random, for as long as asked.

use std::process::{Command, ExitCode};

use crate::crash::finish;
use crate::stage::{self, Counts};
use crate::test::testkit;

pub(crate) fn run(args: &[String]) -> ExitCode {
    let (topics, minutes) = match args {
        [flag, minutes] if flag == "--minutes" => (false, minutes),
        [topics, flag, minutes] if topics == "--topics" && flag == "--minutes" => (true, minutes),
        _ => return usage(),
    };
    if minutes.parse::<f64>().is_err() {
        return usage();
    }
    let mut command = testkit("soak");
    command.args(["--minutes", minutes]);
    if topics {
        command.arg("--topics");
    }
    finish(stage::run_long("soak", command, Counts::ByExit))
}

/// Returns the crowd of the test command: few processes, in short rounds.
pub(crate) fn crowd() -> Command {
    let mut command = testkit("soak");
    command.args(["--topics", "--minutes", "0.2", "--round", "2", "--processes", "14"]);
    command
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask soak [--topics] --minutes N");
    ExitCode::from(2)
}
