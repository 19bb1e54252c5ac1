//! The end that is told: taking notices, and waiting for them.
//!
//! A listener sleeps on its slot's eventcount, and on the ends of all notifiers that live:
//!
//! | a notifier | the sleeper |
//! | --- | --- |
//! | adds a notice | is woken by its notification |
//! | dies between the bit and the notification | is woken by its end, and finds the bit |
//! | dies | is woken by its end, and finds a death that it has not been told |
//! | is stopped between the bit and the notification | finds the bit at its recheck, or when another notifies |
//! | comes | is woken by its notification, and watches it as well |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32 as StdAtomicU32, Ordering as StdOrdering};
use std::time::Duration;

use super::config::NotifierConfig;
use super::inner::Inner;
use super::layout::MOST_NOTIFIERS;
use super::listener_slot::ListenerSlot;
use super::notices::Notices;
use crate::liveness::TokenId;
use crate::sys::identity;
use crate::wake::{Look, wait_for};
use crate::{Deadline, Error, RecvError};

/// Is told by all [`Notifier`](super::Notifier)s of a name how often each of 64 things has happened
/// since it looked last. A name has up to 64 listeners at a time, each with counts of its own; each
/// may move between threads.
///
/// It counts from when it is opened. A listener is also a source for a
/// [`WaitSet`](crate::wait::WaitSet), and for `async`.
///
/// # If a process dies
/// A notifier's death loses no notice whose notification had returned. If the listener's process
/// dies, what it had not taken is lost with it; notifiers go on.
pub struct Listener {
    followed: Followed,
    /// The process's number.
    owner: u64,
}

/// What a listener follows, as it and its wait sets see it. It keeps the file mapped.
#[derive(Clone)]
pub(crate) struct Followed {
    pub(super) inner: Arc<Inner>,
    index: u32,
    process: TokenId,
    told: Arc<Told>,
}

/// What concerns this process alone. A wait set may read it from another thread.
struct Told {
    /// The listener has left.
    left: AtomicBool,
    /// By notifier's slot: the deaths that the listener has been told, or that were before it came.
    deaths: [StdAtomicU32; MOST_NOTIFIERS],
}

impl Followed {
    fn join(inner: Arc<Inner>) -> Result<Followed, Error> {
        let process = inner.registry.process_token()?;
        let index = inner.take_listener_slot(process)?;
        let told = Told {
            left: AtomicBool::new(false),
            deaths: std::array::from_fn(|_| StdAtomicU32::new(0)),
        };
        for (told, notifier) in told.deaths.iter().zip(&inner.head().notifiers) {
            told.store(notifier.look(inner.registry).deaths, StdOrdering::Relaxed);
        }
        inner.listener(index)?.join(process);
        Ok(Followed { inner, index, process, told: Arc::new(told) })
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Returns the slot as long as it is this process's.
    pub(super) fn slot(&self) -> Option<&ListenerSlot> {
        // Relaxed: the slot may belong to another listener of this process only after that was
        // stored, and a wait set that misreads one look sees the next time that it has left.
        if self.told.left.load(StdOrdering::Relaxed) {
            return None;
        }
        let slot = self.inner.listener(self.index).ok()?;
        (slot.listening() == Some(self.process)).then_some(slot)
    }

    /// Returns whether a death has not been told yet, if deaths are told.
    fn untold_death(&self) -> bool {
        Inner::made_with(&self.inner.head().on_died).is_some()
            && self
                .inner
                .seen()
                .zip(&self.told.deaths)
                .any(|(seen, told)| seen.deaths != told.load(StdOrdering::Relaxed))
    }

    /// Returns whether there is something to be taken. It may turn out to be nothing.
    pub(super) fn has_something(&self) -> bool {
        // A listener that has left is told of nothing more.
        self.slot().is_some_and(|slot| slot.is_pending() || self.untold_death())
    }

    /// Returns the living notifiers of other processes. To be asked before a look at what is there: that
    /// finds what one has left that dies in between.
    pub(super) fn owners(&self) -> Vec<TokenId> {
        let mut owners = Vec::new();
        if self.slot().is_none() {
            return owners;
        }
        for living in self.inner.seen().filter_map(|seen| seen.owner) {
            if living != self.process && !owners.contains(&living) {
                owners.push(living);
            }
        }
        owners
    }

    /// Takes all that is there.
    fn take(&self) -> Result<Option<Notices>, RecvError> {
        let slot = self.slot().ok_or(RecvError::NotOwner)?;
        let mut notices = Notices::default();
        // Deaths first: what the dead had notified comes with them or before.
        if let Some(id) = Inner::made_with(&self.inner.head().on_died) {
            for (seen, told) in self.inner.seen().zip(&self.told.deaths) {
                let before = told.swap(seen.deaths, StdOrdering::Relaxed);
                notices.add(id, u64::from(seen.deaths.wrapping_sub(before)));
            }
        }
        slot.take_notices(&mut notices);
        Ok((!notices.is_empty()).then_some(notices))
    }

    /// Waits until there is something. `None`: the deadline has passed.
    fn wait(&self, deadline: Deadline) -> Result<Option<Notices>, RecvError> {
        // A look that needs no thread's token, and not the notifiers.
        let there = self.take()?;
        if there.is_some() || deadline.has_passed() {
            return Ok(there);
        }
        let inner = &*self.inner;
        let notifications = &self.slot().ok_or(RecvError::NotOwner)?.notifications;
        let look = || {
            let owners = self.owners();
            Ok(self.take()?.map_or(Look::Nothing(owners), Look::Got))
        };
        let me = inner.registry.me()?;
        let spin_wait = Some(&inner.spin_wait);
        wait_for(me, spin_wait, notifications, deadline, || self.has_something(), look)
    }
}

impl Listener {
    pub(super) fn new(inner: Arc<Inner>) -> Result<Listener, Error> {
        let owner = identity::this_process()
            .map_err(|errno| Error::from_errno("listen to", inner.segment.path(), errno))?;
        Ok(Listener { followed: Followed::join(inner)?, owner })
    }

