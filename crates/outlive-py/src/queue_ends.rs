//! The two ends of a queue that Python's threads use: made when they are first needed, by the thread
//! that needs them, one thread at a time each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outlive::queue::{Queue, Receiver, Sender, Tasks};
use outlive::sync::{LockError, Mutex};
use outlive::{Deadline, RecvError, SendError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Raised;
use crate::handle_mutex::{HandleGuard, HandleMutex, process};
use crate::named::Named;
use crate::waiting::{Until, detached, wait};

/// An end, once it is needed, and the process that has it.
pub(crate) type End<T> = Option<(u32, T)>;

/// A queue of the core's, and the ends of it that this process has.
pub(crate) struct Ends {
    pub(crate) sender: HandleMutex<End<Sender>>,
    pub(crate) receiver: HandleMutex<End<Receiver>>,
    /// The mutex by which processes get objects, one at a time: made when first needed.
    getters: HandleMutex<Option<Mutex<u64>>>,
    /// What this process has got and has not done.
    pub(crate) tasks: HandleMutex<End<Arc<Tasks>>>,
    pub(crate) closed: AtomicBool,
    /// How often the receiver took a message, or became this process's: what was peeked at before
    /// is not the next message.
    pub(crate) taken: AtomicU64,
    pub(crate) end_when_senders_gone: bool,
    pub(crate) queue: Queue,
    pub(crate) named: Named,
}

impl Ends {
    pub(crate) fn new(queue: Queue, named: Named, end_when_senders_gone: bool) -> Ends {
        Ends {
            sender: HandleMutex::new(None),
            receiver: HandleMutex::new(None),
            getters: HandleMutex::new(None),
            tasks: HandleMutex::new(None),
            closed: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            end_when_senders_gone,
            queue,
            named,
        }
    }

    pub(crate) fn check(&self) -> PyResult<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(PyValueError::new_err(format!("Queue '{}' is closed", self.named.name)));
        }
        Ok(())
    }

    pub(crate) fn send_bytes(
        &self,
        py: Python<'_>,
        bytes: &[u8],
        until: Option<Until>,
    ) -> PyResult<Result<(), SendError>> {
        let Some(mut inside) = self.sender(py, until.unwrap_or_else(Until::now))? else {
            return Ok(Err(SendError::Full { slowest: None }));
        };
        let sender = self.sender_in(py, &mut inside)?;
        match (sender.try_send(bytes), until) {
            (Err(SendError::Full { .. }), Some(until)) => {
                let sent =
                    self.wait(py, until, |deadline| match sender.send_until(bytes, deadline) {
                        Err(SendError::TimedOut { .. }) => None,
                        other => Some(other),
                    })?;
                Ok(sent.unwrap_or(Err(SendError::TimedOut { slowest: None })))
            }
            (sent, _) => Ok(sent),
        }
    }

    /// Enters to send. `None`: another thread was inside until then.
    pub(crate) fn sender(
        &self,
        py: Python<'_>,
        until: Until,
    ) -> PyResult<Option<HandleGuard<'_, End<Sender>>>> {
        self.check()?;
        self.sender.lock_until(py, until)
    }

    pub(crate) fn sender_in<'e>(
        &self,
        py: Python<'_>,
        end: &'e mut End<Sender>,
    ) -> PyResult<&'e mut Sender> {
        // None yet, or a forked child's copy.
        if end.as_ref().is_none_or(|(of, _)| *of != process()) {
            *end = Some((process(), self.queue.sender().raised(py)?));
        }
        match end {
            Some((_, sender)) => Ok(sender),
            None => unreachable!("just put there"),
        }
    }

    /// Returns the receiver, which becomes this process's unless it is. `None`: another thread was
    /// inside until then.
    pub(crate) fn receiver(
        &self,
        py: Python<'_>,
        until: Until,
    ) -> PyResult<Option<HandleGuard<'_, End<Receiver>>>> {
        self.check()?;
        let Some(mut inside) = self.receiver.lock_until(py, until)? else { return Ok(None) };
        if inside.as_ref().is_none_or(|(of, _)| *of != process()) {
            // A forked child's copy is dropped first.
            *inside = None;
            // It may wait for the last thread of a dead receiver.
            let receiver = detached(py, || self.queue.receiver()).raised(py)?;
            receiver.end_when_senders_gone(self.end_when_senders_gone);
            *inside = Some((process(), receiver));
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Some(inside))
    }

    /// Makes this process the receiver, waiting for a living one; returns false when it still lives.
    pub(crate) fn wait_to_receive(&self, py: Python<'_>, until: Until) -> PyResult<bool> {
        self.check()?;
        let Some(mut inside) = self.receiver.lock_until(py, until)? else { return Ok(false) };
        if inside.as_ref().is_some_and(|(of, _)| *of == process()) {
            return Ok(true);
        }
        *inside = None;
        let taken = self
            .wait(py, until, |deadline| self.queue.wait_to_receive_until(deadline).transpose())?;
        let Some(receiver) = taken.transpose().raised(py)? else { return Ok(false) };
        receiver.end_when_senders_gone(self.end_when_senders_gone);
        *inside = Some((process(), receiver));
        self.taken.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    pub(crate) fn recv_bytes(
        &self,
        py: Python<'_>,
        until: Option<Until>,
    ) -> PyResult<Result<Option<Vec<u8>>, RecvError>> {
        let Some(mut inside) = self.receiver(py, until.unwrap_or_else(Until::now))? else {
            return Ok(Ok(None));
        };
        match &mut *inside {
            Some((_, receiver)) => self.receive(py, receiver, None, until),
            None => Ok(Err(RecvError::NotOwner)),
        }
    }

    /// Returns what this process has got and has not done.
    pub(crate) fn tasks(&self, py: Python<'_>) -> PyResult<Arc<Tasks>> {
        let mut tasks = self.tasks.lock(py)?;
        match &*tasks {
            Some((of, tasks)) if *of == process() => Ok(Arc::clone(tasks)),
            // None yet, or a forked child's copy.
            _ => {
                let own = Arc::new(self.queue.tasks().raised(py)?);
                *tasks = Some((process(), Arc::clone(&own)));
                Ok(own)
            }
        }
    }

    /// Returns the next object's bytes, which are to be done: by the receiver that this process is, or by one that it
    /// becomes for that time.
    pub(crate) fn get_bytes(
        &self,
        py: Python<'_>,
        until: Option<Until>,
    ) -> PyResult<Result<Option<Vec<u8>>, RecvError>> {
        self.check()?;
        let tasks = self.tasks(py)?;
        let patience = until.unwrap_or_else(Until::now);
        let Some(mut inside) = self.receiver.lock_until(py, patience)? else {
            return Ok(Ok(None));
        };
        if let Some((of, receiver)) = &mut *inside
            && *of == process()
        {
            return self.receive(py, receiver, Some(&tasks), until);
        }
        *inside = None;
        let mut getters = self.getters.lock(py)?;
        let getters = match &mut *getters {
            Some(getters) => getters,
            none => none.insert(
                Mutex::options(0)
                    .open_or_create(&self.named.domain, &format!("{}.getters", self.named.name))
                    .raised(py)?,
            ),
        };
        let mut turn = match (getters.try_lock(), until) {
            (Ok(None), None) => return Ok(Ok(None)),
            (Ok(None), Some(until)) => {
                let turn =
                    self.wait(py, until, |deadline| getters.lock_until(deadline).transpose())?;
                match turn {
                    Some(turn) => turn,
                    None => return Ok(Ok(None)),
                }
            }
            (Ok(Some(guard)), _) => Ok(guard),
            (Err(error), _) => Err(error),
        };
        if let Err(LockError::OwnerDied(guard)) = &mut turn {
            // It guards only whose turn it is.
            guard.mark_consistent();
        }
        let _turn = match turn {
            Ok(guard) | Err(LockError::OwnerDied(guard)) => guard,
            Err(other) => return Err(other).raised(py),
        };
        let mut receiver = detached(py, || self.queue.receiver()).raised(py)?;
        self.receive_by(py, &mut receiver, Some(&tasks), until)
    }

    /// Receives by the receiver that this process is; the caller is inside with it.
    pub(crate) fn receive(
        &self,
        py: Python<'_>,
        receiver: &mut Receiver,
        tasks: Option<&Tasks>,
        until: Option<Until>,
    ) -> PyResult<Result<Option<Vec<u8>>, RecvError>> {
        let received = self.receive_by(py, receiver, tasks, until)?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Ok(received)
    }

    /// A receiver died in the middle: this makes the queue accept messages again, since another
    /// process gets what is there.
    #[cold]
    pub(crate) fn get_over_a_death(&self) {
        // Taken over and given back; or another process has done so.
        drop(self.queue.receiver());
    }

    fn receive_by(
        &self,
        py: Python<'_>,
        receiver: &mut Receiver,
        tasks: Option<&Tasks>,
        until: Option<Until>,
    ) -> PyResult<Result<Option<Vec<u8>>, RecvError>> {
        let received = match tasks {
            Some(tasks) => tasks.try_recv(receiver),
            None => receiver.try_recv(),
        };
        match (received, until) {
            (Ok(None), Some(until)) => {
                let received = self.wait(py, until, |deadline| {
                    match tasks {
                        Some(tasks) => tasks.recv_until(receiver, deadline),
                        None => receiver.recv_until(deadline),
                    }
                    .transpose()
                })?;
                Ok(received.transpose())
            }
            (received, _) => Ok(received),
        }
    }

    /// Waits as [`wait`] does, and raises `ValueError` when another thread closes the queue
    /// meanwhile.
    pub(crate) fn wait<T>(
        &self,
        py: Python<'_>,
        until: Until,
        mut once: impl FnMut(Deadline) -> Option<T>,
    ) -> PyResult<Option<T>> {
        let found = wait(py, until, |deadline| match once(deadline) {
            None if self.closed.load(Ordering::Relaxed) => Some(None),
            found => found.map(Some),
        })?;
        if found.as_ref().is_some_and(Option::is_none) {
            self.check()?;
        }
        Ok(found.flatten())
    }
}
