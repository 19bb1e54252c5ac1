//! What senders and receivers of a gateway share.

use std::sync::Arc;
use std::time::Duration;

use outlive::Domain;
use zenoh::Session;

use crate::journal::Journal;
use crate::later::Later;
use crate::told::Told;
use crate::wire::Origin;

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

impl Context {
    /// Returns the domain's number for others.
    pub fn origin(&self) -> Origin {
        self.journal.origin
    }
}
