//! Coming to read where the fast path did not do: behind a writer, after a dead one, without a word of one's own.

use super::super::raw_mutex::{Acquired, DIED, Refused};
use super::{Entered, RawRwLock};
use crate::Deadline;
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering};
use crate::wake::{Asleep, SpinWait};

/// So often a reader waits for one writer after another to go; then it queues for `writer` itself, where it is as good
/// as they are.
const MOST_ROUNDS: u32 = 8;

/// A writer as a reader finds it.
enum InTheWay {
    Nobody,
    Dead,
    Living,
}

impl RawRwLock {
    /// Enters as a reader, waiting until the deadline; `None` never waits.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_slow(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<Entered<'_>, Refused> {
        // Given back when this function returns, by whatever way.
        let mut pass = None;
        let mut last_try = false;
        for round in 0..MOST_ROUNDS {
            // Looked at first: who must wait anyway needs no word.
            if self.writer.is_open() {
                let Some(word) = self.announce(me) else {
                    return self.read_as_holder(me, spin_wait, wait);
                };
                if self.writer.is_open() {
                    return Ok(Entered::Reading(word));
                }
                // Before we sleep: whoever writes, or wants to, waits for the word. Died just before: it is a dead one's.
                self.vacate(word, me.id);
            }
            match self.in_the_way(me)? {
                // It was there and has gone.
                InTheWay::Nobody if self.writer.is_consistent() => continue,
                InTheWay::Nobody | InTheWay::Dead => return self.read_as_holder(me, spin_wait, wait),
                InTheWay::Living => {}
            }
            let Some(deadline) = wait else {
                return Err(Refused::WouldBlock);
            };
            if last_try {
                return Err(Refused::TimedOut);
            }
            if self.has_reader(me.id) {
                // It waits for us.
                return Err(Refused::Deadlock);
            }
            if round == 0 && spin_wait.spin(|| self.writer.word().load(Ordering::Relaxed) == 0) {
                continue;
            }
            last_try = self.writer.sleep_behind_owner(me, &mut pass, deadline)? == Asleep::TimedOut;
        }
        self.read_as_holder(me, spin_wait, wait)
    }

    /// Whether a writer keeps readers out.
    fn in_the_way(&self, me: Me) -> Result<InTheWay, Refused> {
        match self.writer.word().load(Ordering::Acquire) {
            0 => Ok(InTheWay::Nobody),
            DIED => Ok(InTheWay::Dead),
            seen => match TokenId::from_word(seen).ok_or(Refused::Damaged)? {
                owner if owner == me.id => Err(Refused::Deadlock),
                owner if me.registry.is_alive(owner) => Ok(InTheWay::Living),
                _ => Ok(InTheWay::Dead),
            },
        }
    }

    /// Takes `writer` first and enters as a reader under it: nobody writes as long as we hold it. For a lock that a
    /// writer died with (we are told, as any writer would be), for a lock without a free word, and for readers who never
    /// find it open.
    fn read_as_holder(&self, me: Me, spin_wait: &SpinWait, wait: Option<Deadline>) -> Result<Entered<'_>, Refused> {
        let got = match wait {
            Some(deadline) if !self.has_reader(me.id) => self.writer.lock(me, spin_wait, deadline)?,
            _ => self.writer.try_lock(me).map_err(|refused| match refused {
                // We read already: whoever lives and holds it waits for us to leave.
                Refused::WouldBlock if wait.is_some() => Refused::Deadlock,
                other => other,
            })?,
        };
        if self.judge(got) == Acquired::OwnerDied {
            self.drain(me, spin_wait, wait, None)?;
            self.begin();
            return Ok(Entered::Repairing);
        }
        Ok(Entered::Reading(self.read_under_writer(me)))
    }

    /// From holding `writer` to reading; without a free word we go on holding it, and others wait for us.
    pub(super) fn read_under_writer(&self, me: Me) -> &AtomicU32 {
        match self.announce(me) {
            Some(word) => {
                // Died just before: as a writer that was not inside. Release, after the word was claimed: the next
                // writer finds it.
                self.writer.release(me.id);
                word
            }
            None => self.writer.word(),
        }
    }
}
