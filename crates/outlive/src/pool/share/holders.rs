//! The holders of a shared object: a row of cells, each of which names one process.
//!
//! | tag | meaning |
//! | --- | --- |
//! | shared(n, lines, j) | the sharing of number n, which no other has; j joins so far, by cells in so many lines |
//!
//! | a cell | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | free | |
//! | (P, n) | P is among the holders of n. In a row that serves another sharing by now: void | not counted once P has ended; the next process that needs a cell takes it |
//!
//! | step | died just after | repaired by |
//! | --- | --- | --- |
//! | share: a cell, then owned(P) → shared(n, 0) | owned(P) until the tag, then a dead holder's | `collect`: free once P has ended |
//! | join 1: a cell 0 → (P, n) | a dead name, which is not counted | the next process that needs the cell; `collect` |
//! | join 2: tag (n, j) → (n, j + 1) | a dead holder's | the next to leave; `collect` |
//! | leave 1: cell → 0 | shared, perhaps with no holder | `collect` |
//! | leave 2: all holders that n's cells name have ended: tag (n, j) → owned(P) | owned(P) | `collect` |
//! | leave 3: the row is given back | the same, and a row whose object is not shared by its number | the next process that needs a row; `collect` |
//!
//! A join and the last leave meet on the tag: the exchange that comes first makes the other fail. A
//! process that was seen in a cell before its join is no holder yet, and the leaving process that
//! saw it leaves the object to it: it will find the tag unchanged, join, and leave.
//!
//! doc/protocols/pool.md, proof/models/share.pml.

use crate::liveness::{End, Ends, TokenId};
use crate::pool::heap::Sharing;
use crate::shim::{AtomicU32, AtomicU64, Ordering, fence, fewer_under_loom};

/// The most processes that can hold one object at a time.
pub(crate) const CELLS: usize = fewer_under_loom(62, 2);
/// Words of a row before its cells.
const BEFORE: usize = 2;
/// Words of a cache line.
const LINE: usize = 8;

/// Returns how many cells of its row may have holders.
fn cells_of(sharing: Sharing) -> usize {
    ((sharing.lines as usize + 1) * LINE - BEFORE).min(CELLS)
}

/// Returns the cell's line in its row.
pub(super) fn line_of(cell: usize) -> u32 {
    ((cell + BEFORE) / LINE) as u32
}

fn cell(process: TokenId, number: u32) -> u64 {
    u64::from(process.as_u32()) << 32 | u64::from(number)
}

fn name_in(cell: u64) -> Option<TokenId> {
    TokenId::from_word((cell >> 32) as u32)
}

/// The holders of one shared object. The memory is never used for anything else, since a process
/// that was stopped may still write to it when the row serves another object.
#[repr(C, align(64))]
pub(crate) struct Holders {
    /// Bits 32 to 60: the sharing's number; 0 to 31: the object's reference plus one. 0: the row is
    /// free. It is in use while the object's tag has that number, or says owned (it may be about to
    /// be shared).
    head: AtomicU64,
    /// The object's note: the length that was asked for.
    pub(crate) note: AtomicU32,
    reserved: AtomicU32,
    cells: [AtomicU64; CELLS],
}

crate::shim::assert_layout!(size_of::<Holders>() == 512);
// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl crate::segment::SharedLayout for Holders {}

/// The sharing that a row serves: its number, and the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Serves {
    pub(crate) number: u32,
    pub(crate) reference: u32,
}

impl Serves {
    fn word(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.reference + 1)
    }
}

/// Why a process could not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is not shared by that number any more.
    Stale,
    /// All cells have living holders.
    Full,
}

impl Holders {
    /// Returns the sharing that it serves.
    pub(crate) fn serves(&self) -> Option<Serves> {
        // Acquire pairs with `take`: the object's tag is seen as of then, or later.
        let head = self.head.load(Ordering::Acquire);
        let reference = (head as u32).checked_sub(1)?;
        Some(Serves { number: (head >> 32) as u32, reference })
    }

