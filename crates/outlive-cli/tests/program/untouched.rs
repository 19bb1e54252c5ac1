//! What only looks changes nothing: no folder, no file, no permission, whatever it was pointed at.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::stage::{Ended, Running, Stage, until};

/// Verbs that look, and how they are called when there is nothing to see.
const LOOKS: &[&[&str]] = &[
    &["topic", "echo", "t"],
    &["topic", "hz", "t"],
    &["topic", "bw", "t"],
    &["topic", "delay", "t"],
    &["topic", "info", "t"],
    &["topic", "forget", "t", "x"],
    &["topic", "list"],
    &["queue", "recv", "t"],
    &["queue", "info", "t"],
    &["queue", "list"],
    &["state", "get", "t"],
    &["state", "watch", "t"],
    &["state", "info", "t"],
    &["state", "list"],
    &["notifier", "listen", "t"],
    &["notifier", "info", "t"],
    &["notifier", "list"],
    &["service", "call", "t", "x"],
    &["service", "call", "--wait-for-server", "t", "x"],
    &["service", "clients", "t"],
    &["service", "clients", "t", "--watch"],
    &["service", "info", "t"],
    &["service", "list"],
    &["job", "work", "t", "true"],
    &["job", "aside", "t"],
    &["job", "info", "t"],
    &["job", "list"],
    &["lock", "info", "t"],
    &["lock", "list"],
    &["semaphore", "info", "t"],
    &["semaphore", "list"],
    &["pool", "info", "t"],
    &["pool", "list"],
    &["domain", "info", "t"],
    &["domain", "list"],
    &["domain", "wait", "t"],
    &["domain", "wait", "4194305"],
    &["domain", "waiters"],
    &["domain", "watch"],
    &["domain", "remove", "t"],
    &["node", "list"],
    &["node", "info", "t"],
    &["domain", "gc"],
    &["metrics", "--once"],
    &["metrics", "--listen", "127.0.0.1:0"],
    &["image", "t", "--once"],
    &["plot", "t.x", "--for", "10ms", "--svg", "/dev/null"],
    &["top", "--once"],
    &["doctor"],
    &["doctor", "--repair"],
    &["exit-codes"],
    &["completions", "bash"],
];

/// Verbs that make what they work with.
const MAKES: &[&[&str]] = &[
    &["topic", "pub", "t"],
    &["queue", "send", "t"],
    &["state", "set", "t", "x"],
    &["notifier", "notify", "t", "1"],
    &["service", "serve", "t", "cat"],
    &["job", "put", "t", "x"],
    &["lock", "run", "t", "true"],
    &["semaphore", "run", "--permits", "1", "t", "true"],
    &["domain", "create"],
];

/// Verbs of no domain, or of one of their own, or that other programs carry out.
const NEITHER: &[&str] = &[
    "config check",
    "config show",
    "demo",
    "man",
    "bench",
    "gateway",
    "record",
    "replay",
    "bag",
    "view",
    "queue bridge",
    "ros1 bridge",
];

/// A file or folder: its path, mode, owner, length and the time of its last change.
type Fact = (String, u32, u32, u64, i64, i64);

/// Returns all that is below a folder, and the folder.
fn tree(folder: &Path) -> Vec<Fact> {
    let Ok(facts) = fs::symlink_metadata(folder) else { return Vec::new() };
    let name = folder.display().to_string();
    let mut all =
        vec![(name, facts.mode(), facts.uid(), facts.len(), facts.ctime(), facts.ctime_nsec())];
    if facts.is_dir() {
        let entries = fs::read_dir(folder).expect("read");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("read").path()).collect();
        paths.sort();
        all.extend(paths.iter().flat_map(|path| tree(path)));
    }
    all
}

/// Runs a verb to its end; one that waits is told to end when it waits.
fn run(stage: &Stage, call: &[&str], domain: &Path, no_create: bool) -> Ended {
    let domain = domain.display().to_string();
    let more: &[&str] = if no_create { &["--no-create"] } else { &[] };
    let before: &[&str] = &["--domain", &domain];
    let mut running = stage.start(&[before, more, call].concat());
    until("it ends or waits", || !running.is_running() || running.is_waiting());
    if running.is_running() {
        running.signal(libc::SIGTERM);
    }
    running.end()
}

#[test]
fn each_verb_is_one_that_looks_or_one_that_makes() {
    let page = include_str!("../../../../doc/program.md");
    let table = page.split("| verb | a line for | members |").nth(1).expect("the table of verbs");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let verbs: BTreeSet<&str> =
        rows.map(|row| row.split('`').nth(1).expect("a verb in the row")).collect();
    let is_called = |verb: &str, calls: &[&[&str]]| {
        let words: Vec<&str> = verb.split(' ').collect();
        calls.iter().any(|call| call.starts_with(&words))
    };
    for verb in verbs {
        let of = [is_called(verb, LOOKS), is_called(verb, MAKES), NEITHER.contains(&verb)];
        assert_eq!(of.iter().filter(|is| **is).count(), 1, "{verb}");
    }
}

