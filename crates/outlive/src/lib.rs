//! Daemonless shared-memory IPC for Linux whose locks, queues and topics recover when any
//! participant is killed.
//!
//! Every claim in shared memory names its owner's liveness token in the same atomic store that
//! makes the claim. Any process asks with two loads of one cache line whether the owner is alive,
//! and waits with one `futex_waitv` for the object or for the owner's death, whichever comes first.
//!
//! ```
//! use outlive::{Domain, queue::Queue, sync::Mutex};
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-lib-{}", std::process::id()));
//! # let domain = Domain::open_or_create_at(&folder)?;
//! # /*
//! let domain = Domain::open_default()?;       // /dev/shm/outlive-UID/default; nothing to set up
//! # */
//! let total = Mutex::<u64>::options(0).open_or_create(&domain, "total")?;
//! let queue = Queue::<[u8]>::open_or_create(&domain, "orders")?;
//! let sender = queue.sender()?;
//! let mut receiver = queue.receiver()?;
//!
//! sender.send(b"buy 10")?;                    // fails at once if the receiver is dead
//! *total.lock().unwrap() += 10;               // OwnerDied if the last holder was killed inside
//! assert_eq!(receiver.recv()?, b"buy 10");
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which primitive do I need?
//! | to | take | a participant is killed |
//! | --- | --- | --- |
//! | send each message to one process, in order | [`queue`] | the receiver's successor goes on with the next message; senders are told |
//! | give jobs to several workers | [`jobs`] | a killed worker's job goes to another |
//! | publish to any number of processes, without copies | [`topic`] | subscribers keep what they hold; a new publisher takes the dead one's place |
//! | give the latest value to any number of readers | [`state`] | readers keep the last whole value, and are told |
//! | ask a process and get an answer | [`rpc`] | the caller is told at once, and whether the call had begun |
//! | change data in turn | [`sync::Mutex`], [`sync::RwLock`] | the next to lock is told, repairs the data, goes on |
//! | the same where the holder locks again | [`sync::ReentrantMutex`] | the same |
//! | the same under a real-time policy | [`sync::PiMutex`], [`sync::CeilingMutex`] | the same |
//! | let at most N in at once | [`sync::Semaphore`] | its permits come back |
//! | meet at a point, again and again | [`sync::Barrier`] | the others are told, or go on without it |
//! | wait until so many have arrived, once | [`sync::Latch`] | its arrivals count; those that are missing stay missing |
//! | tell that something has happened | [`sync::Event`], [`sync::Condvar`] | what was set stays set; a notification goes to the next waiter |
//! | tell each of several processes how often something has happened | [`notify`] | no notice is lost; listeners are told of a notifier's end |
//! | make a value once | [`sync::OnceLock`] | the next process makes it |
//! | hand large objects from process to process | [`pool`] | its objects come back |
//! | wait for several queues, job queues, topics, states, services, listeners, events, latches, timers or deaths at once, or with `async` | [`wait`] | the wait reports that end |
//! | put locks into a structure of one's own | [`sync::Record`] | as above |
//! | know whether a process lives, and wait for its end | [`Peer`] | the waiter is woken |
//! | name a process, and follow what comes and goes | [`node`] | its name goes with it; watchers are woken |
//!
//! # The layers
//! Each uses those below it, never one above (a test reads the `use` lines).
//!
//! | layer | what is on it |
//! | --- | --- |
//! | `shim` | atomics: the processor's, or loom's |
//! | `sys` | system calls: futex, robust list, files, mappings, clocks, facts about processes |
//! | [`futex`] | the system call itself, for people who build their own |
//! | `segment` | a growing shared file; headers; creation without a race |
//! | `liveness` | tokens: [`TokenId`], [`Peer`]. Nothing here waits |
//! | `wake` | sleeping until a word changes or its owner ends, and being woken; [`WaitStrategy`] |
//! | `claim` | words that name their owner, and the takeover of a dead one's |
//! | `config` | the configuration file (a feature, on by default) |
//! | `domain` | [`Domain`]: the folder in which named things meet |
//! | [`sync`] | locks |
//! | [`pool`] | objects by size class, handed from process to process |
//! | [`queue`] | the growing queue |
//! | [`jobs`] | the job queue |
//! | [`notify`] | notices that each listener counts |
//! | [`topic`] | messages to many processes |
//! | [`state`] | the latest value under a name |
//! | [`rpc`] | requests and replies: [`rpc::Service`], [`rpc::Client`], [`rpc::Server`] |
//! | [`node`] | processes that have a name; what comes and goes in a domain |
//! | [`wait`] | waiting for many things at once; descriptors, `async` |
//! | `inspect` | what is in a domain, and cleaning up after the dead |
//!
//! # What holds when a process dies
//! At any instruction, by whatever cause, `SIGKILL` included: no other process hangs; a lock's next
//! owner is told (of a reader's death there is nothing to tell); a message whose `send` returned is
//! received whole by a receiver that uses `peek` and `commit`; a sender is told when its receiver
//! is dead. What does *not* hold is in doc/guarantees.md, and what hostile processes can do in
//! doc/threat-model.md.
//!
//! # Features
//! | feature | on by default | |
//! | --- | --- | --- |
//! | `config` | yes | the module `config`: the default domain, and profiles for topics, from a file; brings toml and strsim |
//! | `derive` | yes | `#[derive(Payload)]`: the description of a struct; brings syn, quote and proc-macro2 |
//! | `msgpack` | no | `Msgpack`: messages of any serde type; brings serde and rmp-serde |
//! | `shared-library` | no | for crates that become a shared library: a thread's own data is found without a call of `__tls_get_addr` |
//! | `testing` | no | hooks that only the project's own tests call; they may change in any release |
//!
//! # Needs
//! Linux on x86-64 or aarch64, glibc or musl; best from 5.16 on (`futex_waitv`); on older kernels
//! waiters poll every 10 ms instead of being woken by a death.

