//! A tap beside senders and a receiver: what it finds and what it lost are what was sent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as StdOrdering};

use super::*;
use crate::Domain;
use crate::queue::QueueOptions;

fn queue(name: &str, options: QueueOptions) -> (std::path::PathBuf, Queue<[u8]>) {
    let folder = std::env::temp_dir().join(format!("outlive-qtap-{name}-{}", std::process::id()));
    let domain = Domain::open_or_create_at(&folder).expect("opens");
    let queue = options.open_or_create(&domain, "q").expect("made");
    (folder, queue)
}

/// A message that tells its number and, by its length, whether it is whole.
fn message(number: u64, most: u64) -> Vec<u8> {
    let mut bytes = vec![number as u8; 8 + (number * 7 % (most - 7)) as usize];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn check(bytes: &[u8], most: u64) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    assert!(bytes == message(number, most), "message {number} is torn");
    number
}

/// All that a tap finds now: the messages' numbers as they tell them, and how many it lost.
fn drain(tap: &mut Tap, most: u64, found: &mut Vec<u64>) -> u64 {
    let mut lost = 0;
    loop {
        match tap.next().expect("readable") {
            None => return lost,
            Some(Tapped::Lost(count)) => lost += count,
            Some(Tapped::Damaged) => panic!("damaged"),
            Some(Tapped::Messages(messages)) => {
                for (number, bytes) in (messages.first..).zip(messages.iter()) {
                    assert_eq!(check(bytes, most), number, "the tap's own count");
                    found.push(number);
                }
            }
        }
    }
}

/// A sender, a receiver and a tap as fast as they can; the tap's last place is behind all.
fn race(name: &str, options: QueueOptions, sends: u64, most: u64, batched: bool) -> (u64, u64) {
    let (folder, queue) = queue(name, options);
    let (is_over, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut found = Vec::new();
    let mut lost = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sender = queue.sender().expect("a sender");
            let mut number = 0;
            while number < sends {
                let count = if batched { number % 5 + 1 } else { 1 }.min(sends - number);
                let all: Vec<Vec<u8>> =
                    (number..number + count).map(|number| message(number, most)).collect();
                match count {
                    1 => sender.send(&all[0]).expect("room"),
                    _ => sender
                        .send_batch(&all.iter().map(Vec::as_slice).collect::<Vec<_>>())
                        .expect("room"),
                }
                number += count;
            }
        });
        scope.spawn(|| {
            let mut receiver = queue.receiver().expect("none yet");
            for number in 0..sends {
                assert_eq!(check(&receiver.recv().expect("a message"), most), number);
                received.store(number + 1, StdOrdering::Relaxed);
            }
            is_over.store(true, StdOrdering::Release);
        });
        let mut tap = queue.tap(Some(Place::FIRST));
        loop {
            let ends = is_over.load(StdOrdering::Acquire);
            lost += drain(&mut tap, most, &mut found);
            if ends {
                break;
            }
        }
        let place = tap.place().expect("it has looked");
        assert_eq!(place.number, sends);
    });
    assert!(found.windows(2).all(|two| two[0] < two[1]), "in order, and each once");
    assert_eq!(found.len() as u64 + lost, sends);
    std::fs::remove_dir_all(&folder).expect("removed");
    (found.len() as u64, lost)
}

#[test]
fn short_messages_are_whole_and_all_are_accounted_for() {
    let options = Queue::<[u8]>::options().max_messages(64);
    let (found, _) = race("short", options, 300_000, 100, false);
    assert!(found > 0);
}

#[test]
fn a_queue_that_grows_is_followed_through_its_regions() {
    let (found, _) = race("grows", Queue::<[u8]>::options().slots(4), 100_000, 100, false);
    assert!(found > 0);
}

#[test]
fn batches_are_counted_by_their_messages() {
    let options = Queue::<[u8]>::options().max_messages(16);
    race("batches", options, 100_000, 30, true);
}

#[test]
fn long_messages_are_whole_or_lost() {
    let options = Queue::<[u8]>::options().max_messages(16);
    race("long", options, 30_000, 5000, false);
}

