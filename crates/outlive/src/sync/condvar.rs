//! A named condition variable, for the guards of mutexes of all kinds.

use std::time::Duration;

use super::embedded::{Embedded, InRecord};
use super::error::{AcquireError, LockError};
use super::guard::Guard;
use super::primitive::{Handle, TypeOf};
use super::primitive::{Inspect, LockDetail, Primitive, Site, Sited};
use super::raw::condvar::{RawCondvar, SpinWaits, Waited};
use super::raw::notifications::Since;
use super::raw_lock::{CondvarLock, UniqueLock};
use super::wait_probes::wait_for_notification;
use crate::domain::three_openings;
use crate::liveness::{Me, Peer, Registry};
use crate::segment::{Header, Opening};
use crate::sys::robust::WakeRelay;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// Lets threads of any process wait, without the mutex meanwhile, until another thread has changed
/// what the mutex guards.
///
/// A notification by [`Condvar::notify_one`] ends one wait that began before it. A wait may also end
/// without a notification, once a second, so that waiters find what a dead notifier has changed: so
/// check the condition in a loop, or use [`Condvar::wait_while`]; and change the condition under the
/// mutex. A wait takes a guard of any mutex, even of another domain's, and different waiters may use
/// different ones: a [`Mutex`](super::Mutex), a [`PiMutex`](super::PiMutex), a
/// [`CeilingMutex`](super::CeilingMutex), or a [`ReentrantMutex`](super::ReentrantMutex) of which
/// the thread has no other guard. Notifying costs one load when no thread waits.
///
/// A wait always locks again before it returns, so a passed deadline is no error: the bounded forms
/// return the guard and a [`Woke`]. There is no `try_` form: without waiting, checking the
/// condition is all there is to do.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{Condvar, Mutex};
///
/// let stock = Mutex::<u64>::options(0).open_or_create(&domain, "stock")?;
/// let delivered = Condvar::open_or_create(&domain, "delivered")?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *stock.lock().unwrap() += 1;
///         delivered.notify_one();
///     });
///     let guard = stock.lock().unwrap();
///     let mut guard = delivered.wait_while(guard, |stock| *stock == 0).unwrap();
///     *guard -= 1;
/// });
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # Under a real-time policy
/// `notify_one` wakes the most urgent thread that sleeps in a plain wait, by the threads' own
/// priorities: a waiter does not keep a ceiling while it sleeps. Which waiter uses the notification
/// is then decided at the mutex: with a [`PiMutex`](super::PiMutex), the holder runs with the
/// priority of the woken waiters as soon as they queue for the mutex, and the kernel hands the mutex
/// to the most urgent one; with a [`CeilingMutex`](super::CeilingMutex), a woken waiter is raised
/// before it takes the mutex. A waiter does not move from the condition variable to the mutex without
/// running in between, and no thread inherits a priority from a waiter that sleeps here. A waiter of
/// these two mutexes never spins. One whose right to the ceiling is gone gets the errors of locking,
/// and does not hold the mutex.
///
/// # If a process dies
/// A waiter, anywhere between its wait and unlocking the mutex: its notification goes to the next
/// waiter, and that one gets [`LockError::OwnerDied`] if the dead one had the mutex already. A
/// thread that gets `OwnerDied` must notify all, as a part of the repair: the dead owner may have
/// changed the condition without notifying.
///
/// A notifier, before its `notify_one` has returned: perhaps no waiter was notified. If it held the
/// mutex, the next locker gets [`LockError::OwnerDied`]. Threads that wait already learn of the
/// death only if they watch the notifier, by [`Condvar::wait_or_end`], or at their recheck
/// ([`DomainOptions::recheck`](crate::DomainOptions::recheck)): then every wait returns, once a
/// second by default.
///
/// A stopped process (`SIGSTOP`) keeps a wake-up that it has received; another waiter uses the
/// notification in its place at its recheck.
pub struct Condvar {
    handle: Handle<RawCondvar>,
    spin_waits: SpinWaits,
}

/// Says how to open a condition variable, or make one: see [`Condvar::options`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct CondvarOptions(());

impl CondvarOptions {
    three_openings!(Condvar, "condition variable", "");

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Condvar, Error> {
        let init = |_: &mut RawCondvar, _: &Header| ();
        let value = TypeOf::nothing();
        Ok(Condvar::at(Handle::open_as(domain, name, opening, Kind::Condvar, value, init)?))
    }
}

