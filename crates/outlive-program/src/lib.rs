//! What Outlive's programs share: which domain they work in, the signals that end them, the codes with
//! which they exit, what they tell systemd, how sizes and times are written on their command lines, and how figures, dates and
//! names are printed.
//!
//! A program without a domain, which works on files alone, leaves the feature `domain` out, and the library
//! with it.

pub mod date;
#[cfg(feature = "domain")]
mod domain;
pub mod duration;
pub mod exit;
pub mod figures;
pub mod names;
mod signals;
pub mod size;
mod supervisor;

#[cfg(feature = "domain")]
pub use domain::{budget_behind, open_domain};
pub use signals::{block_ending_signals, block_signals};
pub use supervisor::Supervisor;
