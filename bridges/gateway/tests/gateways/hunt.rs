//! Findings of a hostile reading: each test fails while the finding stands.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use outlive::RecvError;
use outlive::topic::{Durability, Subscriber, Topic};
use outlive_testnet::{Folder, Relay, eventually, free_port};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zenoh::Wait;

use crate::passing::pair;
use crate::support::{LONG, Machine};

fn topic(machine: &Machine, name: &str, depth: u32) -> Topic<u64> {
    let options = Topic::<u64>::options().depth(depth).reliable(true).described().as_is();
    options.open_or_create(&machine.domain, name).expect("made")
}

/// All that comes until nothing has come for so long.
fn all(subscriber: &mut Subscriber<u64>, quiet: Duration) -> Vec<u64> {
    let mut got = Vec::new();
    while let Ok(Some(sample)) = subscriber.recv_timeout(quiet) {
        got.push(*sample);
    }
    got
}

fn client(endpoint: &str) -> zenoh::Session {
    let mut config = zenoh::Config::default();
    for (key, value) in [
        ("mode", "\"client\"".to_owned()),
        ("connect/endpoints", format!("[\"{endpoint}\"]")),
        ("scouting/multicast/enabled", "false".to_owned()),
    ] {
        config.insert_json5(key, &value).expect("valid");
    }
    zenoh::open(config).wait().expect("connects")
}

fn router(rules: &[&str]) -> (Machine, String) {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let args = [&["--mode", "router", "--listen", &endpoint], rules].concat();
    (Machine::started("router", &args), endpoint)
}

/// F1: a refusal that the gateway itself publishes ends its own sender of that topic.
#[test]
fn f1_a_refusal_does_not_end_the_sender_here() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let b = Machine::started("b", &["--listen", &endpoint, "--allow", "**"]);
    let there =
        Topic::<u32>::options().depth(8).described().open_or_create(&b.domain, "x").expect("made");
    let publisher = there.publisher().expect("publishes");
    let c = Machine::started("c", &["--connect", &endpoint, "--allow-in", "**"]);
    c.expect("came", 1);
    let at_c = Topic::<u32>::options().described().open(&c.domain, "x").expect("made");
    let mut subscriber = at_c.subscriber().expect("joins");
    publisher.publish(&1).expect("room");
    assert_eq!(*subscriber.recv_timeout(LONG).expect("received").expect("in time"), 1);
    // A third machine with another type, which only leaves.
    let a = Machine::started("a", &["--connect", &endpoint, "--allow-out", "**"]);
    topic(&a, "x", 8);
    b.expect("refused", 1);
    std::thread::sleep(Duration::from_millis(300));
    for number in 2..5 {
        publisher.publish(&number).expect("room");
    }
    for number in 2..5 {
        let sample = subscriber.recv_timeout(Duration::from_secs(3)).expect("received");
        assert_eq!(sample.map(|sample| *sample), Some(number), "B:\n{}\nC:\n{}", b.log(), c.log());
    }
}

/// F2: a gateway's successor does not know the receivers whose tokens came before its senders did.
fn f2(pads: usize, kills: bool) {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let b = Machine::started("b", &["--listen", &endpoint, "--allow-in", "zz"]);
    let mut a = Machine::new("a", &["--connect", &endpoint, "--allow-out", "**"]);
    for pad in 0..pads {
        topic(&a, &format!("pad{pad}"), 8);
    }
    let own = topic(&a, "zz", 8);
    let there = topic(&b, "zz", 8);
    let mut slow = there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let publisher = own.publisher().expect("publishes");
    a.start();
    b.expect("came", 1);
    if kills {
        a.kill();
        b.expect("unreachable", 1);
        a.start();
        b.expect("came", 2);
    }
    std::thread::sleep(Duration::from_secs(3));
    let mut published = 0;
    for number in 0..3000_u64 {
        if publisher.publish_timeout(&number, Duration::from_secs(1)).is_err() {
            break;
        }
        published += 1;
    }
    let got = all(&mut slow, Duration::from_secs(3)).len();
    let told = b.events("lost");
    // 8 here, 8 there, and what is under way.
    assert!(published < 100, "{published} published, none is waited for; {got} received; {told:?}");
    assert_eq!(got, published);
}

