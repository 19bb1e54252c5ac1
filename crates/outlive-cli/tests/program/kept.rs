//! A subscriber with a name, whose place its topic keeps when it dies: why publishers wait, and how they
//! go on.

use std::time::Duration;

use outlive::Domain;
use outlive::topic::{Subscriber, Topic};

use crate::stage::{Stage, until};

/// A topic of two messages with a place for such a name that no process has, as if a recorder had been
/// killed and swept.
fn left_by(stage: &Stage, name: &str) -> Topic<[u8]> {
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let topic = Topic::<[u8]>::options().depth(2).reliable(true);
    let topic = topic.open_or_create(&domain, "scan").expect("made");
    let options = Subscriber::options().reliable(true).kept(name, Duration::from_secs(3600));
    topic.subscriber_with(options).expect("a place").abandon();
    topic
}

#[test]
fn a_publisher_waits_for_a_dead_recorder_until_its_place_is_forgotten() {
    let stage = Stage::new();
    let topic = left_by(&stage, "record:night");
    let mut publisher = stage.start(&["pub", "scan"]);
    publisher.write(b"1\n2\n3\n4\n");
    let info = || stage.run(&["topic", "info", "scan", "--json", "--look", "0"]).expect(0).json();
    until("the patience runs", || info()["kept"][0]["patience_left_seconds"].is_number());
    assert!(publisher.is_running());
    let place = info()["kept"][0].clone();
    assert_eq!((&place["name"], &place["pid"]), (&"record:night".into(), &().into()));
    assert_eq!((&place["alive"], &place["in_the_way"]), (&false.into(), &1.into()));
    assert_eq!((&place["lag"], &place["patience_seconds"]), (&2.into(), &3600.0.into()));
    assert!(place["ownerless_seconds"].as_f64().expect("seen") >= 0.0);
    let told = stage.run(&["topic", "info", "scan", "--look", "0"]).expect(0).text();
    for said in ["KEPT FOR", "record:night", "no process has it, 1 publisher waits for it, since "]
    {
        assert!(told.contains(said), "{told}");
    }
    let told = stage.run(&["info", "scan"]).expect(0).text();
    assert!(told.contains("'record:night', 2 to take; no process has it"), "{told}");
    let doctor = stage.run(&["doctor", "--json"]).json();
    let findings = doctor["findings"].as_array().expect("a list");
    let finding = findings.iter().find(|one| one["name"] == "publishers").expect("told");
    assert!(finding["found"].to_string().contains("'scan' waits for 'record:night'"), "{finding}");
    let metrics = stage.run(&["metrics", "--once"]).expect(0).text();
    let labels = r#"kind="topic",name="scan",subscriber="record:night"} 1"#;
    let line = metrics.lines().find(|line| line.contains("kept_waiting_publishers{"));
    assert!(line.is_some_and(|line| line.ends_with(labels)), "{metrics}");
    assert!(metrics.contains("kept_patience_left_seconds{"), "{metrics}");

    stage.run(&["topic", "forget", "scan", "another"]).expect(6).says("no place");
    stage.run(&["topic", "forget", "nothing", "another"]).expect(6);
    stage.run(&["topic", "forget", "scan", "record:night"]).expect(0);
    publisher.end().expect(0);
    assert_eq!(info()["kept"].as_array().map(Vec::len), Some(0));
    assert!(topic.kept().is_empty());
    stage.run(&["topic", "forget", "scan", "record:night"]).expect(6);
}

#[test]
fn the_place_of_a_living_subscriber_is_not_forgotten() {
    let stage = Stage::new();
    let topic = left_by(&stage, "record:night");
    let options = Subscriber::options().kept("record:night", Duration::ZERO);
    let owner = topic.subscriber_with(options).expect("the place");
    let forget = ["topic", "forget", "scan", "record:night", "--json"];
    stage.run(&forget).expect(12).says(&std::process::id().to_string());
    assert!(
        stage.run(&["topic", "info", "scan", "--look", "0"]).expect(0).text().contains("KEPT FOR")
    );
    drop(owner);
    stage.run(&forget).expect(6);
    left_by(&stage, "record:night");
    let told = stage.run(&forget).expect(0).json();
    assert_eq!(told, serde_json::json!({"name": "scan", "forgotten": "record:night"}));
}

#[test]
fn a_name_of_any_characters_harms_no_terminal() {
    let stage = Stage::new();
    let name = "\u{1b}[31m\"\n\\{a=\"b\"}";
    left_by(&stage, name);
    for verb in [&["topic", "info", "scan", "--look", "0"][..], &["info", "scan"], &["doctor"]] {
        let told = stage.run(verb).text();
        assert!(!told.contains('\u{1b}'), "{told}");
    }
    let told = stage.run(&["topic", "info", "scan", "--look", "0", "--json"]).expect(0).json();
    assert_eq!(told["kept"][0]["name"], name);
    let metrics = stage.run(&["metrics", "--once"]).expect(0).text();
    let escaped = r#"subscriber="\u{1b}[31m\"\n\\{a=\"b\"}""#.replace("\\u{1b}", "\u{1b}");
    assert!(metrics.contains(&escaped), "{metrics}");
    let refused = stage.run(&["topic", "forget", "scan", "\u{1b}[31m"]).expect(6);
    assert!(!refused.err.contains('\u{1b}'), "{}", refused.err);
    stage.run(&["topic", "forget", "scan", name]).expect(0);
}
