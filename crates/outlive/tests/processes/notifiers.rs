//! Notifiers and listeners: each listener counts for itself; nothing that was acknowledged is lost;
//! deaths, stops, and those that come and go.

use std::time::Duration;

use outlive::notify::{Listener, Notifier};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Deadline, Detail, Domain, Error, RecvError, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::forge::Bytes;
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    each_listener_counts_for_itself,
    a_sleeper_is_woken_by_each_form,
    what_was_acknowledged_is_there_after_kills: 60,
    a_death_is_told_once_to_each,
    a_notifier_that_leaves_has_not_died,
    a_death_is_counted_whichever_process_clears_the_slot,
    a_death_before_a_listener_came_is_not_told,
    a_stopped_notifier_stops_nobody,
    a_stopped_notifiers_notice_is_found,
    a_count_without_its_bit_comes_with_the_next_notice,
    a_forked_childs_copy_is_its_parents,
    as_many_as_there_are_places,
    a_set_waits_for_notices_and_deaths,
    a_sweep_takes_the_names_of_the_dead,
    options_are_compared,
);

const CAME: u32 = 61;
const LEFT: u32 = 62;
const DIED: u32 = 63;

fn listener(domain: &Domain) -> Listener {
    Listener::options()
        .on_created(CAME)
        .on_left(LEFT)
        .on_died(DIED)
        .open_or_create(domain, "n")
        .expect("a slot")
}

/// Takes until there is nothing more, and returns how many of that number there were.
fn drain(listener: &mut Listener, id: u32) -> u64 {
    let mut sum = 0;
    while let Some(notices) = listener.try_wait().expect("ours") {
        sum += notices.count(id);
    }
    sum
}

/// The recheck is off in these domains, so it cannot have rescued any waiter.
fn nobody_was_rescued(domain: &Domain) {
    assert_eq!(domain.stats().rescues, 0);
}

/// A child that has a notifier, and sleeps.
fn idle_notifier(domain: &Domain) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _notifier = Notifier::open(domain, "n").expect("a slot");
        board.set(0, 1);
        std::thread::sleep(Duration::from_secs(600));
    });
    board.reach(0, 1);
    child
}

fn each_listener_counts_for_itself(world: &World) {
    let domain = world.domain();
    let notifier = Notifier::open_or_create(&domain, "n").expect("made");
    assert_eq!(notifier.notify(0), Ok(0), "no process listens");
    let mut first = notifier.listener().expect("a slot");
    notifier.notify(5).expect("ours");
    let mut second = Listener::open(&domain, "n").expect("a slot");
    for id in 0..64 {
        for _ in 0..=id {
            assert_eq!(notifier.notify(id), Ok(2));
        }
    }
    assert!(matches!(notifier.notify(64), Err(SendError::System(Error::InvalidOption { .. }))));
    let (one, two) = (first.wait().expect("ours"), second.wait().expect("ours"));
    assert_eq!(two.bits(), u64::MAX);
    for id in 0..64 {
        let count = u64::from(id) + 1;
        assert_eq!((one.count(id), two.count(id)), (count + u64::from(id == 5), count), "{id}");
    }
    assert_eq!((first.try_wait(), second.try_wait()), (Ok(None), Ok(None)));
    drop(second);
    assert_eq!(notifier.notify(7), Ok(1));
    assert_eq!(first.try_wait().expect("ours").expect("told").iter().collect::<Vec<_>>(), [(7, 1)]);
    // The next listener in the same slot begins with nothing.
    assert_eq!(notifier.listener().expect("a slot").try_wait(), Ok(None));
}

fn a_sleeper_is_woken_by_each_form(world: &World) {
    let domain = world.domain();
    let notifier = Notifier::open_or_create(&domain, "n").expect("made");
    for form in 0..3 {
        let child = Child::start(|| {
            let mut listener = Listener::open(&domain, "n").expect("a slot");
            let told = match form {
                0 => Some(listener.wait()),
                1 => listener.wait_timeout(PATIENCE).transpose(),
                _ => listener.wait_until(Deadline::after(PATIENCE)).transpose(),
            };
            assert_eq!(told.expect("in time").expect("ours").count(9), 1);
        });
        wait_asleep(child.pid());
        assert_eq!(notifier.notify(9), Ok(1));
        child.finish();
    }
    let mut listener = notifier.listener().expect("a slot");
    assert_eq!(listener.wait_timeout(Duration::from_millis(2)), Ok(None));
    nobody_was_rescued(&domain);
}

