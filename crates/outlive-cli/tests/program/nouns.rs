//! Nouns and verbs, and what holds for all of them: times, JSON lines, payloads whole.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::Stdio;

use serde_json::Value;

use crate::stage::{Ended, Running, Stage, until};

/// Runs the program with its standard output in a file, and returns what the file holds then.
fn to_file(stage: &Stage, args: &[&str]) -> (Vec<u8>, Ended) {
    let path = stage.path("redirected");
    let mut command = stage.command(args);
    command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(File::create(&path).expect("made"));
    let ended = Running::with_own_streams(command).end().expect(0);
    (fs::read(&path).expect("read"), ended)
}

/// Payloads that a form could spoil: with newlines, with NULs, without a newline at the end, no
/// UTF-8, large.
fn awkward() -> [Vec<u8>; 5] {
    [
        b"line\nNUL\0no end".to_vec(),
        b"\0\n\0\n".to_vec(),
        b"\xff\xd8\xff no UTF-8".to_vec(),
        (0..=255u8).cycle().take(100_003).collect(),
        b"\x1b[31m\0".to_vec(),
    ]
}

#[test]
fn a_binary_message_of_a_topic_is_whole_in_a_file() {
    let stage = Stage::new();
    for payload in awkward() {
        fs::write(stage.path("in"), &payload).expect("written");
        stage.run(&["topic", "pub", "t", "in"]).expect(0);
        let latest = ["topic", "echo", "t", "--history", "1", "--count", "1"];
        let same = |bytes: &[u8], how: &str| {
            assert!(bytes == payload, "{how}: {} of {} bytes", bytes.len(), payload.len())
        };
        same(&to_file(&stage, &latest).0, "redirected");
        same(&to_file(&stage, &[&latest[..], &["--raw"]].concat()).0, "--raw");
        // What was in the file goes.
        fs::write(stage.path("out"), vec![b'x'; 200_000]).expect("written");
        stage.run(&[&latest[..], &["--output", "out"]].concat()).expect(0);
        same(&fs::read(stage.path("out")).expect("written"), "--output");
        stage.run(&[&latest[..], &["-o", "out", "--length-prefixed"]].concat()).expect(0);
        let prefixed = [&(payload.len() as u32).to_le_bytes()[..], &payload].concat();
        assert!(fs::read(stage.path("out")).expect("written") == prefixed);
        stage.run(&["domain", "remove", "--force", "t"]).expect(0);
    }
    // Text is a line each, there as in a pipe; colours too.
    stage.feed(&["topic", "pub", "t"], b"one\n\x1b[31mtwo\x1b[0m\r\n\n").expect(0);
    let (bytes, _) = to_file(&stage, &["topic", "echo", "t", "--history", "3", "--count", "3"]);
    assert_eq!(String::from_utf8_lossy(&bytes), "one\n\x1b[31mtwo\x1b[0m\r\n\n");
    stage.run(&["topic", "echo", "t", "--output", "/no/such/folder/file"]).expect(6);
}

