//! The errors of using a pool's objects.

use std::fmt;
use std::path::PathBuf;

use super::debug::Fault;
use crate::{Error, TokenId};

/// Says why a pool did not do what the caller asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// There is neither a free object nor room for a new one. The pool stays as it is.
    NoSpace {
        /// The bytes that the caller asked for.
        wanted: u64,
        /// The process that has most of the pool, in use or in its caches.
        most: Option<HasMost>,
        /// Whether the pool's mode [`Modes::fail`](super::Modes::fail) caused the error; then there
        /// may be room.
        injected: bool,
    },
    /// The pool has no objects of that size: the largest has 1 GiB.
    TooLarge {
        /// The bytes that the caller asked for.
        wanted: u64,
    },
    /// The alignment is no power of two from 1 to 4,096.
    Alignment {
        /// The alignment that the caller asked for.
        align: usize,
    },
    /// The object is free already: it was freed twice, or the pool's tags were overwritten.
    Freed,
    /// The object belongs to another process. A forked child gets this for its parent's objects.
    NotOurs,
    /// The offset names nothing that is offered or shared (any more): the object has been claimed
    /// or freed, or belongs to another pool. Or `claim` was called for a shared object, or `join`
    /// for an offered one ([`Offset::is_shared`](super::Offset::is_shared)).
    Stale,
    /// The object is offered to another process or thread.
    NotForUs {
        /// The receiver of the offer.
        to: TokenId,
    },
    /// The object has as many holders as it can have.
    TooManyHolders {
        /// The most holders that an object can have.
        max: u32,
    },
    /// The object is offered as another type: as a value, or as plain bytes.
    OtherType,
    /// No object of the pool begins at that address.
    NotAnObject {
        /// The address that the caller gave.
        address: usize,
    },
    /// The object at that address belongs to another pool.
    OtherPool {
        /// That pool's file.
        pool: PathBuf,
    },
    /// A debug mode has found a fault. An object that was to be freed is free.
    Fault(Box<Fault>),
    /// The calling thread could not get a token, the pool is damaged, or the system refused a call.
    System(Error),
}

/// The process that has most of a full pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HasMost {
    /// Its process, in that process's pid namespace; 0 when no longer known.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// Whether it is alive. A dead process's objects become free when all of its threads have
    /// ended.
    pub alive: bool,
    /// The bytes of its objects.
    pub bytes: u64,
    /// The bytes, besides, that are handed over and not claimed: no process has them.
    pub unclaimed: u64,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::NoSpace { wanted, injected: true, .. } => {
                write!(
                    f,
                    "{wanted} bytes more are refused: the pool's debug mode 'fail' is on; Pool::set_modes turns it off"
                )
            }
            PoolError::NoSpace { wanted, most, injected: false } => {
                write!(f, "the pool has no room for {wanted} more bytes; ")?;
                if let Some(most) = most.as_ref().filter(|most| most.bytes > 0) {
                    let HasMost { pid, program, bytes, .. } = most;
                    let dead = if most.alive { "" } else { ", dead, its process has not quite ended" };
                    write!(f, "process {pid} ({}{dead}) has most of it, {bytes} bytes; ", program.escape_debug())?;
                }
                if let Some(HasMost { unclaimed: bytes @ 1.., .. }) = most {
                    write!(f, "{bytes} bytes are handed over and not claimed; ")?;
                }
                f.write_str("free objects, run 'outlive gc', or make it with a higher max_bytes")
            }
            PoolError::TooLarge { wanted } => {
                write!(f, "{wanted} bytes are more than an object has, 1 GiB; use several")
            }
            PoolError::Alignment { align } => write!(f, "{align} is no power of two from 1 to 4096"),
            PoolError::Freed => f.write_str("the object is free already; look for a second free, or a stray write"),
            PoolError::NotOurs => f.write_str(
                "the object belongs to another process (to the parent, in a forked child), which has to free it",
            ),
            PoolError::Stale => f.write_str(
                "nothing is offered or shared by that number; it was claimed or freed before, or is of another pool",
            ),
            PoolError::NotForUs { to } => write!(f, "it is offered to another ({to}), which has to claim it"),
            PoolError::TooManyHolders { max } => {
                write!(f, "it is shared by {max} holders already; wait until one of them has dropped it")
            }
            PoolError::OtherType => f.write_str(
                "what is offered is of another type; use claim for bytes, claim_value for the value that was offered",
            ),
            PoolError::NotAnObject { address } => {
                write!(f, "no object begins at {address:#x}; free what the pool gave, and where it begins")
            }
            PoolError::OtherPool { pool } => write!(f, "the object is of the pool {}; free it there", pool.display()),
            PoolError::Fault(fault) => fault.fmt(f),
            PoolError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolError::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for PoolError {
    fn from(error: Error) -> PoolError {
        PoolError::System(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pool_says_who_has_it() {
        let told = |most| PoolError::NoSpace { wanted: 7, most, injected: false }.to_string();
        assert!(told(None).starts_with("the pool has no room for 7 more bytes; free objects"));
        let most =
            HasMost { pid: 12, program: "a\n".into(), alive: false, bytes: 90, unclaimed: 0 };
        assert!(told(Some(most.clone())).contains(
            "process 12 (a\\n, dead, its process has not quite ended) has most of it, 90"
        ));
        let told = told(Some(HasMost { alive: true, unclaimed: 5, ..most }));
        assert!(
            told.contains("process 12 (a\\n) has most of it, 90 bytes; 5 bytes are handed over"),
            "{told}"
        );
    }
}
