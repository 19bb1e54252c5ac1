//! The slow paths of the reader-writer lock: it is held, its owner died, all readers' words are
//! taken, or a thread goes from reading to writing.

use super::rw_lock::{Entered, RawRwLock, SHARED, SHARED_BIT};
use super::{Acquired, Refused};
use crate::Deadline;
use crate::claim::{DIED, Word};
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering, fence};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, SpinWait};

/// After waiting for so many writers in turn, a reader queues for `writer` itself, on equal terms
/// with them.
const MOST_ROUNDS: u32 = 8;

/// The state of `writer` as a reader finds it.
enum InTheWay {
    Nobody,
    Dead,
    Living,
}

/// Enters to read: behind a writer, after a dead one, or without a free word.
impl RawRwLock {
    /// Enters as a reader, and waits until the deadline; with `None` it never waits.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_slow(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<Entered<'_>, Refused> {
        // Given back when this function returns, in whatever way.
        let mut relay = None;
        let mut last_try = false;
        let mut has_spun = false;
        let mut rounds = 0;
        loop {
            if rounds == MOST_ROUNDS {
                match self.read_as_holder(me, spin_wait, wait, SHARED)? {
                    Some(entered) => return Ok(entered),
                    None => rounds = 0,
                }
            }
            rounds += 1;
            // Looked at first: a reader that must wait anyway needs no word.
            if self.lets_readers_in() {
                let Some(word) = self.announce(me) else {
                    // Also if readers may enter: there is no other way.
                    match self.read_as_holder(me, spin_wait, wait, 0)? {
                        Some(entered) => return Ok(entered),
                        None => continue,
                    }
                };
                if self.lets_readers_in() {
                    return Ok(Entered::Reading(word));
                }
                // Before we sleep: a present or coming writer waits for the word. Died just before:
                // it is a dead reader's word.
                self.vacate(word, me.id);
            }
            match self.in_the_way(me)? {
                // A writer was there and has gone.
                InTheWay::Nobody if self.writer.is_consistent() => continue,
                InTheWay::Nobody | InTheWay::Dead => {
                    match self.read_as_holder(me, spin_wait, wait, SHARED)? {
                        Some(entered) => return Ok(entered),
                        None => continue,
                    }
                }
                InTheWay::Living => {}
            }
            let Some(deadline) = wait else {
                return Err(Refused::WouldBlock);
            };
            if last_try {
                return Err(Refused::TimedOut);
            }
            if self.has_reader(me.id) {
                // The writer waits for us.
                return Err(Refused::Deadlock);
            }
            let is_free = || {
                let seen = self.writer.word().load(Ordering::Relaxed);
                seen == 0 || seen & SHARED != 0 && self.writer.is_consistent()
            };
            if !has_spun {
                has_spun = true;
                if spin_wait.spin_until(deadline, is_free) {
                    continue;
                }
            }
            // The mark beside a consistent state ends the wait, too: then its owner lets readers in.
            let slept = self.writer.sleep_behind_owner(me, &mut relay, deadline, SHARED);
            last_try = slept? == Asleep::TimedOut;
        }
    }

    /// Returns whether no thread writes, or waits to.
    fn lets_readers_in(&self) -> bool {
        self.writer.is_open() || self.is_shared()
    }

    /// Returns whether a writer keeps readers out.
    fn in_the_way(&self, me: Me) -> Result<InTheWay, Refused> {
        match self.writer.word().load(Ordering::Acquire) {
            0 => Ok(InTheWay::Nobody),
            DIED => Ok(InTheWay::Dead),
            seen => match Word::<SHARED>::owner_in(seen).ok_or(Refused::Damaged)? {
                owner if owner == me.id => Err(Refused::Deadlock),
                owner if me.registry.is_alive(owner) => Ok(InTheWay::Living),
                _ => Ok(InTheWay::Dead),
            },
        }
    }

    /// Takes `writer` first and enters as a reader under it: no thread writes as long as we hold
    /// it. For a lock whose writer died (we are told, as any writer would be), for one without a
    /// free word, and for a reader that never finds it open. Returns `None` if its owner has set one
    /// of the marks `heeded` beside a consistent state: then readers enter without it.
    fn read_as_holder(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        heeded: u32,
    ) -> Result<Option<Entered<'_>>, Refused> {
        Ok(match self.hold_writer(me, spin_wait, wait, heeded)? {
            None => None,
            Some(Acquired::OwnerDied) => Some(Entered::Repairing),
            Some(Acquired::Clean) => Some(Entered::Reading(self.read_under_writer(me))),
        })
    }

    /// Takes `writer` for a thread that comes to read; returns `None` if a living owner has set one
    /// of the marks `heeded` beside a consistent state. If the last writer died inside, waits for
    /// the readers as well: the caller is the writer, to repair.
    fn hold_writer(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        heeded: u32,
    ) -> Result<Option<Acquired>, Refused> {
        let got = match wait {
            Some(deadline) if !self.has_reader(me.id) => {
                match self.writer.lock_heeding(me, spin_wait, deadline, heeded)? {
                    Some(got) => got,
                    None => return Ok(None),
                }
            }
            _ => self.writer.try_lock(me).map_err(|refused| match refused {
                // We read already: the living holder waits for us to leave, or will.
                Refused::WouldBlock if wait.is_some() => Refused::Deadlock,
                other => other,
            })?,
        };
        let got = self.judge(got);
        if got == Acquired::OwnerDied {
            self.drain(me, spin_wait, wait)?;
            self.begin();
        }
        Ok(Some(got))
    }

    /// Takes the lock as the upgradable reader, and waits until the deadline; with `None` it never
    /// waits. `entered`: the caller has `writer` already, with the mark. If told of a death, the
    /// caller is the writer.
    #[cold]
    #[inline(never)]
    pub(crate) fn upgradable_slow(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        entered: bool,
    ) -> Result<Acquired, Refused> {
        if entered {
            // What it guards may be half-written: to be looked at without readers. None came in
            // meanwhile, because they look at the state, too. Stopped before: readers wait as
            // behind a writer, for as long as they are to; died: the next takes the word over.
            if !self.writer.claim().clear_mark(me.id, SHARED_BIT) {
                return Err(Refused::Damaged);
            }
            let got = self.writer.entered(me)?;
            let got = self.judge(got);
            if got == Acquired::OwnerDied {
                self.drain(me, spin_wait, wait)?;
                self.begin();
                return Ok(got);
            }
        } else if self.hold_writer(me, spin_wait, wait, 0)? == Some(Acquired::OwnerDied) {
            return Ok(Acquired::OwnerDied);
        }
        self.share(me);
        Ok(Acquired::Clean)
    }

    /// Lets readers in beside the caller, which owns `writer` and goes on as the upgradable reader.
    pub(crate) fn share(&self, me: Me) {
        self.writer.claim().set_mark(me.id, SHARED_BIT);
    }

    /// Goes from holding `writer` to reading; without a free word we keep `writer`, and others wait
    /// for us.
    fn read_under_writer(&self, me: Me) -> &AtomicU32 {
        match self.announce(me) {
            Some(word) => {
                // Died just before: as a writer that was not inside. Release, after the word was
                // claimed: the next writer finds it.
                self.writer.release(me.id);
                word
            }
            None => self.writer.word(),
        }
    }
}

