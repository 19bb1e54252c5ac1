//! The bridge with a real server, both killed, stopped and started anew.

mod kills;
mod numbers;
mod passing;
mod refusals;
mod successors;
mod world;