/// Says why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Woke {
    /// A thread notified, or a recheck is due (once a second, unless the domain says otherwise):
    /// check the condition.
    Notified,
    /// The deadline passed.
    TimedOut,
    /// The watched peer has ended.
    PeerEnded,
}

/// The point at which a wait began: see [`Condvar::begin_wait`].
#[doc(hidden)]
pub struct BegunCondvarWait<'a> {
    condvar: &'a RawCondvar,
    since: Since,
}

impl Drop for BegunCondvarWait<'_> {
    fn drop(&mut self) {
        self.condvar.end();
    }
}

/// What a plain wait does with the thread's other guards of a reentrant mutex.
#[derive(Clone, Copy, PartialEq)]
enum Outer {
    /// They keep it from waiting.
    Refused,
    /// It releases the mutex as a whole.
    Released,
}

/// The end of a part of a wait: the guard, unless a living thread keeps the mutex, and whether it
/// was notified.
type NotifiedOrNot<'a, R, T, K> =
    Result<Option<(Guard<'a, R, T, K>, bool)>, LockError<Guard<'a, R, T, K>>>;

/// The end of a wait without a deadline: the guard again.
type Relocked<'a, R, T, K> = Result<Guard<'a, R, T, K>, LockError<Guard<'a, R, T, K>>>;

/// The end of a wait: the guard again and the reason.
type Ended<'a, R, T, K> = Result<(Guard<'a, R, T, K>, Woke), LockError<Guard<'a, R, T, K>>>;

/// Likewise, for a wait that may not get the mutex again: then `None`.
type MaybeEnded<'a, R, T, K> =
    Result<Option<(Guard<'a, R, T, K>, Woke)>, LockError<Guard<'a, R, T, K>>>;

/// Unwraps the end of a wait that locks again without a deadline.
fn ended<'a, R: CondvarLock, T, K>(ended: MaybeEnded<'a, R, T, K>) -> Ended<'a, R, T, K> {
    // Without a deadline, a lock is taken or refused for good.
    ended?.ok_or(LockError::Failed(AcquireError::NotHeld))
}

impl Sited for Condvar {
    fn site(&self) -> &Site {
        self.handle.site()
    }
}

impl Condvar {
    /// Returns the options for opening a condition variable, or making one. There is nothing to
    /// choose so far.
    pub fn options() -> CondvarOptions {
        CondvarOptions(())
    }

