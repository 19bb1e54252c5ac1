//! The condition variable under loom: its waiters and notifiers among deaths.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::super::mutex::RawMutex;
use super::*;
use crate::liveness::Slot;
use crate::shim::{Ordering, explore};
use crate::sys::robust::{ListHead, beside_libc_of, end_thread};

/// A mutex at which libc takes `list_op_pending`, as far as loom can have one.
struct Libcs<'a>(&'a World);

impl Relock for Libcs<'_> {
    const TAKES_LIST: bool = true;
    const SPINS: bool = false;

    fn is_consistent(&self) -> bool {
        self.0.mutex.is_consistent()
    }

    fn release(&self, me: Me) {
        // SAFETY: the list is the calling thread's.
        unsafe { beside_libc_of(me.list(), || self.0.mutex.release(me.id)) }
    }

    fn try_lock(&self, _: Me) -> Result<Acquired, Refused> {
        unreachable!("a wait does not try such a mutex")
    }

    fn lock(&self, me: Me, spins: &SpinWait, by: Deadline) -> Result<Acquired, Refused> {
        // SAFETY: the list is the calling thread's.
        unsafe { beside_libc_of(me.list(), || self.0.mutex.lock(me, spins, by)) }
    }

    fn is_free(&self) -> bool {
        self.0.mutex.owner().is_none()
    }

    fn is_left_by_dead(&self) -> bool {
        self.0.mutex.owner().is_some_and(|owner| !self.0.registry.is_alive(owner))
    }
}

impl RawCondvar {
    pub(crate) fn new() -> RawCondvar {
        RawCondvar {
            plain: RelayedEventCount::default(),
            watchful: EventCount::default(),
            notifications: Notifications::default(),
        }
    }
}

struct World {
    registry: Registry,
    mutex: RawMutex,
    condvar: RawCondvar,
    /// Changed under the mutex.
    items: AtomicU32,
}

fn world(threads: u32) -> Arc<World> {
    let slots = (0..threads).map(|n| Slot::held_by(n + 100)).collect();
    let items = AtomicU32::new(0);
    Arc::new(World {
        registry: Registry::new(slots),
        mutex: RawMutex::new(),
        condvar: RawCondvar::new(),
        items,
    })
}

fn me<'r>(world: &'r World, thread: u32, list: &mut ListHead) -> Me<'r> {
    Me { registry: &world.registry, id: TokenId::new(thread, 0), list }
}

fn spin_waits() -> SpinWaits {
    SpinWaits { notify: SpinWait::new(), lock: SpinWait::new() }
}

fn lock(world: &World, me: Me) -> Acquired {
    world.mutex.lock(me, &SpinWait::new(), Deadline::NEVER).expect("locked")
}

/// Waits for an item and takes it. If it is told of a death, it notifies all, as its repair.
fn take(world: &World, thread: u32) {
    take_under(world, &&world.mutex, thread);
}

fn take_under(world: &World, mutex: &impl Relock, thread: u32) {
    let mut list = ListHead::new();
    let me = me(world, thread, &mut list);
    let mut got = lock(world, me);
    let mut relay = None;
    loop {
        if got == Acquired::OwnerDied {
            world.mutex.mark_consistent();
            world.condvar.notify_all();
        }
        if world.items.load(Ordering::Relaxed) > 0 {
            break;
        }
        let begun = relay.take().unwrap_or_else(|| WakeRelay::begin(me.list()));
        let waited = world.condvar.wait(
            &world.registry,
            mutex,
            me,
            begun,
            &spin_waits(),
            Deadline::NEVER,
            Deadline::NEVER,
        );
        got = waited.lock.expect("locked again");
        relay = waited.relay;
    }
    world.items.store(world.items.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    mutex.release(me);
}

/// Runs that as a thread of its own.
fn start(world: &Arc<World>, run: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || run(&world))
}

/// Two threads wait under that mutex, and two items are brought, each with a notification.
fn two_waiters_and_two_notifications(take: impl Fn(&World, u32) + Copy + 'static) {
    let world = world(3);
    let takers = [1, 2].map(|thread| start(&world, move |world| take(world, thread)));
    for _ in 0..2 {
        bring(&world, 0, 1);
        world.condvar.notify_one();
    }
    for taker in takers {
        taker.join().unwrap();
    }
}

/// One of two waiters dies with the mutex. No other thread locks afterwards, and one of the two
/// sleeps on unless it is woken.
fn one_dies_with_the_lock_in_hand(
    dies: impl FnOnce(&World) + 'static,
    takes: impl FnOnce(&World) + 'static,
) {
    let world = world(3);
    let (dying, taker) = (start(&world, dies), start(&world, takes));
    bring(&world, 0, 2);
    world.condvar.notify_one();
    world.condvar.notify_one();
    dying.join().unwrap();
    taker.join().unwrap();
}

