//! The comparison: what was acknowledged against what was received, record by record.
//!
//! It runs beside the demo and follows both journals, so that at the end only the last records are
//! left to compare.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::journal::{Journal, Side};
use super::ledger::{Figures, Ledger};

/// The comparison of all sources.
pub struct Audit {
    sources: Vec<Source>,
}

struct Source {
    acknowledged: Journal,
    received: Journal,
    /// Records before this one have been compared.
    compared: u64,
    forgotten: u64,
    bytes: u64,
    differing: u64,
}

/// Give memory back after so many records.
const FORGET_AFTER: u64 = 1 << 19;

impl Audit {
    /// Begins the comparison.
    pub fn new(folder: &Path, sources: u32) -> io::Result<Audit> {
        let source = |source| {
            Ok(Source {
                acknowledged: Journal::open(folder, Side::Acknowledged, source)?,
                received: Journal::open(folder, Side::Received, source)?,
                compared: 0,
                forgotten: 0,
                bytes: 0,
                differing: 0,
            })
        };
        Ok(Audit { sources: (0..sources).map(source).collect::<io::Result<_>>()? })
    }

    /// Compares what is there by now.
    pub fn follow(&mut self, ledger: &Ledger) -> io::Result<()> {
        for (source, acknowledged) in self.sources.iter_mut().zip(&ledger.acknowledged) {
            let end = acknowledged.load(Ordering::Acquire);
            while source.compared < end && source.compare_next()? {}
            if source.compared - source.forgotten >= FORGET_AFTER {
                source.acknowledged.forget_before(source.compared)?;
                source.received.forget_before(source.compared)?;
                source.forgotten = source.compared;
            }
        }
        Ok(())
    }

    /// Records compared so far, and their bytes.
    pub fn compared(&self) -> Figures {
        Figures {
            records: self.sources.iter().map(|source| source.compared).sum(),
            bytes: self.sources.iter().map(|source| source.bytes).sum(),
        }
    }

    /// Compares what is left, now that nothing comes any more. Returns how many were acknowledged
    /// and not received.
    pub fn finish(&mut self, ledger: &Ledger) -> io::Result<u64> {
        let mut lost = 0;
        for (source, acknowledged) in self.sources.iter_mut().zip(&ledger.acknowledged) {
            while source.compared < acknowledged.load(Ordering::Acquire) {
                if !source.compare_next()? {
                    lost += 1;
                    // Acknowledged all the same: the sums are about those.
                    source.bytes += source
                        .acknowledged
                        .read(source.compared)?
                        .map_or(0, |entry| entry.length());
                    source.compared += 1;
                }
            }
        }
        Ok(lost)
    }

    /// Records whose length or checksum on arrival was not the one they were sent with.
    pub fn differing(&self) -> u64 {
        self.sources.iter().map(|source| source.differing).sum()
    }
}

impl Source {
    /// Compares the next record; returns false if it has not been received yet.
    fn compare_next(&mut self) -> io::Result<bool> {
        let Some(received) = self.received.read(self.compared)? else { return Ok(false) };
        let acknowledged = self.acknowledged.read(self.compared)?;
        self.differing += u64::from(acknowledged != Some(received));
        self.bytes += acknowledged.map_or(0, |entry| entry.length());
        self.compared += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::Entry;
    use super::*;

    /// Journals of one source: what was acknowledged and what was received, by checksum.
    fn audit(name: &str, acknowledged: &[u32], received: &[Option<u32>]) -> (u64, u64, Figures) {
        let folder =
            std::env::temp_dir().join(format!("outlive-test-audit-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let domain = outlive::Domain::open_or_create_at(folder.join("domain")).expect("a domain");
        let ledger = Ledger::open(&domain).unwrap();
        let mut sent = Journal::open(&folder, Side::Acknowledged, 0).expect("made");
        let mut came = Journal::open(&folder, Side::Received, 0).expect("made");
        for (number, sum) in acknowledged.iter().enumerate() {
            sent.write(number as u64, Entry::new(10, *sum)).expect("written");
        }
        for (number, sum) in received.iter().enumerate() {
            if let Some(sum) = sum {
                came.write(number as u64, Entry::new(10, *sum)).expect("written");
            }
        }
        ledger.acknowledged[0].store(acknowledged.len() as u64, Ordering::Release);
        let mut audit = Audit::new(&folder, 1).expect("begun");
        audit.follow(&ledger).expect("followed");
        let lost = audit.finish(&ledger).expect("finished");
        std::fs::remove_dir_all(&folder).expect("removed");
        (lost, audit.differing(), audit.compared())
    }

    #[test]
    fn a_missing_record_is_lost_and_a_changed_one_differs() {
        let all = |records| Figures { records, bytes: records * 10 };
        assert_eq!(
            audit("whole", &[1, 2, 3], &[Some(1), Some(2), Some(3), Some(4)]),
            (0, 0, all(3))
        );
        assert_eq!(audit("lost", &[1, 2, 3], &[Some(1), None, Some(3)]), (1, 0, all(3)));
        assert_eq!(audit("none", &[1, 2], &[]), (2, 0, all(2)));
        assert_eq!(audit("changed", &[1, 2, 3], &[Some(1), Some(9), Some(3)]), (0, 1, all(3)));
    }
}
