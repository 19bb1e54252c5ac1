//! `ls`, `info`, `rm`, `gc`, `doctor`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::stage::{Running, Stage, until};

#[test]
fn a_domain_is_not_made_by_looking() {
    let stage = Stage::new();
    for args in [&["ls"][..], &["gc"], &["info", "q"], &["rm", "q"], &["wait", "q"]] {
        stage.run(args).expect(6).says("does not exist");
    }
    assert!(!stage.domain().exists());
    // The default domain is another matter: not to be there is its ordinary state. One that an
    // older build left here is refused.
    let mut command = stage.command(["ls"]);
    command.env_remove("OUTLIVE_DOMAIN");
    let ended = crate::stage::Running::new(command).end();
    assert!(ended.code() == 0 || ended.err.contains("memory layout"), "{}", ended.err);
}

#[test]
fn all_there_is_is_listed() {
    let stage = Stage::new();
    stage.feed(&["send", "orders"], b"one\ntwo\n").expect(0);
    let holder = stage.start(&["lock", "lock", "--", "sleep", "1000"]);
    until("it is held", || {
        stage
            .entry("lock")
            .is_some_and(|lock| lock["holders"].as_array().is_some_and(|all| !all.is_empty()))
    });
    fs::write(stage.domain().join("stranger"), "some text, longer than nothing").expect("written");
    let listing = stage.run(&["ls"]).expect(0).text();
    let line = |name: &str| {
        listing.lines().find(|line| line.starts_with(name)).expect("listed").to_owned()
    };
    assert!(line("NAME").contains("STATE"));
    assert!(
        line("orders").contains("queue")
            && line("orders").contains("2 messages waiting, no receiver")
    );
    assert!(
        line("lock").contains("rwlock")
            && line("lock").contains(&format!("held by {}", holder.pid()))
    );
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
    let receiver = stage.start(&["recv", "q", "--max-bytes", "1M"]);
    until("it receives", || {
        stage.entry("q").is_some_and(|queue| queue["receiver"]["alive"] == true)
    });
    stage
        .run(&["rm", "q"])
        .expect(12)
        .says(&format!("{} (outlive)", receiver.pid()))
        .says("--force");
    assert!(stage.entry("q").is_some());
    assert_eq!(stage.run(&["rm", "q", "--force", "--json"]).expect(0).json()["removed"][0], "q");
    assert!(stage.entry("q").is_none());
    // A new one of that name is another one.
    stage.feed(&["send", "q"], b"for the new one\n").expect(0);
    assert_eq!(stage.run(&["recv", "q", "-n", "1"]).expect(0).text(), "for the new one\n");
    receiver.signal(15);
    assert_eq!(receiver.end().expect(0).text(), "");

    stage.run(&["rm", "q", "nobody", "q"]).expect(6).says("there is no 'nobody' in ");
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
    let receiver = stage.start(&["recv", "q", "--on-receiver-death", "fail"]);
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
    let names: Vec<&str> = report["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|finding| finding["name"].as_str())
        .collect();
    for name in [
        "futex_waitv",
        "membarrier",
        "robust lists",
        "huge pages",
        "O_TMPFILE",
        "room",
        "RLIMIT_AS",
        "RLIMIT_FSIZE",
        "domain",
    ] {
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
    // By its other name.
    fs::set_permissions(stage.domain(), fs::Permissions::from_mode(0o755)).expect("set");
    stage.run(&["doctor", "--fix"]).expect(0);
    assert_eq!(mode(), 0o700);
    stage.feed(&["send", "q"], b"x").expect(0);
}

#[test]
fn a_lock_tells_what_its_holder_runs() {
    let stage = Stage::new();
    let holder = stage.start(&["lock", "L", "sleep", "1000"]);
    until("it runs", || stage.run(&["info", "L"]).text().contains(": sleep 1000, for "));
    let info = stage.run(&["lock", "info", "L"]).expect(0).text();
    let line = |name: &str| info.lines().find(|line| line.starts_with(name)).expect("told");
    assert!(line("holder").contains(&format!("{} (outlive)", holder.pid())), "{info}");
    assert!(line("type").ends_with(" [[AtomicU64; 2]; 512]"), "{info}");
    let told = stage.run(&["info", "L", "--json"]).expect(0).json();
    let command = &told["commands"][0];
    assert_eq!(
        (&command["holder"], &command["command"]),
        (&holder.pid().into(), &"sleep 1000".into())
    );
    assert!(command["seconds"].is_f64() && command["pid"] != command["holder"], "{told}");
    assert_eq!(told["type"], "[[core::sync::atomic::AtomicU64; 2]; 512]");
    // One that is refused is told the same.
    for refused in [&["lock", "-n", "L", "true"][..], &["lock", "-w", "10ms", "L", "true"]] {
        let ended = stage.run(refused).expect(124);
        let by = format!("held by process {} (sleep 1000, for ", holder.pid());
        assert!(ended.err.contains(&by), "{}", ended.err);
    }
    holder.signal(15);
    holder.end();
    assert!(!stage.run(&["info", "L"]).expect(0).text().contains("command"));
}

#[test]
fn who_waits_is_named() {
    let stage = Stage::new();
    let holder = stage.start(&["lock", "L", "--", "sleep", "1000"]);
    until("it is held", || stage.entry("L").is_some_and(|lock| !lock["holders"][0].is_null()));
    assert_eq!(stage.entry("L").expect("listed")["waiters"], serde_json::json!([]));
    let waiter = stage.start(&["lock", "L", "--", "true"]);
    let killed = stage.start(&["lock", "L", "--", "true"]);
    let waiting = || stage.entry("L").and_then(|lock| lock["waiters"].as_array().map(Vec::len));
    until("both wait", || waiting() == Some(2));
    assert!(
        stage
            .run(&["ls"])
            .expect(0)
            .text()
            .contains(&format!("held by {} (outlive), 2 waiting", holder.pid()))
    );
    let pid = killed.pid();
    killed.kill();
    killed.end();
    assert_eq!(waiting(), Some(1), "{pid} is dead");

    let info = stage.run(&["info", "L"]).expect(0).text();
    let line =
        |name: &str| info.lines().find(|line| line.starts_with(name)).expect("told").to_owned();
    let begins = format!("holder       {} (outlive), for ", holder.pid());
    assert!(line("holder").starts_with(&begins) && line("holder").ends_with(" at least"), "{info}");
    assert!(
        line("waiter").starts_with(&format!("waiter       {} (outlive), for ", waiter.pid())),
        "{info}"
    );
    assert!(line("waiter").ends_with(&format!(", held by {} (outlive)", holder.pid())), "{info}");

    let info = stage.run(&["info", "L", "--json"]).expect(0).json();
    let told = &info["waiters"][0];
    assert_eq!((&told["pid"], &told["tid"]), (&waiter.pid().into(), &waiter.pid().into()));
    assert_eq!(
        (&told["program"], &told["holder"]["pid"]),
        (&"outlive".into(), &holder.pid().into())
    );
    assert!(
        told["waited_seconds"].is_f64()
            && told["held_seconds"].is_f64()
            && info["deadlocks"].is_null(),
        "{info}"
    );
    holder.signal(15);
    holder.end();
    waiter.end().expect(0);
    assert_eq!(waiting(), Some(0));
}

/// This test program again, as a process that takes two locks, once or until it is killed.
fn member(stage: &Stage, first: &str, then: &str) -> Running {
    Running::new(member_command(stage, first, then))
}

fn member_command(stage: &Stage, first: &str, then: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("known"));
    command.args(["--exact", "looking::takes_two_locks", "--ignored", "--nocapture"]);
    command
        .env("OUTLIVE_DOMAIN", stage.domain())
        .env("FIRST", first)
        .env("THEN", then)
        .env("STAGE", stage.path(""));
    command
}

#[test]
#[ignore = "a part of others, which start it as a process"]
fn takes_two_locks() {
    let Ok(first) = std::env::var("FIRST") else { return };
    let then = std::env::var("THEN").expect("set");
    let domain = outlive::Domain::open_default().expect("opens");
    if std::env::var_os("OTHERS").is_some() {
        // A lock of one kind, and of another.
        let table = outlive::sync::RwLock::<u64>::options(0)
            .open_or_create(&domain, "table")
            .expect("opens");
        let valve = outlive::sync::PiMutex::<u64>::options(0)
            .open_or_create(&domain, "valve")
            .expect("opens");
        let guards = if first == "table" {
            (Some(table.read().expect("free")), valve.lock().expect("free"))
        } else {
            let held = valve.lock().expect("free");
            drop(table.write().expect("free"));
            (None, held)
        };
        drop(guards);
        return;
    }
    let open = |name: &str| {
        outlive::sync::Mutex::<u64>::options(0).open_or_create(&domain, name).expect("opens")
    };
    let (one, other) = (open(&first), open(&then));
    if std::env::var_os("OUTLIVE_LOCK_ORDER").is_some() {
        let guard = one.lock().expect("free");
        drop(other.lock().expect("free"));
        drop(guard);
        return;
    }
    let guard = one.lock();
    let folder = std::path::PathBuf::from(std::env::var("STAGE").expect("set"));
    fs::write(folder.join(&first), "held").expect("written");
    until("the other one is held", || folder.join(&then).exists());
    drop(other.lock());
    drop(guard);
}

#[test]
fn orders_of_other_locks_are_told_as_well() {
    let stage = Stage::new();
    let watches = |first: &str| {
        let mut command = member_command(&stage, first, "m");
        command.env("OUTLIVE_LOCK_ORDER", "1").env("OTHERS", "1");
        Running::new(command).end().expect(0).err
    };
    assert!(!watches("table").contains("deadlock"));
    let told = watches("valve");
    assert!(
        told.contains("'valve' while holding 'table'")
            && told.contains("'table' while holding 'valve'"),
        "{told}"
    );
    assert!(
        stage
            .run(&["info", "valve"])
            .expect(0)
            .text()
            .lines()
            .any(|line| line.starts_with("ORDER"))
    );
    assert!(stage.run(&["doctor"]).expect(1).text().contains("while holding 'valve'"));
}

#[test]
fn a_deadlock_is_told() {
    let stage = Stage::new();
    let (a, b) = (member(&stage, "a", "b"), member(&stage, "b", "a"));
    let looks = || stage.run(&["doctor", "--json"]).json();
    let found = |report: &serde_json::Value| {
        report["findings"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["name"] == "deadlocks").cloned())
    };
    until("it is seen", || found(&looks()).is_some_and(|finding| finding["state"] == "fault"));
    let text = stage.run(&["doctor"]).expect(1).text();
    let told = text.lines().find(|line| line.contains("deadlocks")).expect("told");
    for word in
        [&format!("{} (", a.pid()), &format!("{} (", b.pid()), "for 'a'", "for 'b'", "FAULT"]
    {
        assert!(told.contains(word), "{word} is not in: {told}");
    }
    let info = stage.run(&["info", "a"]).expect(0).text();
    assert!(info.lines().any(|line| line.starts_with("DEADLOCK")), "{info}");
    let json = stage.run(&["info", "b", "--json"]).expect(0).json();
    assert_eq!(json["deadlocks"].as_array().map(Vec::len), Some(1), "{json}");
    a.kill();
    a.end();
    b.end().expect(0);
    assert_eq!(found(&looks()).expect("told")["state"], "good");
}

