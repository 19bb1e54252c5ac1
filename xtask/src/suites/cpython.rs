//! CPython's tests of its locks, queues and multiprocessing, as the installed interpreter has them.

use std::io;
use std::process::Command;

use super::Program;
use crate::paths;
use crate::python;

pub(super) fn ready(may_install: bool) -> io::Result<Result<Vec<Program>, String>> {
    Ok(python::built(may_install, false)?.map(|python| {
        let mut command = Command::new(python);
        // An adapter's folder is no place for compiled files.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(paths::at(paths::SUITES_FOLDER).join("cpython/run.py"));
        vec![Program::Adapter(command)]
    }))
}
