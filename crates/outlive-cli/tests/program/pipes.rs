//! `send` and `recv`: what goes in comes out, byte for byte.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::stage::{Running, Stage, line};

#[test]
fn lines_arrive_as_they_were_sent() {
    let stage = Stage::new();
    stage.feed(&["send", "q"], b"one\n\ntwo words\r\nno end").expect(0);
    let ended = stage.run(&["recv", "q", "--until-idle", "0"]).expect(0);
    assert_eq!(ended.text(), "one\n\ntwo words\r\nno end\n");
    assert_eq!(ended.err, "");
    stage.feed(&["send", "q"], b"").expect(0);
    assert_eq!(stage.run(&["recv", "q", "--until-idle", "0"]).expect(0).out, b"");
}

#[test]
fn any_bytes_pass_in_any_framing_that_can_hold_them() {
    let stage = Stage::new();
    let binary: Vec<u8> = (0..=255u8).cycle().take(3000).collect();
    stage.feed(&["send", "-0", "q"], b"a\nb\0\0\xff\xfe\0").expect(0);
    assert_eq!(stage.run(&["recv", "--null", "q", "-n", "3"]).expect(0).out, b"a\nb\0\0\xff\xfe\0");

    let mut prefixed = Vec::new();
    for record in [&binary[..], b"", b"\n", &binary[..17]] {
        prefixed.extend_from_slice(&(record.len() as u32).to_le_bytes());
        prefixed.extend_from_slice(record);
    }
    stage.feed(&["send", "--length-prefixed", "q"], &prefixed).expect(0);
    assert_eq!(stage.run(&["recv", "-p", "q", "--count", "4"]).expect(0).out, prefixed);
}

#[test]
fn a_cut_off_record_is_told_and_those_before_it_are_sent() {
    let stage = Stage::new();
    let ended = stage.feed(&["send", "-p", "q"], b"\x02\0\0\0ok\x09\0\0\0short").expect(16);
    ended.says("ends in the middle of a record").says("1 message sent before");
    assert_eq!(stage.run(&["recv", "q", "--until-idle", "0"]).expect(0).out, b"ok\n");
    stage
        .feed(&["send", "-p", "q"], b"\xff\xff\xff\xff")
        .expect(16)
        .says("asks for a record of 4294967295 bytes");
}

#[test]
fn files_arrive_whole() {
    let stage = Stage::new();
    let contents = [b"first\n".to_vec(), Vec::new(), (0..=255u8).cycle().take(3 << 20).collect()];
    for (number, bytes) in contents.iter().enumerate() {
        fs::write(stage.path(&format!("in{number}")), bytes).expect("written");
    }
    stage.run(&["send", "q", "--file", "in0", "in1", "in2"]).expect(0);
    stage.run(&["recv", "q", "--file", "out0", "out1"]).expect(0);
    assert_eq!(stage.run(&["recv", "q", "--raw", "-n", "1"]).expect(0).out, contents[2]);
    for (number, bytes) in contents.iter().take(2).enumerate() {
        assert_eq!(fs::read(stage.path(&format!("out{number}"))).expect("written"), *bytes);
    }
    stage
        .run(&["send", "q", "--file", "in0", "missing", "in2"])
        .expect(6)
        .says("missing")
        .says("1 message sent before");
}

#[test]
fn a_lot_passes_while_both_run() {
    let stage = Stage::new();
    let mut input = Vec::new();
    for number in 0..400_000u32 {
        input.extend_from_slice(
            format!("line {number} {}\n", "x".repeat(number as usize % 90)).as_bytes(),
        );
    }
    // A queue so small that the sender must wait for the receiver.
    let receiver = stage.start(&["recv", "q", "--until-senders-gone", "--max-bytes", "256K"]);
    let sent = stage.feed(&["send", "q", "--max-bytes", "256K", "--json"], &input).expect(0).json();
    assert_eq!(sent["messages"], 400_000);
    assert_eq!(sent["bytes"], input.len() - 400_000);
    let received = receiver.end().expect(0);
    assert!(received.out == input, "{} of {} bytes, or others", received.out.len(), input.len());
}

#[test]
fn a_line_that_comes_alone_is_not_held_back() {
    let stage = Stage::new();
    let mut command = stage.command(["recv", "q"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = Running::with_own_streams(command);
    let mut lines = BufReader::new(receiver.child.stdout.take().expect("piped"));
    let mut sender = stage.start(&["send", "q"]);
    for number in 0..5 {
        sender.write(format!("line {number}\n").as_bytes());
        // Hangs here, were it held back.
        assert_eq!(line(&mut lines), format!("line {number}\n"));
    }
    assert!(sender.is_running());
    receiver.signal(15);
    receiver.end().expect(0);
    sender.end().expect(0);
}

#[test]
fn json_tells_text_and_bytes_apart() {
    let stage = Stage::new();
    stage.feed(&["send", "q"], b"text \"quoted\"\n\xff\x00\x0a").expect(0);
    let lines = stage.run(&["recv", "q", "--json", "--until-idle", "0"]).expect(0).text();
    let messages: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(
        messages[0],
        serde_json::json!({"bytes": 13, "redelivered": false, "text": "text \"quoted\""})
    );
    assert_eq!(messages[1], serde_json::json!({"bytes": 2, "redelivered": false, "hex": "ff00"}));
}

#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    let stage = Stage::new();
    let input: String = (0..50_000).map(|number| format!("line {number}\n")).collect();
    stage.feed(&["send", "q"], input.as_bytes()).expect(0);
    let mut command = stage.command(["recv", "q"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = Running::with_own_streams(command);
    let mut line = String::new();
    // As head -1 does.
    BufReader::new(receiver.child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("read");
    assert_eq!(line, "line 0\n");
    let ended = receiver.end().expect(0);
    assert_eq!(ended.err, "");

    for args in [
        &["ls"][..],
        &["ls", "--json"],
        &["completions", "bash"],
        &["exit-codes"],
        &["--help"],
        &["doctor"],
    ] {
        let mut command = stage.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Running::with_own_streams(command);
        drop(program.child.stdout.take());
        let ended = program.end().expect(0);
        assert_eq!(ended.err, "", "{args:?}");
    }
}
