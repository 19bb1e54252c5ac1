//! One slot of the registry, 128 bytes; its first cache line answers whether its owner lives.
//!
//! States, by (generation parity, libc word):
//!
//! | gen | word | state | which thread changes it, and how |
//! | --- | --- | --- | --- |
//! | even | 0 or died | retired: no id is valid | a claimer, by trylock |
//! | even | held | being claimed; no id is valid yet | the claimer: records itself, gen + 1; dies: died |
//! | odd | held | in use: the id (slot, gen) is alive | the thread ends: died; or gives back: 0 |
//! | odd | 0 or died | dead: the id reads dead | any: gen + 1 by compare-exchange, *before* any trylock |
//!
//! Because retiring comes first, a claimer that is stopped between its trylock and its gen + 1
//! cannot revive the dead id: the word then reads alive, but the generation no longer matches. A
//! process slot has a second word, `keeper`, which is alive like the first.

use super::id::{GENERATION_MASK, TokenId, WAITERS};
use super::slot_words::KIND;
pub(crate) use super::slot_words::Slot;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::futex::{self, Watch};

/// The bits of a robust word that name its holder: the thread id and the kernel's OWNER_DIED mark.
pub(super) const HOLDER: u32 = !WAITERS;
/// The kernel sets it when the holder has ended, and clears the thread id bits with it.
const DIED: u32 = 0x4000_0000;

/// Values of `relay`: see wake/sleep.rs. The bits that name a thread in a robust word are 0 in all
/// of them, so the kernel wakes on the word.
pub(crate) const OWN_RELAY: u32 = 0;
const MOVING_RELAY: u32 = WAITERS;
pub(crate) const SHARED_RELAY: u32 = WAITERS | DIED;

/// In `kind`: where the low bits of a generation begin.
const LIFE_AT: u32 = 8;
/// How many generations `kind` can tell apart. A note that is 8,388,608 generations old would pass
/// for the present one: a slot that is claimed each millisecond needs more than two hours for that,
/// and each claimer clears the note.
const LIFE: u32 = u32::MAX >> LIFE_AT;

impl Slot {
    pub(crate) fn generation(&self) -> &AtomicU32 {
        &self.generation
    }

    /// Returns whether the generation is in use and is the one that the id names.
    #[inline]
    fn is_of(generation: u32, id: TokenId) -> bool {
        generation & 1 == 1 && generation >> 1 & GENERATION_MASK == id.generation()
    }

    /// Returns whether the recorded thread holds the first word, or a keeper holds the second.
    ///
    /// First, then second: main hands over by letting the keeper take the second word before it
    /// gives up the first, so a process that sees the first dead sees the second held.
    #[inline]
    fn is_held(&self, word: u32) -> bool {
        self.is_held_by_first(word) || is_alive_word(self.keeper.load(Ordering::Acquire))
    }

    /// Returns whether that value of the first word names the recorded thread. A keeper's process
    /// token records 0, and its first word is 0 as well, which names no thread.
    #[inline]
    fn is_held_by_first(&self, word: u32) -> bool {
        // Acquire pairs with the Release of the tid in `try_claim`: a reader that sees a later
        // claimer's tid here sees that the generation was retired, because it loads that after
        // this. With Relaxed, a weakly ordered machine may load the generation first (GENFIRST in
        // proof/models/token.pml): a dead id would read alive.
        let tid = self.tid.load(Ordering::Acquire);
        word & HOLDER == tid && tid != 0
    }

    /// Returns whether the token that this id names is alive: three loads of one cache line, in
    /// this order: the word, the recorded tid, the generation.
    ///
    /// Acquire: a process that finds the owner dead sees what the owner had written (pairs with the
    /// kernel's mark, which comes after all of the thread's own stores).
    #[inline]
    pub(crate) fn is_alive(&self, id: TokenId) -> bool {
        let held = self.is_held(self.word().load(Ordering::Acquire));
        // After the word and the tid, which both are Acquire loads: if the generation still
        // matches, the word belonged to this id. Acquire itself, for what the owner wrote before
        // its id was known (`try_claim`).
        held && Slot::is_of(self.generation.load(Ordering::Acquire), id)
    }

    /// Returns whether sleepers on this slot use the registry's relay word.
    #[cold]
    pub(crate) fn uses_shared_relay(&self) -> bool {
        match self.relay.load(Ordering::Acquire) {
            OWN_RELAY => false,
            SHARED_RELAY => true,
            MOVING_RELAY => {
                self.share_relay();
                true
            }
            // A stray write.
            _ => {
                self.relay.store(OWN_RELAY, Ordering::Relaxed);
                false
            }
        }
    }

