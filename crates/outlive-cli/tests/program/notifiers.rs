//! Notifiers and listeners, as the program uses and shows them.

use outlive::notify::{Listener, Notifier};

use crate::stage::{Stage, until};

#[test]
fn what_is_notified_is_told_and_shown() {
    let stage = Stage::new();
    let json = stage.run(&["notifier", "notify", "doors", "3", "--json"]).expect(0).json();
    assert_eq!((json["notices"].as_u64(), json["listeners"].as_u64()), (Some(1), Some(0)));
    let domain = outlive::Domain::open_at(stage.domain()).expect("opens");
    let mut mine = Listener::open(&domain, "doors").expect("a slot");
    let told = stage.start(&["notifier", "listen", "doors", "--count", "4"]);
    let notifier = Notifier::open(&domain, "doors").expect("a slot");
    until("it listens", || told.is_waiting() && notifier.notify(0).expect("ours") == 2);
    let json =
        stage.run(&["notifier", "notify", "doors", "3", "3", "7", "--json"]).expect(0).json();
    assert_eq!((json["notices"].as_u64(), json["listeners"].as_u64()), (Some(3), Some(2)));
    let told = told.end().expect(0).text();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines.contains(&"0 1") && lines.contains(&"7 1"), "{told}");
    let shown = stage.run(&["notifier", "info", "doors"]).expect(0).text();
    assert!(shown.contains("3: 2") && shown.contains("7: 1"), "{shown}");
    let shown = stage.run(&["info", "doors", "--json"]).expect(0).json();
    assert_eq!(shown["kind"], "notifier");
    assert_eq!(shown["listeners"][0]["pid"].as_u64(), Some(std::process::id().into()));
    assert!(shown["figures"]["pending"].as_u64().is_some_and(|pending| pending >= 4));
    assert!(mine.try_wait().expect("ours").is_some_and(|notices| notices.count(3) == 2));
    let listed = stage.run(&["notifier", "list"]).expect(0).text();
    assert!(listed.contains("1 notifier, 1 listener"), "{listed}");
    stage.run(&["notifier", "notify", "doors", "64"]).expect(2).says("is one from 0 to 63");
    stage.run(&["notifier", "info", "none"]).expect(6);
}

/// By --create the first notice is counted, too.
#[test]
fn a_listener_makes_its_notifier() {
    let stage = Stage::new();
    let told = stage.start(&["notifier", "listen", "bell", "--create", "--count", "1"]);
    until("it has made it", || stage.entry("bell").is_some() && told.is_waiting());
    stage.run(&["notifier", "notify", "bell", "9"]).expect(0);
    assert_eq!(told.end().expect(0).text(), "9 1\n");
    stage.run(&["notifier", "listen", "bell", "--create", "--no-create"]).expect(2);
}
