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
mod reactor;
mod services;
mod set;
mod source;
mod source_list;
mod sources;
mod states;
mod timer;
mod topics;

pub use set::{Key, Ready, WaitSet};
pub use source::{Readiness, Source, Watched};
pub use sources::Bits;
pub use timer::Timer;
