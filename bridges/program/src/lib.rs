//! What the bridges' programs share: which domain they work in, and the signals that end them.

mod domain;
mod signals;

pub use domain::open_domain;
pub use signals::block_ending_signals;
