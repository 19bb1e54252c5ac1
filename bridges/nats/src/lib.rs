//! Durable queues: a queue of a domain into a stream of NATS JetStream, and out of it, at least once.
//!
//! `outlive-queue-bridge` is the program; doc/protocols/nats.md has the protocol and the deaths.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`out`] | from a queue into a stream |
//! | [`incoming`], [`sent_up_to`] | from a stream into a queue; what it notes of that in the domain |
//! | [`server`] | the connection, and its losses |
//! | [`aside`] | messages that one of the sides refuses |
//! | [`args`], [`names`] | the command line; names that the server takes |
//! | [`told`], [`exit`], [`ending`] | what is said; exit codes; signals |

pub mod args;
pub mod aside;
pub mod ending;
pub mod incoming;
pub mod names;
pub mod out;
pub mod sent_up_to;
pub mod server;
pub mod told;
