//! `cargo xtask c`: builds the C library, installs it into the target folder, and builds and runs
//! the C and C++ tests and examples against what is installed there, as a user would; tests with
//! sanitizers, those in C without them too; and the programs in C and C++ of the project's pages.
//! `cargo xtask header` writes outlive.h.

use std::collections::BTreeSet;
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

/// Runs `cargo xtask c [NAME]`: all, or the tests whose name contains NAME; `installed`: what the
/// installed files are like, and no test of the library; `pages`: the programs on the project's
/// pages.
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
    if only == Some("installed") {
        languages.clear();
    }
    for (tests, built_tests, examples, built_examples) in languages {
        // C++ takes its time to compile, and its examples and pages run without sanitizers.
        if built_tests == "tests" || !sanitizes {
            let built = here.join(built_tests);
            total.add(ctest(&ours.join(tests), &built, &installed, &[&fake], only));
        }
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
    if only.is_none_or(|name| name == "installed") {
        total.add(symbols_have_versions(&installed));
        total.add(by_pkg_config(&here, &installed));
        total.add(thread_sanitizer(&here, &installed));
        total.add(headers_compile(&here));
        total.add(installed::tests(&here));
    }
    if only.is_none_or(|name| name == "pages") {
        let tools = Tools { installed: Some(installed), ..Tools::default() };
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
    has_sanitizer(here, "address,undefined")
}

/// Returns whether a program can be compiled with that sanitizer, and runs.
fn has_sanitizer(here: &Path, sanitizer: &str) -> bool {
    let Ok(empty) = write(here, "empty.c", "int main(void) { return 0; }\n") else { return false };
    let to = here.join("empty");
    let mut compile = Command::new("cc");
    compile.arg(format!("-fsanitize={sanitizer}")).arg("-o").arg(&to).arg(empty);
    run_quietly(&mut compile).0 && run_quietly(&mut Command::new(to)).0
}

/// Tests that ThreadSanitizer has nothing to report of two threads that take turns by the library's
/// means; and that it has without what outlive.h tells it, and without the suppressions.
fn thread_sanitizer(here: &Path, installed: &Path) -> Count {
    if !has_sanitizer(here, "thread") {
        println!("ThreadSanitizer: skipped, the compiler does not have it");
        return Count::SKIPPED;
    }
    let ours = paths::at(paths::C);
    let lib = installed.join("lib");
    let suppressions = format!("suppressions={}", ours.join("share/tsan.supp").display());
    let mut count = Count::default();
    for (what, define, options, is_silent) in [
        ("as users compile it", None, suppressions.as_str(), true),
        ("without the header's part", Some("-DOUTLIVE_TSAN_H"), suppressions.as_str(), false),
        ("without suppressions", None, "", false),
    ] {
        let to = here.join("threads");
        let mut compile = Command::new("cc");
        compile.args(["-g", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsanitize=thread"]);
        compile.args(define).arg("-I").arg(installed.join("include"));
        compile.arg(ours.join("tests/tsan/threads.c")).arg("-o").arg(&to).arg("-L").arg(&lib);
        compile.arg("-loutlive").arg(format!("-Wl,-rpath,{}", lib.display()));
        let (is_compiled, mut said) = run_quietly(&mut compile);
        let mut is_well = is_compiled;
        if is_compiled {
            let domain = programs::Domain::new();
            let mut run = Command::new(&to);
            (is_well, said) = run_quietly(run.arg(&domain.path).env("TSAN_OPTIONS", options));
        }
        let has_report = said.contains("WARNING: ThreadSanitizer: data race");
        if is_compiled && is_well == is_silent && has_report != is_silent {
            count.add(Count::PASSED);
        } else {
            println!("ThreadSanitizer {what}: {said}");
            count.add(Count::FAILED);
        }
    }
    count
}

fn write(here: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(here)?;
    let path = here.join(name);
    fs::write(&path, text)?;
    Ok(path)
}

/// Tests that the shared library exports the functions of the headers and nothing else, all with
/// their version.
fn symbols_have_versions(installed: &Path) -> Count {
    if !is_there("readelf") {
        println!("symbol versions: skipped, there is no readelf");
        return Count::SKIPPED;
    }
    let mut ask = Command::new("readelf");
    ask.args(["--dyn-syms", "-W"]).arg(installed.join("lib/liboutlive.so"));
    let (is_well, said) = run_quietly(&mut ask);
    let headers = ["outlive.h", "outlive_gpu.h"].map(|header| {
        fs::read_to_string(installed.join("include").join(header)).unwrap_or_default()
    });
    let declared: BTreeSet<String> = headers.iter().flat_map(|text| functions(text)).collect();
    let wanted: BTreeSet<String> =
        declared.iter().map(|name| format!("{name}@@OUTLIVE_1")).collect();
    let exported: BTreeSet<String> = said.lines().filter_map(exported).map(str::to_owned).collect();
    if is_well && !wanted.is_empty() && exported == wanted {
        return Count::PASSED;
    }
    let without: Vec<_> = wanted.difference(&exported).collect();
    let beside: Vec<_> = exported.difference(&wanted).collect();
    println!("symbol versions: not exported: {without:?}; exported beside them: {beside:?}");
    Count::FAILED
}

/// Returns the name in a line of readelf's table, where the library defines it:
/// `178: 00000000000a1b20 73 FUNC GLOBAL DEFAULT 13 outlive_event_set@@OUTLIVE_1`.
fn exported(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words[..] {
        [number, _, _, "FUNC" | "OBJECT", _, _, section, name, ..]
            if number.ends_with(':') && section != "UND" && section != "ABS" =>
        {
            Some(name)
        }
        _ => None,
    }
}

/// Returns the functions that a header declares: names before a parenthesis, outside comments, that
/// no macro defines.
fn functions(header: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in header.lines() {
        if line.starts_with([' ', '/', '#', '\t']) || line.contains("static inline") {
            continue;
        }
        if let Some((before, _)) = line.split_once('(')
            && let Some(name) = before.rsplit([' ', '*']).next()
            && name.starts_with("outlive_")
        {
            names.insert(name.to_owned());
        }
    }
    names
}

/// A program that opens a domain, which its argument names.
const CONSUMER: &str = "\
#include <outlive.h>
int main(int count, char **arguments)
{
    outlive_domain_t *domain;
    if (outlive_abi_version() < OUTLIVE_ABI_VERSION) return 1;
    if (outlive_domain_open_at(arguments[count - 1], OUTLIVE_OPEN_OR_CREATE, &domain)) return 2;
    outlive_domain_close(domain);
    return 0;
}
";

/// Tests a program that finds the library by pkg-config: with the shared one, with the static one,
/// and with nothing shared at all.
fn by_pkg_config(here: &Path, installed: &Path) -> Count {
    if !is_there("pkg-config") {
        println!("pkg-config: skipped, it is not there");
        return Count::SKIPPED;
    }
    let lib = installed.join("lib");
    let mut count = Count::default();
    let (shared, archive) = (&["--cflags", "--libs"][..], &["--static", "--cflags", "--libs"][..]);
    for (name, flags) in [("shared", shared), ("static", archive), ("all-static", archive)] {
        let mut ask = Command::new("pkg-config");
        ask.args(flags).arg("outlive").env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
        let (mut is_well, mut said) = run_quietly(&mut ask);
        if let (true, Ok(source)) = (is_well, write(here, "consumer.c", CONSUMER)) {
            let to = here.join(format!("consumer-{name}"));
            let mut compile = Command::new("cc");
            compile.arg(source).arg("-o").arg(&to);
            if name == "all-static" {
                compile.arg("-static");
            }
            for word in said.split_ascii_whitespace() {
                match word {
                    "-loutlive" if name == "static" => compile.arg("-l:liboutlive.a"),
                    word => compile.arg(word),
                };
            }
            (is_well, said) = run_quietly(&mut compile);
            if is_well {
                let domain = programs::Domain::new();
                let mut run = Command::new(&to);
                run.arg(&domain.path).env("LD_LIBRARY_PATH", &lib);
                (is_well, said) = run_quietly(&mut run);
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
        ("outlive.hpp", "c++", "c++20", "c++", "-Weffc++"),
        ("outlive.h", "cc", "c99", "c", "-fsanitize=thread"),
        ("outlive.hpp", "c++", "c++20", "c++", "-fsanitize=thread"),
        ("outlive.hpp", "clang++", "c++20", "c++", "-pedantic"),
        ("outlive.hpp", "clang++", "c++20", "c++", "-Weffc++"),
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
    fn symbols_and_functions_are_read() {
        let line =
            "   178: 00000000000a1b20    73 FUNC    GLOBAL DEFAULT   13 outlive_a@@OUTLIVE_1";
        assert_eq!(exported(line), Some("outlive_a@@OUTLIVE_1"));
        let own = "     4: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND free@GLIBC_2.2.5 (2)";
        assert_eq!(exported(own), None);
        let version = "   178: 0000000000000000     0 OBJECT  GLOBAL DEFAULT  ABS OUTLIVE_1";
        assert_eq!(exported(version), None);
        let header = "/* outlive_c(x) */\nint outlive_a(int x);\n * outlive_d(y)\nchar *outlive_b(\n#define outlive_e(x)\n";
        assert_eq!(functions(header).into_iter().collect::<Vec<_>>(), ["outlive_a", "outlive_b"]);
    }

    #[test]
    fn ctests_closing_line_is_read() {
        let of = |passed, failed| Some(Count { passed, failed, skipped: 0 });
        assert_eq!(tests_of("100% tests passed, 0 tests failed out of 34"), of(34, 0));
        assert_eq!(tests_of("97% tests passed, 1 tests failed out of 33"), of(32, 1));
        assert_eq!(tests_of("Total Test time (real) =   0.72 sec"), None);
    }
}