    /// Makes sleepers on this slot use the registry's relay word from now on.
    #[cold]
    pub(crate) fn share_relay(&self) {
        if self.relay.load(Ordering::Acquire) == SHARED_RELAY {
            return;
        }
        // Died just after: the next thread to sleep on this slot goes on here first.
        self.relay.store(MOVING_RELAY, Ordering::Release);
        // Sleepers that are asleep already point here: they wake and come again.
        futex::wake_all(&self.relay);
        self.relay.store(SHARED_RELAY, Ordering::Release);
    }

    /// Wakes all sleepers that watch this owner's end.
    #[cold]
    pub(crate) fn wake_watchers(&self) {
        // The kernel wakes one sleeper on the mark; if this process dies here, the kernel wakes the
        // next by the relay word.
        futex::wake_all(self.word());
        futex::wake_all(&self.keeper);
    }

    /// Wakes the sleepers on the end of a dead holder, if the slot uses the shared relay and no
    /// thread has done so yet: a sleeper on several owners may have died before it could.
    ///
    /// The slot joined the shared relay, and its holder died, before the wake-up that the dead
    /// sleeper swallowed, which came before ours: so this thread sees both, in whatever order it
    /// loads them. `relay` alone comes first: the caller walks all slots, and needs no other word
    /// of most.
    #[inline]
    pub(super) fn wake_behind_shared_relay(&self) {
        if self.relay.load(Ordering::Acquire) == SHARED_RELAY {
            self.wake_of_last_generation();
        }
    }

    /// Does the same for a slot that uses the shared relay.
    ///
    /// Each generation of a slot costs two system calls here once, and not two at every wake in the
    /// domain for ever after: a note in the slot holds the generation for which it is done. That is
    /// sound because no sleeper joins the queues of a dead word: the kernel compares the word,
    /// under the lock of its queue, with the living value.
    #[cold]
    fn wake_of_last_generation(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        // Of a retired slot: the generation before. Of one that the same thread claims again: the
        // claimer wakes all, and the mark tells its death.
        let life = generation.wrapping_sub(1) | 1;
        // After the generation: a word that reads dead is that generation's, or a later one's, of
        // which the note below says nothing.
        if self.is_held(self.word().load(Ordering::Acquire)) || self.last_told() == life & LIFE {
            return;
        }
        self.wake_watchers();
        // Died just before: the next caller wakes them again, in vain.
        self.note_told(life);
    }

    /// Returns the generation whose sleepers have all been woken after its end.
    fn last_told(&self) -> u32 {
        // Acquire pairs with the Release in `note_told`: the wakes came before.
        self.kind.load(Ordering::Acquire) >> LIFE_AT
    }

    /// Notes that all sleepers on the end of that generation have been woken.
    ///
    /// A note that comes late, in a later generation of the slot, names the wrong one: then the
    /// wakes are made once more.
    fn note_told(&self, life: u32) {
        let seen = self.kind.load(Ordering::Relaxed);
        let told = seen & KIND | life << LIFE_AT;
        // Failed: another thread has noted it, or the slot is claimed anew.
        let _ = self.kind.compare_exchange(seen, told, Ordering::Release, Ordering::Relaxed);
    }

    /// Returns the words to sleep on for this owner's end, with their WAITERS bits set; `None` when
    /// it is dead already.
    pub(crate) fn watch(&self, id: TokenId) -> Option<Watched<'_>> {
        loop {
            let word = self.word().load(Ordering::Acquire);
            let keeper = self.keeper.load(Ordering::Acquire);
            let generation = self.generation.load(Ordering::Acquire);
            if !self.is_held(word) || !Slot::is_of(generation, id) {
                return None;
            }
            // Not by `word & HOLDER == tid` alone: where a keeper holds the token, both are 0, and
            // a bare WAITERS bit in a released word makes libc refuse that mutex for ever.
            let first = self.is_held_by_first(word);
            let second = is_alive_word(keeper);
            if (!first || request_wake(self.word(), word))
                && (!second || request_wake(&self.keeper, keeper))
            {
                // For a process, `keeper` also while it is free: main may hand over at any moment,
                // and a sleeper that watched main's word alone would sleep on when the process ends
                // (keeper.pml, ONLYHELD).
                let kept = if second {
                    Some(keeper | WAITERS)
                } else {
                    self.is_process().then_some(keeper)
                };
                return Some(Watched {
                    word: first.then_some(Watch { word: self.word(), expected: word | WAITERS }),
                    keeper: kept.map(|expected| Watch { word: &self.keeper, expected }),
                    generation: Watch { word: &self.generation, expected: generation },
                });
            }
        }
    }
}

