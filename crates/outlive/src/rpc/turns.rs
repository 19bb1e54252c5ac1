//! Turns of one client's threads, in private memory. The thread that uses a client alone makes
//! neither a locked instruction nor a fence for its turns.
//!
//! | `owner` | a turn begins by |
//! | --- | --- |
//! | 0, no thread | the mutex; the thread becomes the owner |
//! | {n, a thread's token}, the n-th owner | for that thread: its `inside` = 1, and `owner` is still the same. For another one: the mutex, then `owner` = {n + 1, that other thread} (or SHARED), a barrier in all threads, and a wait until the n-th owner's `inside` is 0 |
//! | SHARED | the mutex |
//!
//! Each owner has a word `inside` of its own: a thread that was the owner, and was not running since
//! it read `owner`, still stores there, and must not take a later owner's 1 away.
//!
//! The owner stores `inside` and loads `owner`; the newcomer stores `owner` and loads `inside`: with
//! the fence between the two, at least one sees the other (sys/barrier.rs). The owner makes no fence
//! of its own, because the newcomer's barrier puts one into every thread. A client whose threads
//! have pushed each other out a few times is SHARED for the rest of its life.
//!
//! No thread waits in a turn, so the newcomer waits for a moment alone. All of this is one process's:
//! a death ends it, and a forked child has no turn (`own_slots.rs`).

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use crate::shim::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, spin_hint};
use crate::sys::barrier;

const NOBODY: u32 = 0;
/// No thread's token: those begin with 001.
const SHARED: u64 = 1;

/// How often a client goes over to another thread before it is SHARED. Each time costs a barrier.
const MOST_OWNERS: u32 = 8;

/// See the file's head.
pub(super) struct Turns<T> {
    /// {how many owners there were before, the owner's token}; 0; [`SHARED`].
    owner: AtomicU64,
    /// By owner: whether it is in its turn; written by that owner alone.
    inside: [AtomicU32; MOST_OWNERS as usize],
    /// How many owners there have been.
    owners: Mutex<u32>,
    value: UnsafeCell<T>,
}

// SAFETY: a turn is the only way to the value, and there is one turn at a time.
unsafe impl<T: Send> Sync for Turns<T> {}

/// A thread's turn. It ends when this is dropped.
pub(super) struct TurnGuard<'t, T> {
    turns: &'t Turns<T>,
    /// The owner's word, if it began its turn without the mutex.
    inside: Option<&'t AtomicU32>,
    /// Held until the turn ends.
    _mutex: Option<MutexGuard<'t, u32>>,
}

impl<T> Turns<T> {
    pub(super) fn new(value: T) -> Turns<T> {
        Turns {
            owner: AtomicU64::new(0),
            inside: core::array::from_fn(|_| AtomicU32::new(0)),
            owners: Mutex::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Begins a turn without waiting: the owner's, or that of a thread of several if no other thread
    /// is in its turn. `thread` is the calling thread's token; 0 if it has none.
    #[inline(always)]
    pub(super) fn try_fast(&self, thread: u32) -> Option<TurnGuard<'_, T>> {
        // Relaxed: what this thread reads here as its own token it has stored itself.
        let owner = self.owner.load(Ordering::Relaxed);
        if owner as u32 == thread && thread != NOBODY {
            let inside = self.inside_of(owner);
            inside.store(1, Ordering::Relaxed);
            // Pairs with the newcomer's barrier: either this load sees that another thread is the
            // owner, or the newcomer sees `inside`.
            barrier::light();
            // Relaxed: no other thread has had a turn since this thread became the owner.
            if self.owner.load(Ordering::Relaxed) == owner {
                return Some(TurnGuard { turns: self, inside: Some(inside), _mutex: None });
            }
            inside.store(0, Ordering::Release);
            return None;
        }
        if owner == SHARED { self.try_shared() } else { None }
    }

    /// Returns an owner's own word.
    #[inline]
    fn inside_of(&self, owner: u64) -> &AtomicU32 {
        &self.inside[(owner >> 32) as usize % MOST_OWNERS as usize]
    }

    #[inline(never)]
    fn try_shared(&self) -> Option<TurnGuard<'_, T>> {
        let mutex = self.owners.try_lock().ok()?;
        Some(TurnGuard { turns: self, inside: None, _mutex: Some(mutex) })
    }

