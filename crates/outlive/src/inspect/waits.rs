//! Which threads sleep in a domain, on what, and whether some of them wait for each other in a
//! cycle.
//!
//! A sleeper's record in the registry (`wake/record.rs`) holds an address in its own memory;
//! `/proc/PID/maps` tells which file lies there. So only those sleepers are seen whose maps the
//! caller may read: its own user's, in its own pid namespace.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use super::entries::{Detail, Entry};
use crate::claim::Holder;
use crate::liveness::{Registry, TokenId};
use crate::segment::{BODY, Segment};
use crate::shim::{AtomicU32, Ordering};
use crate::sync::LockDetail;
use crate::sys::process;
use crate::wake::FoundRecord;
use crate::{Domain, Error};

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

/// Describes threads that wait for each other in a cycle: none goes on unless its wait has a
/// deadline, or one of them ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// Each waits for something that the next one holds; the last one waits for the first.
    pub ring: Vec<Blocked>,
}

/// Describes one thread of a [`Deadlock`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// The name of what it waits for.
    pub name: String,
    /// The thread, how long it has waited, and for whom.
    pub waiter: Waiter,
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

impl Domain {
    /// Finds threads that wait for each other's locks in a cycle, seen twice in a row.
    ///
    /// It sees locks of this domain whose owner is one thread, and sleepers of the caller's user
    /// and pid namespace.
    ///
    /// # Errors
    /// The system's error when the folder cannot be read.
    pub fn deadlocks(&self) -> Result<Vec<Deadlock>, Error> {
        let first = rings(&self.entries()?);
        if first.is_empty() {
            return Ok(first);
        }
        // A waiter that was woken and has not run yet looks as if it still slept.
        let again = rings(&self.entries()?);
        Ok(again.into_iter().filter(|ring| first.iter().any(|seen| seen.is_same(ring))).collect())
    }
}

impl Deadlock {
    /// Returns whether the same threads wait for the same things.
    fn is_same(&self, other: &Deadlock) -> bool {
        let key = |blocked: &Blocked| {
            (blocked.waiter.who.token, blocked.name.clone(), blocked.waiter.offset)
        };
        self.ring.iter().map(key).eq(other.ring.iter().map(key))
    }
}

/// Returns the cycles among the waiters.
fn rings(entries: &[Entry]) -> Vec<Deadlock> {
    let mut blocked: Vec<Blocked> = entries
        .iter()
        .filter(|entry| matches!(entry.detail, Detail::Lock(_) | Detail::Record { .. }))
        .flat_map(|entry| {
            let blocked =
                |waiter: &Waiter| Blocked { name: entry.name.clone(), waiter: waiter.clone() };
            entry
                .waiters
                .iter()
                .filter(|waiter| waiter.holder.as_ref().is_some_and(|h| h.alive))
                .map(blocked)
        })
        .collect();
    // So that the same cycle always begins with the same thread.
    blocked.sort_by_key(|blocked| blocked.waiter.who.token.as_u32());
    let by_waiter: HashMap<TokenId, &Blocked> =
        blocked.iter().map(|blocked| (blocked.waiter.who.token, blocked)).collect();
    let mut done: Vec<TokenId> = Vec::new();
    let mut found = Vec::new();
    for start in &blocked {
        let mut path: Vec<&Blocked> = Vec::new();
        let mut next = Some(start.waiter.who.token);
        // Each waits for one thread, so a path has no branches; it ends, or returns to where it has
        // been.
        while let Some(blocked) = next.and_then(|token| by_waiter.get(&token).copied()) {
            let token = blocked.waiter.who.token;
            if let Some(at) = path.iter().position(|seen| seen.waiter.who.token == token) {
                let ring = &path[at..];
                if !ring.iter().any(|one| done.contains(&one.waiter.who.token)) {
                    found.push(Deadlock { ring: ring.iter().map(|&one| one.clone()).collect() });
                }
                break;
            }
            path.push(blocked);
            next = blocked.waiter.holder.as_ref().map(|holder| holder.token);
        }
        done.extend(path.iter().map(|one| one.waiter.who.token));
    }
    found
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

    fn blocked(waiter: u32, holder: u32, name: &str) -> Waiter {
        let who = |n| Holder {
            token: TokenId::new(n, 1),
            pid: n,
            tid: n,
            program: format!("{name}'s"),
            alive: true,
        };
        Waiter {
            who: who(waiter),
            waited: Duration::from_secs(1),
            offset: 0,
            holder: Some(who(holder)),
            held: None,
        }
    }

    fn entry(name: &str, waiters: Vec<Waiter>) -> Entry {
        let mut entry = super::super::entries::empty(name);
        entry.detail = Detail::Lock(crate::sync::LockDetail::default());
        entry.waiters = waiters;
        entry
    }

    #[test]
    fn rings_are_found_once_and_tails_are_no_part_of_them() {
        // 1 → 2 → 3 → 1; 4 and 5 wait for threads in it; 6 waits for 7, which does not wait; 8 and
        // 9 for each other.
        let entries = [
            entry("a", vec![blocked(1, 2, "a"), blocked(4, 2, "a"), blocked(8, 9, "a")]),
            entry("b", vec![blocked(2, 3, "b"), blocked(6, 7, "b"), blocked(9, 8, "b")]),
            entry("c", vec![blocked(3, 1, "c"), blocked(5, 4, "c")]),
        ];
        let rings = rings(&entries);
        let names: Vec<String> = rings
            .iter()
            .map(|found| found.ring.iter().map(|one| one.name.clone()).collect())
            .collect();
        assert_eq!(names, ["abc", "ab"]);
        assert!(super::rings(&entries[..2]).len() == 1, "the ring of three is open without c");
        let mut dead = entries[0].clone();
        dead.waiters
            .iter_mut()
            .for_each(|waiter| waiter.holder.as_mut().expect("one").alive = false);
        assert!(
            super::rings(&[dead, entries[1].clone(), entries[2].clone()]).is_empty(),
            "the dead hold up nobody"
        );
    }

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
