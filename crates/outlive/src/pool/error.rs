//! What can go wrong with a pool's objects.

use std::fmt;
use std::path::PathBuf;

use super::debug::Fault;
use crate::{Error, TokenId};

/// Why a pool did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// Neither a free object nor room for a new one; what is there stays as it is.
    NoSpace {
        /// Bytes that were asked for.
        wanted: u64,
        /// Who has most of the pool, in use or in its caches.
        most: Option<HasMost>,
        /// Whether there may be room, and the pool's mode [`Modes::fail`](super::Modes::fail) had it.
        injected: bool,
    },
    /// No object is as large as that: the largest has 1 GiB.
    TooLarge {
        /// Bytes that were asked for.
        wanted: u64,
    },
    /// No power of two from 1 to 4,096.
    Alignment {
        /// What was asked for.
        align: usize,
    },
    /// The object is free already: it was freed twice, or somebody wrote over the pool's tags.
    Freed,
    /// The object belongs to another process; so it does in a forked child, where it is its parent's.
    NotOurs,
    /// Nothing is offered, or shared, by that number (any more): it has been claimed, or freed, or it is of another pool; or
    /// what is shared was to be claimed, or what is offered to be joined ([`Offset::is_shared`](super::Offset::is_shared)).
    Stale,
    /// It is offered to somebody else.
    NotForUs {
        /// To whom.
        to: TokenId,
    },
    /// It is shared by as many as can be.
    TooManyHolders {
        /// How many can.
        most: u32,
    },
    /// What is offered by that number is of another type than was asked for: a value, or plain bytes.
    OtherType,
    /// No object of the pool begins at that address.
    NotAnObject {
        /// The address.
        address: usize,
    },
    /// What is at that address is another pool's.
    OtherPool {
        /// That pool's file.
        pool: PathBuf,
    },
    /// A debug mode has found something. What was to be freed is free.
    Fault(Box<Fault>),
    /// The calling thread could not get a token, the pool is damaged, or what the system says.
    System(Error),
}

/// Who has most of a full pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HasMost {
    /// Its process, in that process's pid namespace; 0 when no longer known.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// Whether it lives. A dead one's objects are not free before all of its threads have ended.
    pub alive: bool,
    /// Bytes of objects that it has.
    pub bytes: u64,
    /// Bytes, besides, that are handed over and not claimed: nobody has them.
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
            PoolError::TooManyHolders { most } => {
                write!(f, "it is shared by {most} holders already; wait until one of them has dropped it")
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

impl std::error::Error for PoolError {}

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
        let most = HasMost { pid: 12, program: "a\n".into(), alive: false, bytes: 90, unclaimed: 0 };
        assert!(
            told(Some(most.clone()))
                .contains("process 12 (a\\n, dead, its process has not quite ended) has most of it, 90")
        );
        let told = told(Some(HasMost { alive: true, unclaimed: 5, ..most }));
        assert!(told.contains("process 12 (a\\n) has most of it, 90 bytes; 5 bytes are handed over"), "{told}");
    }
}