mod claim;
#[cfg(feature = "config")]
pub mod config;
pub mod describe;
mod domain;
mod durability;
mod error;
pub mod futex;
mod inspect;
pub mod jobs;
mod kind;
mod liveness;
#[cfg(feature = "msgpack")]
mod msgpack;
pub mod node;
pub mod notify;
mod payload;
pub mod pool;
pub mod queue;
pub mod rpc;
mod segment;
mod shim;
pub mod state;
pub mod sync;
mod sys;
pub mod topic;
pub mod wait;
mod wake;

pub use claim::{RecvError, SendError};
pub use domain::{Domain, DomainOptions, DomainStats, WithAttributes};
pub use error::Error;
pub use inspect::{Blocked, Deadlock, Detail, Entry, SweepReport, Waiter};
pub use kind::Kind;
pub use liveness::{Peer, TokenId, TokenInfo, TokenKind};
#[cfg(feature = "msgpack")]
pub use msgpack::Msgpack;
#[cfg(feature = "derive")]
pub use outlive_derive::Payload;
pub use payload::{Payload, Plain, Shareable};
pub use segment::{Attributes, AttributesIter, Opening};
pub use sys::clock::Deadline;
pub use wake::{WaitError, WaitStrategy};

/// The one call upwards: a registry whose slots have all been used 8,192 times needs its whole
/// domain swept, which is the top layer's business.
fn sweep_quarantined(folder: &std::path::Path) {
    inspect::sweep_quarantined(folder);
}

/// Re-exported, since its errors appear in signatures.
#[cfg(feature = "msgpack")]
pub use rmp_serde;
/// Re-exported, since its traits are bounds of [`Plain`], and appear in signatures.
pub use zerocopy;

/// What the kernel and this process's limits allow, for `outlive doctor` and for tests.
pub mod abilities {
    /// Returns whether `futex_waitv` may be called (Linux 5.16; denied by some container runtimes).
    /// Without it, waiters poll every 10 ms.
    pub fn has_futex_waitv() -> bool {
        crate::sys::futex::has_waitv()
    }

    /// Returns whether `membarrier` works across processes. Without it, sends pay for a fence and
    /// sleepers poll every 10 ms.
    pub fn has_membarrier() -> bool {
        crate::sys::barrier::register() && crate::sys::barrier::heavy()
    }

    /// Returns whether the kernel makes huge pages of what is there when it is asked
    /// (`MADV_COLLAPSE`, Linux 6.1): what `PoolOptions::huge_pages` needs on a file system that is
    /// not mounted with `huge=`.
    pub fn can_make_huge_pages() -> bool {
        // SAFETY: an empty range.
        unsafe { crate::sys::map::make_huge(core::ptr::null_mut(), 0) }
    }

    /// Makes this process wait from now on as if the kernel had no `futex_waitv`: for tests of that
    /// fallback.
    #[cfg(feature = "testing")]
    pub fn pretend_no_futex_waitv() {
        crate::sys::futex::pretend_no_waitv();
    }
}

/// The example of this package's own page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// The examples of the project's first page, which is not in a package. Only the project's own tests
/// have the feature.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../README.md")]
mod first_page {}
