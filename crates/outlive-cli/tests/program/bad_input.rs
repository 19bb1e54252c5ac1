//! Names, domains and files that are not valid: each has its message and its exit code.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use crate::stage::{Running, Stage};

#[test]
fn what_cannot_be_a_name_is_refused() {
    let stage = Stage::new();
    let long = "x".repeat(300);
    for (name, why) in [
        ("a/b", "contains '/'"),
        (&long[..], "longer than 200"),
        (".q", "starts with '.'"),
        ("", "empty"),
    ] {
        for verb in ["send", "recv", "info", "rm"] {
            // A domain must be there for those that only look.
            stage.run(&["lock", "L", "--", "true"]).expect(0);
            stage
                .run(&[verb, name])
                .expect(13)
                .says("cannot be a name")
                .says(why)
                .says("1 to 200 bytes");
        }
    }
    let mut command = stage.command(["send"]);
    command.arg(OsStr::from_bytes(b"\xff\xfe"));
    Running::new(command).end().expect(2).says("UTF-8");
}

#[test]
fn the_command_line_must_make_sense() {
    let stage = Stage::new();
    for args in [
        &["no-such-verb"][..],
        &[],
        &["send"],
        &["send", "q", "--max-bytes", "many"],
        &["recv", "q", "--until-idle", "-1"],
        &["recv", "q", "--null", "--length-prefixed"],
        &["wait"],
        &["demo", "--producers", "0"],
        &["demo", "--producers", "65"],
        &["demo", "/"],
        &["completions", "no-shell"],
    ] {
        stage.run(args).expect(2);
    }
}

#[test]
fn a_missing_domain_or_thing_is_not_made_when_that_was_not_wanted() {
    let stage = Stage::new();
    stage.run(&["send", "q", "--no-create"]).expect(6).says("does not exist");
    stage.run(&["ls", "--domain", "/no/such/folder"]).expect(6).says("/no/such/folder");
    // Its parent is not there either.
    stage.run(&["send", "q", "--domain", "/no/such/folder"]).expect(6);
    stage.run(&["lock", "L", "--", "true"]).expect(0);
    stage.run(&["send", "q", "--no-create"]).expect(6).says("create it first");
    stage.run(&["recv", "q", "--no-create"]).expect(6);
    stage.run(&["lock", "M", "--no-create", "--", "true"]).expect(125).says("does not exist");
    stage.run(&["lock", "L", "--no-create", "--", "true"]).expect(0);
    assert!(stage.entry("q").is_none() && stage.entry("M").is_none());
}

#[test]
fn files_that_are_none_of_ours_are_told_apart() {
    let stage = Stage::new();
    stage.feed(&["send", "q"], b"x\n").expect(0);
    let file = |name: &str| stage.domain().join(name);
    fs::write(file("text"), "not a segment").expect("written");
    fs::write(file("long"), vec![b'x'; 100_000]).expect("written");
    fs::create_dir(file("folder")).expect("made");
    std::os::unix::fs::symlink("q", file("link")).expect("made");
    for name in ["text", "long", "folder"] {
        stage.run(&["recv", name]).expect(8).says("not made by Outlive");
        stage.run(&["info", name]).expect(8);
    }
    // A link is not followed: it may lead out of the domain.
    stage.run(&["recv", "link"]).expect(8);

    let queue = fs::File::options().write(true).open(file("q")).expect("opened");
    // Bytes 8 to 12 are the layout's version.
    queue.write_all_at(&99u32.to_le_bytes(), 8).expect("patched");
    stage
        .run(&["recv", "q", "-n", "1"])
        .expect(8)
        .says("memory layout 99")
        .says("this program needs");
    // Of no use to this version, and so it may go.
    stage.run(&["rm", "q"]).expect(0);
    assert!(!file("q").exists());
}

#[test]
fn a_name_of_another_kind_is_refused() {
    let stage = Stage::new();
    stage.run(&["lock", "L", "--", "true"]).expect(0);
    stage.run(&["send", "L"]).expect(7).says("is a rwlock, not a queue");
    stage.run(&["recv", "L"]).expect(7);
    stage.feed(&["send", "q"], b"x\n").expect(0);
    stage.run(&["lock", "q", "--", "true"]).expect(125).says("is a queue, not a rwlock");
}

#[test]
fn damaged_bytes_are_told() {
    let stage = Stage::new();
    stage.feed(&["send", "q"], b"x\n").expect(0);
    let queue = fs::File::options().write(true).open(stage.domain().join("q")).expect("opened");
    // All of the queue's own words.
    queue.write_all_at(&[0xa5; 4096], 12_288).expect("patched");
    stage.run(&["recv", "q", "-n", "1"]).expect(11).says("damaged");
    let listing = stage.run(&["ls"]).expect(0).text();
    assert!(listing.contains("damaged"), "{listing}");
    stage.run(&["gc"]).expect(11);
    stage.run(&["doctor"]).expect(1);
    stage.run(&["rm", "q"]).expect(0);
}

#[test]
fn a_domain_that_others_may_enter_or_own_is_refused() {
    let stage = Stage::new();
    stage.feed(&["send", "q"], b"x\n").expect(0);
    fs::set_permissions(stage.domain(), fs::Permissions::from_mode(0o755)).expect("set");
    stage.run(&["recv", "q", "-n", "1"]).expect(9).says("chmod 0700");
    fs::set_permissions(stage.domain(), fs::Permissions::from_mode(0o700)).expect("set");
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: another owner of the domain (only root can give it away)");
        return;
    }
    std::os::unix::fs::chown(stage.domain(), Some(12_345), None).expect("given away");
    stage.run(&["recv", "q", "-n", "1"]).expect(9).says("belongs to user 12345");
    std::os::unix::fs::chown(stage.domain(), Some(0), None).expect("taken back");

    // A user that may not enter: `nobody`.
    let mut command = stage.command(["recv", "q", "-n", "1"]);
    command.uid(65_534).current_dir("/");
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    match command.spawn() {
        Ok(child) => {
            let ended = child.wait_with_output().expect("ended");
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(9), "{said}");
            assert!(said.contains("belongs to") || said.contains("no permission"), "{said}");
        }
        Err(error) => {
            eprintln!("left out: another user cannot run the program where it was built ({error})")
        }
    }
}

#[test]
fn a_folder_without_permission_is_told() {
    if rustix::process::geteuid().is_root() {
        eprintln!("left out: nothing is forbidden to root");
        return;
    }
    let stage = Stage::new();
    stage.feed(&["send", "q"], b"x\n").expect(0);
    fs::set_permissions(stage.domain(), fs::Permissions::from_mode(0o500)).expect("set");
    stage.run(&["send", "new"]).expect(9).says("no permission");
    fs::set_permissions(stage.domain(), fs::Permissions::from_mode(0o700)).expect("set");
}