/// Word 0: begun; word 1: acknowledged.
fn what_was_acknowledged_is_there_after_kills(world: &World) {
    let domain = world.domain();
    let mut listener = listener(&domain);
    let mut random = Random::new();
    let mut deaths = 0;
    // A notifier that dies between a count and its bit leaves the count for the bit's next notifier.
    let mut left = [0; 2];
    for _ in 0..40 {
        let board = Board::new();
        let mut children: Vec<Child> = (0..2)
            .map(|number| {
                Child::start(|| {
                    let notifier = Notifier::open(&domain, "n").expect("a slot");
                    loop {
                        board.add(2 * number, 1);
                        assert_eq!(notifier.notify(number as u32), Ok(1));
                        board.add(2 * number + 1, 1);
                    }
                })
            })
            .collect();
        board.reach(1, 1);
        board.reach(3, 1);
        let mut counts = [0; 2];
        let mut told = 0;
        let mut take = |listener: &mut Listener| {
            let notices = listener.wait_timeout(PATIENCE).expect("ours").expect("told");
            counts[0] += notices.count(0);
            counts[1] += notices.count(1);
            told += notices.count(DIED);
            told
        };
        for _ in 0..random.below(200) {
            take(&mut listener);
        }
        children.iter_mut().for_each(Child::kill);
        // Sleeps until both deaths are told, with what came before them.
        while take(&mut listener) < 2 {}
        deaths += 2;
        assert_eq!(listener.try_wait(), Ok(None));
        for (number, told) in counts.iter().enumerate() {
            let (begun, acknowledged) = (board.get(2 * number), board.get(2 * number + 1));
            assert!(
                (acknowledged..=begun + left[number]).contains(told),
                "{acknowledged} acknowledged, {begun} begun, {told} told, {} left before",
                left[number]
            );
            left[number] = begun + left[number] - told;
        }
    }
    let Detail::Notifier(usage) = domain.entry("n").expect("there").detail else { panic!() };
    assert_eq!(usage.deaths, deaths);
    nobody_was_rescued(&domain);
}

fn a_death_is_told_once_to_each(world: &World) {
    let domain = world.domain();
    let mut mine = listener(&domain);
    let mut victim = idle_notifier(&domain);
    assert_eq!(drain(&mut mine, CAME), 1);
    let sleepers: Vec<Child> = (0..3)
        .map(|_| {
            let child = Child::start(|| {
                let mut listener = listener(&domain);
                let notices = listener.wait_timeout(PATIENCE).expect("ours").expect("told");
                assert_eq!(notices.iter().collect::<Vec<_>>(), [(DIED, 1)]);
                assert_eq!(listener.try_wait(), Ok(None), "once");
            });
            wait_asleep(child.pid());
            child
        })
        .collect();
    victim.kill();
    sleepers.into_iter().for_each(Child::finish);
    assert_eq!(mine.wait().expect("ours").count(DIED), 1);
    assert_eq!(mine.try_wait(), Ok(None));
    nobody_was_rescued(&domain);
}

fn a_notifier_that_leaves_has_not_died(world: &World) {
    let domain = world.domain();
    let mut listener = listener(&domain);
    let child = Child::start(|| drop(Notifier::open(&domain, "n").expect("a slot")));
    child.finish();
    let mut notices = listener.wait().expect("ours");
    let more = listener.try_wait().expect("ours").unwrap_or_default();
    notices = if notices.count(LEFT) == 0 { more } else { notices };
    assert_eq!((notices.count(LEFT), notices.count(DIED)), (1, 0));
    assert_eq!(listener.try_wait(), Ok(None));
}

/// The slots of the dead are taken by the next notifiers, or cleared by a sweep; a listener that has
/// not looked meanwhile is told of each death.
fn a_death_is_counted_whichever_process_clears_the_slot(world: &World) {
    let domain = world.domain();
    let mut listener = listener(&domain);
    for round in 0..6 {
        idle_notifier(&domain).kill();
        if round % 3 == 0 {
            domain.sweep(false).expect("swept");
        }
    }
    assert_eq!(drain(&mut listener, DIED), 6);
    domain.sweep(false).expect("swept");
    assert_eq!(listener.try_wait(), Ok(None), "a sweep is no death");
}

fn a_death_before_a_listener_came_is_not_told(world: &World) {
    let domain = world.domain();
    drop(listener(&domain));
    idle_notifier(&domain).kill();
    let mut late = listener(&domain);
    domain.sweep(false).expect("swept");
    assert_eq!(late.try_wait(), Ok(None));
}

