//! Coming to write where the fast path did not do: behind other writers, and behind readers, who are waited for one by
//! one.

use super::super::raw_mutex::{Acquired, Refused};
use super::RawRwLock;
use crate::Deadline;
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering, fence};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, SpinWait};

impl RawRwLock {
    /// Takes the lock alone, waiting until the deadline; `None` never waits. `acquired`: it has been taken from other
    /// writers already.
    #[cold]
    #[inline(never)]
    pub(crate) fn write_slow(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        acquired: bool,
    ) -> Result<Acquired, Refused> {
        let got = if acquired { self.writer.entered(me)? } else { self.acquire_slow(me, spin_wait, wait)? };
        let got = self.judge(got);
        self.drain(me, spin_wait, wait, None)?;
        self.begin();
        Ok(got)
    }

    fn acquire_slow(&self, me: Me, spin_wait: &SpinWait, wait: Option<Deadline>) -> Result<Acquired, Refused> {
        match wait {
            // Who holds it may wait for us, the reader.
            Some(_) if self.has_reader(me.id) => Err(Refused::Deadlock),
            Some(deadline) => self.writer.lock(me, spin_wait, deadline),
            None => {
                // Looked at first, so that a try which must fail keeps no reader out meanwhile.
                for word in self.words() {
                    match TokenId::from_word(word.load(Ordering::Relaxed)) {
                        Some(reader) if reader == me.id => return Err(Refused::Deadlock),
                        Some(reader) if me.is_alive(reader) => return Err(Refused::WouldBlock),
                        _ => {}
                    }
                }
                self.writer.try_lock(me)
            }
        }
    }

    /// Waits until no reader but `own` is inside, the caller holding `writer`; gives it back when that cannot be had.
    pub(super) fn drain(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        own: Option<&AtomicU32>,
    ) -> Result<(), Refused> {
        let drained = self.drain_words(me, spin_wait, wait, own);
        let kept = own.is_some_and(|own| self.is_writers(own));
        if drained.is_err() && !kept {
            // An owner's death that we were to be told of is left for the next.
            self.writer.release(me.id);
        }
        drained
    }

    #[cold]
    fn drain_words(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        own: Option<&AtomicU32>,
    ) -> Result<(), Refused> {
        // Between our claim of `writer` and the look at the words: pairs with the order of the two in `enter`.
        fence(Ordering::SeqCst);
        // Given back when this function returns, by whatever way.
        let mut pass = None;
        for word in self.words() {
            if own.is_none_or(|own| !core::ptr::eq(own, word)) {
                self.wait_empty(word, me, spin_wait, wait, &mut pass)?;
            }
        }
        Ok(())
    }

    /// Waits until the reader of that word has left or died.
    fn wait_empty(
        &self,
        word: &AtomicU32,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        pass: &mut Option<WakeRelay>,
    ) -> Result<(), Refused> {
        let mut last_try = false;
        let mut has_spun = false;
        let mut prepared = None;
        loop {
            // SeqCst: see `enter`. Acquire, in it, pairs with the Release in `vacate`.
            let seen = word.load(Ordering::SeqCst);
            if seen == 0 {
                return Ok(());
            }
            let reader = TokenId::from_word(seen).ok_or(Refused::Damaged)?;
            if reader == me.id {
                return Err(Refused::Deadlock);
            }
            if !me.registry.is_alive(reader) {
                // Relaxed: what the dead one read, it read before its end, which we have seen. Failed: another reader
                // has it now. Died just after: one dead name less.
                let _ = word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed);
                continue;
            }
            let Some(deadline) = wait else {
                return Err(Refused::WouldBlock);
            };
            if last_try {
                return Err(Refused::TimedOut);
            }
            if !has_spun {
                has_spun = true;
                if spin_wait.spin(|| word.load(Ordering::Relaxed) != seen) {
                    continue;
                }
            }
            // Anew for each sleep, and the word looked at between the two: a reader that left before notified
            // nobody. Died just after: a notification in vain.
            let Some(ticket) = prepared.take() else {
                prepared = Some(self.leaving.prepare_wait());
                continue;
            };
            let pass = pass.get_or_insert_with(|| WakeRelay::begin(me.list()));
            let watch = [self.leaving.watch(ticket)];
            let end = Sleep::on(me.registry, &watch).behind(pass, &[reader]).until(ticket.until(deadline));
            let end = end.map_err(Refused::System)?;
            last_try = end == Asleep::TimedOut && deadline.has_passed();
        }
    }

    /// Takes the lock alone in whatever state it is; the caller then makes it consistent and unlocks it.
    pub(crate) fn take_to_reset(&self, me: Me, spin_wait: &SpinWait, deadline: Deadline) -> Result<(), Refused> {
        if self.has_reader(me.id) {
            return Err(Refused::Deadlock);
        }
        self.writer.take_to_reset(me, spin_wait, deadline)?;
        self.drain(me, spin_wait, Some(deadline), None)?;
        self.begin();
        Ok(())
    }
}
