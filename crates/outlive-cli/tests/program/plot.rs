//! `plot`: numbers as curves, on a terminal and in files.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlive::Domain;
use outlive::describe::{Description, Field, Item, Number, Struct};
use outlive::topic::{Durability, Header, Outgoing, Topic};

use crate::stage::{Stage, until};
use crate::terminal::Terminal;

/// Makes a topic whose messages have a number `x` and a list of three `ranges`.
fn pose(stage: &Stage) -> Topic<[u8]> {
    let number = |name: &str, offset, extents: &[u32], number| Field {
        name: name.into(),
        offset,
        extents: extents.to_vec(),
        item: Item::Number(number),
    };
    let fields = vec![number("x", 0, &[], Number::F64), number("ranges", 8, &[3], Number::F32)];
    let shape = Struct { size: 24, align: 8, fields };
    let description = Description::raw("Pose", shape).expect("possible");
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let topic = Topic::<[u8]>::options().durability(Durability::Persistent);
    topic.description(description).create_new(&domain, "pose").expect("made")
}

fn message(x: f64, last: f32) -> Vec<u8> {
    [&x.to_ne_bytes()[..], &[0; 8], &last.to_ne_bytes(), &[0; 4]].concat()
}

#[test]
fn a_terminal_shows_values_deaths_and_what_is_not_there() {
    let stage = Stage::new();
    pose(&stage);
    let mut terminal = Terminal::start(&stage, &["plot", "pose.x", "pose.ranges[2]", "later.v"]);
    terminal.shows("later.v");
    terminal.shows("waiting");
    // A process of its own, that can die.
    let mut publisher = stage.start(&["topic", "pub", "pose"]);
    publisher.write(b"{\"x\": 1234.5, \"ranges\": [0, 0, -7.25]}\n");
    terminal.shows("1234.5");
    terminal.shows("-7.25");
    publisher.kill();
    terminal.shows("died");
    publisher.end().expect(-9);
    stage.feed(&["topic", "pub", "later"], b"{\"v\": 8765}\n{\"v\": 8765}\n").expect(0);
    terminal.press(" ");
    terminal.shows("paused");
    // With the letter z and Ctrl, the terminal is given back until the process is continued.
    terminal.press("\x1a");
    terminal.is_given_back();
    has_stopped(&terminal);
    terminal.press("");
    terminal.running.signal(libc::SIGCONT);
    terminal.shows("\x1b[?1049h");
    terminal.shows("paused");
    terminal.press("q");
    terminal.ends();
}

fn has_stopped(terminal: &Terminal) {
    let status = format!("/proc/{}/status", terminal.running.pid());
    until("it has stopped", || {
        fs::read_to_string(&status).is_ok_and(|text| text.contains("State:\tT"))
    });
}

#[test]
fn signals_and_the_end_of_its_time_end_it() {
    let stage = Stage::new();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let mut terminal = Terminal::start(&stage, &["plot", "pose.x"]);
        terminal.shows("waiting");
        terminal.running.signal(signal);
        terminal.ends();
    }
    Terminal::start(&stage, &["plot", "pose.x", "--for", "300ms"]).ends();
    let mut terminal = Terminal::start(&stage, &["plot", "pose.x"]);
    terminal.shows("waiting");
    terminal.press("");
    terminal.running.signal(libc::SIGTSTP);
    terminal.is_given_back();
    has_stopped(&terminal);
    terminal.running.signal(libc::SIGCONT);
    terminal.shows("\x1b[?1049h");
    terminal.press("\x03");
    terminal.ends();
}

#[test]
fn a_file_has_the_curves_of_a_time() {
    // How soon it sees the state and the rate cannot be asked: on a busy machine it gets longer.
    let mut lacks = None;
    let is_whole = [2, 10, 40].into_iter().any(|seconds| {
        lacks = curves_lack(std::time::Duration::from_secs(seconds));
        lacks.is_none()
    });
    assert!(is_whole, "{lacks:?}");
}

/// Draws for so long behind the last message; returns what the file lacks.
fn curves_lack(pause: std::time::Duration) -> Option<String> {
    let stage = Stage::new();
    let topic = pose(&stage);
    let plot = stage.start(&[
        "plot",
        "pose.x",
        "pose.ranges[2]",
        "pose@rate",
        "pose@bytes",
        "mode",
        "--for",
        "100s",
        "--svg",
        "a.svg",
        "--png",
        "a.png",
    ]);
    until("it subscribes", || {
        stage.run(&["topic", "info", "pose", "--json"]).json()["subscribers"][0]["alive"] == true
    });
    let publisher = topic.publisher().expect("made");
    for step in 0..5 {
        publisher.publish(&message(f64::from(step), 40.0)[..]).expect("published");
    }
    publisher.publish(&message(f64::NAN, 41.5)[..]).expect("published");
    stage.run(&["state", "set", "mode", "17.5"]).expect(0);
    until("it has seen the state", || {
        stage
            .entry("mode")
            .is_some_and(|mode| mode["users"].as_array().is_some_and(|all| !all.is_empty()))
    });
    // No publisher waits for it.
    let info = stage.run(&["topic", "info", "pose", "--json"]).expect(0).json();
    assert_eq!(info["subscribers"][0]["reliable"], false);
    // It sees what has come within a tenth of a second or so, and a rate in half a second.
    until("it has taken all", || {
        let info = stage.run(&["topic", "info", "pose", "--json"]).expect(0).json();
        info["subscribers"][0]["lag"] == 0
    });
    std::thread::sleep(pause);
    plot.signal(libc::SIGTERM);
    plot.end().expect(0);
    let svg = fs::read_to_string(stage.path("a.svg")).expect("written");
    for told in [
        "pose.x  last 4, min 0, max 4, 1 without a number",
        "pose.ranges[2]  last 41.5, min 40, max 41.5",
        "pose@rate  last ",
        "pose@bytes  last 24, min 24, max 24",
        "mode  last 17.5, min 17.5, max 17.5",
    ] {
        if !svg.contains(told) {
            return Some(format!("'{told}' is not in {svg}"));
        }
    }
    let png = fs::read(stage.path("a.png")).expect("written");
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 1_000);
    None
}

