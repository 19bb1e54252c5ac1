//! Boost.Interprocess's tests over Outlive's objects, from Boost's source package of this Debian.

use std::io;
use std::process::Command;

use super::Program;
use crate::install::is_there;
use crate::paths;
use crate::prefix::{self, Profile};

pub(super) fn ready(may_install: bool) -> io::Result<Result<Vec<Program>, String>> {
    if !is_there("python3") {
        return Ok(Err("there is no python3, which runs the adapter".to_owned()));
    }
    let installed = prefix::target().join("c/installed");
    prefix::install(&installed, Profile::Dev)?;
    let mut command = Command::new("python3");
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(paths::at(paths::SUITES_FOLDER).join("boost/run.py"))
        .arg("--installed")
        .arg(installed)
        .arg("--work")
        .arg(prefix::target().join("suites/boost"))
        .args((!may_install).then_some("--offline"));
    Ok(Ok(vec![Program::Adapter(command)]))
}