/// What was received lies there until it is overwritten; a tap that comes late finds the newest half.
#[test]
fn what_was_received_is_found_until_it_is_overwritten() {
    let (folder, queue) = queue("after", Queue::<[u8]>::options().max_messages(64));
    let (sender, mut receiver) =
        (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
    let mut late = queue.tap(Some(Place::FIRST));
    let mut send = |range: std::ops::Range<u64>| {
        for number in range {
            sender.send(&message(number, 100)).expect("room");
            receiver.recv().expect("there");
        }
    };
    send(0..50);
    let mut found = Vec::new();
    assert_eq!(drain(&mut late, 100, &mut found), 0);
    assert_eq!(found, (0..50).collect::<Vec<_>>());
    send(50..200);
    found.clear();
    assert_eq!(drain(&mut late, 100, &mut found), 200 - 50 - 32);
    assert_eq!(found, (168..200).collect::<Vec<_>>());
    // One that begins with what is unread.
    sender.send(&message(200, 100)).expect("room");
    let mut now = queue.tap(None);
    found.clear();
    assert_eq!(drain(&mut now, 100, &mut found), 0);
    assert_eq!(found, [200]);
    // A successor goes on at the place of the one before.
    let place = late.place().expect("it has looked");
    assert_eq!(place.number, 200);
    let mut next = queue.tap(Some(place));
    found.clear();
    assert_eq!(drain(&mut next, 100, &mut found), 0);
    assert_eq!(found, [200]);
    // A long message that is received is gone.
    for _ in 0..2 {
        sender.send(&message(201, 5000)).expect("room");
    }
    receiver.recv().expect("there");
    let long = next.next().expect("readable");
    assert!(matches!(long, Some(Tapped::Messages(long)) if long.bytes == message(201, 5000)));
    receiver.recv().expect("there");
    receiver.recv().expect("there");
    let mut lost = 0;
    while let Some(tapped) = next.next().expect("readable") {
        lost += if let Tapped::Lost(count) = tapped { count } else { 0 };
    }
    assert_eq!(lost, 1);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// A sender that died between its claim and READY: the receiver passes its slot, and so does the tap, also
/// before the receiver comes.
#[test]
fn a_dead_senders_slot_is_passed() {
    let (folder, queue) = queue("dead", Queue::<[u8]>::options().max_messages(8));
    let sender = queue.sender().expect("a sender");
    sender.send(&message(0, 100)).expect("room");
    let ring = &queue.inner().ring;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let me = queue.inner().registry.me().expect("a token");
            let slot = ring.slot(0, 1);
            slot.claim.store(SlotWord::writing(0, me.id).0, Ordering::Release);
            ring.head().regions_words[0].tail.fetch_add(1, Ordering::Release);
        });
    });
    sender.send(&message(1, 100)).expect("room");
    let (mut tap, mut found) = (queue.tap(None), Vec::new());
    // The kernel tells of the thread's end a little later.
    let ends = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while found.len() < 2 {
        assert_eq!(drain(&mut tap, 100, &mut found), 0);
        assert!(std::time::Instant::now() < ends, "{found:?}");
    }
    assert_eq!(found, [0, 1]);
    let mut receiver = queue.receiver().expect("none yet");
    for number in 0..2 {
        assert_eq!(check(&receiver.recv().expect("there"), 100), number);
    }
    // Given back by then: the same.
    found.clear();
    assert_eq!(drain(&mut queue.tap(Some(Place::FIRST)), 100, &mut found), 0);
    assert_eq!(found, [0, 1]);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// What a stray write may leave.
#[test]
fn any_words_lead_to_an_end() {
    let (folder, queue) = queue("words", Queue::<[u8]>::options().slots(4).max_bytes(1 << 20));
    let (sender, mut receiver) =
        (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
    for number in 0..40 {
        sender.send(&message(number, 600)).expect("room");
        if number > 30 {
            receiver.recv().expect("there");
        }
    }
    let ring = &queue.inner().ring;
    let head = ring.head();
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let some =
            [0, 1, 2, 5, 64, u64::MAX, CLOSED, CLOSED | 3, SEALED | 8, 1 << 31, seed, seed >> 31];
        some[(seed >> 33) as usize % some.len()]
    };
    for round in 0..30_000_u64 {
        let slot = ring.slot(0, random() % 4);
        match round % 6 {
            0 => slot.claim.store(random(), Ordering::Relaxed),
            1 => slot.head.ready.store(random(), Ordering::Relaxed),
            2 => slot.head.meta.store(random(), Ordering::Relaxed),
            3 => {
                let words = &head.receiver_words;
                words.region.store(random() as u32, Ordering::Relaxed);
                words.received.store(random(), Ordering::Relaxed);
                words.journal.store(random(), Ordering::Relaxed);
                words.next_received.store(random(), Ordering::Relaxed);
            }
            4 => {
                let region = &head.regions_words[(random() % 4) as usize];
                region.tail.store(random(), Ordering::Relaxed);
                region.head.store(random(), Ordering::Relaxed);
                // The reference of an object, and a batch's lengths.
                // SAFETY: the slot's payload is 8-aligned, and has 48 bytes at least.
                unsafe { &*slot.payload.cast::<AtomicU64>() }.store(random(), Ordering::Relaxed);
            }
            _ => head.limits[(random() % 4) as usize].store(random(), Ordering::Relaxed),
        }
        let place = Place { region: random() as u32, position: random(), number: random() };
        let from = [None, Some(Place::FIRST), Some(place)][(round % 3) as usize];
        let mut tap = queue.tap(from);
        for _ in 0..4 {
            let _ = tap.next().map(|found| found.is_some());
        }
        assert!(tap.bytes.capacity() as u64 <= LARGEST_MESSAGE);
    }
    // Not dropped in order: the words are not theirs any more.
    std::mem::forget((sender, receiver));
    std::fs::remove_dir_all(&folder).expect("removed");
}
