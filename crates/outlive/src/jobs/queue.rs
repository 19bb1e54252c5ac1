//! A job queue as its users hold it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use super::job::{Job, SetAside};
use super::table::{Held, Table};
use crate::{Deadline, Error, Payload, RecvError, SendError, WaitError, WaitStrategy};

/// A queue of jobs, open in this process: any number of processes put jobs, and any number of
/// workers take them.
///
/// A job is bytes (`JobQueue<[u8]>`), a value of a [`Plain`](crate::Plain) type, or a slice of one.
/// Jobs are taken in the order in which they were put; a job that comes back goes before all that
/// were put after it. Jobs that two threads put at the same moment have either order. Several
/// workers do jobs side by side, so the order in which jobs are *done* is not promised.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-job-queue-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::jobs::JobQueue;
///
/// let frames = JobQueue::<u32>::options().max_attempts(2).open_or_create(&domain, "frames")?;
/// frames.put(&1)?;
/// frames.put(&2)?;
///
/// let job = frames.take()?;
/// assert_eq!((*job, job.attempts()), (1, 1));
/// drop(job);                                   // not done: it comes back, and goes first
/// let job = frames.take()?;
/// assert_eq!((*job, job.attempts()), (1, 2));
/// job.release()?;                              // the second time: it is set aside
/// assert_eq!(frames.set_aside()?.len(), 1);
///
/// frames.take()?.done()?;
/// frames.join()?;                              // all jobs are done or set aside
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If a worker dies, another worker gets its job: at once if one is waiting, or within a second if
/// the workers that were woken for it are killed or stopped just then. After
/// [`max_attempts`](super::JobQueueOptions::max_attempts) the job is set aside instead. If a
/// producer dies, the jobs that it has put stay; the one that it was putting is in the queue whole,
/// or not at all. A *stopped* worker (`SIGSTOP`) keeps its job: a stop is not a death.
pub struct JobQueue<M: Payload + ?Sized = [u8]> {
    pub(super) inner: Arc<Inner>,
    pub(super) _job: PhantomData<fn(&M)>,
}

impl<M: Payload + ?Sized> Clone for JobQueue<M> {
    fn clone(&self) -> JobQueue<M> {
        JobQueue { inner: Arc::clone(&self.inner), _job: PhantomData }
    }
}

impl<M: Payload + ?Sized> JobQueue<M> {
    /// Returns the attributes that its maker gave it.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when a process wrote over them, and errors of the
    /// system.
    pub fn attributes(&self) -> Result<crate::Attributes, crate::Error> {
        self.inner.segment.attributes()
    }

    /// Puts a job, waiting while the queue holds as many as it can. Returns the job's number, which
    /// no other job of this queue has.
    ///
    /// # Errors
    /// [`SendError::TooLarge`], [`SendError::OtherLength`] for bytes that are no job of this queue,
    /// [`SendError::NotOwner`] when this process was taken for dead, [`SendError::Damaged`],
    /// [`SendError::System`].
    ///
    /// # If a process dies
    /// Once this returns `Ok`, the job is in the queue and outlives this process.
    pub fn put(&self, job: &M) -> Result<u64, SendError> {
        self.inner.put(job.bytes(), Some(Deadline::NEVER))
    }

    /// Puts a job as [`JobQueue::put`] does, but never waits.
    ///
    /// # Errors
    /// As [`JobQueue::put`], and [`SendError::Full`].
    pub fn try_put(&self, job: &M) -> Result<u64, SendError> {
        self.inner.put(job.bytes(), None)
    }

    /// Puts a job as [`JobQueue::put`] does, waiting for so long at most.
    ///
    /// # Errors
    /// As [`JobQueue::put`], and [`SendError::TimedOut`].
    pub fn put_timeout(&self, job: &M, timeout: Duration) -> Result<u64, SendError> {
        self.put_until(job, Deadline::after(timeout))
    }

    /// Puts a job as [`JobQueue::put`] does, waiting until the deadline.
    ///
    /// # Errors
    /// As [`JobQueue::put`], and [`SendError::TimedOut`].
    pub fn put_until(&self, job: &M, deadline: Deadline) -> Result<u64, SendError> {
        self.inner.put(job.bytes(), Some(deadline))
    }

    /// Takes the next job, waiting for one. The job is this process's until it is done or given
    /// back, or the process ends; the thread that took it may pass it on.
    ///
    /// # Errors
    /// [`RecvError::Damaged`] when the job's bytes are damaged, which sets it aside;
    /// [`RecvError::System`].
    ///
    /// # If a process dies
    /// If a worker dies, this returns its job. If this process dies, another worker gets it.
    pub fn take(&self) -> Result<Job<M>, RecvError> {
        Deadline::never(|deadline| self.take_until(deadline))
    }

    /// Takes the next job as [`JobQueue::take`] does, but never waits; returns `None` when there is
    /// none.
    ///
    /// # Errors
    /// As [`JobQueue::take`].
    pub fn try_take(&self) -> Result<Option<Job<M>>, RecvError> {
        self.take_until(Deadline::at_nanos(0))
    }

    /// Takes the next job as [`JobQueue::take`] does, waiting for so long at most; returns `None`
    /// when none came.
    ///
    /// # Errors
    /// As [`JobQueue::take`].
    pub fn take_timeout(&self, timeout: Duration) -> Result<Option<Job<M>>, RecvError> {
        self.take_until(Deadline::after(timeout))
    }

