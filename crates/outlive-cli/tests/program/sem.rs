//! `sem`: never more than so many at once, whichever process dies.

use std::fs;

use crate::held::{check, lacks_setpriv, see_waiting, survivor, written_pid};
use crate::stage::{Running, Stage, is_alive, until};

#[test]
fn sem_exits_with_the_commands_code() {
    let stage = Stage::new();
    assert_eq!(
        stage.run(&["sem", "S", "--permits", "2", "--", "echo", "in it"]).expect(0).text(),
        "in it\n"
    );
    stage.run(&["sem", "S", "-p", "2", "--", "sh", "-c", "exit 7"]).expect(7);
    stage.run(&["sem", "S", "-p", "2", "--", "sh", "-c", "kill -TERM $$"]).expect(128 + 15);
    stage
        .run(&["sem", "S", "-p", "2", "--", "/no/such/program"])
        .expect(127)
        .says("outlive sem: could not run");
    fs::write(stage.path("text"), "no program").expect("written");
    stage.run(&["sem", "S", "-p", "2", "--", "./text"]).expect(126);
    stage.run(&["sem", "a/b", "-p", "2", "--", "true"]).expect(125).says("cannot be a name");
    for wrong in [
        &["sem", "none", "--", "true"][..],
        &["sem", "S", "--take", "3", "--", "true"],
        &["sem", "S", "-p", "0", "--", "true"],
        &["sem", "S", "-p", "2"],
    ] {
        stage.run(wrong).expect(2);
    }
    // One that is there has its number.
    stage.run(&["sem", "S", "--take", "2", "--", "true"]).expect(0);
    // Another number would break the promise of one of the two.
    stage
        .run(&["sem", "S", "-p", "3", "--", "true"])
        .expect(125)
        .says("is 2, this program wants 3");
    stage.run(&["lock", "L", "--", "true"]).expect(0);
    stage.run(&["sem", "L", "-p", "2", "--", "true"]).expect(125).says("is a rwlock");
    stage.run(&["sem", "--no-create", "none", "-p", "2", "--", "true"]).expect(125);
    assert!(stage.entry("none").is_none());
    assert_eq!(stage.feed(&["sem", "S", "-p", "2", "--", "cat"], b"input").expect(0).out, b"input");
}

/// Returns a command under one of two permits that writes its pid into that file.
fn held(stage: &Stage, pid_file: &str, command: &str) -> (Running, u32) {
    let holder = stage.start(&["sem", "S", "-p", "2", "--", "sh", "-c", command]);
    (holder, written_pid(stage, pid_file))
}

fn sleeper(pid_file: &str) -> String {
    format!("echo $$ > {pid_file}; exec sleep 1000")
}

/// Has no room at once, and in time.
fn expect_no_room(stage: &Stage, why: &str) {
    stage.run(&["sem", "S", "-p", "2", "--nonblock", "--", "true"]).expect(124).says(why);
    stage.run(&["sem", "S", "-p", "2", "-w", "0.05", "-E", "9", "--", "true"]).expect(9);
}

#[test]
fn so_many_at_once_and_no_more() {
    let stage = Stage::new();
    fs::create_dir(stage.path("inside")).expect("made");
    // Each counts who is inside while it is.
    let job =
        "touch inside/$$; n=$(ls inside | wc -l); echo $n; sleep 0.01; rm inside/$$; [ $n -le 3 ]";
    let running: Vec<_> = (0..12)
        .map(|_| stage.start(&["sem", "S", "--permits", "3", "--", "sh", "-c", job]))
        .collect();
    for one in running {
        one.end().expect(0);
    }
    assert_eq!(
        stage.run(&["sem", "S", "-p", "3", "-n", "--", "echo", "room"]).expect(0).text(),
        "room\n"
    );
}

