//! The kinds of things in a domain.

use std::fmt;

/// Says what kind of thing a name in a domain stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The registry of the domain's tokens.
    Registry,
    /// The domain's record of the order in which locks are taken.
    LockOrder,
    /// A [`sync::Mutex`](crate::sync::Mutex).
    Mutex,
    /// A [`sync::Record`](crate::sync::Record): a user's own struct with locks inside.
    Record,
    /// A [`queue::Queue`](crate::queue::Queue).
    Queue,
    /// A [`sync::RwLock`](crate::sync::RwLock).
    RwLock,
    /// A [`sync::Condvar`](crate::sync::Condvar).
    Condvar,
    /// A [`sync::Event`](crate::sync::Event).
    Event,
    /// A [`sync::OnceLock`](crate::sync::OnceLock).
    Once,
    /// A [`sync::Latch`](crate::sync::Latch).
    Latch,
    /// A [`sync::Semaphore`](crate::sync::Semaphore).
    Semaphore,
    /// A [`sync::Barrier`](crate::sync::Barrier).
    Barrier,
    /// A [`sync::PiMutex`](crate::sync::PiMutex).
    PiMutex,
    /// A [`sync::CeilingMutex`](crate::sync::CeilingMutex).
    CeilingMutex,
    /// A [`sync::ReentrantMutex`](crate::sync::ReentrantMutex).
    ReentrantMutex,
    /// A [`pool::Pool`](crate::pool::Pool).
    Pool,
    /// A [`topic::Topic`](crate::topic::Topic).
    Topic,
    /// A [`state::State`](crate::state::State).
    State,
    /// A service of [`rpc`](crate::rpc): requests and replies.
    Service,
    /// A [`jobs::JobQueue`](crate::jobs::JobQueue).
    JobQueue,
    /// A [`notify::Notifier`](crate::notify::Notifier), with its listeners.
    Notifier,
}

/// Each kind, its number in a file's header, and its name. Numbers are for ever.
const KINDS: &[(Kind, u32, &str)] = &[
    (Kind::Registry, 1, "registry"),
    (Kind::Mutex, 2, "mutex"),
    (Kind::Record, 3, "record"),
    (Kind::Queue, 4, "queue"),
    (Kind::RwLock, 5, "rwlock"),
    (Kind::Condvar, 6, "condvar"),
    (Kind::Event, 7, "event"),
    (Kind::Once, 8, "once"),
    (Kind::Latch, 9, "latch"),
    (Kind::Semaphore, 10, "semaphore"),
    (Kind::Barrier, 11, "barrier"),
    (Kind::PiMutex, 12, "pi mutex"),
    (Kind::CeilingMutex, 13, "ceiling mutex"),
    (Kind::Pool, 14, "pool"),
    (Kind::Topic, 15, "topic"),
    (Kind::State, 17, "state"),
    (Kind::Service, 18, "service"),
    (Kind::JobQueue, 19, "job queue"),
    (Kind::ReentrantMutex, 20, "reentrant mutex"),
    (Kind::Notifier, 21, "notifier"),
    (Kind::LockOrder, 31, "lock order"),
];

impl Kind {
    /// Returns the number that shared memory holds for this kind.
    pub(crate) fn number(self) -> u32 {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or(0, |(_, number, _)| *number)
    }

    /// Returns the kind that has this number.
    pub(crate) fn of_number(number: u32) -> Option<Kind> {
        KINDS.iter().find(|(_, n, _)| *n == number).map(|(kind, ..)| *kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS.iter().find(|(kind, ..)| kind == self).map_or("?", |(.., name)| name))
    }
}
