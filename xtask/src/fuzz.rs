//! `cargo xtask fuzz`: scribbles over a living domain, after a replay of past finds.

use std::process::ExitCode;

use crate::crash::finish;
use crate::root;
use crate::stage::{self, Counts};
use crate::test::cargo;

pub(crate) fn run(args: &[String]) -> ExitCode {
    let seconds = match args {
        [] => "60",
        [flag, seconds] if flag == "--seconds" && seconds.parse::<u32>().is_ok() => seconds,
        _ => {
            eprintln!("usage: cargo xtask fuzz [--seconds N]");
            return ExitCode::from(2);
        }
    };
    let mut command = cargo(&["run", "--release", "--quiet", "--manifest-path", "fuzz/Cargo.toml", "--"]);
    command.args(["--seconds", seconds]).env("CARGO_TARGET_DIR", root().join("target/fuzz"));
    finish(stage::run("hostile memory", command, Counts::ByLines))
}
