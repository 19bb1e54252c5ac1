//! Topics, services, states and notifiers of a domain on other machines, over [zenoh]: what the program
//! `outlive-gateway` is made of.
//!
//! | file | what |
//! | --- | --- |
//! | `gateway.rs` | the acting gateway: it begins, and passes on what comes |
//! | `topics/` | which topics leave and which come in: `sender.rs`, `receiver/`, and what both do with a message's number |
//! | `services/` | which services leave (`offer.rs`) and which come in (`stand_in.rs`, `carried.rs`) |
//! | `states/` | which states leave (`outgoing.rs`) and which come in (`copy.rs`) |
//! | `notices/` | which notifiers leave (`outgoing.rs`) and which come in (`incoming.rs`) |
//! | `leaving.rs`, `receivers.rs` | what they have in common: things that leave, and their receivers elsewhere |
//! | `journal.rs` | what the successor of a topic's receiver has to know; which gateway acts |
//! | `context.rs`, `later.rs`, `told.rs` | what all of them share, do later, and tell |
//! | `rules.rs`, `settings.rs`, `runtime.rs` | what may pass, how the gateway is set, zenoh's threads |
//! | `keys.rs`, `names.rs`, `wire.rs` | keys, names, bytes; each folder has its own `wire.rs` beside |
//!
//! The protocols are doc/protocols/gateway.md, gateway_services.md and gateway_states.md: the states, and
//! which process repairs a death or a stop in each.

pub mod context;
pub mod gateway;
pub mod journal;
pub mod keys;
pub mod later;
pub mod leaving;
pub mod names;
pub mod notices;
pub mod receivers;
pub mod rules;
pub mod runtime;
pub mod services;
pub mod settings;
pub mod states;
pub mod told;
pub mod topics;
pub mod wire;
