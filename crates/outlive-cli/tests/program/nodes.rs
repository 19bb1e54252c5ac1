//! Processes that have a name, and attributes of things, as the program shows them.

use outlive::sync::Semaphore;

use crate::stage::Stage;

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
