//! What passes, as it was sent; and what may not.

use std::time::Duration;

use outlive::RecvError;
use outlive::topic::{Durability, Header, Outgoing, Publisher, Subscriber, Topic};
use outlive_testnet::{Folder, eventually, free_port};
use zenoh::Wait;

use crate::support::{LONG, Machine, Pose, all, pair, ring, router, session, through, topic};

#[test]
fn a_struct_arrives_with_its_type_and_its_header() {
    let (a, b) = pair(&["--allow-out", "robot/**"], &["--allow-in", "robot/**"]);
    let topic = Topic::<Pose>::options().described().reliable(true);
    let topic = topic.open_or_create(&a.domain, "robot.pose").expect("made");
    let publisher = topic.publisher().expect("publishes");
    b.expect("came", 1);
    // Made there with the same type.
    let there =
        Topic::<Pose>::options().described().open(&b.domain, "robot.pose").expect("the same type");
    assert_eq!(there.config().depth, topic.config().depth);
    assert!(there.config().reliable);
    let mut subscriber = there.subscriber().expect("joins");
    let header = Header { stamp: 77, frame: 3, key: 9, own: [5; 32] };
    let pose = Pose { position: [1.0, 2.0, 3.0], heading: 0.5, gear: 4 };
    publisher.publish(Outgoing::new(&pose).header(header)).expect("room");
    let sample = subscriber.recv_timeout(LONG).expect("received").expect("in time");
    assert_eq!((*sample, sample.header()), (pose, header));
    // Of each message one, and none of another topic.
    assert!(subscriber.recv_timeout(Duration::from_millis(200)).expect("none").is_none());
}

#[test]
fn messages_of_all_lengths_arrive_whole() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let options = || Topic::<[u8]>::options().depth(4).max_bytes(256 << 20).reliable(true);
    let topic = options().open_or_create(&a.domain, "bytes").expect("made");
    let there = options().open_or_create(&b.domain, "bytes").expect("made");
    let mut subscriber =
        there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let publisher = topic.publisher().expect("publishes");
    b.expect("came", 1);
    // Around what lies in a slot, what is copied, zenoh's slices; and one that it would drop.
    for len in [0, 1, 136, 137, 1024, 1025, 4096, 4097, 49_000, 65_535, 65_536, 1 << 20, 33_000_000]
    {
        let bytes: Vec<u8> = (0..len).map(|at: usize| (at.wrapping_mul(31) >> 3) as u8).collect();
        publisher.publish(&bytes[..]).expect("room");
        let sample = subscriber.recv_timeout(LONG).expect("received").expect("in time");
        assert!(*sample == bytes, "{len} bytes");
    }
}

#[test]
#[ignore = "takes 6 GiB of memory, and half a minute"]
fn a_message_of_a_gibibyte_arrives_whole() {
    // zenoh without optimisation takes longer than the five seconds that a message may wait.
    let args = ["--allow", "**", "--block-ms", "200000"];
    let (a, b) = pair(&args, &args);
    let options = || Topic::<[u8]>::options().depth(2).max_bytes(5 << 29).reliable(true);
    let topic = options().open_or_create(&a.domain, "bytes").expect("made");
    let there = options().open_or_create(&b.domain, "bytes").expect("made");
    let mut subscriber =
        there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let publisher = topic.publisher().expect("publishes");
    b.expect("came", 1);
    let byte = |at: usize| (at.wrapping_mul(31) >> 3) as u8;
    let bytes: Vec<u8> = (0..1 << 30).map(byte).collect();
    let started = std::time::Instant::now();
    publisher.publish(&bytes[..]).expect("room");
    let sample = subscriber.recv_timeout(4 * LONG).expect("received").expect("in time");
    println!("1 GiB after {:?}", started.elapsed());
    assert!(*sample == bytes);
    // While zenoh's thread gathers it, a lease may pass: nothing is lost by that, and nothing comes twice.
    assert!(subscriber.recv_timeout(Duration::from_secs(2)).expect("none").is_none());
    assert!(b.events("lost").is_empty(), "{}", b.log());
}

#[test]
fn order_is_kept_and_a_slow_subscriber_elsewhere_holds_the_publisher_back() {
    const COUNT: u64 = 3000;
    let (a, b) = pair(&["--allow-out", "n"], &["--allow-in", "n"]);
    let (publisher, mut subscriber) = through(&a, &b, 8);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..COUNT {
                publisher.publish(&number).expect("waits");
            }
        });
        for number in 0..COUNT {
            if number % 500 == 0 {
                std::thread::sleep(Duration::from_millis(50));
            }
            let sample = subscriber.recv_timeout(LONG).expect("received").expect("in time");
            assert_eq!(*sample, number);
        }
    });
    assert_eq!(subscriber.lost(), 0);
    assert_eq!(b.events("lost").len(), 0);
}

