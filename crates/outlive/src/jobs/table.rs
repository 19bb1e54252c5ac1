//! The slots of a job queue: one word each, which names the producer or the worker.
//!
//! | word | meaning | which process changes it, and how | a death here |
//! | --- | --- | --- | --- |
//! | FREE | no job | a producer: compare-exchange → WRITING(its thread) | |
//! | WRITING(thread) | a job is being written | that thread → WAITING | a producer that needs a slot claims it from that very word; the put had not returned |
//! | WAITING | a job to be taken | a worker → TAKEN(its process), attempts + 1 | |
//! | TAKEN(process) | a worker has it | that process → FREE (done), WAITING (released) or ASIDE | a worker takes it from that very word, attempts + 1, or sets it aside at the limit |
//! | ASIDE | set aside | any: → WAITING (retry), FREE (discard) | |
//!
//! All changes are compare-exchanges from the exact word that was read, so of several processes one
//! makes each. WRITING names a thread, because a dead thread writes no more; TAKEN names a process,
//! because a job may go from thread to thread. The order is that of tickets, which producers draw
//! after they have claimed a slot: see [`Table::take`]. doc/protocols/jobs.md has the argument;
//! proof/models/jobs.pml and the loom tests below check it.

use super::word::{State, Word};
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::wake::{EventCount, Look};

/// How many sleepers one job or one free slot wakes: if the first dies, there is another.
const WOKEN: u32 = 2;

/// The shared words, as a process sees them.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(super) words: &'a [AtomicU64],
    /// The ticket of the job in each slot.
    pub(super) ids: &'a [AtomicU64],
    /// The next ticket.
    pub(super) tickets: &'a AtomicU64,
    /// How many slots exist: it only grows.
    pub(super) slots: &'a AtomicU32,
    /// 0: no limit.
    pub(super) max_attempts: u32,
    /// Workers wait here for a job,
    pub(super) jobs: &'a EventCount,
    /// producers for a slot,
    pub(super) room: &'a EventCount,
    /// and those that join, for the last job to be done.
    pub(super) finished: &'a EventCount,
}

/// A slot that the caller has, with the word that it wrote there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(super) index: usize,
    pub(super) word: Word,
    /// The job's ticket; of a slot that is being written, none yet.
    pub(super) id: u64,
}

/// How many slots are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct States {
    pub(super) writing: u32,
    pub(super) waiting: u32,
    pub(super) taken: u32,
    pub(super) aside: u32,
}

impl<'a> Table<'a> {
    pub(super) fn len(self) -> usize {
        // Acquire pairs with the Release that raises it: the pages exist.
        (self.slots.load(Ordering::Acquire) as usize).min(self.words.len())
    }

