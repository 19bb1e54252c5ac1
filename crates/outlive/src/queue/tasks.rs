//! Messages that were received and are not done yet: how many each process has, and the wait until
//! no message is left (`join`).
//!
//! A process has one word in the queue's table, {count, process}, which only its own threads change
//! while it lives.
//!
//! | word | meaning | which process changes it, and how |
//! | --- | --- | --- |
//! | 0 | free | a process that comes: → {0, its token} |
//! | {n, P alive} | P has received n messages that are not done | P: n + 1, before the slot is given back; n − 1 |
//! | {n, P dead} | they went with P: a waiter passes over them | a process that comes: → {0, its token}; a sweep: → 0 |
//!
//! The waiter reads the receiver's role first, then looks for unread messages, then at the table.
//! - A receiver counts a message before it gives the slot back, so each waiter finds the message in
//!   the slots or in the table.
//! - A process may send a message while it does another, and then be done. So the waiter looks for
//!   unread messages once more, and begins again if any were received meanwhile (`unread.rs`).
//! - If the role names a dead receiver, the look sees each slot that it gave back. If it names a
//!   living one, the waiter sleeps on its end, too. A receiver that comes notifies `room`.
//!
//! proof/models/queue_tasks.pml has all of that.
//!
//! | P dies, or is stopped | what a waiter sees |
//! | --- | --- |
//! | after n + 1, before EMPTY | the message is unread; a dead P's count is passed over |
//! | between EMPTY and its notification | the receiver's end wakes the waiter; beside a stopped one, its recheck, once a second |
//! | between n − 1 and its notification | the waiter watches P's end; beside a stopped P, its recheck |

use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::handles::Receiver;
use super::queue::Queue;
use super::task_table::{ONE, count, enter, process};
use super::unread::MOST_MOVES;
use crate::claim::RoleState;
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU64, Ordering};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, WaitError};
use crate::{Deadline, Error, Payload, RecvError};

/// Receives messages that are to be done, and says when each is: [`Queue::join`] waits for that.
///
/// All `Tasks` of one queue in a process share one count, which goes when the process ends, and not
/// before. A message that is received without `Tasks` is done when it is received, and one that is
/// peeked at, when it is committed. So a receiver that commits each message after its work needs no
/// `Tasks`; they are for processes that take turns at receiving.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-tasks-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::queue::Queue;
///
/// let queue = Queue::<[u8]>::open_or_create(&domain, "orders")?;
/// queue.sender()?.send(b"pack")?;
/// let tasks = queue.tasks()?;
/// let order = tasks.recv(&mut queue.receiver()?)?;
/// assert_eq!(order, b"pack");
/// assert!(queue.try_join().is_err());         // received, and not done
/// assert!(tasks.done());
/// queue.join()?;
/// assert!(!tasks.done());                     // there was no other
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// The messages that it had received and not done are gone with it: `join` does not wait for them.
/// Jobs that another worker must do then are for a [`JobQueue`](crate::jobs::JobQueue).
pub struct Tasks {
    inner: Arc<Inner>,
    index: usize,
    process: TokenId,
}

impl<M: Payload + ?Sized> Queue<M> {
    /// Makes this process one that counts the messages that it receives, until it says that each is
    /// done.
    ///
    /// # Errors
    /// [`Error::NoToken`] or [`Error::NoSpace`] when the process cannot get a token;
    /// [`Error::TooMany`] when 512 living processes count already.
    pub fn tasks(&self) -> Result<Tasks, Error> {
        let inner = Arc::clone(&self.inner);
        let process = inner.registry.process_token()?;
        let index = enter(&inner, process)?;
        Ok(Tasks { inner, index, process })
    }

    /// Waits until no message is left: all that were sent have been received, also those that are
    /// sent meanwhile, and those that a [`Tasks`] received are done.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// Messages that it had received, by a [`Tasks`], and not done are gone with it, and this does
    /// not wait for them. Messages that a dead receiver left in the queue are waited for: until
    /// another process receives them, or for ever if there is no other. If a process is stopped
    /// just after the last message was done, this returns within a second.
    pub fn join(&self) -> Result<(), WaitError> {
        self.join_until(Deadline::NEVER)
    }

    /// Returns at once, with success if no message is left.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] when one is, [`WaitError::System`].
    pub fn try_join(&self) -> Result<(), WaitError> {
        self.join_until(Deadline::at_nanos(0))
    }

