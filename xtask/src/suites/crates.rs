//! What suites from crates have in common: the adapter is a crate of the name that the tests use, in
//! a workspace of its own in the target folder, and the tests of the crate from the registry lie
//! beside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Program;
use crate::paths::{self, root};
use crate::prefix;
use crate::programs::Domain;

/// An adapter that is in place, and the crate whose tests it takes.
pub(super) struct Adapted {
    here: PathBuf,
    original: PathBuf,
}

impl Adapted {
    /// Puts the adapter's files in place and gets the crate, as the adapter's Cargo.toml.in names
    /// it; returns the reason if it cannot get it.
    pub(super) fn new(
        name: &str,
        version: &str,
        may_install: bool,
    ) -> io::Result<Result<Adapted, String>> {
        let adapter = paths::at(paths::SUITES_FOLDER).join(name);
        let here = prefix::target().join("suites").join(name);
        for folder in ["src", "tests"] {
            fs::create_dir_all(here.join(folder))?;
        }
        let manifest = fs::read_to_string(adapter.join("Cargo.toml.in"))?;
        let manifest = manifest.replace("@ROOT@", &root().display().to_string());
        put_if_other(&here.join("Cargo.toml"), manifest.as_bytes())?;
        for file in fs::read_dir(&adapter)? {
            let from = file?.path();
            if let Some(file) = from.file_name().filter(|_| from.extension() == Some("rs".as_ref()))
            {
                put_if_other(&here.join("src").join(file), &fs::read(&from)?)?;
            }
        }
        let wanted = format!("{name}-{version}");
        Ok(original(&here, &wanted, may_install)?
            .map(|original| Adapted { here, original })
            .ok_or_else(|| format!("{wanted} could not be had from crates.io")))
    }

    /// Takes a file of the crate as it is.
    pub(super) fn take(&self, file: &str) -> io::Result<()> {
        put_if_other(&self.here.join(file), &fs::read(self.original.join(file))?)
    }

    /// Takes what the crate's source file has below the first line of its tests, as it is, for the
    /// adapter's file of the same name to include.
    pub(super) fn take_tests(&self, file: &str) -> io::Result<()> {
        let source = fs::read_to_string(self.original.join("src").join(file))?;
        let tests = source.find("#[cfg(test)]").ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("{file} has no tests any more"))
        })?;
        let to = file.replace(".rs", "_tests.rs");
        put_if_other(&self.here.join("src").join(to), &source.as_bytes()[tests..])
    }

    /// Returns the program of these tests, with a limit: a message that does not arrive is a thread
    /// that waits for ever.
    pub(super) fn program(&self, group: &'static str, which: &[&str]) -> Program {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "900", "cargo", "test"]).args(which);
        command.current_dir(&self.here).env("CARGO_TARGET_DIR", self.here.join("target"));
        Program::Harness(group, command, Domain::new())
    }
}

/// Returns the folder of the crate as the registry has it.
fn original(here: &Path, wanted: &str, may_install: bool) -> io::Result<Option<PathBuf>> {
    let mut ask = Command::new("cargo");
    ask.args(["metadata", "--format-version", "1"]).args((!may_install).then_some("--offline"));
    let said = ask.current_dir(here).output()?;
    let said = String::from_utf8_lossy(&said.stdout);
    Ok(said.split('"').find_map(|word| {
        let folder = word.strip_suffix("/Cargo.toml")?;
        folder.ends_with(wanted).then(|| PathBuf::from(folder))
    }))
}

/// Writes a file only if its content is another: cargo compiles what is newer.
fn put_if_other(to: &Path, content: &[u8]) -> io::Result<()> {
    match fs::read(to) {
        Ok(there) if there == content => Ok(()),
        _ => fs::write(to, content),
    }
}
