//! The reentrant mutex: a mutex, and how often its owner has taken it.
//!
//! | word of the mutex | depth | meaning | a death here |
//! | --- | --- | --- | --- |
//! | 0 | any | free: the depth means nothing | |
//! | id | not stored yet | id has just taken it | as below |
//! | id | n | id has taken it n times, and will unlock n times | the next locker takes it over, gets `OwnerDied` once, and stores 1 |
//!
//! Only the owner reads or writes `depth`, and each new owner stores 1 before it reads it. So a
//! death leaves nothing to repair there, and plain stores suffice: the mutex's word orders them.
//! The other states are the mutex's own (`mutex.rs`). One is for this lock alone, "marked inside": its
//! owner marked it not recoverable and keeps it by outer guards, which cannot undo that.
//! doc/protocols/reentrant_mutex.md has the argument.

use super::mutex::RawMutex;
use super::relock::Relock;
use super::{Acquired, Refused};
use crate::Deadline;
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering};
use crate::wake::SpinWait;

/// See the file's head. 16 bytes.
#[repr(C)]
pub struct RawReentrant {
    pub(crate) mutex: RawMutex,
    // Written by the owner.
    depth: AtomicU32,
    reserved: AtomicU32,
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RawReentrant {}

crate::shim::assert_layout!(size_of::<RawReentrant>() == 16);

impl RawReentrant {
    /// Takes the mutex for `id` if it is free.
    #[inline]
    pub(crate) fn acquire(&self, id: TokenId) -> bool {
        let is_mine = self.mutex.acquire(id);
        if is_mine {
            self.set_depth(1);
        }
        is_mine
    }

    /// Takes the mutex once more if `id` has it; `None` if it has not.
    #[inline]
    pub(crate) fn acquire_again(&self, id: TokenId) -> Option<Result<(), Refused>> {
        if !self.mutex.is_held_by(id) {
            return None;
        }
        let depth = self.depth();
        Some(if self.mutex.is_not_recoverable() {
            Err(Refused::NotRecoverable)
        } else if depth == u32::MAX {
            Err(Refused::Full)
        } else {
            // Died just before or after: the depth dies with its owner.
            self.set_depth(depth + 1);
            Ok(())
        })
    }

    /// Takes the mutex, and waits until the deadline; with `None` it never waits. Its owner takes
    /// it once more, and is not told again of a death.
    pub(crate) fn lock(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<Acquired, Refused> {
        if let Some(again) = self.acquire_again(me.id) {
            return again.map(|()| Acquired::Clean);
        }
        let got = match wait {
            Some(deadline) => self.mutex.lock(me, spin_wait, deadline),
            None => self.mutex.try_lock(me),
        }?;
        // Died just before: the next locker takes the mutex over, and stores its own depth.
        self.set_depth(1);
        Ok(got)
    }

    /// Takes the mutex in whatever state it is: see [`RawMutex::take_to_reset`].
    pub(crate) fn take_to_reset(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<(), Refused> {
        self.mutex.take_to_reset(me, spin_wait, wait)?;
        self.set_depth(1);
        Ok(())
    }

    /// Undoes one `lock`, and returns false; returns true if that leaves none, so that the caller
    /// unlocks the mutex itself. If another thread owns the mutex by now, because a process declared
    /// this one dead, nothing changes.
    #[inline]
    pub(crate) fn is_last_of(&self, id: TokenId) -> bool {
        let depth = self.depth();
        if depth > 1 && self.mutex.is_held_by(id) {
            self.set_depth(depth - 1);
        }
        depth <= 1
    }

    /// Undoes one `lock`; the last one unlocks, and leaves the state.
    #[inline]
    pub(crate) fn release(&self, id: TokenId) {
        if self.is_last_of(id) {
            self.mutex.release(id);
        }
    }

    /// Undoes one `lock` when a panic has interrupted the owner's change: see
    /// [`RawMutex::release_unfinished`].
    #[cold]
    pub(crate) fn release_unfinished(&self, id: TokenId) {
        if self.is_last_of(id) {
            self.mutex.release_unfinished(id);
        } else {
            // The owner goes on with the outer guards, and its next locker is told.
            self.mutex.note_unfinished(id);
        }
    }

    /// Marks the mutex not recoverable, and undoes one `lock`: see
    /// [`RawMutex::mark_not_recoverable`].
    #[cold]
    pub(crate) fn mark_not_recoverable(&self, id: TokenId) {
        if self.is_last_of(id) {
            self.mutex.mark_not_recoverable(id);
        } else {
            // The owner goes on with the outer guards, none of which undoes this.
            self.mutex.mark_inside(id);
        }
    }

    /// Returns how often its owner has taken it. It means something to the owner only.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        // Relaxed: a thread's own number, or another's of which nothing else is read.
        self.depth.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_depth(&self, depth: u32) {
        // Relaxed: the mutex's word orders it.
        self.depth.store(depth, Ordering::Relaxed);
    }
}

/// A reentrant mutex under a wait, which gives up all that its owner has taken.
pub struct AllLevels<'a> {
    raw: &'a RawReentrant,
    /// The depth at which the wait began, and ends.
    depth: u32,
}

impl<'a> AllLevels<'a> {
    /// Begins a wait of the mutex's owner.
    pub(crate) fn of(raw: &'a RawReentrant) -> AllLevels<'a> {
        AllLevels { raw, depth: raw.depth() }
    }

    /// Restores the depth for a thread that has the mutex again.
    fn restored(&self, got: Result<Acquired, Refused>) -> Result<Acquired, Refused> {
        if got.is_ok() {
            // Died just before: the next locker stores its own.
            self.raw.set_depth(self.depth);
        }
        got
    }
}

impl Relock for AllLevels<'_> {
    fn is_consistent(&self) -> bool {
        self.raw.mutex.is_consistent()
    }

