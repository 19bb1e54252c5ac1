//! From writing to reading and from reading to writing, nobody writing in between.

use super::super::raw_mutex::{Acquired, Refused};
use super::RawRwLock;
use crate::Deadline;
use crate::liveness::Me;
use crate::shim::AtomicU32;
use crate::wake::SpinWait;

impl RawRwLock {
    /// From writing to reading: no writer comes in between. The caller holds the lock alone, and it is consistent.
    pub(crate) fn downgrade(&self, me: Me) -> &AtomicU32 {
        self.end();
        self.read_under_writer(me)
    }

    /// From reading, which `word` says, to writing, once no other reader is inside. Refused, the caller reads on.
    pub(crate) fn upgrade(
        &self,
        word: &AtomicU32,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<(), Refused> {
        let by_word = !self.is_writers(word);
        if by_word && self.judge(self.writer.try_lock(me)?) == Acquired::OwnerDied {
            // While we read, no writer was inside: somebody wrote over the words.
            self.writer.release(me.id);
            return Err(Refused::Damaged);
        }
        self.drain(me, spin_wait, wait, Some(word))?;
        self.begin();
        if by_word {
            // Died just before: as a writer, and the next is told; just after: the same.
            self.vacate(word, me.id);
        }
        Ok(())
    }
}
