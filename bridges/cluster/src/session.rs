//! Getting and giving back one slot, with a lease.
//!
//! | step | killed just behind it | stopped just behind it |
//! | --- | --- | --- |
//! | in the gate | the next local process enters, is told of the death by the gate | others go past the gate when `alive` has passed |
//! | a lease granted, not yet noted | it ends by itself | the same |
//! | the lease noted in the gate | the next local process ends it; without one, it ends by itself | it ends by itself; the process finds `NoLease` |
//! | slot taken | the lease ends: the next holder, wherever, is told `OwnerDied` | the same, and the process finds that it was lost before it returns from `lock` |
//! | owner and held deleted | no other notices | no other notices |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, process};

use crate::client::Client;
use crate::clock::Moment;
use crate::error::{Error, Lost};
use crate::etcd::{Got, Lease, Slot};
use crate::gate::{Gate, Inside};
use crate::keep::{Kept, margin};

/// A slot that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) slot: Slot,
    pub(crate) fence: i64,
    pub(crate) died: Option<String>,
    pub(crate) kept: Kept,
}

/// What one round of trying came to.
pub(crate) enum Round {
    Held(Box<Hold>),
    Busy { revision: i64 },
}

/// So long a caller that does not wait has for the cluster's answer.
pub(crate) const LEAST: Duration = Duration::from_secs(1);

/// What does not change while a process uses a cluster.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    pub(crate) ttl: Duration,
    /// What holders on other machines are told of this process.
    who: String,
}

impl Session {
    pub(crate) fn new(client: Client, ttl: Duration) -> Session {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let who = format!("{} ({}) on {}", name.trim(), process::id(), host.trim());
        Session { client: Arc::new(client), ttl, who }
    }

    /// Until when the cluster is asked by a caller that waits until then; one that does not wait has
    /// time for an answer.
    pub(crate) fn asks_until(&self, until: Moment) -> Moment {
        match until.has_passed() {
            true => Moment::now().after(self.ttl.min(LEAST)),
            false => until,
        }
    }

    /// How long a request that must not wait may take.
    pub(crate) fn soon(&self) -> Moment {
        Moment::now().after(self.ttl.min(Duration::from_secs(5)))
    }

    /// Tries once to take the slot, with the lease that was left in the gate, or a new one. A server
    /// that does not answer is waited for until then (see `asks_until`). `stays`: a holder stays in the gate.
    pub(crate) fn round(
        &self,
        gate: &Gate,
        inside: &mut Inside<'_>,
        slot: &Slot,
        stays: bool,
        until: Moment,
    ) -> Result<Round, Error> {
        let tag = tag();
        loop {
            if let Some(doubtful) = inside.doubtful {
                // Before anything else: a request with it that arrives from now on finds no lease,
                // and takes nothing.
                self.client.revoke(doubtful, until)?;
                inside.has_ended_doubtful();
            }
            let lease = self.lease(inside, until)?;
            // Up to the lease's end: what is taken behind it would be lost at once.
            let limit = until.min(lease.until);
            let got = match slot.take(&self.client, lease, &tag, &self.who, limit) {
                Ok(got) => got,
                Err(Error::Unreachable { .. }) if !until.has_passed() => {
                    inside.doubt(lease);
                    continue;
                }
                Err(error) => {
                    // It may have been done.
                    inside.doubt(lease);
                    if self.client.revoke(lease.id, Moment::now()).is_ok() {
                        inside.has_ended_doubtful();
                    }
                    return Err(error);
                }
            };
            match got {
                Got::Held { fence, died } => {
                    let alive = gate.alive();
                    let alive = move |until| {
                        if stays {
                            alive(until)
                        }
                    };
                    let kept = Kept::begin(Arc::clone(&self.client), lease, self.ttl, alive)?;
                    if kept.lost().is_some() {
                        // This process did not run for so long: it never held it as far as its
                        // caller knows, but the next holder is told.
                        inside.set_lease(None);
                        continue;
                    }
                    let slot = slot.clone();
                    return Ok(Round::Held(Box::new(Hold { slot, fence, died, kept })));
                }
                Got::Busy { revision } => return Ok(Round::Busy { revision }),
                Got::Broken => return Err(Error::NotRecoverable),
                Got::NoLease => inside.set_lease(None),
            }
        }
    }

    /// Returns a lease of which most is left.
    fn lease(&self, inside: &mut Inside<'_>, until: Moment) -> Result<Lease, Error> {
        if let Some(lease) = inside.left(self.ttl * 2 / 3) {
            return Ok(lease);
        }
        if let Some(old) = inside.left(margin(self.ttl))
            && let Some(lease) = self.client.renew(old.id, self.ttl, until)?
        {
            inside.set_lease(Some(lease));
            return Ok(lease);
        }
        let lease = self.client.grant(self.ttl, until)?;
        inside.set_lease(Some(lease));
        Ok(lease)
    }

    /// Gives a slot back. `Ok`: with the lease, which may be used again.
    pub(crate) fn give_back(&self, hold: &Hold, clean: bool, broken: bool) -> Result<Lease, Error> {
        let lease = hold.kept.end_keeping().map_err(Error::Lost)?;
        let end = Moment(lease.until.0.saturating_sub(margin(self.ttl).as_nanos() as u64));
        match hold.slot.give_back(&self.client, hold.fence, clean, broken, end) {
            Ok(true) => Ok(lease),
            Ok(false) => Err(Error::Lost(Lost::Ended)),
            Err(Error::Unreachable { .. }) => Err(Error::Lost(Lost::OutOfTime)),
            Err(error) => Err(error),
        }
    }
}

/// Returns a text that no other acquisition has.
fn tag() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{number}", process::id(), Moment::now().0)
}
