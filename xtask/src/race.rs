//! `cargo xtask race`: threads that take and give back a pool's objects beside flush and gc, for as
//! long as asked.

use std::process::ExitCode;

use crate::crash::finish;
use crate::stage::{self, Counts};
use crate::test::testkit;

pub(crate) fn run(args: &[String]) -> ExitCode {
    let [flag, minutes] = args else {
        eprintln!("usage: cargo xtask race --minutes N");
        return ExitCode::from(2);
    };
    if flag != "--minutes" || minutes.parse::<f64>().is_err() {
        eprintln!("usage: cargo xtask race --minutes N");
        return ExitCode::from(2);
    }
    let mut command = testkit("race");
    command.args(["--minutes", minutes]);
    finish(stage::run_long("race", command, Counts::ByExit))
}
