//! The programs that run in the virtual machine, built for its processor.
//!
//! For this machine's own processor they are those that `cargo xtask test` has compiled. For another
//! one a compiler of Debian's that has its standard library builds them in a folder of their own.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::processor::Processor;
use crate::paths::root;
use crate::prefix;
use crate::test::{cargo, compiled};
use crate::test_programs::{TestProgram, test_programs};

/// What a test needs to have been built.
#[derive(Clone, Copy, PartialEq, Eq)]
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
    /// Returns its package, and the test target where it is one.
    fn package(self) -> (&'static str, Option<&'static str>) {
        match self {
            Program::Outlive => ("outlive-cli", None),
            Program::Library => ("outlive", None),
            Program::Processes => ("outlive-processes", Some("processes")),
            Program::Recording => ("outlive-record", Some("recording")),
            Program::Testkit => ("outlive-testkit", None),
        }
    }

    /// Returns the folder of its package, and the target's name.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Program::Library => ("crates/outlive", "outlive"),
            Program::Processes => ("crates/outlive/tests/processes", "processes"),
            Program::Recording => ("crates/outlive-record", "recording"),
            Program::Outlive => ("crates/outlive-cli", "outlive"),
            Program::Testkit => ("proof/testkit", "crash"),
        }
    }
}

/// The programs, where cargo has put them.
pub(crate) struct Programs {
    tests: Vec<TestProgram>,
    /// Where programs that are no tests lie.
    debug: PathBuf,
    testkit: PathBuf,
}

impl Programs {
    /// Builds what is wanted; with the compiler in that folder, if it is for another processor.
    pub(crate) fn build(
        processor: &Processor,
        rust: Option<&Path>,
        folder: &Path,
        wanted: &[Program],
    ) -> Result<Programs, String> {
        match rust {
            None => Programs::native(wanted),
            Some(rust) => Programs::cross(processor, rust, folder, wanted),
        }
    }

    fn native(wanted: &[Program]) -> Result<Programs, String> {
        if wanted.contains(&Program::Testkit) {
            run(cargo(&crate::crash::BUILD_TESTKIT))?;
        }
        let target = root().join(prefix::target());
        Ok(Programs {
            tests: test_programs(compiled()),
            debug: target.join("debug"),
            testkit: target.join("testkit"),
        })
    }

    fn cross(
        processor: &Processor,
        rust: &Path,
        folder: &Path,
        wanted: &[Program],
    ) -> Result<Programs, String> {
        let target = folder.join("build");
        let cross = |args: &[&str]| {
            let mut command = cargo(args);
            let linker = processor.triple.to_uppercase().replace('-', "_");
            command
                .args(["--quiet", "--target", processor.triple])
                .env("CARGO_TARGET_DIR", &target)
                .env("RUSTC", rust.join("usr/bin/rustc"))
                .env("LD_LIBRARY_PATH", libraries(rust))
                .env(format!("CARGO_TARGET_{linker}_LINKER"), processor.compiler.program)
                // Of this machine's processor, and the compiler's own.
                .env_remove("RUSTFLAGS")
                .env_remove("RUSTC_WRAPPER")
                .env_remove("RUSTDOC");
            command
        };
        // All at once: the packages have their dependencies' features in common then, and each is
        // compiled once.
        let is_test = |program: &&Program| program.package().1.is_some();
        let mut tests = cross(&["test", "--no-run"]);
        for program in wanted.iter().filter(is_test) {
            let (package, target) = program.package();
            tests.args(["-p", package]).args(target.iter().flat_map(|target| ["--test", target]));
        }
        let mut found = Vec::new();
        if wanted.iter().any(|program| is_test(&program)) {
            found.extend(test_programs(tests));
        }
        if wanted.contains(&Program::Library) {
            found.extend(test_programs(cross(&["test", "--no-run", "-p", "outlive", "--lib"])));
        }
        if wanted.contains(&Program::Outlive) {
            run(cross(&["build", "-p", "outlive-cli"]))?;
        }
        if wanted.contains(&Program::Testkit) {
            run(cross(&["build", "--profile", "testkit", "-p", "outlive-testkit"]))?;
        }
        let built = target.join(processor.triple);
        Ok(Programs { tests: found, debug: built.join("debug"), testkit: built.join("testkit") })
    }

    /// Returns the files of a program: the one that is started first, and those that it starts.
    pub(crate) fn files(&self, program: Program) -> Result<Vec<PathBuf>, String> {
        let of_test = || {
            let (folder, name) = program.place();
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
        let first = first.ok_or_else(|| format!("{} was not built", program.place().1))?;
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

fn run(mut command: Command) -> Result<(), String> {
    let ended = command.status();
    let is_well = ended.as_ref().is_ok_and(std::process::ExitStatus::success);
    let said = |error: &io::Error| error.to_string();
    if is_well {
        Ok(())
    } else {
        Err(ended.as_ref().err().map_or("it does not build".to_owned(), said))
    }
}
