//! `pools`, and what `info`, `ls` and `gc` say of pools. The program itself uses none, so the test
//! does, and copies of it.

use std::process::Command;

use outlive::Domain;
use outlive::pool::{Pool, PoolError};

use crate::stage::{Running, Stage, until};

/// Set in a copy of this test: the domain it works in, and how many objects of 100,000 bytes it
/// takes.
const HOLDER: &str = "OUTLIVE_TEST_HOLDS";

fn open(domain: &str) -> Pool {
    let domain = Domain::open_or_create_at(domain).expect("opens");
    let options = Pool::options().max_bytes(16 << 20);
    options.open_or_create(&domain, "frames").expect("opens")
}

/// The copy's part: takes objects, keeps one in its cache, and sleeps until it is killed.
#[test]
fn holder() {
    let Ok(told) = std::env::var(HOLDER) else { return };
    let (count, domain) = told.split_once(' ').expect("a number and a path");
    let pool = open(domain);
    let count: usize = count.parse().expect("a number");
    let objects: Vec<_> = (0..count).map(|_| pool.alloc(100_000).expect("room")).collect();
    drop(pool.alloc(5000).expect("room"));
    std::thread::sleep(std::time::Duration::from_secs(300));
    drop(objects);
}

fn hold(stage: &Stage, count: usize) -> Running {
    let mut command = Command::new(std::env::current_exe().expect("known"));
    command.args(["--exact", "pools::holder", "--nocapture"]);
    command.env(HOLDER, format!("{count} {}", stage.domain().display()));
    let running = Running::new(command);
    until("it has them", || objects_of(stage, running.pid(), true) > count as u64);
    running
}

/// Returns what `pools --json` says that a process has.
fn objects_of(stage: &Stage, pid: u32, alive: bool) -> u64 {
    let report = stage.run(&["pools", "--json"]);
    if report.code() != 0 {
        return 0;
    }
    let report = report.json();
    let holders = report["pools"][0]["holders"].as_array().cloned().unwrap_or_default();
    let it = holders.iter().find(|holder| holder["pid"] == pid && holder["alive"] == alive);
    it.and_then(|holder| holder["objects"].as_u64()).unwrap_or(0)
}

#[test]
fn who_has_what_is_told() {
    let stage = Stage::new();
    let (living, dying) = (hold(&stage, 3), hold(&stage, 40));
    let pool = open(&stage.domain().display().to_string());
    let offer = pool.alloc(2 << 20).expect("room").into_offset().expect("ours");
    let by_size = stage.run(&["pools", "frames"]).expect(0).text();
    let line = |text: &str, begins: &str| {
        text.lines()
            .find(|line| line.trim_start().starts_with(begins))
            .unwrap_or_else(|| panic!("{text}"))
            .to_owned()
    };
    let fields = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(line(&by_size, "frames:").contains("of at most 16.0 MiB"), "{by_size}");
    assert_eq!(
        fields(&line(&by_size, "SIZE")),
        ["SIZE", "ALLOC", "USED", "CACHE", "OFFER", "SHARE", "FREE", "FAIL", "BY", "BYTES"]
    );
    let row = fields(&line(&by_size, "112.0 KiB"));
    assert_eq!((row[3].as_str(), row[9].as_str()), ("43", "2"), "{by_size}");
    assert_eq!(fields(&line(&by_size, "2.0 MiB"))[5], "1", "{by_size}");
    assert_eq!(fields(&line(&by_size, "sum"))[8], "2", "{by_size}");

    dying.kill();
    let pid = dying.pid();
    dying.end();
    let by_holder = stage.run(&["pools", "--by", "holder"]).expect(0).text();
    let dead = line(&by_holder, &pid.to_string());
    let objects = |line: &str| fields(line)[1].parse::<u64>().expect("a number");
    assert!(
        dead.ends_with(", dead") && objects(&dead) >= 41,
        "no process has collected it yet: {by_holder}"
    );
    let alive = line(&by_holder, &living.pid().to_string());
    assert!(!alive.contains("dead") && objects(&alive) >= 4, "{by_holder}");
    assert!(line(&by_holder, "-").ends_with("handed over, not claimed"), "{by_holder}");

    // Full: the failure is counted, what the dead had is collected, and the error names the
    // processes that have most now.
    let mut mine = Vec::new();
    let error = loop {
        match pool.alloc(100_000) {
            Ok(object) => mine.push(object),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, PoolError::NoSpace { .. }), "{error}");
    assert_eq!(objects_of(&stage, pid, false), 0);
    let json = stage.run(&["pools", "frames", "--json"]).expect(0).json();
    let frames = &json["pools"][0];
    let number = |field: &serde_json::Value| field.as_u64().expect("a number");
    for size in frames["sizes"].as_array().expect("a list").iter().chain([&frames["sum"]]) {
        let parts = ["used", "cached", "free", "offered", "shared", "moving"]
            .map(|part| number(&size[part]));
        assert_eq!(parts.iter().sum::<u64>(), number(&size["allocated"]), "{size}");
    }
    assert_eq!(number(&frames["sum"]["failed"]), 1, "{json}");
    assert_eq!(number(&frames["unclaimed_bytes"]), 2 << 20);
    assert_eq!(frames["holders"][0]["pid"], std::process::id());
    assert!(number(&frames["bytes"]) <= number(&frames["max_bytes"]));

    let info = stage.run(&["info", "frames"]).expect(0).text();
    for begins in ["kind         pool", "used         ", "failed       1", "offered      1"] {
        assert!(info.contains(begins), "{begins} in {info}");
    }
    assert!(stage.run(&["ls"]).expect(0).text().contains("objects in use"));

    // All is freed: gc gives it back.
    drop((mine, pool.claim(offer).expect("offered")));
    pool.flush();
    living.kill();
    living.end();
    let mut said = String::new();
    until("gc gives it back", || {
        std::thread::sleep(std::time::Duration::from_millis(700));
        said = stage.run(&["gc"]).expect(0).text();
        stage.run(&["pools", "--json"]).expect(0).json()["pools"][0]["sum"]["allocated"] == 0
    });
    assert!(said.contains("back to the system"), "{said}");
    assert!(stage.run(&["pools"]).expect(0).text().starts_with("frames: "));
}