#[test]
fn it_is_listed_with_its_holders() {
    let stage = Stage::new();
    let (first, _) = held(&stage, "pid1", &sleeper("pid1"));
    let entry = stage.entry("S").expect("listed");
    assert_eq!(entry["kind"].as_str(), Some("semaphore"));
    assert_eq!(entry["holders"].as_array().map(Vec::len), Some(1));
    let listing = stage.run(&["ls"]).expect(0).text();
    let line = listing.lines().find(|line| line.starts_with("S ")).expect("listed");
    assert!(line.contains("1 of 2 permits free"), "{line}");
    let info = stage.run(&["info", "S"]).expect(0).text();
    for what in ["semaphore", "1 of 2 permits free", &first.pid().to_string()] {
        assert!(info.contains(what), "{what} is missing: {info}");
    }
    first.kill();
    first.end();
    // No process has asked yet: the dead holder is still named, as dead; a sweep takes its permit
    // back.
    assert!(stage.run(&["info", "S"]).expect(0).text().contains("dead"));
    stage.run(&["gc"]).expect(0);
    let line = stage.run(&["ls"]).expect(0).text();
    assert!(line.contains("2 of 2 permits free"), "{line}");
}

#[test]
fn a_killed_holders_permit_comes_back_and_its_command_is_gone() {
    let stage = Stage::new();
    let (first, one) = held(&stage, "pid1", &sleeper("pid1"));
    let (second, two) = held(&stage, "pid2", &sleeper("pid2"));
    assert!(is_alive(one) && is_alive(two));
    expect_no_room(&stage, "all permits are held by process ");
    let waiting = stage.start(&["sem", "S", "-p", "2", "--", "sh", "-c", &check(one)]);
    see_waiting(&waiting);
    first.kill();
    assert_eq!(waiting.end().expect(0).text(), "alone\n");
    assert!(is_alive(two) && !is_alive(one));
    assert_eq!(first.end().code(), -9);
    // And again, by a later process, and when the other gives back.
    stage.run(&["sem", "S", "-p", "2", "-w", "30", "--", "true"]).expect(0);
    second.signal(15);
    second.end().expect(128 + 15);
    assert!(!is_alive(two));
}

#[test]
fn many_killed_holders_in_a_row_lose_no_permit() {
    let stage = Stage::new();
    let (bystander, _) = held(&stage, "pid0", &sleeper("pid0"));
    for _ in 0..10 {
        let (holder, command) = held(&stage, "pid", &sleeper("pid"));
        expect_no_room(&stage, "all permits are held by process ");
        holder.kill();
        holder.end();
        fs::remove_file(stage.path("pid")).expect("removed");
        until("its command is gone", || !is_alive(command));
    }
    bystander.signal(15);
    bystander.end().expect(128 + 15);
    let both: Vec<_> = ["pid1", "pid2"].map(|file| held(&stage, file, &sleeper(file))).into();
    expect_no_room(&stage, "all permits are held by process ");
    drop(both);
}

#[test]
fn a_command_that_survives_its_holder_keeps_its_permit() {
    if lacks_setpriv() {
        return;
    }
    let stage = Stage::new();
    let go = stage.path("go");
    let (holder, command) = held(&stage, "pid1", &survivor(&go, "pid1"));
    holder.kill();
    holder.end();
    assert!(is_alive(command));
    // One permit is left: it serves all, one at a time, whichever was offered first.
    for _ in 0..5 {
        stage.run(&["sem", "S", "-p", "2", "-n", "--", "true"]).expect(0);
    }
    let (other, _) = held(&stage, "pid2", &sleeper("pid2"));
    expect_no_room(&stage, "still runs");
    stage.run(&["sem", "S", "-p", "2", "-w", "0.05", "--", "true"]).expect(124).says("still runs");
    assert!(is_alive(command));
    // Waiting for that command, it takes the other permit when that is free first.
    let waiting = stage.start(&["sem", "S", "-p", "2", "--", "sh", "-c", &check(command)]);
    until("it waits for the command", || {
        let entry = stage.entry("S").expect("listed");
        entry["holders"].as_array().is_some_and(|holders| {
            holders.iter().any(|holder| holder["pid"].as_u64() == Some(u64::from(waiting.pid())))
        })
    });
    other.signal(15);
    other.end().expect(128 + 15);
    assert_eq!(waiting.end().expect(0).text(), "beside\n");
    // Both permits once it is gone.
    fs::remove_file(stage.path("pid2")).expect("removed");
    let (_other, _) = held(&stage, "pid2", &sleeper("pid2"));
    let next = stage.start(&["sem", "S", "-p", "2", "--", "sh", "-c", &check(command)]);
    fs::write(&go, "").expect("written");
    assert_eq!(next.end().expect(0).text(), "alone\n");
}

