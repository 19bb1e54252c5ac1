//! Programs that use nothing of it are as they were.

mod programs;

use std::path::Path;
use std::process::Command;

use programs::{Place, Running, compile};

#[test]
fn private_locks_are_libcs() {
    let place = Place::new("private", true);
    assert_eq!(place.run("private"), "private 0");
    assert_eq!(place.log(), "");
    assert!(!place.path("domain").exists(), "nothing was asked of Outlive");
}

#[test]
fn programs_without_such_locks_do_what_they_did() {
    let place = Place::new("stranger", true);
    let without = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().expect("it is there")
    };
    for (program, args) in [
        ("/bin/ls", &["/"][..]),
        ("/bin/sh", &["-c", "echo a | tr a b; exit 3"]),
        ("/usr/bin/env", &["-i"]),
    ] {
        let with = place.command(Path::new(program)).args(args).output().expect("it is there");
        let plain = without(program, args);
        assert_eq!(
            (with.status, &with.stdout, &with.stderr),
            (plain.status, &plain.stdout, &plain.stderr),
            "{program}"
        );
    }
    assert_eq!(place.log(), "");
    assert!(!place.path("domain").exists(), "nothing was asked of Outlive");
}

/// Its allocator is called by the loader, and locks, before the shim has had a chance to look
/// anything up.
#[test]
fn a_program_whose_allocator_locks_is_not_called_from_inside_a_lock() {
    for place in Place::without_and_with("mallocs") {
        let running = Running::start(place.command(&compile("cc", "mallocs.c")), "mallocs");
        assert_eq!(running.all_lines(), "0 allocated");
        assert_eq!(place.log(), "");
    }
}
