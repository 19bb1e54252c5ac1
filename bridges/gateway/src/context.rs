//! What senders and receivers of a gateway share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::{Domain, TokenId};
use zenoh::pubsub::Publisher;
use zenoh::qos::CongestionControl;
use zenoh::{Session, Wait};

use crate::gateway::NODE;
use crate::journal::Journal;
use crate::later::Later;
use crate::rules::{Reliability, Rule};
use crate::told::Told;
use crate::wire::Origin;

/// A payload up to this length is copied: that costs less than to count who still reads it.
pub(crate) const COPIED: usize = 1024;

/// See the head of this file.
pub struct Context {
    /// The gateway's domain.
    pub domain: Domain,
    /// Its session in the network.
    pub session: Session,
    /// What its successor has to know. Its number for others is `journal.origin`.
    pub journal: &'static Journal,
    /// This start of the gateway.
    pub epoch: u64,
    /// After this a peer that is not heard of counts as gone.
    pub lease: Duration,
    /// Where events are told.
    pub told: Told,
    /// What is done later.
    pub later: Later,
}

/// The part of it that is passed around.
pub type Shared = Arc<Context>;

/// Locks, also what a thread held that panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    /// Returns the domain's number for others.
    pub fn origin(&self) -> Origin {
        self.journal.origin
    }
    /// Returns what puts on that key, as the rule says.
    ///
    /// # Errors
    /// zenoh's.
    pub fn publisher(&self, key: &str, rule: &Rule) -> Result<Publisher<'static>, String> {
        let congestion = match rule.reliability {
            Reliability::Reliable => CongestionControl::Block,
            Reliability::BestEffort => CongestionControl::Drop,
        };
        let publisher = self.session.declare_publisher(key.to_owned());
        let publisher = publisher.congestion_control(congestion);
        let publisher = publisher.priority(rule.priority.priority()).wait();
        publisher.map_err(|error| error.to_string())
    }
    /// Returns whether that process is a gateway.
    pub fn is_gateway(&self, process: TokenId) -> bool {
        // One whose node cannot be read is not announced: else what is a stand-in's could go round.
        let node = self.domain.node_of(process);
        node.map_or(true, |node| node.is_some_and(|node| node.name.starts_with(NODE)))
    }
}
