//! Which threads sleep in a domain, and on what.
//!
//! A sleeper's record in the registry (`wake/record.rs`) holds an address in its own memory;
//! `/proc/PID/maps` tells which file lies there. So only those sleepers are seen whose maps the
//! caller may read: its own user's, in its own pid namespace.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use crate::claim::Holder;
use crate::liveness::{Registry, TokenId};
use crate::segment::{BODY, Segment};
use crate::shim::{AtomicU32, Ordering};
use crate::sync::LockDetail;
use crate::sys::process;
use crate::wake::FoundRecord;

/// Describes a thread that sleeps until something in a domain changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The thread.
    pub who: Holder,
    /// How long it has waited.
    pub waited: Duration,
    /// Where the word lies on which it sleeps: bytes from the start of the thing (in a record, of
    /// the user's struct).
    pub offset: u64,
    /// The thread that holds what it waits for, if one does.
    pub holder: Option<Holder>,
    /// For how long, at least, that holder has held it, as seen by the waiter.
    pub held: Option<Duration>,
}

/// A record and the file that it points into.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Located {
    noted: FoundRecord,
    file: (u64, u64),
    offset: u64,
}

/// All sleepers of a domain whose files are known.
pub(super) struct Waits(Vec<Located>);

impl Waits {
    pub(super) fn now(registry: &'static Registry) -> Waits {
        let mut maps: HashMap<u32, Vec<Range>> = HashMap::new();
        let own_proc = process::has_own_proc();
        let located = (0..registry.slots()).filter_map(|index| {
            let noted = registry.note(index)?;
            let info = registry
                .info(index)
                .filter(|info| info.id == noted.waiter && info.same_namespace)?;
            let ranges = maps.entry(info.pid).or_insert_with(|| Range::all(info.pid));
            let range =
                ranges.iter().find(|range| (range.start..range.end).contains(&noted.address))?;
            let offset = range.offset + (noted.address - range.start);
            // Still asleep there: so its process had that pid when its maps were read.
            (registry.note(index) == Some(noted)).then_some(Located {
                noted,
                file: range.file,
                offset,
            })
        });
        Waits(if own_proc { located.collect() } else { Vec::new() })
    }

    /// Returns the sleepers on that file. `locks`: what it contains, and where each begins.
    pub(super) fn of(
        &self,
        registry: &'static Registry,
        segment: &Segment,
        file: (u64, u64),
        locks: &[(u64, LockDetail)],
    ) -> Vec<Waiter> {
        let mut waiters: Vec<Waiter> = self
            .0
            .iter()
            .filter(|located| located.file == file)
            .map(|located| {
                let lock = locks
                    .iter()
                    .filter(|(begin, _)| *begin <= located.offset)
                    .max_by_key(|(begin, _)| *begin);
                let holders = lock.map_or(&[][..], |(_, lock)| &lock.holders);
                // A claim in the word itself, or the only claim in the lock.
                let word = segment
                    .at::<AtomicU32>(located.offset)
                    .map_or(0, |word| word.load(Ordering::Acquire));
                let claim = TokenId::from_word(word).filter(|_| located.offset >= BODY);
                let holder = match (claim, holders) {
                    (Some(token), _) => Some(Holder::of(registry, token)),
                    (None, [one]) => Some(one.clone()),
                    _ => None,
                };
                Waiter {
                    who: Holder::of(registry, located.noted.waiter),
                    waited: located.noted.waited(),
                    offset: located.offset.saturating_sub(BODY),
                    held: holder.as_ref().and_then(|_| located.noted.unchanged()),
                    holder,
                }
            })
            .collect();
        waiters.sort_by_key(|waiter| std::cmp::Reverse(waiter.waited));
        waiters
    }
}

/// A line of `/proc/PID/maps` that maps a file.
struct Range {
    start: u64,
    end: u64,
    /// The offset of `start` in the file.
    offset: u64,
    file: (u64, u64),
}

impl Range {
    fn all(pid: u32) -> Vec<Range> {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps.split(|byte| *byte == b'\n').filter_map(Range::of_line).collect()
    }

    fn of_line(line: &[u8]) -> Option<Range> {
        let file = process::mapped_file(line)?;
        // The path may be any bytes; the wanted fields are before it.
        let line = String::from_utf8_lossy(line);
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Range { start: number(start)?, end: number(end)?, offset: number(offset)?, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_taken_apart() {
        let line = b"7f2d77400000-7f2d77402000 rw-s 00003000 00:1a 1234                       /dev/shm/x \xff";
        let range = Range::of_line(line).expect("a file's");
        assert_eq!(
            (range.start, range.end, range.offset),
            (0x7f2d_7740_0000, 0x7f2d_7740_2000, 0x3000)
        );
        assert_eq!(range.file.1, 1234);
        assert!(Range::of_line(b"7ffe-7fff rw-p 00000000 00:00 0 [stack]").is_none());
        assert!(Range::of_line(b"nonsense").is_none());
    }
}
