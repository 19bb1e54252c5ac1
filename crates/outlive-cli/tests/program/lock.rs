//! `lock`: one at a time, whichever process dies.

use std::fs;

use crate::held::{check, lacks_setpriv, see_waiting, survivor, written_pid};
use crate::stage::{Stage, is_alive, until};

#[test]
fn lock_exits_with_the_commands_code() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["lock", "L", "--", "echo", "in it"]).expect(0).text(), "in it\n");
    stage.run(&["lock", "L", "--", "sh", "-c", "exit 7"]).expect(7);
    stage.run(&["lock", "L", "--", "sh", "-c", "kill -TERM $$"]).expect(128 + 15);
    stage.run(&["lock", "L", "--", "sh", "-c", "kill -KILL $$"]).expect(128 + 9);
    stage.run(&["lock", "L", "--", "/no/such/program"]).expect(127).says("/no/such/program");
    fs::write(stage.path("text"), "no program").expect("written");
    stage.run(&["lock", "L", "--", "./text"]).expect(126);
    stage.run(&["lock", "a/b", "--", "true"]).expect(125).says("cannot be a name");
    stage.run(&["lock", "L"]).expect(2);
    stage.feed(&["send", "q"], b"x").expect(0);
    stage.run(&["lock", "q", "--", "true"]).expect(125).says("is a queue");
    assert_eq!(stage.feed(&["lock", "L", "--", "cat"], b"input").expect(0).out, b"input");
}

#[test]
fn one_at_a_time() {
    let stage = Stage::new();
    fs::write(stage.path("count"), "0").expect("written");
    let add = "for i in 1 2 3 4 5; do n=$(cat count); n=$((n + 1)); echo $n > count; done";
    let running: Vec<_> =
        (0..8).map(|_| stage.start(&["lock", "L", "--", "sh", "-c", add])).collect();
    for locker in running {
        locker.end().expect(0);
    }
    assert_eq!(fs::read_to_string(stage.path("count")).expect("read").trim(), "40");
}

/// Returns a lock held by a command that writes its pid and sleeps.
fn held(stage: &Stage, command: &str) -> (crate::stage::Running, u32) {
    held_as(stage, "--exclusive", "pid", command)
}

fn held_as(
    stage: &Stage,
    mode: &str,
    pid_file: &str,
    command: &str,
) -> (crate::stage::Running, u32) {
    let holder = stage.start(&["lock", mode, "L", "--", "sh", "-c", command]);
    (holder, written_pid(stage, pid_file))
}

#[test]
fn a_killed_holder_blocks_nobody_and_its_command_is_gone() {
    let stage = Stage::new();
    let (holder, command) = held(&stage, "echo $$ > pid; exec sleep 1000");
    assert!(is_alive(command));
    // One that waits already, and one that comes later.
    let waiting = stage.start(&["lock", "L", "--", "sh", "-c", &check(command)]);
    see_waiting(&waiting);
    stage
        .run(&["lock", "L", "--nonblock", "--", "true"])
        .expect(124)
        .says("the lock is held by process ");
    stage.run(&["lock", "L", "--timeout", "0.01", "--", "true"]).expect(124);
    holder.kill();
    let ended = waiting.end().expect(0).says("the last holder died");
    assert_eq!(ended.text(), "alone\n");
    assert!(!is_alive(command));
    // Told once.
    let later = stage.run(&["lock", "L", "--", "echo", "fine"]).expect(0);
    assert_eq!((later.text().as_str(), later.err.as_str()), ("fine\n", ""));
}

#[test]
fn a_command_that_survives_its_holder_is_waited_for() {
    if lacks_setpriv() {
        return;
    }
    let stage = Stage::new();
    let go = stage.path("go");
    let (holder, command) = held(&stage, &survivor(&go, "pid"));
    holder.kill();
    holder.end();
    stage.run(&["lock", "L", "--timeout", "0.05", "--", "true"]).expect(124).says("still runs");
    stage.run(&["lock", "L", "--nonblock", "--", "true"]).expect(124).says("still runs");
    assert!(is_alive(command));
    let next = stage.start(&["lock", "L", "--", "sh", "-c", &check(command)]);
    fs::write(&go, "").expect("written");
    assert_eq!(next.end().expect(0).text(), "alone\n");
}