#[test]
fn a_binary_message_of_a_queue_is_whole_in_a_file() {
    let stage = Stage::new();
    for payload in awkward() {
        fs::write(stage.path("in"), &payload).expect("written");
        stage.run(&["queue", "send", "q", "--file", "in", "in", "in", "in"]).expect(0);
        stage.run(&["queue", "recv", "q", "--count", "1", "--output", "out"]).expect(0);
        assert!(fs::read(stage.path("out")).expect("written") == payload);
        let (bytes, ended) = to_file(&stage, &["queue", "recv", "q", "--count", "1", "--raw"]);
        assert!(bytes == payload && ended.err.is_empty(), "{}", ended.err);
        // As lines: whole, a newline behind it, and a word about that where lines cannot tell its
        // end.
        let (bytes, ended) = to_file(&stage, &["queue", "recv", "q", "--count", "1"]);
        assert!(bytes == [&payload[..], b"\n"].concat());
        let lines_will_do = !payload.contains(&0) && !payload.contains(&b'\n');
        assert_eq!(ended.err.is_empty(), lines_will_do, "{}", ended.err);
        stage.run(&["queue", "recv", "q", "--count", "1", "--file", "out"]).expect(0);
        assert!(fs::read(stage.path("out")).expect("written") == payload);
    }
    // Several messages, one after the other.
    fs::write(stage.path("in"), b"a\0").expect("written");
    stage.run(&["queue", "send", "q", "--file", "in", "in"]).expect(0);
    stage.run(&["queue", "recv", "q", "--until-idle", "0s", "-o", "out"]).expect(0);
    assert_eq!(fs::read(stage.path("out")).expect("written"), b"a\0a\0");
    // Lines come back from a file as they were sent, also when they are no UTF-8.
    stage.feed(&["queue", "send", "q"], b"caf\xe9\nplain\r\n").expect(0);
    let (bytes, ended) = to_file(&stage, &["queue", "recv", "q", "--until-idle", "0"]);
    assert_eq!((&bytes[..], &ended.err[..]), (&b"caf\xe9\nplain\r\n"[..], ""));
}

#[test]
fn a_binary_value_or_reply_is_whole_in_a_file() {
    let stage = Stage::new();
    let server = stage.start(&["service", "serve", "same", "cat"]);
    until("it serves", || {
        stage.entry("same").is_some_and(|entry| entry["receiver"]["alive"] == true)
    });
    for payload in awkward() {
        fs::write(stage.path("in"), &payload).expect("written");
        stage.feed(&["state", "set", "s", "--capacity", "1M"], &payload).expect(0);
        assert!(to_file(&stage, &["state", "get", "s"]).0 == payload);
        assert!(to_file(&stage, &["state", "watch", "s", "--count", "1"]).0 == payload);
        stage.run(&["state", "get", "s", "--output", "out"]).expect(0);
        assert!(fs::read(stage.path("out")).expect("written") == payload);
        assert!(to_file(&stage, &["service", "call", "same", "--file", "in"]).0 == payload);
        stage.run(&["service", "call", "same", "--file", "in", "--output", "out"]).expect(0);
        assert!(fs::read(stage.path("out")).expect("written") == payload);
    }
    stage.run(&["state", "set", "s", "text"]).expect(0);
    assert_eq!(to_file(&stage, &["state", "get", "s"]).0, b"text\n");
    server.kill();
}

#[test]
fn a_lock_needs_no_dashes_before_the_command() {
    let stage = Stage::new();
    for form in [
        &["lock"][..],
        &["lock", "run"],
        &["semaphore", "run", "--permits", "2"],
        &["sem", "-p", "2"],
    ] {
        let name = if form[0] == "lock" { "L" } else { "S" };
        let run = |words: &[&str]| stage.run(&[form, &[name], words].concat());
        assert_eq!(run(&["echo", "in", "it"]).expect(0).text(), "in it\n");
        assert_eq!(run(&["--", "echo", "in", "it"]).expect(0).text(), "in it\n");
        // Options behind the command's first word are the command's, also those that we have too,
        // and dashes.
        let words =
            ["echo", "--json", "-n", "-w", "5", "--timeout", "x", "--help", "--", "-d", "y"];
        assert_eq!(run(&words).expect(0).text(), format!("{}\n", words[1..].join(" ")));
        assert_eq!(run(&["--timeout", "250ms", "--nonblock"]).code(), 2);
        assert_eq!(run(&["--timeout", "250ms", "echo", "-n", "x"]).expect(0).text(), "x");
        // A misspelt option is no command.
        run(&["--timout", "5", "true"]).expect(2).says("--timout");
        run(&[]).expect(2);
        run(&["sh", "-c", "exit 7"]).expect(7);
        assert_eq!(stage.feed(&[form, &[name, "cat"]].concat(), b"input").expect(0).out, b"input");
    }
    let server = stage.start(&["serve", "--count", "1", "upper", "tr", "-d", "x"]);
    until("it serves", || {
        stage.entry("upper").is_some_and(|entry| entry["receiver"]["alive"] == true)
    });
    assert_eq!(stage.run(&["service", "call", "upper", "axb"]).expect(0).text(), "ab");
    server.end().expect(0);
}

