//! Explored by loom: readers and writers, deaths inside, and turns.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::Deadline;
use crate::liveness::{Me, Registry, Slot};
use crate::shim::explore;
use crate::sync::raw::Refused;
use crate::sys::robust::{ListHead, end_thread};
use crate::wake::SpinWait;

impl RawRwLock {
    pub(crate) fn new() -> RawRwLock {
        let line = || Line { words: std::array::from_fn(|_| AtomicU32::new(0)) };
        RawRwLock {
            writer: RawMutex::new(),
            lines: AtomicU64::new(0),
            depth: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            reserved: [0; 8],
            leaving: EventCount::default(),
            slots: std::array::from_fn(|_| line()),
        }
    }
}

struct World {
    registry: Registry,
    lock: RawRwLock,
    value: UnsafeCell<u32>,
}

// SAFETY: threads reach the value under the lock only; loom checks it.
unsafe impl Sync for World {}
// SAFETY: threads reach the value under the lock only; loom checks it.
unsafe impl Send for World {}

fn world(threads: u32) -> Arc<World> {
    let slots = (0..threads).map(|n| Slot::held_by(n + 100)).collect();
    Arc::new(World {
        registry: Registry::new(slots),
        lock: RawRwLock::new(),
        value: UnsafeCell::new(0),
    })
}

/// The thread in whose name a test makes its calls.
struct Actor {
    world: Arc<World>,
    id: TokenId,
    list: std::cell::UnsafeCell<ListHead>,
    spin_wait: SpinWait,
}

// SAFETY: only the thread that gets it uses it.
unsafe impl Send for Actor {}

impl Actor {
    fn new(world: &Arc<World>, thread: u32) -> Actor {
        let list = std::cell::UnsafeCell::new(ListHead::new());
        Actor {
            world: Arc::clone(world),
            id: TokenId::new(thread, 0),
            list,
            spin_wait: SpinWait::new(),
        }
    }

    fn lock(&self) -> (&RawRwLock, Me<'_>, &SpinWait) {
        let me = Me { registry: &self.world.registry, id: self.id, list: self.list.get() };
        (&self.world.lock, me, &self.spin_wait)
    }

    /// Reads; `None`: it was told of a death, repaired, and unlocked.
    fn read(&self) -> Option<u32> {
        let id = self.id;
        let (lock, me, spin_wait) = self.lock();
        let entered = match lock.enter(id) {
            Some(word) => Entered::Reading(word),
            None => lock
                .read_slow(me, spin_wait, Some(Deadline::NEVER))
                .expect("nobody holds it for ever"),
        };
        match entered {
            Entered::Reading(word) => {
                // SAFETY: loom's cell panics if another thread writes.
                let value = self.world.value.with(|value| unsafe { *value });
                self.world.lock.leave(word, id);
                Some(value)
            }
            Entered::Repairing => {
                self.raise();
                self.world.lock.mark_consistent();
                self.world.lock.unlock(id);
                None
            }
        }
    }

    fn write(&self) -> Acquired {
        let id = self.id;
        let (lock, me, spin_wait) = self.lock();
        let acquired = lock.acquire(id);
        if acquired && lock.begin_if_ready() {
            return Acquired::Clean;
        }
        lock.write_slow(me, spin_wait, Some(Deadline::NEVER), acquired)
            .expect("nobody holds it for ever")
    }

    fn raise(&self) {
        // SAFETY: loom's cell panics if another thread is inside.
        self.world.value.with_mut(|value| unsafe { *value += 1 });
    }

    /// Writes once.
    fn write_and_leave(&self) -> Acquired {
        let acquired = self.write();
        self.raise();
        self.world.lock.unlock(self.id);
        acquired
    }

    fn end(&self) {
        // SAFETY: the list is this thread's, which is between calls.
        end_thread(&self.world.registry.slots[self.id.slot() as usize], unsafe {
            &*self.list.get()
        });
    }
}

/// Starts a thread that writes once; no holder has died that it would be told of.
fn start_writing(world: &Arc<World>, thread: u32) -> thread::JoinHandle<()> {
    let writer = Actor::new(world, thread);
    thread::spawn(move || assert_eq!(writer.write_and_leave(), Acquired::Clean))
}

#[test]
fn loom_rw_a_reader_and_a_writer_never_meet() {
    explore(3, || {
        let world = world(2);
        // The line has had a reader before, or not: the fast path, or the slow one.
        let reader = Actor::new(&world, 0);
        reader.read();
        let writing = start_writing(&world, 1);
        assert!(reader.read().is_some());
        writing.join().unwrap();
        assert_eq!(reader.read(), Some(1));
    });
}

