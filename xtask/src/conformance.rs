//! `cargo xtask conformance`: builds a driver for each language, with what a user of that language
//! would build it with, and plays the scenarios of proof/conformance with them. A language that is
//! not there is named, and counted as skipped. With `--sanitize` C's and C++'s are compiled with
//! gcc's address and undefined-behaviour sanitizers, and each plays by itself; C's does so also
//! whenever all scenarios are played. With `--one-pair` each scenario is played in each language
//! and in one pair only.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::c::can_sanitize;
use crate::count::Count;
use crate::go;
use crate::install::is_there;
use crate::java::Java;
use crate::paths;
use crate::prefix::{self, Profile};
use crate::python;

pub(crate) fn run(args: &[String]) -> ExitCode {
    let (flags, only): (Vec<String>, Vec<String>) =
        args.iter().cloned().partition(|arg| arg.starts_with('-'));
    let played = match flags.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        _ if only.len() > 1 => None,
        [] => Some(play(true, false, &only)),
        ["--one-pair"] => Some(play(true, true, &only)),
        ["--no-install"] => Some(play(false, false, &only)),
        ["--one-pair", "--no-install"] => Some(play(false, true, &only)),
        ["--sanitize"] => Some(play_sanitized(&[("--c", "cc"), ("--cpp", "c++")], &only)),
        _ => None,
    };
    let Some(played) = played else {
        eprintln!(
            "usage: cargo xtask conformance [[--one-pair] [--no-install] | --sanitize] [NAME]"
        );
        return ExitCode::from(2);
    };
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("conformance: {error}\n{}", Count::FAILED);
            ExitCode::FAILURE
        }
    }
}

/// Returns the runner, built with Rust's driver.
fn runner() -> io::Result<Command> {
    prefix::build_all()?;
    Ok(Command::new(prefix::target().join("debug/conformance")))
}

/// Builds C's and C++'s drivers, as far as there are compilers: the runner's flags, and the
/// programs.
fn c_and_cpp(skipped: &mut Count) -> io::Result<Vec<(&'static str, PathBuf)>> {
    let mut drivers = Vec::new();
    for (language, flag, compiler) in [("C", "--c", "cc"), ("C++", "--cpp", "c++")] {
        if is_there("cc") && is_there(compiler) {
            drivers.push((flag, compiled(compiler, &[])?));
        } else {
            println!("{language}: skipped, there is no {compiler}");
            skipped.add(Count::SKIPPED);
        }
    }
    Ok(drivers)
}

/// Returns whether all is well with what the sanitizers look at, in each of these languages by
/// itself: what the drivers give the library, and do with what they get.
fn play_sanitized(languages: &[(&str, &str)], only: &[String]) -> io::Result<bool> {
    let mut is_well = true;
    for (flag, compiler) in languages {
        if is_there(compiler) && can_sanitize(&prefix::target().join("c")) {
            println!("{compiler} with sanitizers");
            let driver = compiled(compiler, &SANITIZED)?;
            is_well &= runner()?.arg(flag).arg(driver).args(only).status()?.success();
        } else {
            println!(
                "sanitizers: skipped, there is no {compiler} that has them\n{}",
                Count::SKIPPED
            );
        }
    }
    Ok(is_well)
}

/// Returns whether all is well.
fn play(may_install: bool, one_pair: bool, only: &[String]) -> io::Result<bool> {
    let mut runner = runner()?;
    runner.arg("--rust").arg(prefix::target().join("debug/conformance-driver"));
    let drivers = paths::at(paths::CONFORMANCE_DRIVERS);
    let mut skipped = Count::default();
    for (flag, driver) in c_and_cpp(&mut skipped)? {
        runner.arg(flag).arg(driver);
    }
    match python::built(may_install, false)? {
        Ok(python) => {
            runner.arg("--python").arg(format!(
                "{} {}",
                python.display(),
                drivers.join("python/main.py").display()
            ));
        }
        Err(why) => {
            println!("Python: skipped, {why}");
            skipped.add(Count::SKIPPED);
        }
    }
    match go::lacking() {
        None => {
            runner.arg("--go").arg(go::driver()?);
        }
        Some(why) => {
            println!("Go: skipped, {why}");
            skipped.add(Count::SKIPPED);
        }
    }
    match Java::find() {
        Ok(java) => {
            runner.arg("--java").arg(java.driver()?);
        }
        Err(why) => {
            println!("Java: skipped, {why}");
            skipped.add(Count::SKIPPED);
        }
    }
    runner.args(one_pair.then_some("--one-pair"));
    let mut is_well = runner.args(only).status()?.success();
    if skipped.skipped > 0 {
        println!("{skipped}");
    }
    // C's takes seconds; C++'s is compiled for longer than all scenarios are played.
    if only.is_empty() {
        is_well &= play_sanitized(&[("--c", "cc")], only)?;
    }
    Ok(is_well)
}

const SANITIZED: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// Returns the driver of the compiler's language, compiled against the installed library.
fn compiled(compiler: &str, options: &[&str]) -> io::Result<PathBuf> {
    let installed = prefix::target().join("c/installed");
    prefix::install(&installed, Profile::Dev)?;
    let folder = paths::at(paths::CONFORMANCE_DRIVERS);
    let (standard, sources) = if compiler == "cc" {
        ("c17", sources(&folder.join("c"))?)
    } else {
        ("c++20", vec![folder.join("cpp/main.cpp")])
    };
    let lib = installed.join("lib");
    let how = if options.is_empty() { "" } else { "-sanitized" };
    let to = installed.with_file_name(format!("conformance-driver-{compiler}{how}"));
    let mut compile = Command::new(compiler);
    compile
        .arg(format!("-std={standard}"))
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    compile
        .arg(installed.join("include"))
        .args(options)
        .args(&sources)
        .arg("-L")
        .arg(&lib)
        .arg("-loutlive");
    compile.arg(format!("-Wl,-rpath,{}", lib.display())).arg("-o").arg(&to);
    if compile.status()?.success() {
        Ok(to)
    } else {
        Err(io::Error::other(format!("{compiler} could not compile the driver")))
    }
}

/// Returns the C files of that folder.
fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = folder.read_dir()?.map(|entry| Ok(entry?.path()));
    let mut found: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    found.retain(|path| path.extension().is_some_and(|is| is == "c"));
    found.sort();
    Ok(found)
}
