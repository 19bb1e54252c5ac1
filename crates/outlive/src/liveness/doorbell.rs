//! Doorbells: words of the registry on which large wait sets sleep. A notifier raises one in place
//! of a wake for each set.
//!
//! A set claims a doorbell, and writes its *registration* into the eventcounts of its sources:
//! which doorbell, and which of its bits. A notifier that finds waiters there sets the bit, then
//! raises `count`, and wakes (wake/rung_count.rs). So the set sleeps on one word, and the bits say at
//! which sources it has to look.
//!
//! | word | |
//! | --- | --- |
//! | `owner` | {generation, process token} of its owner; 0 in the lower half, or a dead process's token: it is free |
//! | `count` | raised behind a bit; the set sleeps while it is unchanged |
//! | `ready` | a bit for each source, or for several; the set takes them behind its load of `count` |
//!
//! | a process dies | what others see |
//! | --- | --- |
//! | the owner | its token is dead: the next set takes the doorbell, with another generation. Registrations of the former one mean nothing then: notifiers pass over them, and other sets replace them |
//! | a notifier, between the bit and its wake | see wake/rung_count.rs |
//!
//! A late notifier may set a bit for the former owner: one look in vain. doc/protocols/wait_set.md,
//! "Doorbells", has the argument; proof/models/doorbell.pml checks it.

use super::id::TokenId;
use super::registry::Registry;
use crate::shim::{AtomicU32, AtomicU64, Ordering};

/// How many there are in a registry: as many large sets of a domain have one at a time.
pub(crate) const DOORBELLS: usize = 24;
/// A doorbell's bits. A larger set has several sources for each.
pub(crate) const BITS: usize = 512;
const WORDS: usize = BITS / 32;

/// In a registration: the bit, then the doorbell's index + 1, then its generation.
const BIT_BITS: u32 = 9;
const INDEX_BITS: u32 = 5;
const BELOW_GENERATION: u32 = BIT_BITS + INDEX_BITS;
const _: () = assert!(BITS == 1 << BIT_BITS && DOORBELLS < 1 << INDEX_BITS);

/// See the file's head. All zeroes: it is free.
#[repr(C)]
pub(crate) struct Doorbell {
    // Written by sets that claim it.
    owner: AtomicU64,
    // Written by notifiers.
    count: AtomicU32,
    reserved: [AtomicU32; 13],
    // Written by notifiers and by the set.
    ready: [AtomicU32; WORDS],
}

crate::shim::assert_layout!(
    size_of::<Doorbell>() == 128,
    core::mem::offset_of!(Doorbell, count) == 8,
    core::mem::offset_of!(Doorbell, ready) == 64,
);

/// What a set writes into an eventcount; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration(u32);

impl Registration {
    pub(crate) fn from_word(word: u32) -> Option<Registration> {
        (word != 0).then_some(Registration(word))
    }

    pub(crate) fn as_word(self) -> u32 {
        self.0
    }

    fn bit(self) -> usize {
        self.0 as usize % BITS
    }

    /// Returns the doorbell that it names, if that has the generation still.
    fn doorbell(self, registry: &Registry) -> Option<&Doorbell> {
        let index = (self.0 >> BIT_BITS & ((1 << INDEX_BITS) - 1)) as usize;
        let doorbell = registry.doorbells().get(index.checked_sub(1)?)?;
        // Relaxed: the load of the registration was an Acquire, and the claim is before its store.
        let generation = (doorbell.owner.load(Ordering::Relaxed) >> 32) as u32;
        (generation << BELOW_GENERATION == self.0 >> BELOW_GENERATION << BELOW_GENERATION)
            .then_some(doorbell)
    }

    /// Sets the bit and raises the count, for a notifier, and returns the word on which the set
    /// sleeps: the caller wakes it. `None`: no set is there any more.
    pub(crate) fn raise(self, registry: &Registry) -> Option<&AtomicU32> {
        let doorbell = self.doorbell(registry)?;
        // Release pairs with `ClaimedDoorbell::take`: the set sees the change. The bit before the
        // count: died in between, the set sleeps on as if there had been no notification.
        doorbell.ready[self.bit() / 32].fetch_or(1 << (self.bit() % 32), Ordering::Release);
        // Release pairs with `ClaimedDoorbell::count`. Died just after, before the wake: a set that
        // sleeps sleeps on, and the eventcount still says that a waiter may sleep.
        doorbell.count.fetch_add(1, Ordering::Release);
        Some(&doorbell.count)
    }

    /// Returns whether a living process's set has it.
    pub(crate) fn is_of_living(self, registry: &Registry) -> bool {
        self.doorbell(registry).is_some_and(|doorbell| {
            let owner = TokenId::from_word(doorbell.owner.load(Ordering::Relaxed) as u32);
            owner.is_some_and(|owner| registry.is_alive(owner))
        })
    }
}

