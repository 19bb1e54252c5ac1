//! Topics of a domain on other machines, over [zenoh]: what the program `outlive-gateway` is made of.
//!
//! | file | what |
//! | --- | --- |
//! | `gateway.rs` | the acting gateway: which topics leave and which come in, as tokens and names come and go |
//! | `sender.rs` | a topic that leaves: its reader and its keeper |
//! | `resume.rs` | what a sender sends again |
//! | `receiver.rs` | a topic that comes in: its streams and stand-ins |
//! | `stream.rs` | what becomes of a message, by its number |
//! | `journal.rs` | what a receiver's successor has to know |
//! | `wire.rs`, `keys.rs`, `names.rs` | bytes, keys and names |
//! | `rules.rs`, `settings.rs` | what may pass, and how the gateway is told |
//!
//! The protocol is doc/protocols/gateway.md: the states, and which process repairs a death or a stop in each.

pub mod common;
pub mod gateway;
pub mod journal;
pub mod keys;
pub mod later;
pub mod names;
pub mod receiver;
pub mod resume;
pub mod rules;
pub mod sender;
pub mod settings;
pub mod stream;
pub mod told;
pub mod wire;
