//! Lines shipped through a queue: `tail -F LOG | outlive queue send log`, and `outlive queue recv log`
//! at the other end, killed and started again under load.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::stage::{Running, Stage, until};

/// Starts `recv`, which appends to a file.
fn shipping(stage: &Stage, args: &[&str]) -> Running {
    let out = File::options().create(true).append(true).open(stage.path("shipped")).expect("opens");
    let mut command = stage.command(args);
    command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
    Running::with_own_streams(command)
}

fn sent(stage: &Stage) -> u64 {
    let entry = stage.entry("log");
    entry.and_then(|queue| queue["counters"]["sent"].as_u64()).unwrap_or(0)
}

/// Returns the numbers of the lines that have been shipped, each line whole.
fn shipped(stage: &Stage) -> Vec<u64> {
    let text = fs::read_to_string(stage.path("shipped")).expect("written");
    assert!(text.ends_with('\n'), "the last line is cut: {:?}", text.lines().last());
    let number = |line: &str| {
        // The kernel cuts a write where a page of the file ends, if its process is killed there; the
        // line comes again, since it was not committed.
        let line = line.rfind("line ").map_or(line, |at| &line[at..]);
        let number = line.strip_prefix("line ").and_then(|rest| rest.strip_suffix(" of the log"));
        number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("cut: {line:?}"))
    };
    text.lines().map(number).collect()
}

/// A line that was shipped twice, the second time when a receiver said that it may be so.
fn without_the_told(numbers: Vec<u64>, redelivered: u64) -> Vec<u64> {
    let before = numbers.len() as u64;
    let mut numbers = numbers;
    numbers.dedup();
    let twice = before - numbers.len() as u64;
    assert!(twice <= redelivered, "{twice} came twice, {redelivered} of them told");
    numbers
}

/// Kills that receiver, and returns how many of its messages it said to be redelivered.
fn killed(receiver: Running) -> u64 {
    receiver.kill();
    told(&receiver.end().expect(-9).err)
}

fn told(err: &str) -> u64 {
    err.lines().filter(|line| line.contains("is redelivered")).count() as u64
}

#[test]
fn each_line_arrives_while_its_receiver_is_killed_twenty_times() {
    let stage = Stage::new();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut sender = stage.start(&["queue", "send", "log"]);
    let pid = sender.pid();
    let mut redelivered = 0;
    std::thread::scope(|scope| {
        let (stop, written) = (&stop, &written);
        let writer = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let first = written.load(Ordering::Relaxed);
                let lines: String = (first..first + 50)
                    .map(|number| format!("line {number} of the log\n"))
                    .collect();
                sender.write(lines.as_bytes());
                written.store(first + 50, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
            // What it had read is sent, whether a receiver is there or not.
            sender.end().expect(0);
        });
        for kill in 0..20 {
            let receiver = shipping(&stage, &["queue", "recv", "log"]);
            let before = written.load(Ordering::Relaxed);
            until("it ships", || written.load(Ordering::Relaxed) > before + 200);
            redelivered += killed(receiver);
            // The sender goes on while there is none.
            let before = sent(&stage);
            until("lines are kept", || sent(&stage) > before);
            assert!(crate::stage::is_alive(pid), "the sender has ended at kill {kill}");
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("the sender ends in good order");
    });
    let last = shipping(&stage, &["queue", "recv", "log", "--until-senders-gone"]);
    redelivered += told(&last.end().expect(0).err);
    let numbers = without_the_told(shipped(&stage), redelivered);
    let all: Vec<u64> = (0..written.load(Ordering::Relaxed)).collect();
    assert!(numbers == all, "{} of {} lines arrived in order", numbers.len(), all.len());
}

