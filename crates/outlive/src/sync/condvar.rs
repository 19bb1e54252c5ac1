//! A named condition variable, for the guards of mutexes.

use super::embedded::{Embed, Place, SharedField};
use super::guard::{LockError, MutexGuard};
use super::primitive::{Home, TypeOf};
use super::primitive::{Inspect, LockDetail};
use super::raw::condvar::{RawCondvar, SpinWaits, Waited};
use super::raw::mutex::RawMutex;
use crate::liveness::{Me, Peer, Registry};
use crate::sys::robust::WakeRelay;
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// Where threads of any process wait, giving a mutex back meanwhile, until somebody has changed what it guards.
///
/// As everywhere, a wait may end without a notification, so look at the condition in a loop, or use
/// [`Condvar::wait_while`]; and change the condition under the mutex. A guard of any mutex will do, of another domain's
/// too, and different waiters may use different ones. Notifying costs a load when nobody waits.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{Condvar, Mutex};
///
/// let stock = Mutex::<u64>::open(&domain, "stock", 0)?;
/// let delivered = Condvar::open(&domain, "delivered")?;
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
/// # If a process dies
/// A waiter, anywhere between its wait and giving the mutex back: its notification goes to the next waiter, who is told
/// [`LockError::OwnerDied`] if the dead one had the mutex already. Whoever is told that has to notify all, as a part of
/// the repair: the dead owner may have changed the condition and not have got to it.
///
/// A notifier, before its `notify_one` has returned: perhaps nobody was notified. Holding the mutex meanwhile, it leaves
/// [`LockError::OwnerDied`] to whoever locks next; but those who wait already learn it only if they watch its end, by
/// [`Condvar::wait_or_end`], or from the coarse re-check ([`DomainOptions::recheck`](crate::DomainOptions::recheck)),
/// upon which every wait returns: after a second, two, four, up to 64.
///
/// A process that is stopped (`SIGSTOP`) keeps a notification that it has got.
pub struct Condvar {
    home: Home<RawCondvar>,
    spin_waits: SpinWaits,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Woke {
    /// Somebody notified, or nobody did: look at the condition.
    LookAgain,
    /// The deadline passed.
    TimedOut,
    /// The peer that was watched has ended.
    PeerEnded,
}

/// A wait's end: the guard again and why, also in [`LockError::OwnerDied`].
type Ended<'a, T> = Result<(MutexGuard<'a, T>, Woke), LockError<(MutexGuard<'a, T>, Woke)>>;

impl Condvar {
    /// Opens the condition variable of that name, or makes it.
    ///
    /// # Errors
    /// [`Error::OtherKind`] when the name is in use for something else, [`Error::NoSpace`], [`Error::InvalidName`], and
    /// what the system says.
    ///
    /// # If a process dies
    /// While it makes it: nothing is left of it.
    pub fn open(domain: &Domain, name: &str) -> Result<Condvar, Error> {
        Ok(Condvar::at(Home::open(domain, name, Kind::Condvar, TypeOf::nothing(), |_: &mut RawCondvar| ())?))
    }

    fn at(home: Home<RawCondvar>) -> Condvar {
        Condvar { home, spin_waits: SpinWaits { notify: SpinWait::new(), lock: SpinWait::new() } }
    }

    /// How waiting is done through this handle.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.spin_waits.notify.set(wait);
        self.spin_waits.lock.set(wait);
    }

    /// Gives the mutex back, waits for a notification, and takes the mutex again.
    ///
    /// May return without a notification.
    ///
    /// # Errors
    /// What locking can say. [`LockError::OwnerDied`] with the guard: somebody died holding the mutex meanwhile; repair,
    /// and notify all; also when the guard was one of a dead owner's mutex, and nobody has marked it consistent meanwhile: to
    /// wait is to give the mutex back. [`LockError::NotHeld`] in a forked child.
    ///
    /// # If a process dies
    /// See [`Condvar`].
    pub fn wait<'a, T>(&'a self, guard: MutexGuard<'a, T>) -> Result<MutexGuard<'a, T>, LockError<MutexGuard<'a, T>>> {
        self.wait_until(guard, Deadline::NEVER).map(|(guard, _)| guard).map_err(|error| error.map(|(guard, _)| guard))
    }

    /// The same, until the deadline. The mutex is taken again without one.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-until-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::sync::{Condvar, Mutex, Woke};
    /// use std::time::Duration;
    ///
    /// let stock = Mutex::<u64>::open(&domain, "stock", 0)?;
    /// let delivered = Condvar::open(&domain, "delivered")?;
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
    /// As [`Condvar::wait`]. That the deadline passed is no error: the mutex is held again.
    pub fn wait_until<'a, T>(&'a self, guard: MutexGuard<'a, T>, deadline: impl Into<Deadline>) -> Ended<'a, T> {
        self.wait_and_relock_until(guard, deadline, Deadline::NEVER)
    }

    /// The same; the mutex is taken again until `relock`, a second deadline: for who does not want to wait for ever for an owner that
    /// keeps it, being stopped, say.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-relock-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::Deadline;
    /// use outlive::sync::{Condvar, LockError, Mutex};
    /// use std::time::Duration;
    ///
    /// let stock = Mutex::<u64>::open(&domain, "stock", 0)?;
    /// let delivered = Condvar::open(&domain, "delivered")?;
    /// let guard = stock.lock().unwrap();
    /// let relock = Deadline::after(Duration::from_secs(5));
    /// match delivered.wait_and_relock_until(guard, Duration::from_millis(5), relock) {
    ///     Ok((guard, _)) => assert_eq!(*guard, 0),
    ///     Err(LockError::TimedOut) => println!("somebody keeps the lock, and we do not have it"),
    ///     Err(other) => panic!("{other}"),
    /// }
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Condvar::wait`], and [`LockError::TimedOut`]: the wait is over, and the mutex was not to be had. A notification that it got has
    /// gone to the next waiter.
    pub fn wait_and_relock_until<'a, T>(
        &'a self,
        guard: MutexGuard<'a, T>,
        deadline: impl Into<Deadline>,
        relock: impl Into<Deadline>,
    ) -> Ended<'a, T> {
        let (deadline, relock) = (deadline.into(), relock.into());
        self.wait_by(guard, |raw, mutex, me, relay| {
            raw.wait(self.home.registry(), mutex, me, relay, &self.spin_waits, deadline, relock)
        })
    }

    /// Waits as long as `condition` holds, looking at it under the mutex.
    ///
    /// # Errors
    /// As [`Condvar::wait`]; at the first of them it returns, whatever the condition.
    pub fn wait_while<'a, T>(
        &'a self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> Result<MutexGuard<'a, T>, LockError<MutexGuard<'a, T>>> {
        let ended = self.wait_while_until(guard, Deadline::NEVER, condition);
        ended.map(|(guard, _)| guard).map_err(|error| error.map(|(guard, _)| guard))
    }

    /// The same, until the deadline: [`Woke::TimedOut`] means that the condition still held.
    ///
    /// # Errors
    /// As [`Condvar::wait_while`].
    pub fn wait_while_until<'a, T>(
        &'a self,
        mut guard: MutexGuard<'a, T>,
        deadline: impl Into<Deadline>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Ended<'a, T> {
        let deadline = deadline.into();
        let mut woke = Woke::LookAgain;
        while condition(&mut guard) {
            if woke == Woke::TimedOut {
                return Ok((guard, woke));
            }
            (guard, woke) = self.wait_until(guard, deadline)?;
        }
        Ok((guard, Woke::LookAgain))
    }

    /// The same as [`Condvar::wait_until`], until `peer` has ended: for whoever waits for what only that one can bring.
    ///
    /// Each such waiter is woken by every notification, `notify_one` too.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-end-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::sync::{Condvar, Mutex, Woke};
    ///
    /// let stock = Mutex::<u64>::open(&domain, "stock", 0)?;
    /// let delivered = Condvar::open(&domain, "delivered")?;
    /// let supplier = std::thread::spawn({
    ///     let domain = domain.clone();
    ///     move || domain.token()      // and ends without delivering
    /// });
    /// let supplier = domain.peer(supplier.join().unwrap()?);
    /// let mut guard = stock.lock().unwrap();
    /// while *guard == 0 {
    ///     let (again, woke) = delivered.wait_or_end(guard, &supplier, outlive::Deadline::NEVER).unwrap();
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
    pub fn wait_or_end<'a, T>(
        &'a self,
        guard: MutexGuard<'a, T>,
        peer: &Peer,
        deadline: impl Into<Deadline>,
    ) -> Ended<'a, T> {
        if !peer.is_alive() {
            return Ok((guard, Woke::PeerEnded));
        }
        let deadline = deadline.into();
        let whose = (peer.registry(), peer.id());
        let ended = self.wait_by(guard, |raw, mutex, me, relay| {
            raw.wait_or_end(whose, mutex, me, relay, &self.spin_waits, deadline)
        });
        let woke = |woke| if peer.is_alive() { woke } else { Woke::PeerEnded };
        match ended {
            Ok((guard, other)) => Ok((guard, woke(other))),
            Err(error) => Err(error.map(|(guard, other)| (guard, woke(other)))),
        }
    }

    fn wait_by<'a, T>(
        &'a self,
        guard: MutexGuard<'a, T>,
        wait: impl FnOnce(&RawCondvar, &RawMutex, Me, WakeRelay) -> Waited,
    ) -> Ended<'a, T> {
        let mut woke = Woke::LookAgain;
        let again = guard.give_back_during(|mutex, me, relay| {
            let waited = wait(self.home.shared(), mutex, me, relay);
            if waited.timed_out {
                woke = Woke::TimedOut;
            }
            (waited.lock, waited.relay)
        });
        match again {
            Ok(guard) => Ok((guard, woke)),
            Err(error) => Err(error.map(|guard| (guard, woke))),
        }
    }

    /// Wakes one of those who wait. Best called with the mutex in hand or after it was given back, never before the
    /// change.
    ///
    /// # If a process dies
    /// Before this has returned: perhaps nobody was woken. See [`Condvar`].
    #[inline]
    pub fn notify_one(&self) {
        self.home.shared().notify_one();
    }

    /// Wakes all who wait.
    ///
    /// # If a process dies
    /// Before this has returned: perhaps nobody was woken. See [`Condvar`].
    #[inline]
    pub fn notify_all(&self) {
        self.home.shared().notify_all();
    }
}

/// A condition variable, for use as a field of a [`record!`](crate::record). 32 bytes; all zeroes are a fresh one.
///
/// [`Record::handle`](super::Record::handle) gives the [`Condvar`] to use it by.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-condvar-in-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{EmbeddedMutex, EmbeddedCondvar, Record};
///
/// outlive::record! { pub struct Store { pub stock: EmbeddedMutex<u64>, pub delivered: EmbeddedCondvar } }
/// let store = Record::<Store>::open(&domain, "store", |store| *store.stock.get_mut() = 1)?;
/// let delivered = store.handle(|store| &store.delivered);
/// let guard = store.lock(|store| &store.stock).unwrap();
/// assert_eq!(*delivered.wait_while(guard, |stock| *stock == 0).unwrap(), 1);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
#[repr(C)]
pub struct EmbeddedCondvar {
    raw: RawCondvar,
}

// SAFETY: atomics; the primitive is at the start.
unsafe impl SharedField for EmbeddedCondvar {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        Place { offset: 0, kind: Kind::Condvar, number: 0 }
    }
}

impl Embed for EmbeddedCondvar {
    type Handle = Condvar;
    fn handle(home: Home<EmbeddedCondvar>) -> Condvar {
        Condvar::at(home.part(|embedded| &embedded.raw))
    }
}

impl Inspect for RawCondvar {
    fn look(&self, _: &'static Registry) -> LockDetail {
        let (waited_for, notifications) = RawCondvar::look(self);
        LockDetail {
            state: Some(if waited_for { "somebody may wait" } else { "nobody waits" }.to_owned()),
            figures: vec![("notifications", u64::from(notifications))],
            ..LockDetail::default()
        }
    }

    /// It names nobody.
    fn sweep(&self, _: Me, _: bool) -> u32 {
        0
    }
}
