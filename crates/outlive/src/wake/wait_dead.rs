//! Waiting for the end of threads and processes.

use super::error::WaitError;
use super::readiness::{Readiness, Source, SourceState, Waited, Watched};
use super::sleep::{Asleep, MOST_OWNERS, Sleep};
use crate::liveness::{Peer, Registry, TokenId};
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::{Deadline, Error};

impl Peer {
    /// Sleeps until the owner has ended or the deadline passes; returns at once if the owner is
    /// dead.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`], or the error that kept the caller from waiting.
    ///
    /// # If a process dies
    /// Its death wakes every thread that waits for it. The death of another waiter delays none.
    pub fn wait_dead(&self, deadline: impl Into<Deadline>) -> Result<(), WaitError> {
        let deadline = deadline.into();
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
    /// Sleeps until one of those tokens' owners has ended: see `Domain::wait_any_dead`.
    pub(crate) fn wait_any_dead(
        &'static self,
        ids: &[TokenId],
        deadline: Deadline,
    ) -> Result<TokenId, WaitError> {
        let dead = || ids.iter().copied().find(|&id| !self.is_alive(id));
        if let Some(id) = dead() {
            return Ok(id);
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
            if let Some(id) = dead() {
                return Ok(id);
            }
            match slept {
                Ok(Asleep::LookAgain) => turn += MOST_OWNERS,
                Ok(Asleep::TimedOut) => return Err(WaitError::TimedOut),
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
