//! Reliable delivery: both sides agree to it.

use outlive::Error;
use outlive::topic::Topic;

use crate::runner::World;
use crate::topics::reliable;

crate::checks!(reliable_delivery_needs_both_sides);

/// A subscriber that is stopped, of a topic that offers nothing, holds no publisher up: it does not
/// even come to be.
fn reliable_delivery_needs_both_sides(world: &World) {
    let domain = world.domain();
    let topic = Topic::<u64>::options().depth(2).open_or_create(&domain, "topic").expect("made");
    assert!(!topic.config().reliable);
    let publisher = topic.publisher().expect("a ring");
    let refused = topic.subscriber_with(reliable()).map(drop).expect_err("nothing is offered");
    let Error::OtherOptions { what: "reliability", found, wanted, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(found.starts_with("best effort") && &**wanted == "reliable", "{refused}");
    assert_eq!(topic.subscribers(), [], "it has taken no slot");
    let _slow = topic.subscriber().expect("a slot");
    for number in 0..10 {
        publisher.try_publish(&number).expect("no subscriber is in the way");
    }
    let asked = Topic::<u64>::options().reliable(true).open(&domain, "topic").map(drop);
    assert!(matches!(asked, Err(Error::OtherOptions { what: "option reliable", .. })), "{asked:?}");
    let refuses = Topic::<u64>::options().reliable(false).open(&domain, "topic");
    assert_eq!(refuses.map(drop), Ok(()), "it is as asked");

    let offers = Topic::<u64>::options().depth(2).reliable(true).create_new(&domain, "offers");
    let offers = offers.expect("made");
    assert!(Topic::<u64>::open(&domain, "offers").expect("there").config().reliable);
    let _slow = offers.subscriber_with(reliable()).expect("offered");
    let publisher = offers.publisher().expect("a ring");
    assert!((0..2).all(|number| publisher.try_publish(&number).is_ok()));
    assert!(publisher.try_publish(&2).is_err(), "it is waited for");
}