#[test]
fn f2_control_without_a_death() {
    f2(150, false);
}

#[test]
fn f2_a_sender_s_successor_holds_for_receivers() {
    f2(150, true);
}

#[test]
fn f2_a_sender_s_successor_holds_for_receivers_of_its_one_topic() {
    f2(0, true);
}

/// F3: a new publisher while the link is cut: both gateways live.
fn f3(durability: Durability, leaves: bool) {
    let port = free_port();
    let a = Machine::started("a", &["--listen", &format!("tcp/127.0.0.1:{port}"), "--allow", "**"]);
    let relay = Relay::to(([127, 0, 0, 1], port).into());
    let b =
        Machine::started("b", &["--connect", &format!("tcp/{}", relay.address()), "--allow", "**"]);
    let of = |machine: &Machine| {
        let options = Topic::<u64>::options().depth(64).reliable(true).described();
        options.durability(durability).open_or_create(&machine.domain, "n").expect("made")
    };
    let (own, there) = (of(&a), of(&b));
    let mut subscriber = there.subscriber().expect("joins");
    let first = own.publisher().expect("publishes");
    b.expect("came", 1);
    std::thread::sleep(Duration::from_millis(300));
    first.publish(&0).expect("room");
    assert_eq!(all(&mut subscriber, Duration::from_secs(1)), [0]);
    relay.refuse();
    relay.cut();
    b.expect("unreachable", 1);
    let second = own.publisher().expect("publishes");
    for number in 100..105 {
        second.publish(&number).expect("room");
    }
    let second = (!leaves).then_some(second);
    first.publish(&1).expect("room");
    std::thread::sleep(Duration::from_millis(100));
    relay.accept();
    b.expect("came", 2);
    let mut got = all(&mut subscriber, Duration::from_secs(2));
    got.sort_unstable();
    let lost = b.events("lost");
    drop(second);
    assert!(
        got == [1, 100, 101, 102, 103, 104] || !lost.is_empty(),
        "{got:?}, told lost: {lost:?}"
    );
}

#[test]
fn f3_a_publisher_that_comes_and_leaves_while_the_link_is_cut_loses_nothing() {
    f3(Durability::TransientLocal, true);
}

/// F4: messages that a rule leaves out are sent again by the answers to `at`.
#[test]
fn f4_what_a_rule_leaves_out_stays_out() {
    let rules = "[[rule]]\nallow = 'n'\ndirection = 'out'\nkeep_every = 10\n";
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let config = Folder::new("config");
    let file = config.join("gateway.toml");
    std::fs::write(&file, rules).expect("written");
    let a =
        Machine::started("a", &["--listen", &endpoint, "--config", file.to_str().expect("text")]);
    let b = Machine::started("b", &["--connect", &endpoint, "--allow-in", "n"]);
    let own = topic(&a, "n", 64);
    let publisher = own.publisher().expect("publishes");
    b.expect("came", 1);
    let there = topic(&b, "n", 64);
    let mut subscriber = there.subscriber().expect("joins");
    for number in 0..35 {
        publisher.publish(&number).expect("room");
    }
    let got = all(&mut subscriber, Duration::from_secs(3));
    assert_eq!(got, [0, 10, 20, 30], "lost told: {:?}", b.events("lost"));
}

/// F5: `create = false`, or "make the topic first": made later, it never comes in.
#[test]
fn f5_a_topic_that_is_made_later_comes_in() {
    let rules = "[[rule]]\nallow = 'n'\ndirection = 'in'\ncreate = false\n";
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let config = Folder::new("config");
    let file = config.join("gateway.toml");
    std::fs::write(&file, rules).expect("written");
    let a = Machine::started("a", &["--listen", &endpoint, "--allow", "**"]);
    let b =
        Machine::started("b", &["--connect", &endpoint, "--config", file.to_str().expect("text")]);
    let own = topic(&a, "n", 64);
    let _publisher = own.publisher().expect("publishes");
    b.expect("refused", 1);
    let there = topic(&b, "n", 64);
    let came = eventually(Duration::from_secs(6), || there.publishers().len() == 1);
    assert!(came, "{}", b.log());
}

