//! The pattern in free memory and canaries, and what a record's note says about it.
//!
//! ```text
//! note
//! bits 30, 31   0 or 1: a length, or nothing; 2: filled; 3: with a redzone
//!   filled      29: but for the tail, 0 to 28: how often the modes had been changed
//!   redzone     0 to 29 the length
//! ```

use core::ptr::NonNull;

use super::modes::{Modes, Now};

/// The value of a record's note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum Note {
    /// The length of an object that is offered, or given out as an address; else 0.
    Length(u32),
    /// The object is free and filled with its pattern, when the modes had been changed so often.
    Filled { changes: u32, tail: bool },
    /// It has a redzone: a canary from there on, and the caller that took it.
    Redzone(u32),
}

const FILLED: u32 = 2 << 30;
const REDZONED: u32 = 3 << 30;
const TAIL: u32 = 1 << 29;
const CHANGES: u32 = TAIL - 1;
/// The length of an object with a redzone is below this.
pub(super) const REDZONE_LENGTHS: u32 = 1 << 30;

impl Note {
    pub(in crate::pool) fn encode(self) -> u32 {
        match self {
            Note::Length(len) => len & !FILLED,
            Note::Filled { changes, tail } => {
                FILLED | if tail { TAIL } else { 0 } | changes & CHANGES
            }
            Note::Redzone(len) => REDZONED | len & (REDZONE_LENGTHS - 1),
        }
    }

    pub(in crate::pool) fn decode(bits: u32) -> Note {
        match bits >> 30 {
            2 => Note::Filled { changes: bits & CHANGES, tail: bits & TAIL != 0 },
            3 => Note::Redzone(bits & (REDZONE_LENGTHS - 1)),
            _ => Note::Length(bits),
        }
    }

    /// Returns whether the mark is valid: of the present change. Number 0 is never valid: so no
    /// single stray write makes both fit.
    pub(super) fn is_filled(self, now: Now) -> bool {
        let is_of_now = |changes| changes != 0 && changes == now.changes & CHANGES;
        matches!(self, Note::Filled { changes, .. } if is_of_now(changes))
            && now.modes.contains(Modes::INTEGRITY)
    }
}

/// Where memory differs from its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The first byte's distance from the object's beginning.
    pub(super) offset: usize,
    pub(super) expected: u8,
    pub(super) found: u8,
    /// How many bytes differ.
    pub(super) bytes: usize,
}

const WORD: usize = size_of::<u64>();

/// Returns a word of an object's pattern: each object and each place has its own.
#[inline]
fn word(reference: u32, at: usize) -> u64 {
    let first = u64::from(reference).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    first.wrapping_add((at as u64).wrapping_mul(0x0005_5555_0000_5555))
}

fn byte(reference: u32, offset: usize) -> u8 {
    word(reference, offset / WORD).to_ne_bytes()[offset % WORD]
}

/// Fills a piece of an object with its pattern.
///
/// # Safety
/// The caller may write the object's bytes up to `to`; the object begins at a multiple of 8.
pub(super) unsafe fn fill(data: NonNull<u8>, reference: u32, from: usize, to: usize) {
    let whole = from.next_multiple_of(WORD).min(to)..to.max(from) / WORD * WORD;
    for offset in (from..whole.start).chain(whole.end.max(whole.start)..to) {
        // SAFETY: `offset` is below `to`, up to which the caller may write.
        unsafe { data.add(offset).write(byte(reference, offset)) };
    }
    for offset in whole.step_by(WORD) {
        // SAFETY: the word ends at or below `to`, up to which the caller may write; aligned as the
        // object is.
        unsafe { data.add(offset).cast::<u64>().write(word(reference, offset / WORD)) };
    }
}