#[test]
fn nothing_passes_that_no_rule_allows() {
    let (a, b) = pair(&["--allow-out", "open/**"], &["--allow-in", "open/**"]);
    for name in ["open.one", "secret.one", "openly"] {
        let topic =
            Topic::<u64>::options().described().open_or_create(&a.domain, name).expect("made");
        topic.publisher().expect("publishes").publish(&1).expect("room");
    }
    // The other way.
    let own =
        Topic::<u64>::options().described().open_or_create(&b.domain, "open.two").expect("made");
    own.publisher().expect("publishes").publish(&1).expect("room");
    b.expect("receives", 1);
    std::thread::sleep(Duration::from_millis(500));
    let names = b.domain.contents().expect("readable").names;
    assert!(names.contains(&"open.one".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("secret") || name == "openly"), "{names:?}");
    assert_eq!(a.events("sends").len(), 1);
    let names = a.domain.contents().expect("readable").names;
    assert!(!names.contains(&"open.two".to_owned()), "{names:?}");
}

#[test]
fn another_type_is_refused_and_an_error_at_the_subscriber() {
    let (a, b) = pair(&["--allow-out", "x"], &["--allow-in", "x"]);
    let there = Topic::<u32>::options().described().open_or_create(&b.domain, "x").expect("made");
    let mut subscriber = there.subscriber().expect("joins");
    let topic = Topic::<u64>::options().described().open_or_create(&a.domain, "x").expect("made");
    let publisher = topic.publisher().expect("publishes");
    b.expect("refused", 1);
    publisher.publish(&1).expect("room");
    let why = b.events("refused")[0]["why"].as_str().expect("said").to_owned();
    assert!(why.contains("u32") && why.contains("u64"), "{why}");
    assert_eq!(b.events("came").len(), 0);
    let told = subscriber.recv_timeout(LONG).map(drop);
    let Err(RecvError::Encoding(told)) = told else { panic!("{told:?}") };
    assert!(told.contains(&why), "{told}");
    assert!(matches!(subscriber.recv_timeout(Duration::from_millis(200)), Ok(None)));
}

#[test]
fn rules_rename_and_thin() {
    let rules = "
[[rule]]
allow = 'camera/**'
direction = 'out'
as = 'robot7/camera/**'
keep_every = 10
";
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let config = Folder::new("config");
    let file = config.join("gateway.toml");
    std::fs::write(&file, rules).expect("written");
    let file = file.to_str().expect("text");
    let a = Machine::started("a", &["--listen", &endpoint, "--config", file]);
    let b = Machine::started("b", &["--connect", &endpoint, "--allow-in", "robot7/**"]);
    let topic = Topic::<u64>::options().depth(64).described();
    let topic = topic.open_or_create(&a.domain, "camera.front").expect("made");
    let publisher = topic.publisher().expect("publishes");
    b.expect("came", 1);
    let there =
        Topic::<u64>::options().described().open(&b.domain, "robot7.camera.front").expect("made");
    let mut subscriber = there.subscriber().expect("joins");
    for number in 0..40 {
        publisher.publish(&number).expect("room");
    }
    for number in [0, 10, 20, 30] {
        let sample = subscriber.recv_timeout(LONG).expect("received").expect("in time");
        assert_eq!(*sample, number);
    }
    assert!(subscriber.recv_timeout(Duration::from_millis(200)).expect("none").is_none());
    // Not lost, but left out.
    assert_eq!(b.events("lost").len(), 0);
}

#[test]
fn no_message_comes_back_or_goes_round() {
    let machines = ring(3);
    let topics: Vec<Topic<u64>> = machines
        .iter()
        .map(|machine| {
            let options = Topic::<u64>::options().depth(64).reliable(true).described();
            options.open_or_create(&machine.domain, "round").expect("made")
        })
        .collect();
    let publishers: Vec<Publisher<u64>> =
        topics.iter().map(|topic| topic.publisher().expect("publishes")).collect();
    for machine in &machines {
        machine.expect("came", 2);
    }
    let mut subscribers: Vec<Subscriber<u64>> =
        topics.iter().map(|topic| topic.subscriber().expect("joins")).collect();
    for round in 0..10 {
        for (at, publisher) in publishers.iter().enumerate() {
            publisher.publish(&(at as u64 * 100 + round)).expect("room");
        }
    }
    for subscriber in &mut subscribers {
        let mut got: Vec<u64> = (0..30)
            .map(|_| *subscriber.recv_timeout(LONG).expect("received").expect("in time"))
            .collect();
        got.sort_unstable();
        let all: Vec<u64> =
            (0..3).flat_map(|at| (0..10).map(move |round| at * 100 + round)).collect();
        assert_eq!(got, all);
        assert!(matches!(subscriber.recv_timeout(Duration::from_millis(300)), Ok(None)));
    }
}

