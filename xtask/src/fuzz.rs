//! `cargo xtask fuzz`: scribbles over a living domain, after a replay of past finds.

use std::process::{Command, ExitCode};

use crate::crash::finish;
use crate::paths::root;
use crate::prefix;
use crate::stage::{self, Counts};

pub(crate) fn run(args: &[String]) -> ExitCode {
    let seconds = match args {
        [] => "60",
        [flag, seconds] if flag == "--seconds" && seconds.parse::<u32>().is_ok() => seconds,
        _ => {
            eprintln!("usage: cargo xtask fuzz [--seconds N]");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = prefix::build_all() {
        println!("{error}\n0 passed, 1 failed");
        return ExitCode::FAILURE;
    }
    let mut command = Command::new(prefix::target().join("debug/outlive-fuzz"));
    command.args(["--seconds", seconds]).current_dir(root());
    finish(stage::run("hostile memory", command, Counts::ByLines))
}
