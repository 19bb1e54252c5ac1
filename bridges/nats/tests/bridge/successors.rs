//! What a second bridge does, and what a dead one's successor finds in the stream.

use std::time::Duration;

use outlive::queue::Queue;

use crate::numbers::{make_forgetful_stream, queue, receive_numbers, send_numbers};
use crate::world::{Process, World};

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
