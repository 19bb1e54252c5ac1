//! Floor 3: who lives, at the price of a load.
//!
//! A *token* stands for a thread (or a process): a slot of the domain's registry whose libc robust mutex the thread
//! holds until it ends. When it ends for whatever reason, the kernel marks the mutex's word. Every claim in shared
//! memory is a [`TokenId`], so whoever finds a claim can ask whether its owner lives. doc/protocols/token.md has the
//! whole argument.

mod claim;
mod id;
mod many;
mod net;
mod note;
mod peer;
mod process_token;
mod registry;
mod role;
mod slot;
mod slot_words;
mod strategy;
mod thread;
mod wait;

pub use id::TokenId;
pub(crate) use id::WAITERS;
pub(crate) use many::{Many, Words};
pub(crate) use net::Net;
pub(crate) use note::{Note, Noted};
pub use peer::{Peer, TokenInfo, TokenKind, WaitError};
pub(crate) use registry::Registry;
pub(crate) use role::{NoRole, ROLE_DIED, Role, RoleWords, Standing, sweep_role};
pub(crate) use strategy::SpinWait;
pub use strategy::WaitStrategy;
pub(crate) use thread::Me;
pub(crate) use wait::{Asleep, MOST_OWNERS, sleep, sleep_among, sleep_on, sleep_on_several, sleep_until_it_comes};
