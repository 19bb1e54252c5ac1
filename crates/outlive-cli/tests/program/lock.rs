//! `lock`: one at a time, whoever dies.

use std::fs;

use crate::stage::{Stage, is_alive, until};

#[test]
fn the_commands_code_is_passed_on() {
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
    let running: Vec<_> = (0..8).map(|_| stage.start(&["lock", "L", "--", "sh", "-c", add])).collect();
    for locker in running {
        locker.end().expect(0);
    }
    assert_eq!(fs::read_to_string(stage.path("count")).expect("read").trim(), "40");
}

/// A command that tells whether a process is there. A zombie is not: it runs nothing any more.
fn check(pid: u32) -> String {
    format!(
        "state=$(sed -n 's/^State:[[:space:]]*\\(.\\).*/\\1/p' /proc/{pid}/status 2>/dev/null); \
         case \"$state\" in ''|Z|X) echo alone ;; *) echo beside ;; esac"
    )
}

/// A lock held by a command that writes its pid and sleeps.
fn held(stage: &Stage, command: &str) -> (crate::stage::Running, u32) {
    let holder = stage.start(&["lock", "L", "--", "sh", "-c", command]);
    let mut pid = None;
    until("the command runs", || {
        let text = fs::read_to_string(stage.path("pid")).unwrap_or_default();
        pid = text.strip_suffix('\n').and_then(|text| text.parse().ok());
        pid.is_some()
    });
    (holder, pid.expect("as seen"))
}

#[test]
fn a_killed_holder_blocks_nobody_and_its_command_is_gone() {
    let stage = Stage::new();
    let (holder, command) = held(&stage, "echo $$ > pid; exec sleep 1000");
    assert!(is_alive(command));
    // One that waits already, and one that comes later.
    let waiting = stage.start(&["lock", "L", "--", "sh", "-c", &check(command)]);
    until("it waits", || {
        let wait = fs::read_to_string(format!("/proc/{}/wchan", waiting.pid())).unwrap_or_default();
        wait.contains("futex")
    });
    stage.run(&["lock", "L", "--nonblock", "--", "true"]).expect(124).says("somebody holds the lock");
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
    if std::process::Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: no setpriv here, which starts what the kernel does not kill with its parent");
        return;
    }
    let stage = Stage::new();
    let go = stage.path("go");
    // Its streams are its own: those of the holder are read to their end. It ends by itself, should the test fail.
    let script = format!(
        "echo $$ > pid; for i in $(seq 6000); do [ -e {} ] && exit; sleep 0.01; done > /dev/null 2>&1",
        go.display()
    );
    let command = format!("exec setpriv --pdeathsig clear sh -c '{script}' > /dev/null 2>&1");
    let (holder, command) = held(&stage, &command);
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
