//! The bridge with a real server, both killed, stopped and started anew.

mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use outlive::SendError;
use outlive::queue::{OnReceiverDeath, Queue, Receiver};
use world::{LONG, Process, Random, World, signal, until};

fn queue(world: &World, name: &str) -> Queue {
    Queue::options()
        .on_receiver_death(OnReceiverDeath::Keep)
        .open_or_create(&world.domain(), name)
        .expect("a queue")
}

fn send_numbers(queue: &Queue, numbers: std::ops::Range<u64>) {
    let sender = queue.sender().expect("a sender");
    for number in numbers {
        sender.send(&number.to_le_bytes()).expect("sent");
    }
}

/// Receives until `count` different numbers have come; returns how often each did. First arrivals
/// are in order.
fn receive_numbers(receiver: &mut Receiver, count: usize) -> BTreeMap<u64, u32> {
    let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
    let end = Instant::now() + LONG;
    while seen.len() < count {
        let message = receiver.recv_timeout(Duration::from_secs(1)).expect("readable");
        assert!(Instant::now() < end, "{} of {count} came within {LONG:?}", seen.len());
        let Some(message) = message else { continue };
        let number = u64::from_le_bytes(message.try_into().expect("a number"));
        if !seen.contains_key(&number) {
            let last = seen.last_key_value().map_or(0, |(last, _)| *last);
            assert!(seen.is_empty() || number > last, "{number} came first behind {last}");
        }
        *seen.entry(number).or_default() += 1;
    }
    seen
}

/// Returns the numbers that a stream has, in its order, and how many are marked as redelivered.
fn numbers_in(world: &World, stream: &str) -> (Vec<u64>, usize) {
    world.client(async |js| {
        let stream = js.get_stream(stream).await.expect("there");
        let state = &stream.cached_info().state;
        let (mut numbers, mut marked) = (Vec::new(), 0);
        for sequence in state.first_sequence..=state.last_sequence {
            let message = stream.get_raw_message(sequence).await.expect("there");
            numbers.push(u64::from_le_bytes(message.payload[..].try_into().expect("a number")));
            marked += usize::from(message.headers.get("Outlive-Redelivered").is_some());
        }
        (numbers, marked)
    })
}

#[test]
fn messages_go_through_a_stream_into_another_queue() {
    let Some(world) = World::new("through", "") else { return };
    send_numbers(&queue(&world, "from"), 0..3000);
    let mut out = world.bridge(&["from", "S", "--create-stream", "--exit-when-empty", "--json"]);
    assert_eq!(out.code(), Some(0), "{}", world.talk());
    assert_eq!(world.messages_in("S"), 3000);
    let mut incoming = world.bridge(&["to", "S", "--in", "--exit-when-empty", "--json"]);
    assert_eq!(incoming.code(), Some(0), "{}", world.talk());
    assert_eq!(world.counted("end", "messages"), 6000);
    let mut receiver = queue(&world, "to").receiver().expect("none yet");
    let seen = receive_numbers(&mut receiver, 3000);
    assert!(seen.values().all(|times| *times == 1));
    assert_eq!(receiver.try_recv(), Ok(None));
    assert_eq!(queue(&world, "from").counters().expect("readable").pending, 0);
}