/// F6: the same for zenoh programs, also where the topic was removed and made anew.
#[test]
fn f6_strangers_come_into_a_topic_that_is_made_anew() {
    let (a, endpoint) = router(&["--allow-in", "in/**"]);
    let client = client(&endpoint);
    let arrives = |topic: &Topic<[u8]>| {
        let mut subscriber = topic.subscriber().expect("joins");
        eventually(Duration::from_secs(5), || {
            client.put("in/x", "yes").wait().expect("put");
            matches!(subscriber.recv_timeout(Duration::from_millis(50)), Ok(Some(_)))
        })
    };
    let first = Topic::<[u8]>::open_or_create(&a.domain, "in.x").expect("made");
    assert!(arrives(&first), "the first");
    drop(first);
    a.domain.remove("in.x").expect("removed");
    let second = Topic::<[u8]>::open_or_create(&a.domain, "in.x").expect("made");
    assert!(arrives(&second), "the second: {}", a.log());
}

/// F7: a name that gateways keep for themselves can be made from outside: the gateway of that name cannot
/// start any more.
#[test]
fn f7_names_of_gateways_cannot_be_made_from_outside() {
    let (a, endpoint) = router(&["--allow-in", "**"]);
    let client = client(&endpoint);
    client.put("outlive-gateway/second/journal", "x").wait().expect("put");
    client.put("probe", "x").wait().expect("put");
    assert!(eventually(LONG, || a
        .domain
        .contents()
        .expect("readable")
        .names
        .contains(&"probe".to_owned())));
    let names = a.domain.contents().expect("readable").names;
    assert!(!names.contains(&"outlive-gateway.second.journal".to_owned()), "{names:?}");
}

fn brief(machine: &Machine, name: &str, count: u64) {
    let gateway = Path::new(env!("CARGO_BIN_EXE_outlive-gateway"));
    let mut command = Command::new(gateway.with_file_name("examples").join("brief"));
    command.arg(machine.path()).args([name, &count.to_string()]);
    assert!(command.status().expect("starts").success());
}

/// F8: publishers that left in order while the gateway was stopped have "died".
#[test]
fn f8_who_left_in_order_has_not_died() {
    let (mut a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let _own = topic(&a, "n", 64);
    b.expect("receives", 1);
    brief(&a, "n", 1);
    b.expect("left", 1);
    a.gateway.as_mut().expect("started").stop();
    for _ in 0..100 {
        brief(&a, "n", 1);
    }
    a.gateway.as_mut().expect("started").go_on();
    eventually(Duration::from_secs(10), || a.events("left").len() + a.events("died").len() >= 101);
    let there = (b.events("left").len(), b.events("died").len());
    assert_eq!((a.events("left").len(), a.events("died").len()), (101, 0), "there: {there:?}");
}

/// F8b: without any stop: `outlive pub` in a loop.
#[test]
fn f8b_publishers_in_a_loop_all_leave() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let _own = topic(&a, "n", 64);
    b.expect("receives", 1);
    for _ in 0..300 {
        brief(&a, "n", 2);
    }
    eventually(Duration::from_secs(10), || b.events("left").len() + b.events("died").len() >= 300);
    std::thread::sleep(Duration::from_secs(1));
    let all = |is: &str| b.events(is).len();
    assert_eq!(
        (all("left"), all("died"), all("came"), all("lost")),
        (300, 0, 300, 0),
        "left, died, came, lost; there {:?}",
        a.events("left").len()
    );
}

