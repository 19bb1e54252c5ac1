//! What passes, in order; and what a bridge costs when nothing does.

use std::time::Duration;

use outlive::SendError;
use outlive::queue::{OnReceiverDeath, Queue};

use crate::numbers::{numbers_in, queue, receive_numbers, send_numbers};
use crate::world::{Process, World, signal, until};

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

#[test]
fn idle_bridges_use_no_processor_time() {
    let Some(world) = World::new("idle", "") else { return };
    world.make_stream("S");
    let bridges = [world.bridge(&["from", "S"]), world.bridge(&["to", "S", "--in"])];
    let from = queue(&world, "from");
    send_numbers(&from, 0..10);
    receive_numbers(&mut queue(&world, "to").receiver().expect("none yet"), 10);
    std::thread::sleep(Duration::from_millis(500));
    // What a loop costs it costs all the time; beside a load, now and then even a wait costs more.
    let are_idle = |_| {
        let before = bridges.each_ref().map(Process::processor_ms);
        std::thread::sleep(Duration::from_secs(4));
        let after = bridges.each_ref().map(Process::processor_ms);
        println!("in 4 s: {} ms out, {} ms in", after[0] - before[0], after[1] - before[1]);
        (0..2).all(|which| after[which] - before[which] <= 20)
    };
    assert!((0..10).any(are_idle));
}