#[test]
fn a_lock_of_a_verbs_name_is_held_as_before() {
    let stage = Stage::new();
    for name in ["run", "info", "list", "help"] {
        assert_eq!(
            stage.run(&["lock", name, "--", "echo", "held", name]).expect(0).text(),
            format!("held {name}\n")
        );
        assert_eq!(stage.entry(name).expect("made")["kind"], "rwlock");
        assert_eq!(stage.run(&["lock", "run", name, "echo", "again"]).expect(0).text(), "again\n");
        stage.run(&["lock", "info", name]).expect(0);
    }
    assert_eq!(stage.run(&["lock", "list"]).expect(0).text().lines().count(), 5);
}

#[test]
fn times_have_units() {
    let stage = Stage::new();
    stage.run(&["lock", "L", "true"]).expect(0);
    let holder = stage.start(&["lock", "L", "sleep", "1000"]);
    until("it holds the lock", || stage.entry("L").expect("there")["holders"][0]["alive"] == true);
    for time in ["20ms", "0.02s", "0.02", "20000us", "0"] {
        stage.run(&["lock", "--timeout", time, "L", "true"]).expect(124);
        stage.run(&["domain", "wait", "L", "--timeout", time]).expect(5);
        stage.run(&["topic", "echo", "none", "--timeout", time]).expect(5);
        let ended = stage.run(&["queue", "recv", "q", "--until-idle", time]).expect(6);
        let waits = if time == "0" { 0 } else { 1 };
        assert_eq!(ended.says("there is no queue 'q'").err.lines().count(), 1 + waits);
    }
    for time in ["2x", "-1s", "s", ""] {
        stage
            .run(&["lock", "L", &format!("--timeout={time}"), "true"])
            .expect(2)
            .says("as in 250ms");
    }
    holder.kill();
}

