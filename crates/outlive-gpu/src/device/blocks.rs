//! A device topic's blocks in this process: its own, and those of other processes that it has
//! mapped.
//!
//! A block goes with an object of the topic's heap, its card, so the tables are keyed by the card's
//! address in this process. While a card is lent, published or held, its block does not change. A
//! publisher that gets the card as a loan knows that no subscriber holds it, and may give it
//! another block: so a subscriber that receives a card at the same address with another block knows
//! that the earlier block is no longer in use there.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive::{Deadline, Domain, TokenId};

use super::asker;
use super::card::Says;
use super::exporter::{self, Exporter};
use super::mapping::{self, Mapping};
use crate::gpu::Gpu;
use crate::under_way::{self, Keeps, UnderWay};
use crate::{DevicePointer, GpuError};

/// Kept by the topic's ends and samples, and by each host function.
pub(crate) struct Blocks {
    /// Until it is dropped.
    tables: Option<Tables>,
    under_way: Arc<UnderWay>,
}

struct Tables {
    own: Mutex<HashMap<usize, Arc<Block>>>,
    others: Mutex<HashMap<usize, Other>>,
    /// From the first block on.
    exporter: Mutex<Option<Arc<Exporter>>>,
    domain: Domain,
    granularity: u64,
    gpu: Gpu,
}

/// A block of this process's. Dropped, no process can ask for it any more; a process that has it
/// mapped keeps it.
pub(crate) struct Block {
    number: u64,
    mapping: Arc<Mapping>,
    exporter: Arc<Exporter>,
}

/// Another process's block.
struct Other {
    exporter: TokenId,
    number: u64,
    mapping: Arc<Mapping>,
}

impl Block {
    pub(crate) fn address(&self) -> DevicePointer {
        self.mapping.address()
    }

    pub(crate) fn len(&self) -> u64 {
        self.mapping.len()
    }

    /// Returns whether it has room for so many bytes, and not for far more.
    pub(crate) fn fits(&self, len: u64) -> bool {
        self.len() >= len && self.len() / 2 <= len
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.exporter.withdraw(self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Blocks {
    pub(crate) fn new(gpu: &Gpu, domain: &Domain) -> Result<Blocks, GpuError> {
        gpu.can_share()?;
        let granularity = mapping::granularity(gpu)?;
        let (own, others, exporter) = (Mutex::default(), Mutex::default(), Mutex::default());
        let tables =
            Tables { own, others, exporter, domain: domain.clone(), granularity, gpu: gpu.clone() };
        Ok(Blocks { tables: Some(tables), under_way: Arc::default() })
    }

    fn tables(&self) -> &Tables {
        match &self.tables {
            Some(tables) => tables,
            None => unreachable!("taken when it is dropped"),
        }
    }

    /// Returns how long a block for so many bytes is; `None`: too large for any.
    pub(crate) fn block_len(&self, len: u64) -> Option<u64> {
        len.max(1).checked_next_multiple_of(self.tables().granularity)
    }

    /// Returns the block of the card at that address.
    pub(crate) fn own(&self, card: usize) -> Option<Arc<Block>> {
        lock(&self.tables().own).get(&card).cloned()
    }

    /// Makes a new block, for a card that is lent.
    pub(crate) fn make(&self, len: u64) -> Result<Arc<Block>, GpuError> {
        let tables = self.tables();
        let exporter = {
            let mut exporter = lock(&tables.exporter);
            match &*exporter {
                Some(exporter) => Arc::clone(exporter),
                None => Arc::clone(exporter.insert(Exporter::of(&tables.domain)?)),
            }
        };
        let (mapping, file) = Mapping::create(&tables.gpu, len)?;
        let mapping = Arc::new(mapping);
        let number = exporter.offer(&mapping, file);
        Ok(Arc::new(Block { number, mapping, exporter }))
    }

    /// Gives that card that block in place of the one that it had: no process can hold the old one
    /// that would have to be asked.
    pub(crate) fn bind(&self, card: usize, block: Arc<Block>) {
        let before = lock(&self.tables().own).insert(card, block);
        // Outside the lock: the drop calls the driver.
        drop(before);
    }

    /// Gives up the blocks of these cards, which are lent.
    pub(crate) fn unbind(&self, cards: &HashSet<usize>) {
        let mut own = lock(&self.tables().own);
        let given_up: Vec<_> = cards.iter().filter_map(|card| own.remove(card)).collect();
        drop(own);
        drop(given_up);
    }

    /// Returns what a card has to say about its block.
    pub(crate) fn says(&self, block: &Block, len: u64) -> Says {
        let (exporter, gpu) = (block.exporter.token(), self.gpu().identity());
        Says { exporter, number: block.number, bytes: block.len(), len, gpu }
    }

    /// Returns where the block is mapped that a held card names. Asks for the block, if need be.
    pub(crate) fn find(
        &self,
        card: usize,
        says: &Says,
        deadline: Deadline,
    ) -> Result<Arc<Mapping>, GpuError> {
        let tables = self.tables();
        if says.gpu != tables.gpu.identity() {
            return Err(GpuError::OtherGpu);
        }
        let is_it = |other: &Other| other.exporter == says.exporter && other.number == says.number;
        if let Some(other) = lock(&tables.others).get(&card).filter(|other| is_it(other)) {
            return Ok(Arc::clone(&other.mapping));
        }
        if tables.domain.process_token()? == says.exporter {
            let own = exporter::own(&tables.domain, says.exporter, says.number);
            return own.ok_or(GpuError::BlockGone { owner: says.exporter });
        }
        let file = asker::ask(&tables.domain, says, deadline)?;
        let mapping = Arc::new(Mapping::import(&tables.gpu, file.as_fd(), says.bytes)?);
        let other =
            Other { exporter: says.exporter, number: says.number, mapping: Arc::clone(&mapping) };
        let mut others = lock(&tables.others);
        // Another subscriber of this process may have been first: one of the two goes with its last
        // sample.
        let before = others.insert(card, other);
        drop(others);
        drop(before);
        Ok(mapping)
    }

    /// Unmaps blocks that no sample lies in; returns how many bytes.
    pub(crate) fn unmap_unheld(&self) -> u64 {
        let mut others = lock(&self.tables().others);
        let unheld = |_: &usize, other: &mut Other| Arc::strong_count(&other.mapping) == 1;
        let unmapped: Vec<_> = others.extract_if(unheld).collect();
        drop(others);
        unmapped.iter().map(|(_, other)| other.mapping.len()).sum()
    }

    pub(crate) fn own_bytes(&self) -> u64 {
        lock(&self.tables().own).values().map(|block| block.len()).sum()
    }

    pub(crate) fn mapped_bytes(&self) -> u64 {
        lock(&self.tables().others).values().map(|other| other.mapping.len()).sum()
    }
}

impl Keeps for Blocks {
    fn under_way(&self) -> &Arc<UnderWay> {
        &self.under_way
    }

    fn gpu(&self) -> &Gpu {
        &self.tables().gpu
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        under_way::undo(self.tables.take());
    }
}