/// Compares a piece of an object with its pattern.
///
/// # Safety
/// The caller may read the object's bytes up to `to`; the object begins at a multiple of 8.
pub(super) unsafe fn compare(
    data: NonNull<u8>,
    reference: u32,
    from: usize,
    to: usize,
) -> Option<Difference> {
    let mut difference: Option<Difference> = None;
    let mut note = |offset: usize, found: u8| {
        let expected = byte(reference, offset);
        if found != expected {
            difference.get_or_insert(Difference { offset, expected, found, bytes: 0 }).bytes += 1;
        }
    };
    let mut offset = from;
    while offset < to {
        // Volatile: a thread that may not write there may be doing so just now.
        if offset.is_multiple_of(WORD) && offset + WORD <= to {
            // SAFETY: the word ends at or below `to`, up to which the caller may read; aligned as
            // the object is.
            let found = unsafe { data.add(offset).cast::<u64>().read_volatile() };
            if found != word(reference, offset / WORD) {
                found
                    .to_ne_bytes()
                    .iter()
                    .enumerate()
                    .for_each(|(at, &found)| note(offset + at, found));
            }
            offset += WORD;
        } else {
            // SAFETY: `offset` is below `to`, up to which the caller may read.
            note(offset, unsafe { data.add(offset).read_volatile() });
            offset += 1;
        }
    }
    difference
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_changed_byte_is_found() {
        let mut memory = [0u64; 16];
        let data = NonNull::from(&mut memory).cast::<u8>();
        for from in 0..20 {
            for to in [from, from + 1, from + 7, 40, 128] {
                // SAFETY: `memory` has 128 bytes, of which no more are written or read.
                unsafe {
                    fill(data, 7, from, to);
                    assert_eq!(compare(data, 7, from, to), None);
                    for at in from..to {
                        let byte = data.add(at);
                        let was = byte.read();
                        byte.write(was ^ 1);
                        let difference =
                            Difference { offset: at, expected: was, found: was ^ 1, bytes: 1 };
                        assert_eq!(compare(data, 7, from, to), Some(difference));
                        byte.write(was);
                    }
                    assert!(from == to || compare(data, 8, from, to).is_some(), "another object's");
                }
            }
        }
    }

    #[test]
    fn notes_keep_what_they_are_given() {
        for note in [
            Note::Length(0),
            Note::Length(1 << 30),
            Note::Filled { changes: 0, tail: false },
            Note::Filled { changes: CHANGES, tail: true },
            Note::Redzone(0),
            Note::Redzone(REDZONE_LENGTHS - 1),
        ] {
            assert_eq!(Note::decode(note.encode()), note);
        }
        let at = |changes| Now { modes: Modes::INTEGRITY | Modes::TAG, changes };
        let filled = |bits: u32, now| Note::decode(bits).is_filled(now);
        assert!(filled(FILLED | 5, at(5)) && filled(FILLED | TAIL | 5, at(5 | TAIL)));
        assert!(
            !filled(FILLED, at(0))
                && !filled(FILLED | 5, at(6))
                && !filled(REDZONED | 5, at(5))
                && !filled(5, at(5))
        );
        assert!(!filled(FILLED | 5, Now { modes: Modes::TAG, changes: 5 }));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::shim::explore_all;
    use crate::shim::{AtomicU32, AtomicU64, Ordering};

    /// One object, as `debug/checked.rs` and `take_small` treat it.
    struct World {
        word: AtomicU64,
        tag: AtomicU32,
        note: AtomicU32,
        full: AtomicU32,
    }

    impl World {
        fn now(&self) -> Now {
            Now::from_word(self.word.load(Ordering::Relaxed))
        }

        fn note(&self) -> Note {
            Note::decode(self.note.load(Ordering::Relaxed))
        }

        /// Compares as `make_ready` does.
        fn compare(&self, now: Now) {
            if self.note().is_filled(now) {
                assert_eq!(
                    self.full.load(Ordering::Relaxed),
                    1,
                    "what is believed to be filled is"
                );
            }
        }

        /// Allocates in those modes an object that was just taken (`alloc_slow`), or is in the
        /// cache.
        fn use_in(&self, now: Now, is_just_taken: bool) {
            if !now.modes.is_none() {
                self.compare(now);
            }
            if !now.modes.is_none() || is_just_taken {
                self.note.store(0, Ordering::Relaxed);
            }
            self.full.store(0, Ordering::Relaxed);
        }

        /// Takes it as `taken` does: from other threads, into the cache.
        fn take(&self) -> bool {
            let taken =
                self.tag.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if taken && !self.note().is_filled(self.now()) {
                self.note.store(0, Ordering::Relaxed);
            }
            taken
        }

        fn change(&self, modes: Modes) {
            let word = self.word.load(Ordering::Relaxed);
            self.word.store(
                (word >> 32).wrapping_add(1) << 32 | u64::from(modes.bits()),
                Ordering::Relaxed,
            );
        }
    }

    #[test]
    fn loom_what_comes_into_a_cache_is_believed_when_it_may_be() {
        freed_taken_used_and_taken(false);
    }

    #[test]
    fn loom_what_is_used_at_once_is_believed_when_it_may_be() {
        freed_taken_used_and_taken(true);
    }

    /// A thread that has seen the modes frees it; one that may see them late takes it, uses it and
    /// frees it without a look at the note; then it is taken once more.
    fn freed_taken_used_and_taken(at_once: bool) {
        explore_all(move || {
            let world = Arc::new(World {
                word: AtomicU64::new(
                    1 << 32 | u64::from(if at_once { 0 } else { Modes::INTEGRITY.bits() }),
                ),
                tag: AtomicU32::new(2),
                note: AtomicU32::new(0),
                full: AtomicU32::new(0),
            });
            let filler = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    let now = world.now();
                    if now.modes.contains(Modes::INTEGRITY) {
                        world.full.store(1, Ordering::Relaxed);
                        let note = Note::Filled { changes: now.changes, tail: false };
                        world.note.store(note.encode(), Ordering::Relaxed);
                    }
                    world.tag.store(0, Ordering::Release);
                }
            });
            let user = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    let now = world.now();
                    if !world.take() {
                        return;
                    }
                    if at_once {
                        world.use_in(now, true);
                    }
                    // From the cache: in whatever modes the thread sees then.
                    for _ in 0..if at_once { 1 } else { 2 } {
                        world.use_in(world.now(), false);
                    }
                }
            });
            if !at_once {
                world.change(Modes::NONE);
            }
            world.change(Modes::INTEGRITY);
            filler.join().expect("no panic");
            user.join().expect("no panic");
        });
    }
}
