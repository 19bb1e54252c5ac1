//! Help, completions, man pages: from one definition.

use std::fs;

use crate::stage::Stage;

/// What the help of the program lists, in its order.
const LISTED: [&str; 17] = [
    "topic",
    "queue",
    "job",
    "state",
    "service",
    "lock",
    "semaphore",
    "pool",
    "domain",
    "top",
    "doctor",
    "bench",
    "demo",
    "completions",
    "man",
    "exit-codes",
    "help",
];

const SHORT_FORMS: [&str; 17] = [
    "send", "recv", "work", "call", "serve", "pub", "echo", "hz", "bw", "delay", "sem", "wait",
    "ls", "info", "pools", "rm", "gc",
];

/// Verbs of nouns, one of each noun at least.
const NESTED: [&str; 20] = [
    "topic-pub",
    "topic-echo",
    "topic-hz",
    "topic-bw",
    "topic-delay",
    "topic-info",
    "topic-list",
    "queue-send",
    "queue-recv",
    "state-get",
    "state-watch",
    "service-call",
    "service-serve",
    "lock-run",
    "lock-list",
    "semaphore-run",
    "pool-list",
    "domain-waiters",
    "domain-gc",
    "bench-locks",
];

#[test]
fn help_names_each_verb_and_hides_the_hidden() {
    let stage = Stage::new();
    let help = stage.run(&["--help"]).expect(0).text();
    let listed: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_ascii_whitespace().next())
        .collect();
    assert_eq!(listed, LISTED);
    for verb in SHORT_FORMS {
        assert!(
            help.lines().any(|line| line.split_ascii_whitespace().next() == Some(verb)),
            "{verb}: {help}"
        );
        stage.run(&["help", verb]).expect(0);
    }
    assert!(help.contains("Exit codes:"));
    assert!(
        stage
            .run(&["help", "exit-codes"])
            .expect(0)
            .text()
            .contains("died and none has taken over")
    );
    let life = stage.run(&["help", "rm"]).expect(0).text();
    assert!(life.contains("The life of a name"), "{life}");
}

#[test]
fn exit_codes_are_listed_for_people_and_programs() {
    let stage = Stage::new();
    let text = stage.run(&["exit-codes"]).expect(0).text();
    let json = stage.run(&["exit-codes", "--json"]).expect(0).json();
    let rows = json.as_array().expect("a list");
    assert!(rows.len() > 15);
    for row in rows {
        let meaning = row["meaning"].as_str().expect("text");
        assert!(
            text.contains(&format!("{:>3}  {meaning}", row["code"].as_u64().expect("a number")))
        );
    }
}

#[test]
fn completions_are_made_for_each_shell() {
    let stage = Stage::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stage.run(&["completions", shell]).expect(0).text();
        for word in ["until-senders-gone", "doctor", "nonblock", "permits"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
}

#[test]
fn man_pages_are_made_for_each_verb() {
    let stage = Stage::new();
    let listed = stage.run(&["man", "pages/man1"]).expect(0).text();
    let all = LISTED.iter().chain(&SHORT_FORMS).chain(&NESTED);
    for verb in all.filter(|verb| **verb != "help") {
        let name = format!("pages/man1/outlive-{verb}.1");
        assert!(listed.lines().any(|line| line == name), "{name} is not in {listed}");
        let page = fs::read_to_string(stage.path(&name)).expect("written");
        assert!(
            page.contains(&format!(".TH outlive-{verb} ")) && page.contains(".SH SYNOPSIS"),
            "{page}"
        );
    }
    let main = fs::read_to_string(stage.path("pages/man1/outlive.1")).expect("written");
    assert!(main.contains("Exit codes:"), "{main}");
    assert!(!listed.contains("member") && !listed.contains("become"));
    fs::write(stage.path("file"), "").expect("written");
    stage.run(&["man", "file"]).expect(15).says("file");
}
