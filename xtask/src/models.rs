//! `cargo xtask models`: the Promela models of doc/models.

use std::process::ExitCode;

pub(crate) fn run(_args: &[String]) -> ExitCode {
    println!("0 passed, 1 failed");
    ExitCode::FAILURE
}
