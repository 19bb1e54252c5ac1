//! A sender or a receiver that the test plays: what no gateway of this version says, and what each costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::topic::{Subscriber, Topic};
use outlive_testnet::eventually;
use zenoh::Wait;

use crate::support::{LONG, LONG_LEASE, Machine, router, rules, session, topic};

/// A sender that a test plays.
struct Fake {
    session: zenoh::Session,
    _answers: Vec<zenoh::query::Queryable<()>>,
}

const ORIGIN: &str = "0123456789abcdef0123456789abcdef";

fn fake(
    endpoint: &str,
    topic: &Topic<u64>,
    asked: &Arc<AtomicU64>,
) -> (Fake, outlive_zenoh::wire::Meta) {
    let session = session(endpoint);
    let description = topic.description().expect("readable").expect("described").to_bytes();
    let meta = outlive_zenoh::wire::Meta {
        fingerprint: outlive_zenoh::wire::fingerprint("u64", Some(&description)),
        type_name: "u64".to_owned(),
        description: Some(description),
        depth: 8,
        max_bytes: 1 << 20,
        reliable: true,
        durability: 0,
    };
    let answer = meta.clone();
    let counted = Arc::clone(asked);
    let meta_at = session
        .declare_queryable(format!("@outlive/1/meta/{ORIGIN}/0000000000000001"))
        .callback(move |query| {
            let bytes = serde_json::to_vec(&answer).expect("JSON");
            query.reply(query.key_expr().clone(), bytes).wait().expect("replied");
        })
        .wait()
        .expect("declared");
    let resume = session
        .declare_queryable(format!("@outlive/1/resume/{ORIGIN}/0000000000000001"))
        .callback(move |query| {
            counted.fetch_add(1, Ordering::Relaxed);
            let list =
                outlive_zenoh::topics::resume::Summary { at: vec![(5, 0)], ..Default::default() };
            let bytes = serde_json::to_vec(&list).expect("JSON");
            query.reply(query.key_expr().clone(), bytes).wait().expect("replied");
        })
        .wait()
        .expect("declared");
    (Fake { session, _answers: vec![meta_at, resume] }, meta)
}

/// A message that arrives behind its sender's tokens' end (tokens go with the highest priority and
/// overtake) opens a stand-in for a sender that is gone, for good.
#[test]
fn a_late_message_leaves_no_publisher_of_a_sender_that_is_gone() {
    let (a, endpoint) = router(&["--lease-ms", "1000", "--allow-in", "n"]);
    let here = topic(&a, "n", 8);
    let (fake, meta) = fake(&endpoint, &here, &Arc::default());
    let token =
        |rest: String| fake.session.liveliness().declare_token(rest).wait().expect("declared");
    let publisher = token(format!(
        "@outlive/1/publisher/{ORIGIN}/0000000000000001/0000000000000003/00000005/0000000000000000/n"
    ));
    let sender = token(format!("@outlive/1/topic/{ORIGIN}/0000000000000001/0000000000000003/n"));
    a.expect("came", 1);
    std::thread::sleep(Duration::from_millis(300));
    sender.undeclare().wait().expect("gone");
    publisher.undeclare().wait().expect("gone");
    a.expect("unreachable", 1);
    assert!(eventually(LONG, || here.publishers().is_empty()));
    let attachment = outlive_zenoh::wire::Attachment {
        stream: outlive_zenoh::wire::StreamId {
            origin: outlive_zenoh::wire::Origin(u128::from_str_radix(ORIGIN, 16).expect("hex")),
            instance: 1,
            session: 5,
        },
        number: 0,
        sent: 0,
        epoch: 3,
        fingerprint: meta.fingerprint,
        is_oldest: false,
        is_thinned: false,
        header: outlive::topic::Header::default(),
    };
    let put = fake.session.put("n", 7_u64.to_le_bytes()).attachment(attachment.to_bytes());
    put.wait().expect("put");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(here.publishers().len(), 0, "{}", a.log());
}

