//! zenoh programs that are no gateways, and hosts that mean no good.

use std::sync::mpsc;
use std::time::Duration;

use outlive::topic::Topic;
use outlive_testnet::eventually;
use zenoh::Wait;

use crate::support::{LONG, Machine, all, pair, router, session, topic};

#[test]
fn zenoh_programs_read_and_write_the_same_keys() {
    let (a, endpoint) = router(&["--allow", "**"]);
    let client = session(&endpoint);
    let (sender, received) = mpsc::channel();
    let subscriber = client.declare_subscriber("camera/**").callback(move |sample| {
        let _ =
            sender.send((sample.key_expr().to_string(), sample.payload().to_bytes().into_owned()));
    });
    let subscriber = subscriber.wait().expect("declared");
    let topic = Topic::<[u8]>::open_or_create(&a.domain, "camera.front").expect("made");
    let publisher = topic.publisher().expect("publishes");
    a.expect("sends", 1);
    // What is put before zenoh knows of the subscriber goes nowhere.
    let arrived = eventually(LONG, || {
        publisher.publish(&b"frame"[..]).expect("room");
        received
            .recv_timeout(Duration::from_millis(50))
            .is_ok_and(|(key, bytes)| (key.as_str(), &bytes[..]) == ("camera/front", &b"frame"[..]))
    });
    assert!(arrived, "{}", a.log());
    subscriber.undeclare().wait().expect("undeclared");

    let commands = Topic::<[u8]>::open_or_create(&a.domain, "drive.speed").expect("made");
    let mut subscriber = commands.subscriber().expect("joins");
    let arrived = eventually(LONG, || {
        client.put("drive/speed", "fast").wait().expect("put");
        let sample = subscriber.recv_timeout(Duration::from_millis(50)).expect("received");
        sample.is_some_and(|sample| *sample == b"fast"[..])
    });
    assert!(arrived, "{}", a.log());
}

#[test]
fn hostile_keys_and_bytes_are_refused_and_nothing_is_made() {
    let (a, endpoint) = router(&["--allow-in", "in/**"]);
    let before = a.domain.contents().expect("readable").names;
    let client = session(&endpoint);
    let origin = "0123456789abcdef0123456789abcdef";
    for key in [
        "in/../../etc/passwd".to_owned(),
        "in/.tokens".to_owned(),
        format!("in/{}", "x".repeat(300)),
        "out/side".to_owned(),
    ] {
        client.put(&key, "x").wait().expect("put");
    }
    // A gateway's words, of no gateway.
    for (kind, rest) in
        [("ended", ""), ("at", ""), ("ack", ""), ("resume", ""), ("meta", ""), ("topic", "/zz")]
    {
        for bytes in [&b""[..], b"OLV1", &[0xff; 13], &[0; 4096]] {
            let key = format!("@outlive/1/{kind}/{origin}/0000000000000001{rest}");
            client.put(&key, bytes).wait().expect("put");
            let _ = client.get(&key).payload(bytes).timeout(Duration::from_millis(20)).wait();
        }
    }
    for attachment in
        [vec![], b"OLV1".to_vec(), vec![0xff; 80], [&b"OLV1"[..], &[0xff; 124]].concat()]
    {
        client.put("in/known", "x").attachment(attachment).wait().expect("put");
    }
    // A sender that does not say what it sends, or says what cannot be.
    let token = format!("@outlive/1/topic/{origin}/0000000000000002/0000000000000003/in/liar");
    let queryable = format!("@outlive/1/meta/{origin}/0000000000000002");
    let answer = client.declare_queryable(queryable).callback(|query| {
        let meta = r#"{"type_name":"x","description":[1,2,3],"depth":4294967295,"max_bytes":18446744073709551615,
            "reliable":true,"durability":9,"fingerprint":1}"#;
        let _ = query.reply(query.key_expr().clone(), meta).wait();
    });
    let _answer = answer.wait().expect("declared");
    let _token = client.liveliness().declare_token(token).wait().expect("declared");
    assert!(eventually(LONG, || a.log().contains("in/liar")), "{}", a.log());
    let mut names = a.domain.contents().expect("readable").names;
    names.retain(|name| !before.contains(name) && name != "in.known");
    assert_eq!(names, [] as [&str; 0], "{}", a.log());
    // It still works.
    assert!(a.log().contains("'.'"), "{}", a.log());
    let topic = Topic::<[u8]>::open_or_create(&a.domain, "in.fine").expect("made");
    let mut subscriber = topic.subscriber().expect("joins");
    assert!(eventually(LONG, || {
        client.put("in/fine", "yes").wait().expect("put");
        subscriber.recv_timeout(Duration::from_millis(50)).expect("received").is_some()
    }));
}

/// At whatever moment a publisher begins beside its topic's making, here and there.
#[test]
fn publishers_that_begin_as_their_topics_are_opened_come() {
    let (a, b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let mut all = Vec::new();
    for round in 0..200_u64 {
        let name = format!("n.{round}");
        let own = topic(&a, &name, 8);
        let there = topic(&b, &name, 8);
        std::thread::sleep(Duration::from_micros(round * 37 % 5000));
        let publisher = own.publisher().expect("publishes");
        b.expect("came", all.len() + 1);
        all.push((publisher, own, there));
    }
}

/// Gateways with nothing to do sleep.
#[test]
fn idle_gateways_sleep() {
    let (a, b) = pair(&["--allow-out", "n"], &["--allow-in", "n"]);
    let (own, there) = (topic(&a, "n", 8), topic(&b, "n", 8));
    let mut subscriber = there.subscriber().expect("joins");
    let publisher = own.publisher().expect("publishes");
    b.expect("came", 1);
    publisher.publish(&1).expect("room");
    assert_eq!(all(&mut subscriber, 1), [1]);
    let ticks = |machine: &Machine| {
        let pid = machine.gateway.as_ref().expect("started").pid();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("there");
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .expect("fields")
            .split_whitespace()
            .filter_map(|f| f.parse().ok())
            .collect();
        // ppid is the first number: utime and stime are 10 behind it.
        fields[10] + fields[11]
    };
    // What a loop costs it costs all the time; beside a load, now and then even a sleep costs more.
    let is_idle = |_| {
        let before = (ticks(&a), ticks(&b));
        std::thread::sleep(Duration::from_secs(10));
        let after = (ticks(&a), ticks(&b));
        println!("ticks of 10 ms in 10 s: {} and {}", after.0 - before.0, after.1 - before.1);
        after.0 - before.0 < 10 && after.1 - before.1 < 10
    };
    assert!((0..6).any(is_idle));
}
