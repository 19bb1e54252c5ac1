//! `cargo xtask install --prefix DIR`: headers, libraries, pkg-config and CMake files, where C and
//! C++ programs find them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::paths::{self, root};
use crate::test::cargo;

/// The name by which programs ask for the library when they start: crates/outlive-c/build.rs has it
/// too.
const SONAME: &str = "liboutlive.so.0";

const USAGE: &str = "usage: cargo xtask install --prefix DIR [--dev]";

pub(crate) fn run(args: &[String]) -> ExitCode {
    let (prefix, profile) = match args {
        [flag, prefix] if flag == "--prefix" => (prefix, Profile::Release),
        [flag, prefix, dev] if flag == "--prefix" && dev == "--dev" => (prefix, Profile::Dev),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match install(Path::new(prefix), profile) {
        Ok(()) => {
            println!("installed into {prefix}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cargo xtask install: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Release,
    /// For tests: quick to build.
    Dev,
}

/// Returns where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds what the tests of all languages use. The whole workspace at once, with the features that
/// `cargo test --workspace` has: what is left out takes features with it, and cargo would compile
/// anew what the rest shares with it. Only this very program is left out.
pub(crate) fn build_all() -> io::Result<()> {
    if cargo(&[
        "build",
        "--quiet",
        "--workspace",
        "--exclude",
        "xtask",
        "--exclude",
        "outlive-loom",
    ])
    .status()?
    .success()
    {
        Ok(())
    } else {
        Err(io::Error::other("the workspace could not be built"))
    }
}

/// Builds the C library and puts it there, with all that goes with it, and the shim for
/// `LD_PRELOAD`.
pub(crate) fn install(prefix: &Path, profile: Profile) -> io::Result<()> {
    if profile == Profile::Dev {
        build_all()?;
    } else if !cargo(&["build", "--quiet", "--release", "-p", "outlive-c", "-p", "outlive-pthread"])
        .status()?
        .success()
    {
        return Err(io::Error::other("outlive-c and outlive-pthread could not be built"));
    }
    let built = target().join(if profile == Profile::Release { "release" } else { "debug" });
    let version = env!("CARGO_PKG_VERSION");
    let [include, lib] = ["include", "lib"].map(|folder| prefix.join(folder));
    for folder in [&include, &lib.join("pkgconfig"), &lib.join("cmake/outlive")] {
        fs::create_dir_all(folder)?;
    }
    let ours = paths::at(paths::C);
    // outlive.h and outlive.hpp, and the folder of what the latter includes.
    for folder in ["", "outlive"] {
        fs::create_dir_all(include.join(folder))?;
        for header in fs::read_dir(ours.join("include").join(folder))? {
            let header = header?;
            if header.file_type()?.is_file() {
                put(&header.path(), &include.join(folder).join(header.file_name()))?;
            }
        }
    }
    let shared = format!("liboutlive.so.{version}");
    link_shared(&built.join("liboutlive_c.a"), &lib.join(&shared))?;
    put(&built.join("liboutlive_c.a"), &lib.join("liboutlive.a"))?;
    link(&shared, &lib.join(SONAME))?;
    link(SONAME, &lib.join("liboutlive.so"))?;
    put(&built.join("liboutlive_pthread.so"), &lib.join("liboutlive_pthread.so"))?;
    let filled_in = |from: &str, to: &Path| -> io::Result<()> {
        replace(
            to,
            fs::read_to_string(ours.join("cmake").join(from))?
                .replace("@VERSION@", version)
                .as_bytes(),
        )
    };
    filled_in("outlive.pc.in", &lib.join("pkgconfig/outlive.pc"))?;
    filled_in(
        "outlive-config-version.cmake.in",
        &lib.join("cmake/outlive/outlive-config-version.cmake"),
    )?;
    put(&ours.join("cmake/outlive-config.cmake"), &lib.join("cmake/outlive/outlive-config.cmake"))
}

/// Links the shared library from the archive, with versions for its symbols: rustc's own list of
/// what a shared library exports leaves no room for them.
fn link_shared(archive: &Path, to: &Path) -> io::Result<()> {
    let new = beside(to);
    let version_script = paths::at(paths::C).join("outlive.map");
    let mut link = Command::new("cc");
    // As the linker does it for rustc: what nothing exports or uses is left out, and the loader
    // finds all symbols before it runs anything.
    link.args(["-shared", "-Wl,--gc-sections", "-Wl,-z,relro,-z,now"])
        .arg(format!("-Wl,-soname,{SONAME}"))
        .arg(format!("-Wl,--version-script={}", version_script.display()))
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm", "-lrt", "-lutil", "-o"])
        .arg(&new);
    if !link.status()?.success() {
        return Err(io::Error::other("cc could not link liboutlive.so"));
    }
    fs::rename(new, to)
}

/// Copies a file under a new inode: a program that runs with the old library goes on with it.
pub(crate) fn put(from: &Path, to: &Path) -> io::Result<()> {
    let new = beside(to);
    fs::copy(from, &new)
        .map_err(|error| io::Error::other(format!("{}: {error}", from.display())))?;
    fs::rename(new, to)
}

fn replace(to: &Path, text: &[u8]) -> io::Result<()> {
    let new = beside(to);
    fs::write(&new, text)?;
    fs::rename(new, to)
}

fn link(to: &str, at: &Path) -> io::Result<()> {
    let new = beside(at);
    symlink(to, &new)?;
    fs::rename(new, at)
}

/// Returns a name in the same folder that no other file has.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    path.with_file_name(name)
}
