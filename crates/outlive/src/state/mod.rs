//! The latest value under a name: one writer, any number of readers; no reader and no writer waits
//! for another.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-state-{}", std::process::id()));
//! # let domain = outlive::Domain::open_or_create_at(&folder)?;
//! use outlive::state::{Change, State};
//!
//! let pose = State::<[f64; 3]>::open_or_create(&domain, "pose")?;
//! let mut writer = pose.writer()?;
//! writer.set(&[1.0, 2.0, 0.5])?;
//! assert_eq!(pose.get()?, [1.0, 2.0, 0.5]);
//!
//! let seen = pose.version();
//! writer.set(&[1.5, 2.0, 0.5])?;
//! assert_eq!(pose.wait_changed(seen)?, Change::Value { version: seen + 1 });
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod buffers;
mod forwarding;
mod inner;
mod layout;
mod options;
mod read;
mod readiness;
mod resident;
#[expect(clippy::module_inception, reason = "the layer's main thing")]
mod state;
mod sweep;
mod tap;
mod wait;
mod watch;
mod write;

#[doc(hidden)]
pub use forwarding::{Seen, WriterIs};
pub(crate) use inner::Inner;
pub use options::{StateConfig, StateOptions};
pub use state::{State, Writer};
#[doc(hidden)]
pub use tap::{Tap, Tapped};
pub use wait::Change;
pub use watch::Watch;
