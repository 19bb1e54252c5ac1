//! Setting a value: never into a buffer that a reader has pinned.
//!
//! | a set | has written | the writer dies here |
//! | --- | --- | --- |
//! | chooses a buffer | cells of dead readers → 0; cells that ask → pins of the latest | the pins are right, whichever writer is next |
//! | has none: makes one more | a longer file, then `count` | the next writer makes it again |
//! | stamp → 0, bytes, stamp → version | a buffer that no reader looks for | the previous value is the latest; the buffer is free. The next writer takes the stamp out before its first set |
//! | `latest` → {version, buffer} | the value | it is set; sleeping waiters watch the writer's end |
//! | notifies | | the same |
//!
//! `claim/role.rs` says which thread may be here.

use std::sync::Arc;

use super::Inner;
use super::layout::{CELLS, Cell, Latest, MOST_BUFFERS};
use crate::claim::{HeldRole, Role};
use crate::liveness::Me;
use crate::segment::copy_in;
use crate::shim::{Ordering, fence};
use crate::{Deadline, Error, SendError};

/// The writer's role, as this process has it.
pub(super) struct RawWriter {
    pub(super) inner: Arc<Inner>,
    role: HeldRole,
}

impl RawWriter {
    pub(super) fn new(inner: Arc<Inner>, deadline: Deadline) -> Result<RawWriter, Error> {
        let role = inner.role().take("writer", &inner.buffers.segment, deadline)?;
        let writer = RawWriter { inner, role };
        writer.inner.unstamp()?;
        Ok(writer)
    }

    /// Returns the state, of which the calling thread is the writer.
    pub(super) fn enter(&mut self) -> Result<&Inner, SendError> {
        let inner = &*self.inner;
        let me = inner.registry.me().map_err(SendError::System)?;
        go_on_in(&mut self.role, inner, me)?;
        Ok(inner)
    }

    /// Sets the value and returns its version.
    #[inline]
    pub(super) fn set(&mut self, bytes: &[u8]) -> Result<u64, SendError> {
        self.set_marked(bytes, 0)
    }

    /// Sets the value with a mark beside its length, [`FOREIGN`](super::layout::FOREIGN) or none.
    #[inline]
    pub(super) fn set_marked(&mut self, bytes: &[u8], mark: u64) -> Result<u64, SendError> {
        let inner = &*self.inner;
        let me = inner.registry.me().map_err(SendError::System)?;
        go_on_in(&mut self.role, inner, me)?;
        let capacity = inner.buffers.capacity();
        if bytes.len() > capacity || inner.buffers.is_fixed() && bytes.len() != capacity {
            return Err(inner.wrong_length(bytes.len()));
        }
        // Relaxed: only the writer writes it; a predecessor's was seen with its role.
        let latest = Latest(inner.buffers.head().latest.load(Ordering::Relaxed));
        let version = latest.next_version();
        let buffer = inner.choose(me, latest)?;
        inner.fill(buffer, version, bytes, mark)?;
        inner.publish(Latest::new(version, buffer));
        Ok(version)
    }
}

/// Goes on as the writer in the calling thread, whichever it was before.
#[inline]
fn go_on_in(role: &mut HeldRole, inner: &Inner, me: Me) -> Result<(), SendError> {
    if !role.is_inside(me) {
        // Another thread has the writer now.
        *role = role.enter(inner.role(), me).ok_or(SendError::NotOwner)?;
    }
    Ok(())
}

impl RawWriter {
    /// Leaves the role as this process's death would.
    pub(super) fn disown(self) {
        self.role.disown(self.inner.role());
        // Waiters sleep on the role's word, which has changed; `drop` finds it left.
    }
}

impl Drop for RawWriter {
    fn drop(&mut self) {
        self.role.leave(self.inner.role());
    }
}

