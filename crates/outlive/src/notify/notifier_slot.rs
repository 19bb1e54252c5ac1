//! A notifier's slot: which process has it, and how many have died with it.
//!
//! ```text
//!  63        32 31       0
//! +------------+----------+
//! |   deaths   | token id |
//! +------------+----------+
//! ```
//! | the word | step | to |
//! | --- | --- | --- |
//! | (0, d) | a notifier comes | (A, d) |
//! | (A, d) | it leaves | (0, d) |
//! | (A, d), A is dead | any process that looks: a listener, a sweep | (0, d + 1) |
//! | (A, d), A is dead | the next notifier | (B, d + 1) |
//!
//! Each step is one compare-exchange, so a death or a stop is before it or after it; and one of
//! them decides whether A has left or died. (A thread of a process whose token is dead may run for
//! some microseconds more, and leave in order. Without the exchange a listener would be told of a
//! death that is none a moment later.) Each listener compares the word's deaths with those that it
//! has been told, which it keeps itself. So it is told each death once; no process tells it in
//! another's place, and none that is stopped or dies delays it.

use crate::liveness::{Registry, TokenId};
use crate::shim::{AtomicU64, Ordering};

/// See the file's head.
#[repr(transparent)]
pub(super) struct NotifierSlot(AtomicU64);

/// What a slot's word says, and the word itself: bits that mean nothing would let each exchange fail
/// that began with what the word should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    word: u64,
    pub(super) owner: Option<TokenId>,
    /// How many owners have died.
    pub(super) deaths: u32,
}

/// So often is a word looked at that changes each time, as no owners do.
const TRIES: u32 = 1000;

impl Seen {
    fn of(word: u64) -> Seen {
        Seen { word, owner: TokenId::from_word(word as u32), deaths: (word >> 32) as u32 }
    }

    /// Returns the word with that owner in place of this one's, which is dead or none.
    fn then(self, owner: Option<TokenId>) -> u64 {
        word(owner, self.deaths.wrapping_add(u32::from(self.owner.is_some())))
    }
}

fn word(owner: Option<TokenId>, deaths: u32) -> u64 {
    u64::from(deaths) << 32 | u64::from(owner.map_or(0, TokenId::as_u32))
}

impl NotifierSlot {
    /// Returns what the word says, a dead owner included.
    pub(super) fn peek(&self) -> Seen {
        // Acquire: if the owner is dead, all that it has notified is seen after this.
        Seen::of(self.0.load(Ordering::Acquire))
    }

    /// Returns the living owner, if any, and the deaths. A dead owner's death is counted now.
    pub(super) fn look(&self, registry: &Registry) -> Seen {
        for _ in 0..TRIES {
            let seen = self.peek();
            if seen.owner.is_none_or(|owner| registry.is_alive(owner)) {
                return seen;
            }
            self.exchange(seen, seen.then(None));
        }
        Seen { owner: None, ..self.peek() }
    }

    /// Takes the slot for a process if it is free, or if its owner is dead.
    pub(super) fn take(&self, registry: &Registry, process: TokenId) -> bool {
        for _ in 0..TRIES {
            let seen = self.peek();
            if seen.owner.is_some_and(|owner| registry.is_alive(owner)) {
                return false;
            }
            // Failed: a listener has counted the death, or another notifier was quicker.
            if self.exchange(seen, seen.then(Some(process))) {
                return true;
            }
        }
        false
    }

    /// Frees the slot: its owner leaves in order.
    pub(super) fn leave(&self, process: TokenId) {
        let seen = self.peek();
        if seen.owner == Some(process) {
            // Failed: this process's token is dead, and another one has counted the death.
            self.exchange(seen, word(None, seen.deaths));
        }
    }

    /// Puts `next` in place of that very word.
    fn exchange(&self, seen: Seen, next: u64) -> bool {
        // AcqRel: a listener that sees a death sees what the dead had notified. If a process dies
        // just after it took the slot, that is one death.
        self.0.compare_exchange(seen.word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_put_together() {
        for owner in [None, Some(TokenId::new(65_535, 8_191))] {
            let seen = Seen::of(word(owner, u32::MAX));
            assert_eq!((seen.owner, seen.deaths), (owner, u32::MAX));
            let next = Seen::of(seen.then(None));
            assert_eq!(next.deaths, u32::MAX.wrapping_add(u32::from(owner.is_some())));
        }
    }

    /// Bits that no process of ours writes: each look ends, and the slot can be used again.
    #[test]
    fn stray_bits_end_no_look() {
        let folder = std::env::temp_dir().join(format!("outlive-stray-{}", std::process::id()));
        let domain = crate::Domain::open_or_create_at(&folder).expect("opens");
        let registry = domain.registry();
        let process = registry.process_token().expect("a token");
        // A token that no process has.
        let nobody = TokenId::new(60_000, 1);
        for stray in [1 << 31 | nobody.as_u32(), 1, 1 << 31] {
            let slot = NotifierSlot(AtomicU64::new(3 << 32 | u64::from(stray)));
            let seen = slot.look(registry);
            assert_eq!(seen.owner, None, "{stray:#x}");
            assert!(slot.take(registry, process), "{stray:#x}");
            let stray = slot.0.fetch_or(1 << 31, Ordering::Relaxed);
            slot.leave(process);
            assert_eq!(slot.look(registry).owner, None, "{stray:#x}");
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::Slot;
    use crate::shim::explore_all;

    /// A thread of the dead process leaves while a listener looks and the next notifier comes.
    #[test]
    fn loom_a_death_or_a_leaving_is_counted_once() {
        explore_all(|| {
            let registry: &'static Registry =
                Box::leak(Box::new(Registry::new(vec![Slot::held_by(100), Slot::held_by(101)])));
            let (dead, next) = (TokenId::new(0, 0), TokenId::new(1, 0));
            let slot = Arc::new(NotifierSlot(AtomicU64::new(0)));
            assert!(slot.take(registry, dead));
            registry.slots[0].mark_died();
            let leaving = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.leave(dead))
            };
            let coming = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.take(registry, next))
            };
            let told = slot.look(registry).deaths;
            leaving.join().unwrap();
            coming.join().unwrap();
            let seen = slot.look(registry);
            assert!(told <= seen.deaths && seen.deaths <= 1);
            assert_ne!(seen.owner, Some(dead));
        });
    }
}
