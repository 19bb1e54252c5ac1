//! The end that notifies.

use std::sync::Arc;

use super::config::NotifierConfig;
use super::ids::IDS;
use super::inner::Inner;
use super::listener::Listener;
use crate::liveness::TokenId;
use crate::{Error, SendError};

/// Tells all listeners that something with a number has happened: each [`Listener`] is told how
/// often, for each number from 0 to 63. A name has up to 64 notifiers at a time. All threads of a
/// process may use one.
///
/// A notification does not wait for listeners, and is never too much for one that does not take its
/// notices: a count has 64 bits. It makes a system call only if a listener sleeps.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-notifier-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::notify::{Listener, Notifier};
/// let notifier = Notifier::open_or_create(&domain, "doors")?;
/// assert_eq!(notifier.notify(3)?, 0, "no process listens yet");
/// let (mut first, mut second) = (notifier.listener()?, Listener::open(&domain, "doors")?);
/// for _ in 0..1000 {
///     assert_eq!(notifier.notify(3)?, 2);
/// }
/// assert_eq!(first.wait()?.count(3), 1000);
/// assert_eq!(second.wait()?.count(3), 1000);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// Each notification that has returned is in the counts of all listeners. One that was under way
/// may be in those of some. Listeners are told of the death itself, if the notifier was made with
/// [`on_died`](super::NotifierOptions::on_died).
pub struct Notifier {
    inner: Arc<Inner>,
    index: u32,
    process: TokenId,
}

impl Notifier {
    pub(super) fn new(inner: Arc<Inner>) -> Result<Notifier, Error> {
        let process = inner.registry.process_token()?;
        let index = inner.take_notifier_slot(process)?;
        Ok(Notifier { inner, index, process })
    }

    /// Adds a notice of that number to the counts of each listener, and wakes those that sleep.
    /// Returns how many living listeners there were.
    ///
    /// # Errors
    /// [`SendError::NotOwner`] in a forked child, [`SendError::System`] with
    /// [`Error::InvalidOption`] for a number above 63.
    ///
    /// # If a process dies
    /// If this process dies during the call, some listeners may have the notice, and others not.
    #[inline]
    pub fn notify(&self, id: u32) -> Result<u32, SendError> {
        if id as usize >= IDS {
            return Err(SendError::System(Error::InvalidOption {
                what: "a notice's number",
                wanted: id.to_string().into(),
                why: "one from 0 to 63",
            }));
        }
        if !self.is_ours() {
            return Err(SendError::NotOwner);
        }
        Ok(self.inner.tell(Some(id)))
    }

    /// Returns a new listener of what this notifies.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::NoToken`], [`Error::NoSpace`].
    pub fn listener(&self) -> Result<Listener, Error> {
        Listener::new(Arc::clone(&self.inner))
    }

    /// Returns what it was made with.
    #[must_use]
    pub fn config(&self) -> NotifierConfig {
        self.inner.config()
    }

    /// Returns whether the name has been removed: processes that have it open go on, no other
    /// process finds it.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.inner.segment.header().is_removed()
    }

    /// Returns the attributes that its maker gave it.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when a process wrote over them, and errors of the
    /// system.
    pub fn attributes(&self) -> Result<crate::Attributes, Error> {
        self.inner.segment.attributes()
    }

    /// Returns whether this process made the handle: a forked child's copy is its parent's.
    fn is_ours(&self) -> bool {
        self.inner.registry.process_token_if_any() == Some(self.process)
    }
}

/// Leaves in order: listeners are told, if the notifier was made with
/// [`on_left`](super::NotifierOptions::on_left).
impl Drop for Notifier {
    fn drop(&mut self) {
        if self.is_ours() {
            self.inner.leave_notifier_slot(self.index, self.process);
        }
    }
}
