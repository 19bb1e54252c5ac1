//! A job that this process has, and one that is set aside.

use core::borrow::Borrow;
use core::ops::Deref;
use std::fmt;
use std::sync::Arc;

use super::inner::Inner;
use super::table::{Held, Table};
use crate::liveness::TokenId;
use crate::sys::probe::{self, probe};
use crate::{Error, Payload, RecvError};

/// A job that this process has taken, with a copy of its data.
///
/// [`Job::done`] acknowledges it: the job is gone. A job that is dropped is given back, as by
/// [`Job::release`]: so a worker that returns early or panics loses nothing. A job may go to
/// another thread of the process.
///
/// # If a process dies
/// If this process dies before `done` has returned, another worker gets the job, unless it was done
/// already.
pub struct Job<M: Payload + ?Sized = [u8]> {
    inner: Arc<Inner>,
    process: TokenId,
    held: Held,
    /// Whether the queue still has it in our name.
    is_held: bool,
    data: M::Owned,
}

impl<M: Payload + ?Sized> Job<M> {
    /// Reads the job that this process has just taken. If its bytes are damaged, it is set aside.
    pub(super) fn new(
        inner: Arc<Inner>,
        process: TokenId,
        held: Held,
    ) -> Result<Job<M>, RecvError> {
        match inner.read::<M>(held.index) {
            Ok(data) => Ok(Job { inner, process, held, is_held: true, data }),
            Err(error) => {
                let table = inner.table();
                let is_damaged = matches!(error, Error::Damaged { .. });
                // What this process alone cannot map, another may.
                let _ = if is_damaged { table.set_aside(held) } else { table.release(held) };
                Err(error.into())
            }
        }
    }

    /// Returns the job's number, which no other job of this queue has.
    pub fn id(&self) -> u64 {
        self.held.id
    }

    /// Returns how often the job has been taken, this time included. More than 1 means that an
    /// earlier worker died or gave it back, and may have done a part of it.
    pub fn attempts(&self) -> u32 {
        self.held.word.attempts()
    }

    /// Acknowledges the job: it is done, and gone.
    ///
    /// # Errors
    /// [`RecvError::NotOwner`] when this process was taken for dead, or is a forked child with its
    /// parent's job: then the job may be another worker's.
    ///
    /// # If a process dies
    /// If this process dies during the call, the job is done, or another worker gets it.
    pub fn done(self) -> Result<(), RecvError> {
        self.leave(probe::DONE, |table, held| table.done(held))
    }

    /// Gives the job back: it is taken again, before all that were put after it. After
    /// [`max_attempts`](super::JobQueueOptions::max_attempts) it is set aside instead.
    ///
    /// # Errors
    /// As [`Job::done`].
    pub fn release(self) -> Result<(), RecvError> {
        self.leave(probe::GIVEN_BACK, |table, held| table.release(held))
    }

    /// Sets the job aside, however often it has been taken: see
    /// [`JobQueue::set_aside`](super::JobQueue::set_aside).
    ///
    /// # Errors
    /// As [`Job::done`].
    pub fn set_aside(self) -> Result<(), RecvError> {
        self.leave(probe::SET_ASIDE, |table, held| table.set_aside(held))
    }

    fn leave(
        mut self,
        outcome: u64,
        how: impl FnOnce(Table<'_>, Held) -> bool,
    ) -> Result<(), RecvError> {
        if self.leave_by(outcome, how) { Ok(()) } else { Err(RecvError::NotOwner) }
    }

    fn leave_by(&mut self, outcome: u64, how: impl FnOnce(Table<'_>, Held) -> bool) -> bool {
        // A forked child's copy is not in the queue.
        let has_left = core::mem::replace(&mut self.is_held, false)
            && self.inner.registry.process_token_if_any() == Some(self.process)
            && how(self.inner.table(), self.held);
        if has_left {
            probe!(job_left, self.inner.segment.path(), self.held.id, outcome);
        }
        has_left
    }
}

impl<M: Payload + ?Sized> Drop for Job<M> {
    fn drop(&mut self) {
        self.leave_by(probe::GIVEN_BACK, |table, held| table.release(held));
    }
}

impl<M: Payload + ?Sized> Deref for Job<M> {
    type Target = M;

    fn deref(&self) -> &M {
        self.data.borrow()
    }
}

impl<M: Payload + ?Sized + fmt::Debug> fmt::Debug for Job<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id())
            .field("attempts", &self.attempts())
            .field("data", &&**self)
            .finish()
    }
}

/// A copy of a job that is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAside<M: Payload + ?Sized = [u8]> {
    /// The job's number, for [`JobQueue::retry`](super::JobQueue::retry).
    pub id: u64,
    /// How often it was taken.
    pub attempts: u32,
    /// Its data.
    pub data: M::Owned,
    /// Whether a stray write has damaged its length: `data` is then what lies in its place, of
    /// another length. Such a job can be discarded; each worker that takes it gets
    /// [`RecvError::Damaged`].
    pub is_damaged: bool,
}
