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

/// Becomes an external program; returns why that failed. `install` is what installs it, in Outlive's
/// source.
pub fn become_program(name: &str, install: &str, args: &[OsString]) -> Failure {
    let Some(path) = find(name) else {
        let text = format!("the program {name} is not installed; in Outlive's source: {install}");
        return Failure::new(Code::NotFound, text);
    };
    let error = Command::new(&path).args(args).exec();
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
