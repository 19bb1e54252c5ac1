//! Bridges and the server killed, stopped and started anew: nothing is lost, and little comes twice.

use std::time::{Duration, Instant};

use crate::numbers::{make_forgetful_stream, numbers_in, queue, receive_numbers, send_numbers};
use crate::world::{LONG, Process, Random, World, signal, until};

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
    let mut kills = 0;
    // More, where no kill of these came between an acknowledgement and its commit.
    while kills < 12 || open == 0 && kills < 60 {
        kills += 1;
        let stored = world.messages_in("S");
        send_numbers(&from, sent..sent + 2000);
        sent += 2000;
        // However long a new bridge takes to connect: it is stopped in the middle of these.
        until("some are stored", || world.messages_in("S") > stored);
        std::thread::sleep(Duration::from_millis(random.below(8)));
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
    println!("{open} of {kills} kills left stored messages in the queue");
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
    std::thread::sleep(Duration::from_secs(3));
    bridge.kill();
    world.kill_server();
    world.start_server();
    let mut bridge = world.bridge(&["from", "S", "--in-flight", "8", "--exit-when-empty"]);
    assert_eq!(bridge.code(), Some(0), "{}", world.talk());
    let (numbers, marked) = numbers_in(&world, "S");
    assert!(numbers.iter().copied().eq(0..25), "{numbers:?}");
    assert_eq!(marked, 8, "those that were in flight, and no others");
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
        // The last one that the stream has is acknowledged once the bridge has passed on the others.
        let end = Instant::now() + LONG;
        while consumer.get_info().await.expect("answered").ack_floor.stream_sequence < 6 {
            assert!(Instant::now() < end, "not within {LONG:?}: {}", world.talk());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bridge
    });
    let mut receiver = to.receiver().expect("none yet");
    let mut numbers = Vec::new();
    while let Some(message) = receiver.try_recv().expect("readable") {
        numbers.push(u64::from_le_bytes(message.try_into().expect("a number")));
    }
    drop(bridge);
    assert!([4, 5, 6].iter().all(|n| numbers.contains(n)), "lost: {numbers:?}; {}", world.talk());
    assert!(numbers.is_sorted(), "{numbers:?}; {}", world.talk());
}