/// Values that the words of a living owner must still have for a sleep to begin.
pub(crate) struct Watched<'a> {
    word: Option<Watch<'a>>,
    keeper: Option<Watch<'a>>,
    generation: Watch<'a>,
}

impl<'a> Watched<'a> {
    /// Returns all, in the order in which the kernel is to queue the sleeper, behind the relay
    /// word.
    pub(crate) fn all(self) -> impl Iterator<Item = Watch<'a>> {
        self.word.into_iter().chain(self.keeper).chain([self.generation])
    }

    /// Returns the one word on which the kernel tells the owner's end: main's word where main has
    /// the token. Main may hand over to a keeper: then the kernel marks main's word and wakes one
    /// sleeper, and the next look finds the keeper's word.
    pub(crate) fn first(self) -> Option<Watch<'a>> {
        self.word.or(self.keeper)
    }
}

pub(super) fn is_alive_word(word: u32) -> bool {
    word & HOLDER != 0 && word & DIED == 0
}

/// Asks the kernel to wake a sleeper when the holder ends. By compare-exchange, never by OR: on a
/// word that was released meanwhile, OR would leave a bare bit, which libc refuses for ever.
fn request_wake(word: &AtomicU32, seen: u32) -> bool {
    seen & WAITERS != 0
        || word.compare_exchange(seen, seen | WAITERS, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn zeroed() -> Slot {
        // SAFETY: all fields are atomics, for which zero is a value.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn forged_states_read_as_the_table_says() {
        let slot = zeroed();
        let id = TokenId::new(7, 3);
        let set = |generation: u32, word: u32, tid: u32| {
            slot.generation.store(generation, Ordering::Relaxed);
            slot.word().store(word, Ordering::Relaxed);
            slot.tid.store(tid, Ordering::Relaxed);
        };
        set(7, 1234, 1234);
        assert!(slot.is_alive(id), "in use");
        set(7, 1234 | WAITERS, 1234);
        assert!(slot.is_alive(id), "in use, somebody waits");
        set(7, DIED, 1234);
        assert!(!slot.is_alive(id), "marked by the kernel");
        set(7, DIED | WAITERS, 1234);
        assert!(!slot.is_alive(id), "marked, somebody waits");
        set(7, 0, 1234);
        assert!(!slot.is_alive(id), "given back");
        set(8, 0, 1234);
        assert!(!slot.is_alive(id), "retired");
        set(8, 99, 1234);
        assert!(!slot.is_alive(id), "being claimed by the next");
        set(7, 99, 1234);
        assert!(!slot.is_alive(id), "a stopped claimer's word under the old generation");
        set(9, 99, 99);
        assert!(!slot.is_alive(id), "the next owner's");
        set(7 + 2 * 8192, 99, 99);
        assert!(
            slot.is_alive(id),
            "8,192 owners later the number is the same: that is what the rest is for"
        );
    }

    #[test]
    fn a_process_token_lives_while_either_word_is_held() {
        let slot = zeroed();
        let id = TokenId::new(0, 0);
        slot.generation.store(1, Ordering::Relaxed);
        slot.tid.store(50, Ordering::Relaxed);
        slot.word().store(50, Ordering::Relaxed);
        assert!(slot.is_alive(id));
        slot.keeper.store(51, Ordering::Relaxed);
        slot.word().store(DIED, Ordering::Relaxed);
        assert!(slot.is_alive(id), "main left, the keeper holds on");
        slot.keeper.store(DIED, Ordering::Relaxed);
        assert!(!slot.is_alive(id));
    }

    #[test]
    fn watching_what_a_keeper_holds_leaves_the_released_word_alone() {
        let slot = zeroed();
        let id = TokenId::new(0, 0);
        slot.generation.store(1, Ordering::Relaxed);
        slot.keeper.store(51, Ordering::Relaxed);
        for released in [0, DIED] {
            slot.word().store(released, Ordering::Relaxed);
            let watched = slot.watch(id).expect("the keeper holds it");
            assert!(watched.word.is_none(), "nobody holds the first word");
            assert_eq!(watched.keeper.map(|watch| watch.expected), Some(51 | WAITERS));
            assert_eq!(
                slot.word().load(Ordering::Relaxed),
                released,
                "a bare bit would make libc refuse it for ever"
            );
        }
    }
}
