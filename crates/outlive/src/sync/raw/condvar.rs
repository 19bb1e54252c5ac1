//! The condition variable: two places to sleep.
//!
//! | place | sleepers | `notify_one` | `notify_all` |
//! | --- | --- | --- | --- |
//! | `plain` | waiters | wakes one | wakes all |
//! | `watchful` | waiters that also watch the end of a peer | wakes all | wakes all |
//!
//! A waiter holds the mutex when it prepares its wait, so a thread that changes the condition under
//! the mutex afterwards sees the waiter's number: no fence is needed. Where a waiter dies:
//!
//! | a waiter dies | what becomes of its wake-up |
//! | --- | --- |
//! | holding the mutex, not asleep yet | it has none; the next locker is told of the death |
//! | asleep, or woken | see `wake/event_count.rs`: the wake-up goes to the next waiter |
//! | woken, queued for the mutex | it has woken the next waiter before it queued |
//! | woken, holding the mutex | the kernel wakes the next waiter on the relay word, which locks and is told |
//!
//! Because of the last row, `list_op_pending` points to the relay word until the mutex is unlocked.
//! A watchful waiter needs that field for the watched owner's relay word, so it cannot relay a
//! wake-up; therefore every notification wakes all watchful waiters.
//!
//! A wake-up may reach more waiters than were notified. Each plain waiter that has the mutex again
//! uses a notification up (`notifications.rs`), or waits again.

use super::mutex::RawMutex;
use super::notifications::{Notifications, Since};
use super::{Acquired, Refused};
use crate::Deadline;
use crate::liveness::{Me, Registry, TokenId};
use crate::sys::Errno;
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, EventCount, RelayedEventCount, Sleep, SpinWait, Ticket};

/// See the file's head.
#[repr(C)]
pub struct RawCondvar {
    plain: RelayedEventCount,
    watchful: EventCount,
    notifications: Notifications,
}

/// How a wait ended.
pub(crate) struct Waited {
    /// The mutex, locked again or not.
    pub(crate) lock: Result<Acquired, Refused>,
    /// Whether the deadline passed, and no notification ended the wait.
    pub(crate) timed_out: bool,
    /// Whether a notification ended the wait, which has used it.
    pub(crate) notified: bool,
    /// The caller keeps it as long as it holds the mutex: see the file's head.
    pub(crate) relay: Option<WakeRelay>,
}

/// How a handle spins before it sleeps.
pub(crate) struct SpinWaits {
    /// For a notification.
    pub(crate) notify: SpinWait,
    /// For the mutex.
    pub(crate) lock: SpinWait,
}

impl RawCondvar {
    #[inline]
    pub(crate) fn notify_one(&self) {
        self.watchful.notify_all();
        // Died or stopped between the two: the next waiter to look uses it.
        self.notify_plain(false, || self.notifications.give_one());
    }

    #[inline]
    pub(crate) fn notify_all(&self) {
        self.watchful.notify_all();
        self.notify_plain(true, || self.notifications.give_all());
    }

    #[inline]
    fn notify_plain(&self, all: bool, note: impl FnOnce()) {
        self.plain.notify_noting(all, || self.notifications.is_any_waiting(), note);
    }

    /// Notifies one waiter, for a caller whose relay wakes one next.
    pub(crate) fn hand_on(&self) {
        self.notifications.give_one();
    }

    /// Returns the point at which a wait of several parts begins: see [`RawCondvar::wait_part`].
    pub(crate) fn begin(&self) -> Since {
        self.notifications.begin()
    }

    /// Ends what [`RawCondvar::begin`] has begun.
    pub(crate) fn end(&self) {
        self.notifications.end();
    }

    /// Uses a notification that came since a wait began, if there is one.
    pub(crate) fn take_notification(&self, since: Since) -> bool {
        self.notifications.take(since)
    }

    /// Waits until notified, by as many parts as it takes; also until the next recheck.
    ///
    /// `me` holds `mutex`, which is locked again until `relock`. `relay` is the thread's, begun just
    /// now or kept since an earlier wait.
    #[expect(clippy::too_many_arguments, reason = "two deadlines")]
    pub(crate) fn wait(
        &self,
        registry: &Registry,
        mutex: &RawMutex,
        me: Me,
        relay: WakeRelay,
        spin_waits: &SpinWaits,
        deadline: Deadline,
        relock: Deadline,
    ) -> Waited {
        let since = self.begin();
        let recheck = registry.recheck().map_or(Deadline::NEVER, Deadline::after);
        let mut relay = relay;
        loop {
            let mut waited =
                self.wait_part(registry, mutex, me, relay, spin_waits, since, deadline, relock);
            let again = waited.lock == Ok(Acquired::Clean)
                && !waited.notified
                && !waited.timed_out
                && !recheck.has_passed();
            match waited.relay.take() {
                Some(kept) if again => relay = kept,
                kept => {
                    self.end();
                    return Waited { relay: kept, ..waited };
                }
            }
        }
    }

