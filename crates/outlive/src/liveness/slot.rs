//! One slot of the registry: 128 bytes, the first cache line all that is needed to ask whether its owner lives.
//!
//! States, by (generation parity, libc word):
//!
//! | gen | word | state | who leaves it, and how |
//! | --- | --- | --- | --- |
//! | even | 0 or died | retired: no id is valid | a claimer, by trylock |
//! | even | held | being claimed; no id is valid yet | the claimer: records itself, gen + 1; dies: died |
//! | odd | held | in use: the id (slot, gen) is alive | the thread ends: died; or gives back: 0 |
//! | odd | 0 or died | dead: the id reads dead | anybody: gen + 1 by compare-exchange, *before* any trylock |
//!
//! Retiring first is what keeps a claimer that is stopped between its trylock and its gen + 1 from reviving the dead
//! id: the word reads alive then, but the generation no longer matches. A process slot has a second word, `keeper`,
//! alive like the first.

use super::id::{GENERATION_MASK, TokenId, WAITERS};
use super::slot_words::KIND;
pub(crate) use super::slot_words::Slot;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::futex::{self, Watch};

/// The bits of a robust word that say who holds it: the thread id and the kernel's OWNER_DIED mark.
pub(super) const HOLDER: u32 = !WAITERS;
/// Set by the kernel when the holder ended; the thread id bits are cleared with it.
const DIED: u32 = 0x4000_0000;

/// Values of `relay`: see wake/sleep.rs. In the bits of a robust word that name a thread all are 0, so the kernel wakes
/// there.
pub(crate) const OWN_RELAY: u32 = 0;
const MOVING_RELAY: u32 = WAITERS;
pub(crate) const SHARED_RELAY: u32 = WAITERS | DIED;

/// In `kind`: where the low bits of a generation begin.
const LIFE_AT: u32 = 8;
/// So many of them. A note that is 8,388,608 lives old would pass for the present one: a slot that is claimed each
/// millisecond needs more than two hours for that, and the claimer takes the note away each time.
const LIFE: u32 = u32::MAX >> LIFE_AT;

impl Slot {
    pub(crate) fn generation(&self) -> &AtomicU32 {
        &self.generation
    }

    /// Whether the generation is one in use and the one that the id names.
    #[inline]
    fn is_of(generation: u32, id: TokenId) -> bool {
        generation & 1 == 1 && generation >> 1 & GENERATION_MASK == id.generation()
    }

    /// Whether a thread holds the first word, and it is the one recorded; or a keeper holds the second.
    ///
    /// First then second: main hands over by letting the keeper take the second before it gives up the first, so
    /// whoever sees the first dead sees the second held.
    #[inline]
    fn is_held(&self, word: u32) -> bool {
        self.is_held_by_first(word) || is_alive_word(self.keeper.load(Ordering::Acquire))
    }

    /// Whether that value of the first word names the thread that is recorded. A keeper's process token records 0 there,
    /// and its first word is 0 as well: that names nobody.
    #[inline]
    fn is_held_by_first(&self, word: u32) -> bool {
        // Acquire pairs with the Release of the tid in `try_claim`: a reader that sees a later claimer's tid here sees that
        // the generation was retired, for it loads that after this. With Relaxed, a weakly ordered machine may load the
        // generation first (GENFIRST in proof/models/token.pml): a dead id reads alive.
        let tid = self.tid.load(Ordering::Acquire);
        word & HOLDER == tid && tid != 0
    }

    /// Whether the token that this id names is alive: three loads of one cache line, in this order: the word, the
    /// recorded tid, the generation.
    ///
    /// Acquire: what a dead owner had written is seen by whoever finds it dead (pairs with the kernel's mark, which
    /// comes after all of the thread's own stores).
    #[inline]
    pub(crate) fn is_alive(&self, id: TokenId) -> bool {
        let held = self.is_held(self.word().load(Ordering::Acquire));
        // After the word and the tid, which both are Acquire loads: a generation that still matches says that the word
        // was of this id. Acquire itself, for what the owner wrote before it was out (`try_claim`).
        held && Slot::is_of(self.generation.load(Ordering::Acquire), id)
    }

    /// Whether sleepers on this slot use the registry's relay word.
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

    /// From now on sleepers on this slot use the registry's relay word.
    #[cold]
    pub(crate) fn share_relay(&self) {
        if self.relay.load(Ordering::Acquire) == SHARED_RELAY {
            return;
        }
        // Died just after: whoever sleeps on this slot next goes on here, before it sleeps.
        self.relay.store(MOVING_RELAY, Ordering::Release);
        // Those who are asleep already point here: they come again.
        futex::wake_all(&self.relay);
        self.relay.store(SHARED_RELAY, Ordering::Release);
    }

    /// Wakes all who sleep on this owner's end.
    #[cold]
    pub(crate) fn wake_watchers(&self) {
        // The kernel wakes one of all who sleep on the mark; if this process dies here, the kernel wakes the next by the relay word.
        futex::wake_all(self.word());
        futex::wake_all(&self.keeper);
    }

