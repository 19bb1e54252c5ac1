//! The program with real clients, over the protocol.

mod client;
mod costs;
mod deaths;
mod hostile;
mod python;
mod recorder;
mod recordings;
mod states;
mod support;
mod topics;
