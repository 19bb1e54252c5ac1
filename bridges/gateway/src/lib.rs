//! Topics and services of a domain on other machines, over [zenoh]: what the program `outlive-gateway` is made of.
//!
//! | file | what |
//! | --- | --- |
//! | `gateway.rs` | the acting gateway: which topics leave and which come in, as tokens and names come and go |
//! | `sender.rs` | a topic that leaves: its reader and its keeper |
//! | `resume.rs` | what a sender sends again |
//! | `receiver/` | a topic that comes in: its streams and stand-ins, and what its sender is asked |
//! | `stream.rs` | what becomes of a message, by its number |
//! | `journal.rs` | what a receiver's successor has to know |
//! | `services.rs` | which services leave and which come in, and their calls |
//! | `offer.rs` | a service that leaves: calls of others are carried out |
//! | `stand_in.rs` | a service that comes in: calls of clients here are carried to others |
//! | `either.rs` | waiting for one of two things |
//! | `wire.rs`, `call_wire.rs`, `keys.rs`, `names.rs` | bytes, keys and names |
//! | `rules.rs`, `settings.rs` | what may pass, and how the gateway is told |
//!
//! The protocols are doc/protocols/gateway.md, and gateway_services.md beside it: the states, and which
//! process repairs a death or a stop in each.

pub mod call_wire;
pub mod context;
pub mod either;
pub mod gateway;
pub mod journal;
pub mod keys;
pub mod later;
pub mod names;
pub mod offer;
pub mod receiver;
pub mod resume;
pub mod rules;
pub mod sender;
pub mod services;
pub mod settings;
pub mod stand_in;
pub mod stream;
pub mod told;
pub mod wire;
