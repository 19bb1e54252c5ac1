//! The state's own code under loom: values of two words, one reader that pins at once after being
//! overtaken, deaths between calls. That a pinned buffer is never written is an assertion in
//! `read.rs`.

use std::sync::Arc as StdArc;

use loom::thread;

use super::Inner;
use super::buffers::Buffers;
use super::layout::{Cell, Latest};
use super::wait::{Change, Told};
use super::write::RawWriter;
use crate::Deadline;
use crate::liveness::{Registry, Slot, TokenId, become_thread};
use crate::shim::Ordering;
use crate::shim::explore;
use crate::sys::robust::{ListHead, end_thread};
use crate::wake::SpinWait;

/// Tokens 0, 1, 2 are threads; 3, 4, 5 their processes.
fn world() -> StdArc<Inner> {
    let slots = (0..6).map(|n| Slot::held_by(n + 100)).collect();
    let registry: &'static Registry = Box::leak(Box::new(Registry::new(slots)));
    StdArc::new(Inner { buffers: Buffers::new(), registry, spin_wait: SpinWait::new() })
}

/// The calling thread is number `n`, in a process of its own; its list lives as long as the test.
fn be(n: u32) -> &'static ListHead {
    let list: &'static mut ListHead = Box::leak(Box::new(ListHead::new()));
    let pointer: *mut ListHead = list;
    become_thread(TokenId::new(n, 0), TokenId::new(n + 3, 0), pointer);
    // SAFETY: leaked; written through the pointer by this thread only, read after.
    unsafe { &*pointer }
}

/// The calling thread's process ends: its thread's mark, then its own.
fn die(inner: &Inner, n: u32, list: &ListHead) {
    end_thread(&inner.registry.slots[n as usize], list);
    end_thread(&inner.registry.slots[n as usize + 3], &ListHead::new());
}

/// Both halves are the version less one.
fn value(version: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(version - 1).to_ne_bytes());
    bytes[8..].copy_from_slice(&(version - 1).to_ne_bytes());
    bytes
}

/// Gets the value, which must be whole; its version.
fn get(inner: &Inner) -> u64 {
    let mut bytes = [0u8; 16];
    // SAFETY: 16 bytes, which is what a buffer holds.
    let (version, _) = unsafe { inner.read(bytes.as_mut_ptr(), |_| Some(16)) }.expect("no damage");
    assert_eq!(bytes, value(version), "halves of two values");
    version
}

fn set(writer: &mut RawWriter, version: u64) {
    assert_eq!(writer.set(&value(version)).expect("set"), version);
}

#[test]
fn loom_state_a_get_is_whole_and_no_older_than_the_last() {
    explore(3, || {
        let inner = world();
        let writing = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(1);
                let mut writer = RawWriter::new(inner, Deadline::NEVER).unwrap();
                (2..=5).for_each(|version| set(&mut writer, version));
                core::mem::forget(writer);
            })
        };
        be(0);
        let first = get(&inner);
        assert!(get(&inner) >= first, "back in time");
        writing.join().unwrap();
        assert_eq!(get(&inner), 5);
    });
}

/// The reader comes as one that was overtaken, and pins at once.
#[test]
fn loom_state_one_who_was_overtaken_pins_what_is_not_written() {
    explore(3, || {
        let inner = world();
        be(0);
        let mut writer = RawWriter::new(StdArc::clone(&inner), Deadline::NEVER).unwrap();
        (2..=4).for_each(|version| set(&mut writer, version));
        let reading = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(1);
                let mut bytes = [0u8; 16];
                // SAFETY: 16 bytes, which is what a buffer holds.
                let (version, _) =
                    unsafe { inner.read_overtaken(bytes.as_mut_ptr(), |_| Some(16)) }
                        .expect("no damage");
                assert_eq!(bytes, value(version));
                assert!(version >= 4);
            })
        };
        (5..=7).for_each(|version| set(&mut writer, version));
        reading.join().unwrap();
        core::mem::forget(writer);
    });
}

/// The writer has found the reader living, which asks for a pin, and is slow: the sweep must take
/// the dead reader's name out whichever of the two changes the cell first.
#[test]
fn loom_state_a_sweep_leaves_no_dead_readers_name_beside_a_slow_writer() {
    explore(3, || {
        let inner = world();
        let head = inner.buffers.head();
        head.cells[0].store(Cell::asking(TokenId::new(1, 0)).0, Ordering::Relaxed);
        head.used.store(1, Ordering::Relaxed);
        let writing = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(0);
                let mut writer = RawWriter::new(inner, Deadline::NEVER).unwrap();
                set(&mut writer, 2);
                core::mem::forget(writer);
            })
        };
        die(&inner, 1, &ListHead::new());
        be(2);
        inner.sweep(inner.registry.me().unwrap(), false, &mut Vec::new());
        let owner = Cell(head.cells[0].load(Ordering::Acquire)).owner();
        assert_eq!(owner, None, "the dead reader's id may be given out again after the sweep");
        writing.join().unwrap();
    });
}

