//! Waiting costs next to nothing: a process that waits for five seconds goes to sleep once, or, where it watches somebody's
//! end, once a second. The kernel tells the end of an owner to one sleeper, and that one may be stopped before it tells the
//! others: so each of them looks by itself, by a few loads. A process that watches nobody sleeps on.

use std::time::Duration;

use outlive::queue::RecvError;
use outlive::rpc::{CallError, Client, ServeError, Server};
use outlive::state::State;
use outlive::sync::{AwaitError, Event, Reset};
use outlive::topic::{SubscribeError, Topic};
use outlive::wait::WaitSet;
use outlive::{Domain, Peer, WaitError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::runner::World;
use crate::wait_sets::{fewest_sleeps, queue, sleeps_in};
use crate::waiting::owner;

crate::checks!(who_waits_sleeps: 60, who_waits_beside_a_set_that_watches_owners: 60);

const LONG: Duration = Duration::from_secs(5);

/// With the net that there is unless one says otherwise; the other checks have none.
fn domain(world: &World) -> Domain {
    Domain::options().recheck(Some(Duration::from_secs(1))).open_at(world.domain().path()).expect("opens")
}

/// A child that waits, and how often it may go to sleep.
fn waits(most: i64, mut wait: impl FnMut() -> i64) -> Child {
    Child::start(move || {
        let slept = fewest_sleeps(most, &mut wait);
        assert!((1..=most).contains(&slept), "{slept} sleeps where {most} will do");
    })
}

/// Once; and one more, for what the system does.
const ONCE: i64 = 2;
/// Once more after each of five seconds, and one for what the system does.
const WATCHING: i64 = 7;

fn who_waits_sleeps(world: &World) {
    let domain = domain(world);
    let (_other, peer) = owner(&domain, Board::new());
    let state = State::<u64>::open(&domain, "state", 0).expect("opens");
    let _writer = state.writer().expect("free");
    let mut server = Server::open(&domain, "served").expect("free");
    let client = Client::open(&domain, "served").expect("opens");
    type Waits = fn(&Domain, Peer) -> i64;
    let all: Vec<(i64, Waits)> = vec![
        (ONCE, |domain, _| {
            let mut receiver = queue(domain, "queue").receiver().expect("free");
            sleeps_in(|| assert_eq!(receiver.recv_until(LONG), Err(RecvError::TimedOut)))
        }),
        (ONCE, |domain, _| {
            let topic = Topic::<[u8]>::open(domain, "topic").expect("opens");
            let _publisher = topic.publisher().expect("free");
            let mut subscriber = topic.subscriber().expect("free");
            sleeps_in(|| assert!(matches!(subscriber.recv_until(LONG), Err(SubscribeError::TimedOut))))
        }),
        (ONCE, |domain, _| {
            let mut server = Server::open(domain, "service").expect("free");
            sleeps_in(|| assert!(matches!(server.next_until(LONG), Err(ServeError::TimedOut))))
        }),
        (ONCE, |domain, _| {
            let event = Event::open(domain, "event", Reset::Manual).expect("opens");
            sleeps_in(|| assert_eq!(event.wait_any_until(1, LONG), Err(AwaitError::TimedOut)))
        }),
        (ONCE, |domain, _| {
            let receiver = queue(domain, "queue in a set").receiver().expect("free");
            let subscriber = Topic::<[u8]>::open(domain, "topic in a set").expect("opens").subscriber().expect("free");
            let mut set = WaitSet::new(domain);
            set.add(&receiver).expect("added");
            set.add(&subscriber).expect("added");
            sleeps_in(|| assert_eq!(set.wait(LONG).err(), Some(AwaitError::TimedOut)))
        }),
        (WATCHING, |domain, _| {
            let mut watch = State::<u64>::open(domain, "state", 0).expect("opens").watch();
            watch.changed().expect("told");
            sleeps_in(|| assert_eq!(watch.changed_until(LONG), Err(AwaitError::TimedOut)))
        }),
        (WATCHING, |domain, peer| {
            domain.token().expect("a token");
            sleeps_in(|| assert_eq!(peer.wait_dead(LONG), Err(WaitError::TimedOut)))
        }),
        (WATCHING, |domain, peer| {
            // More owners than one sleep watches with all that belongs to them.
            let (_others, ids): (Vec<Child>, Vec<_>) =
                (0..40).map(|_| owner(domain, Board::new())).map(|(child, other)| (child, other.id())).unzip();
            let all: Vec<_> = ids.into_iter().chain([peer.id()]).collect();
            sleeps_in(|| assert_eq!(domain.wait_any_dead(&all, LONG), Err(WaitError::TimedOut)))
        }),
        (WATCHING, |domain, peer| {
            let (event, receiver) = (
                Event::open(domain, "event in a set", Reset::Manual).expect("opens"),
                queue(domain, "another").receiver().expect("free"),
            );
            let mut watch = State::<u64>::open(domain, "state", 0).expect("opens").watch();
            watch.changed().expect("told");
            let mut set = WaitSet::new(domain);
            set.add(&event.any_of(1)).expect("added");
            set.add(&receiver).expect("added");
            set.add(&watch).expect("added");
            set.add(&peer).expect("added");
            // It comes back once, from the ring by which it says that others on that event look by themselves.
            sleeps_in(|| assert_eq!(set.wait(LONG).err(), Some(AwaitError::TimedOut)))
        }),
        (WATCHING, |domain, _| {
            let client = Client::open(domain, "served").expect("opens");
            sleeps_in(|| assert!(matches!(client.call_until(b"?", LONG), Err(CallError::TimedOut { begun: false }))))
        }),
    ];
    let shared = &domain;
    let children: Vec<Child> = all.into_iter().map(|(most, wait)| waits(most, move || wait(shared, peer))).collect();
    children.into_iter().for_each(Child::finish);
    drop(client);
    // Whoever asked has gone.
    assert!(matches!(server.try_next(), Err(ServeError::Empty)));
    assert_eq!(domain.stats().rescues, 0);
}

/// A set that watches owners may die with a wake-up for an event: who waits for that event looks now and then, and who slept
/// there before does so from then on.
fn who_waits_beside_a_set_that_watches_owners(world: &World) {
    let domain = domain(world);
    let (_other, peer) = owner(&domain, Board::new());
    let event = Event::open(&domain, "event", Reset::Manual).expect("opens");
    let plain = || sleeps_in(|| assert_eq!(event.wait_any_until(1, LONG), Err(AwaitError::TimedOut)));
    let before = Child::start(|| {
        let slept = plain();
        // And the system's own: who polls would sleep some hundred times.
        assert!((3..=10).contains(&slept), "{slept}: asleep, called by the set, and after each second");
    });
    wait_asleep(before.pid());
    let mut set = Child::start(|| {
        let mut set = WaitSet::new(&domain);
        set.add(&event.any_of(2)).expect("added");
        set.add(&peer).expect("added");
        let _ = set.wait(outlive::Deadline::NEVER).expect("ready").next();
    });
    wait_asleep(set.pid());
    let after = waits(WATCHING, plain);
    before.finish();
    after.finish();
    set.kill();
}