#[test]
fn signals_reach_the_command() {
    let stage = Stage::new();
    let trap = "trap 'echo caught; exit 9' USR1; echo $$ > pid; while :; do sleep 0.01; done";
    let (holder, _) = held(&stage, trap);
    holder.signal(10);
    assert_eq!(holder.end().expect(9).text(), "caught\n");
    fs::remove_file(stage.path("pid")).expect("removed");
    let (holder, command) = held(&stage, "echo $$ > pid; exec sleep 1000");
    holder.signal(15);
    holder.end().expect(128 + 15);
    assert!(!is_alive(command));
    stage.run(&["lock", "L", "--nonblock", "--", "true"]).expect(0);
}

#[test]
fn many_killed_holders_in_a_row() {
    let stage = Stage::new();
    for _ in 0..10 {
        let (holder, command) = held(&stage, "echo $$ > pid; exec sleep 1000");
        holder.kill();
        holder.end();
        fs::remove_file(stage.path("pid")).expect("removed");
        until("its command is gone", || !is_alive(command));
    }
    stage.run(&["lock", "L", "--", "true"]).expect(0);
}

#[test]
fn shared_holders_run_beside_each_other_and_exclusive_ones_alone() {
    let stage = Stage::new();
    let script = |n: u32| format!("echo $$ > pid{n}; exec sleep 1000");
    let (first, one) = held_as(&stage, "--shared", "pid1", &script(1));
    let (second, two) = held_as(&stage, "-s", "pid2", &script(2));
    assert!(is_alive(one) && is_alive(two));
    let lock = stage.entry("L").expect("listed");
    assert_eq!(
        (lock["kind"].as_str(), lock["holders"].as_array().map(Vec::len)),
        (Some("rwlock"), Some(2))
    );
    assert!(stage.run(&["ls"]).expect(0).text().contains("held by 2 readers"));
    // Others that may not: an exclusive one, at once, in time, and with a code of its own.
    stage.run(&["lock", "-n", "L", "--", "true"]).expect(124).says("the lock is held by process ");
    stage
        .run(&["lock", "-n", "-E", "9", "L", "--", "true"])
        .expect(9)
        .says("the lock is held by process ");
    stage
        .run(&["lock", "-w", "0.05", "-x", "L", "--", "true"])
        .expect(124)
        .says("the time is over, and the lock is held by process ");
    stage
        .run(&["lock", "-w", "0.05", "-E", "0", "-e", "L", "--", "true"])
        .expect(0)
        .says("the time is over, and the lock is held by process ");
    stage.run(&["lock", "-s", "-x", "L", "--", "true"]).expect(2);
    stage.run(&["lock", "-E", "256", "L", "--", "true"]).expect(2);
    assert_eq!(
        stage.run(&["lock", "-s", "-n", "L", "--", "echo", "in it"]).expect(0).text(),
        "in it\n"
    );
    // One that waits goes first: shared ones that come later do not pass it.
    let waiting = stage.start(&["lock", "L", "--", "sh", "-c", "echo $$ > pid3; exec sleep 1000"]);
    see_waiting(&waiting);
    stage.run(&["lock", "-s", "-n", "L", "--", "true"]).expect(124);
    stage.run(&["lock", "-s", "-w", "0.05", "L", "--", "true"]).expect(124);
    first.signal(15);
    first.end().expect(128 + 15);
    assert!(!stage.path("pid3").exists());
    second.signal(15);
    second.end().expect(128 + 15);
    until("it runs", || stage.path("pid3").exists());
    let late = stage.start(&["lock", "-s", "L", "--", "echo", "late"]);
    see_waiting(&late);
    stage.run(&["lock", "-s", "-n", "-E", "77", "L", "--", "true"]).expect(77);
    waiting.signal(15);
    waiting.end().expect(128 + 15);
    assert_eq!(late.end().expect(0).text(), "late\n");
    stage.run(&["lock", "-n", "L", "--", "true"]).expect(0);
}