    /// Unlocks `mutex`, which `me` holds, sleeps until something wakes it, and locks the mutex again.
    /// A caller whose wait began at `since` and that was not notified may go on with another part:
    /// notifications in between count.
    #[expect(clippy::too_many_arguments, reason = "two deadlines")]
    pub(crate) fn wait_part(
        &self,
        registry: &Registry,
        mutex: &RawMutex,
        me: Me,
        relay: WakeRelay,
        spin_waits: &SpinWaits,
        since: Since,
        deadline: Deadline,
        relock: Deadline,
    ) -> Waited {
        let ticket = self.prepare(&relay);
        // A notifier that had not locked the mutex may have come since the last look, and have woken
        // no waiter.
        if self.take_notification(since) {
            let clean = mutex.is_consistent();
            let lock = Ok(if clean { Acquired::Clean } else { Acquired::OwnerDied });
            return Waited { lock, timed_out: false, notified: true, relay: Some(relay) };
        }
        // The next locker sees everything before this.
        mutex.release(me.id);
        let slept = self.sleep(registry, ticket, spin_waits, deadline);
        let mut waited = self.take_again(mutex, me, spin_waits, relay, slept, relock);
        if waited.lock.is_ok() {
            // Under the mutex: died just after, the next locker is told of it.
            waited.notified = self.take_notification(since);
            waited.timed_out &= !waited.notified;
            // The wake may have been for a waiter that began before us. Once for each notification,
            // so waiters do not wake each other for ever for one that no waiter uses.
            if !waited.notified
                && self.plain.count().is_notified(ticket)
                && self.notifications.is_any_unused()
            {
                self.plain.relay_wake();
            }
        }
        waited
    }

    /// Prepares the wait, with the mutex held.
    fn prepare(&self, relay: &WakeRelay) -> Ticket {
        let ticket = self.plain.announce_before_looking();
        relay.to(self.plain.relay());
        ticket
    }

    fn sleep(
        &self,
        registry: &Registry,
        ticket: Ticket,
        spin_waits: &SpinWaits,
        deadline: Deadline,
    ) -> Result<Asleep, Errno> {
        if deadline.has_passed() {
            return Ok(Asleep::TimedOut);
        }
        spin_waits.notify.spin_until(deadline, || self.plain.count().is_notified(ticket));
        Sleep::on(registry, &self.plain.watches(ticket)).among_others_until(deadline)
    }

    /// Locks again. A wake-up may be for us alone: it must not die with us in the queue for the
    /// mutex.
    fn take_again(
        &self,
        mutex: &RawMutex,
        me: Me,
        spin_waits: &SpinWaits,
        mut relay: WakeRelay,
        slept: Result<Asleep, Errno>,
        relock: Deadline,
    ) -> Waited {
        let timed_out = slept == Ok(Asleep::TimedOut);
        let mut lock = match slept {
            Ok(_) => mutex.try_lock(me),
            Err(errno) => Err(Refused::System(errno)),
        };
        if lock == Err(Refused::WouldBlock)
            && spin_waits.lock.spin_until(relock, || mutex.owner().is_none())
        {
            lock = mutex.try_lock(me);
        }
        // A waiter that gives up may have been woken all the same, and one that gets no lock cannot
        // use the wake-up.
        if timed_out || lock.is_err() {
            self.plain.relay_wake();
        }
        if lock == Err(Refused::WouldBlock) {
            // The wake-up is relayed already, so the field is free for the mutex's own protocol.
            drop(relay);
            lock = mutex.lock(me, &spin_waits.lock, relock);
            relay = WakeRelay::begin(me.list());
            relay.to(self.plain.relay());
            if lock.is_err() {
                self.plain.relay_wake();
            }
        }
        let relay = lock.is_ok().then_some(relay);
        Waited { lock, timed_out, notified: false, relay }
    }

