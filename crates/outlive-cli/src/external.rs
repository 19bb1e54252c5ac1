//! Programs that carry Outlive further: `outlive VERB` becomes `outlive-VERB`, as git does it.
//!
//! They are built only where they are wanted, so one may be missing: then this program says how it is
//! installed.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::{Code, Failure};

/// An external program.
pub struct Program {
    name: &'static str,
    /// What installs it, in Outlive's source.
    install: &'static str,
}

impl Program {
    /// Names one.
    pub const fn new(name: &'static str, install: &'static str) -> Program {
        Program { name, install }
    }
}

/// Becomes an external program, with those variables in its environment besides; returns why that failed.
pub fn become_program(
    program: &Program,
    args: &[OsString],
    variables: &[(&str, OsString)],
) -> Failure {
    let Program { name, install } = program;
    let Some(path) = find(name) else {
        let text = format!("the program {name} is not installed; in Outlive's source: {install}");
        return Failure::new(Code::NotFound, text);
    };
    let mut command = Command::new(&path);
    command.args(args).envs(variables.iter().map(|(name, value)| (name, value)));
    let error = command.exec();
    let code = if error.kind() == ErrorKind::NotFound { Code::NotFound } else { Code::System };
    Failure::new(code, format!("could not run {}: {error}", path.display()))
}

/// Looks beside this program, then in the folders of `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    // An empty folder of `PATH` would mean the current one: nothing is started from there.
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    beside.into_iter().chain(folders).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
