//! Reading the latest value, in a bounded number of steps whatever the writer does.
//!
//! | a get | has | a reader that dies or stops here |
//! | --- | --- | --- |
//! | reads `latest`, copies, compares the stamp | nothing in shared memory | has no effect |
//! | overtaken three times: a cell → {me, ASKING}, heavy fence | a cell that asks | the next set turns it into a pin of the latest |
//! | `latest`; ASKING → PIN(its buffer), or the writer has done it | a buffer that is not written | that buffer is not reused while the thread lives |
//! | copies, clears the cell | | a dead thread's cell: the next set, the next reader that needs one, or a sweep clears it |
//!
//! doc/protocols/state.md has the argument, proof/models/state.pml checks it.

use super::Inner;
use super::buffers::Buffer;
use super::layout::{Cell, Latest};
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::segment::copy_out;
use crate::shim::{AtomicU64, Ordering, fence};
use crate::sys::barrier;

/// Copies without a pin, before a reader asks for one.
const OPTIMISTIC: u32 = if cfg!(loom) { 1 } else { 3 };
/// Copies after which a reader concludes that the words are being tampered with. A get with a pin
/// needs one more than OPTIMISTIC; this limit is for readers that cannot get one.
const MOST_TRIES: u32 = 100_000;

/// The outcome of a copy.
enum Copied {
    Whole(usize),
    Overtaken,
    /// Whole, and of an impossible length.
    Nonsense,
}