    /// Takes the row for that sharing, from the one that it served (`None`: free), unless another
    /// process was first.
    pub(crate) fn take(&self, from: Option<Serves>, to: Serves) -> bool {
        let from = from.map_or(0, Serves::word);
        // Release pairs with `serves`: the object was its owner's before. After a death just after,
        // its tag says owned, and later something else; and the row is free.
        self.head.compare_exchange(from, to.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Frees the row.
    pub(crate) fn release(&self, from: Serves) -> bool {
        self.head.compare_exchange(from.word(), 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes a cell for a process: a free one, else one of a process that has ended.
    pub(crate) fn enter(
        &self,
        process: TokenId,
        number: u32,
        has_ended: &dyn Fn(TokenId) -> bool,
    ) -> Option<usize> {
        let mine = cell(process, number);
        // Acquire pairs with `leave`: the former holder has finished with the bytes, and a process
        // that acquires from this one knows it. Relaxed before: the tag tells of the cell. A death
        // just after: a dead name, and no holder.
        let take = |at: usize, from| {
            self.cells[at]
                .compare_exchange(from, mine, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        };
        let empty =
            (0..CELLS).find(|&at| self.cells[at].load(Ordering::Relaxed) == 0 && take(at, 0));
        // Cells of another number are not touched: this process may be the late one.
        empty.or_else(|| {
            (0..CELLS).find(|&at| {
                let seen = self.cells[at].load(Ordering::Relaxed);
                name_in(seen).is_none_or(has_ended) && take(at, seen)
            })
        })
    }

    /// Frees the cell: the process holds the object by it no longer. `free` comes next.
    pub(crate) fn leave(&self, at: usize) {
        // Release pairs with `is_held`: it has finished with the bytes. No other process changes a
        // cell that names a living one. After a death just after there may be a shared object
        // without holders, which `collect` finds.
        self.cells[at].store(0, Ordering::Release);
        // Of two processes that leave, at least one sees that the other has (store buffering).
        fence(Ordering::SeqCst);
    }

    /// Takes back a cell of a failed join.
    pub(crate) fn leave_unjoined(&self, at: usize, process: TokenId, number: u32) {
        // The process that freed the object may have cleared it, and then it may belong to another.
        let _ = self.cells[at].compare_exchange(
            cell(process, number),
            0,
            Ordering::Release,
            Ordering::Relaxed,
        );
    }

    /// Returns whether a process that has not ended holds it by another cell than that.
    pub(crate) fn is_held(
        &self,
        sharing: Sharing,
        besides: Option<usize>,
        has_ended: &dyn Fn(TokenId) -> bool,
    ) -> bool {
        self.cells[..cells_of(sharing)].iter().enumerate().any(|(at, word)| {
            // Acquire pairs with `leave`.
            let seen = word.load(Ordering::Acquire);
            seen as u32 == sharing.number
                && Some(at) != besides
                && name_in(seen).is_some_and(|process| !has_ended(process))
        })
    }

    /// Clears the cells of a sharing that is over, and frees the row.
    fn give_back(&self, sharing: Sharing, reference: u32) {
        for word in &self.cells[..cells_of(sharing)] {
            let seen = word.load(Ordering::Relaxed);
            if seen != 0 && seen as u32 == sharing.number {
                let _ = word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        self.release(Serves { number: sharing.number, reference });
    }

    /// Returns the holders of a sharing, including dead ones that have not been collected.
    pub(crate) fn names(&self, number: u32) -> impl Iterator<Item = TokenId> {
        let cells = self.cells.iter().map(|word| word.load(Ordering::Acquire));
        cells.filter(move |&seen| seen as u32 == number).filter_map(name_in)
    }

    /// Clears the cells of processes that have ended, of any sharing; returns how many there were,
    /// and whether dead names remain.
    pub(super) fn sweep(&self, ends: &Ends, dry_run: bool) -> (u32, bool) {
        let (mut ended, mut left) = (0, false);
        for word in &self.cells {
            let seen = word.load(Ordering::Relaxed);
            let Some(process) = name_in(seen) else { continue };
            match ends.of(process) {
                End::Lives => {}
                End::Ending => left = true,
                End::Ended => {
                    let cleared = dry_run
                        || word
                            .compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed)
                            .is_ok();
                    ended += u32::from(cleared);
                }
            }
        }
        (ended, left)
    }
}

/// Enters a process among the holders of an object whose tag said that it is shared; returns its
/// cell.
pub(crate) fn join(
    tag: &AtomicU64,
    seen: u64,
    holders: &Holders,
    number: u32,
    process: TokenId,
    has_ended: &dyn Fn(TokenId) -> bool,
) -> Result<usize, Refused> {
    let cell = holders.enter(process, number, has_ended).ok_or(Refused::Full)?;
    let mut seen = seen;
    while let Some(sharing) = Sharing::of(seen).filter(|sharing| sharing.number == number) {
        // Release: a process that reads this tag reads the cell; pairs with `free`. Acquire pairs
        // with the sharer's: the bytes. A death just before: no holder. Just after: a dead holder.
        match tag.compare_exchange(
            seen,
            sharing.joined(line_of(cell)).word(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => return Ok(cell),
            // Another process has joined; or the last one has left, and no later sharing has this
            // number.
            Err(now) => seen = now,
        }
    }
    holders.leave_unjoined(cell, process, number);
    Err(Refused::Stale)
}

/// Changes the tag from shared by that number to `to`, if no process that has not ended holds it by
/// another cell than `besides`; then the row is free. Returns whether it did.
pub(crate) fn free(
    tag: &AtomicU64,
    to: u64,
    holders: &Holders,
    serves: Serves,
    besides: Option<usize>,
    has_ended: &dyn Fn(TokenId) -> bool,
) -> bool {
    // Acquire pairs with `join`: the cells of the holders that it counts. It is read before them.
    let seen = tag.load(Ordering::Acquire);
    let Some(sharing) = Sharing::of(seen).filter(|sharing| sharing.number == serves.number) else {
        return false;
    };
    if holders.is_held(sharing, besides, has_ended) {
        return false;
    }
    // From the very tag that was read before the cells: a process that has joined since is a
    // holder, and gets the object. AcqRel: after all that any holder did with the bytes, before
    // what the next owner does. After a death just after: `to`, and a row that its object does not
    // name any more.
    if tag.compare_exchange(seen, to, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    holders.give_back(sharing, serves.reference);
    true
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_what_they_are_given() {
        assert_eq!(cells_of(Sharing::begin(5, line_of(CELLS - 1))), CELLS);
        for at in 0..CELLS {
            assert!(at < cells_of(Sharing::begin(5, line_of(at))), "{at}");
        }
        assert_eq!(cells_of(Sharing::begin(5, 0)), LINE - BEFORE);
        let id = TokenId::new(65_535, 8_191);
        assert_eq!(name_in(cell(id, (1 << 29) - 1)), Some(id));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::shim::{explore, explore_all};

    const OWNED: u64 = 3 << 62;

    fn owned(by: u32) -> u64 {
        OWNED | u64::from(TokenId::new(by, 0).as_u32())
    }

    /// One object and its row; holders read `bytes`, and its sole owner writes them.
    struct World {
        tag: AtomicU64,
        holders: Holders,
        bytes: UnsafeCell<u32>,
    }

    // SAFETY: loom checks the accesses to `bytes`; the test shows that they never overlap.
    unsafe impl Sync for World {}
    // SAFETY: loom checks the accesses to `bytes`, from whichever thread.
    unsafe impl Send for World {}

    const REFERENCE: u32 = 6;

    fn nobody_ended(_: TokenId) -> bool {
        false
    }

    impl World {
        /// Shares it as number 1, by the processes `0..holders`.
        fn shared_by(holders: u32) -> Arc<World> {
            let cells = [0, 1].map(|at| {
                AtomicU64::new(if at < holders { cell(TokenId::new(at, 0), 1) } else { 0 })
            });
            let sharing = Sharing { number: 1, lines: 0, joins: holders - 1 };
            Arc::new(World {
                tag: AtomicU64::new(sharing.word()),
                holders: Holders {
                    head: AtomicU64::new(Serves { number: 1, reference: REFERENCE }.word()),
                    note: AtomicU32::new(0),
                    reserved: AtomicU32::new(0),
                    cells,
                },
                bytes: UnsafeCell::new(0),
            })
        }

        fn read(&self) {
            // SAFETY: loom reports a write at the same time; this process holds the object.
            self.bytes.with(|bytes| unsafe { assert_ne!(bytes.read(), 99) });
        }

        /// Writes the bytes, as the object's sole owner.
        fn write(&self, value: u32) {
            // SAFETY: loom reports an access at the same time; this process has the object alone.
            self.bytes.with_mut(|bytes| unsafe { bytes.write(value) });
        }

        /// Joins number 1, if that still is there; returns its cell.
        fn join(&self, by: u32) -> Option<usize> {
            let seen = self.tag.load(Ordering::Acquire);
            Sharing::of(seen).filter(|sharing| sharing.number == 1)?;
            join(&self.tag, seen, &self.holders, 1, TokenId::new(by, 0), &nobody_ended).ok()
        }

        /// Reads and leaves; returns whether it was the last holder, which then owns the object.
        fn leave(&self, by: u32, at: usize, number: u32) -> bool {
            self.read();
            self.holders.leave(at);
            let serves = Serves { number, reference: REFERENCE };
            let last = free(&self.tag, owned(by), &self.holders, serves, None, &nobody_ended);
            if last {
                self.write(7);
            }
            last
        }

        fn nothing_is_left(&self) {
            assert_eq!(self.holders.head.load(Ordering::Relaxed), 0);
            self.holders.cells.iter().for_each(|cell| assert_eq!(cell.load(Ordering::Relaxed), 0));
        }
    }

    #[test]
    fn loom_share_join_against_the_last_leave() {
        explore_all(|| {
            let world = World::shared_by(1);
            let joining = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.join(1).is_some_and(|at| world.leave(1, at, 1)))
            };
            let freed = world.leave(0, 0, 1);
            let joined = joining.join().unwrap();
            assert!(freed ^ joined, "one of them frees it");
            world.nothing_is_left();
        });
    }

    #[test]
    fn loom_share_two_last_leaves() {
        explore_all(|| {
            let world = World::shared_by(2);
            let other = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.leave(1, 1, 1))
            };
            let freed = world.leave(0, 0, 1);
            assert!(freed ^ other.join().unwrap(), "one of them frees it");
            world.nothing_is_left();
        });
    }

    /// One process leaves, one joins by the cell that has become free, and leaves again.
    #[test]
    fn loom_share_two_leave_and_one_joins() {
        explore(3, || {
            let world = World::shared_by(2);
            let threads = [
                {
                    let world = Arc::clone(&world);
                    thread::spawn(move || world.leave(1, 1, 1))
                },
                {
                    let world = Arc::clone(&world);
                    thread::spawn(move || world.join(2).is_some_and(|at| world.leave(2, at, 1)))
                },
            ];
            let mut freed = u32::from(world.leave(0, 0, 1));
            for thread in threads {
                freed += u32::from(thread.join().unwrap());
            }
            assert_eq!(freed, 1);
            world.nothing_is_left();
        });
    }

    /// A late process enters a row that serves the next sharing, and does no harm there.
    #[test]
    fn loom_share_a_late_joiner_beside_the_next_sharing() {
        explore(3, || {
            let world = World::shared_by(1);
            let late = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.join(1).is_some_and(|at| world.leave(1, at, 1)))
            };
            if world.leave(0, 0, 1) {
                let next = Serves { number: 2, reference: REFERENCE };
                assert!(world.holders.take(None, next));
                let at = world.holders.enter(TokenId::new(0, 0), 2, &nobody_ended).unwrap();
                let sharing = Sharing::begin(2, line_of(at)).word();
                world
                    .tag
                    .compare_exchange(owned(0), sharing, Ordering::Release, Ordering::Relaxed)
                    .unwrap();
                assert!(world.leave(0, at, 2), "nobody else is among these holders");
            }
            late.join().unwrap();
            world.nothing_is_left();
        });
    }

    /// A holder that would have the object alone, with its own cell kept, while another process
    /// joins.
    #[test]
    fn loom_share_alone_again_beside_a_join() {
        explore_all(|| {
            let world = World::shared_by(1);
            let joining = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.join(1).map(|at| world.leave(1, at, 1)))
            };
            let serves = Serves { number: 1, reference: REFERENCE };
            let alone = free(&world.tag, owned(0), &world.holders, serves, Some(0), &nobody_ended);
            if alone {
                world.write(8);
            } else {
                world.leave(0, 0, 1);
            }
            let joined = joining.join().unwrap();
            assert!(!alone || joined.is_none(), "alone is alone");
            assert!(world.tag.load(Ordering::Relaxed) >> 59 == OWNED >> 59);
            world.nothing_is_left();
        });
    }
}
