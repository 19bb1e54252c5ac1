//! Guards, permits and seats of the core, each of which belongs to a thread, in Python objects that
//! all threads have: only the thread that got one reaches it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlive::{Domain, Error};

/// Returns a name for the calling thread that no other thread has, of this process or its forked
/// children: its token.
pub(crate) fn this_thread(domain: &Domain) -> Result<u32, Error> {
    domain.token().map(|token| token.as_u32())
}

/// What a thread got from a lock and gives back itself: a guard belongs to its thread.
pub(crate) struct Held<G> {
    /// The thread that has it, by [`this_thread`]; 0: none.
    thread: AtomicU32,
    guard: UnsafeCell<Option<G>>,
}

// SAFETY: only the thread whose name is in `thread` reaches the guard, and no other thread writes
// that name.
unsafe impl<G> Sync for Held<G> {}
// SAFETY: dropped by another thread, a guard of the core's only lets go of its lock's handle, since
// it compares tokens.
unsafe impl<G> Send for Held<G> {}

impl<G> Held<G> {
    pub(crate) const fn nothing() -> Held<G> {
        Held { thread: AtomicU32::new(0), guard: UnsafeCell::new(None) }
    }

    pub(crate) fn is_of(&self, thread: u32) -> bool {
        // Relaxed: a thread wrote its own name itself.
        self.thread.load(Ordering::Relaxed) == thread
    }

    /// Returns whether a thread has it.
    pub(crate) fn is_held(&self) -> bool {
        // Relaxed: it may have changed by the time that the caller looks at the answer.
        self.thread.load(Ordering::Relaxed) != 0
    }

    /// Reserves this for the calling thread, which is about to get a guard. False: another thread
    /// has one, or is about to.
    pub(crate) fn reserve(&self, thread: u32) -> bool {
        // Acquire pairs with the Release in `take`.
        self.thread.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Keeps the guard that the calling thread, of that name, has got: it has reserved this, or has
    /// a lock that no other thread can have.
    pub(crate) fn put(&self, thread: u32, guard: G) {
        // SAFETY: no other thread is in here; the guard of an owner that has ended, or of before a
        // fork, is another's, and dropping it has no effect.
        unsafe { *self.guard.get() = Some(guard) };
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// Takes the calling thread's guard out, or ends its reservation.
    pub(crate) fn take(&self, thread: u32) -> Option<G> {
        if !self.is_of(thread) {
            return None;
        }
        // SAFETY: `thread` names this thread.
        let guard = unsafe { (*self.guard.get()).take() };
        self.thread.store(0, Ordering::Release);
        guard
    }

    /// Exchanges the calling thread's guard for what `turn` makes of it.
    pub(crate) fn turn<R>(&self, thread: u32, turn: impl FnOnce(G) -> (G, R)) -> Option<R> {
        if !self.is_of(thread) {
            return None;
        }
        // SAFETY: `thread` names this thread; `turn` does not come back here.
        let guard = unsafe { &mut *self.guard.get() };
        let (turned, result) = turn(guard.take()?);
        *guard = Some(turned);
        Some(result)
    }

    /// Calls `with` on the calling thread's guard.
    pub(crate) fn with<R>(&self, thread: u32, with: impl FnOnce(&mut G) -> R) -> Option<R> {
        if !self.is_of(thread) {
            return None;
        }
        // SAFETY: `thread` names this thread; `with` does not come back here.
        unsafe { (*self.guard.get()).as_mut().map(with) }
    }
}

/// What threads got and give back themselves, any number each: permits, seats. Locked for a moment,
/// never during a wait.
pub(crate) struct Kept<G>(Mutex<Vec<(u32, G)>>);

// SAFETY: a thread takes out what it has put in itself, by its name; a permit or seat that is
// dropped by another thread only lets go of its handle, since the core compares tokens.
unsafe impl<G> Send for Kept<G> {}
// SAFETY: the list is locked, and a thread reaches only what it has put in itself.
unsafe impl<G> Sync for Kept<G> {}

impl<G> Kept<G> {
    pub(crate) const fn nothing() -> Kept<G> {
        Kept(Mutex::new(Vec::new()))
    }

    pub(crate) fn put(&self, thread: u32, got: G) {
        self.lock().push((thread, got));
    }

    /// Returns how many the calling thread, of that name, has in here.
    pub(crate) fn count(&self, thread: u32) -> usize {
        self.lock().iter().filter(|(of, _)| *of == thread).count()
    }

    /// Takes out what the calling thread, of that name, has put in last.
    pub(crate) fn take(&self, thread: u32) -> Option<G> {
        let mut kept = self.lock();
        let at = kept.iter().rposition(|(of, _)| *of == thread)?;
        Some(kept.swap_remove(at).1)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u32, G)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