impl Inner {
    /// Copies the latest value. Returns its version, and its length as `len_of` read it: `None` is
    /// an impossible one.
    ///
    /// # Safety
    /// The caller guarantees that `to` can be written for as many bytes as `len_of` returns, which
    /// are no more than a buffer holds.
    #[inline]
    pub(super) unsafe fn read(
        &self,
        to: *mut u8,
        len_of: impl Fn(Buffer<'_>) -> Option<usize>,
    ) -> Result<(u64, usize), Error> {
        // Acquire pairs with the Release in `publish`: the buffer is seen as it was then, or later.
        let latest = Latest(self.buffers.head().latest.load(Ordering::Acquire));
        let buffer = self.buffers.get(latest.buffer())?;
        // SAFETY: the caller of `read` guarantees room at `to` for what `len_of` returns.
        match unsafe { copy(buffer, latest.version(), to, &len_of) } {
            Copied::Whole(len) => Ok((latest.version(), len)),
            // SAFETY: the caller of `read` guarantees room at `to` for what `len_of` returns.
            failed => unsafe { self.read_slow(latest, failed, 1, to, &len_of) },
        }
    }

    /// # Safety
    /// The caller guarantees what [`Inner::read`] asks for.
    #[cold]
    #[inline(never)]
    unsafe fn read_slow(
        &self,
        mut seen: Latest,
        mut copied: Copied,
        copies: u32,
        to: *mut u8,
        len_of: &impl Fn(Buffer<'_>) -> Option<usize>,
    ) -> Result<(u64, usize), Error> {
        let mut version = seen.version();
        let mut pin = None;
        for tries in copies..MOST_TRIES {
            match copied {
                Copied::Whole(len) => return Ok((version, len)),
                Copied::Nonsense => return Err(self.buffers.segment.damaged("a value's length")),
                Copied::Overtaken => {}
            }
            // Under loom this is what the proof claims.
            #[cfg(loom)]
            assert!(pin.is_none(), "a pinned buffer was written");
            // Dropped before another one is asked for.
            drop(pin.take());
            // Acquire pairs with the Release of the stamp that did not fit: this thread sees what
            // came before it, another `latest`.
            fence(Ordering::Acquire);
            let latest = Latest(self.buffers.head().latest.load(Ordering::Acquire));
            if latest == seen {
                return Err(self.buffers.segment.damaged("a value's stamp"));
            }
            seen = latest;
            if tries >= OPTIMISTIC {
                pin = self.registry.me().ok().and_then(|me| self.pin(me));
            }
            let buffer =
                self.buffers.get(pin.as_ref().map_or(latest.buffer(), |pin| pin.buffer))?;
            // Acquire pairs with the Release of the stamp: a pinned buffer's value is there.
            version =
                pin.as_ref().map_or(latest.version(), |_| buffer.stamp.load(Ordering::Acquire));
            // SAFETY: the caller of `read` guarantees room at `to` for what `len_of` returns.
            copied = unsafe { copy(buffer, version, to, len_of) };
        }
        Err(self.buffers.segment.damaged("a value that changes under its readers"))
    }
}

/// Copies a buffer if it holds that version.
///
/// # Safety
/// The caller guarantees what [`Inner::read`] asks for.
#[inline]
unsafe fn copy(
    buffer: Buffer<'_>,
    version: u64,
    to: *mut u8,
    len_of: &impl Fn(Buffer<'_>) -> Option<usize>,
) -> Copied {
    let len = len_of(buffer);
    if let Some(len) = len {
        // SAFETY: `len_of` returned `len`, and the caller guarantees room for that; the buffer's
        // words hold as many.
        unsafe { copy_out(buffer.words, to, len) };
    }
    // Acquire pairs with the Release fence in `fill`: a reader that has read one word of a later
    // value now sees its stamp.
    fence(Ordering::Acquire);
    match len {
        // Version 0 is a buffer that is being written, and no reader asks for it.
        _ if version == 0 || buffer.stamp.load(Ordering::Relaxed) != version => Copied::Overtaken,
        Some(len) => Copied::Whole(len),
        None => Copied::Nonsense,
    }
}

/// A buffer that is not written while this lives.
struct Pin<'a> {
    cell: &'a AtomicU64,
    buffer: u32,
}

impl Inner {
    /// Pins the latest value's buffer; `None` when living threads have all cells.
    #[cold]
    fn pin(&self, me: Me) -> Option<Pin<'_>> {
        let head = self.buffers.head();
        let mine = Cell::asking(me.id);
        let (index, cell) = head.cells.iter().enumerate().find(|(_, cell)| {
            let seen = cell.load(Ordering::Relaxed);
            let free = Cell(seen).owner().is_none_or(|id: TokenId| !me.is_alive(id));
            // AcqRel: a sweep or a writer that took a dead thread's name out comes before this
            // thread. A death just after: as in the table.
            free && cell.compare_exchange(seen, mine.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        head.used.fetch_max(index as u32 + 1, Ordering::AcqRel);
        // The cell before the look: pairs with `light` in a set, between `latest` and the look at
        // the cells. If the kernel denies it, a set may overlook the cell for a moment, and the
        // stamp will tell.
        barrier::heavy();
        let latest = Latest(head.latest.load(Ordering::Acquire));
        let pin = mine.pin(latest.buffer());
        // Acquire pairs with the writer's Release in `busy`: this reader sees what the writer
        // pinned for it.
        match cell.compare_exchange(mine.0, pin.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(Pin { cell, buffer: latest.buffer() }),
            Err(now) if Cell(now).owner() == Some(me.id) => {
                Some(Pin { cell, buffer: Cell(now).pinned().unwrap_or(latest.buffer()) })
            }
            // A stray write removed this thread's name: nothing is pinned.
            Err(_) => None,
        }
    }
}

impl Inner {
    /// Reads as a reader that has been overtaken so often that it pins: for tests, which cannot
    /// bring that about at will.
    ///
    /// # Safety
    /// The caller guarantees what [`Inner::read`] asks for.
    #[cfg(any(test, feature = "testing"))]
    #[cold]
    pub(super) unsafe fn read_overtaken(
        &self,
        to: *mut u8,
        len_of: impl Fn(Buffer<'_>) -> Option<usize>,
    ) -> Result<(u64, usize), Error> {
        // SAFETY: the caller guarantees room at `to` for what `len_of` returns. No `latest` is 0.
        unsafe { self.read_slow(Latest(0), Copied::Overtaken, OPTIMISTIC, to, &len_of) }
    }

    /// Leaves what a reader leaves that dies with a pin.
    #[cfg(loom)]
    pub(super) fn pin_for_good(&self) {
        core::mem::forget(self.registry.me().ok().and_then(|me| self.pin(me)));
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `busy`: the copy is over before the buffer is written.
        // A death just before leaves a dead thread's name. Just after, nothing is left.
        self.cell.store(Cell::FREE.0, Ordering::Release);
    }
}
