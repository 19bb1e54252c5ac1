//! Which threads and processes live, for the price of a load. Nothing here waits.
//!
//! A *token* stands for a thread (or a process): a slot of the domain's registry, whose libc robust
//! mutex the thread holds until it ends. When the thread ends, for whatever reason, the kernel
//! marks the mutex's word. Every claim in shared memory is a [`TokenId`], so any process that finds
//! a claim can ask whether its owner lives. doc/protocols/token.md has the whole argument.

mod doorbell;
mod enroll;
mod exit;
mod id;
mod peer;
mod process_token;
mod registry;
mod slot;
mod slot_words;
mod thread;

pub(crate) use doorbell::{BITS, ClaimedDoorbell, Registration};
pub(crate) use exit::{ASK_AGAIN, End, Ends, LONGEST_CARE};
pub use id::TokenId;
pub(crate) use id::WAITERS;
pub use peer::{Peer, TokenInfo, TokenKind};
pub(crate) use registry::{FILE as REGISTRY_FILE, Registry};
pub(crate) use slot::{OWN_RELAY, SHARED_RELAY, Slot};
pub(crate) use thread::Me;
