//! A queue of jobs for several workers, with acknowledgement: the job of a killed worker goes to
//! another.
//!
//! A worker that takes a job has it until it says that the job is [done](Job::done). If the worker
//! is killed, or drops the job, another worker gets it. So each job is done at least once, and
//! more than once only if its worker died or gave it back.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-jobs-{}", std::process::id()));
//! # let domain = outlive::Domain::open_or_create_at(&folder)?;
//! use outlive::jobs::JobQueue;
//!
//! let thumbnails = JobQueue::<[u8]>::open_or_create(&domain, "thumbnails")?;
//! thumbnails.put(b"cat.png")?;
//!
//! // In any number of processes:
//! let job = thumbnails.take()?;
//! assert_eq!(&*job, b"cat.png");
//! job.done()?;                    // until here it is another worker's if this process is killed
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod inner;
mod job;
mod layout;
#[cfg(feature = "msgpack")]
mod msgpack;
mod options;
mod queue;
mod readiness;
mod resident;
mod table;
mod usage;
mod word;

pub use job::{Job, SetAside};
pub use options::{JobQueueConfig, JobQueueOptions};
pub use queue::JobQueue;
pub use usage::{JobCounts, JobsUsage, TakenJob};
pub(crate) use usage::{sweep, usage};
