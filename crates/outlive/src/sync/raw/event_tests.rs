//! An event under loom, which tries the orders in which its threads can run.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::shim::explore;

impl RawEvent {
    pub(crate) fn new(word: u32) -> RawEvent {
        let of = |value| AtomicU32::new(value);
        let reserved = std::array::from_fn(|_| of(0));
        let head = EventWord { word: Word::new(word), option: of(0), reserved };
        RawEvent { head, cleared: std::array::from_fn(|_| of(0)) }
    }
}

struct World {
    registry: Registry,
    event: RawEvent,
}

fn world() -> Arc<World> {
    Arc::new(World { registry: Registry::new(Vec::new()), event: RawEvent::new(0) })
}

/// Waits until one of the bits is set.
fn wait(world: &World, mask: u32, automatic: bool) {
    let take = |event: &EventWord| event.take(mask, false, automatic);
    world
        .event
        .head
        .wait(&world.registry, &SpinWait::new(), Deadline::NEVER, Opens::WithAny(mask), take)
        .unwrap()
        .unwrap();
}

/// Waits until one of the bits is set, or was since the wait began.
fn wait_since(world: &World, mask: u32, mut begun: Begun) {
    let opens = Opens::WithAny(mask);
    world
        .event
        .wait(&world.registry, &SpinWait::new(), Deadline::NEVER, opens, &mut begun)
        .unwrap()
        .unwrap();
}

fn waiters<const N: usize>(world: &Arc<World>, automatic: bool) -> [thread::JoinHandle<()>; N] {
    std::array::from_fn(|_| {
        let world = Arc::clone(world);
        thread::spawn(move || wait(&world, 1, automatic))
    })
}

#[test]
fn loom_event_all_who_wait_are_woken() {
    explore(3, || {
        let world = world();
        let waiters = waiters::<2>(&world, false);
        world.event.head.set(1);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn loom_event_a_bit_that_is_cleared_at_once_ends_waits_all_the_same() {
    explore(3, || {
        let world = world();
        let begun = world.event.begin();
        let waiter = thread::spawn({
            let world = Arc::clone(&world);
            move || wait_since(&world, 1, begun)
        });
        world.event.head.set(1);
        world.event.clear(1);
        waiter.join().unwrap();
    });
}

#[test]
fn loom_event_two_waiters_and_a_bit_that_is_cleared_at_once() {
    explore(2, || {
        let world = world();
        let begun = world.event.begin();
        let waiters = [0, 1].map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || wait_since(&world, 1, begun))
        });
        world.event.head.set(1);
        world.event.clear(1);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// The last look of a wait, at its deadline.
#[test]
fn loom_event_one_look_finds_a_bit_that_comes_and_goes_meanwhile() {
    explore(2, || {
        let world = world();
        let begun = world.event.begin();
        world.event.head.set(1);
        world.event.clear(1);
        let other = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                for _ in 0..2 {
                    world.event.head.set(1);
                    world.event.clear(1);
                }
            }
        });
        assert_eq!(world.event.look(begun, Opens::WithAny(1)), Some(1));
        other.join().unwrap();
    });
}

#[test]
fn loom_event_two_processes_clear() {
    explore(2, || {
        let world = world();
        let begun = world.event.begin();
        world.event.head.set(1);
        let clearers = [0, 1].map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.event.clear(1))
        });
        wait_since(&world, 1, begun);
        let had = clearers.map(|clearer| clearer.join().unwrap());
        assert_eq!(had.iter().sum::<u32>(), 1, "one of them cleared it");
        assert_eq!(world.event.begin().0, begun.0 + 1);
    });
}

#[test]
fn loom_event_bits_that_one_step_cannot_set_wake_all() {
    explore(2, || {
        let world = world();
        let waiters = waiters::<2>(&world, false);
        assert_eq!(world.event.head.set(1 | 3 << 20), 0);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn loom_event_each_of_two_sets_lets_one_through() {
    explore(2, || {
        let world = world();
        let waiters = waiters::<2>(&world, true);
        let mut set = 0;
        while set < 2 {
            if world.event.head.value() == 0 {
                world.event.head.set(1);
                set += 1;
            } else {
                thread::yield_now();
            }
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn loom_event_two_setters_and_who_waits_for_the_second() {
    explore(3, || {
        let world = world();
        let waiter = thread::spawn({
            let world = Arc::clone(&world);
            move || wait(&world, 2, false)
        });
        let setter = thread::spawn({
            let world = Arc::clone(&world);
            move || world.event.head.set(1)
        });
        world.event.head.set(2);
        setter.join().unwrap();
        waiter.join().unwrap();
    });
}

#[test]
fn loom_latch_the_last_of_two_arrivals_wakes() {
    explore(3, || {
        let world =
            Arc::new(World { registry: Registry::new(Vec::new()), event: RawEvent::new(2) });
        let arrivals = [1, 1].map(|by| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.event.head.count_down(by))
        });
        let open = |latch: &EventWord| (latch.value() == 0).then_some(());
        world
            .event
            .head
            .wait(&world.registry, &SpinWait::new(), Deadline::NEVER, Opens::AtZero, open)
            .unwrap()
            .unwrap();
        let left = arrivals.map(|arrival| arrival.join().unwrap());
        assert_eq!(left.iter().min(), Some(&0));
    });
}
