//! Verbs that go on until they are told to end: told by a signal, they end with exit code 0,
//! whatever they wait for just then.

use crate::stage::{Running, Stage, until};

const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The verbs that doc/program.md says this of.
fn verbs() -> Vec<Vec<&'static str>> {
    let page = include_str!("../../../../doc/program.md");
    let section = page.split("## Signals").nth(1).expect("the section about signals");
    let table = section.split("| verb | waits for |").nth(1).expect("its table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).expect("a verb").split(' ').collect()).collect()
}

/// How a verb is called so that it goes on.
fn call(verb: &[&'static str]) -> Vec<&'static str> {
    let more: &[&str] = match *verb {
        ["top"] => &["--once"],
        ["metrics"] => &["--listen", "127.0.0.1:0"],
        ["service", "serve"] => &["svc", "cat"],
        ["service", "clients", _] => &["svc"],
        ["domain", "watch"] => &[],
        [noun, _] => match noun {
            "topic" => &["t"],
            "queue" => &["q"],
            "notifier" => &["n"],
            _ => &["s"],
        },
        _ => panic!("{verb:?}"),
    };
    [verb, more].concat()
}

fn told_to_end(running: Running, signal: i32, what: &str) {
    until(what, || running.is_waiting());
    running.signal(signal);
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{what}, signal {signal}: {}", ended.err);
}

#[test]
fn a_signal_ends_each_verb_that_goes_on_with_exit_code_0() {
    let verbs = verbs();
    assert!(verbs.len() >= 8, "{verbs:?}");
    for verb in verbs.iter().filter(|verb| verb[0] != "top") {
        let call = call(verb);
        for signal in SIGNALS {
            // Nothing is there yet, not even the domain.
            let stage = Stage::new();
            told_to_end(stage.start(&call), signal, &format!("{call:?}, nothing there"));
            // Everything is there, and nothing comes.
            stage.feed(&["topic", "pub", "t"], b"x\n").expect(0);
            stage.feed(&["queue", "send", "q"], b"").expect(0);
            stage.run(&["state", "set", "s", "x"]).expect(0);
            stage.run(&["notifier", "notify", "n", "1"]).expect(0);
            told_to_end(stage.start(&call), signal, &format!("{call:?}, all there"));
        }
    }
}

#[test]
fn a_second_signal_changes_nothing() {
    let stage = Stage::new();
    for call in [&["echo", "t"][..], &["recv", "q"], &["state", "watch", "s"]] {
        let running = stage.start(call);
        until("it waits", || running.is_waiting());
        // While it is stopped both come, in whatever order the kernel hands them on.
        running.signal(libc::SIGSTOP);
        running.signal(libc::SIGINT);
        running.signal(libc::SIGTERM);
        running.signal(libc::SIGCONT);
        running.end().expect(0);
    }
}