/// Each topic's token costs a thread of the gateway, for as long as its sender does not say what it is.
#[test]
fn tokens_cost_no_thread_each() {
    let (a, endpoint) = router(&["--lease-ms", "1000", "--allow-in", "in/**"]);
    let client = session(&endpoint);
    let held = std::sync::Mutex::new(Vec::new());
    let _answers = client
        .declare_queryable("@outlive/1/meta/**")
        .callback(move |query| held.lock().expect("whole").push(query))
        .wait()
        .expect("declared");
    let pid = a.gateway.as_ref().expect("started").pid();
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("there").count();
    let before = threads();
    let _tokens: Vec<_> = (0..1500)
        .map(|at| {
            let key = format!("@outlive/1/topic/{ORIGIN}/{at:016x}/0000000000000003/in/t{at}");
            client.liveliness().declare_token(key).wait().expect("declared")
        })
        .collect();
    let begun = Instant::now();
    let mut most = 0;
    while begun.elapsed() < Duration::from_secs(5) {
        most = most.max(threads());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(most < before + 100, "{before} threads before, {most} now");
}

/// The number of the one domain whose gateway sends a topic there.
pub fn origin_of(endpoint: &str) -> String {
    let client = session(endpoint);
    let tokens = client.liveliness().get("@outlive/1/topic/**").wait().expect("asked");
    let reply = tokens.recv().expect("a token");
    let key = reply.result().expect("a token").key_expr().to_string();
    key.split('/').nth(3).expect("an origin").to_owned()
}

pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("there");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("a line");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// Acknowledgements of sessions that never were are kept, without bound.
#[test]
fn acknowledgements_are_bounded() {
    let (a, endpoint) = router(&["--lease-ms", "1000", "--allow-out", "n"]);
    let own = topic(&a, "n", 8);
    a.expect("sends", 1);
    let instance = own.instance().expect("a number");
    let client = session(&endpoint);
    let origin = origin_of(&endpoint);
    let receiver = format!("@outlive/1/receiver/{origin}/{instance:016x}/{ORIGIN}");
    let _token = client.liveliness().declare_token(receiver).wait().expect("declared");
    std::thread::sleep(Duration::from_millis(300));
    let pid = a.gateway.as_ref().expect("started").pid();
    let before = resident(pid);
    let who = outlive_zenoh::wire::Origin(u128::from_str_radix(ORIGIN, 16).expect("hex"));
    for round in 0..1000_u32 {
        let numbers = (round * 4096..(round + 1) * 4096).map(|session| (session, 1));
        let bytes = outlive_zenoh::wire::numbers_to_bytes(who, numbers);
        let put = client.put(format!("@outlive/1/ack/{origin}/{instance:016x}"), bytes);
        put.congestion_control(zenoh::qos::CongestionControl::Block).wait().expect("put");
    }
    std::thread::sleep(Duration::from_secs(3));
    let after = resident(pid);
    assert!(
        after < before + 20_000,
        "{before} KiB before, {after} after 48 MB of acknowledgements"
    );
}

/// Anyone in the network can declare that it receives, and acknowledge nothing: publishers waited for it
/// for ever.
#[test]
fn a_receiver_that_acknowledges_nothing_is_passed_over_and_told() {
    let (_folder, file) = rules("[[rule]]\nallow = 'n'\ndirection = 'out'\nhold_ms = 20000\n");
    let (a, endpoint) = router(&["--config", &file]);
    let args = [&LONG_LEASE, &["--connect", &endpoint, "--allow-in", "n"][..]].concat();
    let b = Machine::started("b", &args);
    let (own, there) = (topic(&a, "n", 8), topic(&b, "n", 8));
    let mut subscriber =
        there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    b.expect("receives", 1);
    let (client, origin) = (session(&endpoint), origin_of(&endpoint));
    let instance = own.instance().expect("a number");
    let receiver = format!("@outlive/1/receiver/{origin}/{instance:016x}/{ORIGIN}");
    let _token = client.liveliness().declare_token(receiver).wait().expect("declared");
    let publisher = own.publisher().expect("publishes");
    b.expect("came", 1);
    let (told, count) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let (mut got, mut wanted) = (Vec::new(), None);
        let mut until = std::time::Instant::now() + LONG;
        while wanted.is_none_or(|wanted| (got.len() as u64) < wanted) {
            assert!(std::time::Instant::now() < until, "{} came of {wanted:?}", got.len());
            if wanted.is_none() {
                wanted = count.try_recv().ok();
                until = std::time::Instant::now() + LONG;
            }
            let more = subscriber.recv_timeout(Duration::from_millis(100)).expect("received");
            got.extend(more.map(|sample| *sample));
        }
        got
    });
    // The other receiver takes what comes until the gateway knows of this one. Then eight have room, and it is waited
    // for.
    let mut sent = 0;
    while publisher.publish_timeout(&sent, Duration::from_secs(1)).is_ok() {
        sent += 1;
        assert!(sent < 1_000_000, "it is waited for nowhere");
    }
    assert!(sent >= 8, "{sent}");
    for number in sent..sent + 92 {
        publisher.publish_timeout(&number, LONG).expect("room in the end");
    }
    assert_eq!(a.events("slow").len(), 1);
    assert_eq!(a.events("slow")[0]["origin"], ORIGIN);
    // It costs the others nothing.
    told.send(sent + 92).expect("it reads");
    assert_eq!(reading.join().expect("whole"), (0..sent + 92).collect::<Vec<_>>());
    assert_eq!((a.events("slow").len(), b.events("lost").len()), (1, 0));
}

