//! Queues, states and services: what is recorded, and what is counted as lost, is all there was; the processes
//! that use them notice nothing.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use outlive::Domain;
use outlive::queue::{OnReceiverDeath, Queue};
use outlive::rpc::Service;
use outlive::state::State;
use outlive::topic::Topic;

use crate::support::{Contents, Place, Recording, eventually, message, number, signal};

const ROLE: &str = "OUTLIVE_TEST_ROLE";
const FOLDER: &str = "OUTLIVE_TEST_FOLDER";

/// A process of a test: killed when it is dropped.
pub struct Other(Child);

impl Other {
    pub fn start(place: &Place, role: &str) -> Other {
        let mut command = Command::new(std::env::current_exe().expect("itself"));
        command.args(["kinds::role", "--exact", "--ignored", "--nocapture"]);
        command.env(ROLE, role).env(FOLDER, place.domain.path());
        Other(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts"))
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
#[ignore = "what a process of the other tests does"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let domain = Domain::open_at(std::env::var(FOLDER).expect("a folder")).expect("opens");
    let pause = || std::thread::sleep(Duration::from_micros(200));
    let who = u64::from(std::process::id()) << 32;
    match role.as_str() {
        "send" => {
            let sender = Queue::<[u8]>::open(&domain, "q").expect("there").sender().expect("one");
            for at in 0.. {
                // Every tenth does not fit into a slot.
                let len = if at % 10 == 9 { 3000 } else { 60 };
                if sender.send(&message(who | at, len)).is_err() {
                    return;
                }
                if at % 16 == 0 {
                    pause();
                }
            }
        }
        "receive" => {
            let queue = Queue::<[u8]>::open(&domain, "q").expect("there");
            let mut receiver = loop {
                if let Ok(receiver) = queue.receiver() {
                    break receiver;
                }
                pause();
            };
            while let Ok(bytes) = receiver.recv() {
                number(&bytes);
            }
        }
        "set" => {
            let state = State::<[u8]>::open_as_bytes(&domain, "s").expect("there");
            let mut writer = state.wait_to_write().expect("none");
            for at in 0.. {
                writer.set(&message(state.version() + 1, 100)).expect("set");
                if at % 8 == 0 {
                    pause();
                }
            }
        }
        "serve" => {
            let service = Service::<[u8], [u8]>::open(&domain, "c").expect("there");
            let mut server = loop {
                if let Ok(server) = service.server() {
                    break server;
                }
                pause();
            };
            while let Ok(request) = server.next() {
                let _ = request.reply(b"done");
            }
        }
        "call" => {
            let client = Service::<[u8], [u8]>::open(&domain, "c").expect("there").client();
            let client = client.expect("one");
            for at in 0.. {
                let _ = client.call_timeout(b"please", Duration::from_secs(1));
                if at % 8 == 0 {
                    pause();
                }
            }
        }
        other => panic!("{other}"),
    }
}

/// Lets the processes of these roles run beside a recorder with a name, and kills one of them, or the recorder,
/// so often. Then they end, and `settle` is called; then the recorder ends.
fn with_kills(
    place: &Place,
    option: &str,
    make: impl Fn(),
    roles: &[&str],
    rounds: usize,
    settle: impl Fn(),
) -> Contents {
    let args = ["--all", option, "-o", "out.mcap", "--as", "rec", "--flush", "5ms"];
    let mut recording = place.begin(&args, "out.mcap");
    // While it runs, so that all is counted from the beginning.
    make();
    let mut others: Vec<Other> = roles.iter().map(|role| Other::start(place, role)).collect();
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(20 + (round * 37 % 60) as u64));
        match round % (roles.len() + 1) {
            victim if victim < roles.len() => {
                others[victim].kill();
                others[victim] = Other::start(place, roles[victim]);
            }
            _ => {
                recording.kill();
                recording = Recording(place.command(&args).spawn().expect("starts"));
            }
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    others.clear();
    settle();
    // The last recorder may just have begun: it says so in the file.
    let pid = u64::from(recording.0.id());
    let file = place.file("out.mcap");
    assert!(eventually(|| {
        Contents::of(&file).events("started").iter().any(|event| event["pid"] == pid)
    }));
    recording.end();
    let contents = Contents::of(&file);
    assert!(contents.is_whole);
    contents
}

fn lost(contents: &Contents, channel: &str) -> u64 {
    let events = contents.events("lost");
    let own = events.iter().filter(|event| event["topic"] == channel);
    own.map(|event| event["count"].as_u64().expect("a number")).sum()
}

#[test]
fn messages_of_a_queue_are_recorded_or_counted_through_kills() {
    let place = Place::new("queue");
    let make = || {
        let options = Queue::<[u8]>::options().on_receiver_death(OnReceiverDeath::Keep);
        options.max_messages(256).create_new(&place.domain, "q").expect("made");
    };
    let settle = || {
        let queue = Queue::<[u8]>::open(&place.domain, "q").expect("there");
        let mut receiver = queue.receiver().expect("none lives");
        while receiver.try_recv().expect("readable").is_some() {}
    };
    let roles = ["send", "receive", "send"];
    let contents = with_kills(&place, "--queues", make, &roles, 24, settle);
    let sent =
        Queue::<[u8]>::open(&place.domain, "q").expect("there").counters().expect("them").sent;
    let mut last = BTreeMap::new();
    for (at, found) in contents.messages("queue/q").iter().enumerate() {
        let number = number(&found.bytes);
        let before = last.insert(number >> 32, number);
        assert!(before.is_none_or(|before| before < number), "{at}: of one sender in order, once");
    }
    let found = contents.messages("queue/q");
    assert!(found.windows(2).all(|two| two[0].sequence < two[1].sequence));
    let lost = lost(&contents, "queue/q");
    assert_eq!(found.len() as u64 + lost, sent, "{lost} lost");
    assert!(found.len() > 100, "{} of {sent}", found.len());
    let channel = &contents.topics["queue/q"];
    assert_eq!(channel.metadata["outlive.kind"], "queue");
    assert_eq!(channel.metadata["outlive.max_messages"], "256");
}

#[test]
fn values_of_a_state_are_recorded_or_counted_through_kills() {
    let place = Place::new("state");
    let make = || {
        State::<[u8]>::options().capacity(200).create_new(&place.domain, "s").expect("made");
    };
    let contents = with_kills(&place, "--states", make, &["set", "set"], 24, || {});
    let version = State::<[u8]>::open_as_bytes(&place.domain, "s").expect("there").version();
    let found = contents.messages("state/s");
    assert!(found.windows(2).all(|two| two[0].sequence < two[1].sequence), "each once, in order");
    for value in &found[1..] {
        assert_eq!(number(&value.bytes), u64::from(value.sequence));
    }
    let lost = lost(&contents, "state/s");
    assert_eq!(found.len() as u64 + lost, version, "{lost} lost");
    assert!(found.len() > 100, "{} of {version}", found.len());
    assert_eq!(u64::from(found.last().expect("one").sequence), version, "the last one is there");
}

#[test]
fn calls_of_a_service_are_told_or_counted_through_kills() {
    let place = Place::new("service");
    let make = || {
        Service::<[u8], [u8]>::options().create_new(&place.domain, "c").expect("made");
    };
    let roles = ["serve", "call", "call"];
    let contents = with_kills(&place, "--services", make, &roles, 24, || {});
    let service = Service::<[u8], [u8]>::open_as_bytes(&place.domain, "c").expect("there");
    let mut begun = BTreeMap::<String, Vec<String>>::new();
    for found in contents.messages("service/c") {
        let line: serde_json::Value = serde_json::from_slice(&found.bytes).expect("JSON");
        let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        begun.entry(word("call")).or_default().push(word("is"));
        assert_eq!(line["request_bytes"], 6);
        assert!(line["client"]["pid"].as_u64().is_some(), "{line}");
    }
    for (call, told) in &begun {
        let over = told.iter().filter(|is| !matches!(is.as_str(), "waiting" | "begun")).count();
        assert!(told.len() <= 2 && over <= 1, "{call}: {told:?}");
    }
    let lost = lost(&contents, "service/c");
    assert_eq!(begun.len() as u64 + lost, service.calls_made(), "{lost} lost");
    assert!(begun.len() > 20, "{}", begun.len());
}

/// Beside a recorder, a receiver gets what was sent, all of it; and the recorder what it has counted.
#[test]
fn a_receiver_gets_all_beside_a_recorder() {
    let place = Place::new("beside");
    let recording = place.begin(&["--all", "--queues", "-o", "out.mcap"], "out.mcap");
    let queue = Queue::<[u8]>::options().max_messages(64).create_new(&place.domain, "q");
    let queue = queue.expect("made");
    const SENDS: u64 = 200_000;
    std::thread::scope(|scope| {
        let sender = queue.sender().expect("one");
        scope.spawn(move || {
            for at in 0..SENDS {
                sender.send(&message(at, 30)).expect("room");
            }
        });
        let mut receiver = queue.receiver().expect("none");
        for at in 0..SENDS {
            assert_eq!(number(&receiver.recv().expect("there")), at);
        }
    });
    let counters = queue.counters().expect("readable");
    assert_eq!((counters.sent, counters.received, counters.abandoned), (SENDS, SENDS, 0));
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    let found = contents.messages("queue/q");
    for one in found {
        assert_eq!(number(&one.bytes), u64::from(one.sequence));
    }
    assert_eq!(found.len() as u64 + lost(&contents, "queue/q"), SENDS);
    assert!(found.len() >= 32, "at least what was left at the end");
}

/// What a recorder can look at in time is not lost: less than a queue's slots, and a state's buffers.
#[test]
fn what_comes_slowly_is_recorded_in_whole() {
    let place = Place::new("slow");
    let queue = Queue::<[u8]>::options().max_messages(64).create_new(&place.domain, "q");
    let state = State::<u32>::open_or_create(&place.domain, "s").expect("made");
    let (queue, mut writer) = (queue.expect("made"), state.writer().expect("none"));
    let args = ["q", "s", "--queues", "--states", "-o", "out.mcap", "--flush", "5ms"];
    let recording = place.begin(&args, "out.mcap");
    let (sender, mut receiver) = (queue.sender().expect("one"), queue.receiver().expect("none"));
    let file = place.file("out.mcap");
    for wave in 0..4 {
        for at in wave * 20..(wave + 1) * 20 {
            sender.send(&message(at, 30)).expect("room");
            assert_eq!(number(&receiver.recv().expect("there")), at);
            writer.set(&(at as u32)).expect("set");
        }
        let there = (wave as usize + 1) * 20;
        assert!(eventually(|| {
            let contents = Contents::of(&file);
            contents.messages("queue/q").len() == there
                && contents.messages("state/s").len() == there + 1
        }));
    }
    recording.end();
    let contents = Contents::of(&file);
    let numbers: Vec<u64> =
        contents.messages("queue/q").iter().map(|found| number(&found.bytes)).collect();
    assert_eq!(numbers, (0..80).collect::<Vec<_>>());
    // The value that held when the recorder came, and each later one.
    let last = contents.messages("state/s").last().expect("one");
    assert!(last.bytes.ends_with(&79_u32.to_le_bytes()), "{:?}", last.bytes);
    assert_eq!(contents.events("lost").len(), 0);
}

/// What the kinds are called, what is refused, and what a player does with them.
#[test]
fn kinds_are_chosen_and_no_topics() {
    let place = Place::new("chosen");
    let queue = Queue::<[u8]>::open_or_create(&place.domain, "q").expect("made");
    let state = State::<[f64; 3]>::open_or_create(&place.domain, "s").expect("made");
    let topic = Topic::<[u8]>::open_or_create(&place.domain, "t").expect("made");
    let output = place.command(&["q", "-o", "no.mcap"]).output().expect("starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(7) && told.contains("--queues"), "{told}");
    // Without the options nothing but topics.
    place.record(&["--all", "-o", "topics.mcap"], 1).end();
    let contents = Contents::of(&place.file("topics.mcap"));
    assert_eq!(contents.topics.keys().collect::<Vec<_>>(), ["outlive/events", "t"]);
    let args = ["--regex", "^[qst]$", "--queues", "--states", "-o", "out.mcap", "--json"];
    let mut command = place.command(&args);
    command.stdout(Stdio::piped());
    queue.sender().expect("one").send(b"for a receiver").expect("room");
    state.writer().expect("none").set(&[1.0, 2.0, 3.0]).expect("set");
    let recording = command.spawn().expect("starts");
    let file = place.file("out.mcap");
    assert!(eventually(|| {
        let contents = file.exists().then(|| Contents::of(&file));
        ["queue/q", "state/s"].iter().all(|name| {
            let channel = contents.as_ref().and_then(|contents| contents.topics.get(*name));
            channel.is_some_and(|channel| !channel.messages.is_empty())
        })
    }));
    signal(&recording, libc::SIGTERM);
    let output = recording.wait_with_output().expect("a child");
    assert!(output.status.success());
    let told = String::from_utf8(output.stdout).expect("text");
    let last: serde_json::Value =
        serde_json::from_str(told.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&last["topics"], &last["queues"], &last["states"]),
        (&1.into(), &1.into(), &1.into())
    );
    let contents = Contents::of(&place.file("out.mcap"));
    assert_eq!(contents.messages("queue/q")[0].bytes, b"for a receiver");
    let channel = &contents.topics["state/s"];
    assert_eq!(channel.metadata["outlive.kind"], "state");
    assert_eq!(channel.messages.len(), 1, "the value that holds");
    let found = queue.receiver().expect("none").try_recv().expect("readable");
    assert_eq!(found.as_deref(), Some(&b"for a receiver"[..]), "it was not taken");
    drop(topic);
    let played = place.player(&["out.mcap", "--rate", "max"]).output().expect("starts");
    let told = String::from_utf8_lossy(&played.stderr).into_owned();
    assert!(played.status.success() && told.contains("queue/q is a queue"), "{told}");
    assert!(!place.domain.contents().expect("readable").names.iter().any(|name| name == "queue.q"));
}

/// Its own words are all that a damaged queue harms.
#[test]
fn damaged_queues_do_not_end_a_recording() {
    use std::os::unix::fs::FileExt;
    let place = Place::new("damaged");
    let queue = Queue::<[u8]>::options().max_messages(64).create_new(&place.domain, "q");
    let (queue, state) = (queue.expect("made"), State::<[u8]>::open_or_create(&place.domain, "s"));
    let (sender, state) = (queue.sender().expect("one"), state.expect("made"));
    let topic = Topic::<[u8]>::options().reliable(true).open_or_create(&place.domain, "t");
    let publisher = topic.expect("made").publisher().expect("a ring");
    let service = Service::<[u8], [u8]>::options().create_new(&place.domain, "c").expect("made");
    let client = service.client().expect("one");
    let args = ["--all", "--queues", "--states", "--services", "-o", "out.mcap", "--flush", "10ms"];
    let recording = place.record(&args, 1);
    let mut seed = 7_u64;
    for round in 0..200_u64 {
        let _ = sender.try_send(&message(round, 50));
        drop(client.begin(b"please"));
        // The highest number is the one with which sums overflow.
        let word = |seed: u64| if round % 2 == 0 { u64::MAX } else { seed };
        for name in ["q", "s", "c"] {
            let file = std::fs::OpenOptions::new().write(true).open(place.domain.path().join(name));
            let file = file.expect("a file of the domain");
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
            // Behind the header, which tells what the file is.
            let at = 3 * 4096 + (seed >> 33) % 5000 / 8 * 8;
            file.write_at(&word(seed).to_le_bytes(), at).expect("written");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    publisher.publish(&message(1, 50)).map(drop).expect("published");
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    assert!(contents.is_whole && contents.messages("t").len() == 1);
    std::mem::forget((sender, state, client));
}
