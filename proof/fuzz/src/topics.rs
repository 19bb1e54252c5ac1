//! A topic as it may be found, and everything that can be done with it.
//! Every byte of a sample is read, and of a loan written: whatever the words say, they have pages.

use std::hint::black_box;
use std::path::Path;

use outlive::Domain;
use outlive::describe::{Description, Encoding};
use outlive::topic::{Durability, Header, Publisher, Sample, Subscriber, Topic};

use crate::operations::soon;
use crate::random::Random;
use crate::world::World;

/// Its name.
pub const NAME: &str = "messages";

const LENS: [usize; 7] = [0, 48, 168, 200, 5_000, 100_000, 1 << 20];

fn open(domain: &Domain) -> Result<Topic, outlive::Error> {
    let bytes = Description::encoded("messages", Encoding::Bytes)?;
    let options = Topic::options().depth(8).max_bytes(16 << 20).reliable(true);
    let options = options.durability(Durability::Persistent);
    options.description(bytes).open_or_create(domain, NAME)
}

/// Returns the name of its control file.
pub fn control_file(folder: &Path) -> Option<String> {
    let names = std::fs::read_dir(folder).ok()?.flatten();
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|name| name.starts_with(".control-"))
}

/// Opens it, made when it is not there.
pub fn make(domain: &Domain) -> Topic {
    open(domain).expect("opens")
}

/// Publishes and takes, in a process that is then killed: with messages in place and in limbo, with
/// samples held.
pub fn claim_as_the_dying(domain: &Domain) {
    claim(domain);
}

/// The same, by a thread that lives as long as the calling process.
pub fn claim_as_the_living(domain: &Domain) {
    claim(domain);
}

fn claim(domain: &Domain) {
    let topic = make(domain);
    // It does not wait for room: no living process takes what the fuzzers publish.
    let mut subscriber = topic.subscriber().expect("a line");
    let publisher = topic.publisher().expect("a ring");
    let mut samples: Vec<Sample> = Vec::new();
    for _ in 0..3 {
        // Zeroes: what is to be scribbled over is the words that say something.
        for len in &LENS[..5] {
            publisher.publish(&vec![0; *len]).expect("room");
            samples.extend(subscriber.try_recv().expect("ours"));
        }
    }
    samples.drain(..8);
    std::mem::forget((samples, subscriber, publisher));
}

fn fill(publisher: &Publisher, random: &mut Random) {
    for mark in 0..12u8 {
        let len = *random.pick(&LENS);
        let published = if mark % 3 == 0 {
            let header = Header { key: random.below(3), ..Header::default() };
            match publisher.loan(len) {
                Ok(mut loan) => {
                    loan.iter_mut().step_by(512).for_each(|byte| *byte = mark);
                    loan.set_header(header);
                    publisher.publish_until(loan, soon())
                }
                Err(error) => Err(error),
            }
        } else {
            publisher.publish_until(&vec![mark; len], soon())
        };
        match published {
            Ok(published) => {
                black_box((published.sequence(), published.subscribers()));
            }
            Err(error) => drop(black_box(error.to_string())),
        }
        drop(black_box(publisher.try_publish(&[mark; 30]).map(drop)));
    }
    black_box((publisher.has_subscribers(), publisher.subscriber_count()));
}

fn take(subscriber: &mut Subscriber) {
    let mut samples: Vec<Sample> = Vec::new();
    for _ in 0..30 {
        match subscriber.try_recv() {
            Ok(Some(sample)) => {
                black_box(sample.iter().step_by(512).map(|byte| u64::from(*byte)).sum::<u64>());
                black_box((sample.header(), sample.publisher(), sample.order(), sample.sequence()));
                samples.push(sample);
            }
            Ok(None) => break,
            Err(error) => drop(black_box(error.to_string())),
        }
    }
    drop(black_box(subscriber.recv_until(soon()).map(drop)));
    drop(black_box(subscriber.latest().map(drop)));
    black_box((subscriber.lag(), subscriber.lost(), subscriber.publisher_count()));
}

pub fn publish(world: &World, random: &mut Random) {
    match world.topic.publisher() {
        Ok(publisher) => fill(&publisher, random),
        Err(error) => drop(black_box(error.to_string())),
    }
}

pub fn subscribe(world: &World, random: &mut Random) {
    let mut options = Subscriber::options()
        .reliable(random.below(3) == 0)
        .history(random.below(10) as u32)
        .keys(if random.below(4) == 0 { &[1] } else { &[] });
    if random.below(3) == 0 {
        options = options.keep_last(2);
    }
    match world.topic.subscriber_with(options) {
        Ok(mut subscriber) => {
            take(&mut subscriber);
            publish(world, random);
            take(&mut subscriber);
        }
        Err(error) => drop(black_box(error.to_string())),
    }
}

pub fn look(world: &World, _: &mut Random) {
    drop(black_box(world.topic.description()));
    black_box((world.topic.publishers(), world.topic.subscribers()));
    let mut presence = world.topic.watch();
    drop(black_box(presence.changed_until(soon())));
    drop(black_box(presence.changed_until(soon())));
    black_box(world.topic.is_removed());
}

/// Opens it by name, in a copy, and uses it a little.
pub fn open_and_use(domain: &Domain) {
    let Ok(topic) = open(domain) else { return };
    if let Ok(mut subscriber) = topic.subscriber_with(Subscriber::options().history(8)) {
        take(&mut subscriber);
    }
    if let Ok(publisher) = topic.publisher() {
        fill(&publisher, &mut Random::new(7));
    }
}
