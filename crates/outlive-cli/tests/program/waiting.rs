//! `wait`: by pid and by name.

use std::process::Command;

use crate::stage::{Running, Stage, is_alive, until};

#[test]
fn a_process_that_is_not_there_has_ended() {
    let stage = Stage::new();
    // Above the kernel's largest pid.
    stage.run(&["wait", "4194305"]).expect(0);
    let mut zombie = Command::new("true").spawn().expect("started");
    until("it has ended", || !is_alive(zombie.id()));
    stage.run(&["wait", &zombie.id().to_string()]).expect(0);
    zombie.wait().expect("reaped");
}

#[test]
fn a_process_is_waited_for_with_a_token_and_without() {
    let stage = Stage::new();
    let mut sleep = Command::new("sleep");
    sleep.arg("1000");
    let sleeper = Running::new(sleep);
    let receiver = stage.start(&["recv", "q", "--max-bytes", "1M"]);
    until("it receives", || {
        stage.entry("q").is_some_and(|queue| queue["receiver"]["alive"] == true)
    });
    for pid in [sleeper.pid(), receiver.pid()] {
        let pid = pid.to_string();
        stage.run(&["wait", &pid, "--timeout", "0.02"]).expect(5).says("has not ended");
        let told = stage.run(&["wait", &pid, "-w", "0", "--json"]).expect(5).json();
        assert_eq!(told["ended"], false);
    }
    let waiters: Vec<_> = [sleeper.pid(), receiver.pid()]
        .map(|pid| stage.start(&["wait", &pid.to_string(), "--json"]))
        .into_iter()
        .collect();
    sleeper.kill();
    receiver.kill();
    // Their parents have not waited for them yet: a zombie has ended.
    for waiter in waiters {
        assert_eq!(waiter.end().expect(0).json()["ended"], true);
    }
}

#[test]
fn a_name_means_its_holder() {
    let stage = Stage::new();
    stage.run(&["wait", "L"]).expect(6);
    stage.run(&["lock", "L", "--", "true"]).expect(0);
    stage.run(&["wait", "L"]).expect(0).says("no process holds 'L'");
    let holder = stage.start(&["lock", "L", "--", "sleep", "1000"]);
    until("it holds the lock", || stage.entry("L").expect("there")["holders"][0]["alive"] == true);
    stage.run(&["wait", "L", "--timeout", "0.02"]).expect(5);
    let waiter = stage.start(&["wait", "L", "--json"]);
    let pid = holder.pid();
    holder.kill();
    let told = waiter.end().expect(0).json();
    assert_eq!(told["processes"], serde_json::json!([pid]));

    let receiver = stage.start(&["recv", "7", "--max-bytes", "1M"]);
    until("it receives", || {
        stage.entry("7").is_some_and(|queue| queue["receiver"]["alive"] == true)
    });
    let waiter = stage.start(&["wait", "--name", "7"]);
    receiver.kill();
    waiter.end().expect(0);
}