#[test]
fn what_is_no_pool_is_refused() {
    let stage = Stage::new();
    stage.run(&["pools"]).expect(6).says("does not exist");
    stage.feed(&["send", "q"], b"x").expect(0);
    std::fs::write(stage.domain().join("stranger"), "some text").expect("written");
    assert_eq!(stage.run(&["pools"]).expect(0).says("no pools in").text(), "");
    assert_eq!(stage.run(&["pools", "--json"]).expect(0).json()["pools"], serde_json::json!([]));
    stage.run(&["pools", "q"]).expect(7).says("'q' is no pool but a queue");
    stage.run(&["pools", "nobody"]).expect(6);
    stage.run(&["pools", "stranger"]).expect(8).says("was not made by Outlive");
    stage.run(&["pools", "--by", "colour"]).expect(2);
}

#[test]
fn a_damaged_pool_is_left_out_and_told() {
    use std::os::unix::fs::FileExt;
    let stage = Stage::new();
    let domain = stage.domain().display().to_string();
    drop(open(&domain).alloc(100));
    let opened = Domain::open_or_create_at(&domain).expect("opens");
    drop(Pool::open_or_create(&opened, "whole").expect("opens"));
    let file =
        std::fs::File::options().write(true).open(stage.domain().join("frames")).expect("there");
    // Where its records are.
    file.write_all_at(&[0xff; 16], 12_288).expect("written");
    let ended = stage.run(&["pools"]).expect(11).says("'frames' was left out");
    assert!(ended.text().starts_with("whole: "), "{}", ended.text());
    let json = stage.run(&["pools", "--json"]).expect(11).json();
    assert_eq!(
        (&json["pools"][0]["name"], &json["failed"][0]["name"]),
        (&"whole".into(), &"frames".into())
    );
}

#[test]
fn modes_are_set_and_places_told() {
    let stage = Stage::new();
    let pool = open(&stage.domain().display().to_string());
    let before = pool.alloc(1000).expect("room");
    let told = stage.run(&["pools", "frames", "--modes", "tag,caller"]).expect(0).text();
    assert!(
        told.lines().next().is_some_and(|line| line.ends_with(", debug modes tag,caller")),
        "{told}"
    );
    let after = [(); 3].map(|()| pool.alloc(5000).expect("room"));
    let by_caller = stage.run(&["pools", "frames", "--by", "caller"]).expect(0).text();
    let line = |part: &str| {
        by_caller.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{by_caller}"))
    };
    let of_after = line("program/pools.rs:");
    assert!(
        of_after.trim_start().starts_with("3 ")
            && of_after.contains(&std::process::id().to_string()),
        "{by_caller}"
    );
    assert!(line("not noted").trim_start().starts_with("1 "), "{by_caller}");
    let json = stage.run(&["pools", "frames", "--by", "caller", "--json"]).expect(0).json();
    assert_eq!(
        (&json["pools"][0]["callers"][0]["objects"], &json["pools"][0]["modes"]),
        (&3.into(), &"tag,caller".into())
    );
    assert!(stage.run(&["info", "frames"]).expect(0).text().contains("modes        tag,caller"));
    drop((before, after));

    assert!(
        !stage
            .run(&["pools", "frames", "--modes", "none"])
            .expect(0)
            .text()
            .contains("debug modes")
    );
    assert!(pool.modes().is_none());
    // No such mode; none of a pool; nothing that is no pool.
    stage.run(&["pools", "frames", "--modes", "tga"]).expect(2);
    stage.run(&["pools", "--modes", "tag"]).expect(2);
    let help = stage.run(&["pools", "--help"]).expect(0).text();
    for mode in &outlive::pool::MODES {
        assert!(help.contains(&format!("- {}: ", mode.name)), "{help}");
    }
}