/// Enters to write: behind other writers, and behind readers, each of which the writer waits for.
impl RawRwLock {
    /// Takes the lock alone, and waits until the deadline; with `None` it never waits. `acquired`:
    /// the caller has taken it from other writers already.
    #[cold]
    #[inline(never)]
    pub(crate) fn write_slow(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        acquired: bool,
    ) -> Result<Acquired, Refused> {
        let got = if acquired {
            self.writer.entered(me)?
        } else {
            self.acquire_slow(me, spin_wait, wait)?
        };
        let got = self.judge(got);
        self.drain(me, spin_wait, wait)?;
        self.begin();
        Ok(got)
    }

    fn acquire_slow(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<Acquired, Refused> {
        match wait {
            // Its holder may wait for us, the reader.
            Some(_) if self.has_reader(me.id) => Err(Refused::Deadlock),
            Some(deadline) => self.writer.lock(me, spin_wait, deadline),
            None => {
                // Looked at first, so that a try which must fail keeps no reader out.
                self.look_at_readers(me)?;
                self.writer.try_lock(me)
            }
        }
    }

    /// Refuses if a living thread reads by a word.
    fn look_at_readers(&self, me: Me) -> Result<(), Refused> {
        for word in self.words() {
            match TokenId::from_word(word.load(Ordering::Relaxed)) {
                Some(reader) if reader == me.id => return Err(Refused::Deadlock),
                Some(reader) if me.is_alive(reader) => return Err(Refused::WouldBlock),
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits until no reader is inside, while the caller holds `writer`; unlocks if that fails.
    fn drain(&self, me: Me, spin_wait: &SpinWait, wait: Option<Deadline>) -> Result<(), Refused> {
        let drained = self.drain_words(me, spin_wait, wait, None);
        if drained.is_err() {
            // An owner's death that we were to be told of is left for the next locker.
            self.writer.release(me.id);
        }
        drained
    }

    /// Waits until no reader but `own` is inside, while the caller holds `writer`.
    #[cold]
    fn drain_words(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        own: Option<&AtomicU32>,
    ) -> Result<(), Refused> {
        // Between our claim of `writer` and the look at the words: pairs with the order of the two
        // in `enter`.
        fence(Ordering::SeqCst);
        // Given back when this function returns, in whatever way.
        let mut relay = None;
        for word in self.words() {
            if own.is_none_or(|own| !core::ptr::eq(own, word)) {
                self.wait_empty(word, me, spin_wait, wait, &mut relay)?;
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
        relay: &mut Option<WakeRelay>,
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
                // Relaxed: what the dead reader read, it read before its end, which we have seen.
                // Failed: another reader has the word now. Died just after: one dead name less.
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
                if spin_wait.spin_until(deadline, || word.load(Ordering::Relaxed) != seen) {
                    continue;
                }
            }
            // Prepared anew for each sleep, with a look at the word in between: a reader that left
            // earlier notified no writer. Died just after: one notification in vain.
            let Some(ticket) = prepared.take() else {
                prepared = Some(self.leaving.prepare_wait());
                continue;
            };
            let relay = relay.get_or_insert_with(|| WakeRelay::begin(me.list()));
            let watch = [self.leaving.watch(ticket)];
            let end = Sleep::on(me.registry, &watch)
                .behind(relay, &[reader])
                .until(ticket.until(deadline))
                .map_err(Refused::System)?;
            last_try = end == Asleep::TimedOut && deadline.has_passed();
        }
    }

    /// Takes the lock alone in whatever state it is; the caller then makes it consistent and
    /// unlocks it.
    pub(crate) fn take_to_reset(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<(), Refused> {
        if self.has_reader(me.id) {
            return Err(Refused::Deadlock);
        }
        self.writer.take_to_reset(me, spin_wait, wait)?;
        self.drain(me, spin_wait, wait)?;
        self.begin();
        Ok(())
    }
}

/// From writing to reading and from reading to writing; no thread writes in between.
impl RawRwLock {
    /// Goes from writing to reading; no writer comes in between. The caller alone holds the lock,
    /// and it is consistent.
    pub(crate) fn downgrade(&self, me: Me) -> &AtomicU32 {
        self.end();
        self.read_under_writer(me)
    }

    /// Goes from writing to upgradable reading; no writer comes in between. The caller alone holds
    /// the lock, and it is consistent.
    pub(crate) fn downgrade_to_upgradable(&self, me: Me) {
        // Died in between: as a writer that has given back.
        self.end();
        self.share(me);
    }

    /// Goes from upgradable reading to reading.
    pub(crate) fn downgrade_upgradable(&self, me: Me) -> &AtomicU32 {
        match self.announce(me) {
            Some(word) => {
                // Died just before: a dead reader's word, and a dead upgradable reader.
                self.leave_upgradable(me.id);
                word
            }
            None => {
                // We read by `writer`, as any reader without a free word.
                self.writer.claim().clear_mark(me.id, SHARED_BIT);
                self.writer.word()
            }
        }
    }

    /// Keeps new readers out, for an upgradable reader that is about to become the writer. `waits`:
    /// it waits for the readers that are inside. If refused, the caller is the upgradable reader as
    /// before; afterwards it goes on by [`RawRwLock::finish_upgrade_upgradable`] or
    /// [`RawRwLock::share`].
    pub(crate) fn begin_upgrade_upgradable(&self, me: Me, waits: bool) -> Result<(), Refused> {
        if !waits {
            // Looked at first, so that a try which must fail keeps no reader out.
            self.look_at_readers(me)?;
        } else if self.has_reader(me.id) {
            // And no other reader is waited for either: this thread would never come to its turn.
            return Err(Refused::Deadlock);
        }
        // From here on new readers wait. Died or stopped from here on, until `begin`: as a writer
        // that waits for readers, of whose death no locker is told.
        if self.writer.claim().clear_mark(me.id, SHARED_BIT) {
            Ok(())
        } else {
            // Another thread owns the lock: a process declared this one dead, or wrote over it.
            Err(Refused::Damaged)
        }
    }

    /// Goes from upgradable reading to writing, once no other reader is inside. No thread writes in
    /// between, because the caller owns `writer` all the time. If refused, new readers stay out.
    pub(crate) fn finish_upgrade_upgradable(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<(), Refused> {
        self.drain_words(me, spin_wait, wait, None)?;
        self.begin();
        Ok(())
    }

    /// Keeps new readers out, for a reader that is about to become the writer, as `word` says.
    /// `waits`: it waits for the readers that are inside. If refused, the caller reads as before;
    /// afterwards it goes on by [`RawRwLock::finish_upgrade`] or [`RawRwLock::end_upgrade`].
    pub(crate) fn begin_upgrade(
        &self,
        word: &AtomicU32,
        me: Me,
        waits: bool,
    ) -> Result<(), Refused> {
        // Relaxed: only this thread writes its own id.
        let reads = |by: &AtomicU32| TokenId::from_word(by.load(Ordering::Relaxed)) == Some(me.id);
        // Looked at before it waits for another reader, which may wait for this thread.
        if waits && self.words().any(|by| !core::ptr::eq(by, word) && reads(by)) {
            return Err(Refused::Deadlock);
        }
        // From here on new readers wait. Died or stopped from here on, until `begin`: as a reader,
        // and a writer that waits for readers, of whose death no locker is told.
        if !self.is_writers(word) && self.judge(self.writer.try_lock(me)?) == Acquired::OwnerDied {
            // While we read, no writer was inside: a stray write changed the words.
            self.writer.release(me.id);
            return Err(Refused::Damaged);
        }
        Ok(())
    }

    /// Goes from reading, as `word` says, to writing, once no other reader is inside. If refused,
    /// the caller still reads, and new readers stay out.
    pub(crate) fn finish_upgrade(
        &self,
        word: &AtomicU32,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<(), Refused> {
        self.drain_words(me, spin_wait, wait, Some(word))?;
        self.begin();
        if !self.is_writers(word) {
            // Died just before: as a writer, and the next locker is told; just after: the same.
            self.vacate(word, me.id);
        }
        Ok(())
    }

    /// Lets new readers in again, for a reader that has not become the writer.
    pub(crate) fn end_upgrade(&self, word: &AtomicU32, me: Me) {
        if !self.is_writers(word) {
            self.writer.release(me.id);
        }
    }
}