    /// Waits until there are notices, and takes all that are there.
    ///
    /// # Errors
    /// [`RecvError::NotOwner`] in a forked child, [`RecvError::System`].
    ///
    /// # If a process dies
    /// A notifier's death is a notice, if the notifier was made with
    /// [`on_died`](super::NotifierOptions::on_died). If this process dies during the call, the
    /// notices are lost with it.
    pub fn wait(&mut self) -> Result<Notices, RecvError> {
        Deadline::never(|deadline| self.wait_until(deadline))
    }

    /// Takes the notices that are there, and returns `None` if there are none. Never waits.
    ///
    /// # Errors
    /// The errors of [`Listener::wait`].
    ///
    /// # If a process dies
    /// The same as with [`Listener::wait`].
    pub fn try_wait(&mut self) -> Result<Option<Notices>, RecvError> {
        self.check_process()?;
        self.followed.take()
    }

    /// Waits until there are notices as long as `span`, and takes them; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// The errors of [`Listener::wait`].
    ///
    /// # If a process dies
    /// The same as with [`Listener::wait`].
    pub fn wait_timeout(&mut self, span: Duration) -> Result<Option<Notices>, RecvError> {
        self.wait_until(Deadline::after(span))
    }

    /// Waits until there are notices until the deadline, and takes them; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// The errors of [`Listener::wait`].
    ///
    /// # If a process dies
    /// The same as with [`Listener::wait`].
    pub fn wait_until(&mut self, deadline: Deadline) -> Result<Option<Notices>, RecvError> {
        self.check_process()?;
        self.followed.wait(deadline)
    }

    /// Returns what it was made with.
    #[must_use]
    pub fn config(&self) -> NotifierConfig {
        self.followed.inner.config()
    }

    /// Returns whether the name has been removed: processes that have it open go on, no other
    /// process finds it.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.followed.inner.segment.header().is_removed()
    }

    /// Returns the attributes that its maker gave it.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when a process wrote over them, and errors of the
    /// system.
    pub fn attributes(&self) -> Result<crate::Attributes, Error> {
        self.followed.inner.segment.attributes()
    }

    /// Sets how this listener waits.
    pub fn set_wait_strategy(&self, wait: crate::WaitStrategy) {
        self.followed.inner.spin_wait.set(wait);
    }

    pub(crate) fn readiness(&self) -> Followed {
        self.followed.clone()
    }

    /// Refuses a forked child's copy.
    fn check_process(&self) -> Result<(), RecvError> {
        let ours = self.followed.inner.registry.process_token_if_any();
        if ours == Some(self.followed.process) { Ok(()) } else { Err(RecvError::NotOwner) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // In a forked child the slot is its parent's.
        if identity::this_process() != Ok(self.owner) {
            return;
        }
        // Before the slot is free: see `Followed::slot`.
        self.followed.told.left.store(true, StdOrdering::Relaxed);
        if let Ok(slot) = self.followed.inner.listener(self.followed.index) {
            slot.leave(self.followed.process);
        }
    }
}
