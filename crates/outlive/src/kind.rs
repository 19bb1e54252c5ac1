//! What there is in a domain.

use std::fmt;

/// What a named thing in a domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The domain's tokens.
    Registry,
    /// A [`sync::Mutex`](crate::sync::Mutex).
    Mutex,
    /// A [`sync::Record`](crate::sync::Record): a user's own struct with locks inside.
    Record,
    /// A [`queue::Queue`](crate::queue::Queue).
    Queue,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Registry, Kind::Mutex, Kind::Record, Kind::Queue];

    pub(crate) fn number(self) -> u32 {
        match self {
            Kind::Registry => 1,
            Kind::Mutex => 2,
            Kind::Record => 3,
            Kind::Queue => 4,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Registry => "registry",
            Kind::Mutex => "mutex",
            Kind::Record => "record",
            Kind::Queue => "queue",
        })
    }
}
