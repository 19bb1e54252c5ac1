//! `cargo xtask abi [--record]`: whether programs that were compiled with the last release's headers
//! still work with today's shared library.
//!
//! abidiff reads types from what compilers write for debuggers, and knows C's, not Rust's. So the
//! headers become a library of their own: each function of theirs with an empty body, and each
//! number that they define as a constant. abidw writes down what that one has
//! (packaging/abi/liboutlive.abi.gz, at each release), and abidiff compares it with today's. The real
//! library must have the same symbols as that one, with the same versions.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::count::Count;
use crate::crash::finish;
use crate::install::{self, CC, Need};
use crate::paths::{self, root};
use crate::prefix::{self, Profile, SONAME};

const ABIDIFF: Need = Need {
    program: "abidiff",
    package: "abigail-tools",
    why: "compares the C library's ABI with that of the last release",
};

/// What a constant of the headers is called in the library that is made of them.
const CONSTANT: &str = "outlive_constant_";

const HEADERS: &str = "#include <outlive.h>\n#include <outlive_gpu.h>\n";

const USAGE: &str = "usage: cargo xtask abi [--record]";

pub(crate) fn run(args: &[String]) -> ExitCode {
    let records = match args {
        [] => false,
        [flag] if flag == "--record" => true,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    // Nothing is installed for it: where the tool is missing, the comparison is skipped.
    if let Some(why) = install::lacking(&[&CC, &ABIDIFF]) {
        println!("the C library's ABI: skipped, {why} (Debian: {})", ABIDIFF.package);
        println!("{}", Count::SKIPPED);
        return if records { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let done = if records { record().map(|()| Count::PASSED) } else { compare() };
    let count = done.unwrap_or_else(|error| {
        println!("{error}");
        Count::FAILED
    });
    println!("{count}");
    finish(count)
}

/// Writes down the interface as it is today.
pub(crate) fn record() -> io::Result<()> {
    let library = made_of_headers()?;
    let record = workshop().join("record.abi");
    let mut write = Command::new("abidw");
    write.args(["--no-show-locs", "--no-comp-dir-path", "--no-corpus-path"]);
    said(write.arg("--out-file").arg(&record).arg(library))?;
    // Packed: it has some 350 kB, which are read by abidiff alone.
    let packed = bytes(Command::new("gzip").args(["-9", "--no-name", "--stdout"]).arg(&record))?;
    fs::write(paths::at(paths::ABI), packed)
}

fn compare() -> io::Result<Count> {
    let mut count = Count::default();
    let library = made_of_headers()?;
    let record = workshop().join("last-release.abi");
    let unpacked = bytes(Command::new("gzip").args(["-d", "--stdout"]).arg(paths::at(paths::ABI)))?;
    fs::write(&record, unpacked)?;
    let mut diff = Command::new("abidiff");
    // What is added breaks no program.
    diff.args(["--no-added-syms", "--no-show-locs", "--suppressions"]);
    diff.arg(paths::at(paths::ABI_MAY_CHANGE)).arg(&record).arg(&library);
    let output = diff.stdin(Stdio::null()).output()?;
    if output.status.success() {
        println!("the C interface beside the last release's: nothing changed, or only added");
        count.add(Count::PASSED);
    } else {
        println!("the C interface has changed since the last release:");
        print!("{}", String::from_utf8_lossy(&output.stdout));
        print!("{}", String::from_utf8_lossy(&output.stderr));
        count.add(Count::FAILED);
    }
    let installed = prefix::target().join("c/installed");
    prefix::install(&installed, Profile::Dev)?;
    let real = symbols(&installed.join("lib").join(SONAME))?;
    let declared = symbols(&library)?;
    for symbol in declared.difference(&real) {
        println!("the headers declare {symbol}, which the library lacks");
    }
    for symbol in real.difference(&declared) {
        println!("the library has {symbol}, which no header declares");
    }
    println!("{} functions with their versions", real.len());
    count.add(if real == declared { Count::PASSED } else { Count::FAILED });
    Ok(count)
}

/// Returns the folder in which interfaces are compared.
fn workshop() -> PathBuf {
    root().join(prefix::target()).join("abi")
}

/// Compiles the library that is made of the headers, and returns where it is.
fn made_of_headers() -> io::Result<PathBuf> {
    let here = workshop();
    fs::create_dir_all(&here)?;
    let include = paths::at(paths::C).join("include");
    let headers = here.join("headers.c");
    fs::write(&headers, HEADERS)?;
    let cc = || {
        let mut cc = Command::new(CC.program);
        cc.arg("-I").arg(&include);
        cc
    };
    let expanded = said(cc().args(["-E", "-P"]).arg(&headers))?;
    let defined = said(cc().args(["-E", "-dM"]).arg(&headers))?;
    let functions = functions(&expanded);
    if functions.is_empty() {
        return Err(io::Error::other("no functions were found in the headers"));
    }
    let mut source = HEADERS.to_owned();
    for (name, value) in constants(&defined) {
        source += &format!(
            "enum {CONSTANT}{name} {{ {CONSTANT}{name}_is = {value} }} {CONSTANT}{name} = {value};\n"
        );
    }
    for function in functions {
        source += &format!("{function} {{ __builtin_trap(); }}\n");
    }
    let (made, library) = (here.join("interface.c"), here.join(SONAME));
    fs::write(&made, source)?;
    let map = paths::at(paths::C).join("outlive.map");
    let mut compile = cc();
    compile.args(["-g", "-O0", "-w", "-fPIC", "-shared", &format!("-Wl,-soname,{SONAME}")]);
    compile
        .arg(format!("-Wl,--version-script={}", map.display()))
        .arg(made)
        .arg("-o")
        .arg(&library);
    said(&mut compile)?;
    Ok(library)
}

/// Returns the declarations of our functions in a source that the preprocessor has expanded,
/// without the semicolon.
fn functions(expanded: &str) -> Vec<String> {
    let mut functions = Vec::new();
    let mut statement = String::new();
    let mut depth = 0_usize;
    for letter in expanded.chars() {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                // The end of a function's body, or that of a struct, behind which comes a name.
                if depth == 0 && statement.contains('(') {
                    statement.clear();
                }
            }
            ';' if depth == 0 => {
                let text = statement.split_whitespace().collect::<Vec<_>>().join(" ");
                statement.clear();
                let name = text.split('(').next().unwrap_or_default();
                let is_ours = name.rsplit([' ', '*']).next().unwrap_or_default();
                if text.ends_with(')')
                    && is_ours.starts_with("outlive_")
                    && !text.starts_with("typedef")
                {
                    functions.push(text);
                }
            }
            letter if depth == 0 => statement.push(letter),
            _ => {}
        }
    }
    functions
}

/// Returns the numbers that our headers define, by their names, of all that a compiler says is
/// defined.
fn constants(defined: &str) -> Vec<(&str, &str)> {
    let mut constants: Vec<(&str, &str)> = defined
        .lines()
        .filter_map(|line| line.strip_prefix("#define OUTLIVE_")?.split_once(' '))
        .filter(|(name, value)| {
            let is_number = value.starts_with(|first: char| first.is_ascii_digit() || first == '-');
            !name.contains('(')
                && !value.contains(' ')
                && (is_number || matches!(*value, "UINT32_MAX" | "UINT64_MAX"))
        })
        .collect();
    constants.sort_unstable();
    constants
}

/// Returns a library's functions, each with its version.
fn symbols(library: &Path) -> io::Result<BTreeSet<String>> {
    let said = said(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?;
    let names = said.lines().filter_map(|line| line.split_whitespace().nth(2));
    Ok(names
        .filter(|name| name.starts_with("outlive_") && !name.starts_with(CONSTANT))
        .map(str::to_owned)
        .collect())
}

/// Returns what a program writes, as text, or why it failed.
fn said(command: &mut Command) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(command)?).into_owned())
}

