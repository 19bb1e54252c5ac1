//! Waiting for the end of threads and processes.

use std::time::Duration;

use super::error::WaitError;
use super::readiness::{Readiness, Source, SourceState, Waited, Watched};
use super::sleep::{Asleep, MOST_OWNERS, Sleep};
use crate::liveness::{Peer, Registry, TokenId};
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::{Deadline, Error};

impl Peer {
    /// Sleeps until the owner has ended; returns at once if the owner is dead.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-wait-dead-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use std::time::Duration;
    ///
    /// let me = domain.peer(domain.token()?);
    /// let other = std::thread::spawn({
    ///     let domain = domain.clone();
    ///     move || domain.token()
    /// });
    /// let other = domain.peer(other.join().unwrap()?);
    /// other.wait_dead()?;
    /// assert_eq!(me.wait_dead_timeout(Duration::from_millis(5)), Err(outlive::WaitError::TimedOut));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WaitError::System`] when the caller could not wait.
    ///
    /// # If a process dies
    /// Its death wakes every thread that waits for it. The death of another waiter delays none.
    pub fn wait_dead(&self) -> Result<(), WaitError> {
        self.wait_dead_until(Deadline::NEVER)
    }

    /// Returns at once, with success if the owner is dead.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] while the owner lives.
    pub fn try_wait_dead(&self) -> Result<(), WaitError> {
        if self.is_alive() { Err(WaitError::TimedOut) } else { Ok(()) }
    }

    /// Sleeps until the owner has ended, for so long at most.
    ///
    /// # Errors
    /// As [`Peer::wait_dead`], and [`WaitError::TimedOut`] when the owner still lives.
    ///
    /// # If a process dies
    /// As with [`Peer::wait_dead`].
    pub fn wait_dead_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.wait_dead_until(Deadline::after(timeout))
    }

    /// Sleeps until the owner has ended, or until the deadline.
    ///
    /// # Errors
    /// As [`Peer::wait_dead`], and [`WaitError::TimedOut`] when the owner still lives.
    ///
    /// # If a process dies
    /// As with [`Peer::wait_dead`].
    pub fn wait_dead_until(&self, deadline: Deadline) -> Result<(), WaitError> {
        if !self.is_alive() {
            return Ok(());
        }
        let me = self.registry().me().map_err(WaitError::System)?;
        let relay = WakeRelay::begin(me.list());
        // Asks the slot, as the sleep does: if the two differed, which takes a stray write, this
        // loop would never end.
        while self.is_alive_slow() {
            match Sleep::on(self.registry(), &[]).behind(&relay, &[self.id()]).until(deadline) {
                Ok(Asleep::LookAgain) => {}
                Ok(Asleep::TimedOut) if !self.is_alive_slow() => break,
                Ok(Asleep::TimedOut) => return Err(WaitError::TimedOut),
                Err(errno) => return Err(WaitError::from_errno(self.registry(), errno)),
            }
        }
        Ok(())
    }
}

impl Registry {
    /// Returns the first of those tokens whose owner has ended.
    pub(crate) fn any_dead(&self, ids: &[TokenId]) -> Option<TokenId> {
        ids.iter().copied().find(|&id| !self.is_alive(id))
    }

    /// Sleeps until one of those tokens' owners has ended: see `Domain::wait_any_dead_until`.
    pub(crate) fn wait_any_dead(
        &'static self,
        ids: &[TokenId],
        deadline: Deadline,
    ) -> Result<Option<TokenId>, WaitError> {
        if let Some(id) = self.any_dead(ids) {
            return Ok(Some(id));
        }
        let me = self.me().map_err(WaitError::System)?;
        let relay = WakeRelay::begin(me.list());
        // Without tokens, only the deadline can end the wait.
        let nothing = [Watch { word: self.relay(), expected: 0 }];
        let words: &[Watch<'_>] = if ids.is_empty() { &nothing } else { &[] };
        let mut turn = 0;
        loop {
            let slept =
                Sleep::on(self, words).behind(&relay, ids).beginning_at(turn).until(deadline);
            if let Some(id) = self.any_dead(ids) {
                return Ok(Some(id));
            }
            match slept {
                Ok(Asleep::LookAgain) => turn += MOST_OWNERS,
                Ok(Asleep::TimedOut) => return Ok(None),
                Err(errno) => return Err(WaitError::from_errno(self, errno)),
            }
        }
    }
}

/// Ready when the owner has ended.
impl Source for Peer {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(*self, self.registry()))
    }
}

impl Waited for Peer {
    fn look(&self) -> SourceState {
        // Asks the slot, as the sleep does: if the two differed, which takes a stray write, this
        // loop would never end.
        match self.registry().is_alive(self.id()) {
            true => SourceState::BehindOwner(self.id()),
            false => SourceState::Ready(Readiness::Ended),
        }
    }
}
