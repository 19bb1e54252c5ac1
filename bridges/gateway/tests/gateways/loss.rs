//! Gateways and routers killed at random: nothing that was acknowledged is lost, and order is kept.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use outlive::SendError;
use outlive::topic::{Durability, Subscriber, Topic};
use outlive_testnet::{Folder, Relay, eventually, free_port};

use crate::support::{LONG, Machine, all, example, random, router, through, topic};

/// As many messages, and kills.
const MESSAGES: u64 = 20_000;
const KILLS: u32 = 30;

#[test]
fn nothing_is_lost_through_kills_of_gateways_and_routers() {
    through_kills(MESSAGES, KILLS);
}

/// The whole of what is promised: some minutes.
#[test]
#[ignore = "takes minutes: cargo xtask bridges runs the shorter one"]
fn nothing_is_lost_through_a_hundred_kills() {
    through_kills(100_000, 100);
}

fn through_kills(messages: u64, kills: u32) {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let mut router =
        Machine::started("router", &["--mode", "router", "--listen", &endpoint, "--allow", "none"]);
    let client = ["--mode", "client", "--connect", &endpoint, "--allow", "n"];
    let mut a = Machine::started("a", &client);
    let mut b = Machine::started("b", &client);
    let (publisher, mut subscriber) = through(&a, &b, 1024);
    let begun = Instant::now();
    let (published, received) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let is_over = move || received.load(Relaxed) == messages;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..messages {
                // While no gateway acts, no process waits but this one: a ring holds so many.
                while number >= received.load(Relaxed) + 1000 {
                    std::thread::sleep(Duration::from_millis(1));
                    if begun.elapsed() > LONG * 10 {
                        return;
                    }
                }
                match publisher.publish_timeout(&number, LONG * 5) {
                    Ok(_) => published.store(number + 1, Relaxed),
                    Err(SendError::TimedOut { .. }) => return,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        scope.spawn(|| {
            let mut state = 7;
            for _ in 0..kills {
                let machine = match random(&mut state) % 3 {
                    0 => &mut router,
                    1 => &mut a,
                    _ => &mut b,
                };
                machine.kill();
                std::thread::sleep(Duration::from_millis(random(&mut state) % 200));
                machine.start();
                std::thread::sleep(Duration::from_millis(random(&mut state) % 300));
                if is_over() {
                    break;
                }
            }
        });
        for number in 0..messages {
            let sample = subscriber.recv_timeout(LONG * 2).expect("received");
            let Some(sample) = sample else {
                panic!("{number} of {} did not come", published.load(Relaxed));
            };
            assert_eq!(*sample, number);
            received.store(number + 1, Relaxed);
            // Slow enough that the kills come in between.
            if number % 32 == 0 {
                std::thread::sleep(Duration::from_micros(
                    u64::from(kills) * 10_000_000 / (messages / 32 * 32),
                ));
            }
        }
    });
    assert_eq!(b.events("lost").len(), 0, "{}", b.log());
    assert_eq!(b.events("uncertain").len(), 0, "{}", b.log());
    println!("{messages} messages through {kills} kills in {:?}", begun.elapsed());
}

/// A gateway's successor does not know the receivers whose tokens came before its senders did.
fn successor_holds(pads: usize, kills: bool) {
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
    // As long as it takes on a busy machine.
    let comes = |slow: &mut Subscriber<u64>| matches!(slow.recv_timeout(LONG), Ok(Some(_)));
    let got = (0..published).take_while(|_| comes(&mut slow)).count();
    let told = b.events("lost");
    // 8 here, 8 there, and what is under way.
    assert!(published < 100, "{published} published, none is waited for; {got} received; {told:?}");
    assert_eq!(got, published);
}

#[test]
fn control_without_a_death() {
    successor_holds(150, false);
}

#[test]
fn a_sender_s_successor_holds_for_receivers() {
    successor_holds(150, true);
}

#[test]
fn a_sender_s_successor_holds_for_receivers_of_its_one_topic() {
    successor_holds(0, true);
}

/// A new publisher while the link is cut: both gateways live.
fn while_the_link_is_cut(durability: Durability, leaves: bool) {
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
    assert_eq!(all(&mut subscriber, 1), [0]);
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
    // All come, or it is told that some do not.
    let mut got = Vec::new();
    let is_over = || {
        let more = subscriber.recv_timeout(Duration::from_millis(100)).expect("received");
        got.extend(more.map(|sample| *sample));
        got.len() == 6 || !b.events("lost").is_empty()
    };
    eventually(LONG, is_over);
    got.sort_unstable();
    let lost = b.events("lost");
    drop(second);
    assert!(
        got == [1, 100, 101, 102, 103, 104] || !lost.is_empty(),
        "{got:?}, told lost: {lost:?}"
    );
}

#[test]
fn a_publisher_that_comes_and_leaves_while_the_link_is_cut_loses_nothing() {
    while_the_link_is_cut(Durability::TransientLocal, true);
}

/// A receiver was killed between intent and count, and the local ring has gone a lap since: the message is
/// published again, and that is told.
#[test]
fn a_message_that_may_have_been_published_is_told_as_uncertain() {
    let (a, endpoint) = router(&["--allow", "n"]);
    let mut b = Machine::new("b", &["--connect", &endpoint, "--allow", "n"]);
    let (own, there) = (topic(&a, "n", 8), topic(&b, "n", 8));
    let publisher = own.publisher().expect("publishes");
    a.expect("sends", 1);
    let instance = |topic: &Topic<u64>| topic.instance().expect("a number").to_string();
    publisher.publish(&7).expect("room");
    // The stand-in, and the lap that others have gone in its ring.
    let stand_in = there.publisher().expect("publishes");
    let place = (stand_in.ring_index().to_string(), stand_in.session().to_string());
    (0..20).for_each(|number| stand_in.publish(&number).map(drop).expect("room"));
    drop(stand_in);
    let origin = crate::played::origin_of(&endpoint);
    let session = publisher.session().to_string();
    let args = [&origin, &instance(&own), &session, &instance(&there), &place.0, &place.1];
    let mut predecessor = example("predecessor", &b.path(), &args.map(String::as_str));
    assert!(predecessor.wait(LONG).is_some());
    let mut subscriber = there.subscriber().expect("joins");
    b.start();
    b.expect("uncertain", 1);
    assert_eq!(all(&mut subscriber, 1), [7]);
}

/// An intent names ring, session and number of the local topic, not which topic: of one that was removed
/// and made anew, another publisher's message counts as this stream's.
#[test]
fn an_intent_is_of_one_topic() {
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