/// F9: publishers that come and go at once, several at a time: each ends once, behind its messages, and none
/// stays.
fn f9(threads: u64, rounds: u64) {
    let (a, b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let own = topic(&a, "n", 64);
    let there = topic(&b, "n", 64);
    b.expect("receives", 1);
    let mut subscriber =
        there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let mut got = HashMap::<u64, Vec<u64>>::new();
    let over = &AtomicBool::new(false);
    let mut errors = Vec::<RecvError>::new();
    let mut late = 0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let own = &own;
                    scope.spawn(move || {
                        for round in 0..rounds {
                            let publisher = own.publisher().expect("publishes");
                            for number in 0..5 {
                                let value = (thread * rounds + round) * 5 + number;
                                if publisher
                                    .publish_timeout(&value, Duration::from_secs(8))
                                    .is_err()
                                {
                                    eprintln!("publisher {thread} of round {round} is held");
                                    return;
                                }
                            }
                        }
                    });
                }
            });
            over.store(true, Ordering::Release);
        });
        loop {
            let was_over = over.load(Ordering::Acquire);
            match subscriber.recv_timeout(Duration::from_secs(2)) {
                Ok(Some(value)) => got.entry(*value / 5).or_default().push(*value % 5),
                Ok(None) if was_over => break,
                Ok(None) => late += 1,
                Err(error) => errors.push(error),
            }
        }
    });
    let whole = got.values().filter(|numbers| **numbers == [0, 1, 2, 3, 4]).count() as u64;
    let stay = there.publishers().len();
    let came = b.events("came").len();
    let ended = b.events("left").len() as u64;
    assert_eq!(
        (
            whole,
            stay,
            ended,
            b.events("died").len(),
            b.events("lost").len(),
            b.events("refused").len()
        ),
        (threads * rounds, 0, threads * rounds, 0, 0, 0),
        "whole, stay, left, died, lost, refused; came {came}, errors {errors:?}, quiet {late}; left told by A {}",
        a.events("left").len()
    );
}

#[test]
fn f9_brief_publishers_one_after_the_other() {
    f9(1, 200);
}

#[test]
#[ignore = "beside a load not all of them have come when it stops waiting: cause not known"]
fn f9_brief_publishers_eight_at_a_time() {
    f9(8, 100);
}

#[test]
fn f9_brief_publishers_four_at_a_time() {
    f9(4, 50);
}

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
    let session = client(endpoint);
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

/// F10: a message that arrives behind its sender's tokens' end (tokens go with the highest priority and
/// overtake) opens a stand-in for a sender that is gone, for good.
#[test]
fn f10_a_late_message_leaves_no_publisher_of_a_sender_that_is_gone() {
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

/// F11: each topic's token costs a thread of the gateway, for as long as its sender does not say what it is.
#[test]
fn f11_tokens_cost_no_thread_each() {
    let (a, endpoint) = router(&["--allow-in", "in/**"]);
    let client = client(&endpoint);
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

/// F12: acknowledgements of sessions that never were are kept, without bound.
#[test]
fn f12_acknowledgements_are_bounded() {
    let (a, endpoint) = router(&["--allow-out", "n"]);
    let own = topic(&a, "n", 8);
    a.expect("sends", 1);
    let instance = own.instance().expect("a number");
    let client = client(&endpoint);
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

/// F13: `Topic::sessions` reads a session's number and another one's first message.
#[test]
fn f13_a_session_s_first_message_is_its_own() {
    let folder = Folder::new("sessions");
    let domain = outlive::Domain::open_or_create_at(folder.join("domain")).expect("opens");
    let options = Topic::<u64>::options().depth(8).described();
    let topic = options.open_or_create(&domain, "n").expect("made");
    let over = std::sync::atomic::AtomicBool::new(false);
    let (truth, seen) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut seen = Vec::new();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                seen.extend(topic.sessions().into_iter().map(|is| (is.session, is.from)));
                seen.dedup();
            }
            seen
        });
        let mut truth = HashMap::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(8) {
            let publisher = topic.publisher().expect("publishes");
            truth.insert(publisher.session(), publisher.next_sequence());
            publisher.publish(&1).expect("room");
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        (truth, looking.join().expect("whole"))
    });
    let wrong: Vec<_> =
        seen.iter().filter(|(session, from)| truth.get(session) != Some(from)).take(5).collect();
    assert!(wrong.is_empty(), "of {} sessions seen {}: {wrong:?}", truth.len(), seen.len());
}

/// F14: a slow subscriber elsewhere, and publishers that come and go: each needs a stand-in there, and what
/// has none is dropped as if it had been published.
#[test]
#[ignore = "known to fail: with hundreds of ended publishers and a subscriber that does not read, not all comes in time"]
fn f14_nothing_is_dropped_where_stand_ins_run_out() {
    let (a, b) = pair(&["--allow-out", "n"], &["--allow-in", "n"]);
    let (own, there) = (topic(&a, "n", 8), topic(&b, "n", 8));
    b.expect("receives", 1);
    let mut slow = there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let mut published = 0;
    for number in 0..1500_u64 {
        let publisher = own.publisher().expect("publishes");
        if publisher.publish_timeout(&number, Duration::from_secs(3)).is_err() {
            break;
        }
        published += 1;
    }
    std::thread::sleep(Duration::from_secs(1));
    let got = all(&mut slow, Duration::from_secs(4)).len();
    let told = (b.events("refused").len(), b.events("lost").len());
    assert_eq!(got, published, "received of those published; refused, lost: {told:?}");
}