fn a_stopped_notifier_stops_nobody(world: &World) {
    let domain = world.domain();
    let mut listener = listener(&domain);
    let other = Notifier::open(&domain, "n").expect("a slot");
    for _ in 0..20 {
        let board = Board::new();
        let child = Child::start(|| {
            let notifier = Notifier::open(&domain, "n").expect("a slot");
            loop {
                notifier.notify(1).expect("ours");
                board.set(0, 1);
            }
        });
        board.reach(0, 1);
        child.stop();
        drain(&mut listener, 1);
        other.notify(2).expect("ours");
        let notices = listener.wait_timeout(PATIENCE).expect("ours").expect("told");
        assert_eq!(notices.count(2), 1);
        assert_eq!(notices.count(DIED), 0, "stopped is not dead");
    }
}

/// Where the first listener's words lie in the file, as doc/memory-layout.md says.
const FIRST: u64 = 12_288 + 640;
const PENDING: u64 = FIRST + 8;
const EPOCH: u64 = FIRST + 16 + 4;
const COUNTS: u64 = FIRST + 64;
const SOMEBODY: u32 = 1;

/// A notifier is stopped between the bit and its notification: the sleeper finds the bit.
fn a_stopped_notifiers_notice_is_found(world: &World) {
    drop(world.domain());
    let domain = Domain::options()
        .recheck(Some(Duration::from_millis(100)))
        .open_or_create_at(world.folder().join("domain"))
        .expect("opens");
    let notifier = Notifier::open_or_create(&domain, "n").expect("made");
    let child = Child::start(|| {
        let mut listener = Listener::open(&domain, "n").expect("a slot");
        assert_eq!(listener.wait_timeout(PATIENCE).expect("ours").expect("found").count(3), 1);
    });
    wait_asleep(child.pid());
    let bytes = Bytes::of(&domain, "n");
    let seen = bytes.word(EPOCH);
    assert_eq!(seen & SOMEBODY, SOMEBODY, "it sleeps");
    bytes.set_word(EPOCH, seen & !SOMEBODY);
    notifier.notify(3).expect("ours");
    bytes.set_word(EPOCH, seen);
    child.finish();
}

/// A notifier was stopped, or died, between the count and its bit.
fn a_count_without_its_bit_comes_with_the_next_notice(world: &World) {
    let domain = world.domain();
    let notifier = Notifier::open_or_create(&domain, "n").expect("made");
    let mut listener = notifier.listener().expect("a slot");
    let bytes = Bytes::of(&domain, "n");
    bytes.set_word(COUNTS + 8 * 4, 1);
    assert_eq!(listener.try_wait(), Ok(None), "not acknowledged");
    notifier.notify(4).expect("ours");
    assert_eq!(listener.wait().expect("ours").count(4), 2);
    // And a bit whose count another take has had stands for nothing.
    bytes.set_word(PENDING, 1 << 4);
    assert_eq!(listener.try_wait(), Ok(None));
    assert_eq!(listener.wait_timeout(Duration::from_millis(1)), Ok(None));
}

fn a_forked_childs_copy_is_its_parents(world: &World) {
    let domain = world.domain();
    let mut listener = listener(&domain);
    let notifier = Notifier::open(&domain, "n").expect("a slot");
    drain(&mut listener, CAME);
    let child = Child::start(|| {
        // SAFETY: the copies are dropped in the child alone; the parent's stay.
        let mut copies =
            unsafe { (std::ptr::read(&raw const listener), std::ptr::read(&raw const notifier)) };
        assert_eq!(copies.0.try_wait(), Err(RecvError::NotOwner));
        assert_eq!(copies.1.notify(1), Err(SendError::NotOwner));
        drop(copies);
    });
    child.finish();
    assert_eq!(listener.try_wait(), Ok(None), "nothing has left and nothing has died");
    assert_eq!(notifier.notify(1), Ok(1), "both are still there");
    assert_eq!(listener.wait().expect("ours").count(1), 1);
}