#[test]
fn what_looks_writes_nothing() {
    let stage = Stage::new();
    let folder = |name: &str, mode: u32| {
        let path = stage.path(name);
        fs::create_dir(&path).expect("made");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        path
    };
    let absent = stage.path("absent");
    let empty = folder("empty", 0o700);
    let home = folder("home", 0o700);
    fs::write(home.join("letter"), "text").expect("written");
    let etc = folder("etc", 0o755);
    fs::write(etc.join("passwd"), "text").expect("written");
    let tmp = folder("tmp", 0o777);
    fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777)).expect("set");
    for call in LOOKS {
        for domain in [&absent, &empty, &home, &etc, &tmp] {
            for no_create in [false, true] {
                let before = tree(&stage.path(""));
                let ended = run(&stage, call, domain, no_create);
                let what = format!("{call:?} in {}: {}", domain.display(), ended.err);
                assert_eq!(tree(&stage.path("")), before, "{what}");
                // Some that wait are ended by the signal, as programs are.
                let codes = [-libc::SIGTERM].into_iter().chain(0..=15);
                assert!(
                    codes.into_iter().any(|code| code == ended.code()),
                    "{}, {what}",
                    ended.code()
                );
                let told = ended.text() + &ended.err;
                assert!(!told.contains("chmod") || domain == &tmp, "{what}");
            }
        }
    }
}

#[test]
fn what_makes_leaves_other_folders_as_they_are() {
    let stage = Stage::new();
    for (name, mode) in [("home", 0o700), ("etc", 0o755)] {
        let path = stage.path(name);
        fs::create_dir(&path).expect("made");
        fs::write(path.join("letter"), "text").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        for call in MAKES.iter().chain(&[&["top", "--once"][..], &["ls"], &["echo", "t"]]) {
            let before = tree(&stage.path(""));
            let ended = run(&stage, call, &path, false);
            let what = format!("{call:?} in {name}: {}", ended.err);
            assert_eq!(tree(&stage.path("")), before, "{what}");
            assert!([8, 125].contains(&ended.code()), "{}, {what}", ended.code());
            assert!(ended.err.contains("is not a domain; name another folder"), "{what}");
        }
    }
    // An empty folder of one's own becomes a domain.
    let path = stage.path("empty");
    fs::create_dir(&path).expect("made");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("set");
    stage.run(&["state", "set", "s", "x", "--domain", &path.display().to_string()]).expect(0);
    assert!(path.join("s").exists());
}

#[test]
fn the_doctor_mends_no_folder_that_is_no_domain() {
    let stage = Stage::new();
    let path = stage.path("etc");
    fs::create_dir(&path).expect("made");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    let domain = path.display().to_string();
    let mode = || fs::metadata(&path).expect("there").permissions().mode() & 0o7777;
    for full in [false, true] {
        if full {
            fs::write(path.join("passwd"), "text").expect("written");
        }
        let report = stage.run(&["doctor", "--repair", "--domain", &domain]).expect(1).text();
        assert!(report.contains("FAULT   domain"), "{report}");
        assert_eq!(mode(), 0o755, "{report}");
    }
}

/// What is waited for may be made by any program, its domain too.
#[test]
fn what_is_waited_for_is_found_when_its_domain_is_made() {
    let stage = Stage::new();
    let mut followers: Vec<Running> = [
        &["topic", "echo", "t", "--count", "1"][..],
        &["topic", "hz", "t", "--interval", "50ms", "--count", "1"],
        &["state", "watch", "s", "--count", "2"],
        &["queue", "recv", "q", "--count", "1"],
    ]
    .iter()
    .map(|call| stage.start(call))
    .collect();
    for follower in &mut followers {
        until("it waits", || follower.is_waiting());
    }
    assert!(!stage.domain().exists());
    stage.feed(&["topic", "pub", "t"], b"a message\n").expect(0);
    stage.feed(&["queue", "send", "q"], b"a line\n").expect(0);
    // It may see the state before its first value is set: then that is the first of the two.
    until("it has seen two values", || {
        stage.run(&["state", "set", "s", "a value"]).expect(0);
        !followers[2].is_running()
    });
    let mut ended = followers.into_iter().map(Running::end);
    let mut next = || ended.next().expect("it ended").expect(0).says("waiting for a ");
    assert_eq!(next().text(), "a message\n");
    assert!(next().text().contains("message"));
    assert!(next().text().ends_with("a value\n"));
    assert_eq!(next().text(), "a line\n");
}
