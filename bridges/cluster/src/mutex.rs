//! A mutex of several machines.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use outlive::{Deadline, Domain};

use crate::clock::Moment;
use crate::cluster::Cluster;
use crate::error::{Error, LockError, Lost};
use crate::etcd::Slot;
use crate::gate::{Gate, Inside};
use crate::session::{Hold, Round, Session};

/// How long one look at the cluster waits for a change.
pub(crate) const LOOK: Duration = Duration::from_secs(5);

/// A lock that one thread of several machines holds at a time.
///
/// It is got by name: all handles of that name, in the same cluster, are one lock. Local contenders
/// wait for each other in the domain, and one of them at a time deals with the cluster.
///
/// ```no_run
/// use outlive_cluster::{Cluster, LockError};
///
/// let domain = outlive::Domain::open_default()?;
/// let cluster = Cluster::connect(&domain, "etcd://10.0.0.1:2379,10.0.0.2:2379")?;
/// let mutex = cluster.mutex("migration")?;
/// let guard = match mutex.lock() {
///     Ok(guard) => guard,
///     // An owner died half way, perhaps on another machine.
///     Err(LockError::OwnerDied(mut guard)) => {
///         guard.mark_consistent();
///         guard
///     }
///     Err(LockError::Failed(error)) => return Err(error.into()),
///     Err(other) => return Err(other.to_string().into()),
/// };
/// // A store that refuses smaller numbers than it has seen needs no more.
/// println!("fence {}", guard.fence());
/// guard.unlock()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// While it holds the lock: a waiter on the same machine is told `OwnerDied` at once, one on another
/// machine when the lease has ended. While it waits: no other notices.
///
/// # If a process is stopped
/// While it holds the lock: the lease ends, and the next holder, on this machine or another, is told
/// `OwnerDied`. When the stopped process goes on, [`is_held`](MutexGuard::is_held) says no.
pub struct Mutex {
    session: Arc<Session>,
    gate: Gate,
    slot: Slot,
}

/// A lock that is held; dropping it unlocks.
///
/// It stays with its thread, as the guard of the local lock does. A panic that unwinds through it
/// counts as a death.
pub struct MutexGuard<'a> {
    mutex: &'a Mutex,
    hold: Box<Hold>,
    inside: Inside<'a>,
    consistent: bool,
    /// It was taken by a destructor of a thread that unwinds already.
    unwinding: bool,
    /// Nothing is left for the drop to do.
    done: bool,
}

/// What locking comes to that does not wait for ever: `None`, the time was over.
pub type MaybeLocked<'a> = Result<Option<MutexGuard<'a>>, LockError<MutexGuard<'a>>>;

impl Mutex {
    pub(crate) fn open(cluster: &Cluster, domain: &Domain, name: &str) -> Result<Mutex, Error> {
        let gate = Gate::open(domain, &format!("{name}.cluster.{:08x}", cluster.digest()))?;
        let slot = Slot::new(format!("outlive/lock/{name}"));
        Ok(Mutex { session: cluster.session(), gate, slot })
    }

    /// Locks, and waits for that for ever, also for a server.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard; [`Error::NotRecoverable`]; [`Error::Deadlock`];
    /// [`Error::Denied`] and [`Error::Refused`].
    ///
    /// # If a process dies
    /// See [`Mutex`].
    pub fn lock(&self) -> Result<MutexGuard<'_>, LockError<MutexGuard<'_>>> {
        loop {
            if let Some(guard) = self.lock_before(Moment::NEVER)? {
                return Ok(guard);
            }
        }
    }

    /// Locks if the lock is free. It waits for the server's answer alone.
    ///
    /// # Errors
    /// As [`lock`](Mutex::lock), and [`Error::Unreachable`].
    pub fn try_lock(&self) -> MaybeLocked<'_> {
        self.lock_before(Moment(0))
    }

    /// Locks, and waits at most so long.
    ///
    /// # Errors
    /// As [`lock`](Mutex::lock), and [`Error::Unreachable`].
    ///
    /// # If a process dies
    /// See [`Mutex`].
    pub fn lock_timeout(&self, timeout: Duration) -> MaybeLocked<'_> {
        self.lock_before(Moment::now().after(timeout))
    }

    /// Locks, and waits until then at the latest.
    ///
    /// # Errors
    /// As [`lock`](Mutex::lock), and [`Error::Unreachable`].
    ///
    /// # If a process dies
    /// See [`Mutex`].
    pub fn lock_until(&self, deadline: Deadline) -> MaybeLocked<'_> {
        self.lock_before(Moment::of(deadline))
    }

    fn lock_before(&self, until: Moment) -> MaybeLocked<'_> {
        let Some(mut inside) = self.gate.enter(until)? else { return Ok(None) };
        let Session { client, ttl, .. } = &*self.session;
        let (limit, mut busy) = (self.session.asks_until(until), false);
        loop {
            self.gate.set_alive(Moment::now().after(LOOK + *ttl));
            match self.session.round(&self.gate, &mut inside, &self.slot, true, limit) {
                Ok(Round::Held(hold)) => return self.guard(hold, inside),
                Ok(Round::Busy { .. }) if until.has_passed() => return Ok(None),
                // It was not free, and the time ended before another answer came.
                Err(Error::Unreachable { .. }) if busy && until.has_passed() => return Ok(None),
                Err(error) => return Err(error.into()),
                Ok(Round::Busy { revision }) => {
                    busy = true;
                    let key = self.slot.owner_key();
                    client.wait_deleted(
                        &key,
                        &format!("{key}\0"),
                        revision,
                        LOOK.min(until.remaining()),
                    );
                }
            }
        }
    }

    fn guard<'a>(&'a self, hold: Box<Hold>, inside: Inside<'a>) -> MaybeLocked<'a> {
        let consistent = hold.died.is_none();
        let unwinding = thread::panicking();
        let guard = MutexGuard { mutex: self, hold, inside, consistent, unwinding, done: false };
        if consistent { Ok(Some(guard)) } else { Err(LockError::OwnerDied(guard)) }
    }

    /// Returns which process has the lock, in words; `None`: none.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Denied`], [`Error::Refused`].
    pub fn holder(&self) -> Result<Option<String>, Error> {
        self.slot.holder(&self.session.client, self.session.soon())
    }

    /// Makes a lock usable again that a holder marked not recoverable. It has no effect while the lock
    /// is held.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Denied`], [`Error::Refused`].
    pub fn reset(&self) -> Result<(), Error> {
        self.slot.unbreak(&self.session.client, self.session.soon())
    }
}