    /// Opens the existing condition variable of that name.
    ///
    /// # Errors
    /// As [`CondvarOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Condvar, Error> {
        Condvar::options().open(domain, name)
    }

    /// Opens the condition variable of that name, or makes it.
    ///
    /// # Errors
    /// As [`CondvarOptions::open_or_create`].
    ///
    /// # If a process dies
    /// While it makes the condition variable: nothing is left of it.
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<Condvar, Error> {
        Condvar::options().open_or_create(domain, name)
    }

    fn at(handle: Handle<RawCondvar>) -> Condvar {
        let registry = handle.site().registry;
        let (notify, lock) = (registry.spin_wait(), registry.spin_wait());
        Condvar { handle, spin_waits: SpinWaits { notify, lock } }
    }

    /// Sets how this handle waits.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.spin_waits.notify.set(wait);
        self.spin_waits.lock.set(wait);
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again.
    ///
    /// It may return without a notification.
    ///
    /// # Errors
    /// The errors of locking. [`LockError::OwnerDied`] with the guard: an owner died holding the
    /// mutex meanwhile; repair, and notify all. The caller gets it also if its own guard came with
    /// `OwnerDied` and the value was not marked consistent before the wait, because waiting
    /// unlocks. [`AcquireError::NotHeld`] in a forked child. [`AcquireError::Deadlock`] when the
    /// thread has another guard of the same [`ReentrantMutex`](super::ReentrantMutex), which would
    /// keep the mutex; the guard given is dropped.
    ///
    /// # If a process dies
    /// See [`Condvar`].
    pub fn wait<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
    ) -> Relocked<'a, R, T, K> {
        Ok(self.wait_until(guard, Deadline::NEVER)?.0)
    }

    /// Waits as [`Condvar::wait`] does, for so long at most. It then locks the mutex again without
    /// a deadline.
    ///
    /// # Errors
    /// As [`Condvar::wait`]. That the time is over is no error: the caller has the mutex again.
    pub fn wait_timeout<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        timeout: Duration,
    ) -> Ended<'a, R, T, K> {
        self.wait_until(guard, Deadline::after(timeout))
    }

    /// Waits as [`Condvar::wait`] does, until the deadline. It then locks the mutex again without a
    /// deadline.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-until-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{Condvar, Mutex, Woke};
    /// use std::time::Duration;
    ///
    /// let stock = Mutex::<u64>::options(0).open_or_create(&domain, "stock")?;
    /// let delivered = Condvar::open_or_create(&domain, "delivered")?;
    /// let mut guard = stock.lock().unwrap();
    /// let deadline = outlive::Deadline::after(Duration::from_millis(5));
    /// while *guard == 0 {
    ///     let (again, woke) = delivered.wait_until(guard, deadline).unwrap();
    ///     guard = again;
    ///     if woke == Woke::TimedOut {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(*guard, 0);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Condvar::wait`]. A passed deadline is no error: the caller has the mutex again.
    pub fn wait_until<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        deadline: Deadline,
    ) -> Ended<'a, R, T, K> {
        ended(self.wait_and_relock_until(guard, deadline, Deadline::NEVER))
    }

    /// Waits as [`Condvar::wait_until`] does, and locks the mutex again until `relock`, a second
    /// deadline: for callers that must not wait for ever for an owner that is stopped, say. Returns
    /// `None` when the wait is over and the mutex could not be locked. A notification that the
    /// caller received has then gone to the next waiter.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-relock-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::Deadline;
    /// use outlive::sync::{Condvar, Mutex};
    /// use std::time::Duration;
    ///
    /// let stock = Mutex::<u64>::options(0).open_or_create(&domain, "stock")?;
    /// let delivered = Condvar::open_or_create(&domain, "delivered")?;
    /// let guard = stock.lock().unwrap();
    /// let soon = Deadline::after(Duration::from_millis(5));
    /// let relock = Deadline::after(Duration::from_secs(5));
    /// match delivered.wait_and_relock_until(guard, soon, relock) {
    ///     Ok(Some((guard, _))) => assert_eq!(*guard, 0),
    ///     Ok(None) => println!("another thread keeps the lock, and we do not have it"),
    ///     Err(other) => panic!("{other}"),
    /// }
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    pub fn wait_and_relock_until<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        deadline: Deadline,
        relock: Deadline,
    ) -> MaybeEnded<'a, R, T, K> {
        self.wait_by(guard, Some(Outer::Refused), |raw, mutex, me, relay| {
            raw.wait(self.handle.registry(), mutex, me, relay, &self.spin_waits, deadline, relock)
        })
    }

    /// Waits as [`Condvar::wait_until`] does, also if the thread has other guards of a reentrant
    /// mutex: for bindings to languages whose guards give no references.
    ///
    /// # Errors
    /// As [`Condvar::wait`]. Unless it returns a guard, the mutex is not held, and other guards that
    /// the thread has of it unlock nothing.
    ///
    /// # Safety
    /// The thread uses no reference that another guard of this mutex gave it, until this has returned
    /// a guard; and if it returns none, it drops those guards before it locks the mutex again.
    #[doc(hidden)]
    pub unsafe fn wait_with_outer_guards<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        deadline: Deadline,
    ) -> Ended<'a, R, T, K> {
        ended(self.wait_by(guard, Some(Outer::Released), |raw, mutex, me, relay| {
            let (registry, relock) = (self.handle.registry(), Deadline::NEVER);
            raw.wait(registry, mutex, me, relay, &self.spin_waits, deadline, relock)
        }))
    }

    /// Waits as long as `condition` holds, and checks it under the mutex.
    ///
    /// # Errors
    /// As [`Condvar::wait`]; it returns at the first error, whatever the condition.
    pub fn wait_while<'a, R: CondvarLock + UniqueLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> Relocked<'a, R, T, K> {
        Ok(self.wait_while_until(guard, Deadline::NEVER, condition)?.0)
    }

    /// Waits as [`Condvar::wait_while`] does, for so long at most. [`Woke::TimedOut`] means that
    /// the condition still held.
    ///
    /// # Errors
    /// As [`Condvar::wait_while`].
    pub fn wait_while_timeout<'a, R: CondvarLock + UniqueLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        timeout: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> Ended<'a, R, T, K> {
        self.wait_while_until(guard, Deadline::after(timeout), condition)
    }

    /// Waits as [`Condvar::wait_while`] does, until the deadline. [`Woke::TimedOut`] means that the
    /// condition still held.
    ///
    /// # Errors
    /// As [`Condvar::wait_while`].
    pub fn wait_while_until<'a, R: CondvarLock + UniqueLock, T, K>(
        &self,
        mut guard: Guard<'a, R, T, K>,
        deadline: Deadline,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Ended<'a, R, T, K> {
        let mut woke = Woke::Notified;
        while condition(&mut guard) {
            if woke == Woke::TimedOut {
                return Ok((guard, woke));
            }
            (guard, woke) = self.wait_until(guard, deadline)?;
        }
        Ok((guard, Woke::Notified))
    }

    /// Waits as [`Condvar::wait`] does, and returns also when `peer` has ended: for a condition
    /// that only this peer can fulfil.
    ///
    /// Every notification wakes each such waiter, `notify_one` too.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-end-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{Condvar, Mutex, Woke};
    ///
    /// let stock = Mutex::<u64>::options(0).open_or_create(&domain, "stock")?;
    /// let delivered = Condvar::open_or_create(&domain, "delivered")?;
    /// let supplier = std::thread::spawn({
    ///     let domain = domain.clone();
    ///     move || domain.token()      // and ends without delivering
    /// });
    /// let supplier = domain.peer(supplier.join().unwrap()?);
    /// let mut guard = stock.lock().unwrap();
    /// while *guard == 0 {
    ///     let (again, woke) = delivered.wait_or_end(guard, &supplier).unwrap();
    ///     guard = again;
    ///     if woke == Woke::PeerEnded {
    ///         break;
    ///     }
    /// }
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    ///
    /// # If a process dies
    /// The peer's death ends the wait at once.
    pub fn wait_or_end<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        peer: &Peer,
    ) -> Ended<'a, R, T, K> {
        self.wait_or_end_until(guard, peer, Deadline::NEVER)
    }

    /// Waits as [`Condvar::wait_or_end`] does, for so long at most.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    ///
    /// # If a process dies
    /// The peer's death ends the wait at once.
    pub fn wait_or_end_timeout<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        peer: &Peer,
        timeout: Duration,
    ) -> Ended<'a, R, T, K> {
        self.wait_or_end_until(guard, peer, Deadline::after(timeout))
    }

    /// Waits as [`Condvar::wait_or_end`] does, until the deadline.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    ///
    /// # If a process dies
    /// The peer's death ends the wait at once.
    pub fn wait_or_end_until<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        peer: &Peer,
        deadline: Deadline,
    ) -> Ended<'a, R, T, K> {
        if !peer.is_alive() {
            return Ok((guard, Woke::PeerEnded));
        }
        let whose = (peer.registry(), peer.id());
        let (guard, woke) = ended(self.wait_by(guard, None, |raw, mutex, me, relay| {
            raw.wait_or_end(whose, mutex, me, relay, &self.spin_waits, deadline)
        }))?;
        Ok((guard, if peer.is_alive() { woke } else { Woke::PeerEnded }))
    }

    /// Begins a wait of several parts, for bindings that look for signals in between: call it with
    /// the mutex held.
    #[doc(hidden)]
    pub fn begin_wait(&self) -> BegunCondvarWait<'_> {
        let condvar = self.handle.shared();
        BegunCondvarWait { condvar, since: condvar.begin() }
    }

    /// Waits as [`Condvar::wait_and_relock_until`] does, for one part of a wait that began there;
    /// returns also whether it was notified. Otherwise any wake-up, a signal's, too, ends this part.
    ///
    /// # Safety
    /// As for [`Condvar::wait_with_outer_guards`].
    #[doc(hidden)]
    pub unsafe fn continue_wait<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        begun: &BegunCondvarWait<'_>,
        deadline: Deadline,
        relock: Deadline,
    ) -> NotifiedOrNot<'a, R, T, K> {
        let mut notified = false;
        let ended = self.wait_by(guard, Some(Outer::Released), |raw, mutex, me, relay| {
            let (registry, since) = (self.handle.registry(), begun.since);
            let spin_waits = &self.spin_waits;
            let waited =
                raw.wait_part(registry, mutex, me, relay, spin_waits, since, deadline, relock);
            notified = waited.notified;
            waited
        });
        match ended {
            Ok(again) => Ok(again.map(|(guard, _)| (guard, notified))),
            Err(error) => Err(error),
        }
    }

    /// Uses a notification that came since that point, if there is one: for a caller that has locked
    /// the mutex itself after a part that could not.
    #[doc(hidden)]
    pub fn take_notification(&self, begun: &BegunCondvarWait<'_>) -> bool {
        self.handle.shared().take_notification(begun.since)
    }

    fn wait_by<'a, R: CondvarLock, T, K>(
        &self,
        guard: Guard<'a, R, T, K>,
        plain: Option<Outer>,
        wait: impl FnOnce(&RawCondvar, &R::Relock<'a>, Me, WakeRelay) -> Waited,
    ) -> MaybeEnded<'a, R, T, K> {
        let mut woke = Woke::Notified;
        let condvar = self.handle.shared();
        let waits_on = plain.map(|_| condvar);
        let also_outer = plain == Some(Outer::Released);
        let again = guard.give_back_during(
            self.handle.segment(),
            waits_on,
            also_outer,
            |mutex, me, relay| {
                let waited = wait_for_notification(condvar, self.handle.site(), || {
                    wait(condvar, mutex, me, relay)
                });
                if waited.timed_out {
                    woke = Woke::TimedOut;
                }
                (waited.lock, waited.relay, waited.notified)
            },
        )?;
        Ok(again.map(|guard| (guard, woke)))
    }

    /// Wakes one waiter: one wait that has begun ends, if there is one. Call it while holding the
    /// mutex or after unlocking it, never before the change. (Of more than 24 notifications that
    /// come before any waiter has run, a few may end more waits than one each.)
    ///
    /// # If a process dies
    /// Before this has returned: perhaps no waiter was woken. See [`Condvar`].
    #[inline]
    pub fn notify_one(&self) {
        self.handle.shared().notify_one();
    }

    /// Wakes all waiters.
    ///
    /// # If a process dies
    /// Before this has returned: perhaps not all waiters were woken. See [`Condvar`].
    #[inline]
    pub fn notify_all(&self) {
        self.handle.shared().notify_all();
    }
}