impl Inner {
    #[inline]
    pub(super) fn role(&self) -> Role<'_> {
        self.buffers.head().role.role(self.registry)
    }

    /// Takes out the stamp of a value that was not set, because its writer died before `latest`: the first set
    /// gives another value that version, and a tap that found both could not tell which was set.
    ///
    /// If this process died within, the next writer does it. No reader has a use for these stamps: `latest` has
    /// named none of these buffers with them.
    #[cold]
    fn unstamp(&self) -> Result<(), Error> {
        let head = self.buffers.head();
        // Relaxed: a predecessor's words were seen with its role, and only a writer writes them.
        let latest = Latest(head.latest.load(Ordering::Relaxed)).version();
        for index in 0..head.count.load(Ordering::Relaxed).min(MOST_BUFFERS) {
            let stamp = self.buffers.get(index)?.stamp;
            if stamp.load(Ordering::Relaxed) > latest {
                // Relaxed: before the Release of a `latest` that has that version, which a tap looks at first.
                stamp.store(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    #[cold]
    fn wrong_length(&self, len: usize) -> SendError {
        let most = self.buffers.capacity() as u64;
        if self.buffers.is_fixed() {
            SendError::OtherLength { len: len as u64, wanted: most }
        } else {
            SendError::TooLarge { len: len as u64, max: most }
        }
    }

    /// Returns a buffer to write: not the latest, and pinned by no living reader.
    #[inline]
    fn choose(&self, me: Me, latest: Latest) -> Result<u32, Error> {
        let head = self.buffers.head();
        // Relaxed: a reader has raised it before its `heavy`, and the last look at `latest`'s
        // readers was after this thread's `light`.
        let used = head.used.load(Ordering::Relaxed);
        let busy = if used == 0 { 0 } else { self.busy(me, latest, used as usize) };
        // Relaxed: only the writer writes it, which is this thread. The limit keeps a stray write
        // from leading outside.
        let count = head.count.load(Ordering::Relaxed).min(MOST_BUFFERS);
        let mut buffer = latest.buffer();
        // Round robin, so that each buffer stays unused as long as possible.
        for _ in 1..count {
            buffer = if buffer + 1 >= count { 0 } else { buffer + 1 };
            if busy >> buffer & 1 == 0 {
                return Ok(buffer);
            }
        }
        self.one_more(count)
    }

    /// Returns the pinned buffers, a bit each. Readers that ask get the latest.
    #[cold]
    fn busy(&self, me: Me, latest: Latest, used: usize) -> u128 {
        let mut busy = 0;
        for cell in &self.buffers.head().cells[..used.min(CELLS)] {
            // Acquire pairs with the Release of a pin that has gone: its copy is over.
            let mut seen = cell.load(Ordering::Acquire);
            let Some(owner) = Cell(seen).owner() else { continue };
            if !me.is_alive(owner) {
                // A failure: a living reader has it now, and asks: it gets the latest.
                match cell.compare_exchange(seen, Cell::FREE.0, Ordering::AcqRel, Ordering::Acquire)
                {
                    Ok(_) => continue,
                    Err(now) => seen = now,
                }
            } else if Cell(seen).is_asking() {
                let pin = Cell(seen).pin(latest.buffer());
                // Release: the reader sees the latest's bytes. A failure: it has pinned one itself.
                // Or it asks anew, and will see a `latest` that this set does not touch.
                match cell.compare_exchange(seen, pin.0, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => seen = pin.0,
                    Err(now) => seen = now,
                }
            }
            if let Some(buffer) = Cell(seen).pinned() {
                busy |= 1 << buffer;
            }
        }
        busy
    }

    #[cold]
    fn one_more(&self, count: u32) -> Result<u32, Error> {
        if !(2..MOST_BUFFERS).contains(&count) {
            return Err(self.buffers.segment.damaged("a state's cells"));
        }
        self.buffers.make(count)?;
        self.buffers.head().count.store(count + 1, Ordering::Release);
        Ok(count)
    }

    /// Makes so many buffers, at most as many as there may be; called by the writer.
    pub(super) fn make_buffers(&self, wanted: u32) -> Result<(), Error> {
        loop {
            // Relaxed: only the writer writes it, which is this thread.
            let count = self.buffers.head().count.load(Ordering::Relaxed);
            if count >= wanted {
                return Ok(());
            }
            self.one_more(count)?;
        }
    }

    #[inline]
    pub(super) fn fill(
        &self,
        buffer: u32,
        version: u64,
        bytes: &[u8],
        mark: u64,
    ) -> Result<(), Error> {
        let buffer = self.buffers.get(buffer)?;
        // Release: a reader that sees it sees a later `latest` than the one that led here.
        buffer.stamp.store(0, Ordering::Release);
        // Before the bytes: pairs with the Acquire fence in `copy`.
        fence(Ordering::Release);
        buffer.len.store(bytes.len() as u64 | mark, Ordering::Relaxed);
        copy_in(buffer.words, bytes);
        // Release: a reader that reads a pinned buffer by its stamp sees its bytes.
        buffer.stamp.store(version, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn publish(&self, latest: Latest) {
        let head = self.buffers.head();
        // Release pairs with the Acquire in `read`. A death just before: the previous value is the
        // latest. Just after: this one.
        head.latest.store(latest.0, Ordering::Release);
        // Also the fence between this and the next set's look at the cells.
        head.changes.notify_all();
    }
}
