//! What is refused: by the server, by the stream, by the bridge, and with which exit code.

use std::time::Duration;

use crate::numbers::{queue, send_numbers};
use crate::world::{World, until};

#[test]
fn a_message_that_is_too_large_stops_the_bridge_or_is_put_aside() {
    let Some(world) = World::new("large", "max_payload: 4096") else { return };
    let from = queue(&world, "from");
    let sender = from.sender().expect("a sender");
    let fill = || {
        for len in [10, 5000, 20, 5000, 30] {
            sender.send(&vec![7; len]).expect("sent");
        }
    };
    fill();
    let mut bridge = world.bridge(&["from", "S", "--create-stream", "--exit-when-empty"]);
    assert_eq!(bridge.code(), Some(10));
    assert!(
        world.talk().contains("message 1 of from (5000 bytes) is too large"),
        "{}",
        world.talk()
    );
    assert_eq!(from.counters().expect("readable").pending, 4, "it stays, and all behind it");
    let out = ["from", "S", "--exit-when-empty", "--set-aside", "large"];
    assert_eq!(world.bridge(&out).code(), Some(0));
    // The stream's own limit, which only the server knows of.
    world.client(async |js| {
        let mut config = js.get_stream("S").await.expect("there").cached_info().config.clone();
        config.max_message_size = 1000;
        js.update_stream(config).await.expect("changed");
    });
    sender.send(&[7; 2000]).expect("sent");
    assert_eq!(world.bridge(&out).code(), Some(0));
    let mut aside = queue(&world, "large").receiver().expect("none yet");
    let lengths: Vec<usize> = std::iter::from_fn(|| aside.try_recv().expect("readable"))
        .map(|message| message.len())
        .collect();
    assert_eq!(lengths, [5000, 5000, 2000]);
    assert_eq!(from.counters().expect("readable").pending, 0);
}

/// With a full stream, a large message is refused while smaller ones behind it are taken.
#[test]
fn a_message_that_the_stream_refuses_for_a_while_is_not_lost() {
    let Some(world) = World::new("full", "") else { return };
    let from = queue(&world, "from");
    let out = ["from", "S", "--create-stream", "--max-bytes", "4000"];
    let mut bridge = world.bridge(&out);
    until("the stream is made", || world.talk().contains("made the stream"));
    let sender = from.sender().expect("a sender");
    sender.send(&[0; 2000]).expect("sent");
    until("the first is committed", || from.counters().expect("readable").pending == 0);
    for (number, len) in [(1, 3000), (2, 100), (3, 3000), (4, 100)] {
        sender.send(&vec![number; len]).expect("sent");
    }
    until("the stream is full", || world.talk().contains("maximum bytes"));
    bridge.kill();
    let _bridge = world.bridge(&out);
    std::thread::sleep(Duration::from_millis(300));
    let mut found: Vec<u8> = Vec::new();
    until("all came", || {
        world.client(async |js| {
            let stream = js.get_stream("S").await.expect("there");
            let state = stream.cached_info().state.clone();
            for sequence in state.first_sequence..=state.last_sequence {
                if let Ok(message) = stream.get_raw_message(sequence).await {
                    found.push(message.payload[0]);
                    stream.delete_message(sequence).await.expect("there");
                }
            }
        });
        found.len() >= 5
    });
    until("all are committed", || from.counters().expect("readable").pending == 0);
    println!("in the stream's order: {found:?}");
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3, 4]);
}

