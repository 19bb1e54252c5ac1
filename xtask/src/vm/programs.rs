//! The programs that run in the virtual machine, built for its processor.
//!
//! For another processor than this machine's, a compiler of Debian's that has its standard library
//! builds them, in a folder of their own.

use std::path::{Path, PathBuf};

use super::processor::Processor;
use crate::paths::root;
use crate::prefix;
use crate::test::{WORKSPACE, cargo};
use crate::test_programs::{TestProgram, test_programs};

/// What a test needs to have been built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The program `outlive`.
    Outlive,
    /// The library's own tests.
    Library,
    /// The tests with processes.
    Processes,
    /// The recorder's tests, and the recorder.
    Recording,
    /// The testkit's programs.
    Testkit,
}

impl Program {
    /// Returns the folder of its package, and the name of the test target.
    fn test(self) -> Option<(&'static str, &'static str)> {
        match self {
            Program::Library => Some(("crates/outlive", "outlive")),
            Program::Processes => Some(("crates/outlive/tests/processes", "processes")),
            Program::Recording => Some(("crates/outlive-record", "recording")),
            Program::Outlive | Program::Testkit => None,
        }
    }

    /// Returns which targets it is made of, of [`PACKAGES`].
    fn targets(self) -> &'static [&'static str] {
        match self {
            Program::Outlive => &["--bin", "outlive"],
            Program::Processes => &["--test", "processes"],
            Program::Recording => {
                &["--test", "recording", "--bin", "outlive-record", "--bin", "outlive-replay"]
            }
            Program::Library | Program::Testkit => &[],
        }
    }
}

/// The packages of these programs, chosen together whatever is built: so they have their
/// dependencies' features in common, and each dependency is compiled once. For this machine's own
/// processor they are chosen as the test command chooses them ([`WORKSPACE`]): what it has compiled
/// is not compiled again.
const PACKAGES: [&str; 8] =
    ["-p", "outlive", "-p", "outlive-processes", "-p", "outlive-cli", "-p", "outlive-record"];

/// The programs, where cargo has put them.
pub(crate) struct Programs {
    tests: Vec<TestProgram>,
    /// Where programs that are no tests lie.
    debug: PathBuf,
    testkit: PathBuf,
}

impl Programs {
    /// Builds what is wanted; with the compiler in the folder `rust`, if it is for another
    /// processor.
    pub(crate) fn build(
        processor: &Processor,
        rust: Option<&Path>,
        folder: &Path,
        wanted: &[Program],
    ) -> Result<Programs, String> {
        let (target, built) = match rust {
            None => {
                let target = root().join(prefix::target());
                (target.clone(), target)
            }
            Some(_) => {
                let target = folder.join("build");
                (target.clone(), target.join(processor.triple))
            }
        };
        let with = |args: &[&str]| {
            let mut command = cargo(args);
            command.arg("--quiet").env("CARGO_TARGET_DIR", &target);
            if let Some(rust) = rust {
                let linker = processor.triple.to_uppercase().replace('-', "_");
                command
                    .args(["--target", processor.triple])
                    .env("RUSTC", rust.join("usr/bin/rustc"))
                    .env("LD_LIBRARY_PATH", libraries(rust))
                    .env(format!("CARGO_TARGET_{linker}_LINKER"), processor.compiler.program)
                    // Of this machine's processor, and of its compiler.
                    .env_remove("RUSTFLAGS")
                    .env_remove("RUSTC_WRAPPER");
            }
            command
        };
        let packages: &[&str] = if rust.is_some() { &PACKAGES } else { &WORKSPACE };
        let targets: Vec<&str> =
            wanted.iter().flat_map(|program| program.targets()).copied().collect();
        let mut tests = Vec::new();
        if !targets.is_empty() {
            let mut build = with(&["build"]);
            build.args(packages).args(targets);
            tests.extend(test_programs(build));
        }
        if wanted.contains(&Program::Library) {
            let mut build = with(&["test", "--no-run", "--lib"]);
            build.args(packages);
            tests.extend(test_programs(build));
        }
        if wanted.contains(&Program::Testkit) {
            // What it has built is looked for by the caller.
            let build = ["build", "--profile", "testkit", "-p", "outlive-testkit"];
            let _ = with(&build).status();
        }
        Ok(Programs { tests, debug: built.join("debug"), testkit: built.join("testkit") })
    }

    /// Returns the files of a program: the one that is started first, and those that it starts.
    pub(crate) fn files(&self, program: Program) -> Result<Vec<PathBuf>, String> {
        let of_test = || {
            let (folder, name) = program.test()?;
            let is_it = |test: &&TestProgram| test.is(folder, name);
            self.tests.iter().find(is_it).map(|test| test.program.clone())
        };
        let (first, others) = match program {
            Program::Outlive => (Some(self.debug.join("outlive")), vec![]),
            Program::Library | Program::Processes => (of_test(), vec![]),
            Program::Recording => {
                let names = ["outlive-record", "outlive-replay"];
                (of_test(), names.map(|name| self.debug.join(name)).to_vec())
            }
            Program::Testkit => {
                (Some(self.testkit.join("crash")), vec![self.testkit.join("victim")])
            }
        };
        let first = first.ok_or_else(|| format!("{program:?} was not built"))?;
        let files: Vec<PathBuf> = std::iter::once(first).chain(others).collect();
        match files.iter().find(|file| !file.is_file()) {
            Some(missing) => Err(format!("{} was not built", missing.display())),
            None => Ok(files),
        }
    }
}

/// Where the unpacked compiler finds its own libraries.
fn libraries(rust: &Path) -> PathBuf {
    rust.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))
}
