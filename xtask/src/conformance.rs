//! `cargo xtask conformance`: builds a driver for each language, with what a user of that language would build it with, and plays
//! the scenarios of crates/outlive-conformance with them. A language that is not there is named, and counted as skipped.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::count::Count;
use crate::install::is_there;
use crate::prefix::{self, Profile};
use crate::test::cargo;
use crate::{python, root};

pub(crate) fn run(args: &[String]) -> ExitCode {
    let (may_install, rest) = match args.split_first() {
        Some((flag, rest)) if flag == "--no-install" => (false, rest),
        _ => (true, args),
    };
    if rest.len() > 1 || rest.iter().any(|arg| arg.starts_with('-')) {
        eprintln!("usage: cargo xtask conformance [--no-install] [NAME]");
        return ExitCode::from(2);
    }
    match play(may_install, rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("conformance: {error}\n{}", Count::FAILED);
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn play(may_install: bool, only: &[String]) -> io::Result<bool> {
    let packages = ["build", "--quiet", "-p", "outlive-c", "-p", "outlive-pthread", "-p", "outlive-conformance"];
    if !cargo(&packages).status()?.success() {
        return Err(io::Error::other("crates/outlive-conformance could not be built"));
    }
    let built = prefix::target().join("debug");
    let mut runner = Command::new(built.join("conformance"));
    runner.arg("--rust").arg(built.join("conformance-driver"));
    let drivers = root().join("crates/outlive-conformance/drivers");
    let mut skipped = Count::default();
    if is_there("cc") {
        let installed = prefix::target().join("c/installed");
        prefix::install(&installed, Profile::Dev)?;
        runner.arg("--c").arg(compiled("cc", "c17", &drivers.join("driver.c"), &installed)?);
        if is_there("c++") {
            runner.arg("--cpp").arg(compiled("c++", "c++20", &drivers.join("driver.cpp"), &installed)?);
        } else {
            println!("C++: skipped, there is no c++");
            skipped.add(Count::SKIPPED);
        }
    } else {
        println!("C and C++: skipped, there is no cc");
        skipped.add(Count { skipped: 2, ..Count::default() });
    }
    match python::built(may_install)? {
        Ok(python) => {
            runner.arg("--python").arg(format!("{} {}", python.display(), drivers.join("driver.py").display()));
        }
        Err(why) => {
            println!("Python: skipped, {why}");
            skipped.add(Count::SKIPPED);
        }
    }
    let is_well = runner.args(only).status()?.success();
    if skipped.skipped > 0 {
        println!("{skipped}");
    }
    Ok(is_well)
}

/// A driver, compiled against the installed library.
fn compiled(compiler: &str, standard: &str, source: &Path, installed: &Path) -> io::Result<PathBuf> {
    let lib = installed.join("lib");
    let to = installed.with_file_name(format!("conformance-driver-{compiler}"));
    let mut compile = Command::new(compiler);
    compile.arg(format!("-std={standard}")).args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    compile.arg(installed.join("include")).arg(source).arg("-L").arg(&lib).arg("-loutlive");
    compile.arg(format!("-Wl,-rpath,{}", lib.display())).arg("-o").arg(&to);
    if compile.status()?.success() {
        Ok(to)
    } else {
        Err(io::Error::other(format!("{} could not be compiled", source.display())))
    }
}
