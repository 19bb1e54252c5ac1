//! Shared memory in objects, by size class, each of which names the process that has it.
//!
//! The files here are the public pool as a whole; the rest lies in folders, each of which uses
//! those before it:
//!
//! | folder | contents |
//! | --- | --- |
//! | `heap` | the memory, as queues, topics and services use it, too |
//! | `cache` | what a thread keeps to itself |
//! | `debug` | finding misuse |
//! | `share` | handing objects to other processes |
//!
//! doc/protocols/pool.md has the argument.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-pools-{}", std::process::id()));
//! # let domain = outlive::Domain::open_or_create_at(&folder)?;
//! use outlive::pool::Pool;
//!
//! let pool = Pool::options().max_bytes(64 << 20).open_or_create(&domain, "images")?;
//! let image = pool.alloc(1 << 20)?;
//! assert_eq!(pool.usage()?.sum.used, 1);
//! drop(image);
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A pool's debug modes find faults in the use of objects, at run time: see [`MODES`].

mod cache;
mod debug;
mod error;
mod file;
mod gc;
mod heap;
mod huge;
mod inner;
mod object;
#[expect(clippy::module_inception, reason = "the layer's main thing")]
mod pool;
mod resident;
mod share;
mod usage;
mod value;

pub use debug::{Caller, Fault, FaultKind, MODES, Mode, Modes, ModesError, on_fault};
pub use error::{HasMost, PoolError};
pub use gc::Trimmed;
pub(crate) use gc::sweep;
pub(crate) use heap::{Collected, Heap, HeapHost, Message, ObjectRef, RingTag, SPAN, Shape, Tag};
pub use inner::LARGEST_OBJECT;
pub use object::Object;
pub use pool::{Pool, PoolConfig, PoolOptions};
pub use share::{Offer, Offset, SharedObject};
pub(crate) use usage::usage_of;
pub use usage::{Held, HolderUsage, SizeUsage, Usage};
pub use value::Pooled;
