//! Queues of numbers, and streams of them.

use std::collections::BTreeMap;
use std::time::Duration;

use outlive::queue::{OnReceiverDeath, Queue, Receiver};

use crate::world::{LONG, World};

pub fn queue(world: &World, name: &str) -> Queue {
    Queue::options()
        .on_receiver_death(OnReceiverDeath::Keep)
        .open_or_create(&world.domain(), name)
        .expect("a queue")
}

pub fn send_numbers(queue: &Queue, numbers: std::ops::Range<u64>) {
    let sender = queue.sender().expect("a sender");
    for number in numbers {
        sender.send(&number.to_le_bytes()).expect("sent");
    }
}

/// Receives until `count` different numbers have come; returns how often each did. First arrivals
/// are in order.
pub fn receive_numbers(receiver: &mut Receiver, count: usize) -> BTreeMap<u64, u32> {
    let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
    while seen.len() < count {
        // All of them may take long where much is killed: the next one does not.
        let message = receiver.recv_timeout(LONG).expect("readable");
        let message = message.unwrap_or_else(|| panic!("{} of {count} came", seen.len()));
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
pub fn numbers_in(world: &World, stream: &str) -> (Vec<u64>, usize) {
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

/// Makes a stream with a short duplicate window.
pub fn make_forgetful_stream(world: &World) {
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