    /// Begins a turn after those of other threads. The caller is no forked child: the thread that
    /// such a child would wait for does not exist there.
    #[cold]
    pub(super) fn wait(&self, thread: u32) -> TurnGuard<'_, T> {
        let mut owners = match self.owners.lock() {
            Ok(owners) => owners,
            // A panic in a turn; each change of the value is whole.
            Err(error) => error.into_inner(),
        };
        // Relaxed: under the mutex, as each change of it.
        let before = self.owner.load(Ordering::Relaxed);
        let is_owner = before as u32 == thread && thread != NOBODY;
        if before != SHARED && !is_owner {
            let again = *owners < MOST_OWNERS && thread != NOBODY;
            let owner = u64::from(*owners) << 32 | u64::from(thread);
            *owners += u32::from(again);
            self.owner.store(if again { owner } else { SHARED }, Ordering::Relaxed);
            if before as u32 != NOBODY {
                self.wait_for_the_owner(before);
            }
        }
        TurnGuard { turns: self, inside: None, _mutex: Some(owners) }
    }

    /// Waits until the former owner has left its turn and seen that it is the owner no more.
    #[cold]
    fn wait_for_the_owner(&self, owner: u64) {
        if !barrier::heavy() {
            // The kernel refuses the barrier, by a filter that has come since this process took part
            // in them. A store is in the processor's buffer for some nanoseconds.
            std::thread::sleep(core::time::Duration::from_millis(10));
        }
        // Acquire pairs with the end of the owner's turn.
        let mut looks = 0u32;
        while self.inside_of(owner).load(Ordering::Acquire) != 0 {
            looks += 1;
            if looks.is_multiple_of(128) {
                // The owner may be waiting for this processor.
                std::thread::sleep(core::time::Duration::from_micros(20));
            }
            spin_hint();
        }
    }
}

impl<T> Deref for TurnGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it is this thread's turn, and there is one at a time.
        unsafe { &*self.turns.value.get() }
    }
}

impl<T> DerefMut for TurnGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: it is this thread's turn, and there is one at a time; `&mut self` makes this the
        // only reference.
        unsafe { &mut *self.turns.value.get() }
    }
}

impl<T> Drop for TurnGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(inside) = self.inside {
            // Release pairs with the newcomer's look.
            inside.store(0, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl<T> TurnGuard<'_, T> {
        fn is_locked(&self) -> bool {
            self.inside.is_none()
        }
    }

    #[test]
    fn threads_that_push_each_other_out_never_share_a_turn() {
        barrier::register();
        let turns = Turns::new((0u64, 0u64));
        std::thread::scope(|scope| {
            for thread in 2..6u32 {
                let turns = &turns;
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        let mut turn = turns.try_fast(thread).unwrap_or_else(|| turns.wait(thread));
                        turn.0 += 1;
                        turn.1 = turn.0;
                    }
                });
            }
        });
        let turn = turns.wait(9);
        assert_eq!(*turn, (8_000, 8_000));
    }

    #[test]
    fn the_only_thread_takes_the_mutex_once_and_threads_in_turn_own_it_a_few_times() {
        let turns = Turns::new(());
        assert!(turns.try_fast(7).is_none() && turns.try_fast(NOBODY).is_none());
        drop(turns.wait(7));
        let turn = turns.try_fast(7).expect("the owner's");
        assert!(!turn.is_locked() && turns.try_fast(8).is_none());
        drop(turn);
        for thread in 8..8 + MOST_OWNERS - 1 {
            drop(turns.wait(thread));
            assert!(turns.try_fast(thread - 1).is_none(), "the former owner");
            assert!(turns.try_fast(thread).is_some_and(|turn| !turn.is_locked()));
        }
        drop(turns.wait(99));
        assert!(turns.try_fast(99).is_some_and(|turn| turn.is_locked()), "shared from now on");
    }
}
