//! Waiting costs next to nothing: a process that waits for five seconds goes to sleep once. Where
//! it watches another process's end, or where the process that is to wake it may be stopped before
//! it does, the waiter makes the recheck once a second, by a few loads.

use std::time::Duration;

use outlive::rpc::CallError;
use outlive::state::State;
use outlive::sync::{Event, Reset};
use outlive::topic::Topic;
use outlive::wait::WaitSet;
use outlive::{Domain, Peer, WaitError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::counted::{counted, sleeps_of};
use crate::runner::World;
use crate::services::{client_of, server_of};
use crate::wait_sets::queue;
use crate::waiting::owner;

crate::checks!(who_waits_sleeps: 60, who_waits_for_an_event_beside_a_set_that_watches_owners: 60);

const LONG: Duration = Duration::from_secs(5);

/// This domain has the default recheck; the other checks have none.
fn domain(world: &World) -> Domain {
    Domain::options()
        .recheck(Some(Duration::from_secs(1)))
        .open_or_create_at(world.domain().path())
        .expect("opens")
}

/// A child that waits in [`counted`], and how often it may go to sleep there.
fn waits(most: u64, wait: impl FnOnce()) -> Child {
    Child::start(move || {
        // Where a process may not be traced, the check has been skipped.
        if let Some(slept) = sleeps_of(wait) {
            assert!((1..=most).contains(&slept), "{slept} sleeps where {most} will do");
        }
    })
}

const ONCE: u64 = 1;
/// Once more after each of five seconds.
const LOOKING: u64 = 6;

fn skip_without_tracers(world: &World) {
    if sleeps_of(|| ()).is_none() {
        world.skip("a process may not be traced here");
    }
}

fn who_waits_sleeps(world: &World) {
    skip_without_tracers(world);
    let domain = domain(world);
    let (_other, peer) = owner(&domain, Board::new());
    let state = State::<u64>::open_or_create(&domain, "state").expect("opens");
    let _writer = state.writer().expect("free");
    let mut server = server_of(&domain, "served");
    let client = client_of(&domain, "served");
    type Waits = fn(&Domain, Peer);
    let all: Vec<(u64, Waits)> = vec![
        (LOOKING, |domain, _| {
            let mut receiver = queue(domain, "queue").receiver().expect("free");
            counted(|| assert_eq!(receiver.recv_timeout(LONG), Ok(None)));
        }),
        (LOOKING, |domain, _| {
            let topic = Topic::<[u8]>::open_or_create(domain, "topic").expect("opens");
            let _publisher = topic.publisher().expect("free");
            let mut subscriber = topic.subscriber().expect("free");
            counted(|| assert!(matches!(subscriber.recv_timeout(LONG), Ok(None))));
        }),
        (LOOKING, |domain, _| {
            let mut server = server_of(domain, "service");
            counted(|| assert!(matches!(server.next_timeout(LONG), Ok(None))));
        }),
        (ONCE, |domain, _| {
            let event = Event::options()
                .reset(Reset::Manual)
                .open_or_create(domain, "event")
                .expect("opens");
            counted(|| assert_eq!(event.wait_any_timeout(1, LONG), Ok(None)));
        }),
        (LOOKING, |domain, _| {
            let receiver = queue(domain, "queue in a set").receiver().expect("free");
            let subscriber = Topic::<[u8]>::open_or_create(domain, "topic in a set")
                .expect("opens")
                .subscriber()
                .expect("free");
            let mut set = WaitSet::new(domain);
            set.add(&receiver).expect("added");
            set.add(&subscriber).expect("added");
            counted(|| assert_eq!(set.wait_timeout(LONG).expect("waits").len(), 0));
        }),
        (LOOKING, |domain, _| {
            let mut watch = State::<u64>::open(domain, "state").expect("opens").watch();
            watch.changed().expect("told");
            counted(|| assert_eq!(watch.changed_timeout(LONG), Ok(None)));
        }),
        (LOOKING, |domain, peer| {
            domain.token().expect("a token");
            counted(|| assert_eq!(peer.wait_dead_timeout(LONG), Err(WaitError::TimedOut)));
        }),
        (LOOKING, |domain, peer| {
            // More owners than one sleep watches with all that belongs to them.
            let (_others, ids): (Vec<Child>, Vec<_>) = (0..40)
                .map(|_| owner(domain, Board::new()))
                .map(|(child, other)| (child, other.id()))
                .unzip();
            let all: Vec<_> = ids.into_iter().chain([peer.id()]).collect();
            counted(|| assert_eq!(domain.wait_any_dead_timeout(&all, LONG), Ok(None)));
        }),
        (LOOKING, |domain, peer| {
            let (event, receiver) = (
                Event::options()
                    .reset(Reset::Manual)
                    .open_or_create(domain, "event in a set")
                    .expect("opens"),
                queue(domain, "another").receiver().expect("free"),
            );
            let mut watch = State::<u64>::open(domain, "state").expect("opens").watch();
            watch.changed().expect("told");
            let mut set = WaitSet::new(domain);
            set.add(&event.any_of(1)).expect("added");
            set.add(&receiver).expect("added");
            set.add(&watch).expect("added");
            set.add(&peer).expect("added");
            counted(|| assert_eq!(set.wait_timeout(LONG).expect("waits").len(), 0));
        }),
        (LOOKING, |domain, _| {
            let client = client_of(domain, "served");
            counted(|| {
                assert!(matches!(
                    client.call_timeout(b"?", LONG),
                    Err(CallError::TimedOut { begun: false })
                ))
            });
        }),
    ];
    let shared = &domain;
    let children: Vec<Child> =
        all.into_iter().map(|(most, wait)| waits(most, move || wait(shared, peer))).collect();
    children.into_iter().for_each(Child::finish);
    drop(client);
    // The client that asked has gone.
    assert!(matches!(server.try_next(), Ok(None)));
    assert_eq!(domain.stats().rescues, 0);
}

/// A process that sets an event wakes the waiters in the same step, so a wait set that dies with a
/// wake-up takes no other waiter's wake-up along: a process that waits for that event does not need
/// the recheck, also beside such a set.
fn who_waits_for_an_event_beside_a_set_that_watches_owners(world: &World) {
    skip_without_tracers(world);
    let domain = domain(world);
    let (_other, peer) = owner(&domain, Board::new());
    let event =
        Event::options().reset(Reset::Manual).open_or_create(&domain, "event").expect("opens");
    let board = Board::new();
    let plain = || {
        board.set(0, u64::from(std::process::id()));
        counted(|| assert_eq!(event.wait_any_timeout(1, LONG), Ok(None)));
    };
    let before = waits(ONCE, plain);
    wait_asleep(board.reach(0, 1) as i32);
    let mut set = Child::start(|| {
        let mut set = WaitSet::new(&domain);
        set.add(&event.any_of(2)).expect("added");
        set.add(&peer).expect("added");
        let _ = set.wait().expect("ready").next();
    });
    wait_asleep(set.pid());
    let after = waits(ONCE, plain);
    before.finish();
    after.finish();
    set.kill();
}
