//! `cargo xtask c`: builds the C library, installs it into the target folder, and builds and runs
//! the C and C++ tests and examples against what is installed there, as a user would; with and
//! without sanitizers; and the programs in C and C++ of the project's pages. `cargo xtask header`
//! writes outlive.h.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::count::Count;
use crate::install::{self, CC, CMAKE, is_there};
use crate::installed;
use crate::paths;
use crate::prefix::{self, Profile};
use crate::programs::{self, Language, Tools};
use crate::test::cargo;

/// Runs `cargo xtask header [--check]`.
pub(crate) fn header(args: &[String]) -> ExitCode {
    let mut test = cargo(&["test", "--quiet", "-p", "outlive-c", "--test", "header"]);
    match args {
        [] => {
            test.env("OUTLIVE_WRITE_HEADER", "1");
        }
        [check] if check == "--check" => {}
        _ => {
            eprintln!("usage: cargo xtask header [--check]");
            return ExitCode::from(2);
        }
    }
    match test.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Runs `cargo xtask c [NAME]`: all, or the tests whose name contains NAME; `pages`: the programs
/// on the project's pages; `installed`: what `cargo xtask install` leaves.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let only = match args {
        [] => None,
        [name] => Some(name.as_str()),
        _ => {
            eprintln!("usage: cargo xtask c [NAME]");
            return ExitCode::from(2);
        }
    };
    install::install(&[&CC, &CMAKE], true);
    if let Some(why) = install::lacking(&[&CC, &CMAKE]) {
        println!("C and C++: {why}");
        return finish(Count::FAILED);
    }
    let here = prefix::target().join("c");
    if only == Some("installed") {
        return finish(installed::tests(&here));
    }
    let installed = here.join("installed");
    if let Err(error) = prefix::install(&installed, Profile::Dev) {
        println!("the C library: {error}");
        return finish(Count::FAILED);
    }
    let mut total = Count::default();
    // A driver without a GPU, for the tests of outlive_gpu.h.
    let fake = format!(
        "-DOUTLIVE_GPU_FAKE={}",
        prefix::target().join("debug/liboutlive_gpu_fake.so").display()
    );
    let sanitizes = can_sanitize(&here);
    let ours = paths::at(paths::C);
    let mut languages = vec![("tests/c", "tests", "examples", "examples")];
    if is_there("c++") {
        languages.push(("tests/cpp", "tests-cpp", "examples/cpp", "examples-cpp"));
    } else {
        println!("C++: skipped, there is no c++");
        total.add(Count::SKIPPED);
    }
    for (tests, built_tests, examples, built_examples) in languages {
        total.add(ctest(&ours.join(tests), &here.join(built_tests), &installed, &[&fake], only));
        if sanitizes {
            let built = here.join(format!("{built_tests}-sanitized"));
            total.add(ctest(
                &ours.join(tests),
                &built,
                &installed,
                &["-DOUTLIVE_SANITIZE=ON", &fake],
                only,
            ));
        } else {
            println!("sanitizers: skipped, the compiler does not have them");
            total.add(Count::SKIPPED);
        }
        total.add(ctest(&ours.join(examples), &here.join(built_examples), &installed, &[], only));
    }
    if only.is_none() {
        total.add(by_pkg_config(&here, &installed));
        total.add(headers_compile(&here));
        total.add(installed::tests(&here));
    }
    if only.is_none_or(|name| name == "pages") {
        let tools = Tools { installed: Some(installed), python: None };
        let mut languages = vec![Language::C];
        if is_there("c++") {
            languages.push(Language::Cpp);
        }
        total.add(programs::all_in(&languages, &tools));
    }
    finish(total)
}

fn finish(total: Count) -> ExitCode {
    println!("C and C++: {} tests", total.passed + total.failed);
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Configures, builds and runs a CMake project; what ctest counted.
fn ctest(
    source: &Path,
    build: &Path,
    installed: &Path,
    options: &[&str],
    only: Option<&str>,
) -> Count {
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source).arg("-B").arg(build).args(options);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", installed.display()));
    if is_there("ninja") && !build.join("Makefile").exists() {
        configure.args(["-G", "Ninja"]);
    }
    let mut make = Command::new("cmake");
    make.arg("--build").arg(build).args(["--parallel", "2"]);
    for command in [&mut configure, &mut make] {
        let (is_well, said) = run_quietly(command);
        if !is_well {
            println!("{said}");
            return Count::FAILED;
        }
    }
    let mut test = Command::new("ctest");
    test.arg("--test-dir").arg(build).args([
        "--output-on-failure",
        "--parallel",
        "2",
        "--no-tests=error",
    ]);
    if let Some(name) = only {
        test.args(["-R", name]);
    }
    let (is_well, said) = run_quietly(&mut test);
    let count = said.lines().find_map(tests_of);
    if !is_well {
        println!("{said}");
    }
    match count {
        Some(count) if is_well || count.failed > 0 => count,
        // A filter may leave a project without tests.
        _ if only.is_some() && said.contains("No tests were found") => Count::default(),
        _ => Count::FAILED,
    }
}

