//! Publish/subscribe: messages of any size to many processes, without copies; no process waits for
//! a dead one.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-topics-{}", std::process::id()));
//! # let domain = outlive::Domain::open_or_create_at(&folder)?;
//! use outlive::topic::Topic;
//!
//! let topic = Topic::<[u8]>::open_or_create(&domain, "camera")?;
//! let publisher = topic.publisher()?;
//! let mut subscriber = topic.subscriber()?;
//!
//! let mut frame = publisher.loan(1 << 20)?;       // written in place, never copied
//! frame.fill(7);
//! publisher.publish(frame)?;
//!
//! let frame = subscriber.recv()?;                 // read in place; stays as it is until it is dropped
//! assert!(frame.len() == 1 << 20 && frame[77] == 7);
//! # drop(frame);
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each publisher has one ring, which all subscribers read by cursors of their own:
//! doc/protocols/topic.md has the argument.

mod back_pressure;
mod claim;
mod control;
mod due;
mod durability;
mod forwarding;
mod free_list;
mod hazard;
mod header;
mod joining;
mod kept;
mod latest;
mod layout;
mod lend;
mod liveliness;
mod loan;
mod mapping;
mod mode;
#[cfg(feature = "msgpack")]
mod msgpack;
mod newest;
mod options;
mod orphan;
mod outgoing;
mod participants;
mod payload_memory;
mod publish;
mod publisher;
mod publisher_options;
mod readiness;
mod recv;
mod refusal;
mod resident;
mod ring;
mod ring_choice;
mod ring_owner;
mod room;
mod sample;
mod sample_cache;
mod slot;
mod subscriber;
mod subscriber_options;
mod subscriber_slot;
mod subscriber_words;
#[expect(clippy::module_inception, reason = "the layer's main thing")]
mod topic;
mod usage;
mod wake_words;
mod watched;

pub use crate::durability::Durability;
pub use due::Due;
#[doc(hidden)]
pub use forwarding::Session;
pub use header::Header;
#[doc(hidden)]
pub use kept::KeptUsage;
pub use layout::LARGEST_PAYLOAD;
pub use loan::Loan;
pub use options::{TopicConfig, TopicOptions};
pub use outgoing::{Outgoing, Publishable};
pub use participants::{Participants, Presence};
pub use payload_memory::PayloadMemory;
pub use publisher::{Published, Publisher};
pub use publisher_options::PublisherOptions;
pub use room::{Laggard, Writable};
pub use sample::Sample;
pub use subscriber::Subscriber;
pub use subscriber_options::SubscriberOptions;
pub use topic::Topic;
pub use usage::{RingUsage, SubscriberUsage, TopicUsage};
pub(crate) use usage::{sweep, usage};