    /// Waits as [`Queue::join`] does, for so long at most.
    ///
    /// # Errors
    /// As [`Queue::join`], and [`WaitError::TimedOut`].
    pub fn join_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.join_until(Deadline::after(timeout))
    }

    /// Waits as [`Queue::join`] does, until the deadline.
    ///
    /// # Errors
    /// As [`Queue::join`], and [`WaitError::TimedOut`].
    pub fn join_until(&self, deadline: Deadline) -> Result<(), WaitError> {
        let me = self.inner.registry.me().map_err(WaitError::System)?;
        match self.wait_for_end(me, deadline).map_err(WaitError::System)? {
            true => Ok(()),
            false => Err(WaitError::TimedOut),
        }
    }

    fn wait_for_end(&self, me: Me, deadline: Deadline) -> Result<bool, Error> {
        let inner = &*self.inner;
        if let Left::Nothing = self.left()? {
            return Ok(true);
        }
        if deadline.has_passed() {
            return Ok(false);
        }
        let room = &inner.ring.head().room;
        let relay = WakeRelay::begin(me.list());
        let mut out_of_time = false;
        loop {
            let ticket = room.prepare_wait();
            let owner = match self.left() {
                Ok(Left::Something(owner)) if !out_of_time => owner,
                found => {
                    room.cancel_wait(ticket);
                    return found.map(|left| matches!(left, Left::Nothing));
                }
            };
            let watch = [room.watch(ticket)];
            let end = Sleep::on(inner.registry, &watch)
                .behind(&relay, owner.as_slice())
                .until(ticket.until(deadline));
            room.cancel_wait(ticket);
            match end {
                Ok(Asleep::LookAgain) => {}
                Ok(Asleep::TimedOut) => out_of_time = deadline.has_passed(),
                Err(errno) => {
                    return Err(Error::from_errno("wait in", inner.registry.path(), errno));
                }
            }
        }
    }

    /// Looks for what `join` waits for, in the order that the file's head gives.
    fn left(&self) -> Result<Left, Error> {
        // Of a dead process, the last thread: it may still give a slot back.
        let receiver = match self.inner.role().standing().state {
            RoleState::Living(receiver) => Some(receiver),
            RoleState::Nobody | RoleState::Dead => None,
        };
        for _ in 0..MOST_MOVES {
            let before = self.next_unread()?;
            if self.has_unread()? {
                break;
            }
            // Acquire pairs with `done`: what its thread did before, also what it sent, is seen by
            // the waiter.
            let words = self.inner.ring.tasks().iter().map(|entry| entry.load(Ordering::Acquire));
            let mut unfinished = words.filter(|&word| count(word) > 0).filter_map(process);
            if let Some(owner) = unfinished.find(|&id| self.inner.registry.is_alive(id)) {
                return Ok(Left::Something(Some(owner)));
            }
            // None was received since, so no count was raised either: with no message unread now,
            // none was left when the table had been read.
            if !self.has_unread()? && self.next_unread()? == before {
                return Ok(Left::Nothing);
            }
        }
        Ok(Left::Something(receiver))
    }
}

/// What `join` found.
enum Left {
    /// A message is unread or is not done; with a process whose end may change that.
    Something(Option<TokenId>),
    Nothing,
}

impl Tasks {
    /// Receives the next message, as [`Receiver::recv`] does; it is to be done.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`]; [`RecvError::NotOwner`] also in a forked child, which has
    /// `Tasks` of its own, and with a receiver that was not made from the same [`Queue`] or a clone
    /// of it.
    pub fn recv<M>(&self, receiver: &mut Receiver<M>) -> Result<M::Owned, RecvError>
    where
        M: Payload + ?Sized,
    {
        loop {
            if let Some(message) = self.recv_until(receiver, Deadline::NEVER)? {
                return Ok(message);
            }
        }
    }

    /// Receives the next message, or returns `None` if there is none.
    ///
    /// # Errors
    /// The errors of [`Tasks::recv`].
    pub fn try_recv<M>(&self, receiver: &mut Receiver<M>) -> Result<Option<M::Owned>, RecvError>
    where
        M: Payload + ?Sized,
    {
        self.take(receiver, None)
    }

    /// Receives the next message; `None` if none comes within that time.
    ///
    /// # Errors
    /// The errors of [`Tasks::recv`].
    pub fn recv_timeout<M>(
        &self,
        receiver: &mut Receiver<M>,
        timeout: Duration,
    ) -> Result<Option<M::Owned>, RecvError>
    where
        M: Payload + ?Sized,
    {
        self.take(receiver, Some(Deadline::after(timeout)))
    }

    /// Receives the next message; `None` if none comes until the deadline.
    ///
    /// # Errors
    /// The errors of [`Tasks::recv`].
    pub fn recv_until<M>(
        &self,
        receiver: &mut Receiver<M>,
        deadline: Deadline,
    ) -> Result<Option<M::Owned>, RecvError>
    where
        M: Payload + ?Sized,
    {
        self.take(receiver, Some(deadline))
    }

    fn take<M>(
        &self,
        receiver: &mut Receiver<M>,
        deadline: Option<Deadline>,
    ) -> Result<Option<M::Owned>, RecvError>
    where
        M: Payload + ?Sized,
    {
        if !self.is_own() || !core::ptr::eq(&raw const *self.inner, &raw const *receiver.raw.inner)
        {
            return Err(RecvError::NotOwner);
        }
        let mut message = M::blank();
        let entry = &self.inner.ring.tasks()[self.index];
        // Relaxed: the slot's EMPTY, which follows, is a Release. If this process dies just after,
        // the message is unread, and the count went with the process.
        let raise = || {
            entry.fetch_add(ONE, Ordering::Relaxed);
        };
        Ok(receiver.raw.take_counted::<M>(&mut message, deadline, raise)?.map(|()| message))
    }

    /// Says that one of the messages that this process received by a `Tasks` is done. Returns `false`
    /// if all of them are done already.
    ///
    /// # If a process dies
    /// The message is done, or has gone with the process: the waiters learn of either.
    #[must_use = "false says that there was no such message"]
    pub fn done(&self) -> bool {
        if !self.is_own() {
            return false;
        }
        let table = self.inner.ring.tasks();
        let own = table[self.index..].iter().chain(&table[..self.index]);
        let was_one = own.into_iter().any(|entry| self.take_one(entry));
        if was_one {
            // If this process died just before, its end wakes the waiter, which watches it.
            self.inner.ring.head().room.notify_all();
        }
        was_one
    }

    fn take_one(&self, entry: &AtomicU64) -> bool {
        // Release pairs with `left`: what this thread did for the message comes before.
        let one_less =
            |word| (process(word) == Some(self.process) && count(word) > 0).then(|| word - ONE);
        entry.fetch_update(Ordering::Release, Ordering::Relaxed, one_less).is_ok()
    }

    /// Returns whether this is not a forked child's copy.
    fn is_own(&self) -> bool {
        self.inner.registry.process_token_if_any() == Some(self.process)
    }
}
