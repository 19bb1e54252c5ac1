//! How long a topic's messages stay: what topics and the configuration file name alike.

use core::fmt;

/// How long a topic's messages stay for subscribers that come later, and for
/// [`Subscriber::latest`](crate::topic::Subscriber::latest). Each level offers more than the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// A subscriber gets what is published while it is there.
    Volatile,
    /// A later subscriber gets what living publishers have published and still vouch for: of a
    /// publisher that has left, or died, it gets nothing, nor of an earlier start of it.
    #[default]
    TransientLocal,
    /// Messages outlive their publishers, until other messages take their places.
    Persistent,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Volatile => "volatile",
            Durability::TransientLocal => "transient_local",
            Durability::Persistent => "persistent",
        })
    }
}
