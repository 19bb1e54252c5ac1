//! `cargo xtask dist [--check] [PART]...`: all that a release consists of, in target/packages, with
//! a checksum of each file.
//!
//! Not in target/dist: cargo keeps there what it builds with the profile `dist`. The parts are made
//! by the tools that their users know (debhelper, maturin, cargo, cargo-cyclonedx), each in
//! target/packaging. A tool that is missing and cannot be installed makes its part a skipped test.

mod checksums;
mod debian;
mod fresh_root;
mod pythons;
mod sbom;
mod wheels;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::count::Count;
use crate::crash::finish;
use crate::crates;
use crate::paths::root;
use crate::prefix::{self, Profile};

const USAGE: &str = "\
usage: cargo xtask dist [--check] [--dev] [--no-install] [PART]...

  PART          debian, wheels, crates, sbom [default: all of them]
  --check       try what was made: Debian's packages in a fresh root (needs root's rights), the
                wheels in an environment of each Python
  --dev         build Debian's packages quickly, without optimization
  --no-install  install no tool: a part whose tools are missing is skipped";

/// A part of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Debian,
    Wheels,
    Crates,
    Sbom,
}

const PARTS: [(&str, Part); 4] = [
    ("debian", Part::Debian),
    ("wheels", Part::Wheels),
    ("crates", Part::Crates),
    ("sbom", Part::Sbom),
];

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    parts: Vec<Part>,
    checks: bool,
    profile: Profile,
    may_install: bool,
}

impl Asked {
    fn of(args: &[String]) -> Option<Asked> {
        let mut asked =
            Asked { parts: Vec::new(), checks: false, profile: Profile::Dist, may_install: true };
        for arg in args {
            match arg.as_str() {
                "--check" => asked.checks = true,
                "--dev" => asked.profile = Profile::Dev,
                "--no-install" => asked.may_install = false,
                name => asked.parts.push(PARTS.iter().find(|part| part.0 == name)?.1),
            }
        }
        if asked.parts.is_empty() {
            asked.parts = PARTS.iter().map(|part| part.1).collect();
        }
        Some(asked)
    }
}

pub(crate) fn run(args: &[String]) -> ExitCode {
    let Some(asked) = Asked::of(args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut total = Count::default();
    for (name, part) in PARTS.iter().filter(|part| asked.parts.contains(&part.1)) {
        println!("\n== {name}");
        total.add(one(*part, &asked).unwrap_or_else(|error| {
            println!("{name}: {error}");
            Count::FAILED
        }));
    }
    match checksums::write(&artifacts()) {
        Ok(files) => println!("\n{files} files and SHA256SUMS in {}", artifacts().display()),
        Err(error) => {
            println!("SHA256SUMS: {error}");
            total.add(Count::FAILED);
        }
    }
    println!("{total}");
    finish(total)
}

fn one(part: Part, asked: &Asked) -> io::Result<Count> {
    match part {
        Part::Debian => {
            let to = folder("debian")?;
            let mut count = debian::build(&to, asked.profile, asked.may_install)?;
            if asked.checks && count == Count::PASSED {
                count.add(debian::lint(&to, asked.may_install));
                count.add(fresh_root::check(&to, asked.may_install)?);
            }
            Ok(count)
        }
        Part::Wheels => {
            let to = folder("wheels")?;
            let mut count = wheels::build(&to, asked.may_install)?;
            if asked.checks && count.failed == 0 && count.passed > 0 {
                count.add(wheels::audit(&to)?);
                count.add(pythons::check(&to)?);
            }
            Ok(count)
        }
        Part::Crates => crates::packed_into(&folder("crates")?),
        Part::Sbom => sbom::write(&folder("sbom")?, asked.may_install),
    }
}

/// Returns the folder of all that a release consists of.
pub(crate) fn artifacts() -> PathBuf {
    root().join(prefix::target()).join("packages")
}

/// Returns the folder in which the parts are made.
fn workshop() -> PathBuf {
    root().join(prefix::target()).join("packaging")
}

/// Returns a part's folder of artifacts, empty.
fn folder(name: &str) -> io::Result<PathBuf> {
    let folder = artifacts().join(name);
    empty(&folder)?;
    Ok(folder)
}

/// Makes a folder that has nothing in it.
fn empty(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(folder),
    }
}

/// Returns a clone of what is committed, which tools may write into.
fn clone(name: &str) -> io::Result<PathBuf> {
    let clone = workshop().join(name);
    empty(&clone)?;
    said(Command::new("git").args(["clone", "--quiet", "--local"]).arg(root()).arg(&clone))?;
    Ok(clone)
}

/// Returns the files directly in a folder whose names end so, sorted.
fn files(folder: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() && path.to_string_lossy().ends_with(ending) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns what a program writes, or why it failed.
fn said(command: &mut Command) -> io::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}\n{text}{why}", output.status)))
}

/// Runs a program whose output goes through to the reader; an error if it fails.
fn ran(command: &mut Command) -> io::Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?}: {status}")))
}

/// Returns when the commit was made, in seconds since 1970: what tools write into packages in the
/// place of the time at which they run, so that the same commit gives the same packages.
fn commit_time() -> io::Result<String> {
    let mut ask = Command::new("git");
    let said = said(ask.args(["log", "-1", "--format=%ct"]).current_dir(root()))?;
    Ok(said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Asked> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Asked::of(&words)
    }

    #[test]
    fn the_command_line_is_read() {
        let all = of("").expect("read");
        assert_eq!(all.parts, [Part::Debian, Part::Wheels, Part::Crates, Part::Sbom]);
        assert!(!all.checks && all.may_install && all.profile == Profile::Dist);
        let some = of("--check wheels --no-install debian --dev").expect("read");
        assert_eq!(some.parts, [Part::Wheels, Part::Debian]);
        assert!(some.checks && !some.may_install && some.profile == Profile::Dev);
        assert_eq!((of("rpm"), of("--fast")), (None, None));
    }

    #[test]
    fn a_folder_is_made_empty() {
        let folder = std::env::temp_dir().join(format!("outlive-dist-{}", std::process::id()));
        for _ in 0..2 {
            empty(&folder).expect("made");
            assert!(files(&folder, "").expect("readable").is_empty());
            fs::write(folder.join("left.deb"), "").expect("written");
            assert_eq!(files(&folder, ".deb").expect("readable"), [folder.join("left.deb")]);
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