#[test]
fn each_kind_is_listed_and_shown_by_its_noun() {
    let stage = Stage::new();
    stage.feed(&["queue", "send", "q"], b"x\n").expect(0);
    stage.feed(&["topic", "pub", "t"], b"x\n").expect(0);
    stage.run(&["state", "set", "s", "x"]).expect(0);
    stage.run(&["lock", "L", "true"]).expect(0);
    stage.run(&["semaphore", "run", "--permits", "1", "S", "true"]).expect(0);
    let names = |noun: &str| -> Vec<String> {
        let listing = stage.run(&[noun, "list", "--json"]).expect(0).json();
        let entries =
            listing["entries"].as_array().or(listing["topics"].as_array()).expect("a list").clone();
        entries.iter().map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("queue"), ["q"]);
    assert_eq!(names("topic"), ["t"]);
    assert_eq!(names("state"), ["s"]);
    assert_eq!(names("semaphore"), ["S"]);
    assert_eq!(names("service"), Vec::<String>::new());
    // The record beside the semaphore has no locks in it.
    assert_eq!(names("lock"), ["L"]);
    assert_eq!(
        names("domain"),
        stage.run(&["ls", "--json"]).expect(0).json()["entries"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|entry| entry["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    );
    for (noun, name) in
        [("queue", "q"), ("topic", "t"), ("state", "s"), ("semaphore", "S"), ("lock", "L")]
    {
        stage.run(&[noun, "info", name]).expect(0);
        let other = if noun == "queue" { "s" } else { "q" };
        stage.run(&[noun, "info", other]).expect(7).says(&format!("'{other}' is no {noun} but a "));
        assert_eq!(
            stage.run(&["info", name]).expect(0).text(),
            stage.run(&["domain", "info", name]).expect(0).text()
        );
    }
    stage.run(&["service", "info", "q"]).expect(7);
    stage.run(&["pool", "info", "q"]).expect(7);
    stage.run(&["pool", "list", "q"]).expect(7);
    stage.run(&["queue", "info", "none"]).expect(6);
}

#[test]
fn waiters_are_told_with_whom_they_wait_for() {
    let stage = Stage::new();
    stage.run(&["lock", "L", "true"]).expect(0);
    let none = stage.run(&["domain", "waiters"]).expect(0).says("no thread waits");
    assert_eq!(none.text(), "");
    assert_eq!(stage.run(&["domain", "waiters", "--json"]).expect(0).text(), "");
    let holder = stage.start(&["lock", "L", "sleep", "1000"]);
    until("it holds the lock", || stage.entry("L").expect("there")["holders"][0]["alive"] == true);
    let waiter = stage.start(&["lock", "L", "true"]);
    let told = || stage.run(&["domain", "waiters", "--json"]).expect(0).text();
    until("it waits", || !told().is_empty());
    let told: Value = serde_json::from_str(told().lines().next().expect("a line")).expect("JSON");
    assert_eq!((&told["name"], &told["pid"]), (&"L".into(), &waiter.pid().into()));
    assert_eq!(told["holder"]["pid"], holder.pid());
    let text = stage.run(&["domain", "waiters"]).expect(0).text();
    assert!(
        text.starts_with("NAME") && text.contains(&format!("{} (outlive", holder.pid())),
        "{text}"
    );
    holder.kill();
    waiter.end().expect(0);
}

/// Returns what the help of a verb says of its JSON: the members of a line.
fn members(stage: &Stage, verb: &[&str]) -> Vec<String> {
    let help = stage.run(&[&["help"], verb].concat()).expect(0).text();
    let told = help
        .split("With --json, one line of JSON for")
        .nth(1)
        .unwrap_or_else(|| panic!("{verb:?}: {help}"));
    let told: Vec<&str> =
        told.lines().skip(1).take_while(|line| !line.is_empty()).map(str::trim).collect();
    told.join(" ").split(", ").map(str::to_owned).collect()
}

#[test]
fn json_is_lines_of_the_form_that_the_help_names() {
    let stage = Stage::new();
    stage.feed(&["queue", "send", "q"], b"text\n\xff\n").expect(0);
    stage.feed(&["topic", "pub", "t"], b"text\n\xff\n").expect(0);
    stage.feed(&["topic", "pub", "m", "--msgpack"], b"{\"a\":1}\n").expect(0);
    stage.run(&["job", "put", "--max-attempts", "1", "j", "bad"]).expect(0);
    stage.run(&["job", "work", "j", "--drain", "false"]).expect(1);
    stage.run(&["state", "set", "s", "text"]).expect(0);
    stage.run(&["semaphore", "run", "--permits", "1", "S", "true"]).expect(0);
    stage.run(&["lock", "L", "true"]).expect(0);
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let _pool = outlive::pool::Pool::open_or_create(&domain, "p").expect("made");
    let mut server = stage.start(&["service", "serve", "echo", "cat"]);
    until("it serves", || {
        stage.entry("echo").is_some_and(|entry| entry["receiver"]["alive"] == true)
    });
    let holder = stage.start(&["lock", "L", "sleep", "1000"]);
    until("it holds the lock", || stage.entry("L").expect("there")["holders"][0]["alive"] == true);
    let waiter = stage.start(&["lock", "L", "true"]);
    until("it waits", || !stage.run(&["domain", "waiters", "--json"]).expect(0).out.is_empty());
    // How many words of each are the verb, and how it is called so that it ends.
    let calls: &[(usize, &[&str])] = &[
        (2, &["topic", "pub", "t"]),
        (2, &["topic", "echo", "t", "--history", "2", "--count", "2"]),
        (2, &["topic", "echo", "t", "--history", "2", "--count", "2", "--hex"]),
        (2, &["topic", "echo", "m", "--history", "1", "--count", "1", "--msgpack"]),
        (2, &["topic", "hz", "t", "--interval", "50ms", "--count", "2"]),
        (2, &["topic", "bw", "t", "--interval", "50ms", "--count", "2"]),
        (2, &["topic", "delay", "t", "--interval", "50ms", "--count", "2"]),
        (2, &["topic", "info", "t", "--look", "10ms"]),
        (2, &["topic", "list"]),
        (2, &["queue", "send", "q"]),
        (2, &["queue", "recv", "q", "--count", "2"]),
        (2, &["queue", "info", "q"]),
        (2, &["queue", "list"]),
        (2, &["job", "put", "j", "one"]),
        (2, &["job", "aside", "j"]),
        (2, &["job", "info", "j"]),
        (2, &["job", "list"]),
        (2, &["state", "get", "s"]),
        (2, &["state", "get", "s", "--hex"]),
        (2, &["state", "set", "s", "more"]),
        (2, &["state", "watch", "s", "--count", "1"]),
        (2, &["state", "info", "s"]),
        (2, &["state", "list"]),
        (2, &["service", "call", "echo", "x"]),
        (2, &["service", "info", "echo"]),
        (2, &["service", "list"]),
        (2, &["lock", "info", "L"]),
        (2, &["lock", "list"]),
        (2, &["semaphore", "info", "S"]),
        (2, &["semaphore", "list"]),
        (2, &["pool", "info", "p"]),
        (2, &["pool", "list"]),
        (2, &["pool", "list", "p", "--by", "holder"]),
        (2, &["domain", "list"]),
        (2, &["domain", "info", "t"]),
        (2, &["domain", "wait", "4194305"]),
        (2, &["domain", "waiters"]),
        (2, &["domain", "watch", "--until-idle", "0"]),
        (2, &["domain", "gc", "--dry-run"]),
        (2, &["domain", "remove", "m"]),
        (1, &["top", "--once", "--interval", "50ms"]),
        (1, &["doctor"]),
        (1, &["demo", "--seconds", "200ms", "--no-robot", "--producers", "1"]),
        (1, &["exit-codes"]),
    ];
    let (mut seen, mut inner) = (0, BTreeSet::<String>::new());
    for (words, call) in calls {
        let members = members(&stage, &call[..*words]);
        for call in [[call, &["--json"][..]].concat(), [&["--json"], *call].concat()] {
            if call.contains(&"remove") {
                stage.feed(&["topic", "pub", "m"], b"x").expect(0);
            }
            if call.contains(&"recv") {
                stage.feed(&["queue", "send", "q"], b"text\n\xff\n").expect(0);
            }
            let ended = stage.run(&call);
            assert!([0, 1].contains(&ended.code()), "{call:?}: {}", ended.err);
            let text = ended.text();
            assert!(!text.is_empty() && text.ends_with('\n'), "{call:?}: {text}");
            for line in text.lines() {
                let value: Value = serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("{call:?}: {error}: {line}"));
                inner_members(&value, &mut inner);
                for value in value.as_array().unwrap_or(&vec![value.clone()]) {
                    has_members(value, &members, &format!("{call:?}"));
                }
            }
            seen += 1;
        }
    }
    assert_eq!(seen, calls.len() * 2);
    let page = include_str!("../../../../doc/program.md");
    let words: BTreeSet<&str> = page.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let untold: Vec<&String> =
        inner.iter().filter(|name: &&String| !words.contains(name.as_str())).collect();
    assert!(untold.is_empty(), "doc/program.md does not name {untold:?}");
    assert!(server.is_running());
    holder.kill();
    waiter.end().expect(0);
}

/// Every member of the objects within, save those of figures, which say themselves what they count.
fn inner_members(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| inner_members(value, into)),
        Value::Object(members) => {
            for (name, value) in members {
                into.insert(name.clone());
                if name != "figures" {
                    inner_members(value, into);
                }
            }
        }
        _ => {}
    }
}

