//! `cargo xtask test`: every test, scenario, model and language once, in one command; what failed is
//! said again at the end, and the last line is the count.
//!
//! What takes long and seldom finds anything is `cargo xtask proof`.

use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::bridges;
use crate::count::Count;
use crate::crash::BUILD_TESTKIT;
use crate::failures;
use crate::install::{self, CC, CMAKE, MUSL, SPIN, TCC};
use crate::paths::root;
use crate::prefix;
use crate::stage::{self, Counts, Stage};
use crate::test_programs::{TestProgram, test_programs};

/// What is tested here: all but the library's code under loom, which is compiled otherwise.
pub(crate) const WORKSPACE: [&str; 3] = ["--workspace", "--exclude", "outlive-loom"];

/// All of the workspace's tests.
const RUST_TESTS: [&str; 5] = ["test", WORKSPACE[0], WORKSPACE[1], WORKSPACE[2], "--no-fail-fast"];

/// The test programs that take longest, and sleep most of the time.
const LONGEST: [&str; 2] = ["processes", "stepped"];

/// The other test programs are more than these: a list that cargo has cut short is no test.
const FEWEST_OTHERS: usize = 30;

pub(crate) fn run(args: &[String]) -> ExitCode {
    if args.iter().any(|arg| arg != "--no-install" && arg != "--bridges") {
        eprintln!("usage: cargo xtask test [--no-install] [--bridges]");
        return ExitCode::from(2);
    }
    let given = |flag| args.iter().any(|arg| arg == flag);
    let may_install = !given("--no-install");
    let begun = Instant::now();
    let missing = install::install(&[&SPIN, &CC, &CMAKE, &MUSL, &TCC], may_install);
    let mut total = Count::default();
    total.add(stage::run("format", cargo(&["fmt", "--all", "--", "--check"]), Counts::ByExit));
    // Compiled before anything runs: what compiles beside tests makes both slow, save the little
    // that is left.
    total.add(stage::run("compile the Rust tests", compiled(), Counts::Not));
    let c = this(&["c"]);
    let mut models = this(&["models", "--brief"]);
    let mut python = this(&["python"]);
    let mut conformance = this(&["conformance", "--one-pair"]);
    let mut pages = this(&["pages"]);
    let mut suites = this(&["suites", "--quick"]);
    if !may_install {
        for command in [&mut models, &mut python, &mut conformance, &mut pages, &mut suites] {
            command.arg("--no-install");
        }
    }
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    let mut computing = vec![
        Stage::new("clippy", cargo(&clippy), Counts::ByExit),
        Stage::new("compile the testkit", cargo(&BUILD_TESTKIT), Counts::Not),
    ];
    if missing.contains(&SPIN.program) || missing.contains(&CC.program) {
        total.add(stage::skip(
            "Promela models",
            "spin and gcc are not there and may not be installed",
        ));
    } else {
        computing.push(Stage::new("Promela models", models, Counts::ByLines));
    }
    if missing.contains(&MUSL.program) {
        // The Rust test that compiles the C one says so too.
        total.add(stage::skip(
            "robust lists on musl",
            "musl-gcc is not there and may not be installed",
        ));
    }
    // Tests with processes sleep more than they compute; the others only compute.
    let (longest, rest): (Vec<TestProgram>, Vec<TestProgram>) = test_programs(compiled())
        .into_iter()
        .partition(|program| LONGEST.contains(&program.name.as_str()));
    if longest.len() < LONGEST.len() || rest.len() < FEWEST_OTHERS {
        println!("cargo has named {} test programs only", longest.len() + rest.len());
        total.add(Count::FAILED);
    }
    let mut documented = cargo(&RUST_TESTS);
    documented.arg("--doc");
    let mut others: Vec<Stage> = rest.into_iter().map(TestProgram::stage).collect();
    others.push(Stage::new("Rust documentation's examples", documented, Counts::ByLines));
    others.push(Stage::new("loom models", loom(), Counts::ByLines));
    others.push(Stage::new("the crates' packages", this(&["crates"]), Counts::ByLines));
    let longest = longest.into_iter().map(TestProgram::stage).collect();
    total.add(stage::run_beside(vec![longest, others, computing]));
    // Not beside the Rust tests: these stages put the libraries that those load there anew.
    let python = vec![
        Stage::new("Python", python, Counts::ByLines),
        Stage::new("other projects' test suites", suites, Counts::ByLines),
        Stage::new("documentation", documentation(), Counts::ByExit),
    ];
    let mut languages = Vec::new();
    if missing.contains(&CC.program) || missing.contains(&CMAKE.program) {
        total.add(stage::skip("C", "gcc or cmake is not there and may not be installed"));
    } else {
        languages.push(Stage::new("C", c, Counts::ByLines));
        // Behind C: it compares the library that C has installed.
        languages.push(Stage::new("the C library's ABI", this(&["abi"]), Counts::ByLines));
    }
    // Behind C: the same folder has what is installed for both.
    languages.push(Stage::new("Go", this(&["go"]), Counts::ByLines));
    languages.push(Stage::new("Java", this(&["java"]), Counts::ByLines));
    languages.push(Stage::new("conformance of the languages", conformance, Counts::ByLines));
    languages.push(Stage::new("programs on the pages, and the tutorial", pages, Counts::ByLines));
    // Without the recheck nothing wakes a sleeper whose wake-up was lost: the harder half, and
    // the other is `cargo xtask crash`.
    let crash = this(&["crash", "--brief", "--recheck", "off"]);
    let crash =
        Stage::new("killed after each instruction that others can tell", crash, Counts::ByLines);
    // With the recheck the promise about stopped processes has to hold; without it is `cargo xtask
    // proof stops`.
    let stops = this(&["crash", "--stop", "--brief", "--recheck", "on"]);
    let stops = Stage::new(
        "standing still after each instruction that others can tell",
        stops,
        Counts::ByLines,
    );
    total.add(stage::run_beside(vec![python, languages, vec![crash, stops]]));
    // As the Rust tests have built it.
    let mut demo = Command::new(root().join(prefix::target()).join("debug/outlive"));
    demo.args(["demo", "--seconds", "3"]).current_dir(root());
    // Random stages are the better for a busy machine.
    total.add(stage::run_beside(vec![
        vec![
            Stage::new(
                "killed at random, 10 s",
                this(&["soak", "--minutes", "0.17"]),
                Counts::ByExit,
            ),
            Stage::new(
                "16 threads race for a pool, 5 s",
                this(&["race", "--minutes", "0.08"]),
                Counts::ByExit,
            ),
            Stage::new("the demo, 3 s", demo, Counts::ByExit),
        ],
        vec![
            Stage::new(
                "a crowd on topics, killed at random, 12 s",
                crate::soak::crowd(),
                Counts::ByExit,
            ),
            Stage::new("hostile memory, 10 s", this(&["fuzz", "--seconds", "10"]), Counts::ByLines),
        ],
    ]));
    if given("--bridges") {
        total.add(bridges::all(may_install, None));
    }
    print!("{}", failures::kept());
    println!("\nall stages in {}", stage::minutes(begun.elapsed()));
    println!("{total}");
    if total.failed == 0 && total.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns cargo's command in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Returns the command that compiles all Rust tests, if they are not compiled, and runs none.
fn compiled() -> Command {
    cargo(&[&RUST_TESTS[..], &["--no-run", "--quiet"]].concat())
}

/// Returns a program of the testkit, its arguments to follow.
pub(crate) fn testkit(program: &str) -> Command {
    cargo(&[
        "run",
        "--profile",
        "testkit",
        "--quiet",
        "-p",
        "outlive-testkit",
        "--bin",
        program,
        "--",
    ])
}

/// Returns the command of another verb of this program.
fn this(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "xtask".into()));
    command.args(args).current_dir(root());
    command
}

