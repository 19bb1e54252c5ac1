//! What a receiver's successor asks for: all that its predecessor had not published.

use outlive::topic::{Durability, Topic};

use crate::support::{LONG, all, pair};

/// A publisher ends while no gateway is there, so no token tells of it any more; a younger one has come.
#[test]
fn what_a_publisher_left_while_both_gateways_were_dead_comes() {
    let (mut a, mut b) = pair(&["--allow-out", "n"], &["--allow-in", "n"]);
    let of = |domain| {
        let options = Topic::<u64>::options().depth(64).reliable(true).described();
        options.durability(Durability::Persistent).open_or_create(domain, "n").expect("made")
    };
    let (here, there) = (of(&a.domain), of(&b.domain));
    let mut subscriber = there.subscriber().expect("joins");
    let first = here.publisher().expect("publishes");
    b.expect("came", 1);
    first.publish(&0).expect("room");
    let sample = subscriber.recv_timeout(LONG).expect("received");
    assert_eq!(sample.as_deref(), Some(&0));
    b.kill();
    a.kill();
    for number in 1..6 {
        first.publish(&number).expect("room");
    }
    drop(first);
    let second = here.publisher().expect("publishes");
    second.publish(&100).expect("room");
    b.start();
    a.start();
    b.expect("came", 2);
    let mut got = all(&mut subscriber, 6);
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3, 4, 5, 100], "told lost: {:?}", b.events("lost"));
}