/// A doorbell that a set of this process has claimed. [`ClaimedDoorbell::free`] alone gives it back,
/// and no drop does: a forked child's copy is its parent's. One that is dropped without is this
/// process's until it ends.
pub(crate) struct ClaimedDoorbell {
    doorbell: &'static Doorbell,
    index: usize,
    owner: u64,
}

impl ClaimedDoorbell {
    /// Claims one for this process; `None` if all are taken.
    pub(crate) fn claim(registry: &'static Registry, process: TokenId) -> Option<ClaimedDoorbell> {
        registry.doorbells().iter().enumerate().find_map(|(index, doorbell)| {
            let seen = doorbell.owner.load(Ordering::Relaxed);
            if TokenId::from_word(seen as u32).is_some_and(|owner| registry.is_alive(owner)) {
                return None;
            }
            let generation = (seen >> 32).wrapping_add(1) & u64::from(u32::MAX);
            let owner = generation << 32 | u64::from(process.as_u32());
            // Relaxed: what the set does with it goes through registrations. Died just after: it is
            // a dead process's.
            doorbell
                .owner
                .compare_exchange(seen, owner, Ordering::Relaxed, Ordering::Relaxed)
                .ok()
                .map(|_| ClaimedDoorbell { doorbell, index, owner })
        })
    }

    /// Returns what the set writes into an eventcount so that its notifiers set that bit.
    pub(crate) fn registration(&self, bit: usize) -> Registration {
        let generation = ((self.owner >> 32) as u32) << BELOW_GENERATION;
        Registration(generation | (self.index as u32 + 1) << BIT_BITS | (bit % BITS) as u32)
    }

    /// Returns the word on which the set sleeps.
    pub(crate) fn word(&self) -> &'static AtomicU32 {
        &self.doorbell.count
    }

    /// Returns the count, to be read before the bits are taken.
    pub(crate) fn count(&self) -> u32 {
        // Acquire pairs with `Registration::raise`: its bit is seen by the `take` that follows.
        self.doorbell.count.load(Ordering::Acquire)
    }

    /// Takes the bits, and calls `each` for each.
    pub(crate) fn take(&self, mut each: impl FnMut(usize)) {
        for (at, word) in self.doorbell.ready.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Acquire pairs with `Registration::raise`.
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                each(at * 32 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Gives it back.
    pub(crate) fn free(self) {
        // The generation stays, so the next claim has another one.
        let free = self.owner >> 32 << 32;
        let _ = self.doorbell.owner.compare_exchange(
            self.owner,
            free,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}

impl Doorbell {
    /// Takes a dead owner's name out of it; returns whether there was one.
    pub(super) fn sweep(&self, registry: &Registry, dry_run: bool) -> bool {
        let seen = self.owner.load(Ordering::Relaxed);
        let owner = TokenId::from_word(seen as u32);
        if owner.is_none_or(|owner| registry.is_alive(owner)) {
            return false;
        }
        dry_run
            || self
                .owner
                .compare_exchange(seen, seen >> 32 << 32, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Domain;

    #[test]
    fn a_doorbell_is_for_its_owner_of_the_same_generation() {
        let folder = std::env::temp_dir().join(format!("outlive-doorbell-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let registry = domain.registry();
        let process = registry.process_token().expect("a token");
        let doorbell = ClaimedDoorbell::claim(registry, process).expect("free");
        let registration = doorbell.registration(500);
        assert!(registration.is_of_living(registry));
        let seen = doorbell.count();
        assert!(core::ptr::eq(registration.raise(registry).expect("there"), doorbell.word()));
        assert_ne!(doorbell.count(), seen);
        let mut bits = Vec::new();
        doorbell.take(|bit| bits.push(bit));
        assert_eq!(bits, [500]);
        doorbell.take(|_| panic!("taken"));
        let others: Vec<_> =
            core::iter::from_fn(|| ClaimedDoorbell::claim(registry, process)).collect();
        assert_eq!(others.len(), DOORBELLS - 1);
        doorbell.free();
        assert!(!registration.is_of_living(registry));
        let next = ClaimedDoorbell::claim(registry, process).expect("free again");
        assert_ne!(next.registration(500), registration);
        assert!(registration.raise(registry).is_none(), "of another generation");
        others.into_iter().for_each(ClaimedDoorbell::free);
        next.free();

        let dead = TokenId::from_word(process.as_u32() ^ 1 << 16).expect("an id");
        assert!(!registry.is_alive(dead));
        let _ = ClaimedDoorbell::claim(registry, dead).expect("free");
        assert_eq!([registry.sweep_doorbells(true), registry.sweep_doorbells(false)], [1, 1]);
        assert_eq!(registry.sweep_doorbells(true), 0);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