#[test]
fn loom_state_who_waits_is_woken() {
    explore(3, || {
        let inner = world();
        let writing = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(1);
                let mut writer = RawWriter::new(inner, Deadline::NEVER).unwrap();
                set(&mut writer, 2);
                core::mem::forget(writer);
            })
        };
        be(0);
        let change = inner.wait_changed(&Told::of(1), Deadline::NEVER).unwrap();
        assert_eq!(change, Some(Change::Value { version: 2 }));
        writing.join().unwrap();
    });
}

/// A writer dies after `latest`, before its ring; or before `latest`.
fn dies(published: bool) {
    explore(3, move || {
        let inner = world();
        let writing = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                let list = be(1);
                let writer = RawWriter::new(StdArc::clone(&inner), Deadline::NEVER).unwrap();
                inner.fill(1, 2, &value(2), 0).unwrap();
                if published {
                    inner.buffers.head().latest.store(Latest::new(2, 1).0, Ordering::Release);
                }
                die(&inner, 1, list);
                core::mem::forget(writer);
            })
        };
        be(0);
        let mut version = 1;
        if published {
            let change = inner.wait_changed(&Told::of(1), Deadline::NEVER).unwrap();
            assert_eq!(
                change,
                Some(Change::Value { version: 2 }),
                "the value comes before the death"
            );
            version = 2;
        }
        let change = inner.wait_changed(&Told::of(version), Deadline::NEVER).unwrap();
        assert_eq!(change, Some(Change::WriterDied { version }));
        assert_eq!(get(&inner), version);
        writing.join().unwrap();
        let mut writer = RawWriter::new(StdArc::clone(&inner), Deadline::NEVER).unwrap();
        set(&mut writer, version + 1);
        assert_eq!(get(&inner), version + 1);
        core::mem::forget(writer);
    });
}

#[test]
fn loom_state_a_writer_that_dies_before_latest_is_told() {
    dies(false);
}

#[test]
fn loom_state_a_writer_that_dies_before_its_ring_wakes_who_sleeps() {
    dies(true);
}

#[test]
fn loom_state_one_that_comes_is_seen_by_who_sleeps_after_a_death() {
    explore(2, || {
        let inner = world();
        let list = be(2);
        core::mem::forget(RawWriter::new(StdArc::clone(&inner), Deadline::NEVER).unwrap());
        die(&inner, 2, list);
        let writing = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                let list = be(1);
                let writer = RawWriter::new(StdArc::clone(&inner), Deadline::NEVER).unwrap();
                inner.fill(1, 2, &value(2), 0).unwrap();
                inner.buffers.head().latest.store(Latest::new(2, 1).0, Ordering::Release);
                die(&inner, 1, list);
                core::mem::forget(writer);
            })
        };
        be(0);
        let told = Told::of(1);
        let mut change = inner.wait_changed(&told, Deadline::NEVER).unwrap();
        if change == Some(Change::WriterDied { version: 1 }) {
            change = inner.wait_changed(&told, Deadline::NEVER).unwrap();
        }
        assert_eq!(change, Some(Change::Value { version: 2 }));
        writing.join().unwrap();
    });
}

/// A reader died with a pin; another takes its cell, and the writer does not mind it.
#[test]
fn loom_state_a_dead_readers_pin_holds_up_nobody() {
    explore(3, || {
        let inner = world();
        let list = be(2);
        inner.pin_for_good();
        die(&inner, 2, list);
        let reading = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(1);
                let mut bytes = [0u8; 16];
                // SAFETY: 16 bytes, which is what a buffer holds.
                let (version, _) =
                    unsafe { inner.read_overtaken(bytes.as_mut_ptr(), |_| Some(16)) }
                        .expect("no damage");
                assert_eq!(bytes, value(version));
            })
        };
        be(0);
        let mut writer = RawWriter::new(StdArc::clone(&inner), Deadline::NEVER).unwrap();
        (2..=5).for_each(|version| set(&mut writer, version));
        core::mem::forget(writer);
        reading.join().unwrap();
        assert_eq!(get(&inner), 5);
    });
}
