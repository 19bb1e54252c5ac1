//! What `cargo xtask install` leaves: used as its users do, from a prefix of its own, with the
//! libraries in a folder for one architecture, and moved to another place afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::count::Count;
use crate::install::is_there;
use crate::prefix::{Installation, PROGRAMS, Profile};

const PROGRAM: &str = "\
#include <outlive.h>
#include <stdio.h>
int main(void) {
  outlive_domain_t *domain;
  if (outlive_abi_version() < OUTLIVE_ABI_VERSION) return 1;
  if (outlive_domain_open_at(\"/dev/null\", OUTLIVE_OPEN, &domain) == 0) return 2;
  puts(outlive_last_error());
  return 0;
}
";

const PROJECT: &str = "\
cmake_minimum_required(VERSION 3.13)
project(consumer C)
find_package(outlive REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared outlive::outlive)
add_executable(static main.c)
target_link_libraries(static outlive::static)
";

/// Installs into a folder below `here` and tries all of it.
pub(crate) fn tests(here: &Path) -> Count {
    let first = here.join("prefix-first");
    let prefix = here.join("prefix");
    for folder in [&first, &prefix] {
        let _ = fs::remove_dir_all(folder);
    }
    let installation = Installation {
        prefix: first.clone(),
        libdir: PathBuf::from("lib/some-linux-gnu"),
        profile: Profile::Dev,
        strips: true,
        has_program: true,
    };
    if let Err(error) = installation.run().and_then(|()| fs::rename(&first, &prefix)) {
        println!("the installation: {error}");
        return Count::FAILED;
    }
    let lib = prefix.join(&installation.libdir);
    let source = here.join("prefix-consumer");
    let written = fs::create_dir_all(&source)
        .and_then(|()| fs::write(source.join("main.c"), PROGRAM))
        .and_then(|()| fs::write(source.join("CMakeLists.txt"), PROJECT));
    if let Err(error) = written {
        println!("{}: {error}", source.display());
        return Count::FAILED;
    }
    let mut tried = vec![
        ("the files", files(&prefix, &lib)),
        ("the program", program(&prefix)),
        ("a program in C", by_compiler(&source, &prefix, &lib)),
        ("CMake, shared and static", by_cmake(&source, &prefix, &lib)),
    ];
    let mut count = Count::default();
    if is_there("objcopy") {
        tried.push(("stripped, and what was stripped is beside it", stripped(&prefix, &lib)));
    } else {
        println!("installed, stripped: skipped, there is no objcopy");
        count.add(Count::SKIPPED);
    }
    if is_there("pkg-config") {
        tried.push(("pkg-config", by_pkg_config(&source, &lib)));
        tried.push(("pkg-config, static", by_pkg_config_static(&source, &lib)));
    } else {
        println!("installed, pkg-config: skipped, it is not there");
        count.add(Count::SKIPPED);
    }
    for (what, result) in tried {
        count.add(if result.is_ok() { Count::PASSED } else { Count::FAILED });
        if let Err(why) = result {
            println!("installed, {what}: {why}");
        }
    }
    for folder in [&prefix, &source] {
        let _ = fs::remove_dir_all(folder);
    }
    count
}

/// Returns what a program wrote on standard output, or why it failed.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}\n{said}{why}", output.status))
}

/// Runs a built consumer, which fails unless it works.
fn consume(program: &Path, lib: &Path) -> Result<(), String> {
    let said = run(Command::new(program).env("LD_LIBRARY_PATH", lib))?;
    if said.contains("not a folder") { Ok(()) } else { Err(format!("it said: {said}")) }
}

fn files(prefix: &Path, lib: &Path) -> Result<(), String> {
    let programs = PROGRAMS.map(|name| format!("bin/{name}"));
    for file in programs.iter().map(String::as_str).chain([
        "include/outlive.h",
        "include/outlive.hpp",
        "include/outlive/domain.hpp",
        "share/outlive/tsan.supp",
        "share/outlive/outlive-gdb.py",
        "share/man/man1/outlive.1",
        "share/man/man1/outlive-topic-echo.1",
        "share/man/man1/outlive-echo.1",
        "share/bash-completion/completions/outlive",
        "share/zsh/site-functions/_outlive",
        "share/fish/vendor_completions.d/outlive.fish",
    ]) {
        if !prefix.join(file).is_file() {
            return Err(format!("there is no {file}"));
        }
    }
    for file in ["liboutlive.so", "liboutlive.so.0", "liboutlive.a", "liboutlive_pthread.so"] {
        if !lib.join(file).is_file() {
            return Err(format!("there is no {file} in {}", lib.display()));
        }
    }
    // Its probes, for bpftrace and gdb: the linker has not left them out.
    let library = fs::read(lib.join("liboutlive.so.0")).map_err(|error| error.to_string())?;
    for probe in ["lock_wait", "owner_died", "queue_send", "topic_publish"] {
        let noted = format!("outlive\0{probe}\x008@");
        if !library.windows(noted.len()).any(|bytes| bytes == noted.as_bytes()) {
            return Err(format!("liboutlive.so.0 has no probe {probe}"));
        }
    }
    Ok(())
}

/// Runs the program, and the verbs that become other programs.
fn program(prefix: &Path) -> Result<(), String> {
    for verb in ["bag", "record", "replay"] {
        // In the path there is nothing of another installation.
        let mut help = Command::new(prefix.join("bin/outlive"));
        let said = run(help.args([verb, "--help"]).env("PATH", "/nonexistent"))?;
        if !said.contains(&format!("Usage: outlive {verb}")) {
            return Err(format!("outlive {verb} --help: {said}"));
        }
    }
    let said = run(Command::new(prefix.join("bin/outlive")).arg("--version"))?;
    let version = env!("CARGO_PKG_VERSION");
    if said.trim() == format!("outlive {version}") { Ok(()) } else { Err(said) }
}

fn by_compiler(source: &Path, prefix: &Path, lib: &Path) -> Result<(), String> {
    let to = source.join("plain");
    let mut compile = Command::new("cc");
    compile.arg(source.join("main.c")).arg("-o").arg(&to).arg("-I").arg(prefix.join("include"));
    run(compile.arg("-L").arg(lib).arg("-loutlive"))?;
    consume(&to, lib)
}

fn by_cmake(source: &Path, prefix: &Path, lib: &Path) -> Result<(), String> {
    let build = source.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source).arg("-B").arg(&build);
    // Where find_package looks for itself, in a folder for one architecture, depends on the
    // compiler's name for it; this one is made up.
    configure.arg(format!("-Doutlive_DIR={}", lib.join("cmake/outlive").display()));
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    run(&mut configure)?;
    run(Command::new("cmake").arg("--build").arg(&build))?;
    consume(&build.join("shared"), lib)?;
    // It needs no library of ours where it runs.
    consume(&build.join("static"), Path::new("/nonexistent"))
}