/// A subscriber elsewhere that stands still holds publishers no longer than that; when it goes on, it is
/// told what it lacks, and is waited for again.
#[test]
fn a_subscriber_that_stands_still_is_told_what_it_lost_and_is_waited_for_again() {
    let (_folder, file) = rules("[[rule]]\nallow = 'n'\ndirection = 'out'\nhold_ms = 10000\n");
    let (a, endpoint) = router(&["--config", &file]);
    let args = [&LONG_LEASE, &["--connect", &endpoint, "--allow-in", "n"][..]].concat();
    let b = Machine::started("b", &args);
    let (own, there) = (topic(&a, "n", 8), topic(&b, "n", 8));
    let mut subscriber =
        there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let publisher = own.publisher().expect("publishes");
    b.expect("came", 1);
    for number in 0..3000 {
        publisher.publish_timeout(&number, LONG).expect("room in the end");
    }
    a.expect("slow", 1);
    let count = |event: &serde_json::Value| event["messages"].as_u64().expect("a number");
    let lost = || b.events("lost").iter().map(count).sum::<u64>();
    let mut got = Vec::new();
    let is_all = || {
        let more = subscriber.recv_timeout(Duration::from_millis(100)).expect("received");
        got.extend(more.map(|sample| *sample));
        got.len() as u64 + lost() == 3000
    };
    assert!(eventually(LONG, is_all), "{} + {}", got.len(), lost());
    assert!(got.is_sorted(), "{got:?}");
    assert!(lost() > 0);
    // It reads again: nothing more is lost, at whatever pace within the bound.
    let before = lost();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            (3000..3100).for_each(|number| {
                publisher.publish_timeout(&number, LONG).map(drop).expect("room");
            });
        });
        for number in 3000..3100 {
            let sample = subscriber.recv_timeout(LONG).expect("no loss").expect("in time");
            assert_eq!(*sample, number);
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert_eq!(lost(), before);
}

/// So many that nothing is kept for the last ones: that is told, and they hold no publisher.
#[test]
fn receivers_of_a_topic_are_bounded() {
    let (a, endpoint) = router(&["--lease-ms", "1000", "--allow-out", "n"]);
    let own = topic(&a, "n", 8);
    a.expect("sends", 1);
    let (client, origin) = (session(&endpoint), origin_of(&endpoint));
    let instance = own.instance().expect("a number");
    let _tokens: Vec<_> = (1..=300)
        .map(|who| {
            let key = format!("@outlive/1/receiver/{origin}/{instance:016x}/{who:032x}");
            client.liveliness().declare_token(key).wait().expect("declared")
        })
        .collect();
    a.expect("refused", 1);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(a.events("refused").len(), 1);
    let why = a.events("refused")[0]["why"].as_str().expect("text").to_owned();
    assert!(why.contains("as many receivers"), "{why}");
}