fn as_many_as_there_are_places(world: &World) {
    let domain = world.domain();
    let first = Notifier::open_or_create(&domain, "n").expect("made");
    let mut notifiers: Vec<Notifier> =
        (1..64).map(|_| Notifier::open(&domain, "n").expect("a slot")).collect();
    let refused = Notifier::open(&domain, "n").err();
    assert!(matches!(refused, Some(Error::TooMany { what: "notifiers", max: 64, .. })));
    notifiers.pop();
    notifiers.push(Notifier::open(&domain, "n").expect("a slot"));
    let mut listeners: Vec<Listener> = (0..64).map(|_| first.listener().expect("a slot")).collect();
    let refused = first.listener().err();
    assert!(matches!(refused, Some(Error::TooMany { what: "listeners", max: 64, .. })));
    assert_eq!(first.notify(1), Ok(64));
    listeners.iter_mut().for_each(|listener| {
        assert_eq!(listener.wait().expect("ours").count(1), 1);
    });
    // A dead listener's slot is free once it has ended.
    listeners.pop();
    let board = Board::new();
    let mut last = Child::start(|| {
        let _listener = Listener::open(&domain, "n").expect("a slot");
        board.set(0, 1);
        std::thread::sleep(Duration::from_secs(600));
    });
    board.reach(0, 1);
    assert!(first.listener().is_err());
    last.kill();
    listeners.push(first.listener().expect("a slot"));
    assert_eq!(first.notify(1), Ok(64));
}

fn a_set_waits_for_notices_and_deaths(world: &World) {
    let domain = world.domain();
    let mut mine = listener(&domain);
    let mut victim = idle_notifier(&domain);
    let notifier = Notifier::open(&domain, "n").expect("a slot");
    drain(&mut mine, CAME);
    let board = Board::new();
    let child = Child::start(|| {
        let mut own = Listener::open(&domain, "n").expect("a slot");
        let mut set = WaitSet::new(&domain);
        let key = set.add(&own).expect("added");
        for (number, id) in [(1, 5), (2, DIED)] {
            let ready: Vec<_> = set.wait_timeout(PATIENCE).expect("waits").collect();
            assert_eq!(ready, [(key, Readiness::Readable)]);
            let notices = own.try_wait().expect("ours").expect("told");
            assert_eq!(notices.iter().collect::<Vec<_>>(), [(id, 1)]);
            assert_eq!(set.wait_timeout(Duration::ZERO).expect("waits").count(), 0);
            board.set(0, number);
        }
        drop(own);
        assert_eq!(set.wait_timeout(Duration::from_millis(1)).expect("waits").count(), 0);
    });
    wait_asleep(child.pid());
    notifier.notify(5).expect("ours");
    board.reach(0, 1);
    wait_asleep(child.pid());
    victim.kill();
    child.finish();
    nobody_was_rescued(&domain);
}

fn a_sweep_takes_the_names_of_the_dead(world: &World) {
    let domain = world.domain();
    let _listener = listener(&domain);
    let mut notifier = idle_notifier(&domain);
    let board = Board::new();
    let mut other = Child::start(|| {
        let _listener = Listener::open(&domain, "n").expect("a slot");
        board.set(0, 1);
        std::thread::sleep(Duration::from_secs(600));
    });
    board.reach(0, 1);
    let look = || {
        let entry = domain.entry("n").expect("there");
        let Detail::Notifier(usage) = entry.detail else { panic!("{:?}", entry.detail) };
        (usage.notifiers.len(), usage.listeners.len(), usage.deaths, entry.dead_claims)
    };
    assert_eq!(look(), (1, 2, 0, 0));
    notifier.kill();
    other.kill();
    assert_eq!(look(), (1, 2, 1, 2));
    assert_eq!(domain.sweep(true).expect("looks").claims, 2);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 2);
    assert_eq!(look(), (0, 1, 1, 0));
}

fn options_are_compared(world: &World) {
    let domain = world.domain();
    drop(listener(&domain));
    let found = Notifier::open(&domain, "n").expect("a slot").config();
    assert_eq!(
        (found.on_created, found.on_left, found.on_died),
        (Some(CAME), Some(LEFT), Some(DIED))
    );
    let other = Notifier::options().on_died(1).open(&domain, "n").err();
    assert!(matches!(other, Some(Error::OtherOptions { what: "option on_died", .. })));
    let same = Listener::options().on_died(DIED).open(&domain, "n");
    assert!(same.is_ok());
    let plain = Notifier::open_or_create(&domain, "plain").expect("made");
    assert_eq!(plain.config(), Default::default());
    let asked = Listener::options().on_left(1).open(&domain, "plain").err();
    assert!(matches!(asked, Some(Error::OtherOptions { what: "option on_left", .. })));
    let wrong = Notifier::options().on_left(64).create_new(&domain, "wrong").err();
    assert!(matches!(wrong, Some(Error::InvalidOption { .. })));
    assert!(matches!(Notifier::open(&domain, "wrong"), Err(Error::NotFound { .. })));
}