#[test]
fn loom_rw_a_first_reader_and_a_writer_never_meet() {
    explore(3, || {
        let world = world(2);
        let writing = start_writing(&world, 1);
        let reader = Actor::new(&world, 0);
        assert!(reader.read().is_some());
        writing.join().unwrap();
    });
}

#[test]
fn loom_rw_two_readers_of_one_line_and_a_writer_never_meet() {
    explore(2, || {
        let world = world(3);
        let threads = [0, 2].map(|n| {
            let reader = Actor::new(&world, n);
            thread::spawn(move || assert!(reader.read().is_some()))
        });
        let writer = Actor::new(&world, 1);
        assert_eq!(writer.write_and_leave(), Acquired::Clean);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn loom_rw_a_dead_reader_keeps_no_writer_out() {
    explore(3, || {
        let world = world(2);
        let dying = thread::spawn({
            let reader = Actor::new(&world, 0);
            move || {
                let id = reader.id;
                let (lock, me, spin_wait) = reader.lock();
                let entered = lock.enter(id).is_some()
                    || matches!(
                        lock.read_slow(me, spin_wait, Some(Deadline::NEVER)),
                        Ok(Entered::Reading(_))
                    );
                assert!(entered);
                reader.end();
            }
        });
        let writer = Actor::new(&world, 1);
        assert_eq!(writer.write_and_leave(), Acquired::Clean);
        dying.join().unwrap();
    });
}

/// The sweep may take the dead reader's name out, so that the writer knows of that reader only by
/// the empty word.
#[test]
fn loom_rw_what_a_swept_reader_read_comes_before_what_is_written() {
    explore(2, || {
        let world = world(3);
        let reader = Actor::new(&world, 0);
        let (lock, me, spin_wait) = reader.lock();
        assert!(matches!(
            lock.read_slow(me, spin_wait, Some(Deadline::NEVER)),
            Ok(Entered::Reading(_))
        ));
        let dying = thread::spawn(move || {
            // SAFETY: loom's cell panics if another thread writes.
            assert_eq!(reader.world.value.with(|value| unsafe { *value }), 0);
            reader.end();
        });
        let sweeping = thread::spawn({
            let sweeper = Actor::new(&world, 2);
            move || {
                let (lock, me, _) = sweeper.lock();
                lock.sweep(me, false);
            }
        });
        let writer = Actor::new(&world, 1);
        assert_eq!(writer.write_and_leave(), Acquired::Clean);
        dying.join().unwrap();
        sweeping.join().unwrap();
    });
}

#[test]
fn loom_rw_a_writers_death_is_told_to_the_next_who_reads() {
    explore(3, || {
        let world = world(2);
        let dying = thread::spawn({
            let writer = Actor::new(&world, 1);
            move || {
                writer.write();
                writer.raise();
                writer.end();
            }
        });
        let reader = Actor::new(&world, 0);
        let first = reader.read();
        dying.join().unwrap();
        // Either we came first, and are told now; or we were told, and have repaired it.
        match first {
            Some(value) => {
                assert_eq!(value, 0);
                assert_eq!(reader.read(), None);
            }
            None => assert_eq!(reader.read(), Some(2)),
        }
    });
}

#[test]
fn loom_rw_no_writer_comes_between_writing_and_reading_on() {
    explore(3, || {
        let world = world(2);
        let other = start_writing(&world, 1);
        let writer = Actor::new(&world, 0);
        writer.write();
        writer.raise();
        // SAFETY: loom's cell panics if another thread writes.
        let written = world.value.with(|value| unsafe { *value });
        let (lock, me, _) = writer.lock();
        let word = lock.downgrade(me);
        // SAFETY: loom's cell panics if another thread writes.
        assert_eq!(world.value.with(|value| unsafe { *value }), written);
        lock.leave(word, writer.id);
        other.join().unwrap();
    });
}

#[test]
fn loom_rw_of_two_who_upgrade_one_does() {
    explore(3, || {
        let world = world(2);
        let upgrade = |reader: Actor| {
            let (lock, me, spin_wait) = reader.lock();
            let Ok(Entered::Reading(word)) = lock.read_slow(me, spin_wait, Some(Deadline::NEVER))
            else {
                panic!("nobody dies");
            };
            match lock.upgrade(word, me, spin_wait, Some(Deadline::NEVER)) {
                Ok(()) => {
                    // SAFETY: loom's cell panics if another thread is inside.
                    reader.world.value.with_mut(|value| unsafe { *value += 1 });
                    lock.unlock(reader.id);
                    true
                }
                Err(refused) => {
                    assert_eq!(refused, Refused::WouldBlock);
                    lock.leave(word, reader.id);
                    false
                }
            }
        };
        let other = Actor::new(&world, 1);
        let other = thread::spawn(move || upgrade(other));
        let one = upgrade(Actor::new(&world, 0));
        let other = other.join().unwrap();
        assert!(one || other, "both were refused");
    });
}

impl Actor {
    /// Reads as the upgradable reader.
    fn read_upgradable(&self) -> Acquired {
        let (lock, me, spin_wait) = self.lock();
        match lock.enter_upgradable(self.id) {
            Some(true) => Acquired::Clean,
            entered => lock
                .upgradable_slow(me, spin_wait, Some(Deadline::NEVER), entered.is_some())
                .expect("nobody holds it for ever"),
        }
    }

    /// Becomes the writer.
    fn upgrade(&self) {
        let (lock, me, spin_wait) = self.lock();
        lock.upgrade_upgradable(me, spin_wait, Some(Deadline::NEVER)).expect("others leave");
    }
}

#[test]
fn loom_rw_an_upgrade_and_a_reader_never_meet() {
    explore(3, || {
        let world = world(2);
        // The line has had a reader before: the fast path.
        let reader = Actor::new(&world, 0);
        reader.read();
        let upgrading = thread::spawn({
            let upgrading = Actor::new(&world, 1);
            move || {
                assert_eq!(upgrading.read_upgradable(), Acquired::Clean);
                upgrading.upgrade();
                upgrading.raise();
                upgrading.world.lock.unlock(upgrading.id);
            }
        });
        assert!(reader.read().is_some());
        upgrading.join().unwrap();
        assert_eq!(reader.read(), Some(1));
    });
}

#[test]
fn loom_rw_no_writer_comes_before_an_upgrade() {
    explore(3, || {
        let world = world(2);
        let other = start_writing(&world, 1);
        let upgrading = Actor::new(&world, 0);
        assert_eq!(upgrading.read_upgradable(), Acquired::Clean);
        // SAFETY: loom's cell panics if another thread writes.
        let read = world.value.with(|value| unsafe { *value });
        upgrading.upgrade();
        // SAFETY: loom's cell panics if another thread is inside.
        assert_eq!(world.value.with_mut(|value| unsafe { *value }), read);
        world.lock.unlock(upgrading.id);
        other.join().unwrap();
    });
}

#[test]
fn loom_rw_back_to_upgradable_it_lets_a_sleeping_reader_in() {
    explore(3, || {
        let world = world(2);
        let writer = Actor::new(&world, 0);
        writer.write();
        let reading = thread::spawn({
            let reader = Actor::new(&world, 1);
            move || assert_eq!(reader.read(), Some(1))
        });
        writer.raise();
        let (lock, me, _) = writer.lock();
        lock.downgrade_to_upgradable(me);
        // It holds on until the reader has read.
        reading.join().unwrap();
        lock.leave_upgradable(writer.id);
    });
}

#[test]
fn loom_rw_beside_a_dead_upgradable_reader_a_reader_and_a_writer_never_meet() {
    explore(3, || {
        let world = world(3);
        let dying = Actor::new(&world, 2);
        assert_eq!(dying.read_upgradable(), Acquired::Clean);
        dying.end();
        let reader = Actor::new(&world, 0);
        let writing = start_writing(&world, 1);
        assert!(reader.read().is_some());
        writing.join().unwrap();
        assert_eq!(reader.read(), Some(1));
    });
}

/// The upgradable reader has its mark in the word for a moment before it looks at the state.
#[test]
fn loom_rw_beside_an_upgradable_reader_that_is_to_be_told_a_reader_waits() {
    explore(3, || {
        let world = world(2);
        let upgrading = Actor::new(&world, 0);
        assert_eq!(upgrading.write(), Acquired::Clean);
        upgrading.raise();
        world.lock.unlock_unfinished(upgrading.id);
        let reading = thread::spawn({
            let reader = Actor::new(&world, 1);
            move || reader.read()
        });
        let got = upgrading.read_upgradable();
        if got == Acquired::OwnerDied {
            upgrading.raise();
            world.lock.mark_consistent();
            world.lock.downgrade_to_upgradable(upgrading.lock().1);
        }
        // It holds on until the reader has read.
        let read = reading.join().unwrap();
        world.lock.leave_upgradable(upgrading.id);
        // One of the two was told, and has repaired it.
        assert_eq!(read, (got == Acquired::OwnerDied).then_some(2));
    });
}
