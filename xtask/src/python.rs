//! `cargo xtask python`: builds the Python package into an environment of its own, target/python, and runs its tests.
//!
//! Maturin builds with the profile and the target folder of the other tests, so that the library itself is there already.
//! A machine without Python is told so, and the stage is skipped.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::install::{self, Need};
use crate::{prefix, root};

/// With venv and pip, which Debian has apart.
pub(crate) const PYTHON: Need = Need { program: "python3", package: "python3-venv" };

const PACKAGES: [&str; 4] = ["maturin>=1.9,<2", "mypy", "numpy>=2.1", "pytest>=8"];

pub(crate) fn run(args: &[String]) -> ExitCode {
    let may_install = match args {
        [] => true,
        [flag] if flag == "--no-install" => false,
        _ => {
            eprintln!("usage: cargo xtask python [--no-install]");
            return ExitCode::from(2);
        }
    };
    match built(may_install) {
        Ok(Ok(_)) => {}
        Ok(Err(why)) => {
            println!("skipped: {why}");
            println!("0 passed, 0 failed, 1 skipped");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            println!("{error}\n0 passed, 1 failed");
            return ExitCode::FAILURE;
        }
    }
    // A driver without a GPU, which the tests find beside the environment.
    if let Err(error) = prefix::build_all() {
        println!("{error}\n0 passed, 1 failed");
        return ExitCode::FAILURE;
    }
    let tests = in_package(&environment(), "python").args(["-m", "pytest"]).status();
    if tests.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The interpreter that has the package as it is now; or why this machine has none.
pub(crate) fn built(may_install: bool) -> io::Result<Result<PathBuf, String>> {
    if let Err(why) = prepare(may_install) {
        return Ok(Err(why));
    }
    let mut build = in_package(&environment(), "maturin");
    if build.args(["develop", "--quiet", "--profile", "dev"]).status().is_ok_and(|status| status.success()) {
        Ok(Ok(environment().join("bin/python")))
    } else {
        Err(io::Error::other("the Python package could not be built"))
    }
}

fn environment() -> PathBuf {
    root().join(prefix::target()).join("python")
}

/// Sees to an environment that has all that the tests need; or says why there is none.
fn prepare(may_install: bool) -> Result<(), String> {
    if !install::install(&[&PYTHON], may_install).is_empty() {
        return Err("python3 is not there and may not be installed".to_owned());
    }
    let fits = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
    if !succeeds(Command::new("python3").args(["-c", fits])) {
        return Err("python3 is older than 3.11, or has no venv (Debian: python3-venv)".to_owned());
    }
    let environment = environment();
    let python = environment.join("bin/python");
    let is_complete = "import maturin, mypy, numpy, pytest";
    if succeeds(Command::new(&python).args(["-c", is_complete])) {
        return Ok(());
    }
    if !may_install {
        return Err(format!("{} lacks packages, and none may be installed", environment.display()));
    }
    println!("making {} with {}", environment.display(), PACKAGES.join(", "));
    let made = succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    if made && succeeds(Command::new(&python).args(pip).args(PACKAGES)) {
        Ok(())
    } else {
        Err("its packages could not be had from PyPI".to_owned())
    }
}

/// A program of the environment, run in the package's folder.
fn in_package(environment: &Path, program: &str) -> Command {
    let bin = environment.join("bin");
    let mut path = vec![bin.clone()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(bin.join(program));
    command.current_dir(root().join("crates/outlive-py")).env("VIRTUAL_ENV", environment);
    command.env("PATH", std::env::join_paths(path).unwrap_or_default()).env_remove("PYTHONPATH");
    command
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}
