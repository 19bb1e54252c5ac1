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

use super::notifications::{Notifications, Since};
use super::relock::Relock;
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
        mutex: &impl Relock,
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
    pub(crate) fn wait_part<M: Relock>(
        &self,
        registry: &Registry,
        mutex: &M,
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
        let relay = if M::TAKES_LIST {
            // Died in between: this thread is not asleep, so it has no wake-up in hand.
            let relay = put_aside(relay, me);
            mutex.release(me);
            relay.to(self.plain.relay());
            relay
        } else {
            mutex.release(me);
            relay
        };
        let slept = self.sleep::<M>(registry, ticket, spin_waits, deadline);
        let mut waited = if M::TAKES_LIST {
            self.take_again_beside_libc(mutex, me, spin_waits, ticket, relay, slept, relock)
        } else {
            self.take_again(mutex, me, spin_waits, relay, slept, relock)
        };
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
            if M::TAKES_LIST && !waited.notified && waited.lock == Ok(Acquired::Clean) {
                // Nothing in hand: else the next unlock, which takes the field, would wake a waiter.
                waited.relay = waited.relay.map(|relay| put_aside(relay, me));
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

    fn sleep<M: Relock>(
        &self,
        registry: &Registry,
        ticket: Ticket,
        spin_waits: &SpinWaits,
        deadline: Deadline,
    ) -> Result<Asleep, Errno> {
        if deadline.has_passed() {
            return Ok(Asleep::TimedOut);
        }
        if M::SPINS {
            spin_waits.notify.spin_until(deadline, || self.plain.count().is_notified(ticket));
        }
        Sleep::on(registry, &self.plain.watches(ticket)).among_others_until(deadline)
    }

    /// Locks again. A wake-up may be for us alone: it must not die with us in the queue for the
    /// mutex.
    fn take_again<M: Relock>(
        &self,
        mutex: &M,
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
            && M::SPINS
            && spin_waits.lock.spin_until(relock, || mutex.is_free())
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

    /// Locks again a mutex at which libc takes `list_op_pending`. So the next waiter is woken before
    /// that, if there may be something for it: a notification that no waiter has used yet, or a dead
    /// owner's mutex. If this thread died in the lock, with its wake-up, that waiter goes on.
    ///
    /// Once for each change of the sequence: of two waiters, neither wakes the other for ever.
    #[expect(clippy::too_many_arguments, reason = "what one part of a wait knows")]
    fn take_again_beside_libc<M: Relock>(
        &self,
        mutex: &M,
        me: Me,
        spin_waits: &SpinWaits,
        ticket: Ticket,
        relay: WakeRelay,
        slept: Result<Asleep, Errno>,
        relock: Deadline,
    ) -> Waited {
        let timed_out = slept == Ok(Asleep::TimedOut);
        let may_be_needed = mutex.is_left_by_dead()
            || self.plain.count().is_notified(ticket) && self.notifications.is_any_unused();
        if timed_out || may_be_needed {
            self.plain.relay_wake();
        }
        let relay = put_aside(relay, me);
        let lock = match slept {
            Ok(_) => mutex.lock(me, &spin_waits.lock, relock),
            Err(errno) => Err(Refused::System(errno)),
        };
        // Before it uses a notification: died with the mutex, it wakes the next waiter, which is
        // told.
        relay.to(self.plain.relay());
        if lock.is_err() {
            self.plain.relay_wake();
        }
        let relay = lock.is_ok().then_some(relay);
        Waited { lock, timed_out, notified: false, relay }
    }

    /// Waits likewise, until the owner of `other`, a token of `others`, has ended.
    pub(crate) fn wait_or_end<M: Relock>(
        &self,
        (others, other): (&Registry, TokenId),
        mutex: &M,
        me: Me,
        relay: WakeRelay,
        spin_waits: &SpinWaits,
        deadline: Deadline,
    ) -> Waited {
        let ticket = self.watchful.announce();
        mutex.release(me);
        if M::SPINS {
            let ended = || self.watchful.is_notified(ticket) || !others.is_alive(other);
            spin_waits.notify.spin_until(deadline, ended);
        }
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

/// Lets go of the field for libc, which takes it, without waking a waiter; the relay leads nowhere
/// until it is led to a word again.
fn put_aside(relay: WakeRelay, me: Me) -> WakeRelay {
    drop(relay);
    WakeRelay::begin(me.list())
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RawCondvar {}

crate::shim::assert_layout!(size_of::<RawCondvar>() == 32);

#[cfg(all(test, loom))]
#[path = "condvar_tests.rs"]
mod loom_tests;
