//! `state`: the latest value, set and read from a shell.

use crate::stage::{Stage, until};

#[test]
fn a_value_is_set_and_got() {
    let stage = Stage::new();
    stage.run(&["state", "get", "mode"]).expect(6);
    stage.run(&["state", "--no-create", "set", "mode", "idle"]).expect(6);
    stage.run(&["state", "set", "mode", "idle"]).expect(0);
    assert_eq!(stage.run(&["state", "get", "mode"]).expect(0).text(), "idle\n");
    assert_eq!(stage.run(&["state", "get", "--raw", "mode"]).expect(0).out, b"idle");
    assert_eq!(stage.run(&["state", "get", "--hex", "mode"]).expect(0).text(), "69646c65\n");
    let set = stage.feed(&["state", "--json", "set", "mode"], b"a\0\xff\n").expect(0).json();
    assert_eq!((&set["version"], &set["bytes"]), (&3.into(), &4.into()));
    assert_eq!(stage.run(&["state", "get", "-r", "mode"]).expect(0).out, b"a\0\xff\n");
    let got = stage.run(&["--json", "state", "get", "mode"]).expect(0).json();
    assert_eq!(
        (&got["version"], &got["hex"], &got["text"]),
        (&3.into(), &"6100ff0a".into(), &serde_json::Value::Null)
    );
    // Its size was decided when it was made.
    let large = "x".repeat(5000);
    stage.run(&["state", "set", "mode", &large]).expect(10).says("does not fit, the most is 4096");
    assert_eq!(
        stage.run(&["state", "get", "-r", "mode"]).expect(0).out,
        b"a\0\xff\n",
        "the value before"
    );
    // A forgotten argument loses no value; one of no bytes is asked for.
    stage.feed(&["state", "set", "mode"], b"").expect(16).says("standard input is empty");
    assert_eq!(stage.run(&["state", "get", "-r", "mode"]).expect(0).out, b"a\0\xff\n");
    stage.run(&["state", "set", "mode", ""]).expect(0);
    assert_eq!(stage.run(&["state", "get", "-r", "mode"]).expect(0).out, b"");
    stage.run(&["state", "set", "--capacity", "8K", "wide", "x"]).expect(0);
    stage.run(&["state", "set", "wide", &large]).expect(0);
    stage.run(&["state", "set", "as-large", &large]).expect(0);
    stage.run(&["state", "set", "--capacity", "200M", "huge", "x"]).expect(10);
    stage.feed(&["send", "q"], b"").expect(0);
    stage.run(&["state", "get", "q"]).expect(7).says("is a queue");
}

#[test]
fn a_change_is_printed_and_a_death_is_told() {
    let stage = Stage::new();
    stage.run(&["state", "set", "mode", "idle"]).expect(0);
    let mut watch = stage.start(&["state", "watch", "--count", "2", "mode"]);
    let is_watching = || {
        stage
            .entry("mode")
            .is_some_and(|entry| !entry["waiters"].as_array().is_none_or(Vec::is_empty))
    };
    until("it waits", is_watching);
    assert!(watch.is_running());
    stage.run(&["state", "set", "mode", "driving"]).expect(0);
    assert_eq!(watch.end().expect(0).text(), "idle\ndriving\n");
    let watch = stage.start(&["state", "--json", "watch", "mode"]);
    until("it waits", is_watching);
    watch.signal(libc::SIGTERM);
    let told = watch.end().expect(0).json();
    assert_eq!((&told["text"], &told["version"]), (&"driving".into(), &3.into()));
}

#[test]
fn it_is_seen_from_outside() {
    let stage = Stage::new();
    stage.run(&["state", "set", "mode", "idle"]).expect(0);
    let listed = stage.run(&["ls"]).expect(0).text();
    assert!(listed.contains("version 2, no writer"), "{listed}");
    let info = stage.run(&["info", "mode"]).expect(0).text();
    for line in ["4,096 bytes at most", "version      2", "pins         0"] {
        assert!(info.contains(line), "{line}: {info}");
    }
    let entry = stage.entry("mode").expect("there");
    assert_eq!(entry["kind"], "state");
    stage.run(&["gc"]).expect(0);
    stage.run(&["wait", "mode"]).expect(0);
    stage.run(&["rm", "mode"]).expect(0);
    assert!(stage.entry("mode").is_none());
}