/// A session becomes known while a question is under way: it is in the answer's list and not in its
/// messages. It began at the list's number, and what there was of it was passed over in silence.
#[test]
fn a_session_that_becomes_known_during_a_question_is_asked_for() {
    let (a, endpoint) = router(&["--lease-ms", "1000", "--allow-in", "n"]);
    let here = topic(&a, "n", 8);
    let (fake, _) = fake(&endpoint, &here, &Arc::default());
    let token =
        |rest: String| fake.session.liveliness().declare_token(rest).wait().expect("declared");
    let of = |kind: &str, rest: &str| {
        format!("@outlive/1/{kind}/{ORIGIN}/0000000000000001/0000000000000003/{rest}")
    };
    let _publisher = token(of("publisher", "00000005/0000000000000000/n"));
    let _sender = token(of("topic", "n"));
    a.expect("came", 1);
    std::thread::sleep(Duration::from_millis(500));
    drop(fake._answers);
    let asked = Arc::new(std::sync::Mutex::new(Vec::<Vec<(u32, u64)>>::new()));
    let (noted, words) = (Arc::clone(&asked), fake.session.clone());
    let key = |kind: &str| format!("@outlive/1/{kind}/{ORIGIN}/0000000000000001");
    let ended = key("ended");
    let resume = fake.session.declare_queryable(key("resume")).callback(move |query| {
        let question = query.payload().expect("numbers").to_bytes();
        let (_, numbers) = outlive_zenoh::wire::numbers_from_bytes(&question).expect("numbers");
        noted.lock().expect("whole").push(numbers);
        let left = outlive_zenoh::topics::stream::Ending::Left;
        words.put(&ended, outlive_zenoh::wire::ended_to_bytes(4, 3, left)).wait().expect("put");
        std::thread::sleep(Duration::from_millis(300));
        let list = outlive_zenoh::topics::resume::Summary {
            at: vec![(5, 0)],
            ended: vec![(4, 3, true)],
            ..Default::default()
        };
        let bytes = serde_json::to_vec(&list).expect("JSON");
        query.reply(query.key_expr().clone(), bytes).wait().expect("replied");
    });
    let _resume = resume.wait().expect("declared");
    let at = outlive_zenoh::wire::numbers_to_bytes(outlive_zenoh::wire::Origin(1), [(5, 1)]);
    fake.session.put(key("at"), at).wait().expect("put");
    let names = |numbers: &Vec<(u32, u64)>| numbers.contains(&(4, 0));
    let has_asked = || asked.lock().expect("whole").iter().any(names);
    assert!(eventually(LONG, has_asked), "{:?}\n{}", asked.lock(), a.log());
}

/// Of a session that no list names, and that has no number here, the sender is asked for ever.
#[test]
fn a_session_that_no_list_names_is_not_asked_for_without_end() {
    let (a, endpoint) = router(&["--lease-ms", "1000", "--allow-in", "n"]);
    let here = topic(&a, "n", 8);
    let asked = Arc::new(AtomicU64::new(0));
    let (fake, _) = fake(&endpoint, &here, &asked);
    let token =
        |rest: String| fake.session.liveliness().declare_token(rest).wait().expect("declared");
    let publisher = token(format!(
        "@outlive/1/publisher/{ORIGIN}/0000000000000001/0000000000000003/00000006/0000000000000000/n"
    ));
    let _sender = token(format!("@outlive/1/topic/{ORIGIN}/0000000000000001/0000000000000003/n"));
    a.expect("came", 1);
    publisher.undeclare().wait().expect("gone");
    std::thread::sleep(Duration::from_millis(500));
    let before = asked.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_secs(3));
    let count = asked.load(Ordering::Relaxed) - before;
    assert!(
        count < 20 && here.publishers().is_empty(),
        "{count} questions in 3 s, {} publishers",
        here.publishers().len()
    );
}