    /// Returns the words of all slots that exist.
    fn all(self) -> impl Iterator<Item = (usize, Word)> + use<'a> {
        // Acquire pairs with the Release of whichever process wrote the word: a reader that sees a
        // job sees its ticket and bytes, and one that sees a slot free sees what its worker did
        // before.
        self.words[..self.len()].iter().map(|word| Word(word.load(Ordering::Acquire))).enumerate()
    }

    /// Changes a slot's word, if it is still that one.
    fn exchange(self, index: usize, from: Word, to: Word) -> bool {
        // AcqRel: the next process to change the word sees what this one did before, and this one
        // sees what was done before the word that it read.
        self.words[index]
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    pub(super) fn is_at_limit(self, word: Word) -> bool {
        self.max_attempts != 0 && word.attempts() >= self.max_attempts
    }

    /// Finds a slot that is free or a dead thread's, and claims it; looks at the `start`th first.
    pub(super) fn claim(self, me: Me, start: usize) -> Look<Held> {
        let mut owners = Vec::new();
        let slots = self.len();
        let start = start.min(slots);
        for index in (start..slots).chain(0..start) {
            loop {
                let word = Word(self.words[index].load(Ordering::Acquire));
                match word.state() {
                    State::Waiting | State::Aside => break,
                    State::Taken(owner) => {
                        note_living(me, owner, &mut owners);
                        break;
                    }
                    State::Writing(Some(owner)) if me.is_alive(owner) => {
                        note_living(me, Some(owner), &mut owners);
                        break;
                    }
                    State::Free | State::Writing(_) => {}
                }
                // Died just after: the slot names a dead thread, and the next producer claims it.
                let claimed = word.claimed(me.id);
                if self.exchange(index, word, claimed) {
                    // Before the ticket and the bytes: it pairs with the fence in `is_still`, so
                    // a reader that sees some of these sees that the slot is claimed.
                    crate::shim::fence(Ordering::Release);
                    return Look::Got(Held { index, word: claimed, id: 0 });
                }
            }
        }
        Look::Nothing(owners)
    }

    /// Draws the ticket of the job that has been written, and makes it one to be taken. Returns the
    /// ticket; `None` if this thread was taken for dead, and the slot is another's.
    pub(super) fn publish(self, held: Held) -> Option<u64> {
        // AcqRel: a worker that has read a later number sees all jobs that were put before this
        // one. Died just after: a ticket without a job.
        let id = self.tickets.fetch_add(1, Ordering::AcqRel);
        self.ids[held.index].store(id, Ordering::Relaxed);
        // Died just before: the job has not been put. Just after: it has, and outlives this
        // process; sleeping workers learn of it by the next notification, or at their recheck.
        if !self.exchange(held.index, held.word, held.word.waiting()) {
            return None;
        }
        self.jobs.notify_some(WOKEN);
        Some(id)
    }

    /// Gives back a slot in which no job was written.
    pub(super) fn abandon(self, held: Held) {
        if self.exchange(held.index, held.word, held.word.free()) {
            self.room.notify_some(WOKEN);
            // Those that join wait for the end of a put as well.
            self.finished.notify_all();
        }
    }

    /// Takes the job that was put first, of those that wait and those of dead workers.
    ///
    /// Only tickets below `limit`, which was read before all slots, are compared: a job whose put
    /// had returned before one of these was drawn lay in its slot before the look began, so the
    /// look has seen it. A later ticket might be seen, and a job before it missed.
    pub(super) fn take(self, me: Me, process: TokenId) -> Look<Held> {
        loop {
            let limit = self.tickets.load(Ordering::Acquire);
            let mut owners = Vec::new();
            let mut first: Option<Held> = None;
            let mut later: Option<Held> = None;
            for (index, word) in self.all() {
                match word.state() {
                    State::Free | State::Aside | State::Writing(_) => continue,
                    State::Taken(Some(owner)) if owner == process => continue,
                    State::Taken(owner) if note_living(me, owner, &mut owners) => continue,
                    State::Waiting | State::Taken(_) => {}
                }
                // Relaxed: written before the word that was just read.
                let id = self.ids[index].load(Ordering::Relaxed);
                let best = if id < limit { &mut first } else { &mut later };
                if best.is_none_or(|best| id < best.id) {
                    *best = Some(Held { index, word, id });
                }
            }
            if first.is_none() && later.is_some() {
                if self.tickets.load(Ordering::Acquire) != limit {
                    continue;
                }
                // No ticket is that high: a stray write hit it.
                first = later;
            }
            let Some(Held { index, word, id }) = first else { return Look::Nothing(owners) };
            let from_dead = matches!(word.state(), State::Taken(_));
            if from_dead && self.is_at_limit(word) {
                self.put_aside(me, index, word);
                continue;
            }
            // Died just before: nothing has happened. Just after: the word names a dead process,
            // and the next worker to look takes the job.
            let taken = word.taken(process);
            if self.exchange(index, word, taken) {
                // This worker's death would be the job's end: those that join must watch it. Died
                // or stopped before the notification: they learn of it at their recheck.
                if self.is_at_limit(taken) {
                    self.finished.notify_all();
                }
                if from_dead {
                    me.registry.count_owner_death();
                }
                return Look::Got(Held { index, word: taken, id });
            }
        }
    }

    /// Sets aside a dead worker's job that has been taken as often as allowed.
    fn put_aside(self, me: Me, index: usize, word: Word) {
        if self.exchange(index, word, word.aside()) {
            me.registry.count_owner_death();
            self.finished.notify_all();
        }
    }

    /// Ends a job. Returns false if the caller's process was taken for dead, and has it no more.
    pub(super) fn done(self, held: Held) -> bool {
        // Died just before: another worker does the job again. Just after: it is done; producers
        // that sleep for a slot watch this process, or look within a second.
        let was = self.exchange(held.index, held.word, held.word.free());
        if was {
            self.room.notify_some(WOKEN);
            self.finished.notify_all();
        }
        was
    }

    /// Gives a job back: to be taken again, or set aside at the limit of attempts.
    pub(super) fn release(self, held: Held) -> bool {
        if self.is_at_limit(held.word) {
            return self.set_aside(held);
        }
        // Died or stopped just after: the job waits, and sleeping workers watch this process's end,
        // or look within a second.
        let was = self.exchange(held.index, held.word, held.word.waiting());
        if was {
            self.jobs.notify_some(WOKEN);
        }
        was
    }

    /// Sets a job aside.
    pub(super) fn set_aside(self, held: Held) -> bool {
        let was = self.exchange(held.index, held.word, held.word.aside());
        if was {
            self.finished.notify_all();
        }
        was
    }

    /// Returns the jobs that are set aside, in the order in which they were put. A dead worker's
    /// job at its limit is one of them: no worker gets it, and `retry` and `discard` may begin at
    /// its word as well, because any process may change a dead owner's word.
    pub(super) fn aside(self, is_alive: impl Fn(TokenId) -> bool) -> Vec<Held> {
        let id = |index: usize| self.ids[index].load(Ordering::Relaxed);
        let mut found: Vec<Held> = self
            .all()
            .filter(|(_, word)| match word.state() {
                State::Aside => true,
                State::Taken(owner) => self.is_at_limit(*word) && !owner.is_some_and(&is_alive),
                State::Free | State::Writing(_) | State::Waiting => false,
            })
            .map(|(index, word)| Held { index, word, id: id(index) })
            .collect();
        found.sort_unstable_by_key(|held| held.id);
        found
    }

    /// Returns whether the slot still has that word, so that all that was read since is that job's.
    pub(super) fn is_still(self, held: Held) -> bool {
        // Before the look, for the reads before it.
        crate::shim::fence(Ordering::Acquire);
        self.words[held.index].load(Ordering::Relaxed) == held.word.0
    }

    /// Lets a job that was set aside be taken again, as if it had never been taken.
    pub(super) fn retry(self, held: Held) -> bool {
        let was = self.exchange(held.index, held.word, held.word.anew());
        if was {
            self.jobs.notify_some(WOKEN);
        }
        was
    }

    /// Removes a job that was set aside.
    pub(super) fn discard(self, held: Held) -> bool {
        let was = self.exchange(held.index, held.word, held.word.free());
        if was {
            self.room.notify_some(WOKEN);
        }
        was
    }

    /// Returns whether there is a job that no process has; for a spin, which asks no owner.
    pub(super) fn has_waiting(self) -> bool {
        self.words[..self.len()]
            .iter()
            .any(|word| Word(word.load(Ordering::Relaxed)).state() == State::Waiting)
    }

    /// Returns whether there is a free slot; for a spin, which asks no owner.
    pub(super) fn has_free(self) -> bool {
        self.words[..self.len()]
            .iter()
            .any(|word| Word(word.load(Ordering::Relaxed)).state() == State::Free)
    }

    /// Returns whether all jobs are done or set aside.
    ///
    /// A worker that puts one more before it is done claims a slot and draws a ticket before its
    /// own slot is free. So a look that finds that slot free saw the new one claimed, or finds
    /// another number of tickets at its end. A retry draws no ticket, so the words of jobs that were
    /// set aside are read again at the end: if a worker's `done`, which the look has seen, came
    /// after a retry, one of these words is another by then.
    pub(super) fn all_done(self, me: Me) -> Look<()> {
        loop {
            let before = self.tickets.load(Ordering::Acquire);
            let mut owners = Vec::new();
            let mut unfinished = false;
            let mut aside = Vec::new();
            for (index, word) in self.all() {
                match word.state() {
                    State::Free => {}
                    State::Aside => aside.push((index, word)),
                    State::Writing(owner) => {
                        unfinished |= note_living(me, owner, &mut owners);
                    }
                    State::Waiting => unfinished = true,
                    State::Taken(owner) => {
                        let lives = note_living(me, owner, &mut owners);
                        // At its limit a dead worker's job is as good as set aside.
                        match lives || !self.is_at_limit(word) {
                            true => unfinished = true,
                            false => aside.push((index, word)),
                        }
                    }
                }
            }
            if unfinished {
                return Look::Nothing(owners);
            }
            // Relaxed: Acquire loads have read the words of the look, so what came before a `done`
            // that it saw is seen here.
            let is_same = |&(index, word): &(usize, Word)| {
                self.words[index].load(Ordering::Relaxed) == word.0
            };
            if self.tickets.load(Ordering::Acquire) == before && aside.iter().all(is_same) {
                return Look::Got(());
            }
        }
    }

    /// Counts the slots by what the next process to look will find.
    pub(super) fn states(self, is_alive: impl Fn(TokenId) -> bool) -> States {
        let mut states = States::default();
        for (_, word) in self.all() {
            match word.state() {
                State::Writing(Some(owner)) if is_alive(owner) => states.writing += 1,
                State::Free | State::Writing(_) => {}
                State::Taken(Some(owner)) if is_alive(owner) => states.taken += 1,
                State::Taken(_) if self.is_at_limit(word) => states.aside += 1,
                State::Waiting | State::Taken(_) => states.waiting += 1,
                State::Aside => states.aside += 1,
            }
        }
        states
    }

    /// Returns the living workers that have jobs; `None` if there is a job to be taken, a dead worker's
    /// included, unless it is at its limit: that one comes to no worker.
    pub(super) fn workers_unless_waiting(
        self,
        is_alive: impl Fn(TokenId) -> bool,
    ) -> Option<Vec<TokenId>> {
        let mut workers = Vec::new();
        for (_, word) in self.all() {
            match word.state() {
                State::Free | State::Writing(_) | State::Aside => {}
                State::Taken(Some(owner)) if is_alive(owner) => {
                    if !workers.contains(&owner) {
                        workers.push(owner);
                    }
                }
                State::Taken(_) if self.is_at_limit(word) => {}
                State::Waiting | State::Taken(_) => return None,
            }
        }
        Some(workers)
    }

    /// Returns the jobs that processes have, dead ones included, in the order in which they were
    /// put.
    pub(super) fn taken(self) -> Vec<(TokenId, Held)> {
        let mut found = Vec::new();
        for (index, word) in self.all() {
            if let State::Taken(Some(owner)) = word.state() {
                let id = self.ids[index].load(Ordering::Relaxed);
                found.push((owner, Held { index, word, id }));
            }
        }
        found.sort_unstable_by_key(|(_, held)| held.id);
        found
    }

    /// Does a sweep's part: takes the names of the dead out of the words, and returns how many
    /// there were.
    pub(super) fn sweep(self, me: Me, dry_run: bool) -> u32 {
        let mut found = 0;
        for (index, word) in self.all() {
            let (owner, swept) = match word.state() {
                State::Writing(owner) => (owner, word.free()),
                State::Taken(owner) if self.is_at_limit(word) => (owner, word.aside()),
                State::Taken(owner) => (owner, word.waiting()),
                State::Free | State::Waiting | State::Aside => continue,
            };
            if owner.is_some_and(|owner| me.is_alive(owner)) {
                continue;
            }
            found += 1;
            if !dry_run && self.exchange(index, word, swept) {
                self.jobs.notify_all();
                self.room.notify_all();
                self.finished.notify_all();
            }
        }
        found
    }
}

/// Notes an owner once, if it lives; returns whether it does. Sleepers do not watch the dead: such
/// a sleep ends at once, and the dead owner's word need not change soon.
fn note_living(me: Me, owner: Option<TokenId>, owners: &mut Vec<TokenId>) -> bool {
    let living = owner.filter(|&owner| me.is_alive(owner));
    owners.extend(living.filter(|owner| !owners.contains(owner)));
    living.is_some()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_put_that_is_given_up_wakes_those_that_join() {
        let word = Word(0).claimed(TokenId::new(1, 0));
        let (words, ids) = ([AtomicU64::new(word.0)], [AtomicU64::new(0)]);
        let (tickets, slots) = (AtomicU64::new(0), AtomicU32::new(1));
        let [jobs, room, finished] = &<[EventCount; 3]>::default();
        let (words, ids, tickets, slots) = (&words, &ids, &tickets, &slots);
        let table = Table { words, ids, tickets, slots, max_attempts: 0, jobs, room, finished };
        let ticket = finished.prepare_wait();
        table.abandon(Held { index: 0, word, id: 0 });
        assert!(finished.is_notified(ticket));
        finished.cancel_wait(ticket);
    }
}