    /// Waits likewise, until the owner of `other`, a token of `others`, has ended.
    pub(crate) fn wait_or_end(
        &self,
        (others, other): (&Registry, TokenId),
        mutex: &RawMutex,
        me: Me,
        relay: WakeRelay,
        spin_waits: &SpinWaits,
        deadline: Deadline,
    ) -> Waited {
        let ticket = self.watchful.announce();
        mutex.release(me.id);
        let ended = || self.watchful.is_notified(ticket) || !others.is_alive(other);
        spin_waits.notify.spin_until(deadline, ended);
        let slept = if deadline.has_passed() {
            Ok(Asleep::TimedOut)
        } else {
            Sleep::on(others, &[self.watchful.watch(ticket)])
                .behind(&relay, &[other])
                .until(deadline)
        };
        drop(relay);
        let timed_out = slept == Ok(Asleep::TimedOut);
        // Also when the system refused the sleep: the caller gets the lock or the reason, never
        // neither.
        let lock = match slept {
            Ok(_) => mutex.lock(me, &spin_waits.lock, Deadline::NEVER),
            Err(errno) => Err(Refused::System(errno)),
        };
        Waited { lock, timed_out, notified: false, relay: None }
    }

    /// Returns whether a thread may be waiting, and how many notifications a waiter may have
    /// needed.
    pub(crate) fn look(&self) -> (bool, u32) {
        let (plain, watchful) = (self.plain.count().look(), self.watchful.look());
        (plain.0 || watchful.0, plain.1.wrapping_add(watchful.1))
    }
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RawCondvar {}

crate::shim::assert_layout!(size_of::<RawCondvar>() == 32);

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    use super::*;
    use crate::liveness::Slot;
    use crate::shim::Ordering;
    use crate::shim::explore;
    use crate::sys::robust::{ListHead, end_thread};

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
                &world.mutex,
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
        world.mutex.release(me.id);
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
            let taker = thread::spawn({
                let world = Arc::clone(&world);
                move || take(&world, 1)
            });
            bring(&world, 0, 1);
            world.condvar.notify_one();
            taker.join().unwrap();
        });
    }

    #[test]
    fn loom_condvar_two_waiters_and_two_notifications() {
        explore(2, || {
            let world = world(3);
            let takers = [1, 2].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || take(&world, n))
            });
            for _ in 0..2 {
                bring(&world, 0, 1);
                world.condvar.notify_one();
            }
            for taker in takers {
                taker.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_condvar_a_woken_waiter_that_dies_passes_the_wake_on() {
        explore(2, || {
            let world = world(3);
            // Sleeps, and once it is woken dies before it does anything else.
            let dying = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    let mut list = ListHead::new();
                    let me = me(&world, 1, &mut list);
                    lock(&world, me);
                    if world.items.load(Ordering::Relaxed) == 0 {
                        let relay = WakeRelay::begin(me.list());
                        let ticket = world.condvar.prepare(&relay);
                        world.mutex.release(me.id);
                        let slept = world.condvar.sleep(
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
                }
            });
            let taker = thread::spawn({
                let world = Arc::clone(&world);
                move || take(&world, 2)
            });
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
            let world = world(3);
            let dying = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    let mut list = ListHead::new();
                    let me = me(&world, 1, &mut list);
                    lock(&world, me);
                    while world.items.load(Ordering::Relaxed) == 0 {
                        let relay = WakeRelay::begin(me.list());
                        let waited = world.condvar.wait(
                            &world.registry,
                            &world.mutex,
                            me,
                            relay,
                            &spin_waits(),
                            Deadline::NEVER,
                            Deadline::NEVER,
                        );
                        std::mem::forget(waited.relay);
                    }
                    end_thread(&world.registry.slots[1], &list);
                }
            });
            let taker = thread::spawn({
                let world = Arc::clone(&world);
                move || take(&world, 2)
            });
            // No other thread locks afterwards, and one of these two sleeps on unless it is woken.
            bring(&world, 0, 2);
            world.condvar.notify_one();
            world.condvar.notify_one();
            dying.join().unwrap();
            taker.join().unwrap();
        });
    }

    #[test]
    fn loom_condvar_the_end_of_whom_it_watches_ends_a_wait() {
        explore(3, || {
            let world = world(2);
            let list = ListHead::new();
            let waiter = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    let mut list = ListHead::new();
                    let me = me(&world, 1, &mut list);
                    let other = TokenId::new(0, 0);
                    lock(&world, me);
                    while world.registry.is_alive(other) {
                        let whose = (&world.registry, other);
                        let relay = WakeRelay::begin(me.list());
                        let waited = world.condvar.wait_or_end(
                            whose,
                            &world.mutex,
                            me,
                            relay,
                            &spin_waits(),
                            Deadline::NEVER,
                        );
                        assert_eq!(waited.lock, Ok(Acquired::Clean));
                    }
                    world.mutex.release(me.id);
                }
            });
            world.condvar.notify_one();
            end_thread(&world.registry.slots[0], &list);
            waiter.join().unwrap();
        });
    }
}