fn documentation() -> Command {
    let mut command = cargo(&["doc", "--no-deps", "--quiet", "-p", "outlive"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// Returns the library's own state machines with loom's atomics.
fn loom() -> Command {
    cargo(&["test", "--quiet", "-p", "outlive-loom", "--profile", "loom"])
}

/// Runs `cargo xtask loom [--all]`: the tests of the test command, or also those that take half a
/// minute each.
pub(crate) fn loom_alone(args: &[String]) -> ExitCode {
    let mut command = loom();
    match args {
        [] => {}
        [all] if all == "--all" => {
            command.args(["--", "--include-ignored"]);
        }
        _ => {
            eprintln!("usage: cargo xtask loom [--all]");
            return ExitCode::from(2);
        }
    }
    let count = stage::run_long("loom models", command, Counts::ByLines);
    if count.failed == 0 && count.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::paths::root;

    /// What is not compiled as a test, because it has none (`test = false` in Cargo.toml).
    const UNTESTED: [&str; 4] = [
        "proof/testkit/src/bin",
        "proof/fuzz/src",
        "proof/conformance/drivers/rust",
        "crates/outlive-gpu/src",
    ];

    #[test]
    fn what_is_untested_has_no_tests() {
        let mut folders: Vec<_> = UNTESTED.iter().map(|folder| root().join(folder)).collect();
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("it is there") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension() == Some("rs".as_ref()) {
                    files += 1;
                    let text = fs::read_to_string(&path).expect("text");
                    assert!(
                        !text.contains("#[test]"),
                        "{} would not run its tests",
                        path.display()
                    );
                }
            }
        }
        assert!(files > 30, "{files} files");
    }
}