    /// Wakes the sleepers on the end of a holder that is dead already, if the slot uses the shared relay and nobody has done
    /// so yet: a sleeper on several owners may have died before it had done so.
    ///
    /// That the slot came to the shared relay, and that its holder died, came before the wake-up that the dead sleeper
    /// swallowed, which came before ours: so both are seen here, in whatever order they are looked at. `relay` alone,
    /// first: all slots are walked, and it is the only word of most that is asked.
    #[inline]
    pub(super) fn wake_behind_shared_relay(&self) {
        if self.relay.load(Ordering::Acquire) == SHARED_RELAY {
            self.wake_of_last_generation();
        }
    }

    /// As [`Slot::wake_behind_shared_relay`], of a slot that uses it.
    ///
    /// Each life of a slot costs two system calls here, once, and not two at every wake in the domain for ever after: what
    /// has been done is noted, with the life's number. That is sound because nobody joins the queues of a dead word: the
    /// kernel compares the word, under the lock of its queue, with the living value.
    #[cold]
    fn wake_of_last_generation(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        // Of a retired slot: the life before. Of one that is being claimed by the same thread again: the claimer wakes all,
        // and its death is told by the mark.
        let life = generation.wrapping_sub(1) | 1;
        // After the generation: a word seen dead is that life's, or a later one's, of which the note below says nothing.
        if self.is_held(self.word().load(Ordering::Acquire)) || self.last_told() == life & LIFE {
            return;
        }
        self.wake_watchers();
        // Died just before: the next to come wakes them again, in vain.
        self.note_told(life);
    }

    /// Of which life all sleepers have been woken after its end.
    fn last_told(&self) -> u32 {
        // Acquire pairs with the Release in `note_told`: the wakes came before.
        self.kind.load(Ordering::Acquire) >> LIFE_AT
    }

    /// All who slept on the end of that life have been woken.
    ///
    /// A note that comes late, in a later life of the slot, names the wrong life: then the wakes are made once more.
    fn note_told(&self, life: u32) {
        let seen = self.kind.load(Ordering::Relaxed);
        let told = seen & KIND | life << LIFE_AT;
        // Failed: somebody else has noted it, or the slot is claimed anew.
        let _ = self.kind.compare_exchange(seen, told, Ordering::Release, Ordering::Relaxed);
    }

    /// The words to sleep on for this owner's end, with their WAITERS bits set; `None` when it is dead already.
    pub(crate) fn watch(&self, id: TokenId) -> Option<Watched<'_>> {
        loop {
            let word = self.word().load(Ordering::Acquire);
            let keeper = self.keeper.load(Ordering::Acquire);
            let generation = self.generation.load(Ordering::Acquire);
            if !self.is_held(word) || !Slot::is_of(generation, id) {
                return None;
            }
            // Not by `word & HOLDER == tid` alone: 0 is equal to 0 where a keeper holds the token, and a bare WAITERS bit in
            // a released word makes libc refuse that mutex for ever.
            let first = self.is_held_by_first(word);
            let second = is_alive_word(keeper);
            if (!first || request_wake(self.word(), word)) && (!second || request_wake(&self.keeper, keeper)) {
                // A process's also while it is free: main may hand over at any moment, and a sleeper that watched main's
                // word alone would sleep on when the process ends (keeper.pml, ONLYHELD).
                let kept = if second { Some(keeper | WAITERS) } else { self.is_process().then_some(keeper) };
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
    /// In the order in which the kernel is to queue the sleeper, behind the relay word.
    pub(crate) fn all(self) -> impl Iterator<Item = Watch<'a>> {
        self.word.into_iter().chain(self.keeper).chain([self.generation])
    }

    /// The one by which the kernel tells the owner's end: main's word where main has the token. Main may hand over to a
    /// keeper: then the kernel marks main's word and wakes one sleeper, and the keeper's word is found by the next look.
    pub(crate) fn first(self) -> Option<Watch<'a>> {
        self.word.or(self.keeper)
    }
}

pub(super) fn is_alive_word(word: u32) -> bool {
    word & HOLDER != 0 && word & DIED == 0
}

/// Asks the kernel to wake somebody when the holder ends. By compare-exchange, never by OR: on a word that was released
/// meanwhile, OR would leave a bare bit, which libc refuses for ever.
fn request_wake(word: &AtomicU32, seen: u32) -> bool {
    seen & WAITERS != 0 || word.compare_exchange(seen, seen | WAITERS, Ordering::Relaxed, Ordering::Relaxed).is_ok()
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
        assert!(slot.is_alive(id), "8,192 owners later the number is the same: that is what the rest is for");
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
            assert_eq!(slot.word().load(Ordering::Relaxed), released, "a bare bit would make libc refuse it for ever");
        }
    }
}
