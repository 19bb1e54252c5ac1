//! The project's own commands, run as `cargo xtask VERB`.
//!
//! Each verb is a file here. The tools that a verb needs are installed by it from the ordinary
//! registries.

mod abi;
mod book;
mod bridges;
mod c;
mod conformance;
mod count;
mod crash;
mod crates;
mod dist;
mod errors;
#[cfg(test)]
mod events;
mod failures;
mod faults;
mod fuzz;
mod go;
mod gpu;
mod install;
mod installed;
mod java;
#[cfg(test)]
mod links;
mod loaded;
mod models;
mod paths;
mod prefix;
mod programs;
#[cfg(test)]
mod promela;
mod proof;
mod python;
mod race;
mod release;
mod soak;
mod stage;
mod suites;
mod targets;
mod test;
mod test_programs;
mod tutorial;
mod vm;
#[cfg(test)]
mod words;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask VERB [OPTIONS]

  test [--no-install] [--bridges]  everything that must pass: format, clippy, Rust tests, doc tests, loom, models, crash tests,
                          C tests, Python, conformance, random kills, the pool's race, the fuzzer, the demo; ends with 'N passed, N failed'
  proof [STAGE]...        what takes long and seldom finds anything; its last outcome stands in doc/proof.md
  bridges [--no-install] [NAME]  what carries Outlive beyond one machine (bridges/): its format, clippy and tests; installs the servers that they start
  loaded [NAME]           the Rust tests with processes, twice, beside sixty programs that do nothing but compute
  models [--brief | --full] [--jobs N] [--seconds N] [--again] [--no-install] [NAME]
                          the Promela models of proof/models and their mutations, or those whose name contains NAME
  loom [--all]            the library's own code under loom, which explores interleavings and what processors may reorder
  crash [--brief | --all] kill at every noted instruction (--brief: not beside them; --all: at every instruction), check the survivors
  crash --stop [--brief | --telling | --all]  leave the victim standing still there: others get past all that it does not hold; then it goes on,
                          or is killed; at about 60 of the noted instructions of a scenario (--brief: 30), or at all of them, with both ends (--telling)
                          both: [--recheck on|off] in one mode only; [--part K/N] at each N-th point only, from the K-th on
  faults [--all] [NAME]   each system call of each operation fails, by each errno that it may give, one at a time
  crates [--dry-run]      what each crate that is published must have; --dry-run: all of them packed in a clean clone, compiled, published but for the upload
  dist [--check] [--dev] [--no-install] [debian | wheels | crates | sbom]...
                          all that a release consists of, with checksums, in target/packages (doc/packages.md); --check: each part installed and used
  release VERSION [--dry-run]  writes a new version wherever the old one stands, the date into CHANGELOG.md, the ABI's record; commits and tags
  abi [--record]          the C library's ABI beside that of the last release, by abidiff; --record: writes the record anew
  errors                  writes the table of errors in doc/errors.md anew: each with its code in C, its exception and its exit code
  conformance [--one-pair] [NAME]  one set of scenarios through Rust, C, C++ and Python, alone and in all pairs, deaths included
  book [--no-install]     the pages of doc/ as a book in target/book; installs mdBook into target/mdbook if it is missing
  c [NAME]                the C library's tests and examples, and the pages' programs in C and C++, against a copy installed into the target folder; installs gcc and cmake if missing
  header [--check]        writes crates/outlive-c/include/outlive.h anew
  install --prefix DIR [--libdir DIR] [--no-strip] [--dev]
                          the program, its man pages and completions; outlive.h, liboutlive.so and .a, pkg-config and CMake files
  fuzz [--seconds N]      scribbles over a living domain: errors are allowed, crashes and hangs are not
  gpu [--fake] [--out FILE] | --pack FOLDER  all checks and benchmarks that need a GPU, their figures in target/gpu.md; --fake: a driver without one; --pack: a folder for a machine without Rust
  python [--maturin] [--no-install]  builds the Python package into target/python and runs its tests
  go, java                the Go and the Java package against the installed C library: format, warnings, tests, examples, pages
  pages [--no-install]    runs the programs in Rust and in the shell that the pages show, and plays the tutorial, kills included
  race --minutes N        16 threads take and give back objects of 2 MiB, flush and gc at any time
  soak --minutes N        8 processes, SIGKILL, SIGSTOP and exec at random
  soak --topics --minutes N  30 processes with topics, a state and a service; what memory is in use after each minute
  suites [--no-install] [--quick] [NAME]  other projects' own test suites over Outlive's objects (doc/suites.md); --quick: those of the test command
  targets [--quick] [NAME]  every benchmark that has a target, and whether it was met; fails nothing
  vm [--no-install] [aarch64 | x86_64] [--kernel SERIES]... [TEST]...
                          tests on another processor and on other kernels, each in an emulated machine (doc/platforms.md)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = match args.split_first() {
        Some((verb, rest)) => (verb.as_str(), rest),
        None => ("--help", &[][..]),
    };
    match verb {
        "test" => test::run(rest),
        "abi" => abi::run(rest),
        "models" => models::run(rest),
        "crash" => crash::run(rest),
        "crates" => crates::run(rest),
        "dist" => dist::run(rest),
        "errors" => errors::run(),
        "faults" => faults::run(rest),
        "book" => book::run(rest),
        "bridges" => bridges::run(rest),
        "c" => c::run(rest),
        "conformance" => conformance::run(rest),
        "header" => c::header(rest),
        "loom" => test::loom_alone(rest),
        "install" => prefix::run(rest),
        "loaded" => loaded::run(rest),
        "fuzz" => fuzz::run(rest),
        "gpu" => gpu::run(rest),
        "soak" => soak::run(rest),
        "pages" => programs::run(rest),
        "proof" => proof::run(rest),
        "python" => python::run(rest),
        "go" => go::run(rest),
        "java" => java::run(rest),
        "race" => race::run(rest),
        "release" => release::run(rest),
        "suites" => suites::run(rest),
        "targets" => targets::run(rest),
        "vm" => vm::run(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        other => {
            eprint!("cargo xtask: there is no verb '{other}'\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}
