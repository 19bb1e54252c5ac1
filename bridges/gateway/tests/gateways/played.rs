//! A sender or a receiver that the test plays: what no gateway of this version says, and what each costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::topic::Topic;
use outlive_testnet::eventually;
use zenoh::Wait;

use crate::support::{LONG, router, session, topic};

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
            let list = outlive_zenoh::resume::Summary { at: vec![(5, 0)], ..Default::default() };
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
    let (a, endpoint) = router(&["--allow-in", "n"]);
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
    let (a, endpoint) = router(&["--allow-in", "in/**"]);
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

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("there");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("a line");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// Acknowledgements of sessions that never were are kept, without bound.
#[test]
fn acknowledgements_are_bounded() {
    let (a, endpoint) = router(&["--allow-out", "n"]);
    let own = topic(&a, "n", 8);
    a.expect("sends", 1);
    let instance = own.instance().expect("a number");
    let client = session(&endpoint);
    let tokens = client.liveliness().get("@outlive/1/topic/**").wait().expect("asked");
    let reply = tokens.recv().expect("a token");
    let key = reply.result().expect("a token").key_expr().to_string();
    let origin = key.split('/').nth(3).expect("an origin").to_owned();
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

/// Of a session that no list names, and that has no number here, the sender is asked for ever.
#[test]
fn a_session_that_no_list_names_is_not_asked_for_without_end() {
    let (a, endpoint) = router(&["--allow-in", "n"]);
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
