//! Records Outlive's topics in [MCAP](https://mcap.dev) files.
//!
//! A [`Recorder`] is a subscriber whose place is kept: one that is killed and started again goes on
//! where it stopped, and the file has each message of a reliable topic once.
//! doc/protocols/record.md has the argument. A [`replay::Player`] publishes what is in such files, or in
//! those of other programs.

mod account;
pub mod control;
mod error;
mod join;
pub mod left;
mod notes;
mod output;
mod pace;
mod places;
mod positions;
mod recorder;
pub mod replay;
pub mod snapshot;
mod source;
mod window;

pub use control::Session;
pub use error::Error;
pub(crate) use outlive_described::{cdr, form};
pub use outlive_mcap::{Compression, Sync};
pub use output::Split;
pub use recorder::{Counts, EVENTS, Options, Recorder};
pub use snapshot::Snapshot;
pub use source::{Kinds, NAME};
