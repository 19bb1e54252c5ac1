//! Waiting for many sources at once, by a call, by a descriptor, or by `async`.
//!
//! | | |
//! | --- | --- |
//! | [`WaitSet`] | any mix of queues, job queues, topics, services, states, listeners, events, latches, watches of a domain and of a service's clients, peers' ends and timers; says which are ready |
//! | [`WaitSet::as_fd`] | a descriptor for `epoll` and `poll` |
//! | [`StandBy`] | a source that is ready while no process serves, receives or writes |
//! | `recv_async`, `wait_dead_async` and the like | futures, for any executor |
//!
//! doc/protocols/wait_set.md explains how a set sleeps.

mod descriptor;
mod futures;
mod reactor;
mod rpc_futures;
mod rung_list;
mod sections;
mod set;
mod source_list;
mod timer;
mod waiting_thread;

pub use crate::claim::StandBy;
pub use crate::sync::Bits;
pub use crate::wake::{Readiness, Source, Watched};
pub use set::{Key, Ready, WaitSet};
pub use timer::Timer;
