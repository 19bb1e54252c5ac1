//! Making and opening a job queue.

use core::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::inner::Inner;
use super::layout::{
    FIXED_SIZE, HEAD_AT, JobsHead, MOST_JOB_BYTES, MOST_JOBS, MOST_MAX_ATTEMPTS, Places,
};
use super::queue::JobQueue;
use crate::domain::{agree, check_range, three_openings};
use crate::liveness::Registry;
use crate::payload::{AnyLength, Recorded};
use crate::segment::{Opening, Segment, Spec, note_opened};
use crate::shim::Ordering;
use crate::{Domain, Error, Kind, Payload, WaitStrategy};

const USUAL_JOBS: u32 = 1024;
const USUAL_JOB_BYTES: u32 = 4096;
const USUAL_ATTEMPTS: u32 = 5;

/// Options for opening a job queue, or for making one.
///
/// An option that is not set takes what is there; a new job queue gets the default.
/// [`wait_strategy`](Self::wait_strategy) concerns this process alone.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-job-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::{Error, jobs::JobQueue};
///
/// let films = JobQueue::<[u8]>::options().max_jobs(100).max_attempts(2);
/// let films = films.create_new(&domain, "films")?;
/// assert_eq!((films.config().max_jobs, films.config().job_bytes), (100, 4096));
/// let more = JobQueue::<[u8]>::options().max_jobs(200).open(&domain, "films");
/// assert!(matches!(more, Err(Error::OtherOptions { what: "max_jobs", .. })));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "options do nothing until they open or make a job queue"]
pub struct JobQueueOptions<M: Payload + ?Sized = [u8]> {
    asked: Asked,
    _job: PhantomData<fn(&M)>,
}

/// What was set.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    max_jobs: Option<u32>,
    job_bytes: Option<u32>,
    max_attempts: Option<u32>,
    wait: Option<WaitStrategy>,
}

/// What a job queue was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobQueueConfig {
    /// The most jobs that the queue holds: waiting, taken and set aside together.
    pub max_jobs: u32,
    /// The most bytes of a job.
    pub job_bytes: u32,
    /// How often a job is taken before it is set aside; 0: there is no limit.
    pub max_attempts: u32,
}

impl<M: Payload + ?Sized> Clone for JobQueueOptions<M> {
    fn clone(&self) -> JobQueueOptions<M> {
        JobQueueOptions { asked: self.asked, _job: PhantomData }
    }
}

impl<M: Payload + ?Sized> fmt::Debug for JobQueueOptions<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobQueueOptions").field(&self.asked).finish()
    }
}

impl<M: Payload + ?Sized> JobQueueOptions<M> {
    /// Sets how many jobs the queue holds at most, waiting, taken and set aside together: 1 to
    /// 65,536. Default: 1,024. The queue begins smaller and grows.
    ///
    /// Taking a job looks at a word of each slot: two microseconds for a thousand jobs, 0.3 ms for
    /// sixty thousand.
    pub fn max_jobs(mut self, jobs: u32) -> Self {
        self.asked.max_jobs = Some(jobs);
        self
    }

    /// Sets how often a job is taken at most, 1 to 1,000: a job that comes back after so many
    /// attempts is set aside, to be looked at ([`JobQueue::set_aside`]). 0 sets no limit. Default:
    /// 5.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.asked.max_attempts = Some(attempts);
        self
    }

    /// Sets how this handle and its clones wait.
    pub fn wait_strategy(mut self, wait: WaitStrategy) -> Self {
        self.asked.wait = Some(wait);
        self
    }

    three_openings!(
        JobQueue<M>,
        "job queue",
        "[`Error::OtherType`](crate::Error::OtherType) when its jobs are of another type,
         [`Error::InvalidOption`](crate::Error::InvalidOption) for an option out of its range."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<JobQueue<M>, Error> {
        const { assert!(!M::METADATA.is_fixed() || M::METADATA.size <= MOST_JOB_BYTES) };
        let Asked { max_jobs, job_bytes, max_attempts, .. } = self.asked;
        check_range("max_jobs", max_jobs, 1..=MOST_JOBS, "1 to 65,536")?;
        check_range("job_bytes", job_bytes, 1..=MOST_JOB_BYTES as u32, "1 to 16 MiB")?;
        check_range("max_attempts", max_attempts, 0..=MOST_MAX_ATTEMPTS, "0 (no limit) to 1,000")?;
        let (metadata, types) = (M::METADATA, Recorded::one(M::METADATA));
        let is_fixed = metadata.is_fixed();
        let bytes = match is_fixed {
            true => metadata.size,
            false => u64::from(job_bytes.unwrap_or(USUAL_JOB_BYTES)),
        };
        let made = max_jobs.unwrap_or(USUAL_JOBS);
        check_range(
            "job_bytes",
            job_bytes.filter(|bytes| metadata.tail > 0 && u64::from(*bytes) < metadata.size),
            0..=0,
            "at least the bytes of a job without items",
        )?;
        let places = Places::checked(made, bytes).ok_or_else(|| Error::InvalidOption {
            what: "max_jobs times job_bytes",
            wanted: format!("{made} times {bytes}").into(),
            why: "16 GiB at most",
        })?;
        let spec = Spec {
            kind: Kind::JobQueue,
            type_name: types.name,
            type_size: types.size,
            type_align: types.align,
            reserve: places.slot_at(made),
            max_bytes: places.slot_at(made),
            initial: places.slot_at(places.first_slots()),
            description: None,
        };
        let segment = domain.open_as(name, opening, &spec, |segment| {
            let head: &JobsHead = segment.at(HEAD_AT)?;
            // Relaxed: the link that gives the file its name orders all of this before any opener.
            head.job_bytes.store(bytes, Ordering::Relaxed);
            head.max_jobs.store(made, Ordering::Relaxed);
            head.max_attempts.store(max_attempts.unwrap_or(USUAL_ATTEMPTS), Ordering::Relaxed);
            head.options.store(u32::from(is_fixed) * FIXED_SIZE, Ordering::Relaxed);
            let (unit, base) = match (u32::try_from(metadata.size).unwrap_or(1), metadata.tail) {
                (size, 0) => (size, 0),
                (size, item) => (item, size),
            };
            head.unit.store(unit, Ordering::Relaxed);
            head.base.store(base, Ordering::Relaxed);
            head.slots.store(places.first_slots(), Ordering::Relaxed);
            Ok(())
        })?;
        let queue = JobQueue::finish(segment, domain.registry())?;
        if is_fixed != queue.inner.is_fixed || is_fixed && queue.inner.job_bytes() != bytes {
            // Its header has this type and size and no more: the rest of it is not trusted.
            return Err(queue.inner.segment.damaged("a job queue's size"));
        }
        self.asked.agreeing(queue)
    }
}

