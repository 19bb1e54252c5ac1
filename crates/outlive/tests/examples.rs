//! The examples run in a domain of their own, say what they should, and leave nothing behind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Returns the command that runs an example: the program that Cargo built with this test, or, where
/// it built the test alone, what its reader says. `cargo run` asks for the features of one crate:
/// beside the tests of the whole workspace it would compile the library anew.
fn example(name: &str) -> Command {
    let here = std::env::current_exe().expect("known");
    let target = here.parent().and_then(Path::parent).expect("the test is in target/debug/deps");
    let built = target.join("examples").join(name);
    if is_current(&built) == Some(true) {
        return Command::new(built);
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "-p", "outlive", "--example", name]);
    command
}

/// Returns whether a program is younger than its sources, which Cargo has listed beside it
/// (`PROGRAM: SOURCE SOURCE ...`).
fn is_current(program: &Path) -> Option<bool> {
    let changed = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    let built = changed(program)?;
    let listed = std::fs::read_to_string(program.with_extension("d")).ok()?;
    let (_, sources) = listed.split_once(": ")?;
    let mut sources = sources.split_whitespace();
    Some(sources.all(|source| changed(Path::new(source)).is_some_and(|at| at <= built)))
}

/// Runs an example; returns what it prints.
fn printed(name: &str) -> String {
    let folder = PathBuf::from(format!("/dev/shm/outlive-example-{name}-{}", std::process::id()));
    let output = example(name).env("OUTLIVE_DOMAIN", &folder).output().expect("cargo runs");
    let (said, text) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{name}: {}\n{text}\n{said}", output.status);
    let left = std::fs::read_dir(&folder).expect("the domain is there");
    let left: Vec<_> = left.map(|entry| entry.expect("readable").file_name()).collect();
    assert_eq!(left, [".tokens"], "{name} leaves something behind");
    std::fs::remove_dir_all(&folder).expect("removed");
    text.into_owned()
}

#[test]
fn queue() {
    let wanted = "the first receiver has buy 10\n\
                  the second receiver has buy 10, which the dead one had in hand\n\
                  the second receiver has sell 4\n";
    assert_eq!(printed("queue"), wanted);
}

#[test]
fn notices() {
    let wanted = "opened 3 times, closed 2 times; then the process was killed\n";
    assert_eq!(printed("notices"), wanted);
}

#[test]
fn select() {
    let text = printed("select");
    for name in ["example.buys", "example.sells"] {
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
        let wanted = [1, 2, 3].map(|number| format!("{name}: order {number}"));
        assert_eq!(lines, wanted, "{text}");
    }
}

#[test]
fn topic() {
    let text = printed("topic");
    let of = |who| text.lines().filter(|line| line.starts_with(who)).count();
    assert_eq!((of("the first measures"), of("the second measures")), (3, 3), "{text}");
}

#[test]
fn service() {
    assert_eq!(printed("service"), "HELLO\nthe server died; begun: true\nAGAIN\n");
}
