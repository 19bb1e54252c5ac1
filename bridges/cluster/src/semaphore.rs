//! A semaphore of several machines.
//!
//! A permit is a slot of its own, with a lease of its own. The gate is for waiting only: one process
//! of a machine at a time looks for a permit.

use std::process;
use std::sync::Arc;
use std::time::Duration;

use outlive::{Deadline, Domain};

use crate::clock::Moment;
use crate::cluster::Cluster;
use crate::error::{Error, Lost};
use crate::etcd::{self, Slot};
use crate::gate::Gate;
use crate::mutex::LOOK;
use crate::session::{Hold, Round, Session};

/// So many permits of which a holder may be looked for one by one.
const MOST: u32 = 1024;

/// A number of permits, each of which one holder of several machines has at a time.
///
/// # If a process dies
/// Its permit comes back when its lease ends, and the next holder of that permit can ask whether its
/// [last one died](Permit::owner_died). A stopped holder's, too; [`Permit::is_held`] then says no.
pub struct Semaphore {
    session: Arc<Session>,
    gate: Gate,
    prefix: String,
    permits: u32,
}

/// A permit that is held; dropping it gives it back. A panic that unwinds through it counts as a death.
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    hold: Box<Hold>,
    index: u32,
    unwinding: bool,
    done: bool,
}

impl Semaphore {
    pub(crate) fn open(
        cluster: &Cluster,
        domain: &Domain,
        name: &str,
        permits: Option<u32>,
    ) -> Result<Option<Semaphore>, Error> {
        if let Some(permits) = permits.filter(|permits| !(1..=MOST).contains(permits)) {
            return Err(Error::Refused(format!("{permits} permits: there are 1 to {MOST}")));
        }
        let gate = Gate::open(domain, &format!("{name}.permits.{:08x}", cluster.digest()))?;
        let session = cluster.session();
        let prefix = format!("outlive/semaphore/{name}");
        match etcd::permits(&session.client, &prefix, permits, session.soon())? {
            None => Ok(None),
            Some(has) if permits.is_some_and(|permits| permits != has) => {
                Err(Error::OtherPermits { permits: has })
            }
            Some(has) if !(1..=MOST).contains(&has) => {
                Err(Error::Damaged(format!("{prefix}/permits")))
            }
            Some(permits) => Ok(Some(Semaphore { session, gate, prefix, permits })),
        }
    }

    /// Returns how many permits there are.
    pub fn max_permits(&self) -> u32 {
        self.permits
    }

    /// Takes a permit, and waits for that for ever, also for a server.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Refused`].
    ///
    /// # If a process dies
    /// See [`Semaphore`].
    pub fn acquire(&self) -> Result<Permit<'_>, Error> {
        loop {
            if let Some(permit) = self.acquire_before(Moment::NEVER)? {
                return Ok(permit);
            }
        }
    }

    /// Takes a permit if one is free. It waits for the server's answer alone.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire), and [`Error::Unreachable`].
    pub fn try_acquire(&self) -> Result<Option<Permit<'_>>, Error> {
        self.acquire_before(Moment(0))
    }

    /// Takes a permit, and waits at most so long.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire), and [`Error::Unreachable`].
    ///
    /// # If a process dies
    /// See [`Semaphore`].
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit<'_>>, Error> {
        self.acquire_before(Moment::now().after(timeout))
    }

    /// Takes a permit, and waits until then at the latest.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire), and [`Error::Unreachable`].
    ///
    /// # If a process dies
    /// See [`Semaphore`].
    pub fn acquire_until(&self, deadline: Deadline) -> Result<Option<Permit<'_>>, Error> {
        self.acquire_before(Moment::of(deadline))
    }

    fn acquire_before(&self, until: Moment) -> Result<Option<Permit<'_>>, Error> {
        let Some(mut inside) = self.gate.enter(until)? else { return Ok(None) };
        let Session { client, ttl, .. } = &*self.session;
        let (begin, count) = (process::id() % self.permits, self.permits);
        let (limit, mut busy) = (self.session.asks_until(until), false);
        loop {
            self.gate.set_alive(Moment::now().after(LOOK + *ttl));
            let taken = match etcd::taken(client, &self.prefix, limit) {
                // None was free, and the time ended before another answer came.
                Err(Error::Unreachable { .. }) if busy && until.has_passed() => return Ok(None),
                taken => taken?,
            };
            let all = (0..count).map(|step| (begin + step) % count);
            for index in all.filter(|index| !taken.indexes.contains(index)) {
                let slot = Slot::new(format!("{}/permit/{index}", self.prefix));
                let round = self.session.round(&self.gate, &mut inside, &slot, false, limit)?;
                let Round::Held(hold) = round else { continue };
                // From now on it is the permit's. Killed just before: the next process in the gate
                // ends it, and the permit is free at once.
                inside.set_lease(None);
                let unwinding = std::thread::panicking();
                return Ok(Some(Permit { semaphore: self, hold, index, unwinding, done: false }));
            }
            if until.has_passed() {
                return Ok(None);
            }
            busy = true;
            let from = format!("{}/permit/", self.prefix);
            let look = LOOK.min(until.remaining());
            client.wait_deleted(&from, &etcd::end_of(&from), taken.revision, look);
        }
    }
}