/// Embeds a condition variable as a field of a [`record!`](crate::record). It takes 32 bytes; all
/// zeroes are a fresh one.
///
/// [`Record::handle`](super::Record::handle) returns the [`Condvar`] that uses it.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-in-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{EmbeddedMutex, EmbeddedCondvar, Record};
///
/// outlive::record! { pub struct Store { pub stock: EmbeddedMutex<u64>, pub delivered: EmbeddedCondvar } }
/// let store = Record::<Store>::options().init(|store| *store.stock.get_mut() = 1);
/// let store = store.open_or_create(&domain, "store")?;
/// let delivered = store.handle(|store| &store.delivered);
/// let guard = store.lock(|store| &store.stock).unwrap();
/// assert_eq!(*delivered.wait_while(guard, |stock| *stock == 0).unwrap(), 1);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
pub type EmbeddedCondvar = Embedded<RawCondvar>;

// SAFETY: the words are the type, and nothing lies behind them.
unsafe impl InRecord<()> for RawCondvar {
    const KIND: Kind = Kind::Condvar;
    type Handle = Condvar;

    fn handle(handle: Handle<EmbeddedCondvar>) -> Condvar {
        Condvar::at(handle.part(|embedded| &embedded.words))
    }
}

impl Primitive for RawCondvar {
    const KINDS: &[Kind] = &[Kind::Condvar];
}

impl Inspect for RawCondvar {
    fn look(&self, _: &'static Registry) -> LockDetail {
        let (waited_for, notifications) = RawCondvar::look(self);
        LockDetail {
            state: Some(
                if waited_for { "a thread may wait" } else { "no thread waits" }.to_owned(),
            ),
            figures: vec![("notifications", u64::from(notifications))],
            ..LockDetail::default()
        }
    }

    /// A condition variable names no owner.
    fn sweep(&self, _: Me, _: bool) -> u32 {
        0
    }
}
