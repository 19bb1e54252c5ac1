//! Waiting for many things at once, by a call, by a descriptor, or by `async`.
//!
//! | | |
//! | --- | --- |
//! | [`WaitSet`] | any mix of queues, topics, services, states, events, latches, peers' ends and timers; says which are ready |
//! | [`WaitSet::as_fd`] | a descriptor for `epoll` and `poll` |
//! | `recv_async`, `dead_async` and the like | futures, for any executor |
//!
//! doc/protocols/wait_set.md tells how it sleeps.

mod descriptor;
mod futures;
mod peer_readiness;
mod queue_readiness;
mod reactor;
mod rpc_readiness;
mod set;
mod source;
mod source_list;
mod state_readiness;
mod sync_readiness;
mod timer;
mod topic_readiness;

pub use set::{Key, Ready, WaitSet};
pub use source::{Readiness, Source, Watched};
pub use sync_readiness::Bits;
pub use timer::Timer;
