//! A test of the lines that programs print: each event's word is on the program's page. So a changed word, on which
//! other programs may rely, fails the test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::paths::root;

/// Where a program's events are made, and its pages.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("crates/outlive-record/src", &["doc/how-to/record.md", "doc/how-to/replay.md"]),
    ("bridges/gateway/src", &["doc/how-to/gateway.md"]),
    ("bridges/view/src", &["doc/how-to/view.md"]),
    ("bridges/nats/src", &["doc/how-to/durable-queues.md"]),
];

/// What stands before the word of an event in these programs.
const BEFORE: [&str; 4] = ["\"event\": \"", "Event::of(\"", " event: \"", ".event(\""];

fn events_in(text: &str) -> impl Iterator<Item = &str> {
    let after = BEFORE.into_iter().flat_map(|before| text.split(before).skip(1));
    after.filter_map(|rest| rest.split_once('"')).map(|(word, _)| word)
}

fn add_events_of(folder: &Path, events: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            add_events_of(&path, events);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("it can be read");
            events.extend(events_in(&text).map(str::to_owned));
        }
    }
}

#[test]
fn each_event_s_word_is_on_its_program_s_page() {
    for (folder, pages) in PROGRAMS {
        let mut events = BTreeSet::new();
        add_events_of(&root().join(folder), &mut events);
        assert!(!events.is_empty(), "{folder}");
        let pages = pages.iter().map(|page| fs::read_to_string(root().join(page)).expect(page));
        let pages: String = pages.collect();
        for event in events {
            assert!(pages.contains(&format!("`{event}`")), "{folder}: {event}");
        }
    }
}

#[test]
fn words_of_events_are_found() {
    let text = r#"json!({"event": "lost", "topic": t}); Event::of("came", n); Event { event: "died" }; t.event("end", None)"#;
    assert_eq!(events_in(text).collect::<BTreeSet<_>>(), ["came", "died", "end", "lost"].into());
}