    fn release(&self, me: Me) {
        self.raw.mutex.release(me.id);
    }

    fn try_lock(&self, me: Me) -> Result<Acquired, Refused> {
        self.restored(self.raw.mutex.try_lock(me))
    }

    fn lock(&self, me: Me, spin_wait: &SpinWait, deadline: Deadline) -> Result<Acquired, Refused> {
        self.restored(self.raw.mutex.lock(me, spin_wait, deadline))
    }

    fn is_free(&self) -> bool {
        self.raw.mutex.owner().is_none()
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::{Registry, Slot};
    use crate::shim::explore;
    use crate::sys::robust::{ListHead, end_thread};

    struct World {
        registry: Registry,
        lock: RawReentrant,
        value: UnsafeCell<u32>,
    }

    // SAFETY: threads reach the value under the lock only; loom checks it.
    unsafe impl Sync for World {}
    // SAFETY: threads reach the value under the lock only; loom checks it.
    unsafe impl Send for World {}

    fn world(threads: u32) -> Arc<World> {
        let lock = RawReentrant {
            mutex: RawMutex::new(),
            depth: AtomicU32::new(7),
            reserved: AtomicU32::new(0),
        };
        Arc::new(World {
            registry: Registry::new((0..threads).map(|n| Slot::held_by(n + 100)).collect()),
            lock,
            value: UnsafeCell::new(0),
        })
    }

    fn lock(world: &World, thread: u32, list: &mut ListHead) -> Result<Acquired, Refused> {
        let me = Me { registry: &world.registry, id: TokenId::new(thread, 0), list };
        world.lock.lock(me, &SpinWait::new(), Some(Deadline::NEVER))
    }

    fn raise(world: &World) {
        // SAFETY: loom's cell panics if another thread is inside.
        world.value.with_mut(|value| unsafe { *value += 1 });
    }

    #[test]
    fn loom_reentrant_a_thread_that_locks_twice_keeps_others_out_until_it_unlocks_twice() {
        explore(3, || {
            let world = world(2);
            let threads = [0, 1].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let (mut list, id) = (ListHead::new(), TokenId::new(n, 0));
                    assert_eq!(lock(&world, n, &mut list), Ok(Acquired::Clean));
                    raise(&world);
                    assert_eq!(lock(&world, n, &mut list), Ok(Acquired::Clean));
                    assert_eq!(world.lock.depth(), 2);
                    world.lock.release(id);
                    raise(&world);
                    world.lock.release(id);
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
            // SAFETY: all threads have ended.
            assert_eq!(world.value.with(|value| unsafe { *value }), 4);
        });
    }

    #[test]
    fn loom_reentrant_an_outer_guard_does_not_undo_that_an_inner_one_marked() {
        explore(3, || {
            let world = world(2);
            let giving_up = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let (mut list, id) = (ListHead::new(), TokenId::new(0, 0));
                    assert_eq!(lock(&world, 0, &mut list), Ok(Acquired::Clean));
                    assert_eq!(lock(&world, 0, &mut list), Ok(Acquired::Clean));
                    raise(&world);
                    world.lock.mark_not_recoverable(id);
                    world.lock.mutex.mark_consistent();
                    assert_eq!(lock(&world, 0, &mut list), Err(Refused::NotRecoverable));
                    world.lock.release(id);
                })
            };
            let (mut list, id) = (ListHead::new(), TokenId::new(1, 0));
            match lock(&world, 1, &mut list) {
                Ok(got) => {
                    assert_eq!(got, Acquired::Clean);
                    world.lock.release(id);
                }
                Err(refused) => assert_eq!(refused, Refused::NotRecoverable),
            }
            giving_up.join().unwrap();
            assert_eq!(lock(&world, 1, &mut list), Err(Refused::NotRecoverable));
            let me = Me { registry: &world.registry, id, list: &mut list };
            world.lock.take_to_reset(me, &SpinWait::new(), None).unwrap();
            world.lock.mutex.mark_consistent();
            world.lock.release(id);
            assert_eq!(lock(&world, 1, &mut list), Ok(Acquired::Clean));
        });
    }

