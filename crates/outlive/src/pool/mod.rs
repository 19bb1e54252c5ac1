//! Objects in shared memory, by size class, each named by who has it.
//!
//! The core (`Heap`), as the queue needs it for large messages; on it stands the public pool, with lists and
//! caches. doc/protocols/pool.md has the argument.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-pools-{}", std::process::id()));
//! # let domain = outlive::Domain::open_at(&folder)?;
//! use outlive::pool::{Pool, PoolOptions};
//!
//! let pool = Pool::open(&domain, "images", PoolOptions { max_bytes: 64 << 20, ..PoolOptions::default() })?;
//! let image = pool.alloc(1 << 20)?;
//! assert_eq!(pool.usage()?.sum.used, 1);
//! drop(image);
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Faults in the use of objects are found by a pool's debug modes, at run time: [`MODES`] says which there are.

mod cache;
mod classes;
mod collect;
mod demand;
mod error;
mod fault;
mod file;
mod free_list;
mod gc;
mod guard_pages;
mod handle;
mod heap_host;
mod held;
mod holder_blocks;
mod holders;
mod hot;
mod huge;
mod in_modes;
mod layout;
mod modes;
mod object;
mod objects;
mod poison;
#[expect(clippy::module_inception, reason = "the layer's main thing")]
mod pool;
mod process_exit;
mod queued;
mod raw;
mod reclaim;
mod redzone;
#[cfg(test)]
mod run_tests;
mod runs;
mod shared;
mod shortage;
mod spans;
mod tag;
mod units;
mod usage;
mod value;
#[cfg(test)]
mod waiting_tests;

pub(crate) use collect::Found;
pub use error::{HasMost, PoolError};
pub use fault::{Caller, Fault, FaultKind, on_fault};
pub use gc::Trimmed;
pub(crate) use gc::sweep;
pub(crate) use heap_host::{HeapHost, Message};
pub use held::Held;
pub(crate) use layout::{Heap, ObjectRef};
pub use modes::{MODES, Mode, Modes, ModesError};
pub use object::{Object, Offer, Offset};
pub use pool::{LARGEST_OBJECT, Pool, PoolOptions};
pub(crate) use process_exit::Ends;
pub use shared::Shared;
pub(crate) use spans::{SPAN, Shape};
pub(crate) use tag::Tag;
pub(crate) use usage::look;
pub use usage::{HolderUsage, SizeUsage, Usage};
pub use value::Pooled;
