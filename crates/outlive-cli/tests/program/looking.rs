//! `ls`, `info`, `rm`, `gc`, `doctor`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::stage::{Stage, until};

#[test]
fn a_domain_is_not_made_by_looking() {
    let stage = Stage::new();
    for args in [&["ls"][..], &["gc"], &["info", "q"], &["rm", "q"], &["wait", "q"]] {
        stage.run(args).expect(6).says("does not exist");
    }
    assert!(!stage.domain().exists());
    // The default domain is another matter: not to be there is its ordinary state.
    let mut command = stage.command(["ls"]);
    command.env_remove("OUTLIVE_DOMAIN");
    let ended = crate::stage::Running::new(command).end();
    assert!(ended.code() == 0, "{}", ended.err);
}

#[test]
fn all_there_is_is_listed() {
    let stage = Stage::new();
    stage.feed(&["send", "orders"], b"one\ntwo\n").expect(0);
    let holder = stage.start(&["lock", "lock", "--", "sleep", "1000"]);
    until("it is held", || {
        stage.entry("lock").is_some_and(|lock| lock["holders"].as_array().is_some_and(|all| !all.is_empty()))
    });
    fs::write(stage.domain().join("stranger"), "some text, longer than nothing").expect("written");
    let listing = stage.run(&["ls"]).expect(0).text();
    let line = |name: &str| listing.lines().find(|line| line.starts_with(name)).expect("listed").to_owned();
    assert!(line("NAME").contains("STATE"));
    assert!(line("orders").contains("queue") && line("orders").contains("2 messages waiting, no receiver"));
    assert!(line("lock").contains("rwlock") && line("lock").contains(&format!("held by {}", holder.pid())));
    assert!(line("stranger").contains("not made by Outlive"));

    let lock = stage.entry("lock").expect("listed");
    assert_eq!(lock["users"][0]["pid"], holder.pid());
    assert_eq!(lock["users"][0]["program"], "outlive");
    assert_eq!(stage.entry("orders").expect("listed")["counters"]["sent"], 2);
    assert!(stage.entry("stranger").expect("listed")["kind"].is_null());

    let info = stage.run(&["info", "orders"]).expect(0).text();
    assert!(info.contains("sent         2") && info.contains("kind         queue"), "{info}");
    assert_eq!(stage.run(&["info", "orders", "--json"]).expect(0).json()["name"], "orders");
    stage.run(&["info", "stranger"]).expect(8);
    stage.run(&["info", "nobody"]).expect(6);
}

#[test]
fn a_name_in_use_is_removed_only_by_force() {
    let stage = Stage::new();
    let receiver = stage.start(&["recv", "q"]);
    until("it receives", || stage.entry("q").is_some_and(|queue| queue["receiver"]["alive"] == true));
    stage.run(&["rm", "q"]).expect(12).says(&format!("{} (outlive)", receiver.pid())).says("--force");
    assert!(stage.entry("q").is_some());
    assert_eq!(stage.run(&["rm", "q", "--force", "--json"]).expect(0).json()["removed"][0], "q");
    assert!(stage.entry("q").is_none());
    // A new one of that name is another one.
    stage.feed(&["send", "q"], b"for the new one\n").expect(0);
    assert_eq!(stage.run(&["recv", "q", "-n", "1"]).expect(0).text(), "for the new one\n");
    receiver.signal(15);
    assert_eq!(receiver.end().expect(0).text(), "");

    stage.run(&["rm", "q", "nobody", "q"]).expect(6);
    assert!(stage.entry("q").is_none());
    fs::write(stage.domain().join("stranger"), "text").expect("written");
    stage.run(&["rm", "--force", "stranger"]).expect(8);
    assert!(stage.domain().join("stranger").exists());
    stage.run(&["rm", ".tokens"]).expect(13);
}

#[test]
fn what_the_dead_left_is_swept() {
    let stage = Stage::new();
    let holder = stage.start(&["lock", "L", "--", "sleep", "1000"]);
    let receiver = stage.start(&["recv", "q"]);
    until("both are there", || {
        stage.entry("q").is_some_and(|queue| queue["receiver"]["alive"] == true)
            && stage.entry("L").is_some_and(|lock| lock["holders"][0]["alive"] == true)
    });
    holder.kill();
    receiver.kill();
    holder.end();
    receiver.end();
    assert_eq!(stage.entry("L").expect("there")["dead_claims"], 1);
    let look = || stage.run(&["gc", "--dry-run", "--json"]).expect(0).json();
    let first = look();
    assert!(first["claims"].as_u64().is_some_and(|claims| claims >= 2), "{first}");
    assert!(first["tokens"].as_u64().is_some_and(|tokens| tokens >= 2), "{first}");
    assert_eq!(look()["claims"], first["claims"], "a dry run sweeps nothing");
    assert!(stage.run(&["gc"]).expect(0).text().starts_with("swept"));
    assert_eq!(look()["claims"], 0);
    assert_eq!(stage.entry("L").expect("there")["dead_claims"], 0);
    // Swept or not: the next is told.
    stage.run(&["lock", "L", "--", "true"]).expect(0).says("the last holder died");
    stage.feed(&["send", "q"], b"x").expect(3);
}

#[test]
fn the_doctor_looks_and_mends_only_when_asked() {
    let stage = Stage::new();
    stage.feed(&["send", "q"], b"x").expect(0);
    let report = stage.run(&["doctor", "--json"]).expect(0).json();
    assert_eq!(report["ok"], true);
    let names: Vec<&str> =
        report["findings"].as_array().expect("a list").iter().filter_map(|finding| finding["name"].as_str()).collect();
    for name in
        ["futex_waitv", "membarrier", "robust lists", "O_TMPFILE", "room", "RLIMIT_AS", "RLIMIT_FSIZE", "domain"]
    {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let mode = || fs::metadata(stage.domain()).expect("there").permissions().mode() & 0o777;
    fs::set_permissions(stage.domain(), fs::Permissions::from_mode(0o777)).expect("set");
    let text = stage.run(&["doctor"]).expect(1).says("1 fault").text();
    assert!(text.contains("FAULT   domain") && text.contains("--repair"), "{text}");
    assert_eq!(mode(), 0o777);
    stage.feed(&["send", "q"], b"x").expect(9);
    let text = stage.run(&["doctor", "--repair"]).expect(0).text();
    assert!(text.contains("mended  domain"), "{text}");
    assert_eq!(mode(), 0o700);
    stage.feed(&["send", "q"], b"x").expect(0);
}
