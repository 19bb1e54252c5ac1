//! What happens to senders and messages when a receiver is killed, and when it leaves.

use std::io::Read;
use std::process::Stdio;

use crate::stage::{Ended, Running, Stage, until};

/// Returns a receiver that lives and does not receive: its output is a pipe that no process reads.
fn stuck_receiver(stage: &Stage) -> Running {
    let made = ["--max-bytes", "64K", "--on-receiver-death", "fail"];
    let mut command = stage.command(["recv", "q"].iter().chain(&made));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let receiver = Running::with_own_streams(command);
    until("it receives", || {
        stage.entry("q").is_some_and(|queue| queue["receiver"]["alive"] == true)
    });
    receiver
}

/// Returns a sender that waits, since the queue is full.
fn waiting_sender(stage: &Stage) -> Running {
    let path = stage.path("input");
    let input: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    std::fs::write(&path, input).expect("written");
    let mut command = stage.command(["send", "q"]);
    command
        .stdin(std::fs::File::open(&path).expect("opened"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let sender = Running::with_own_streams(command);
    until("it sleeps, in a wait for space", || {
        let wait =
            std::fs::read_to_string(format!("/proc/{}/wchan", sender.pid())).unwrap_or_default();
        wait.contains("futex")
            && stage.entry("q").is_some_and(|queue| queue["counters"]["sent"] != 0)
    });
    sender
}

#[test]
fn a_queue_that_is_not_there_is_waited_for() {
    let stage = Stage::new();
    let early = stage.start(&["recv", "log", "--count", "2"]);
    until("it waits", || early.is_waiting());
    assert!(!stage.domain().exists(), "it makes neither the queue nor its domain");
    stage.feed(&["send", "log"], b"one\ntwo\n").expect(0);
    let ended = early.end().expect(0).says("waiting for a sender to make 'log'");
    assert_eq!(ended.text(), "one\ntwo\n");

    // A misspelt name makes nothing, and the right one is suggested.
    let told = stage.run(&["recv", "lgo", "--until-idle", "0.05"]).expect(6);
    told.says("waiting for a sender to make 'lgo'").says("no queue 'lgo'").says("is 'log' meant?");
    stage.run(&["recv", "lgo", "--no-create"]).expect(6).says("is 'log' meant?");
    let waiting = stage.start(&["recv", "lgo"]);
    until("it waits", || waiting.is_waiting());
    waiting.signal(2);
    waiting.end().expect(0);
    assert!(stage.entry("lgo").is_none());
    // Unless it is said how to make it.
    stage.run(&["recv", "made", "--max-bytes", "64K", "--until-idle", "0"]).expect(0);
    assert_eq!(stage.entry("made").expect("there")["max_bytes"], 64 << 10);
}

/// `kill -9 PID; outlive recv q`: the killed process has the role until the kernel has ended it.
#[test]
fn a_receiver_that_is_just_ending_is_waited_for() {
    let stage = Stage::new();
    let receiver = stuck_receiver(&stage);
    let next = stage.start(&["recv", "q", "--count", "1"]);
    std::thread::sleep(std::time::Duration::from_millis(100));
    // Without a retry it would have been refused by now.
    receiver.kill();
    let receives = |queue: serde_json::Value| queue["receiver"]["pid"] == next.pid();
    until("it receives", || stage.entry("q").is_some_and(receives));
    stage.feed(&["send", "q"], b"x\n").expect(0);
    assert_eq!(next.end().expect(0).text(), "x\n");
}

#[test]
fn a_waiting_sender_is_told_when_the_receiver_is_killed() {
    let stage = Stage::new();
    let mut receiver = stuck_receiver(&stage);
    let mut sender = waiting_sender(&stage);
    assert!(sender.is_running());
    receiver.kill();
    let ended = sender.end().expect(3).says("receiver died");
    // Later senders are told as well.
    stage.feed(&["send", "q"], b"x").expect(3);
    let mut written = Vec::new();
    receiver.child.stdout.take().expect("piped").read_to_end(&mut written).expect("read");
    take_over(&stage, &ended, &String::from_utf8(written).expect("lines"));
}

/// The next receiver gets all that was acknowledged and not yet written, in order, and says what
/// may come twice.
fn take_over(stage: &Stage, sender: &Ended, written: &str) {
    let sent: u64 = {
        let words: Vec<&str> = sender.err.rsplit('(').next().expect("a count").split(' ').collect();
        words[0].replace(',', "").parse().expect("a number")
    };
    let rest = stage.run(&["recv", "q", "--until-idle", "0"]).expect(0);
    let mut numbers: Vec<u64> = written.lines().filter_map(|line| line.parse().ok()).collect();
    // Killed in the middle of a line, it is in no whole state there.
    if !written.ends_with('\n') {
        numbers.pop();
    }
    let after: Vec<u64> = rest.text().lines().map(|line| line.parse().expect("a number")).collect();
    let repeats = numbers.iter().filter(|number| after.contains(number)).count();
    assert!(repeats <= 1, "{repeats} came twice");
    if repeats == 1 {
        assert!(rest.err.contains("redelivered"), "{}", rest.err);
    }
    numbers.extend(after);
    numbers.dedup();
    let all: Vec<u64> = (0..sent).collect();
    assert_eq!(numbers.len(), all.len());
    assert!(numbers == all);
    // The process that took over has left in good order: sending goes on.
    stage.feed(&["send", "q"], b"x").expect(0);
}

#[test]
fn what_was_looked_at_and_not_written_is_marked() {
    let stage = Stage::new();
    stage.feed(&["send", "q"], b"one\ntwo\n").expect(0);
    // A folder in the place of its file: the message is looked at, and cannot be written.
    std::fs::create_dir(stage.path("out")).expect("made");
    stage.run(&["recv", "q", "--file", "out"]).expect(15);
    let ended = stage.run(&["recv", "q", "--until-idle", "0"]).expect(0).says("redelivered");
    assert_eq!(ended.text(), "one\ntwo\n");
}

#[test]
fn a_receiver_that_is_asked_to_end_leaves_in_good_order() {
    let stage = Stage::new();
    for signal in [2, 15] {
        let receiver = stage.start(&["recv", "q", "--max-bytes", "1M"]);
        until("it receives", || {
            stage.entry("q").is_some_and(|queue| queue["receiver"]["alive"] == true)
        });
        receiver.signal(signal);
        receiver.end().expect(0);
        assert!(stage.entry("q").expect("there")["receiver"].is_null());
        stage.feed(&["send", "q"], b"goes on\n").expect(0);
        assert_eq!(stage.run(&["recv", "q", "-n", "1"]).expect(0).text(), "goes on\n");
    }
}

#[test]
fn a_queue_has_one_receiver() {
    let stage = Stage::new();
    let receiver = stuck_receiver(&stage);
    stage.run(&["recv", "q"]).expect(12).says(&format!("process {}", receiver.pid()));
}

#[test]
fn a_queue_may_refuse_messages_that_no_process_reads() {
    let stage = Stage::new();
    let args = ["send", "q", "--need-receiver"];
    stage.feed(&args, b"x\n").expect(4).says("no receiver");
}

#[test]
fn a_queue_may_be_bounded_by_messages() {
    let stage = Stage::new();
    let send = ["queue", "send", "q", "--max-messages", "3", "--timeout", "0.05"];
    stage.feed(&send, b"1\n2\n3\n").expect(0);
    stage.feed(&send, b"4\n").expect(5).says("still no room");
    // Lines that come together are as many messages.
    let three = ["queue", "send", "lines", "--max-messages", "2", "--timeout", "0.05"];
    stage.feed(&three, b"1\n2\n3\n").expect(5).says("2 messages sent before");
    assert_eq!(stage.entry("lines").expect("there")["counters"]["pending"], 2);
    assert_eq!(stage.entry("q").expect("there")["config"]["max_messages"], 3);
    let info = stage.run(&["queue", "info", "q"]).expect(0).text();
    assert!(info.contains("most messages") && info.contains('3'), "{info}");
    // The most that were ever seen waiting are no fewer than wait now.
    assert_eq!(stage.entry("q").expect("there")["counters"]["high_water"], 3);
    // The names of the figures fill one column, however long the longest name is.
    let columns = info.lines().filter_map(|line| {
        line.find("  ").map(|gap| line[gap..].len() - line[gap..].trim_start().len() + gap)
    });
    assert_eq!(columns.collect::<std::collections::BTreeSet<_>>().len(), 1, "{info}");
    let recv = ["queue", "recv", "q", "--until-idle", "0"];
    assert_eq!(stage.run(&recv).expect(0).text(), "1\n2\n3\n");
    stage.feed(&send, b"4\n").expect(0);
    stage.feed(&["queue", "send", "other"], b"x\n").expect(0);
    assert!(stage.entry("other").expect("there")["config"]["max_messages"].is_null());
    assert_eq!(stage.entry("q").expect("there")["counters"]["places"], 3);
    let short =
        ["queue", "send", "short", "--max-messages", "20000", "--max-bytes", "64K", "-w", "0.05"];
    stage.feed(&short, "line\n".repeat(1000).as_bytes()).expect(5);
    let entry = stage.entry("short").expect("there");
    let (places, pending) = (&entry["counters"]["places"], &entry["counters"]["pending"]);
    assert_eq!((places, &entry["config"]["max_messages"]), (pending, &20_000.into()));
    let info = stage.run(&["queue", "info", "short"]).expect(0).text();
    assert!(info.contains(&format!("20,000, but it has memory for {places} alone")), "{info}");
    let both = ["queue", "send", "both", "--max-messages", "3", "--first-slots", "8"];
    stage.feed(&both, b"x\n").expect(2);
}

#[test]
fn a_full_queue_is_told_in_time_and_a_message_too_large_at_once() {
    let stage = Stage::new();
    let input = "some line\n".repeat(100_000);
    let args = ["send", "q", "--max-bytes", "64K", "--timeout", "0.05"];
    stage.feed(&args, input.as_bytes()).expect(5).says("still no room");
    stage.feed(&args, "x".repeat(200_000).as_bytes()).expect(10).says("does not fit");
}

#[test]
fn receiving_ends_when_the_senders_are_gone() {
    let stage = Stage::new();
    let mut sender = stage.start(&["send", "q"]);
    sender.write(b"one\n");
    until("one is there", || {
        stage.entry("q").is_some_and(|queue| queue["counters"]["pending"] == 1)
    });
    let mut receiver = stage.start(&["recv", "q", "--until-senders-gone"]);
    until("it receives", || stage.entry("q").expect("there")["counters"]["received"] == 1);
    assert!(receiver.is_running());
    // Killed, not ended: gone all the same.
    sender.kill();
    assert_eq!(receiver.end().expect(0).text(), "one\n");
}
