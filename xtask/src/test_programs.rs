//! The workspace's compiled test programs, to be run without cargo.
//!
//! `cargo test --lib --bins --test NAME` compiles more than `cargo test`: each library and program of
//! which Cargo.toml says that it has no tests is compiled as if it had some.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::paths::root;
use crate::prefix;
use crate::stage::{Counts, Stage};

/// A test program as cargo has compiled it.
pub(crate) struct TestProgram {
    package: PathBuf,
    /// The target's name: the test file's, or the crate's.
    pub(crate) name: String,
    pub(crate) program: PathBuf,
}

impl TestProgram {
    /// Returns whether it is that target of the package in that folder.
    pub(crate) fn is(&self, folder: &str, target: &str) -> bool {
        self.package == root().join(folder) && self.name == target
    }

    /// Returns the stage that runs it as `cargo test` does: in its package's folder.
    pub(crate) fn stage(self) -> Stage {
        let folder = self.package.strip_prefix(root()).unwrap_or(&self.package);
        let name = format!("{} of {}", self.name, folder.display());
        let mut command = Command::new(self.program);
        command
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package)
            .env("LD_LIBRARY_PATH", library_path());
        Stage::new(&name, command, Counts::ByLines)
    }
}

/// Returns the programs that a command compiles, or has compiled; `command` is cargo's, of tests that
/// it does not run.
pub(crate) fn test_programs(mut command: Command) -> Vec<TestProgram> {
    // The compiler's messages come as a reader expects them, on the other stream.
    command.arg("--message-format=json-render-diagnostics");
    let said =
        command.stderr(Stdio::inherit()).output().map(|output| output.stdout).unwrap_or_default();
    said.split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Artifact>(line).ok())
        .filter(|artifact| artifact.profile.test)
        .filter_map(|artifact| {
            let package = artifact.manifest_path.parent()?.to_path_buf();
            Some(TestProgram { package, name: artifact.target.name, program: artifact.executable? })
        })
        .collect()
}

/// Returns where a test program finds libraries: what the workspace builds, and the compiler's own,
/// which a procedural macro's tests load.
fn library_path() -> OsString {
    let of_rust = Command::new("rustc").args(["--print", "target-libdir"]).output();
    // The programs run in their packages' folders: as cargo does, from the root. An absolute path stays.
    let target = root().join(prefix::target());
    let mut folders = vec![target.join("debug/deps"), target.join("debug")];
    folders.extend(of_rust.map(|said| PathBuf::from(String::from_utf8_lossy(&said.stdout).trim())));
    if let Some(more) = std::env::var_os("LD_LIBRARY_PATH") {
        folders.extend(std::env::split_paths(&more));
    }
    std::env::join_paths(folders).unwrap_or_default()
}

/// What cargo says of a thing that it has compiled, as far as it is asked for here.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}
