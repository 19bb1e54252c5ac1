//! What comes from the network may be anything: bytes at the parsers, and a session that means no good at
//! gateways while a good stream goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outlive::describe::Description;
use outlive::topic::{Header, Subscriber, Topic};
use outlive_testnet::{eventually, free_port};
use outlive_zenoh::topics::resume::Summary;
use outlive_zenoh::topics::stream::Ending;
use outlive_zenoh::wire::{self, Attachment, MOST_NUMBER, Meta, Origin, StreamId};
use outlive_zenoh::{keys, names};
use zenoh::Wait;
use zenoh::query::Query;

use crate::support::{LONG, Machine, Pose, session};

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn one_of<'o, T: ?Sized>(&mut self, of: &[&'o T]) -> &'o T {
        of[self.below(of.len())]
    }

    /// Changes bytes as a bad program would: bits, whole numbers, cuts, repeats.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(7) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.next() as u8),
                2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                3 if at < bytes.len() => {
                    bytes[at] = [0, 0xff, 0x7f, 0x80, b'/', b'"', b'9'][self.below(7)];
                }
                4 => {
                    let number = [0, 1, u64::MAX, MOST_NUMBER, u64::from(u32::MAX), 1 << 31];
                    let number = number[self.below(6)].to_le_bytes();
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].copy_from_slice(&number[..end - at]);
                }
                5 => {
                    let len = self.below(40);
                    bytes.extend((0..len).map(|_| self.next() as u8));
                }
                _ => {
                    let part = bytes[at..].to_vec();
                    bytes.extend(part.iter().take(200));
                }
            }
            bytes.truncate(4096);
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        self.mutate(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

const HOSTILE: Origin = Origin(0xbad);

fn attachment(instance: u64, session: u32, number: u64, fingerprint: u64) -> Attachment {
    Attachment {
        stream: StreamId { origin: HOSTILE, instance, session },
        number,
        sent: 1,
        epoch: 2,
        fingerprint,
        is_oldest: false,
        is_thinned: false,
        header: Header { stamp: 5, frame: 6, key: 7, own: [8; 32] },
    }
}

fn meta(type_name: &str, description: Option<Vec<u8>>) -> Meta {
    Meta {
        fingerprint: wire::fingerprint(type_name, description.as_deref()),
        type_name: type_name.to_owned(),
        description,
        depth: 16,
        max_bytes: 1 << 22,
        reliable: true,
        durability: 1,
    }
}

#[test]
fn no_bytes_break_a_parser_and_what_is_read_is_what_was_meant() {
    const ROUNDS: usize = 40_000;
    let mut dice = Dice(0x5eed_0001);
    let whole = attachment(3, 4, 5, 6).to_bytes();
    let short = Attachment { header: Header::default(), ..attachment(1, 2, 3, 4) }.to_bytes();
    let numbers = wire::numbers_to_bytes(HOSTILE, [(1, 2), (3, u64::MAX), (u32::MAX, 0)]);
    let ended = wire::ended_to_bytes(1, 2, Ending::Died);
    let description = Description::of::<Pose>().to_bytes();
    let summary = br#"{"at":[[1,2],[3,4]],"ended":[[5,6,true]],"messages":[[1,1]]}"#;
    let meta = serde_json::to_vec(&meta("Pose", Some(description.clone()))).expect("JSON");
    let stream = StreamId { origin: HOSTILE, instance: 1, session: 2 };
    let all_keys = [
        keys::topic(HOSTILE, 1, 2, "a/b"),
        keys::publisher(stream, 3, 4, "a/b"),
        keys::receiver(HOSTILE, 1, Origin(2)),
        keys::message("ack", HOSTILE, 1),
    ];
    let mut read = [0_u32; 8];
    for _ in 0..ROUNDS {
        let mut bytes = dice.one_of(&[&whole[..], &short]).to_vec();
        dice.mutate(&mut bytes);
        if let Some(attachment) = Attachment::from_bytes(&bytes) {
            read[0] += 1;
            assert!(attachment.number <= MOST_NUMBER);
            assert_eq!(Attachment::from_bytes(&attachment.to_bytes()), Some(attachment));
        }
        let mut bytes = numbers.clone();
        dice.mutate(&mut bytes);
        if let Some((who, numbers)) = wire::numbers_from_bytes(&bytes) {
            read[1] += 1;
            assert_eq!(wire::numbers_to_bytes(who, numbers), bytes);
        }
        let mut bytes = ended.clone();
        dice.mutate(&mut bytes);
        if let Some((session, until, ending)) = wire::ended_from_bytes(&bytes) {
            read[2] += 1;
            assert!(until <= MOST_NUMBER);
            assert_eq!(wire::ended_to_bytes(session, until, ending), bytes);
        }
        let mut bytes = description.clone();
        dice.mutate(&mut bytes);
        if let Some(description) = Description::from_bytes(&bytes) {
            read[3] += 1;
            let again = Description::from_bytes(&description.to_bytes()).expect("reads its own");
            assert_eq!(again.to_bytes(), description.to_bytes());
            let _ = (description.size(), description.fits(dice.below(100)));
            let _ = description.difference(&Description::of::<Pose>());
        }
        let mut bytes = summary.to_vec();
        dice.mutate(&mut bytes);
        read[4] += u32::from(Summary::from_bytes(&bytes).is_some());
        let mut bytes = meta.clone();
        dice.mutate(&mut bytes);
        if let Ok(meta) = serde_json::from_slice::<Meta>(&bytes) {
            read[5] += 1;
            let _ = meta.description.map(|bytes| Description::from_bytes(&bytes));
        }
        let key = dice.one_of(&[&all_keys[0], &all_keys[1], &all_keys[2], &all_keys[3]]);
        let key = dice.text(key);
        if let Some((topic, epoch, rest)) = keys::parse_topic(&key) {
            read[6] += 1;
            assert_eq!(keys::topic(topic.origin, topic.instance, epoch, rest), key);
        }
        if let Some((_, from, _)) = keys::parse_publisher(&key) {
            assert!(from <= MOST_NUMBER);
        }
        if let Some((topic, who)) = keys::parse_receiver(&key) {
            assert_eq!(keys::receiver(topic.origin, topic.instance, who), key);
        }
        let key = dice.text("camera/front/raw");
        if let Ok(name) = names::name_of(&key) {
            read[7] += 1;
            assert_eq!(names::key_of(&name).as_deref(), Ok(&*key));
            assert!(name.len() <= 200 && !name.contains(['/', '*', '$', '?', '#', '\0', '\n']));
            assert!(name.split('.').all(|part| !part.is_empty() && !part.starts_with('@')));
            assert!(!name.starts_with("outlive-gateway."));
        }
    }
    // Of each kind some got through: the changes are not all too coarse.
    assert!(read.iter().all(|read| *read > 100), "{read:?}");
}

#[test]
fn deep_and_long_words_are_refused() {
    for deep in ["[", "{\"at\":", "[["] {
        let deep = deep.repeat(1 << 20);
        assert!(Summary::from_bytes(deep.as_bytes()).is_none());
        assert!(serde_json::from_str::<Meta>(&deep).is_err());
    }
    for number in [MOST_NUMBER + 1, u64::MAX] {
        let at = format!(r#"{{"at":[[1,{number}]],"ended":[],"messages":[]}}"#);
        assert!(Summary::from_bytes(at.as_bytes()).is_none());
        let ended = format!(r#"{{"at":[],"ended":[[1,{number},true]],"messages":[]}}"#);
        assert!(Summary::from_bytes(ended.as_bytes()).is_none());
        assert!(Attachment::from_bytes(&attachment(1, 1, number, 1).to_bytes()).is_none());
        assert!(wire::ended_from_bytes(&wire::ended_to_bytes(1, number, Ending::Left)).is_none());
        let stream = StreamId { origin: HOSTILE, instance: 1, session: 1 };
        assert!(keys::parse_publisher(&keys::publisher(stream, 1, number, "a")).is_none());
    }
}

fn status(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// What a hostile host says that it sends: a struct, bytes, and what cannot be.
fn hostile_meta(dice: &mut Dice, instance: u64) -> Vec<u8> {
    let pose = Description::of::<Pose>().to_bytes();
    let meta = match instance % 4 {
        0 => return serde_json::to_vec(&meta("u8", None)).expect("JSON"),
        1 => return serde_json::to_vec(&meta("Pose", Some(pose))).expect("JSON"),
        2 => Meta {
            depth: u32::MAX,
            max_bytes: u64::MAX,
            durability: 255,
            ..meta(&"\u{1b}[2J\n".repeat(dice.below(5000)), Some(pose))
        },
        _ => meta("Pose", Some(pose)),
    };
    let mut bytes = serde_json::to_vec(&meta).expect("JSON");
    if !instance.is_multiple_of(8) {
        dice.mutate(&mut bytes);
    }
    bytes
}

/// Answers that a sender would not give.
fn hostile_answer(dice: &mut Dice, query: &Query, instance: u64) {
    for _ in 0..dice.below(20) {
        let session = dice.below(6) as u32;
        let number = [dice.below(20) as u64, MOST_NUMBER, u64::MAX][dice.below(3)];
        let mut bytes = Attachment {
            is_oldest: dice.below(3) == 0,
            is_thinned: dice.below(5) == 0,
            ..attachment(instance, session, number, wire::fingerprint("u8", None))
        }
        .to_bytes();
        if dice.below(3) == 0 {
            dice.mutate(&mut bytes);
        }
        let len = [0, 1, 32, 5000, 3_000_000][dice.below(5)];
        let _ = query.reply(query.key_expr().clone(), vec![7_u8; len]).attachment(bytes).wait();
    }
    let number = [0, 5, MOST_NUMBER, u64::MAX][dice.below(4)];
    let mut bytes = format!(
        r#"{{"at":[[0,{number}],[1,7],[9,{number}]],"ended":[[2,{number},true],[3,1,false]],"messages":[]}}"#
    )
    .into_bytes();
    if dice.below(2) == 0 {
        dice.mutate(&mut bytes);
    }
    let _ = query.reply(query.key_expr().clone(), bytes).wait();
}

/// One thing that a hostile session does.
fn do_harm(dice: &mut Dice, client: &zenoh::Session, good: &[(Origin, u64)]) {
    let instance = dice.below(40) as u64;
    let (origin, known) = good[dice.below(good.len())];
    let len = [0, 1, 31, 32, 33, 4097, 100_000, 8_000_000][dice.below(8)];
    // The longest ones seldom.
    let len = if len > 100_000 && dice.below(20) != 0 { 8 } else { len };
    match dice.below(9) {
        0 => {
            let key = dice.text("in/some/where");
            let _ = client.put(key, vec![1_u8; len]).wait();
        }
        1 => {
            let key = dice.one_of(&[
                "in/../../x",
                "in/.tokens",
                "outlive-gateway/default/journal",
                "outlive-gateway/second/journal",
                "out/side",
                "in/*",
                "in/**",
                "**",
            ]);
            let _ = client.put(key, "x").wait();
        }
        2 | 3 => {
            let (session, number) = (dice.below(700) as u32, dice.below(3000) as u64);
            let fingerprint = wire::fingerprint("u8", None) ^ u64::from(dice.below(4) == 0);
            let mut bytes = attachment(instance & !3, session, number, fingerprint).to_bytes();
            if dice.below(3) == 0 {
                dice.mutate(&mut bytes);
            }
            let _ = client.put("in/known", vec![2_u8; len]).attachment(bytes).wait();
        }
        4 => {
            let kind = dice.one_of(&["ended", "at"]);
            let mut bytes = match kind {
                "ended" => wire::ended_to_bytes(dice.below(9) as u32, dice.next(), Ending::Died),
                _ => wire::numbers_to_bytes(
                    HOSTILE,
                    (0..dice.below(5000)).map(|session| (session as u32, u64::MAX)),
                ),
            };
            dice.mutate(&mut bytes);
            let _ = client.put(keys::message(kind, HOSTILE, instance), bytes).wait();
        }
        5 => {
            let first = dice.next() as u32;
            let sessions = (0..dice.below(4000) as u32).map(|at| (first.wrapping_add(at), 1));
            let mut bytes = wire::numbers_to_bytes(HOSTILE, sessions);
            if dice.below(2) == 0 {
                dice.mutate(&mut bytes);
            }
            let _ = client.put(keys::message("ack", origin, known), bytes).wait();
        }
        6 => {
            let kind = dice.one_of(&["meta", "resume"]);
            let mut bytes = wire::numbers_to_bytes(HOSTILE, [(1, 0), (2, u64::MAX)]);
            dice.mutate(&mut bytes);
            let wait = Duration::from_millis(5);
            let key =
                keys::message(kind, origin, if dice.below(3) == 0 { instance } else { known });
            let _ = client.get(key).payload(bytes).timeout(wait).wait();
        }
        7 => {
            let key = match dice.below(3) {
                0 => format!("in/topic{instance}"),
                1 => dice.text("in/token"),
                _ => "out/side".to_owned(),
            };
            let key = keys::topic(HOSTILE, instance, dice.next() % 100, &key);
            // It goes at once.
            drop(client.liveliness().declare_token(key).wait());
        }
        _ => {
            let stream = StreamId { origin: HOSTILE, instance, session: dice.next() as u32 % 5000 };
            let key = keys::publisher(stream, 1, dice.next(), &format!("in/topic{instance}"));
            drop(client.liveliness().declare_token(key).wait());
        }
    }
}

#[test]
fn a_hostile_session_breaks_nothing_and_the_good_stream_goes_on() {
    const SPAN: Duration = Duration::from_secs(8);
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let rules = ["--allow-out", "good/**", "--allow-in", "in/**"];
    let mut a =
        Machine::started("a", &[&["--mode", "router", "--listen", &endpoint], &rules[..]].concat());
    let mut b = Machine::started(
        "b",
        &["--connect", &endpoint, "--allow-in", "good/**", "--allow-in", "in/**"],
    );
    let options = || Topic::<u64>::options().depth(64).reliable(true).described();
    let topic = options().open_or_create(&a.domain, "good.stream").expect("made");
    let there = options().open_or_create(&b.domain, "good.stream").expect("made");
    let mut subscriber =
        there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let publisher = topic.publisher().expect("publishes");
    b.expect("came", 1);

    let client = session(&endpoint);
    // It knows what all in a network know.
    let tokens = client.liveliness().get(keys::all("topic")).wait().expect("asked");
    let good: Vec<(Origin, u64)> = tokens
        .iter()
        .filter_map(|reply| {
            let sample = reply.into_result().ok()?;
            let (topic, ..) = keys::parse_topic(sample.key_expr().as_str())?;
            Some((topic.origin, topic.instance))
        })
        .collect();
    assert_eq!(good.len(), 1);
    let dice = Arc::new(Mutex::new(Dice(0x5eed_0002)));
    let _answers = ["meta", "resume"].map(|kind| {
        let dice = Arc::clone(&dice);
        let answer = move |query: Query| {
            let mut dice = dice.lock().expect("no panic");
            let key = query.key_expr().clone();
            if let Some(topic) = keys::parse("meta", key.as_str()) {
                // Some never say.
                if topic.instance % 16 != 5 {
                    let _ = query.reply(&key, hostile_meta(&mut dice, topic.instance)).wait();
                }
            } else if let Some(topic) = keys::parse("resume", key.as_str()) {
                hostile_answer(&mut dice, &query, topic.instance);
            }
        };
        let queryable = client.declare_queryable(keys::all_of(kind, HOSTILE));
        queryable.callback(answer).wait().expect("declared")
    });
    let _tokens: Vec<_> = (0..40)
        .map(|instance| {
            let key = keys::topic(HOSTILE, instance, 1, &format!("in/topic{instance}"));
            client.liveliness().declare_token(key).wait().expect("declared")
        })
        .collect();

    let stop = AtomicBool::new(false);
    let published = AtomicU64::new(0);
    let count = std::thread::scope(|scope| {
        let (stop, published) = (&stop, &published);
        let publishing = scope.spawn(move || {
            let mut count = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                publisher.publish_timeout(&count, LONG).expect("room");
                count += 1;
                published.store(count, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(500));
            }
            // It stays: its end is none of this test's business.
            std::mem::forget(publisher);
            count
        });
        let harming = scope.spawn(|| {
            let mut dice = Dice(0x5eed_0003);
            let begun = Instant::now();
            let mut done = 0_u64;
            while begun.elapsed() < SPAN {
                do_harm(&mut dice, &client, &good);
                done += 1;
            }
            stop.store(true, Ordering::Relaxed);
            done
        });
        let mut wanted = 0;
        let (mut since, mut slowest) = (Instant::now(), Duration::ZERO);
        // All that was published comes, however slow the machine is.
        while !publishing.is_finished() || wanted < published.load(Ordering::Relaxed) {
            assert!(since.elapsed() < LONG, "{wanted} have come\n{}", b.log());
            if let Some(sample) =
                subscriber.recv_timeout(Duration::from_millis(100)).expect("received")
            {
                assert_eq!(*sample, wanted);
                wanted += 1;
                slowest = slowest.max(since.elapsed());
                since = Instant::now();
            }
        }
        let count = publishing.join().expect("published");
        println!(
            "{} things, {count} messages, the slowest {slowest:?}",
            harming.join().expect("done")
        );
        assert_eq!(wanted, count, "{}", b.log());
        count
    });
    assert!(count > 0);
    for machine in [&mut a, &mut b] {
        let gateway = machine.gateway.as_mut().expect("started");
        assert!(gateway.is_running(), "{}", machine.log());
        let pid = gateway.pid();
        let (memory, threads) = (status(pid, "VmRSS:"), status(pid, "Threads:"));
        println!("{memory} KiB, {threads} threads, {} lines", machine.log().lines().count());
        assert!(memory < 1_500_000, "{memory} KiB");
        assert!(threads < 150, "{threads} threads");
        assert!(machine.log().len() < 4 << 20, "{}", machine.log().len());
        assert!(!machine.log().contains("panicked"), "{}", machine.log());
        for name in machine.domain.contents().expect("readable").names {
            let is_allowed = name.starts_with("in.")
                || name.starts_with("outlive-gateway.default.")
                || ["good.stream", "in"].contains(&&*name);
            assert!(is_allowed, "{name}\n{}", machine.log());
        }
    }
    assert_eq!(b.events("lost").iter().filter(|lost| lost["name"] == "good.stream").count(), 0);
    // They still do what they should.
    let fine = Topic::<[u8]>::open_or_create(&b.domain, "in.fine").expect("made");
    let mut subscriber = fine.subscriber().expect("joins");
    assert!(eventually(LONG, || {
        client.put("in/fine", "yes").wait().expect("put");
        subscriber.recv_timeout(Duration::from_millis(50)).expect("received").is_some()
    }));
}
