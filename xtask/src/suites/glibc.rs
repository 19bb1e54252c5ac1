//! glibc's tests of its locks under the pthread shim, from the source package of this Debian.

use std::io;
use std::process::Command;

use super::Program;
use crate::install::is_there;
use crate::paths;
use crate::prefix;

pub(super) fn ready(may_install: bool) -> io::Result<Result<Vec<Program>, String>> {
    if !is_there("python3") {
        return Ok(Err("there is no python3, which runs the adapter".to_owned()));
    }
    prefix::build_all()?;
    let target = prefix::target();
    let mut command = Command::new("python3");
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(paths::at(paths::SUITES_FOLDER).join("glibc/run.py"))
        .arg("--shim")
        .arg(target.join("debug/liboutlive_pthread.so"))
        .arg("--work")
        .arg(target.join("suites/glibc"))
        .args((!may_install).then_some("--offline"));
    Ok(Ok(vec![Program::Adapter(command)]))
}