/// All members that are named, and no others.
#[track_caller]
fn has_members(value: &Value, members: &[String], call: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("{call}: {value} is no object"));
    let mut known: Vec<&str> = Vec::new();
    for member in members {
        let perhaps = member.starts_with('[');
        let one_of: Vec<&str> = member.trim_matches(['[', ']']).split(" or ").collect();
        let there = one_of.iter().filter(|name| object.contains_key(**name)).count();
        assert!(there == 1 || perhaps && there == 0, "{call}: {member} in {value}");
        known.extend(one_of);
    }
    let unknown: Vec<&String> =
        object.keys().filter(|key| !known.contains(&key.as_str())).collect();
    assert!(unknown.is_empty(), "{call}: the help does not name {unknown:?}");
}

#[test]
fn json_is_refused_where_there_is_none() {
    let stage = Stage::new();
    stage.run(&["state", "set", "s", "x"]).expect(0);
    stage.feed(&["send", "q"], b"x\n").expect(0);
    let calls: &[&[&str]] = &[
        &["service", "serve", "--json", "s", "true"],
        &["serve", "--json", "s", "true"],
        &["lock", "--json", "L", "true"],
        &["lock", "run", "--json", "L", "true"],
        &["--json", "lock", "L", "--", "true"],
        &["semaphore", "run", "--json", "--permits", "1", "S", "true"],
        &["sem", "--json", "--permits", "1", "S", "true"],
        &["completions", "bash", "--json"],
        &["man", "pages", "--json"],
    ];
    for call in calls {
        let ended = stage.run(call).expect(2).says("--json is refused: ");
        assert_eq!(ended.text(), "", "{call:?}");
    }
    assert!(!stage.path("pages").exists() && stage.entry("L").is_none());
    for (call, option) in [
        (&["topic", "echo", "t"][..], "--raw"),
        (&["topic", "echo", "t"], "--lines"),
        (&["topic", "echo", "t"], "--null"),
        (&["topic", "echo", "t"], "--length-prefixed"),
        (&["topic", "echo", "t"], "--output=out"),
        (&["queue", "recv", "q"], "--raw"),
        (&["queue", "recv", "q"], "--null"),
        (&["queue", "recv", "q"], "--length-prefixed"),
        (&["queue", "recv", "q"], "--file=out"),
        (&["queue", "recv", "q"], "--output=out"),
        (&["state", "get", "s"], "--raw"),
        (&["state", "get", "s"], "--output=out"),
        (&["state", "watch", "s"], "--raw"),
        (&["service", "call", "c", "x"], "--lines"),
        (&["service", "call", "c", "x"], "--output=out"),
    ] {
        let ended = stage.run(&[call, &[option, "--json"]].concat()).expect(2);
        ended.says("--json").says(option.split('=').next().expect("a name"));
        assert!(!stage.path("out").exists());
    }
}

/// All that a run says, it says under the name that was typed.
#[test]
fn a_run_speaks_under_one_name() {
    let stage = Stage::new();
    stage.run(&["state", "set", "mode", "x"]).expect(0);
    let runs: [(&str, &[&str], i32); 9] = [
        ("topic echo", &["none", "--timeout", "50ms"], 5),
        ("echo", &["none", "--timeout", "50ms"], 5),
        ("queue recv", &["none", "--until-idle", "0"], 6),
        ("recv", &["none", "--until-idle", "0"], 6),
        ("domain wait", &["none"], 6),
        ("wait", &["mode"], 0),
        ("lock run", &["here", "./no-such-program"], 127),
        ("lock", &["here", "./no-such-program"], 127),
        ("semaphore run", &["--permits", "1", "two", "./no-such-program"], 127),
    ];
    for (verb, rest, code) in runs {
        let words: Vec<&str> = verb.split(' ').chain(rest.iter().copied()).collect();
        let told = stage.run(&words).expect(code).err;
        let begins = format!("outlive {verb}: ");
        assert!(!told.is_empty(), "{verb}");
        assert!(told.lines().all(|line| line.starts_with(&begins)), "{verb}: {told}");
    }
}