#[test]
fn orders_that_can_deadlock_are_told() {
    let stage = Stage::new();
    let watches = |first: &str, then: &str| {
        let mut command = member_command(&stage, first, then);
        command.env("OUTLIVE_LOCK_ORDER", "1");
        let running = Running::new(command);
        (running.pid(), running.end().expect(0))
    };
    let finding = || {
        let report = stage.run(&["doctor", "--json"]).json();
        report["findings"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["name"] == "lock order").cloned())
    };
    let (first, ended) = watches("a", "b");
    assert!(!ended.err.contains("deadlock"), "{}", ended.err);
    assert_eq!(finding().expect("told")["state"], "good");
    let (second, ended) = watches("b", "a");
    let words = [
        format!("'b' while holding 'a' (process {first}, "),
        format!("'a' while holding 'b' (process {second}, "),
    ];
    for word in &words {
        assert!(ended.err.contains(word), "{word} is not in: {}", ended.err);
        assert!(
            finding().expect("told")["found"].as_str().is_some_and(|told| told.contains(word)),
            "{:?}",
            finding()
        );
    }
    assert_eq!(finding().expect("told")["state"], "fault");
    let info = stage.run(&["info", "a"]).expect(0).text();
    assert!(
        info.lines().any(|line| line.starts_with("ORDER") && line.contains(&words[0])),
        "{info}"
    );
    let json = stage.run(&["info", "b", "--json"]).expect(0).json();
    assert_eq!(json["lock_orders"].as_array().map(Vec::len), Some(1), "{json}");
    stage.run(&["lock", "c", "--", "true"]).expect(0);
    assert!(!stage.run(&["info", "c"]).expect(0).text().contains("ORDER"));
    assert!(stage.run(&["doctor", "--repair"]).expect(0).text().contains("1 conflict forgotten"));
    assert_eq!(finding().expect("told")["state"], "good");
}

/// What is no text names no domain, and the default one is not meant.
#[test]
fn an_environment_that_is_no_text_is_refused() {
    let stage = Stage::new();
    for name in ["OUTLIVE_DOMAIN", "OUTLIVE_GROUP"] {
        let mut command = stage.command(["ls"]);
        command.env(name, OsStr::from_bytes(b"\xff"));
        Running::new(command).end().expect(2).says(name);
    }
    // An option says it first.
    let mut command = stage.command(["ls", "--domain", "/dev/shm/no/such"]);
    command.env("OUTLIVE_DOMAIN", OsStr::from_bytes(b"\xff"));
    Running::new(command).end().expect(6);
}