    #[test]
    fn loom_reentrant_a_death_at_depth_two_is_told_once_at_depth_one() {
        explore(3, || {
            let world = world(2);
            let dying = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    let got = lock(&world, 0, &mut list);
                    assert_eq!(lock(&world, 0, &mut list), Ok(Acquired::Clean));
                    raise(&world);
                    end_thread(&world.registry.slots[0], &list);
                    got
                })
            };
            let (mut list, id) = (ListHead::new(), TokenId::new(1, 0));
            let got = lock(&world, 1, &mut list);
            raise(&world);
            assert_eq!(world.lock.depth(), 1);
            // Not told again, though nothing is repaired yet.
            assert_eq!(lock(&world, 1, &mut list), Ok(Acquired::Clean));
            world.lock.release(id);
            if got == Ok(Acquired::OwnerDied) {
                world.lock.mutex.mark_consistent();
            }
            world.lock.release(id);
            assert_eq!(dying.join().unwrap(), Ok(Acquired::Clean));
            assert_eq!(got == Ok(Acquired::Clean), world.lock.mutex.owner().is_some());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What an inner guard decided, outer ones cannot undo.
    #[test]
    fn marked_inside_it_stays_not_recoverable() {
        // SAFETY: atomics: zeroes are a value.
        let lock: RawReentrant = unsafe { core::mem::zeroed() };
        let id = TokenId::new(1, 0);
        assert!(lock.acquire(id) && lock.acquire_again(id) == Some(Ok(())));
        lock.mark_not_recoverable(id);
        assert!(lock.depth() == 1 && lock.mutex.is_not_recoverable());
        lock.mutex.mark_consistent();
        lock.release_unfinished(id);
        assert!(lock.mutex.owner().is_none() && lock.mutex.is_not_recoverable());
        // A holder that came to reset it may, by however many steps.
        assert!(lock.mutex.acquire(id));
        lock.mutex.allow_recovery();
        assert!(lock.mutex.is_not_recoverable());
        lock.mutex.mark_consistent();
        assert!(lock.mutex.is_consistent());
    }

    #[test]
    fn as_often_as_can_be_counted_and_no_more() {
        // SAFETY: atomics: zeroes are a value.
        let lock: RawReentrant = unsafe { core::mem::zeroed() };
        let id = TokenId::new(1, 0);
        assert!(lock.acquire(id) && lock.depth() == 1);
        assert_eq!(lock.acquire_again(id), Some(Ok(())));
        lock.set_depth(u32::MAX - 1);
        assert_eq!(lock.acquire_again(id), Some(Ok(())));
        assert_eq!(lock.acquire_again(id), Some(Err(Refused::Full)));
        assert_eq!(lock.depth(), u32::MAX);
        lock.release(id);
        assert_eq!(lock.depth(), u32::MAX - 1);
        assert_eq!(lock.acquire_again(TokenId::new(2, 0)), None);
        lock.set_depth(2);
        // Another thread's by now: nothing changes.
        lock.release(TokenId::new(2, 0));
        assert!(lock.depth() == 2 && lock.mutex.is_held_by(id));
        lock.release(id);
        assert!(lock.mutex.is_held_by(id));
        lock.release(id);
        assert_eq!(lock.mutex.owner(), None);
    }
}