/// F15: an intent names ring, session and number of the local topic, not which topic: of one that was removed
/// and made anew, another publisher's message counts as this stream's.
#[test]
fn f15_an_intent_is_of_one_topic() {
    use outlive_zenoh::journal::{Journal, Settled};
    use outlive_zenoh::wire::{Origin, StreamId};
    let folder = Folder::new("intent");
    let domain = outlive::Domain::open_or_create_at(folder.join("domain")).expect("opens");
    let journal = Journal::take(&domain, "j", || ()).expect("taken");
    let entry = journal.entry(StreamId { origin: Origin(9), instance: 7, session: 1 });
    let entry = entry.expect("free");
    entry.set_next(5);
    let first = Topic::<u64>::options().depth(8).open_or_create(&domain, "n").expect("made");
    let stand_in = first.publisher().expect("publishes");
    // Killed before it published; the topic is removed, and made anew by a program here.
    entry.intend(
        5,
        first.instance().expect("a number"),
        stand_in.ring_index(),
        stand_in.session(),
        stand_in.next_sequence(),
    );
    drop(stand_in);
    domain.remove("n").expect("removed");
    let second = Topic::<u64>::options().depth(8).open_or_create(&domain, "n").expect("made");
    let other = second.publisher().expect("publishes");
    other.publish(&77).expect("room");
    let settled = entry.settle(second.instance().expect("a number"), |ring, session, number| {
        second.has_published(ring, session, number)
    });
    assert_eq!((settled, entry.next()), (Settled::Known, Some(5)), "message 5 was never published");
}

/// F16: of a session that no list names, and that has no number here, the sender is asked for ever.
#[test]
fn f16_a_session_that_no_list_names_is_not_asked_for_without_end() {
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

/// F17: a volatile topic offers no history, which the keeper and each answer ask for.
fn f17(reliable: bool) {
    let (a, b) = pair(&["--allow-out", "n"], &["--allow-in", "n"]);
    let options = Topic::<u64>::options().depth(8).reliable(reliable).described();
    let options = options.durability(Durability::Volatile);
    let own = options.open_or_create(&a.domain, "n").expect("made");
    let publisher = own.publisher().expect("publishes");
    let came = eventually(Duration::from_secs(5), || b.events("came").len() == 1);
    publisher.publish(&1).expect("room");
    std::thread::sleep(Duration::from_secs(5));
    let refused = a.events("refused");
    assert!(
        came && refused.is_empty(),
        "came: {came}; {} refused: {:?}",
        refused.len(),
        refused.first()
    );
}

#[test]
fn f17_a_volatile_reliable_topic_leaves() {
    f17(true);
}

#[test]
fn f17_a_volatile_topic_leaves() {
    f17(false);
}

/// F18: gateways with nothing to do sleep.
#[test]
fn f18_idle_gateways_sleep() {
    let (a, b) = pair(&["--allow-out", "n"], &["--allow-in", "n"]);
    let (own, there) = (topic(&a, "n", 8), topic(&b, "n", 8));
    let mut subscriber = there.subscriber().expect("joins");
    let publisher = own.publisher().expect("publishes");
    b.expect("came", 1);
    publisher.publish(&1).expect("room");
    assert_eq!(all(&mut subscriber, Duration::from_secs(2)), [1]);
    let ticks = |machine: &Machine| {
        let pid = machine.gateway.as_ref().expect("started").pid();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("there");
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .expect("fields")
            .split_whitespace()
            .filter_map(|f| f.parse().ok())
            .collect();
        // ppid is the first number: utime and stime are 10 behind it.
        fields[10] + fields[11]
    };
    let before = (ticks(&a), ticks(&b));
    std::thread::sleep(Duration::from_secs(10));
    let after = (ticks(&a), ticks(&b));
    println!("ticks of 10 ms in 10 s: {} and {}", after.0 - before.0, after.1 - before.1);
    assert!(after.0 - before.0 < 10 && after.1 - before.1 < 10);
}
