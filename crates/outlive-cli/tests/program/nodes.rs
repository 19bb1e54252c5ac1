//! Processes that have a name, attributes of things, and what comes and goes, as the program shows
//! them.

use outlive::sync::Semaphore;

use std::io::BufReader;
use std::process::{ChildStdout, Stdio};

use crate::stage::{Running, Stage, line, until};

#[test]
fn nodes_are_listed_and_named_where_they_are_in_the_way() {
    let stage = Stage::new();
    stage.run(&["sem", "-p", "1", "permits", "true"]).expect(0);
    assert!(stage.run(&["node", "list"]).expect(0).out.is_empty());
    let domain = outlive::Domain::open_at(stage.domain()).expect("opens");
    let node = domain.node("pl\x1banner").version("1.4").attribute("host", "arm").register();
    let node = node.expect("registered");
    let listed = stage.run(&["node", "list", "--json"]).expect(0).json();
    let (one, pid) = (&listed["nodes"][0], std::process::id());
    assert_eq!((one["name"].as_str(), one["version"].as_str()), (Some("pl\x1banner"), Some("1.4")));
    assert_eq!(
        (one["pid"].as_u64(), one["attributes"]["host"].as_str()),
        (Some(pid.into()), Some("arm"))
    );
    // A terminal is not made to obey it.
    let table = stage.run(&["node", "list"]).expect(0).text();
    assert!(table.contains("pl\\u{1b}anner") && table.contains("1.4"), "{table}");
    let told = stage.run(&["node", "info", "pl\x1banner"]).expect(0).text();
    assert!(told.contains("host = arm") && told.contains(&pid.to_string()), "{told}");
    stage.run(&["node", "info", "none"]).expect(6).says("no living process has the name 'none'");
    // Where it is in the way.
    let permits = Semaphore::open(&domain, "permits").expect("opens");
    let permit = permits.try_acquire().expect("well").expect("free");
    stage
        .run(&["sem", "-p", "1", "--nonblock", "permits", "true"])
        .expect(124)
        .says("node 'pl\\u{1b}anner', process");
    let told = stage.run(&["info", "permits"]).expect(0).text();
    assert!(told.contains(&format!("pl\\u{{1b}}anner 1.4: process {pid}")), "{told}");
    let told = stage.run(&["info", "permits", "--json"]).expect(0).json();
    assert_eq!(told["nodes"][0]["version"], "1.4");
    drop((permit, node));
    assert!(stage.run(&["node", "list"]).expect(0).out.is_empty());
}

#[test]
fn attributes_are_shown() {
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let speed = outlive::state::State::<u64>::options().attribute("unit", "m/s");
    drop(speed.create_new(&domain, "speed").expect("made"));
    let told = stage.run(&["info", "speed"]).expect(0).text();
    assert!(told.contains("unit = m/s"), "{told}");
    assert_eq!(stage.entry("speed").expect("there")["attributes"]["unit"], "m/s");
}

#[test]
fn what_a_verb_makes_carries_attributes() {
    let stage = Stage::new();
    let mark = ["--attribute", "part=arm", "--attribute", "note=a=b"];
    let makes: [(&str, &[&str]); 7] = [
        ("t", &["topic", "pub", "t"]),
        ("q", &["queue", "send", "q"]),
        ("j", &["job", "put", "j", "x"]),
        ("s", &["state", "set", "s", "x"]),
        ("n", &["notifier", "notify", "n", "1"]),
        ("L", &["lock", "run", "L", "true"]),
        ("S", &["semaphore", "run", "--permits", "1", "S", "true"]),
    ];
    for (name, make) in makes {
        // Behind a command, options would be the command's.
        let call = [&make[..2], &mark[..], &make[2..]].concat();
        stage.run(&call).expect(0);
        let entry = stage.entry(name).expect("made");
        assert_eq!(
            (&entry["attributes"]["part"], &entry["attributes"]["note"]),
            (&"arm".into(), &"a=b".into()),
            "{name}"
        );
        // It is there, and is what was asked for; another is not.
        stage.run(&call).expect(0);
        let other = [&make[..2], &["--attribute", "part=leg"][..], &make[2..]].concat();
        let refused = stage.run(&other);
        assert!(
            [7, 125].contains(&refused.code()) && refused.err.contains("attribute"),
            "{name}: {}",
            refused.err
        );
    }
    stage.run(&["topic", "pub", "t", "--attribute", "part=leg", "--as-is"]).expect(0);
    stage.run(&["topic", "pub", "t", "--attribute", "part"]).expect(2);
    let mut server = stage.start(&["service", "serve", "--attribute", "part=arm", "v", "cat"]);
    until("it serves", || {
        stage.entry("v").is_some_and(|entry| entry["attributes"]["part"] == "arm")
    });
    assert!(server.is_running());
}

/// Starts a verb whose lines of JSON the test reads.
fn follow(stage: &Stage, args: &[&str]) -> (Running, BufReader<ChildStdout>) {
    let mut command = stage.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::with_own_streams(command);
    let out = BufReader::new(running.child.stdout.take().expect("piped"));
    (running, out)
}

fn told(out: &mut BufReader<ChildStdout>) -> serde_json::Value {
    serde_json::from_str(&line(out)).expect("JSON")
}

#[test]
fn what_appears_in_a_domain_and_vanishes_is_told() {
    let stage = Stage::new();
    // It waits for the domain, too.
    let (mut early, mut out) = follow(&stage, &["domain", "watch", "--json", "--count", "1"]);
    until("it waits", || early.is_waiting());
    stage.run(&["state", "set", "s", "x"]).expect(0);
    assert_eq!(told(&mut out)["name"], "s");
    until("it has ended", || !early.is_running());
    early.end().expect(0).says("to make the domain");

    let (watch, mut out) = follow(&stage, &["domain", "watch", "--json"]);
    let mut next = || {
        let told = told(&mut out);
        let text = |member: &str| told[member].as_str().expect("text").to_owned();
        ([text("event"), text("name"), text("kind")], told["pid"].as_u64())
    };
    let of = |event: &str, name: &str, kind: &str| [event, name, kind].map(str::to_owned);
    assert_eq!(next(), (of("there", "s", "state"), None));
    stage.run(&["notifier", "notify", "doors", "1"]).expect(0);
    assert_eq!(next(), (of("appeared", "doors", "notifier"), None));
    stage.run(&["rm", "doors"]).expect(0);
    assert_eq!(next(), (of("vanished", "doors", "notifier"), None));
    let domain = outlive::Domain::open_at(stage.domain()).expect("opens");
    let node = domain.node("planner").register().expect("registered");
    let pid = Some(u64::from(std::process::id()));
    assert_eq!(next(), (of("appeared", "planner", "node"), pid));
    drop(node);
    assert_eq!(next(), (of("vanished", "planner", "node"), pid));
    watch.signal(2);
    watch.end().expect(0);

    let there = stage.run(&["domain", "watch", "--until-idle", "0"]).expect(0).text();
    assert_eq!(there, "there  s  state\n");
    stage.run(&["domain", "watch", "--no-create", "-d", "/nowhere/x"]).expect(6);
}
