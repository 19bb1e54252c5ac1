//! `pub`, `echo`, `hz`, `bw`, `delay`, `topic`: what is published arrives, whichever process dies.

use std::fs;
use std::io::{BufReader, Read};
use std::process::Stdio;

use serde_json::Value;

use crate::stage::{Running, Stage, line, until};

/// Returns how many living subscribers a topic has.
fn subscribers(stage: &Stage, name: &str) -> usize {
    let report = stage.run(&["topic", "list", "--json"]);
    if report.code() != 0 {
        return 0;
    }
    let report = report.json();
    let topic = report["topics"]
        .as_array()
        .and_then(|all| all.iter().find(|topic| topic["name"] == name).cloned());
    topic.and_then(|topic| topic["subscribers"].as_u64()).unwrap_or(0) as usize
}

/// Returns a subscriber whose output the test reads line by line.
fn reader(stage: &Stage, args: &[&str]) -> (Running, BufReader<std::process::ChildStdout>) {
    let mut command = stage.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::with_own_streams(command);
    let out = BufReader::new(running.child.stdout.take().expect("piped"));
    (running, out)
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn an_array_is_shown_by_its_type_and_shape() {
    use outlive::topic::{Header, Topic};
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let topic = Topic::<[u8]>::open_or_create(&domain, "t").expect("made");
    let publisher = topic.publisher().expect("the first");
    let payload: Vec<u8> = (0..12).flat_map(|n| (n as f32 / 2.0).to_ne_bytes()).collect();
    let mut loan = publisher.loan(payload.len()).expect("room");
    loan.copy_from_slice(&payload);
    let mut own = [0; 32];
    own[..4].copy_from_slice(&[0xa5, 2, b'f', 4]);
    own[4..12].copy_from_slice(&[3, 0, 0, 0, 4, 0, 0, 0]);
    loan.set_header(Header { own, ..Header::now() });
    publisher.publish(loan).expect("published");
    let latest = ["echo", "t", "--history", "1", "--count", "1"];
    let shown = stage.run(&latest).expect(0).text();
    assert_eq!(shown, "float32 (3, 4): 0 0.5 1 1.5 2 2.5 …\n");
    assert_eq!(stage.run(&[&latest[..], &["--raw"]].concat()).expect(0).out, payload);
    let told = stage.run(&[&latest[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&told["dtype"], &told["shape"]), (&"float32".into(), &serde_json::json!([3, 4])));
    assert!(told["hex"].is_string() || told["text"].is_string());
}

#[test]
fn lines_reach_all_who_wait_for_the_topic_to_be_made() {
    let stage = Stage::new();
    let echoes: Vec<Running> =
        (0..3).map(|_| stage.start(&["echo", "news", "--count", "3"])).collect();
    stage.feed(&["pub", "news", "--wait-for", "3"], b"one\n\ntwo words\xff").expect(0);
    for echo in echoes {
        assert_eq!(echo.end().expect(0).text(), "one\n\n74776f20776f726473ff\n");
    }
    assert_eq!(
        stage.run(&["echo", "news", "--history", "2", "-n", "2", "--hex"]).expect(0).text(),
        "\n74776f20776f726473ff\n"
    );
}

#[test]
fn any_bytes_pass_in_any_form_that_can_hold_them() {
    let stage = Stage::new();
    let bytes: Vec<u8> = (0..=255u8).cycle().take(10_000).collect();
    stage.feed(&["pub", "frames", "--frame", "2500"], &bytes).expect(0);
    assert_eq!(
        stage.run(&["echo", "frames", "--history", "9", "-n", "4", "--raw"]).expect(0).out,
        bytes
    );
    stage
        .feed(&["pub", "frames", "--frame", "2500"], &bytes[..2501])
        .expect(16)
        .says("1 of 2500 bytes")
        .says("1 message");
    stage.feed(&["pub", "nulls", "-0"], b"a\nb\0c\0").expect(0);
    assert_eq!(
        stage.run(&["echo", "nulls", "--history", "2", "-n", "2", "-0"]).expect(0).out,
        b"a\nb\0c\0"
    );
    assert_eq!(
        stage.run(&["echo", "nulls", "--history", "2", "-n", "2", "-p"]).expect(0).out,
        b"\x03\0\0\0a\nb\x01\0\0\0c"
    );
    fs::write(stage.path("one"), &bytes[..3]).expect("written");
    fs::write(stage.path("two"), &bytes).expect("written");
    let sum = stage
        .run(&["pub", "files", "one", "two", "--repeat", "--count", "5", "--json"])
        .expect(0)
        .json();
    assert_eq!((&sum["messages"], &sum["bytes"]), (&5.into(), &(3 * 3 + 2 * 10_000).into()));
    let shown = stage.run(&["echo", "files", "--history", "5", "-n", "2"]).expect(0).text();
    assert!(shown.starts_with("000102\n") && shown.ends_with("… 10,000 bytes\n"), "{shown}");
    stage.run(&["pub", "files", "missing"]).expect(6).says("missing");
    stage.run(&["pub", "x", "--frame", "0"]).expect(2);
    stage.run(&["pub", "x", "--lines", "--msgpack"]).expect(2);
}

#[test]
fn json_goes_in_as_msgpack_and_comes_out_as_json() {
    let stage = Stage::new();
    let values = "{\"speed\":1.5,\"names\":[\"größe\",null]}\n[-1,true]\n";
    stage.feed(&["pub", "drive", "--msgpack", "--key", "7"], values.as_bytes()).expect(0);
    let echo = |more: &[&str]| {
        stage.run(&[&["echo", "drive", "--history", "9", "--msgpack"][..], more].concat())
    };
    // Keys of objects come in the order of the alphabet.
    assert_eq!(
        echo(&["-n", "2"]).expect(0).text(),
        "{\"names\":[\"größe\",null],\"speed\":1.5}\n[-1,true]\n"
    );
    let told = json_lines(&echo(&["-n", "1", "--json"]).expect(0).text());
    assert_eq!(told[0]["value"]["speed"], 1.5);
    assert_eq!((&told[0]["sequence"], &told[0]["key"]), (&0.into(), &7.into()));
    assert!(told[0]["stamp"].as_u64().is_some_and(|stamp| stamp > 1_600_000_000_000_000_000));
    stage.feed(&["pub", "drive"], b"\x92\x01\n").expect(0);
    echo(&[]).expect(16).says("is no msgpack");
    stage.feed(&["pub", "drive", "--msgpack"], b"{1}").expect(16).says("no JSON");
    // A program of ours reads what was published here, and the other way round.
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let topic = outlive::topic::Topic::<[u8]>::open_or_create(&domain, "values").expect("made");
    let publisher = topic.publisher().expect("made");
    publisher.publish(outlive::Msgpack(&("text", 5))).expect("published");
    assert_eq!(
        stage.run(&["echo", "values", "--history", "1", "-n", "1", "--msgpack"]).expect(0).text(),
        "[\"text\",5]\n"
    );
}

#[test]
fn keys_are_chosen_and_old_messages_passed_over() {
    let stage = Stage::new();
    for key in ["1", "2", "3"] {
        stage.feed(&["pub", "keyed", "--key", key], format!("of {key}\n").as_bytes()).expect(0);
    }
    let text = stage
        .run(&["echo", "keyed", "--history", "9", "--key", "1", "--key", "3", "-n", "2"])
        .expect(0)
        .text();
    assert_eq!(text, "of 1\nof 3\n");
    let last =
        stage.run(&["echo", "keyed", "--history", "9", "--keep-last", "1", "-n", "1"]).expect(0);
    assert_eq!(last.text(), "of 3\n");
}

#[test]
fn echo_goes_on_when_publishers_are_killed() {
    let stage = Stage::new();
    let (echo, mut out) = reader(&stage, &["echo", "t", "--json"]);
    let mut pids = Vec::new();
    for round in 0..3 {
        let mut publisher = stage.start(&["pub", "t", "--wait-for", "1"]);
        publisher.write(format!("round {round}\n").as_bytes());
        let told: Value = serde_json::from_str(&line(&mut out)).expect("JSON");
        assert_eq!(told["text"], format!("round {round}"));
        pids.push(told["publisher"].as_u64().expect("known") as u32);
        assert_eq!(pids[round], publisher.pid());
        publisher.kill();
        publisher.end().expect(-9);
    }
    echo.signal(2);
    echo.end().expect(0);
}

#[test]
fn a_topic_that_is_removed_is_left_for_the_next_of_its_name() {
    let stage = Stage::new();
    let (echo, mut out) = reader(&stage, &["echo", "t"]);
    stage.feed(&["pub", "t", "--wait-for", "1"], b"before\n").expect(0);
    assert_eq!(line(&mut out), "before\n");
    stage.run(&["rm", "t", "--force"]).expect(0);
    stage.feed(&["pub", "t"], b"after\n").expect(0);
    assert_eq!(line(&mut out), "after\n");
    echo.signal(15);
    echo.end().expect(0).says("has been removed");
}

#[test]
fn a_reliable_subscriber_gets_all_and_its_death_releases_the_publisher() {
    let stage = Stage::new();
    let input: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    let echo = stage.start(&["echo", "t", "--reliable", "--count", "20000", "--lines"]);
    stage
        .feed(
            &["pub", "t", "--depth", "4", "--reliable", "--wait-for", "1", "--timeout", "300"],
            input.as_bytes(),
        )
        .expect(0);
    assert!(echo.end().expect(0).text() == input);

    // No process reads its output: it does not go on, and the publisher waits for it.
    let (slow, out) = reader(&stage, &["echo", "t", "--reliable", "--lines"]);
    until("it subscribes", || subscribers(&stage, "t") == 1);
    stage
        .feed(&["pub", "t", "--timeout", "0.3"], input.as_bytes())
        .expect(5)
        .says(&format!("process {}", slow.pid()))
        .says("published before");
    let mut publisher = stage.start(&["pub", "t"]);
    // No more than its pipe holds: it reads no further meanwhile.
    publisher.write(&input.as_bytes()[..50_000]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(publisher.is_running());
    slow.kill();
    publisher.end().expect(0);
    slow.end().expect(-9);
    drop(out);
}

#[test]
fn what_was_lost_is_told() {
    let stage = Stage::new();
    let (slow, mut out) = reader(&stage, &["echo", "t", "--lines"]);
    let input: String = (0..200_000).map(|number| format!("line {number}\n")).collect();
    stage.feed(&["pub", "t", "--depth", "2", "--wait-for", "1"], b"first\n").expect(0);
    assert_eq!(line(&mut out), "first\n");
    // It does not go on when the pipe is full.
    stage.feed(&["pub", "t"], input.as_bytes()).expect(0);
    slow.signal(2);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("read");
    assert!(rest.lines().count() < 200_000);
    slow.end().expect(0).says("lost");
}

#[test]
fn a_subscriber_gets_no_more_than_the_topic_offers() {
    let stage = Stage::new();
    stage.feed(&["pub", "t"], b"one\n").expect(0);
    let told = "reliability";
    stage.run(&["echo", "t", "--reliable", "--count", "1"]).expect(7).says(told);
    stage.feed(&["pub", "t", "--reliable"], b"two\n").expect(7).says("reliable");
    let two = stage.run(&["echo", "t", "--history", "9", "--count", "1", "--lines"]);
    assert_eq!(two.expect(0).text(), "one\n", "what was refused changed nothing");
}

#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    let stage = Stage::new();
    let input: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    let (echo, mut out) = reader(&stage, &["echo", "t", "--reliable"]);
    let mut publisher = stage.start(&["pub", "t", "--reliable", "--wait-for", "1"]);
    publisher.write(b"line 0\n");
    assert_eq!(line(&mut out), "line 0\n");
    drop(out);
    publisher.write(input.as_bytes());
    let ended = echo.end().expect(0);
    assert!(!ended.err.contains("Broken"), "{}", ended.err);
    publisher.end().expect(0);
}

#[test]
fn rates_widths_and_ages_are_told() {
    let stage = Stage::new();
    fs::write(stage.path("frame"), vec![7; 1000]).expect("written");
    let publisher = stage.start(&["pub", "cam", "--rate", "200", "--repeat", "frame"]);
    until("it is there", || stage.domain().join("cam").exists());
    let one = |verb: &str| {
        json_lines(&stage.run(&[verb, "cam", "-n", "1", "-i", "0.5", "--json"]).expect(0).text())
    };
    let hz = &one("hz")[0];
    assert!(
        hz["hz"].as_f64().is_some_and(|hz| hz > 1.0)
            && hz["gap_seconds"]["median"].as_f64().is_some(),
        "{hz}"
    );
    let bw = &one("bw")[0];
    assert_eq!((&bw["smallest"], &bw["largest"]), (&1000.into(), &1000.into()), "{bw}");
    let delay = &one("delay")[0];
    assert_eq!(delay["without_stamp"], 0, "{delay}");
    assert!(delay["delay_seconds"]["p99"].as_f64().is_some_and(|age| age > 0.0), "{delay}");
    for (verb, word) in [("hz", " Hz, "), ("bw", "KiB/s, "), ("delay", "median ")] {
        let text = stage.run(&[verb, "cam", "-n", "2", "-i", "0.3"]).expect(0).text();
        assert!(text.lines().count() == 2 && text.contains(word), "{text}");
    }
    let hz = stage.start(&["hz", "cam"]);
    until("it subscribes", || subscribers(&stage, "cam") == 1);
    hz.signal(2);
    hz.end().expect(0);
    publisher.signal(2);
    publisher.end().expect(0);
    let quiet = stage.run(&["hz", "cam", "-n", "1", "-i", "0.1"]).expect(0).text();
    assert_eq!(quiet, "no message, and no publisher\n");
    stage.run(&["hz", "cam", "-i", "0"]).expect(2);
}

#[test]
fn a_topic_that_is_there_is_what_was_asked_for_or_taken_as_it_is() {
    let stage = Stage::new();
    stage.feed(&["pub", "t", "--depth", "4"], b"one\n").expect(0);
    let asked = ["pub", "t", "--depth", "8", "--durability", "volatile", "--max-samples", "9"];
    stage.feed(&asked, b"two\n").expect(7).says("depth").says("durability").says("max_samples");
    // What agrees is no difference, and what is not asked for neither.
    stage.feed(&["pub", "t", "--depth", "4", "--durability", "persistent"], b"two\n").expect(0);
    stage.feed(&["pub", "t"], b"three\n").expect(0);
    stage.feed(&[&asked[..], &["--as-is"]].concat(), b"four\n").expect(0);
    // And for a new topic the options are what it is made of, with or without.
    stage.feed(&["pub", "u", "--as-is", "--depth", "2"], b"one\n").expect(0);
    stage.feed(&["pub", "u", "--depth", "2"], b"two\n").expect(0);
    let shown = stage.run(&["echo", "t", "--history", "4", "-n", "4"]).expect(0).text();
    assert_eq!(shown.lines().count(), 4, "{shown}");
}

#[test]
fn a_new_start_of_a_publisher_is_told_and_not_the_end() {
    let stage = Stage::new();
    stage.feed(&["pub", "t"], b"one\n").expect(0);
    stage.feed(&["pub", "t"], b"two\nthree\n").expect(0);
    let history = ["echo", "t", "--sessions", "--history", "9", "--count", "3"];
    let echo = stage.run(&history).expect(0).says("session 1 of 't'").says("session 2 of 't'");
    assert_eq!(echo.text(), "one\ntwo\nthree\n");
    let lines = json_lines(&stage.run(&[&history[..], &["--json"]].concat()).expect(0).text());
    let told: Vec<String> = lines
        .iter()
        .map(|line| match line["news"].as_str() {
            Some(news) => format!("{news} {}", line["session"]),
            None => format!("{} {}", line["text"].as_str().expect("text"), line["session"]),
        })
        .collect();
    assert_eq!(told, ["new_session 1", "one 1", "new_session 2", "two 2", "three 2"]);
}

#[test]
fn news_of_a_publisher_is_json_among_the_messages() {
    let stage = Stage::new();
    let mut publisher = stage.start(&["pub", "t", "--wait-for", "1"]);
    let (echo, mut out) =
        reader(&stage, &["echo", "t", "--json", "--liveliness", "50ms", "--period", "50ms"]);
    publisher.write(b"one\n");
    let mut next = || serde_json::from_str::<Value>(&line(&mut out)).expect("JSON");
    let mut seen = std::collections::BTreeMap::new();
    until("all of it was told", || {
        let told = next();
        let what = told["news"].as_str().unwrap_or("message").to_owned();
        if what == "message" && !seen.contains_key("message") {
            assert_eq!(told["text"], "one");
        }
        if what == "not_lively" && !seen.contains_key("not_lively") {
            assert_eq!(told["publisher"], publisher.pid());
            publisher.write(b"two\n");
        }
        if what == "lively" {
            publisher.kill();
        }
        seen.insert(what, told);
        ["message", "missed", "not_lively", "lively", "publisher_died"]
            .iter()
            .all(|what| seen.contains_key(*what))
    });
    assert_eq!(seen["missed"]["topic"], "t");
    assert!(seen["missed"]["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    assert_eq!(seen["publisher_died"]["publisher"], publisher.pid());
    echo.signal(2);
    echo.end().expect(0);
}

#[test]
fn messages_that_are_too_old_are_counted() {
    use outlive::topic::{Header, Outgoing, Topic};
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let topic = Topic::<[u8]>::open_or_create(&domain, "t").expect("made");
    let publisher = topic.publisher().expect("made");
    let of_1970 = Header { stamp: 1, ..Header::default() };
    for _ in 0..2 {
        publisher.publish(Outgoing::new(b"old").header(of_1970)).expect("published");
    }
    publisher.publish(b"new").expect("published");
    let shown = ["echo", "t", "--history", "9", "--count", "1", "--max-age"];
    let echo = stage.run(&[&shown[..], &["1h"]].concat()).expect(0);
    let echo = echo.says("2 messages passed over: older than --max-age");
    assert_eq!(echo.text(), "new\n");
    let all = stage.run(&[&shown[..], &["forever"]].concat()).expect(0);
    assert_eq!((all.text().as_str(), all.err.contains("passed over")), ("old\n", false));
}

#[test]
fn periods_without_a_message_are_told_as_they_pass() {
    let stage = Stage::new();
    let said = stage.path("said");
    let mut command = stage.command(["pub", "t", "--period", "20ms", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(fs::File::create(&said).expect("made"));
    let mut publisher = command.spawn().expect("starts");
    // Its input is open: nothing has ended.
    let told = || fs::read_to_string(&said).expect("read");
    until("it says so", || told().contains("no message was published for"));
    drop(publisher.stdin.take());
    let ended = publisher.wait_with_output().expect("ends");
    let sum: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert!(sum["missed"].as_u64().is_some_and(|missed| missed >= 1), "{sum}");
    assert!(told().contains("passed without a message"));
    // However short a period is, a line comes at most once a second.
    let mut command = stage.command(["pub", "t", "--period", "1us"]);
    command.stdin(Stdio::piped()).stderr(fs::File::create(&said).expect("made"));
    let begun = std::time::Instant::now();
    let mut publisher = command.spawn().expect("starts");
    until("it says so", || told().contains("no message was published for"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(publisher.stdin.take());
    publisher.wait().expect("ends");
    let most = 20 + begun.elapsed().as_secs() as usize;
    assert!(told().lines().count() < most, "{}", told());
    stage.run(&["pub", "t", "--period", "0"]).expect(2).says("more than 0");
}

/// Both verbs say the same: JSON by one set of members, and text by one set of words.
#[test]
fn what_a_publisher_offers_and_how_a_subscriber_lags_is_told() {
    use outlive::topic::{Durability, Publisher, Subscriber, Topic};
    use std::time::Duration;
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let topic = Topic::<u64>::options().depth(2).reliable(true).durability(Durability::Volatile);
    let topic = topic.open_or_create(&domain, "t").expect("made");
    drop(topic.publisher().expect("session 1"));
    let options =
        Publisher::options().max_blocking(Duration::ZERO).lifespan(Duration::from_secs(5));
    let publisher = topic.publisher_with(options).expect("session 2");
    let mut slow = topic.subscriber_with(Subscriber::options().reliable(true)).expect("subscribes");
    let send = |numbers: std::ops::Range<u64>| {
        numbers.for_each(|number| {
            publisher.publish(&number).expect("published");
        });
    };
    send(0..3);
    publisher.assert_liveliness();
    let told = |args: &[&str]| stage.run(args).expect(0).json();
    let both =
        || [told(&["topic", "info", "t", "--json", "--look", "0"]), told(&["info", "t", "--json"])];
    for report in both() {
        let wanted: [(&str, Value); 3] =
            [("durability", "volatile".into()), ("reliable", true.into()), ("stamps", true.into())];
        for (member, value) in wanted {
            assert_eq!(report[member], value, "{report}");
        }
        let publisher = &report["publishers"][0];
        assert_eq!(publisher["session"], 2);
        assert_eq!(
            (&publisher["lifespan_seconds"], &publisher["max_blocking_seconds"]),
            (&5.0.into(), &0.0.into())
        );
        assert_eq!(
            (&publisher["stopped_waiting"], &publisher["assertions"]),
            (&1.into(), &1.into())
        );
        let subscriber = &report["subscribers"][0];
        assert_eq!((&subscriber["lagging"], &subscriber["lagged"]), (&true.into(), &0.into()));
    }
    let both_texts = || {
        [&["topic", "info", "t", "--look", "0"][..], &["info", "t"]]
            .map(|args| stage.run(args).expect(0).text())
    };
    let both_say = |words: &str| {
        for text in both_texts() {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
    };
    both_say(
        "never waits for subscribers, stopped waiting once, messages count for 5s, asserted its liveliness once",
    );
    both_say("reliable, lagging: publishers do not wait");
    both_say("stamps       yes");
    both_say("durability   volatile");
    assert!(matches!(slow.recv(), Err(outlive::RecvError::Lagged { .. })));
    both_say("reliable, has lagged once");
    let text = stage.run(&["info", "t"]).expect(0).text();
    assert!(text.contains(", session 2, 3 published; never"), "{text}");
    drop((slow, publisher));
    // A publisher that waits for ever has nothing unusual about it.
    let _usual = topic.publisher().expect("session 3");
    for report in both() {
        let publisher = &report["publishers"][0];
        assert_eq!(
            (
                &publisher["session"],
                &publisher["max_blocking_seconds"],
                &publisher["lifespan_seconds"]
            ),
            (&3.into(), &Value::Null, &Value::Null)
        );
    }
}

#[test]
fn both_ends_are_told_and_the_dead_among_them() {
    let stage = Stage::new();
    fs::write(stage.path("frame"), vec![7; 5000]).expect("written");
    let publisher = stage.start(&[
        "pub",
        "cam",
        "--rate",
        "100",
        "--repeat",
        "frame",
        "--depth",
        "8",
        "--max-publishers",
        "3",
        "--max-subscribers",
        "2",
        "--max-samples",
        "10",
        "--mode",
        "640",
        "--reliable",
    ]);
    let echo = stage.start(&["echo", "cam", "--reliable", "--raw"]);
    until("it subscribes", || subscribers(&stage, "cam") == 1);
    let report = stage.run(&["topic", "info", "cam", "--json", "--look", "0.5"]).expect(0).json();
    assert_eq!(report["publishers"][0]["pid"], publisher.pid());
    assert_eq!(report["subscribers"][0]["pid"], echo.pid());
    assert_eq!(
        (&report["subscribers"][0]["reliable"], &report["depth"]),
        (&true.into(), &8.into())
    );
    let most = ["max_publishers", "max_subscribers", "max_samples"];
    assert_eq!(most.map(|what| report[what].as_u64()), [Some(3), Some(2), Some(10)]);
    assert_eq!(report["mode"], "0640");
    assert!(report["messages_per_second"].as_f64().is_some_and(|rate| rate > 1.0), "{report}");
    let text = stage.run(&["topic", "info", "cam", "--look", "0"]).expect(0).text();
    assert!(text.contains("PUBLISHER") && text.contains("reliable"), "{text}");
    assert!(text.contains("3 publishers, 2 subscribers; 10 messages held by each"), "{text}");
    assert!(text.contains("0640 (the group subscribes alone)"), "{text}");
    let listed = stage.run(&["topic", "list"]).expect(0).text();
    assert!(
        listed.lines().any(|line| line.starts_with("cam") && line.contains("bytes")),
        "{listed}"
    );
    let entry = stage.entry("cam").expect("listed");
    assert_eq!(
        (&entry["kind"], &entry["publishers"][0]["pid"]),
        (&"topic".into(), &publisher.pid().into())
    );
    assert!(
        stage
            .run(&["info", "cam"])
            .expect(0)
            .text()
            .lines()
            .any(|line| line.starts_with(&format!("subscriber   {} (outlive), ", echo.pid()))
                && line.ends_with("; reliable"))
    );

    publisher.kill();
    publisher.end().expect(-9);
    echo.kill();
    echo.end().expect(-9);
    let report = stage.run(&["topic", "info", "cam", "--json", "--look", "0"]).expect(0).json();
    assert_eq!(
        (&report["publishers"][0]["alive"], &report["subscribers"][0]["alive"]),
        (&false.into(), &false.into())
    );
    assert!(
        stage
            .run(&["topic", "list"])
            .expect(0)
            .text()
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("cam"))
    );
    assert!(stage.run(&["ls"]).expect(0).text().contains("0 publishers, 0 subscribers"));
    assert!(stage.run(&["gc"]).expect(0).text().starts_with("swept 2 claims"));
    assert_eq!(stage.entry("cam").expect("listed")["publishers"], serde_json::json!([]));
}

#[test]
fn what_is_no_topic_is_refused() {
    let stage = Stage::new();
    stage.run(&["topic", "list"]).expect(6);
    stage.feed(&["send", "q"], b"x").expect(0);
    stage.run(&["topic", "list"]).expect(0).says("no topics in");
    for args in [&["echo", "q"][..], &["hz", "q"], &["pub", "q"], &["topic", "info", "q"]] {
        stage.run(args).expect(7);
    }
    stage.run(&["topic", "info", "nobody"]).expect(6);
    stage.run(&["--no-create", "echo", "nobody"]).expect(6);
    stage.run(&["--no-create", "pub", "nobody"]).expect(6);
    stage.run(&["echo", "nobody", "--timeout", "0.1"]).expect(5).says("no message");
    stage
        .run(&["pub", "t", "--wait-for", "1", "--timeout", "0.1"])
        .expect(5)
        .says("0 of 1 subscribers");
    stage.run(&["echo", ".hidden", "--timeout", "0.1"]).expect(13);
}

#[test]
fn typed_topics_are_looked_at_as_bytes() {
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("made");
    let topic = outlive::topic::Topic::<[f32]>::open_or_create(&domain, "ranges").expect("made");
    let publisher = topic.publisher().expect("made");
    publisher.publish(&[1.0, 2.0]).expect("published");
    assert_eq!(
        stage.run(&["echo", "ranges", "--history", "1", "-n", "1"]).expect(0).text(),
        "0000803f00000040\n"
    );
    assert!(stage.run(&["topic", "list"]).expect(0).text().contains("[f32]"));
    let mut subscriber = topic.subscriber().expect("made");
    stage.feed(&["pub", "ranges", "--frame", "4"], &3.0f32.to_le_bytes()).expect(0);
    let sample =
        subscriber.recv_timeout(crate::stage::LIMIT).expect("no error").expect("published");
    assert_eq!(*sample, [3.0]);
}

#[test]
fn a_publisher_that_does_nothing_is_told_on_standard_error() {
    use outlive::topic::Topic;
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let topic = Topic::<[u8]>::open_or_create(&domain, "t").expect("made");
    let publisher = topic.publisher().expect("the first");
    let args = ["topic", "echo", "t", "--liveliness", "0.01", "--period", "0.01", "-w", "0.1"];
    let ended = stage.run(&args).expect(5);
    let pid = std::process::id();
    let ended = ended.says(&format!("pid {pid}")).says("lives and does nothing");
    // The last one says why it gives up.
    assert!(ended.err.matches("no message on 't'").count() >= 2, "{}", ended.err);
    drop(publisher);
}

#[test]
fn what_pub_publishes_counts_for_its_lifespan() {
    let stage = Stage::new();
    let args =
        ["topic", "pub", "t", "--json", "--lifespan", "1000", "--period", "1000", "--key", "7"];
    let sum = stage.feed(&args, b"one\n").expect(0).json();
    assert_eq!((&sum["messages"], &sum["missed"]), (&1.into(), &0.into()));
    let got = stage.run(&["topic", "echo", "t", "--history", "9", "-n", "1", "--json"]).expect(0);
    assert_eq!(got.json()["text"], "one");
}

/// On a terminal a person is told why nothing is to be seen.
#[test]
fn a_person_is_told_that_no_other_side_is_there() {
    let stage = Stage::new();
    let told = |args: &[&str], input: Stdio| {
        let (ours, theirs) = crate::terminal::pair();
        let mut command = stage.command(args);
        command.stdin(input).stdout(Stdio::null()).stderr(Stdio::from(theirs));
        let mut child = command.spawn().expect("started");
        // The end of this process's copy.
        drop(command);
        let (mut ours, mut text, mut bytes) = (fs::File::from(ours), Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = ours.read(&mut bytes) {
            text.extend_from_slice(&bytes[..count]);
        }
        child.wait().expect("ended");
        String::from_utf8_lossy(&text).into_owned()
    };
    fs::write(stage.path("in"), "hello\n").expect("written");
    let input = || fs::File::open(stage.path("in")).expect("there");
    let text = told(&["topic", "pub", "words"], input().into());
    assert!(text.contains("no subscriber was there"), "{text}");
    let text = told(&["topic", "echo", "words", "--timeout", "0.01"], Stdio::null());
    assert!(text.contains("'words' has no publisher; waiting for one"), "{text}");
    // And nothing where no person looks.
    assert_eq!(stage.feed(&["topic", "pub", "words"], b"x\n").expect(0).err, "");
}