impl Permit<'_> {
    /// Returns which of the permits it is, from 0.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the fencing token: larger than that of every earlier holder of this permit.
    pub fn fence(&self) -> u64 {
        self.hold.fence as u64
    }

    /// Returns whether the permit is held for certain now, by this machine's clock. Once it says no,
    /// it never says yes again.
    pub fn is_held(&self) -> bool {
        self.hold.kept.lost().is_none()
    }

    /// Returns why the permit is lost; `None` while it is held.
    pub fn lost(&self) -> Option<Lost> {
        self.hold.kept.lost()
    }

    /// Waits until the permit is lost, at most so long.
    ///
    /// # If a process dies
    /// The lease is kept by this process alone: no other one's death matters.
    pub fn wait_lost_timeout(&self, timeout: Duration) -> Option<Lost> {
        self.hold.kept.wait_lost(Moment::now().after(timeout))
    }

    /// Returns how long the permit is still held if the cluster is not heard of any more.
    pub fn time_left(&self) -> Duration {
        self.hold.kept.end().remaining()
    }

    pub(crate) fn end(&self) -> Moment {
        self.hold.kept.end()
    }

    /// Returns whether the last holder of this permit died, or lost its lease.
    pub fn owner_died(&self) -> bool {
        self.hold.died.is_some()
    }

    /// Returns which process that was, in words.
    pub fn dead_owner(&self) -> Option<&str> {
        self.hold.died.as_deref()
    }

    /// Gives the permit back, and says whether it was held up to here.
    ///
    /// # Errors
    /// [`Error::Lost`]: another machine may have had the permit meanwhile.
    pub fn release(mut self) -> Result<(), Error> {
        self.leave(true)
    }

    /// Gives the permit back such that its next holder is told that the owner died.
    ///
    /// # Errors
    /// As [`release`](Permit::release).
    pub fn abandon(mut self) -> Result<(), Error> {
        self.leave(false)
    }

    fn leave(&mut self, clean: bool) -> Result<(), Error> {
        self.done = true;
        let Semaphore { session, .. } = self.semaphore;
        let lease = session.give_back(&self.hold, clean, false)?;
        // Otherwise it stays at the server until its end, for nothing.
        let _ = session.client.revoke(lease.id, Moment::now());
        Ok(())
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.done {
            // A lost permit is told by `release`, and to its next holder.
            let _ = self.leave(!std::thread::panicking() || self.unwinding);
        }
    }
}

impl std::fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Permit");
        shown.field("index", &self.index).field("fence", &self.fence()).finish()
    }
}
