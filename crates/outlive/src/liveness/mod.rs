//! Layer 3: who lives, at the price of a load.
//!
//! A *token* stands for a thread (or a process): a slot of the domain's registry whose libc robust mutex the thread
//! holds until it ends. When it ends for whatever reason, the kernel marks the mutex's word. Every claim in shared
//! memory is a [`TokenId`], so whoever finds a claim can ask whether its owner lives. doc/protocols/token.md has the
//! whole argument.

mod enroll;
mod exit;
mod id;
mod peer;
mod process_token;
mod recheck;
mod registry;
mod role;
mod slot;
mod slot_words;
mod strategy;
mod thread;
mod wait;
mod wait_list;
mod wait_record;

pub(crate) use exit::{End, Ends};
pub use id::TokenId;
pub(crate) use id::WAITERS;
pub use peer::{Peer, TokenInfo, TokenKind, WaitError};
pub(crate) use recheck::Recheck;
pub(crate) use registry::Registry;
pub(crate) use role::{NoRole, ROLE_DIED, Role, RoleWords, Standing, sweep_role};
pub(crate) use strategy::SpinWait;
pub use strategy::WaitStrategy;
pub(crate) use thread::Me;
pub(crate) use wait::{Asleep, MOST_OWNERS, sleep, sleep_among, sleep_on, sleep_on_several, sleep_until_it_comes};
pub(crate) use wait_list::{WaitList, WaitWords};
pub(crate) use wait_record::{FoundRecord, WaitRecord};