impl MutexGuard<'_> {
    /// Returns the fencing token: each holder's is larger than all before it. A store that refuses
    /// smaller ones than it has seen is safe from holders that do not know yet that they are none.
    pub fn fence(&self) -> u64 {
        self.hold.fence as u64
    }

    /// Returns whether the lock is held for certain now, by this machine's clock. Once it says no, it
    /// never says yes again.
    pub fn is_held(&self) -> bool {
        self.hold.kept.lost().is_none()
    }

    /// Returns why the lock is lost; `None` while it is held.
    pub fn lost(&self) -> Option<Lost> {
        self.hold.kept.lost()
    }

    /// Waits until the lock is lost.
    ///
    /// # If a process dies
    /// The lease is kept by this process alone: no other one's death matters.
    pub fn wait_lost(&self) -> Lost {
        loop {
            if let Some(lost) = self.hold.kept.wait_lost(Moment::NEVER) {
                return lost;
            }
        }
    }

    /// Waits until the lock is lost, at most so long.
    ///
    /// # If a process dies
    /// See [`wait_lost`](MutexGuard::wait_lost).
    pub fn wait_lost_timeout(&self, timeout: Duration) -> Option<Lost> {
        self.hold.kept.wait_lost(Moment::now().after(timeout))
    }

    /// Waits until the lock is lost, until then at the latest.
    ///
    /// # If a process dies
    /// See [`wait_lost`](MutexGuard::wait_lost).
    pub fn wait_lost_until(&self, deadline: Deadline) -> Option<Lost> {
        self.hold.kept.wait_lost(Moment::of(deadline))
    }

    /// Returns how long the lock is still held if the cluster is not heard of any more; zero if it is
    /// lost.
    pub fn time_left(&self) -> Duration {
        self.hold.kept.end().remaining()
    }

    /// The moment behind [`time_left`](MutexGuard::time_left).
    pub(crate) fn end(&self) -> Moment {
        self.hold.kept.end()
    }

    /// Returns whether an owner died, or lost its lease, and no holder has marked the lock consistent
    /// since.
    pub fn owner_died(&self) -> bool {
        !self.consistent
    }

    /// Returns which process that was, in words.
    pub fn dead_owner(&self) -> Option<&str> {
        self.hold.died.as_deref()
    }

    /// Says that what the lock guards is whole: the next holder is told of no death.
    pub fn mark_consistent(&mut self) {
        self.consistent = true;
    }

    /// Unlocks, and says whether the lock was held up to here.
    ///
    /// # Errors
    /// [`Error::Lost`]: another machine may have had the lock meanwhile; the next holder is told
    /// `OwnerDied`. Only where the answer to the unlocking itself did not come, it may have been done:
    /// then the next holder is told of nothing, and there is nothing to tell.
    pub fn unlock(mut self) -> Result<(), Error> {
        let clean = self.consistent;
        self.leave(clean, false)
    }

    /// Unlocks such that the next holder is told that the owner died.
    ///
    /// # Errors
    /// As [`unlock`](MutexGuard::unlock).
    pub fn abandon(mut self) -> Result<(), Error> {
        self.leave(false, false)
    }

    /// Unlocks such that no process gets the lock until [`Mutex::reset`].
    ///
    /// # Errors
    /// As [`unlock`](MutexGuard::unlock).
    pub fn mark_not_recoverable(mut self) -> Result<(), Error> {
        self.leave(false, true)
    }

    fn leave(&mut self, clean: bool, broken: bool) -> Result<(), Error> {
        self.done = true;
        if self.hold.kept.is_of_another_process() {
            // Nothing here is this process's to give back, nor the words in the gate to change.
            return Err(Error::Lost(Lost::Forked));
        }
        let left = self.mutex.session.give_back(&self.hold, clean, broken);
        // A lease whose last request may still be on its way is not used again.
        self.inside.set_lease(left.as_ref().ok().copied());
        left.map(drop)
    }
}

impl Drop for MutexGuard<'_> {
    fn drop(&mut self) {
        if !self.done {
            let panics = thread::panicking() && !self.unwinding;
            // A lost lock is told by `unlock`, and to the next holder.
            let _ = self.leave(self.consistent && !panics, false);
        }
    }
}

impl std::fmt::Debug for MutexGuard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("MutexGuard");
        shown.field("fence", &self.fence()).field("time_left", &self.time_left()).finish()
    }
}

impl<'a> LockError<MutexGuard<'a>> {
    /// Repairs what the lock guards by `repair`, and marks it consistent; the errors that have no
    /// guard stay.
    ///
    /// # Errors
    /// What [`Mutex::lock`] failed with.
    pub fn repair(self, repair: impl FnOnce(&MutexGuard<'a>)) -> Result<MutexGuard<'a>, Error> {
        match self {
            LockError::OwnerDied(mut guard) => {
                repair(&guard);
                guard.mark_consistent();
                Ok(guard)
            }
            LockError::Failed(error) => Err(error),
        }
    }
}