/// Returns a command under two of three permits that writes its pid into that file.
fn held_two(stage: &Stage, pid_file: &str, command: &str) -> (Running, u32) {
    let two = ["sem", "S", "-p", "3", "--take", "2", "--", "sh", "-c", command];
    (stage.start(&two), written_pid(stage, pid_file))
}

#[test]
fn a_command_holds_several_permits() {
    let stage = Stage::new();
    stage.run(&["sem", "S", "-p", "3", "--take", "4", "--", "true"]).expect(2).says("3 permits");
    stage.run(&["sem", "S", "-p", "3", "--take", "0", "--", "true"]).expect(2);
    let (holder, command) = held_two(&stage, "pid", &sleeper("pid"));
    let listing = stage.run(&["ls"]).expect(0).text();
    assert!(listing.contains("1 of 3 permits free"), "{listing}");
    let two = ["sem", "S", "-p", "3", "--take", "2"];
    let now = [&two[..], &["--nonblock", "--", "true"]].concat();
    stage.run(&now).expect(124).says("1 permit of 3 free, 2 wanted");
    stage.run(&[&two[..], &["-w", "0.05", "-E", "9", "--", "true"]].concat()).expect(9);
    stage.run(&["sem", "S", "-p", "3", "-n", "--", "true"]).expect(0);
    // A killed holder's permits come back together, when its command is gone.
    let waiting =
        stage.start(&["sem", "S", "-p", "3", "--take", "3", "--", "sh", "-c", &check(command)]);
    see_waiting(&waiting);
    holder.kill();
    assert_eq!(waiting.end().expect(0).text(), "alone\n");
    let listing = stage.run(&["ls"]).expect(0).text();
    assert!(listing.contains("3 of 3 permits free"), "{listing}");
}

#[test]
fn a_command_that_survives_its_holder_keeps_all_its_permits() {
    if lacks_setpriv() {
        return;
    }
    let stage = Stage::new();
    let go = stage.path("go");
    let (holder, command) = held_two(&stage, "pid", &survivor(&go, "pid"));
    holder.kill();
    holder.end();
    let two = ["sem", "S", "-p", "3", "--take", "2"];
    for _ in 0..3 {
        stage.run(&[&two[..], &["-n", "--", "true"]].concat()).expect(124).says("still runs");
        stage.run(&["sem", "S", "-p", "3", "-n", "--", "true"]).expect(0);
    }
    let next = stage.start(&[&two[..], &["--", "sh", "-c", &check(command)]].concat());
    until("it waits for the command", || {
        let entry = stage.entry("S").expect("listed");
        entry["holders"].as_array().is_some_and(|holders| {
            holders.iter().any(|holder| holder["pid"].as_u64() == Some(u64::from(next.pid())))
        })
    });
    fs::write(&go, "").expect("written");
    assert_eq!(next.end().expect(0).text(), "alone\n");
}

#[test]
fn signals_reach_the_command() {
    let stage = Stage::new();
    let trap = "trap 'echo caught; exit 9' USR1; echo $$ > pid; while :; do sleep 0.01; done";
    let (holder, _) = held(&stage, "pid", trap);
    holder.signal(10);
    assert_eq!(holder.end().expect(9).text(), "caught\n");
}
