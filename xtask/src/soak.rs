//! `cargo xtask soak`: processes killed, stopped and replaced at random, for as long as asked.

use std::process::ExitCode;

use crate::crash::finish;
use crate::stage::{self, Counts};
use crate::test::cargo;

pub(crate) fn run(args: &[String]) -> ExitCode {
    let [flag, minutes] = args else {
        eprintln!("usage: cargo xtask soak --minutes N");
        return ExitCode::from(2);
    };
    if flag != "--minutes" || minutes.parse::<f64>().is_err() {
        eprintln!("usage: cargo xtask soak --minutes N");
        return ExitCode::from(2);
    }
    let mut command = cargo(&["run", "--release", "--quiet", "-p", "outlive-testkit", "--bin", "soak", "--"]);
    command.args(["--minutes", minutes]);
    finish(stage::run_long("soak", command, Counts::ByExit))
}