impl Asked {
    /// Returns the queue, unless it was made with other options.
    fn agreeing<M: Payload + ?Sized>(self, queue: JobQueue<M>) -> Result<JobQueue<M>, Error> {
        let (segment, found) = (&queue.inner.segment, queue.config());
        agree(segment, "max_jobs", found.max_jobs, self.max_jobs)?;
        agree(segment, "job_bytes", found.job_bytes, self.job_bytes)?;
        agree(segment, "max_attempts", found.max_attempts, self.max_attempts)?;
        if let Some(wait) = self.wait {
            queue.set_wait_strategy(wait);
        }
        Ok(queue)
    }
}

impl<M: AnyLength + ?Sized> JobQueueOptions<M> {
    /// Sets the most bytes of a job, with its tail if it has one: 1 byte to 16 MiB. Default: 4 KiB. Each job takes so much
    /// memory and a little more: for large data, put a file's name or a pool's handle.
    pub fn job_bytes(mut self, bytes: u32) -> Self {
        self.asked.job_bytes = Some(bytes);
        self
    }
}

impl JobQueueOptions<[u8]> {
    /// Opens the existing job queue of that name as [`JobQueue::open_as_bytes`] does, with these
    /// options.
    ///
    /// # Errors
    /// As [`JobQueueOptions::open`], without [`Error::OtherType`].
    pub fn open_as_bytes(self, domain: &Domain, name: &str) -> Result<JobQueue<[u8]>, Error> {
        self.asked.agreeing(JobQueue::finish(domain.open_segment(name)?, domain.registry())?)
    }
}

impl<M: Payload + ?Sized> JobQueue<M> {
    /// Returns options of which none is set.
    pub fn options() -> JobQueueOptions<M> {
        JobQueueOptions { asked: Asked::default(), _job: PhantomData }
    }

    /// Opens the job queue of that name, or makes it with default options if there is none.
    ///
    /// # Errors
    /// The errors of [`JobQueueOptions::open_or_create`].
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<JobQueue<M>, Error> {
        JobQueue::options().open_or_create(domain, name)
    }

    /// Opens the existing job queue of that name.
    ///
    /// # Errors
    /// The errors of [`JobQueueOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<JobQueue<M>, Error> {
        JobQueue::options().open(domain, name)
    }

    /// Returns what the job queue was made with.
    #[must_use]
    pub fn config(&self) -> JobQueueConfig {
        let Inner { places, max_attempts, .. } = &*self.inner;
        JobQueueConfig {
            max_jobs: places.max_jobs,
            job_bytes: places.job_bytes as u32,
            max_attempts: *max_attempts,
        }
    }

    pub(crate) fn finish(
        segment: Segment,
        registry: &'static Registry,
    ) -> Result<JobQueue<M>, Error> {
        segment.expect(Kind::JobQueue)?;
        let inner = Arc::new(Inner::new(segment, registry)?);
        note_opened(registry.index, &inner);
        Ok(JobQueue { inner, _job: PhantomData })
    }
}

impl JobQueue<[u8]> {
    /// Opens the existing job queue of that name with its jobs as bytes, whatever their type: for
    /// programs that pass jobs on or inspect them without knowing the type.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OtherKind`], [`Error::Damaged`], and errors of the system.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-job-bytes-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::jobs::JobQueue;
    /// let frames = JobQueue::<u32>::open_or_create(&domain, "frames")?;
    /// frames.put(&7)?;
    /// let bytes = JobQueue::open_as_bytes(&domain, "frames")?;
    /// assert_eq!(*bytes.take()?, 7u32.to_ne_bytes());
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_as_bytes(domain: &Domain, name: &str) -> Result<JobQueue<[u8]>, Error> {
        JobQueue::<[u8]>::options().open_as_bytes(domain, name)
    }
}
