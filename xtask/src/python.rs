//! `cargo xtask python`: builds the Python package into an environment of its own, target/python,
//! and runs its tests, and the programs in Python of the project's pages.
//!
//! The extension module is the workspace's, put into the package's folder, which the environment
//! names: what `maturin develop` does, but maturin asks for this one crate, and cargo compiles the
//! library anew with that one's features. `--maturin` takes that way, as users do: part of `cargo
//! xtask proof`. A machine without Python is told so, and the stage is skipped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::install::{self, Need};
use crate::paths::{self, root};
use crate::prefix::{self, put};
use crate::programs::{self, Language, Tools};

/// With venv and pip, which Debian has apart.
pub(crate) const PYTHON: Need = Need {
    program: "python3",
    package: "python3-venv",
    why: "runs the tests of the Python package, in an environment of its own",
};

const PACKAGES: [&str; 3] = ["mypy", "numpy>=2.1", "pytest>=8"];
const MATURIN: &str = "maturin>=1.9,<2";

const USAGE: &str = "usage: cargo xtask python [--maturin] [--no-install]";

pub(crate) fn run(args: &[String]) -> ExitCode {
    let (mut may_install, mut by_maturin) = (true, false);
    for arg in args {
        match arg.as_str() {
            "--no-install" => may_install = false,
            "--maturin" => by_maturin = true,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let python = match built(may_install, by_maturin) {
        Ok(Ok(python)) => python,
        Ok(Err(why)) => {
            println!("skipped: {why}");
            println!("0 passed, 0 failed, 1 skipped");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            println!("{error}\n0 passed, 1 failed");
            return ExitCode::FAILURE;
        }
    };
    let tests = in_package(&environment(), "python").args(["-m", "pytest"]).status();
    let pages =
        programs::all_in(&[Language::Python], &Tools { python: Some(python), ..Tools::default() });
    println!("{pages}");
    if tests.is_ok_and(|status| status.success()) && pages.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the interpreter that has the package as it is now; or why this machine has none. Beside
/// the environment lies a driver without a GPU, which the tests load.
///
/// Several stages may ask at a time: the first one makes it, and the others wait.
pub(crate) fn built(may_install: bool, by_maturin: bool) -> io::Result<Result<PathBuf, String>> {
    fs::create_dir_all(prefix::target())?;
    let one_at_a_time = fs::File::create(prefix::target().join("python.lock"))?;
    one_at_a_time.lock()?;
    if let Err(why) = prepare(may_install, by_maturin) {
        return Ok(Err(why));
    }
    prefix::build_all()?;
    let python = environment().join("bin/python");
    let package = paths::at(paths::PYTHON);
    if by_maturin {
        let mut build = in_package(&environment(), "maturin");
        if !build.args(["develop", "--quiet", "--profile", "dev"]).status()?.success() {
            return Err(io::Error::other("the Python package could not be built"));
        }
    } else {
        put(
            &root().join(prefix::target()).join("debug/lib_outlive.so"),
            &package.join("outlive/_outlive.abi3.so"),
        )?;
        let ask = ["-c", "import sysconfig; print(sysconfig.get_path('purelib'), end='')"];
        let packages = Command::new(&python).args(ask).stdin(Stdio::null()).output()?.stdout;
        // A folder's name in such a file is searched for packages.
        let names_ours =
            Path::new(&String::from_utf8_lossy(&packages).into_owned()).join("outlive.pth");
        fs::write(names_ours, format!("{}\n", package.display()))?;
    }
    Ok(Ok(python))
}

fn environment() -> PathBuf {
    root().join(prefix::target()).join("python")
}

/// Sees to an environment that has all that the tests need; or says why there is none.
fn prepare(may_install: bool, by_maturin: bool) -> Result<(), String> {
    if !install::install(&[&PYTHON], may_install).is_empty() {
        return Err("python3 is not there and may not be installed".to_owned());
    }
    let fits = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
    if !succeeds(Command::new("python3").args(["-c", fits])) {
        return Err("python3 is older than 3.11, or has no venv (Debian: python3-venv)".to_owned());
    }
    let environment = environment();
    let python = environment.join("bin/python");
    let mut packages = PACKAGES.to_vec();
    let mut is_complete = "import mypy, numpy, pytest".to_owned();
    if by_maturin {
        packages.push(MATURIN);
        is_complete += ", maturin";
    }
    if succeeds(Command::new(&python).args(["-c", &is_complete])) {
        return Ok(());
    }
    if !may_install {
        return Err(format!("{} lacks packages, and none may be installed", environment.display()));
    }
    println!(
        "the Python package's tests need {}: pip gets them from PyPI into {}, an environment of the project's own",
        packages.join(", "),
        environment.display()
    );
    let made = succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    if made && succeeds(Command::new(&python).args(pip).args(packages)) {
        Ok(())
    } else {
        Err("its packages could not be had from PyPI".to_owned())
    }
}

/// Returns a program of the environment, run in the package's folder.
fn in_package(environment: &Path, program: &str) -> Command {
    let bin = environment.join("bin");
    let mut path = vec![bin.clone()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(bin.join(program));
    command.current_dir(paths::at(paths::PYTHON)).env("VIRTUAL_ENV", environment);
    command.env("PATH", std::env::join_paths(path).unwrap_or_default()).env_remove("PYTHONPATH");
    command
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}
