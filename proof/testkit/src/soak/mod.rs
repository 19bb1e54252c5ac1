//! Death at random: processes lock, send and receive in one domain while they are killed, stopped
//! and made to exec.
//!
//! Every worker notes in a shared [`ledger`] what it is about to do and what was acknowledged to
//! it; the receiver notes what arrived. The supervisor ([`supervisor::run`]) kills, starts anew,
//! watches that every process gets on, and compares at the end: acknowledged and lost, corrupted,
//! hung, each 0.

//!
//! A larger [`crowd`] does so with topics, a state and a service, in rounds, after each of which
//! memory is measured.

pub mod crowd;
pub mod ledger;
pub mod supervisor;
pub mod worker;

/// How many processes work at a time.
pub const WORKERS: usize = 8;
/// The first so many of them take turns at receiving; the others send and lock.
pub const RECEIVERS: usize = 2;
/// The queue's name in the domain.
pub const QUEUE: &str = "soaked-queue";
/// The mutex's name in the domain.
pub const MUTEX: &str = "soaked-mutex";