#[test]
fn what_cannot_be_drawn_is_told_at_once() {
    let stage = Stage::new();
    stage.run(&["plot", "pose.x"]).expect(2).says("--svg");
    stage.run(&["plot", "pose.x", "--json"]).expect(2).says("topic echo --json");
    pose(&stage);
    let svg = ["--svg", "a.svg", "--for", "50ms"];
    let plot = |source: &str| stage.run(&[&["plot", source][..], &svg].concat());
    plot("pose.y").expect(7).says("has no field 'y': it has x, ranges");
    plot("pose.ranges").expect(7).says("an array of 3");
    plot("pose.ranges[3]").expect(7).says("3 items");
    plot("pose@hz").expect(2).says("rate, age or bytes");
    plot("pose.x").expect(5).says("no number has come");
    plot("later.x").expect(6).says("there is no topic or state 'later'");
    plot("posse.x").expect(6).says("there is no topic or state 'posse' (is 'pose' meant?)");
    assert!(!stage.path("a.svg").exists(), "nothing was drawn");
    stage.run(&["lock", "door", "true"]).expect(0);
    plot("door").expect(7).says("'door' is a rwlock: plot draws topics and states");
    stage.feed(&["send", "steps"], b"1\n").expect(0);
    for source in ["steps", "steps.x", "steps@rate"] {
        plot(source).expect(7).says("'steps' is a queue: plot draws topics and states");
    }
    // What a message has instead of a field is known when one has come.
    stage.run(&["state", "set", "battery", "{\"voltage\": 24, \"cells\": [1]}"]).expect(0);
    // How soon that is cannot be asked: on a busy machine it gets longer.
    let told = [1, 10, 60].map(|seconds| format!("{seconds}s")).into_iter().find_map(|time| {
        let wrong = ["plot", "battery.volts", "--svg", "a.svg", "--for", &time];
        let ended = stage.run(&wrong).expect(5);
        ended.err.contains("1 message without one").then_some(ended)
    });
    told.expect("it has seen the state").says("it has the fields cells, voltage");
    // So is that it is an array, as Python publishes it.
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let kept = Topic::<[u8]>::options().durability(Durability::Persistent);
    let lidar = kept.create_new(&domain, "lidar").expect("made");
    let mut own = [0; 32];
    own[..4].copy_from_slice(&[0xa5, 2, b'f', 4]);
    own[4..12].copy_from_slice(&[2, 0, 0, 0, 1, 0, 0, 0]);
    let (mut publisher, is_over) = (lidar.publisher().expect("made"), AtomicBool::new(false));
    let told = std::thread::scope(|scope| {
        let (publisher, is_over) = (&mut publisher, &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let message =
                    Outgoing::new(&[0; 8][..]).header(Header { own, ..Header::default() });
                publisher.publish(message).map(drop).expect("published");
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let told = [1, 10, 60].map(|seconds| format!("{seconds}s")).into_iter().find_map(|time| {
            let ended = stage.run(&["plot", "lidar", "--svg", "a.svg", "--for", &time]);
            ended.err.contains("without one").then_some(ended)
        });
        is_over.store(true, Ordering::Relaxed);
        told
    });
    let told = told.expect("it has seen an array").expect(5);
    told.says("float32 (2, 1): name one, as in [0][0]");
    stage
        .run(&["plot", "pose.x", "--svg", "a.svg", "--duration", "0"])
        .expect(2)
        .says("more than 0");
    stage.run(&["plot", "pose.x", "--window", "1ns", "--svg", "a.svg"]).expect(2).says("100ms");
    let missing = ["plot", "pose.x", "--for", "50ms", "--png", "no/such/folder.png"];
    stage.run(&missing).expect(6).says("no/such/folder.png");
}

/// A topic of another type takes the name of one that is drawn.
#[test]
fn another_type_is_told_and_the_next_one_drawn() {
    let stage = Stage::new();
    pose(&stage);
    let mut terminal = Terminal::start(&stage, &["plot", "pose.x"]);
    terminal.shows("nothing");
    stage.run(&["rm", "--force", "pose"]).expect(0);
    terminal.shows("waiting");
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    drop(Topic::<u64>::options().described().create_new(&domain, "pose").expect("made"));
    terminal.shows("has");
    terminal.shows("parts");
    stage.run(&["rm", "--force", "pose"]).expect(0);
    terminal.press("");
    let kept = Topic::<[u8]>::options().durability(Durability::Persistent);
    let topic = kept.create_new(&domain, "pose").expect("made");
    let publisher = topic.publisher().expect("made");
    until("it is drawn", || {
        publisher.publish(&b"{\"x\": 5432.5}"[..]).expect("published");
        std::thread::sleep(std::time::Duration::from_millis(20));
        terminal.has("5432.5")
    });
    terminal.press("q");
    terminal.ends();
}