fn bring(world: &World, thread: u32, items: u32) {
    let mut list = ListHead::new();
    let me = me(world, thread, &mut list);
    if lock(world, me) == Acquired::OwnerDied {
        world.mutex.mark_consistent();
    }
    world.items.store(world.items.load(Ordering::Relaxed) + items, Ordering::Relaxed);
    world.mutex.release(me.id);
}

#[test]
fn loom_condvar_what_is_brought_and_notified_is_taken() {
    explore(3, || {
        let world = world(2);
        let taker = start(&world, |world| take(world, 1));
        bring(&world, 0, 1);
        world.condvar.notify_one();
        taker.join().unwrap();
    });
}

#[test]
fn loom_condvar_two_waiters_and_two_notifications() {
    explore(2, || two_waiters_and_two_notifications(take));
}

#[test]
fn loom_condvar_a_woken_waiter_that_dies_passes_the_wake_on() {
    explore(2, || {
        let world = world(3);
        // Sleeps, and once it is woken dies before it does anything else.
        let dying = start(&world, |world| {
            let mut list = ListHead::new();
            let me = me(world, 1, &mut list);
            lock(world, me);
            if world.items.load(Ordering::Relaxed) == 0 {
                let relay = WakeRelay::begin(me.list());
                let ticket = world.condvar.prepare(&relay);
                world.mutex.release(me.id);
                let slept = world.condvar.sleep::<&RawMutex>(
                    &world.registry,
                    ticket,
                    &spin_waits(),
                    Deadline::NEVER,
                );
                assert_eq!(slept, Ok(Asleep::LookAgain));
                end_thread(&world.registry.slots[1], &list);
                std::mem::forget(relay);
            } else {
                world.mutex.release(me.id);
            }
        });
        let taker = start(&world, |world| take(world, 2));
        // One more than is taken, so that a late waiter does not begin to sleep.
        bring(&world, 0, 2);
        world.condvar.notify_one();
        taker.join().unwrap();
        // The notification may have gone to the taker.
        world.condvar.notify_all();
        dying.join().unwrap();
    });
}

#[test]
fn loom_condvar_who_dies_with_the_lock_in_hand_wakes_the_next() {
    explore(2, || {
        let dies = |world: &World| {
            let mut list = ListHead::new();
            let me = me(world, 1, &mut list);
            lock(world, me);
            while world.items.load(Ordering::Relaxed) == 0 {
                let relay = WakeRelay::begin(me.list());
                let waited = world.condvar.wait(
                    &world.registry,
                    &&world.mutex,
                    me,
                    relay,
                    &spin_waits(),
                    Deadline::NEVER,
                    Deadline::NEVER,
                );
                std::mem::forget(waited.relay);
            }
            end_thread(&world.registry.slots[1], &list);
        };
        one_dies_with_the_lock_in_hand(dies, |world| take(world, 2));
    });
}

#[test]
#[ignore = "a third of a minute: part of `cargo xtask loom --all`"]
fn loom_condvar_under_libcs_mutex_two_waiters_and_two_notifications() {
    explore(2, || {
        two_waiters_and_two_notifications(|world, thread| take_under(world, &Libcs(world), thread));
    });
}

/// It dies with the mutex, whether it has used its notification or not: the sleeper is woken, and
/// told, by no other thread's doing.
#[test]
fn loom_condvar_under_libcs_mutex_who_dies_with_the_lock_in_hand_wakes_the_next() {
    explore(2, || {
        let dies = |world: &World| {
            let mut list = ListHead::new();
            let me = me(world, 1, &mut list);
            let mutex = Libcs(world);
            lock(world, me);
            let mut kept = None;
            while world.items.load(Ordering::Relaxed) == 0 {
                let relay = kept.take().unwrap_or_else(|| WakeRelay::begin(me.list()));
                let waited = world.condvar.wait(
                    &world.registry,
                    &mutex,
                    me,
                    relay,
                    &spin_waits(),
                    Deadline::NEVER,
                    Deadline::NEVER,
                );
                kept = waited.relay;
            }
            std::mem::forget(kept);
            end_thread(&world.registry.slots[1], &list);
        };
        one_dies_with_the_lock_in_hand(dies, |world| take_under(world, &Libcs(world), 2));
    });
}

#[test]
fn loom_condvar_the_end_of_whom_it_watches_ends_a_wait() {
    explore(3, || {
        let world = world(2);
        let list = ListHead::new();
        let waiter = start(&world, |world| {
            let mut list = ListHead::new();
            let me = me(world, 1, &mut list);
            let other = TokenId::new(0, 0);
            lock(world, me);
            while world.registry.is_alive(other) {
                let whose = (&world.registry, other);
                let relay = WakeRelay::begin(me.list());
                let waited = world.condvar.wait_or_end(
                    whose,
                    &&world.mutex,
                    me,
                    relay,
                    &spin_waits(),
                    Deadline::NEVER,
                );
                assert_eq!(waited.lock, Ok(Acquired::Clean));
            }
            world.mutex.release(me.id);
        });
        world.condvar.notify_one();
        end_thread(&world.registry.slots[0], &list);
        waiter.join().unwrap();
    });
}
