//! Which parts of a topic's memory this process has registered with the driver:
//! doc/protocols/gpu.md, "Pinned topics".
//!
//! | state of a unit | how it got there | a copy there |
//! | --- | --- | --- |
//! | not in the table | | registers the part that has pages |
//! | registered in pieces | | registers the part that has got pages since, as one more piece |
//! | of another generation | the heap gave its pages back | unregisters the old one: no copy is under way there, or it would still be of this generation |
//!
//! A death leaves nothing: the tables are private memory, and the kernel undoes what the driver
//! did.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive::topic::PayloadMemory;

use crate::gpu::{Current, Gpu};
use crate::under_way::{self, Keeps, UnderWay};
use crate::{GpuError, api};

/// A topic's memory, as registered by one context. Kept by the topic's ends, and by each copy that
/// is under way.
pub(crate) struct Pins {
    /// Until it is dropped.
    registered: Option<Registered>,
    under_way: Arc<UnderWay>,
}

/// Returns which memory an address lies in: keeps it mapped.
type MemoryOf = Box<dyn Fn(*const u8) -> Option<PayloadMemory> + Send + Sync>;

struct Registered {
    /// Unregistered before the memory is unmapped.
    table: Mutex<Table>,
    memory_of: MemoryOf,
    gpu: Gpu,
}

/// By the address where each begins.
type Table = BTreeMap<usize, Unit>;

struct Unit {
    generation: u64,
    /// Where the unit ends, including the part that may get pages.
    end: usize,
    /// Where its first piece begins and each one ends.
    borders: Vec<usize>,
}

/// Why a copy was not made.
pub(crate) struct NotCopied {
    pub(crate) error: GpuError,
    /// Whether part of it was enqueued.
    pub(crate) has_begun: bool,
}

impl From<GpuError> for NotCopied {
    fn from(error: GpuError) -> NotCopied {
        NotCopied { error, has_begun: false }
    }
}

impl Pins {
    pub(crate) fn new(gpu: &Gpu, memory_of: MemoryOf) -> Pins {
        let registered = Registered { table: Mutex::default(), memory_of, gpu: gpu.clone() };
        Pins { registered: Some(registered), under_way: Arc::default() }
    }

    fn registered(&self) -> &Registered {
        match &self.registered {
            Some(registered) => registered,
            None => unreachable!("taken when it is dropped"),
        }
    }

    /// Copies to or from memory that the caller has: calls `copy` for each part that is registered
    /// as one, with its beginning and its length.
    pub(crate) fn copy(
        &self,
        address: *const u8,
        len: usize,
        copy: impl FnMut(usize, usize) -> Result<(), GpuError>,
    ) -> Result<(), NotCopied> {
        let current = self.gpu().enter()?;
        self.registered().copy(&current, address, len, copy)
    }

    /// Returns how many bytes are registered.
    pub(crate) fn bytes(&self) -> usize {
        let table = self.registered().lock();
        table.values().filter_map(|unit| Some(unit.borders.last()? - unit.borders.first()?)).sum()
    }
}

impl Keeps for Pins {
    fn under_way(&self) -> &Arc<UnderWay> {
        &self.under_way
    }

    fn gpu(&self) -> &Gpu {
        &self.registered().gpu
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        under_way::undo(self.registered.take());
    }
}

impl Registered {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn copy(
        &self,
        current: &Current<'_>,
        address: *const u8,
        len: usize,
        mut copy: impl FnMut(usize, usize) -> Result<(), GpuError>,
    ) -> Result<(), NotCopied> {
        let mut table = self.lock();
        let (from, to) = (address.addr(), address.addr() + len);
        // Short messages lie elsewhere; and where no memory can be registered, the driver has
        // buffers of its own.
        let borders = match (self.memory_of)(address) {
            Some(memory) => self.prepare(current, &mut table, &memory, to)?,
            None => &[],
        };
        let mut at = from;
        while at < to {
            let end = borders
                .iter()
                .copied()
                .find(|&border| border > at)
                .map_or(to, |border| border.min(to));
            copy(at - from, end - at).map_err(|error| NotCopied { error, has_begun: at > from })?;
            at = end;
        }
        Ok(())
    }

    /// Registers what has to be, up to that address; returns the borders of the pieces.
    fn prepare<'t>(
        &self,
        current: &Current<'_>,
        table: &'t mut Table,
        memory: &PayloadMemory,
        to: usize,
    ) -> Result<&'t [usize], GpuError> {
        let Some(flags) = self.gpu.flags(memory.is_writable) else { return Ok(&[]) };
        let (start, end) = (memory.start.addr(), memory.start.addr() + memory.max_bytes);
        let is_known = |unit: &Unit| unit.generation == memory.generation && unit.end == end;
        if !table.get(&start).is_some_and(|unit| is_known(unit) && unit.borders.last() >= Some(&to))
        {
            // Other units at this place are over: a copy under way would keep its object, and so
            // the unit's generation.
            let over = |(&at, unit): (&usize, &Unit)| {
                let overlaps = at < end && start < unit.end;
                (overlaps && !(at == start && is_known(unit))).then_some(at)
            };
            for at in table.iter().filter_map(over).collect::<Vec<_>>() {
                let unit = table.remove(&at);
                unit.map_or(Ok(()), |unit| self.unregister(current, &unit))?;
            }
            let fresh = || Unit { generation: memory.generation, end, borders: vec![start] };
            let unit = table.entry(start).or_insert_with(fresh);
            let until = unit.borders.last().copied().unwrap_or(start);
            let page = rustix::param::page_size();
            let wanted = (start + memory.bytes).next_multiple_of(page);
            if wanted > until {
                // Derived from the address as which the memory was given.
                let at = memory.start.wrapping_add(until - start).cast_mut().cast::<c_void>();
                // SAFETY: mapped as long as `memory_of` exists, with pages throughout; it was
                // unregistered before.
                let code = unsafe { (self.gpu.api().register)(at, wanted - until, flags) };
                if code == api::NOT_SUPPORTED {
                    return Ok(&[]);
                }
                self.gpu.checked("cuMemHostRegister", code)?;
                unit.borders.push(wanted);
            }
        }
        Ok(table.get(&start).map_or(&[], |unit| &unit.borders))
    }

    /// Unregisters all pieces, whatever becomes of each; returns the first error.
    fn unregister(&self, _current: &Current<'_>, unit: &Unit) -> Result<(), GpuError> {
        let pieces = unit.borders.split_last().map_or(&[][..], |(_, starts)| starts);
        let mut result = Ok(());
        for &start in pieces {
            let at = std::ptr::without_provenance_mut(start);
            // SAFETY: `prepare` registered it as a piece that begins there, once; no copy is under
            // way in it.
            let code = unsafe { (self.gpu.api().unregister)(at) };
            result = result.and(self.gpu.checked("cuMemHostUnregister", code));
        }
        result
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.gpu.is_ours() {
            return;
        }
        let table = std::mem::take(&mut *self.lock());
        // The context is gone, and with it what was registered in it.
        let Ok(current) = self.gpu.enter() else { return };
        for unit in table.values() {
            // Errors: the context is gone; and there is no caller to report them to.
            let _ = self.unregister(&current, unit);
        }
    }
}