#[test]
fn a_killed_shared_holder_blocks_nobody_and_its_command_is_gone() {
    let stage = Stage::new();
    let (holder, command) = held_as(&stage, "-s", "pid", "echo $$ > pid; exec sleep 1000");
    let (other, _) = held_as(&stage, "-s", "pid2", "echo $$ > pid2; exec sleep 1000");
    let waiting = stage.start(&["lock", "L", "--", "sh", "-c", &check(command)]);
    see_waiting(&waiting);
    holder.kill();
    holder.end();
    // The other one is alive.
    stage.run(&["lock", "-n", "L", "--", "true"]).expect(124);
    other.kill();
    let ended = waiting.end().expect(0);
    assert_eq!(ended.text(), "alone\n");
    assert!(
        !ended.err.contains("half done"),
        "a shared holder leaves nothing half done: {}",
        ended.err
    );
    assert!(!is_alive(command));
    stage.run(&["lock", "-n", "L", "--", "true"]).expect(0);
}

#[test]
fn commands_that_survive_their_shared_holders_are_waited_for_by_exclusive_ones_only() {
    if lacks_setpriv() {
        return;
    }
    let stage = Stage::new();
    let go = [stage.path("go1"), stage.path("go2")];
    let (first, one) = held_as(&stage, "-s", "pid1", &survivor(&go[0], "pid1"));
    let (second, two) = held_as(&stage, "-s", "pid2", &survivor(&go[1], "pid2"));
    for holder in [first, second] {
        holder.kill();
        holder.end();
    }
    assert!(is_alive(one) && is_alive(two));
    stage.run(&["lock", "-w", "0.05", "L", "--", "true"]).expect(124).says("still runs");
    stage.run(&["lock", "-n", "-E", "3", "L", "--", "true"]).expect(3).says("still runs");
    // What may run beside its holder may run beside it.
    for _ in 0..3 {
        stage.run(&["lock", "-s", "-n", "L", "--", "true"]).expect(0);
    }
    fs::write(&go[0], "").expect("written");
    until("the first is gone", || !is_alive(one));
    stage
        .run(&["lock", "-n", "L", "--", "true"])
        .expect(124)
        .says(&format!("process {two}, still runs"));
    let next = stage.start(&["lock", "L", "--", "sh", "-c", &check(two)]);
    fs::write(&go[1], "").expect("written");
    assert_eq!(next.end().expect(0).text(), "alone\n");
}

#[test]
fn a_command_that_survives_its_exclusive_holder_is_waited_for_by_shared_ones_too() {
    if lacks_setpriv() {
        return;
    }
    let stage = Stage::new();
    let go = stage.path("go");
    let (holder, command) = held(&stage, &survivor(&go, "pid"));
    holder.kill();
    holder.end();
    // The first is told that the holder died, the second finds its command in the table.
    stage
        .run(&["lock", "-s", "-w", "0.05", "L", "--", "true"])
        .expect(124)
        .says("half done")
        .says("still runs");
    stage.run(&["lock", "-s", "-n", "L", "--", "true"]).expect(124).says("still runs");
    let next = stage.start(&["lock", "-s", "L", "--", "sh", "-c", &check(command)]);
    fs::write(&go, "").expect("written");
    assert_eq!(next.end().expect(0).text(), "alone\n");
}

#[test]
fn many_killed_shared_holders_in_a_row() {
    let stage = Stage::new();
    let (bystander, _) = held_as(&stage, "-s", "pid0", "echo $$ > pid0; exec sleep 1000");
    for _ in 0..10 {
        let (holder, command) = held_as(&stage, "-s", "pid", "echo $$ > pid; exec sleep 1000");
        holder.kill();
        holder.end();
        fs::remove_file(stage.path("pid")).expect("removed");
        until("its command is gone", || !is_alive(command));
    }
    bystander.signal(15);
    bystander.end().expect(128 + 15);
    stage.run(&["lock", "L", "--", "true"]).expect(0);
}