fn by_pkg_config(source: &Path, lib: &Path) -> Result<(), String> {
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "outlive"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    let words = run(&mut ask)?;
    let to = source.join("by-pkg-config");
    let mut compile = Command::new("cc");
    compile.arg(source.join("main.c")).arg("-o").arg(&to).args(words.split_ascii_whitespace());
    run(&mut compile)?;
    consume(&to, lib)
}

fn by_pkg_config_static(source: &Path, lib: &Path) -> Result<(), String> {
    let mut ask = Command::new("pkg-config");
    ask.args(["--static", "--cflags", "--libs", "outlive"]);
    let words = run(ask.env("PKG_CONFIG_PATH", lib.join("pkgconfig")))?;
    let to = source.join("by-pkg-config-static");
    let mut compile = Command::new("cc");
    compile.arg(source.join("main.c")).arg("-o").arg(&to);
    let archive = |word| if word == "-loutlive" { "-l:liboutlive.a" } else { word };
    compile.args(words.split_ascii_whitespace().map(archive));
    run(&mut compile)?;
    // It needs no library of ours where it runs.
    consume(&to, Path::new("/nonexistent"))
}

fn stripped(prefix: &Path, lib: &Path) -> Result<(), String> {
    let shared = format!("liboutlive.so.{}", env!("CARGO_PKG_VERSION"));
    for (file, debug) in [
        (lib.join(&shared), lib.join(format!("{shared}.debug"))),
        (lib.join("liboutlive_pthread.so"), lib.join("liboutlive_pthread.so.debug")),
        (prefix.join("bin/outlive"), prefix.join("bin/.debug/outlive.debug")),
    ] {
        let sections = run(Command::new("objdump").arg("-h").arg(&file))?;
        if sections.contains(".debug_line") || !sections.contains(".gnu_debuglink") {
            return Err(format!("{}: {sections}", file.display()));
        }
        let sections = run(Command::new("objdump").arg("-h").arg(&debug))?;
        if !sections.contains(".debug_line") {
            return Err(format!("{}: {sections}", debug.display()));
        }
    }
    Ok(())
}