/// A sender that is killed takes with it what it had read and not sent; all that was sent arrives,
/// and the next sender goes on.
#[test]
fn what_was_sent_arrives_though_both_ends_are_killed() {
    const LINES: u64 = 100_000;
    let stage = Stage::new();
    let input = stage.path("input");
    let mut acknowledged: Vec<u64> = Vec::new();
    let mut redelivered = 0;
    for round in 0..3 {
        let (first, base) = (round * LINES, sent(&stage));
        let lines: String =
            (first..first + LINES).map(|number| format!("line {number} of the log\n")).collect();
        fs::write(&input, lines).expect("written");
        let receiver = shipping(&stage, &["queue", "recv", "log"]);
        let mut command = stage.command(["queue", "send", "log"]);
        command.stdin(File::open(&input).expect("opens"));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let sender = Running::with_own_streams(command);
        until("some are sent", || sent(&stage) > base + 1_000);
        sender.kill();
        redelivered += killed(receiver);
        sender.end();
        // Exact, since the queue is quiet.
        acknowledged.extend(first..first + sent(&stage) - base);
    }
    let last = shipping(&stage, &["queue", "recv", "log", "--until-idle", "0"]);
    redelivered += told(&last.end().expect(0).err);
    let numbers = without_the_told(shipped(&stage), redelivered);
    let (arrived, all) = (numbers.len(), acknowledged.len());
    assert!(numbers == acknowledged, "{arrived} of {all} acknowledged lines arrived in order");
}

/// The line of the README, as a shell runs it.
#[test]
fn a_log_that_grows_is_followed_over_a_kill() {
    let stage = Stage::new();
    let log = stage.path("app.log");
    File::create(&log).expect("made");
    let outlive = env!("CARGO_BIN_EXE_outlive");
    let mut shell = Command::new("sh");
    shell.args(["-c", "tail -F app.log | \"$0\" queue send log", outlive]);
    shell.current_dir(stage.path("")).env("OUTLIVE_DOMAIN", stage.domain());
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A group of its own, so that `tail` ends with it.
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    let shell = Group(shell.spawn().expect("sh runs"));
    let mut append = File::options().append(true).open(&log).expect("opens");
    let mut line = |number: u64| writeln!(append, "line {number} of the log").expect("written");
    let mut redelivered = 0;
    for number in 0..5 {
        let receiver = shipping(&stage, &["queue", "recv", "log"]);
        line(2 * number);
        until("it is shipped", || {
            let text = fs::read_to_string(stage.path("shipped")).unwrap_or_default();
            text.contains(&format!("line {} of", 2 * number))
        });
        redelivered += killed(receiver);
        line(2 * number + 1);
        until("it is kept", || sent(&stage) == 2 * number + 2);
    }
    let last = shipping(&stage, &["queue", "recv", "log", "--until-idle", "0"]);
    redelivered += told(&last.end().expect(0).err);
    assert_eq!(without_the_told(shipped(&stage), redelivered), (0..10).collect::<Vec<_>>());
    drop(shell);
}

/// A shell and what it started; killed when dropped.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn a_queue_of_the_program_keeps_unless_told_otherwise() {
    let stage = Stage::new();
    let on_death =
        |name: &str| stage.entry(name).expect("there")["config"]["on_receiver_death"].clone();
    stage.feed(&["queue", "send", "keeps"], b"x\n").expect(0);
    assert_eq!(on_death("keeps"), "keep");
    let fails = ["queue", "send", "fails", "--on-receiver-death", "fail"];
    stage.feed(&fails, b"x\n").expect(0);
    assert_eq!(on_death("fails"), "fail");
    let info = stage.run(&["queue", "info", "keeps"]).expect(0).text();
    assert!(info.contains("messages are kept for the next one"), "{info}");
    // What is there stays as it is, and is refused where the other was asked for.
    stage.feed(&["queue", "send", "fails"], b"x\n").expect(0);
    let keep = ["queue", "recv", "fails", "--on-receiver-death", "keep", "--until-idle", "0"];
    stage.run(&keep).expect(7).says("on_receiver_death");
    stage.run(&["queue", "recv", "fails", "--until-idle", "0"]).expect(0);
}
