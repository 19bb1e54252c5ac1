//! Networks and servers for tests: namespaces, links that go down, lose packets or are slow.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Net`], [`Host`] | network namespaces at one switch: pulled cables, rates, losses, partitions |
//! | [`Relay`] | a TCP relay: delays, cut connections, refused ones, a black hole |
//! | [`Server`], [`Child`] | a program that is killed, stopped, started again, and gone with its test |
//! | [`Folder`] | a test's own folder |
//! | [`free_port`] | a port that no other test is given |
//!
//! Everything is removed on drop, so also where a test panics. What a killed test run left behind is
//! removed by the next one: all names hold the run's process and when it was started.

mod child;
mod folder;
mod net;
mod port;
mod relay;
mod run;

pub use child::{Child, Server, eventually};
pub use folder::Folder;
pub use net::{Host, Net};
pub use port::free_port;
pub use relay::Relay;
pub use run::{missing, skip};
