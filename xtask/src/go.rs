//! `cargo xtask go`: the Go package of bindings/go against the installed C library, as a user builds
//! it: its format, `go vet`, its tests, with Go's race detector too, and the programs in Go of the
//! project's pages. A machine without Go, or with one that is too old, is told so, and the stage is
//! skipped.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::count::Count;
use crate::install::is_there;
use crate::paths::{self, root};
use crate::prefix::{self, Profile};
use crate::programs::{self, Language, Tools};

/// The oldest Go that the package is for, as its go.mod has it.
const OLDEST: (u32, u32) = (1, 24);

pub(crate) fn run(args: &[String]) -> ExitCode {
    if !args.is_empty() {
        eprintln!("usage: cargo xtask go");
        return ExitCode::from(2);
    }
    let total = if let Some(why) = lacking() {
        println!("Go: skipped, {why}");
        Count::SKIPPED
    } else {
        match all() {
            Ok(count) => count,
            Err(error) => {
                println!("Go: {error}");
                Count::FAILED
            }
        }
    };
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says why this machine builds no Go package; `None` if it does.
pub(crate) fn lacking() -> Option<String> {
    if let Some(missing) = ["go", "cc", "pkg-config"].into_iter().find(|name| !is_there(name)) {
        return Some(format!("there is no {missing}"));
    }
    let said = Command::new("go").args(["env", "GOVERSION"]).output().ok()?.stdout;
    let version = String::from_utf8_lossy(&said).trim().to_owned();
    let fits = version_of(&version).is_some_and(|version| version >= OLDEST);
    (!fits).then(|| format!("'{version}' is older than Go {}.{}", OLDEST.0, OLDEST.1))
}

/// Reads `go1.26.8`.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("go")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn all() -> io::Result<Count> {
    let installed = installed()?;
    let mut total = Count::default();
    let drivers = paths::at(paths::CONFORMANCE_DRIVERS).join("go");
    for folder in [paths::at(paths::GO), drivers] {
        let said = Command::new("gofmt").arg("-l").arg(&folder).output()?.stdout;
        let unformatted = String::from_utf8_lossy(&said).into_owned();
        if !unformatted.trim().is_empty() {
            println!("not formatted:\n{unformatted}");
        }
        total.add(passed(unformatted.trim().is_empty()));
        total.add(passed(go(&installed, &folder).args(["vet", "./..."]).status()?.success()));
    }
    total.add(tests(&installed, &[])?);
    total.add(tests(&installed, &["-race"])?);
    total.add(programs::all_in(
        &[Language::Go],
        &Tools { installed: Some(installed), ..Tools::default() },
    ));
    Ok(total)
}

fn passed(is_well: bool) -> Count {
    if is_well { Count::PASSED } else { Count::FAILED }
}

/// Runs the package's tests; counts them.
fn tests(installed: &Path, flags: &[&str]) -> io::Result<Count> {
    let mut test = go(installed, &paths::at(paths::GO));
    let output = test.args(["test", "-count=1", "-v", "-timeout=10m"]).args(flags).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = counted(&said);
    println!("go {}: {count}", [&["test"], flags].concat().join(" "));
    let is_well = output.status.success() && count.failed == 0;
    if !is_well {
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    }
    // A program that ends in a panic has counted no failure.
    Ok(if is_well || count.failed > 0 { count } else { Count::FAILED })
}

/// Counts the lines in which `go test -v` says what became of a test.
fn counted(said: &str) -> Count {
    let mut count = Count::default();
    for line in said.lines() {
        if line.starts_with("--- PASS: ") {
            count.add(Count::PASSED);
        } else if line.starts_with("--- FAIL: ") {
            count.add(Count::FAILED);
        } else if line.starts_with("--- SKIP: ") {
            count.add(Count::SKIPPED);
        }
    }
    count
}

/// Installs the C library where Go finds it.
fn installed() -> io::Result<PathBuf> {
    let installed = root().join(prefix::target()).join("c/installed");
    prefix::install(&installed, Profile::Dev)?;
    Ok(installed)
}

/// Returns Go's command in a folder, with the installed library.
pub(crate) fn go(installed: &Path, folder: &Path) -> Command {
    let lib = installed.join("lib");
    // Go builds a package anew when its flags change, not when a header does.
    let mut header = DefaultHasher::new();
    fs::read(installed.join("include/outlive.h")).unwrap_or_default().hash(&mut header);
    let mut command = Command::new("go");
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("CGO_ENABLED", "1")
        .env("CGO_CFLAGS", format!("-O2 -g -DOUTLIVE_HEADER={}", header.finish()))
        .env("CGO_LDFLAGS", format!("-Wl,-rpath,{}", lib.display()))
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .env("GOTOOLCHAIN", "local")
        .env("GOPROXY", "off")
        .env("GOWORK", "off");
    command
}

/// Builds the conformance driver; returns it.
pub(crate) fn driver() -> io::Result<PathBuf> {
    let installed = installed()?;
    let to = installed.with_file_name("conformance-driver-go");
    let folder = paths::at(paths::CONFORMANCE_DRIVERS).join("go");
    if go(&installed, &folder).args(["build", "-o"]).arg(&to).arg(".").status()?.success() {
        Ok(to)
    } else {
        Err(io::Error::other("go could not build the driver"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_outcomes_are_read() {
        assert_eq!(version_of("go1.26.8"), Some((1, 26)));
        assert_eq!(version_of("go1.24"), Some((1, 24)));
        assert_eq!(version_of("devel"), None);
        let said = "=== RUN TestA\n--- PASS: TestA (0.01s)\n--- FAIL: TestB (0.1s)\n    --- PASS: TestB/c (0s)\n--- SKIP: TestD\nPASS\n";
        assert_eq!(counted(said), Count { passed: 1, failed: 1, skipped: 1 });
    }

    #[test]
    fn the_package_says_which_go_it_is_for() {
        let module = fs::read_to_string(paths::at(paths::GO).join("go.mod")).expect("readable");
        assert!(module.lines().any(|line| line == format!("go {}.{}", OLDEST.0, OLDEST.1)));
    }
}
