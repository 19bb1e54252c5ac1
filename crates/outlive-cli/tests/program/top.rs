//! `top`: what there is stands on the screen, and the terminal is given back however it ends.

use crate::stage::{Running, Stage, until};
use crate::terminal::Terminal;

/// Returns a domain with a topic, a queue of two messages, and a lock, with the process that holds it.
fn with_a_holder() -> (Stage, Running) {
    let stage = Stage::new();
    stage.feed(&["pub", "camera"], b"a frame\n").expect(0);
    stage.feed(&["send", "jobs"], b"one\ntwo\n").expect(0);
    let holder = stage.start(&["lock", "door", "--", "sleep", "1000"]);
    until("it is held", || {
        stage.entry("door").is_some_and(|door| door["holders"][0]["alive"] == true)
    });
    (stage, holder)
}

#[test]
fn it_shows_what_there_is_and_ends_by_key_and_by_signal() {
    let (stage, holder) = with_a_holder();
    for end in ["q", "\x03", "SIGTERM", "SIGINT"] {
        let mut terminal = Terminal::start(&stage, &["top", "--interval", "0.2"]);
        terminal.shows("camera");
        terminal.shows("jobs");
        terminal.shows(&holder.pid().to_string());
        // Blanks are not written: a word at a time.
        terminal.shows("quit");
        match end {
            "SIGTERM" => terminal.running.signal(15),
            "SIGINT" => terminal.running.signal(2),
            key => {
                terminal.press("\r");
                terminal.shows("domain/camera");
                terminal.press(key);
            }
        }
        terminal.ends();
    }
}

#[test]
fn it_filters_opens_pages_and_heeds_the_mouse() {
    let stage = Stage::new();
    for topic in ["camera", "lidar"] {
        stage.feed(&["pub", topic], b"a frame\n").expect(0);
    }
    let mut terminal = Terminal::start(&stage, &["top", "--interval", "0.2"]);
    terminal.shows("lidar");
    // The second row below the headings, twice: its page is there.
    terminal.press("\x1b[<0;3;5M\x1b[<0;3;5m");
    terminal.press("\x1b[<0;3;5M\x1b[<0;3;5m");
    terminal.shows("domain/lidar");
    terminal.shows("back");
    terminal.press("\x1b");
    terminal.shows("TOPIC");
    terminal.press("/camX");
    terminal.shows("nothing");
    terminal.press("\x7f\r\r");
    terminal.shows("domain/camera");
    terminal.press("q");
    terminal.ends();
}

#[test]
fn one_look_is_text_and_names_the_dead() {
    let stage = Stage::new();
    let killed = stage.start(&["lock", "door", "--", "sleep", "1000"]);
    until("it is held", || {
        stage.entry("door").is_some_and(|door| door["holders"][0]["alive"] == true)
    });
    let pid = killed.pid().to_string();
    killed.kill();
    killed.end().expect(-9);
    let text = stage.run(&["top", "--once", "--interval", "0.1"]).expect(0).text();
    let dead =
        text.lines().skip_while(|line| !line.starts_with("DEAD")).find(|line| line.contains(&pid));
    assert!(dead.is_some_and(|line| line.contains("rwlock door")), "{text}");
    assert!(text.contains("'outlive gc' would sweep"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let stage = Stage::new();
    stage.run(&["top"]).expect(2).says("--once");
    stage.run(&["top", "--json"]).expect(2).says("--once");
    stage.run(&["top", "--once"]).expect(6);
}

#[test]
fn one_look_is_json_for_programs() {
    let (stage, killed) = with_a_holder();
    let pid = killed.pid().to_string();
    killed.kill();
    killed.end().expect(-9);
    let look = stage.run(&["top", "--once", "--json", "--interval", "0.1"]).expect(0).json();
    assert!(look["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.1), "{look}");
    assert_eq!(look["things"], 3, "{look}");
    assert_eq!(look["topics"][0]["name"], "camera", "{look}");
    assert_eq!(look["topics"][0]["messages_per_second"], 0, "{look}");
    assert_eq!(
        (&look["queues"][0]["name"], &look["queues"][0]["waiting"]),
        (&"jobs".into(), &2.into())
    );
    // Two messages, and no process that would take them.
    assert_eq!(look["queues"][0]["alarm"], "note", "{look}");
    assert_eq!(
        (&look["locks"][0]["name"], &look["locks"][0]["alarm"]),
        (&"door".into(), &"bad".into())
    );
    assert!(look["sweep"]["claims"].as_u64().is_some_and(|claims| claims > 0), "{look}");
    let dead = look["dead"].as_array().expect("a list");
    assert!(dead.iter().any(|one| one["pid"] == *pid && one["left"] == "rwlock door"), "{look}");
}
