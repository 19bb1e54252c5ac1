//! Topics whose files a process has scribbled over: errors, or nothing; no fault, no endless loop.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use outlive::Domain;
use outlive::topic::{Header, Publisher, Subscriber, SubscriberOptions, Topic};

use crate::random::Random;
use crate::runner::World;
use crate::topics::{control_of, options, reliable};

crate::checks!(damaged_words_are_errors_or_nothing: 60, damage_beside_use: 60);

const SOON: Duration = Duration::from_micros(500);

/// Offsets of the words that say something in one of a topic's files: from the topic's own to that
/// end.
fn words_before(file: &File, spans_at: u64) -> Vec<u64> {
    let mut words = Vec::new();
    let mut at = 12_288;
    let mut page = [0; 4096];
    while at < spans_at {
        // Holes are passed over.
        match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) if data < spans_at => at = data / 4096 * 4096,
            _ => break,
        }
        let read = file.read_at(&mut page, at).expect("readable");
        let is_set = |place: &usize| page[*place..*place + 8] != [0; 8];
        words.extend(
            (0..read / 8).map(|word| word * 8).filter(is_set).map(|place| at + place as u64),
        );
        at += 4096;
    }
    words
}

/// A topic's file and its control file, each with the offsets of its words that say something.
struct Files([(File, Vec<u64>); 2]);

impl Files {
    fn of(domain: &Domain, name: &str) -> Files {
        let open = |name: &str| {
            let path = domain.path().join(name);
            File::options().read(true).write(true).open(path).expect("opens")
        };
        let (file, control) = (open(name), open(&control_of(domain)));
        let mut spans_at = [0; 8];
        file.read_exact_at(&mut spans_at, 12_288 + 16).expect("there");
        let words = words_before(&file, u64::from_le_bytes(spans_at));
        let control_words = words_before(&control, u64::MAX);
        Files([(file, words), (control, control_words)])
    }

    fn scribble(&self, random: &mut Random, count: u64) {
        for _ in 0..count {
            let (file, words) = &self.0[random.below(2) as usize];
            scribble(file, words, random, 1);
        }
    }
}

fn scribble(file: &File, words: &[u64], random: &mut Random, count: u64) {
    for _ in 0..count {
        // Beside one now and then: what is 0 says something, too.
        let at = words[random.below(words.len() as u64) as usize] + 8 * (random.below(8) / 6);
        let mut old = [0; 8];
        let _ = file.read_at(&mut old, at);
        let old = u64::from_le_bytes(old);
        let value = match random.below(8) {
            0 => random.next(),
            1 => random.below(1 << 16),
            2 => 1 << random.below(64),
            3 => u64::MAX - random.below(5),
            4 => old.wrapping_add(1),
            5 => old ^ 1 << random.below(64),
            6 => 1 << 63 | random.below(9),
            _ => 0,
        };
        file.write_all_at(&value.to_le_bytes(), at).expect("writable");
    }
}

fn publish(publisher: &Publisher, random: &mut Random) {
    for _ in 0..12 {
        let most = 1 << random.below(17);
        let len = random.below(most) as usize;
        let _ =
            publisher.publish_timeout(&vec![1; len], SOON).map(|published| published.subscribers());
        let _ = publisher.try_publish(&vec![2; len]).map(drop);
        if let Ok(mut loan) = publisher.loan(len) {
            loan.fill(3);
            loan.set_header(Header::now());
            let _ = publisher.publish_timeout(loan, SOON).map(drop);
        }
    }
    let _ = (publisher.subscriber_count(), publisher.has_subscribers());
}

fn take(subscriber: &mut Subscriber) {
    let mut kept = Vec::new();
    for _ in 0..30 {
        if let Ok(Some(sample)) = subscriber.try_recv() {
            let sum: u64 = sample.iter().step_by(64).map(|byte| u64::from(*byte)).sum();
            let _ = (
                sum,
                sample.header().time(),
                sample.publisher(),
                sample.order(),
                sample.sequence(),
            );
            kept.push(sample);
        }
        kept.truncate(10);
    }
    let _ = subscriber.recv_timeout(SOON).map(drop);
    let _ = subscriber.latest().map(drop);
    let _ = (subscriber.lag(), subscriber.lost(), subscriber.publisher_count());
    let _ = subscriber.try_recv().map(drop);
}

fn look(domain: &Domain, topic: &Topic) {
    let _ = (topic.publishers(), topic.subscribers());
    let mut presence = topic.watch();
    let _ = presence.changed_timeout(SOON);
    let _ = presence.changed_timeout(SOON);
    let _ = domain.entries().map(|entries| format!("{entries:?}"));
}

fn with(random: &mut Random) -> SubscriberOptions {
    let options = Subscriber::options()
        .reliable(random.below(2) == 0)
        .history(random.below(9) as u32)
        .keys(if random.below(4) == 0 { &[0] } else { &[] });
    if random.below(3) == 0 { options.keep_last(2) } else { options }
}

fn damaged_words_are_errors_or_nothing(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..30 {
        let name = format!("topic{round}");
        let topic = options(8).max_bytes(8 << 20).open_or_create(&domain, &name).expect("opens");
        let mut subscribers =
            [topic.subscriber_with(reliable()), topic.subscriber()].map(|one| one.expect("a line"));
        let publishers = [(); 3].map(|()| topic.publisher().expect("a ring"));
        for number in 0..6 {
            for publisher in &publishers {
                publisher.publish(&vec![7; 100 + number * 900]).expect("room");
            }
        }
        let held = subscribers.each_mut().map(|one| one.recv().expect("published"));
        let files = Files::of(&domain, &name);
        for _ in 0..3 {
            let count = 1 + random.below(20);
            files.scribble(&mut random, count);
            subscribers.iter_mut().for_each(take);
            publishers.iter().for_each(|publisher| publish(publisher, &mut random));
            look(&domain, &topic);
            let _ = domain.sweep(false);
            if let Ok(mut subscriber) = topic.subscriber_with(with(&mut random)) {
                take(&mut subscriber);
            }
            if let Ok(publisher) = topic.publisher() {
                publish(&publisher, &mut random);
            }
            let anew =
                options(8).open_or_create(&domain, &name).and_then(|topic| topic.subscriber());
            let _ = anew.map(|mut subscriber| take(&mut subscriber));
        }
        drop((held, subscribers, publishers, topic));
        let _ = domain.sweep(false);
        domain.remove(&name).expect("goes");
    }
}

fn damage_beside_use(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..4 {
        let name = format!("topic{round}");
        let topic = options(8).max_bytes(8 << 20).open_or_create(&domain, &name).expect("opens");
        let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
        let publisher = topic.publisher().expect("a ring");
        publish(&publisher, &mut random);
        take(&mut subscriber);
        let files = Files::of(&domain, &name);
        let mut scribbler = crate::child::Child::start(|| {
            let mut random = Random::from_seed(round);
            loop {
                files.scribble(&mut random, 10);
            }
        });
        for _ in 0..20 {
            publish(&publisher, &mut random);
            take(&mut subscriber);
            look(&domain, &topic);
            let _ = topic
                .subscriber_with(with(&mut random))
                .map(|mut subscriber| take(&mut subscriber));
            let _ = topic.publisher().map(|publisher| publish(&publisher, &mut random));
            let _ = domain.sweep(false);
        }
        scribbler.kill();
        domain.remove(&name).expect("goes");
    }
}
