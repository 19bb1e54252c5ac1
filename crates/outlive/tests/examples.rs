//! The examples run in a domain of their own, say what they should, and leave nothing behind.

use std::path::PathBuf;
use std::process::Command;

/// Runs an example; returns what it prints. `cargo test` has built it beside the tests of this
/// package; with `--tests` or `--test` it has not, and then cargo builds it here.
fn printed(name: &str) -> String {
    let folder = PathBuf::from(format!("/dev/shm/outlive-example-{name}-{}", std::process::id()));
    let beside = std::env::current_exe().expect("a test has a path");
    let built = beside.with_file_name("../examples").join(name);
    let mut program = if built.exists() {
        Command::new(built)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "-p", "outlive", "--example", name]);
        cargo
    };
    let output = program.env("OUTLIVE_DOMAIN", &folder).output().expect("it starts");
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
