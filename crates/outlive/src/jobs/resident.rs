//! Bringing a job queue's memory in before it is used.
//!
//! | step of `JobQueue::prefault` | died just after |
//! | --- | --- |
//! | the file has more slots | the next process that needs them asks for them again |
//! | `slots` counts them | they stay |

use super::JobQueue;
use super::inner::Inner;
use crate::segment::Resident;
use crate::sys::resident::Residency;
use crate::{Error, Payload, SendError};

impl Resident for Inner {
    fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        let slots = self.places.slot_at(self.table().len() as u32);
        self.segment.make_part_resident(0, slots, residency)
    }
}

impl<M: Payload + ?Sized> JobQueue<M> {
    /// Makes room for so many jobs, and brings it in, so that putting, taking and ending them is
    /// neither a page fault nor a system call, as long as no more of them are in the queue at a
    /// time, those included that workers have and those that are set aside.
    ///
    /// Each process of the queue calls it, producer and worker alike: it brings the memory into the
    /// calling process. More jobs still work, up to
    /// [`max_jobs`](super::JobQueueOptions::max_jobs): the queue grows as it always does. Putting a
    /// job that a worker sleeps for, and waiting for one, are system calls nevertheless.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-jobs-prefault-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::jobs::JobQueue;
    /// let jobs = JobQueue::<[u8]>::open_or_create(&domain, "parts")?;
    /// jobs.prefault(100)?;
    /// jobs.put(b"drill")?;                        // no page of it is new
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::NoSpace`] when these are more than `max_jobs`, or the file system has no room for
    /// all of them; what was made stays. [`SendError::System`].
    ///
    /// # If a process dies
    /// If this process dies during the call, the queue has more slots than before; other processes use
    /// what was made.
    pub fn prefault(&self, jobs: usize) -> Result<(), SendError> {
        self.inner.make_slots(jobs)?;
        Ok(self.inner.make_resident(Residency::Prefault)?)
    }
}