/// Returns the bytes that a program writes, or why it failed.
fn bytes(command: &mut Command) -> io::Result<Vec<u8>> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}\n{why}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_and_nothing_else() {
        let expanded = "\
            extern int puts(const char *s);\n\
            typedef struct outlive_a_t { int a; } outlive_a_t;\n\
            typedef void (*outlive_f_t)(void *data);\n\
            static inline int outlive_inline(int a) { return outlive_b(a); }\n\
            int outlive_b(int a,\n    outlive_f_t f);\n\
            const char *outlive_c(void);\n\
            struct outlive_d_t { int (*f)(void); };\n";
        assert_eq!(
            functions(expanded),
            ["int outlive_b(int a, outlive_f_t f)", "const char *outlive_c(void)"]
        );
    }

    #[test]
    fn numbers_are_found_and_nothing_else() {
        let defined = "\
            #define OUTLIVE_TAIL UINT32_MAX\n\
            #define OUTLIVE_H \n\
            #define OUTLIVE_DAMAGED 10001\n\
            #define OUTLIVE_EXTENT_OF(array) 3\n\
            #define OUTLIVE_QUEUE_OPTIONS_INIT { 1 }\n\
            #define EPIPE 32\n";
        assert_eq!(constants(defined), [("DAMAGED", "10001"), ("TAIL", "UINT32_MAX")]);
    }
}