#[test]
fn a_late_gateway_gets_what_the_topic_offers_to_those_that_come_later() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a = Machine::started("a", &["--listen", &endpoint, "--allow", "**"]);
    let topic = Topic::<u64>::options().depth(8).described();
    let topic = topic.open_or_create(&a.domain, "kept").expect("made");
    let publisher = topic.publisher().expect("publishes");
    for number in 0..20 {
        publisher.publish(&number).expect("room");
    }
    let b = Machine::new("b", &["--connect", &endpoint, "--allow", "**"]);
    let there = Topic::<u64>::options().depth(8).described();
    let there = there.open_or_create(&b.domain, "kept").expect("made");
    let mut subscriber = there.subscriber().expect("joins");
    let mut b = b;
    b.start();
    for number in 12..20 {
        let sample = subscriber.recv_timeout(LONG).expect("received").expect("in time");
        assert_eq!(*sample, number);
    }
    publisher.publish(&20).expect("room");
    assert_eq!(*subscriber.recv_timeout(LONG).expect("received").expect("in time"), 20);
    // What it was never promised is not lost.
    assert_eq!(b.events("lost").len(), 0);
}

#[test]
fn a_topic_that_is_made_anew_is_another_one() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    for round in 0..3_u64 {
        let topic =
            Topic::<u64>::options().described().open_or_create(&a.domain, "again").expect("made");
        let publisher = topic.publisher().expect("publishes");
        b.expect("came", round as usize + 1);
        let there = Topic::<u64>::options().described().open(&b.domain, "again").expect("there");
        let mut subscriber = there.subscriber().expect("joins");
        publisher.publish(&round).expect("room");
        assert_eq!(*subscriber.recv_timeout(LONG).expect("received").expect("in time"), round);
        drop(publisher);
        b.expect("left", round as usize + 1);
        a.domain.remove("again").expect("removed");
    }
    assert!(eventually(LONG, || a.events("sends").len() == 3), "{}", a.log());
    assert_eq!(b.events("unreachable").iter().filter(|event| event["messages"] != 0).count(), 0);
}

/// A refusal that the gateway itself publishes ends its own sender of that topic.
#[test]
fn a_refusal_does_not_end_the_sender_here() {
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
        let sample = subscriber.recv_timeout(LONG).expect("received");
        assert_eq!(sample.map(|sample| *sample), Some(number), "B:\n{}\nC:\n{}", b.log(), c.log());
    }
}

/// Messages that a rule leaves out are sent again by the answers to `at`.
#[test]
fn what_a_rule_leaves_out_stays_out() {
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
    let got = all(&mut subscriber, 4);
    assert_eq!(got, [0, 10, 20, 30], "lost told: {:?}", b.events("lost"));
}

/// F5: `create = false`, or "make the topic first": made later, it never comes in.
#[test]
fn a_topic_that_is_made_later_comes_in() {
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
    let came = eventually(LONG, || there.publishers().len() == 1);
    assert!(came, "{}", b.log());
}

/// The same for zenoh programs, also where the topic was removed and made anew.
#[test]
fn strangers_come_into_a_topic_that_is_made_anew() {
    let (a, endpoint) = router(&["--allow-in", "in/**"]);
    let client = session(&endpoint);
    let arrives = |topic: &Topic<[u8]>| {
        let mut subscriber = topic.subscriber().expect("joins");
        eventually(LONG, || {
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

/// A name that gateways keep for themselves can be made from outside: the gateway of that name cannot
/// start any more.
#[test]
fn names_of_gateways_cannot_be_made_from_outside() {
    let (a, endpoint) = router(&["--allow-in", "**"]);
    let client = session(&endpoint);
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

/// A volatile topic offers no history, which the keeper and each answer ask for.
fn volatile_topic(reliable: bool) {
    let (a, b) = pair(&["--allow-out", "n"], &["--allow-in", "n"]);
    let options = Topic::<u64>::options().depth(8).reliable(reliable).described();
    let options = options.durability(Durability::Volatile);
    let own = options.open_or_create(&a.domain, "n").expect("made");
    let publisher = own.publisher().expect("publishes");
    let came = eventually(LONG, || b.events("came").len() == 1);
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
fn a_volatile_reliable_topic_leaves() {
    volatile_topic(true);
}

#[test]
fn a_volatile_topic_leaves() {
    volatile_topic(false);
}