/// The whole way, with everything killed and stopped at random.
#[test]
fn no_message_is_lost_while_bridges_and_server_are_killed() {
    const MESSAGES: u64 = 20_000;
    let Some(mut world) = World::new("kills", "") else { return };
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random(seed);
    let (from, to) = (queue(&world, "from"), queue(&world, "to"));
    let out = ["from", "S", "--create-stream", "--ack-timeout", "1s", "--json"];
    let incoming =
        ["to", "S", "--in", "--ack-wait", "1s", "--ack-timeout", "1s", "--consumer", "c", "--json"];
    let mut bridges: [Process; 2] = [world.bridge(&out), world.bridge(&incoming)];
    let sender = std::thread::spawn(move || {
        for from_number in (0..MESSAGES).step_by(20) {
            send_numbers(&from, from_number..from_number + 20);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let receiver = std::thread::spawn(move || {
        let mut receiver = to.receiver().expect("none yet");
        let seen = receive_numbers(&mut receiver, MESSAGES as usize);
        // What comes twice after the last one.
        let mut late = 0;
        while receiver.recv_timeout(Duration::from_secs(3)).expect("readable").is_some() {
            late += 1;
        }
        (seen, late)
    });
    let mut kills = [0; 5];
    while !sender.is_finished() {
        std::thread::sleep(Duration::from_millis(100 + random.below(500)));
        let what = random.below(5) as usize;
        kills[what] += 1;
        match what {
            which @ (0 | 1) => {
                bridges[which].kill();
                std::thread::sleep(Duration::from_millis(random.below(100)));
                bridges[which] = world.bridge(if which == 0 { &out } else { &incoming });
            }
            2 => {
                world.kill_server();
                std::thread::sleep(Duration::from_millis(random.below(300)));
                world.start_server();
            }
            3 => {
                world.signal_server(libc::SIGSTOP);
                std::thread::sleep(Duration::from_millis(random.below(1500)));
                // What is stopped is killed as well, now and then.
                if random.below(2) == 0 {
                    bridges[0].kill();
                    bridges[0] = world.bridge(&out);
                }
                world.signal_server(libc::SIGCONT);
            }
            _ => {
                let which = random.below(2) as usize;
                signal(&bridges[which].0, libc::SIGSTOP);
                std::thread::sleep(Duration::from_millis(random.below(700)));
                signal(&bridges[which].0, libc::SIGCONT);
            }
        }
    }
    sender.join().expect("all were sent");
    let (seen, late) = receiver.join().expect("all were received");
    let twice: u32 = seen.values().map(|times| times - 1).sum::<u32>() + late;
    let in_stream = world.messages_in("S");
    println!(
        "kills: {} of the bridge out, {} of the bridge in, {} of the server; stops: {} of the server, \
         {} of a bridge; in the stream: {in_stream}; received twice: {twice}",
        kills[0], kills[1], kills[2], kills[3], kills[4]
    );
    assert_eq!(seen.len() as u64, MESSAGES);
    assert_eq!(in_stream, MESSAGES, "the stream has each once");
    let told = world.talk().matches("may be in the queue twice").count() as u32;
    assert!(twice <= told, "{twice} came twice, and {told} were told");
}

/// What was stored and not committed is told by the stream itself, also after its duplicate window.
#[test]
fn a_killed_bridge_s_successor_sends_nothing_twice_after_the_duplicate_window() {
    let Some(world) = World::new("window", "") else { return };
    let from = queue(&world, "from");
    let out = ["from", "S", "--create-stream", "--duplicate-window", "100ms", "--json"];
    let mut random = Random(u64::from(std::process::id()));
    let (mut sent, mut open) = (0, 0);
    let mut bridge = world.bridge(&out);
    until("the stream is made", || world.talk().contains("made the stream"));
    for _ in 0..12 {
        send_numbers(&from, sent..sent + 2000);
        sent += 2000;
        std::thread::sleep(Duration::from_millis(2 + random.below(30)));
        signal(&bridge.0, libc::SIGSTOP);
        // The server takes what is on the way; then the window has passed.
        std::thread::sleep(Duration::from_millis(250));
        open +=
            u64::from(from.counters().expect("readable").pending + world.messages_in("S") > sent);
        bridge.kill();
        bridge = world.bridge(&out);
    }
    until("all are there", || world.messages_in("S") >= sent);
    until("all are committed", || from.counters().expect("readable").pending == 0);
    signal(&bridge.0, libc::SIGTERM);
    assert_eq!(bridge.code(), Some(0));
    let (numbers, _) = numbers_in(&world, "S");
    println!("{open} of 12 kills left stored messages in the queue");
    assert!(numbers.iter().copied().eq(0..sent), "each once, in order");
    assert!(open > 0, "no kill came between an acknowledgement and its commit");
}

#[test]
fn what_a_dead_bridge_had_in_flight_is_marked_as_redelivered() {
    let Some(mut world) = World::new("redelivered", "") else { return };
    let from = queue(&world, "from");
    let out = ["from", "S", "--create-stream", "--in-flight", "8"];
    let mut bridge = world.bridge(&out);
    send_numbers(&from, 0..5);
    until("five are committed", || from.counters().expect("readable").pending == 0);
    world.signal_server(libc::SIGSTOP);
    // At once: the bridge has all eight in its hands as soon as it has one.
    let numbers: Vec<[u8; 8]> = (5..25_u64).map(u64::to_le_bytes).collect();
    let numbers: Vec<&[u8]> = numbers.iter().map(|number| &number[..]).collect();
    from.sender().expect("a sender").send_batch(&numbers).expect("sent");
    std::thread::sleep(Duration::from_millis(500));
    bridge.kill();
    world.kill_server();
    world.start_server();
    let mut bridge = world.bridge(&["from", "S", "--in-flight", "8", "--exit-when-empty"]);
    assert_eq!(bridge.code(), Some(0), "{}", world.talk());
    let (numbers, marked) = numbers_in(&world, "S");
    assert!(numbers.iter().copied().eq(0..25), "{numbers:?}");
    assert_eq!(marked, 8, "those that were in flight, and no others");
}

#[test]
fn the_queue_keeps_messages_up_to_its_bound_while_the_server_is_away() {
    let Some(mut world) = World::new("away", "") else { return };
    let made = Queue::<[u8]>::options()
        .max_messages(1000)
        .on_receiver_death(OnReceiverDeath::Keep)
        .create_new(&world.domain(), "from");
    let from = made.expect("made");
    let mut bridge = world.bridge(&["from", "S", "--create-stream", "--ack-timeout", "500ms"]);
    send_numbers(&from, 0..10);
    until("ten are committed", || from.counters().expect("readable").pending == 0);
    world.kill_server();
    let sender = from.sender().expect("a sender");
    for number in 10..1010_u64 {
        sender.try_send(&number.to_le_bytes()).expect("room");
    }
    assert_eq!(sender.try_send(&[0; 8]), Err(SendError::Full { slowest: None }));
    world.start_server();
    send_numbers(&from, 1010..2000);
    until("all are committed", || from.counters().expect("readable").pending == 0);
    assert!(numbers_in(&world, "S").0.into_iter().eq(0..2000));
    signal(&bridge.0, libc::SIGTERM);
    assert_eq!(bridge.code(), Some(0));
    // It left: it did not die.
    assert!(from.receiver().is_ok());
}

#[test]
fn a_second_bridge_stands_by() {
    let Some(world) = World::new("second", "") else { return };
    let (from, to) = (queue(&world, "from"), queue(&world, "to"));
    world.make_stream("S");
    let incoming = ["to", "S", "--in", "--consumer", "c", "--ack-wait", "1s"];
    let mut first = [world.bridge(&["from", "S"]), world.bridge(&incoming)];
    let mut receiver = to.receiver().expect("none yet");
    send_numbers(&from, 0..100);
    receive_numbers(&mut receiver, 100);
    let _second = [world.bridge(&["from", "S"]), world.bridge(&incoming)];
    send_numbers(&from, 100..200);
    receive_numbers(&mut receiver, 100);
    first.iter_mut().for_each(Process::kill);
    send_numbers(&from, 200..300);
    let seen = receive_numbers(&mut receiver, 100);
    assert!(seen.into_iter().eq((200..300).map(|number| (number, 1))));
}

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

#[test]
fn a_stream_that_is_made_anew_is_not_taken_for_the_old_one() {
    let Some(world) = World::new("anew", "") else { return };
    let to = queue(&world, "to");
    let mut receiver = to.receiver().expect("none yet");
    let publish = |from: u64| {
        world.client(async |js| {
            for number in from..from + 10 {
                let sent = js.publish("S.a", number.to_le_bytes().to_vec().into()).await;
                sent.expect("sent").await.expect("stored");
            }
        });
    };
    world.make_stream("S");
    publish(0);
    let _bridge = world.bridge(&["to", "S", "--in", "--consumer", "c", "--ack-timeout", "1s"]);
    receive_numbers(&mut receiver, 10);
    world.client(async |js| js.delete_stream("S").await.map(drop).expect("there"));
    world.make_stream("S");
    publish(10);
    // The bridge asks anew when its request for messages is over.
    receive_numbers(&mut receiver, 10);
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
fn idle_bridges_use_no_processor_time() {
    let Some(world) = World::new("idle", "") else { return };
    world.make_stream("S");
    let bridges = [world.bridge(&["from", "S"]), world.bridge(&["to", "S", "--in"])];
    let from = queue(&world, "from");
    send_numbers(&from, 0..10);
    receive_numbers(&mut queue(&world, "to").receiver().expect("none yet"), 10);
    std::thread::sleep(Duration::from_millis(500));
    let before = bridges.each_ref().map(Process::processor_ms);
    std::thread::sleep(Duration::from_secs(4));
    let after = bridges.each_ref().map(Process::processor_ms);
    println!("in 4 s: {} ms out, {} ms in", after[0] - before[0], after[1] - before[1]);
    assert!((0..2).all(|which| after[which] - before[which] <= 20));
}

/// Makes a stream with a short duplicate window.
fn make_forgetful_stream(world: &World) {
    world.client(async |js| {
        let config = async_nats::jetstream::stream::Config {
            name: "S".to_owned(),
            subjects: vec!["S.>".to_owned()],
            duplicate_window: Duration::from_millis(100),
            ..Default::default()
        };
        js.create_stream(config).await.expect("made");
    });
}

/// Publishes as a bridge does that was killed before it committed.
async fn publish(js: &async_nats::jetstream::Context, queue: &Queue, number: u64) {
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Msg-Id", format!("{:016x}-{number}", queue.id()));
    let payload = number.to_le_bytes().to_vec().into();
    let sent = js.publish_with_headers("S.q", headers, payload).await.expect("sent");
    sent.await.expect("stored");
}

fn of_q(world: &World) -> Vec<u64> {
    world.client(async |js| {
        let stream = js.get_stream("S").await.expect("there");
        let mut numbers = Vec::new();
        for sequence in 1..=stream.cached_info().state.last_sequence {
            let message = stream.get_raw_message(sequence).await.expect("there");
            if message.subject.as_str() == "S.q" {
                numbers.push(u64::from_le_bytes(message.payload[..].try_into().expect("a number")));
            }
        }
        numbers
    })
}

/// doc/how-to/durable-queues.md: "Several queues, each with a subject of its own, into one stream".
#[test]
fn another_queue_s_messages_in_the_stream_do_not_hide_those_of_this_one() {
    let Some(world) = World::new("busy-other", "") else { return };
    make_forgetful_stream(&world);
    let queue = queue(&world, "q");
    send_numbers(&queue, 0..2);
    let mut receiver = queue.receiver().expect("none yet");
    let mut in_flight = receiver.in_flight();
    while in_flight.next_to_hand_out().expect("readable").is_some() {}
    drop(receiver);
    world.client(async |js| {
        publish(&js, &queue, 0).await;
        for _ in 0..700 {
            js.publish("S.other", "x".into()).await.expect("sent").await.expect("stored");
        }
        publish(&js, &queue, 1).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    });
    let mut out = world.bridge(&["q", "S", "--exit-when-empty"]);
    assert_eq!(out.code(), Some(0), "{}", world.talk());
    assert_eq!(of_q(&world), [0, 1], "what the stream has is not sent again");
}

/// Two turns at a stream that was full: 7 went in before 5, and 6 is still refused.
#[test]
fn a_message_that_went_in_before_committed_ones_is_not_sent_again() {
    let Some(world) = World::new("out-of-order", "") else { return };
    make_forgetful_stream(&world);
    let queue = queue(&world, "q");
    send_numbers(&queue, 0..8);
    let mut receiver = queue.receiver().expect("none yet");
    let mut in_flight = receiver.in_flight();
    while in_flight.next_to_hand_out().expect("readable").is_some() {}
    for _ in 0..6 {
        in_flight.commit().expect("in flight");
    }
    drop(receiver);
    world.client(async |js| {
        publish(&js, &queue, 7).await;
        publish(&js, &queue, 5).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    });
    let mut out = world.bridge(&["q", "S", "--exit-when-empty"]);
    assert_eq!(out.code(), Some(0), "{}", world.talk());
    assert_eq!(of_q(&world), [7, 5, 6], "what the stream has is not sent again");
}

/// A predecessor had more in flight than this bridge may have.
#[test]
fn a_successor_with_a_smaller_in_flight_looks_as_far_back() {
    let Some(world) = World::new("smaller", "") else { return };
    make_forgetful_stream(&world);
    let queue = queue(&world, "q");
    send_numbers(&queue, 0..1000);
    let mut receiver = queue.receiver().expect("none yet");
    for _ in 0..998 {
        receiver.recv().expect("there");
    }
    let mut in_flight = receiver.in_flight();
    while in_flight.next_to_hand_out().expect("readable").is_some() {}
    assert_eq!(in_flight.count(), 2);
    drop(receiver);
    world.client(async |js| {
        // The stream was full: the last one went in before all others, and 998 did not.
        for number in std::iter::once(999).chain(0..998) {
            let mut headers = async_nats::HeaderMap::new();
            headers.insert("Nats-Msg-Id", format!("{:016x}-{number}", queue.id()));
            headers.insert("Outlive-In-Flight", "1500");
            let payload = u64::to_le_bytes(number).to_vec().into();
            let sent = js.publish_with_headers("S.q", headers, payload).await.expect("sent");
            sent.await.expect("stored");
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    });
    let mut out = world.bridge(&["q", "S", "--in-flight", "1", "--exit-when-empty"]);
    assert_eq!(out.code(), Some(0), "{}", world.talk());
    let numbers = of_q(&world);
    assert_eq!((numbers.len(), numbers.last()), (1000, Some(&998)), "999 is not sent again");
}

/// Acknowledgements that a dead connection still brings, while the next bridge gathers: it counts
/// messages that the server no longer waits for, and takes a newer one to be the next.
#[test]
fn late_acknowledgements_of_a_lost_connection_lose_no_message() {
    use async_nats::jetstream::consumer::{AckPolicy, pull};
    use futures_util::StreamExt;
    let Some(world) = World::new("late-acks", "") else { return };
    make_forgetful_stream(&world);
    let to = queue(&world, "to");
    let bridge = world.client(async |js| {
        let config = pull::Config {
            durable_name: Some("c".to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_secs(2),
            max_ack_pending: 256,
            ..pull::Config::default()
        };
        let stream = js.get_stream("S").await.expect("there");
        let consumer = stream.create_consumer(config).await.expect("made");
        let send = async |number: u64| {
            let payload = number.to_le_bytes().to_vec().into();
            js.publish("S.q", payload).await.expect("sent").await.expect("stored");
        };
        let fetch = async |most| {
            let got = consumer.fetch().max_messages(most).messages().await.expect("asked");
            got.map(|message| message.expect("one")).collect::<Vec<_>>().await
        };
        for number in 1..=5 {
            send(number).await;
        }
        // The predecessor has three, then two more, and dies; its acknowledgements of the three are
        // in a socket whose link is slow.
        let three = fetch(3).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let two = fetch(2).await;
        assert_eq!((three.len(), two.len()), (3, 2));
        send(6).await;
        let bridge = world.bridge(&["to", "S", "--in", "--consumer", "c", "--ack-wait", "2s"]);
        tokio::time::sleep(Duration::from_millis(900)).await;
        for message in three {
            message.ack().await.expect("sent");
        }
        tokio::time::sleep(Duration::from_millis(3000)).await;
        bridge
    });
    let mut receiver = to.receiver().expect("none yet");
    let mut numbers = Vec::new();
    while let Some(message) = receiver.recv_timeout(Duration::from_secs(4)).expect("readable") {
        numbers.push(u64::from_le_bytes(message.try_into().expect("a number")));
    }
    drop(bridge);
    assert!(numbers.contains(&4) && numbers.contains(&5), "lost: {numbers:?}");
    assert!(numbers.is_sorted(), "{numbers:?}");
}

/// Both commands of doc/how-to/durable-queues.md on one machine.
#[test]
fn a_queue_is_not_fed_with_its_own_messages() {
    let Some(world) = World::new("round", "") else { return };
    let queue = queue(&world, "q");
    send_numbers(&queue, 0..3);
    let mut out = world.bridge(&["q", "S", "--create-stream", "--exit-when-empty"]);
    assert_eq!(out.code(), Some(0), "{}", world.talk());
    let mut incoming = world.bridge(&["q", "S", "--in", "--exit-when-empty"]);
    assert_eq!(incoming.code(), Some(7), "{}", world.talk());
    assert!(world.talk().contains("came out of the queue q itself"), "{}", world.talk());
    assert_eq!(queue.counters().expect("readable").pending, 0);
}

/// The consumer was removed, and made anew with another filter.
#[test]
fn what_one_filter_came_to_says_nothing_of_another_filter_s_messages() {
    let Some(world) = World::new("filters", "") else { return };
    world.make_stream("S");
    let to = queue(&world, "to");
    world.client(async |js| {
        for (subject, number) in [("S.b", 1_u64), ("S.a", 2)] {
            let payload = number.to_le_bytes().to_vec().into();
            js.publish(subject, payload).await.expect("sent").await.expect("stored");
        }
    });
    let mut receiver = to.receiver().expect("none yet");
    for (subject, number) in [("S.a", 2), ("S.b", 1)] {
        let incoming =
            ["to", "S", "--in", "--consumer", "c", "--subject", subject, "--exit-when-empty"];
        assert_eq!(world.bridge(&incoming).code(), Some(0), "{}", world.talk());
        assert!(receive_numbers(&mut receiver, 1).contains_key(&number));
        world.client(async |js| {
            let stream = js.get_stream("S").await.expect("there");
            stream.delete_consumer("c").await.expect("removed");
        });
    }
}
