//! crossbeam-channel's tests, from its crate: the adapter as a crate of that name, in a workspace of
//! its own in the target folder, and the tests beside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Program;
use crate::paths::{self, root};
use crate::prefix;
use crate::programs::Domain;

/// The files of tests that ask for a channel with or without a bound. The others are about channels
/// without room, about channels of time, and about a choice among several channels.
const FILES: [&str; 4] = ["mpsc", "list", "array", "iter"];
/// As Cargo.toml.in has it.
const ORIGINAL: &str = "crossbeam-channel-0.5.15";

pub(super) fn ready(may_install: bool) -> io::Result<Result<Vec<Program>, String>> {
    let adapter = paths::at(paths::SUITES_FOLDER).join("crossbeam-channel");
    let here = prefix::target().join("suites/crossbeam-channel");
    for folder in ["src", "tests"] {
        fs::create_dir_all(here.join(folder))?;
    }
    let manifest = fs::read_to_string(adapter.join("Cargo.toml.in"))?;
    let manifest = manifest.replace("@ROOT@", &root().display().to_string());
    put_if_other(&here.join("Cargo.toml"), manifest.as_bytes())?;
    for file in ["lib.rs", "errors.rs"] {
        put_if_other(&here.join("src").join(file), &fs::read(adapter.join(file))?)?;
    }
    let Some(original) = original(&here, may_install)? else {
        return Ok(Err(format!("{ORIGINAL} could not be had from crates.io")));
    };
    for file in FILES {
        let name = format!("{file}.rs");
        put_if_other(
            &here.join("tests").join(&name),
            &fs::read(original.join("tests").join(&name))?,
        )?;
    }
    let program = |group| {
        // With a limit: a message that does not arrive is a thread that waits for ever.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "900", "cargo", "test", "--test", group]);
        command.current_dir(&here).env("CARGO_TARGET_DIR", here.join("target"));
        Program::Harness(group, command, Domain::new())
    };
    Ok(Ok(FILES.map(program).into_iter().collect()))
}

/// Returns the folder of the crate as the registry has it.
fn original(here: &Path, may_install: bool) -> io::Result<Option<PathBuf>> {
    let mut ask = Command::new("cargo");
    ask.args(["metadata", "--format-version", "1"]).args((!may_install).then_some("--offline"));
    let said = ask.current_dir(here).output()?;
    let said = String::from_utf8_lossy(&said.stdout);
    Ok(said.split('"').find_map(|word| {
        let folder = word.strip_suffix("/Cargo.toml")?;
        folder.ends_with(ORIGINAL).then(|| PathBuf::from(folder))
    }))
}

/// Writes a file only if its content is another: cargo compiles what is newer.
fn put_if_other(to: &Path, content: &[u8]) -> io::Result<()> {
    match fs::read(to) {
        Ok(there) if there == content => Ok(()),
        _ => fs::write(to, content),
    }
}