#[test]
fn what_cannot_work_is_refused_with_its_exit_code() {
    let Some(world) = World::new("refused", "authorization { user: u, password: secret }") else {
        return;
    };
    let password = [("NATS_PASSWORD", "secret")];
    let code = |arguments: &[&str], variables: &[(&str, &str)]| {
        world.bridge_with(arguments, variables).code().expect("an exit")
    };
    assert_eq!(code(&["q", "S", "--user", "u"], &[]), 2, "no password");
    assert_eq!(code(&["q", "S", "--user", "u"], &[("NATS_PASSWORD", "wrong")]), 9);
    assert_eq!(code(&["q", "S"], &[]), 9);
    assert_eq!(code(&["q", "S", "--user", "u"], &password), 6, "no such stream");
    for name in ["a.b", "a b", "*", "", "../x", "a\r\nPUB x 0"] {
        assert_eq!(code(&["q", name, "--user", "u"], &password), 13, "{name:?}");
    }
    for subject in ["a b", "a.*", "$JS.API.STREAM.DELETE.S", "a\r\nb"] {
        let arguments = ["q", "S", "--create-stream", "--user", "u", "--subject", subject];
        assert_eq!(code(&arguments, &password), 13, "{subject:?}");
    }
    assert_eq!(code(&["a/b", "S", "--user", "u"], &password), 13);
    assert_eq!(code(&["q", "S", "--user", "u", "--no-create"], &password), 6, "no such queue");
    let file = world.folder.join("password");
    std::fs::write(&file, "secret\n").expect("written");
    let file = file.display().to_string();
    let made =
        ["q", "S", "--user", "u", "--password-file", &file, "--create-stream", "--exit-when-empty"];
    assert_eq!(code(&made, &[]), 0, "{}", world.talk());
    let other = ["q", "T", "--user", "u", "--create-stream", "--subject", "S", "--exit-when-empty"];
    assert_eq!(code(&other, &password), 15, "the subject is another stream's");
    assert!(!world.talk().contains("secret"));
    send_numbers(&queue(&world, "q"), 0..1);
    let made = ["q2", "T", "--user", "u", "--create-stream", "--exit-when-empty"];
    assert_eq!(code(&made, &password), 0);
    assert_eq!(
        code(&["q", "T", "--user", "u", "--subject", "S"], &password),
        7,
        "another stream's"
    );
    assert_eq!(queue(&world, "q").counters().expect("readable").pending, 1);
    for other in [["--in", "--out"], ["--consumer", "c"], ["--max-age", "1d"], ["--in-flight", "0"]]
    {
        assert_eq!(code(&[&["q", "S"], &other[..]].concat(), &[]), 2, "{other:?}");
    }
}

#[test]
fn a_server_with_tls_is_trusted_by_its_certificate_alone() {
    use std::process::Command;

    let folder = std::env::temp_dir().join(format!("outlive-nats-cert-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("made");
    let path = |name: &str| folder.join(name).display().to_string();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"])
        .args([
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .args(["-keyout", &path("key"), "-out", &path("cert")])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("SKIPPED tls: openssl is not installed");
        return;
    }
    let lines = format!("tls {{ cert_file: \"{}\", key_file: \"{}\" }}", path("cert"), path("key"));
    if let Some(world) = World::new("tls", &lines) {
        send_numbers(&queue(&world, "q"), 0..3);
        let cert = path("cert");
        let out = ["q", "S", "--create-stream", "--exit-when-empty", "--tls"];
        let mut refused = world.bridge(&out);
        until("the certificate is refused", || {
            world.talk().contains("certificate")
                || refused.0.try_wait().is_ok_and(|end| end.is_some())
        });
        refused.kill();
        assert_eq!(queue(&world, "q").counters().expect("readable").pending, 3);
        let trusted = [&out[..], &["--tls-ca", &cert]].concat();
        assert_eq!(world.bridge(&trusted).code(), Some(0), "{}", world.talk());
        assert_eq!(queue(&world, "q").counters().expect("readable").pending, 0);
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn an_envelope_tells_what_the_server_knows_and_keeps_hostile_headers_apart() {
    let Some(world) = World::new("envelope", "") else { return };
    world.make_stream("S");
    world.client(async |js| {
        for number in 0..3 {
            let mut headers = async_nats::HeaderMap::new();
            headers.insert("X", "quote \" brace } \\ ünï");
            let publish = js.publish_with_headers("S.a", headers, format!("{number}\n{{}}").into());
            publish.await.expect("sent").await.expect("stored");
        }
        // One is delivered to a reader that does not acknowledge it.
        let config = async_nats::jetstream::consumer::pull::Config {
            durable_name: Some("c".into()),
            ack_wait: Duration::from_millis(500),
            ..Default::default()
        };
        let consumer = js.get_stream("S").await.expect("there").create_consumer(config).await;
        let batch = consumer.expect("made").fetch().max_messages(1).messages().await;
        let mut batch = batch.expect("asked");
        assert!(futures_util::StreamExt::next(&mut batch).await.is_some());
    });
    let arguments = ["to", "S", "--in", "--consumer", "c", "--envelope", "--exit-when-empty"];
    assert_eq!(world.bridge(&arguments).code(), Some(0), "{}", world.talk());
    let mut receiver = queue(&world, "to").receiver().expect("none yet");
    for number in 0..3_u64 {
        let message = receiver.try_recv().expect("readable").expect("there");
        let end = message.iter().position(|byte| *byte == b'\n').expect("a line");
        let line: serde_json::Value = serde_json::from_slice(&message[..end]).expect("JSON");
        assert_eq!(line["subject"], "S.a");
        assert_eq!(line["sequence"], number + 1);
        assert_eq!(line["redelivered"], number == 0);
        assert_eq!(line["headers"]["X"][0], "quote \" brace } \\ ünï");
        assert_eq!(&message[end + 1..], format!("{number}\n{{}}").as_bytes());
    }
}