/// Reads a line such as `97% tests passed, 1 tests failed out of 33`.
fn tests_of(line: &str) -> Option<Count> {
    let (_, rest) = line.split_once("tests passed, ")?;
    let (failed, of) = rest.split_once(" tests failed out of ")?;
    let (failed, of): (u64, u64) = (failed.trim().parse().ok()?, of.trim().parse().ok()?);
    Some(Count { passed: of.checked_sub(failed)?, failed, skipped: 0 })
}

/// Returns whether it ended well, and what it said.
fn run_quietly(command: &mut Command) -> (bool, String) {
    match command.stdin(Stdio::null()).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&said).into_owned())
        }
        Err(error) => (false, format!("{}: {error}", command.get_program().to_string_lossy())),
    }
}

pub(crate) fn can_sanitize(here: &Path) -> bool {
    let Ok(empty) = write(here, "empty.c", "int main(void) { return 0; }\n") else { return false };
    let to = here.join("empty");
    let mut compile = Command::new("cc");
    compile.args(["-fsanitize=address,undefined", "-o"]).arg(&to).arg(empty);
    run_quietly(&mut compile).0 && run_quietly(&mut Command::new(to)).0
}

fn write(here: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(here)?;
    let path = here.join(name);
    fs::write(&path, text)?;
    Ok(path)
}

/// Tests a program that finds the library by pkg-config: with the shared one, and with the static
/// one.
fn by_pkg_config(here: &Path, installed: &Path) -> Count {
    if !is_there("pkg-config") {
        println!("pkg-config: skipped, it is not there");
        return Count::SKIPPED;
    }
    let lib = installed.join("lib");
    let text = "#include <outlive.h>\nint main(void) { return outlive_abi_version() < OUTLIVE_ABI_VERSION; }\n";
    let mut count = Count::default();
    for (name, flags) in
        [("shared", &["--cflags", "--libs"][..]), ("static", &["--static", "--cflags", "--libs"])]
    {
        let mut ask = Command::new("pkg-config");
        ask.args(flags).arg("outlive").env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
        let (mut is_well, mut said) = run_quietly(&mut ask);
        if let (true, Ok(source)) = (is_well, write(here, "consumer.c", text)) {
            let to = here.join(format!("consumer-{name}"));
            let mut compile = Command::new("cc");
            compile.arg(source).arg("-o").arg(&to);
            for word in said.split_ascii_whitespace() {
                match word {
                    "-loutlive" if name == "static" => compile.arg("-l:liboutlive.a"),
                    word => compile.arg(word),
                };
            }
            (is_well, said) = run_quietly(&mut compile);
            if is_well {
                (is_well, said) = run_quietly(Command::new(&to).env("LD_LIBRARY_PATH", &lib));
            }
        }
        count.add(if is_well { Count::PASSED } else { Count::FAILED });
        if !is_well {
            println!("by pkg-config, {name}: {said}");
        }
    }
    count
}

/// Compiles the headers by themselves, in old and new C and C++, with everything that a compiler
/// can complain of.
fn headers_compile(here: &Path) -> Count {
    let mut count = Count::default();
    let folder = paths::at(paths::C).join("include");
    for (header, compiler, standard, language, more) in [
        ("outlive.h", "cc", "c99", "c", "-pedantic"),
        ("outlive.h", "cc", "c17", "c", "-pedantic"),
        ("outlive.h", "c++", "c++11", "c++", "-pedantic"),
        ("outlive.h", "c++", "c++20", "c++", "-pedantic"),
        ("outlive_gpu.h", "cc", "c99", "c", "-pedantic"),
        ("outlive_gpu.h", "c++", "c++11", "c++", "-pedantic"),
        ("outlive.hpp", "c++", "c++20", "c++", "-pedantic"),
        ("outlive.hpp", "c++", "c++20", "c++", "-fno-exceptions"),
    ] {
        let what = format!("{header} as {standard} with {more}");
        if !is_there(compiler) {
            println!("{what}: skipped, there is no {compiler}");
            count.add(Count::SKIPPED);
            continue;
        }
        let mut compile = Command::new(compiler);
        compile.arg(format!("-std={standard}")).args([
            "-Wall",
            "-Wextra",
            "-Werror",
            more,
            "-fsyntax-only",
        ]);
        compile.arg("-I").arg(&folder).args(["-x", language]);
        let Ok(source) = write(here, "only.c", &format!("#include <{header}>\n")) else {
            return Count::FAILED;
        };
        let (is_well, said) = run_quietly(compile.arg(source));
        count.add(if is_well { Count::PASSED } else { Count::FAILED });
        if !is_well {
            println!("{what}: {said}");
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctests_closing_line_is_read() {
        let of = |passed, failed| Some(Count { passed, failed, skipped: 0 });
        assert_eq!(tests_of("100% tests passed, 0 tests failed out of 34"), of(34, 0));
        assert_eq!(tests_of("97% tests passed, 1 tests failed out of 33"), of(32, 1));
        assert_eq!(tests_of("Total Test time (real) =   0.72 sec"), None);
    }
}
