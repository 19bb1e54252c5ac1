//! Notices that count: a notifier tells every listener that something with a number has happened,
//! and each listener is told how often, for each of 64 numbers.
//!
//! A [`sync::Event`](crate::sync::Event) is one word of 32 bits that all share: two settings of a
//! bit are one, and the first to clear it has it. A listener's counts are its own.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-notify-{}", std::process::id()));
//! # let domain = outlive::Domain::open_or_create_at(&folder)?;
//! use outlive::notify::{Listener, Notifier};
//!
//! const OPENED: u32 = 1;
//! const CLOSED: u32 = 2;
//! let mut listener = Listener::open_or_create(&domain, "doors")?;
//! let notifier = Notifier::open_or_create(&domain, "doors")?;
//! notifier.notify(OPENED)?;
//! notifier.notify(CLOSED)?;
//! notifier.notify(OPENED)?;
//!
//! let notices = listener.wait()?;
//! assert_eq!(notices.iter().collect::<Vec<_>>(), [(OPENED, 2), (CLOSED, 1)]);
//! assert!(listener.try_wait()?.is_none());
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod forwarding;
mod ids;
mod inner;
mod layout;
mod listener;
mod listener_slot;
mod notices;
mod notifier;
mod notifier_slot;
mod options;
mod readiness;
mod resident;
mod usage;

pub use config::NotifierConfig;
#[doc(hidden)]
pub use forwarding::{Foreign, Keeper};
pub use listener::Listener;
pub use notices::Notices;
pub use notifier::Notifier;
pub use options::{NotifierEnd, NotifierOptions};
pub use usage::{ListenerUsage, NotifierUsage};
pub(crate) use usage::{sweep, usage};

/// How many numbers of notices there are: 0 to 63.
pub const IDS: u32 = ids::IDS as u32;