    /// Takes the next job as [`JobQueue::take`] does, waiting until the deadline; returns `None`
    /// when none came.
    ///
    /// # Errors
    /// As [`JobQueue::take`].
    pub fn take_until(&self, deadline: Deadline) -> Result<Option<Job<M>>, RecvError> {
        match self.inner.take(deadline)? {
            Some((process, held)) => Job::new(Arc::clone(&self.inner), process, held).map(Some),
            None => Ok(None),
        }
    }

    /// Waits until all jobs are done or set aside, including those that are put meanwhile. Jobs
    /// that are being put count as well.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// The job of a dead worker is not done: this waits until another worker has done it, or for
    /// ever if there is no other. If a process dies just after its last job was done, this returns
    /// within a second.
    pub fn join(&self) -> Result<(), WaitError> {
        self.join_until(Deadline::NEVER)
    }

    /// Returns at once, with success if all jobs are done or set aside.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] when some are not, [`WaitError::System`].
    pub fn try_join(&self) -> Result<(), WaitError> {
        self.join_until(Deadline::at_nanos(0))
    }

    /// Waits as [`JobQueue::join`] does, for so long at most.
    ///
    /// # Errors
    /// As [`JobQueue::join`], and [`WaitError::TimedOut`].
    pub fn join_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.join_until(Deadline::after(timeout))
    }

    /// Waits as [`JobQueue::join`] does, until the deadline.
    ///
    /// # Errors
    /// As [`JobQueue::join`], and [`WaitError::TimedOut`].
    pub fn join_until(&self, deadline: Deadline) -> Result<(), WaitError> {
        loop {
            match self.inner.join(deadline).map_err(WaitError::System)? {
                true => return Ok(()),
                false if deadline == Deadline::NEVER => {}
                false => return Err(WaitError::TimedOut),
            }
        }
    }

    /// Returns how many jobs wait to be taken just now.
    pub fn len(&self) -> usize {
        self.counts().waiting as usize
    }

    /// Returns whether no job waits to be taken just now. Workers may have some that come back.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns copies of the jobs that are set aside, in the order in which they were put: those
    /// that have been taken as often as allowed, those that a worker has set aside, and damaged
    /// ones ([`SetAside::is_damaged`]).
    ///
    /// # Errors
    /// [`Error::Damaged`] when the queue itself is damaged, [`Error::NoAddressSpace`].
    pub fn set_aside(&self) -> Result<Vec<SetAside<M>>, Error> {
        self.aside().into_iter().filter_map(|held| self.copy_of(held).transpose()).collect()
    }

    /// Returns a copy of the first job that is set aside and whose number is `from` or more; `None`
    /// if there is none. With the number after the last one's, this goes through all of them with
    /// the memory of one.
    ///
    /// # Errors
    /// As [`JobQueue::set_aside`].
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-next-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::jobs::JobQueue;
    ///
    /// let frames = JobQueue::<u32>::open_or_create(&domain, "frames")?;
    /// let id = frames.put(&7)?;
    /// frames.take()?.set_aside()?;
    /// assert_eq!(frames.next_set_aside(0)?.expect("a job").data, 7);
    /// assert!(frames.next_set_aside(id + 1)?.is_none());
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_set_aside(&self, from: u64) -> Result<Option<SetAside<M>>, Error> {
        let jobs = self.aside().into_iter().filter(|held| held.id >= from);
        jobs.filter_map(|held| self.copy_of(held).transpose()).next().transpose()
    }

    fn copy_of(&self, held: Held) -> Result<Option<SetAside<M>>, Error> {
        let copy = self.inner.read_or_damaged::<M>(held.index);
        // Else another process has changed it meanwhile, and the bytes are of any job.
        if !self.inner.table().is_still(held) {
            return Ok(None);
        }
        let (data, is_damaged) = copy?;
        Ok(Some(SetAside { id: held.id, attempts: held.word.attempts(), data, is_damaged }))
    }

    /// Lets the job of that number be taken again, as if it had never been taken. Returns whether
    /// it was set aside.
    pub fn retry(&self, id: u64) -> bool {
        self.aside_of(id).is_some_and(|held| self.retry_held(held))
    }

    /// Lets all jobs that are set aside be taken again, as [`JobQueue::retry`] does. Returns how
    /// many there were.
    pub fn retry_all(&self) -> usize {
        self.aside().into_iter().filter(|&held| self.retry_held(held)).count()
    }

    /// Removes the job of that number for good, if it is set aside. Returns whether it was.
    pub fn discard(&self, id: u64) -> bool {
        self.aside_of(id).is_some_and(|held| self.change(held, |table, held| table.discard(held)))
    }

    fn retry_held(&self, held: Held) -> bool {
        self.change(held, |table, held| table.retry(held))
    }

    /// Changes the word of a job that is set aside. If the word names a dead worker, this process
    /// is the one that deals with its death, and counts it; if this process dies just before, the
    /// death is dealt with and not counted.
    fn change(&self, held: Held, how: impl FnOnce(Table<'_>, Held) -> bool) -> bool {
        let was = how(self.inner.table(), held);
        if was && held.word.is_taken() {
            self.inner.registry.count_owner_death();
        }
        was
    }

    /// Counts the jobs that are set aside and damaged.
    pub(super) fn damaged(&self) -> u32 {
        let is_damaged =
            |held: &Held| self.inner.is_damaged(held.index) && self.inner.table().is_still(*held);
        self.aside().iter().filter(|held| is_damaged(held)).count() as u32
    }

    fn aside(&self) -> Vec<Held> {
        self.inner.table().aside(|owner| self.inner.registry.is_alive(owner))
    }

    fn aside_of(&self, id: u64) -> Option<Held> {
        self.aside().into_iter().find(|held| held.id == id)
    }

    /// Sets how this handle and its clones wait.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.inner.spin_wait.set(wait);
    }
}
