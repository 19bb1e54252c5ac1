//! `cargo xtask install --prefix DIR`: the program with its man pages and completions; headers,
//! libraries, pkg-config and CMake files, where C and C++ programs find them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::install::is_there;
use crate::paths::{self, root};
use crate::test::cargo;

/// The name by which programs ask for the library when they start: crates/outlive-c/build.rs has it
/// too.
pub(crate) const SONAME: &str = "liboutlive.so.0";

/// The program `outlive`, and what its verbs `bag`, `bench`, `record` and `replay` become.
pub(crate) const PROGRAMS: [&str; 5] =
    ["outlive", "outlive-bag", "outlive-bench", "outlive-record", "outlive-replay"];

const USAGE: &str = "\
usage: cargo xtask install --prefix DIR [--libdir DIR] [--no-strip] [--dev]

  --prefix DIR   where to, as in /usr/local
  --libdir DIR   where libraries go, below the prefix [default: lib]; as in lib/x86_64-linux-gnu
  --no-strip     leave what debuggers read in the libraries and the program, which is five times as
                 large then; without this it lies beside each of them, in a file of its own
  --dev          build quickly, without optimization";

pub(crate) fn run(args: &[String]) -> ExitCode {
    let Some(installation) = Installation::of(args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match installation.run() {
        Ok(()) => {
            println!("installed into {}", installation.prefix.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cargo xtask install: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is installed, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Installation {
    pub(crate) prefix: PathBuf,
    /// Below the prefix.
    pub(crate) libdir: PathBuf,
    pub(crate) profile: Profile,
    /// Whether what debuggers read goes into files of its own.
    pub(crate) strips: bool,
    /// Whether the program is installed, too.
    pub(crate) has_program: bool,
}

impl Installation {
    /// Reads the command line; `None` when it is not valid.
    fn of(args: &[String]) -> Option<Installation> {
        let mut installation = Installation {
            prefix: PathBuf::new(),
            libdir: PathBuf::from("lib"),
            profile: Profile::Dist,
            strips: true,
            has_program: true,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--prefix" => installation.prefix = PathBuf::from(args.next()?),
                "--libdir" => installation.libdir = PathBuf::from(args.next()?),
                "--no-strip" => installation.strips = false,
                "--dev" => installation.profile = Profile::Dev,
                _ => return None,
            }
        }
        let is_below = |path: &Path| {
            path.components().all(|part| matches!(part, Component::Normal(_)))
                && path.components().next().is_some()
        };
        let is_given = !installation.prefix.as_os_str().is_empty();
        (is_given && is_below(&installation.libdir)).then_some(installation)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As packages are built, and all published figures.
    Dist,
    /// For tests: quick to build.
    Dev,
}

/// Returns where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds what the tests of all languages use. The whole workspace at once, with the features that
/// `cargo test --workspace` has: what is left out takes features with it, and cargo would compile
/// anew what the rest shares with it. Only this very program is left out, the testkit, which is
/// built as a release, and the macro, which the compiler has as its own part.
pub(crate) fn build_all() -> io::Result<()> {
    if cargo(&[
        "build",
        "--quiet",
        "--workspace",
        "--exclude",
        "xtask",
        "--exclude",
        "outlive-loom",
        "--exclude",
        "outlive-testkit",
        "--exclude",
        "outlive-derive",
    ])
    .status()?
    .success()
    {
        Ok(())
    } else {
        Err(io::Error::other("the workspace could not be built"))
    }
}

/// Installs what the tests of the languages use: no program, and libraries with all that debuggers
/// read.
pub(crate) fn install(prefix: &Path, profile: Profile) -> io::Result<()> {
    Installation {
        prefix: prefix.to_owned(),
        libdir: PathBuf::from("lib"),
        profile,
        strips: false,
        has_program: false,
    }
    .run()
}

impl Installation {
    /// Builds the C library and the shim for `LD_PRELOAD`, and the program if it is asked for, and
    /// puts them there with all that goes with them.
    pub(crate) fn run(&self) -> io::Result<()> {
        self.build()?;
        let folder = if self.profile == Profile::Dist { "dist" } else { "debug" };
        let built = target().join(folder);
        self.install_library(&built)?;
        if self.has_program { self.install_program(&built) } else { Ok(()) }
    }

    fn build(&self) -> io::Result<()> {
        if self.profile == Profile::Dev {
            return build_all();
        }
        let mut words = vec![
            "build",
            "--quiet",
            "--profile",
            "dist",
            "-p",
            "outlive-c",
            "-p",
            "outlive-pthread",
        ];
        if self.has_program {
            words.extend(["-p", "outlive-cli", "-p", "outlive-bag"]);
            words.extend(["-p", "outlive-bench", "-p", "outlive-record"]);
        }
        if cargo(&words).status()?.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("'cargo {}' failed", words.join(" "))))
        }
    }

    /// Returns the folder of the libraries.
    pub(crate) fn lib(&self) -> PathBuf {
        self.prefix.join(&self.libdir)
    }

    fn install_library(&self, built: &Path) -> io::Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        let (include, lib) = (self.prefix.join("include"), self.lib());
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
        let linked = beside(&lib.join("linked"));
        link_shared(&built.join("liboutlive_c.a"), &linked)?;
        let put_there = self.put_binary(&linked, &lib.join(&shared), &lib);
        fs::remove_file(linked)?;
        put_there?;
        self.put_archive(&built.join("liboutlive_c.a"), &lib.join("liboutlive.a"))?;
        link(&shared, &lib.join(SONAME))?;
        link(SONAME, &lib.join("liboutlive.so"))?;
        let shim = "liboutlive_pthread.so";
        self.put_binary(&built.join(shim), &lib.join(shim), &lib)?;
        let share = self.prefix.join("share/outlive");
        fs::create_dir_all(&share)?;
        for file in ["tsan.supp", "outlive-gdb.py"] {
            put(&ours.join("share").join(file), &share.join(file))?;
        }
        // How far it is from the folder of each file up to the prefix, which may be moved.
        let up = |deeper: usize| vec![".."; self.libdir.components().count() + deeper].join("/");
        for (from, to, deeper) in [
            ("outlive.pc.in", "pkgconfig/outlive.pc", 1),
            ("outlive-config-version.cmake.in", "cmake/outlive/outlive-config-version.cmake", 2),
            ("outlive-config.cmake.in", "cmake/outlive/outlive-config.cmake", 2),
        ] {
            let text = fs::read_to_string(ours.join("cmake").join(from))?
                .replace("@VERSION@", version)
                .replace("@UP@", &up(deeper))
                .replace("@LIBDIR@", &self.libdir.to_string_lossy());
            replace(&lib.join(to), text.as_bytes())?;
        }
        Ok(())
    }

    fn install_program(&self, built: &Path) -> io::Result<()> {
        let (bin, share) = (self.prefix.join("bin"), self.prefix.join("share"));
        fs::create_dir_all(&bin)?;
        let program = built.join("outlive");
        for name in PROGRAMS {
            self.put_binary(&built.join(name), &bin.join(name), &bin.join(".debug"))?;
        }
        let pages = share.join("man/man1");
        fs::create_dir_all(&pages)?;
        said(Command::new(&program).arg("man").arg(&pages))?;
        for (shell, place) in [
            ("bash", "bash-completion/completions/outlive"),
            ("zsh", "zsh/site-functions/_outlive"),
            ("fish", "fish/vendor_completions.d/outlive.fish"),
        ] {
            let place = share.join(place);
            fs::create_dir_all(place.parent().unwrap_or(&share))?;
            replace(&place, &said(Command::new(&program).args(["completions", shell]))?)?;
        }
        Ok(())
    }

    /// Puts a library or program there. What debuggers read goes into the folder `debug`, into a
    /// file that the library or program names, so that gdb finds it.
    fn put_binary(&self, from: &Path, to: &Path, debug: &Path) -> io::Result<()> {
        if !self.strips || !has_objcopy() {
            return put(from, to);
        }
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(".debug");
        let (stripped, apart) = (beside(to), debug.join(name));
        fs::create_dir_all(debug)?;
        let objcopy = || Command::new("objcopy");
        said(objcopy().arg("--only-keep-debug").arg(from).arg(&apart))?;
        let link = format!("--add-gnu-debuglink={}", apart.display());
        said(objcopy().args(["--strip-unneeded", &link]).arg(from).arg(&stripped))?;
        fs::rename(stripped, to)
    }

    /// Puts a static library there, without what debuggers read.
    fn put_archive(&self, from: &Path, to: &Path) -> io::Result<()> {
        if !self.strips || !has_objcopy() {
            return put(from, to);
        }
        let stripped = beside(to);
        said(Command::new("objcopy").arg("--strip-debug").arg(from).arg(&stripped))?;
        fs::rename(stripped, to)
    }
}

fn has_objcopy() -> bool {
    let there = is_there("objcopy");
    if !there {
        println!("not stripped: there is no objcopy (Debian: binutils)");
    }
    there
}

/// Runs a program; returns what it wrote, or why it failed.
fn said(command: &mut Command) -> io::Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{name}: {why}")))
}

/// Links the shared library from the archive, with versions for its symbols: rustc's own list of
/// what a shared library exports leaves no room for them.
fn link_shared(archive: &Path, to: &Path) -> io::Result<()> {
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
        .arg(to);
    if !link.status()?.success() {
        return Err(io::Error::other("cc could not link liboutlive.so"));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Installation> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Installation::of(&words)
    }

    #[test]
    fn the_command_line_is_read() {
        let plain = of("--prefix /usr/local").expect("read");
        assert_eq!(plain.lib(), Path::new("/usr/local/lib"));
        assert!(plain.strips && plain.has_program && plain.profile == Profile::Dist);
        let other = of("--dev --libdir lib/x86_64-linux-gnu --prefix p --no-strip").expect("read");
        assert_eq!(other.lib(), Path::new("p/lib/x86_64-linux-gnu"));
        assert!(!other.strips && other.profile == Profile::Dev);
        for wrong in [
            "",
            "--prefix",
            "--libdir lib",
            "--prefix p --libdir /lib",
            "--prefix p --libdir ../lib",
            "--prefix p more",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
