//! Cycles in the recorded orders, and how they are reported.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::time::Duration;

use super::table::{LockKey, Pair, Recorded};
use crate::segment::BODY;
use crate::sys::clock;

/// A report has so many cycles at most.
const MOST_CYCLES: usize = 64;

/// Describes locks that were taken in contradicting orders: threads that take them so at one time
/// can deadlock.
///
/// They cannot if another lock, always taken first, keeps them apart; the record does not show
/// that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOrder {
    /// Each one's `wanted` is the next one's `held`; the last one's is the first one's.
    pub pairs: Vec<LockPair>,
}

/// Describes a lock that a thread wanted while it held another one, and the thread that did so
/// first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockPair {
    /// The lock that was held: its name, and its place if it lies in a record.
    pub held: String,
    /// Its name alone.
    pub held_name: String,
    /// The lock that was wanted.
    pub wanted: String,
    /// The process that did so first, as a pid of its own pid namespace.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// Its program.
    pub program: String,
    /// How long ago it did so.
    pub age: Duration,
}

impl fmt::Display for LockOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("locks are taken in orders that can deadlock: ")?;
        for (n, pair) in self.pairs.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            let (held, wanted) = (pair.held.escape_debug(), pair.wanted.escape_debug());
            let by = pair.program.escape_debug();
            write!(f, "{comma}'{wanted}' while holding '{held}' (process {}, {by})", pair.pid)?;
        }
        Ok(())
    }
}

/// For each lock, the pairs in which it is held.
struct Graph<'a>(HashMap<LockKey, Vec<&'a Pair>>);

impl<'a> Graph<'a> {
    fn of(pairs: &'a [Pair]) -> Graph<'a> {
        let mut graph: HashMap<LockKey, Vec<&Pair>> = HashMap::new();
        for pair in pairs {
            graph.entry(pair.held.key).or_default().push(pair);
        }
        Graph(graph)
    }

    /// Returns the shortest way from one lock to another. It visits each lock once, so it ends
    /// whatever the table says.
    fn way(&self, from: LockKey, to: LockKey) -> Option<Vec<&'a Pair>> {
        let mut came_by: HashMap<LockKey, &Pair> = HashMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(lock) = next.pop_front() {
            for &pair in self.0.get(&lock).into_iter().flatten() {
                let key = pair.wanted.key;
                if key == from || came_by.contains_key(&key) {
                    continue;
                }
                came_by.insert(key, pair);
                if key == to {
                    let mut way = vec![pair];
                    while let Some(&before) =
                        way.last().and_then(|pair| came_by.get(&pair.held.key))
                    {
                        way.push(before);
                    }
                    way.reverse();
                    return Some(way);
                }
                next.push_back(key);
            }
        }
        None
    }
}

fn told(cycle: &[&Pair]) -> LockOrder {
    let name = |lock: &Recorded, is_record: bool| match lock.key.offset.saturating_sub(BODY) {
        0 if !is_record => lock.name.clone(),
        offset => format!("{} at byte {offset}", lock.name),
    };
    // Two locks of one file: the file is a record, so its first lock needs its place in the name,
    // too.
    let files: Vec<u64> = cycle.iter().map(|pair| pair.held.key.inode).collect();
    let is_record =
        |lock: &Recorded| files.iter().filter(|&&inode| inode == lock.key.inode).count() > 1;
    let now = clock::monotonic_nanos();
    let pairs = cycle.iter().map(|pair| LockPair {
        held: name(&pair.held, is_record(&pair.held)),
        held_name: pair.held.name.clone(),
        wanted: name(&pair.wanted, is_record(&pair.wanted)),
        pid: pair.pid,
        tid: pair.tid,
        program: pair.program.clone(),
        age: Duration::from_nanos(now.saturating_sub(pair.at)),
    });
    LockOrder { pairs: pairs.collect() }
}

/// Returns the shortest cycle that this pair closes.
pub(super) fn through(pairs: &[Pair], held: LockKey, wanted: LockKey) -> Option<LockOrder> {
    let own = pairs.iter().find(|pair| (pair.held.key, pair.wanted.key) == (held, wanted))?;
    let mut cycle = Graph::of(pairs).way(wanted, held)?;
    cycle.insert(0, own);
    Some(told(&cycle))
}

/// Returns all cycles, the shortest through each pair.
pub(super) fn all(pairs: &[Pair]) -> Vec<LockOrder> {
    let graph = Graph::of(pairs);
    let mut seen: HashSet<Vec<LockKey>> = HashSet::new();
    let mut found = Vec::new();
    for pair in pairs {
        let Some(mut cycle) = graph.way(pair.wanted.key, pair.held.key) else { continue };
        cycle.insert(0, pair);
        // The same cycle always begins with the same lock.
        let first = (0..cycle.len()).min_by_key(|&at| cycle[at].held.key).unwrap_or(0);
        cycle.rotate_left(first);
        if seen.insert(cycle.iter().map(|pair| pair.held.key).collect()) {
            found.push(told(&cycle));
        }
        if found.len() == MOST_CYCLES {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(held: u64, wanted: u64) -> Pair {
        let lock =
            |n| Recorded { key: LockKey { inode: n, offset: BODY }, name: format!("lock{n}") };
        Pair {
            held: lock(held),
            wanted: lock(wanted),
            pid: 7,
            tid: 7,
            program: "p".to_owned(),
            at: 0,
        }
    }

    fn names(order: &LockOrder) -> Vec<&str> {
        order.pairs.iter().map(|pair| pair.held.as_str()).collect()
    }

    #[test]
    fn one_order_everywhere_is_no_ring() {
        let pairs: Vec<Pair> = (1..20).flat_map(|a| (a + 1..20).map(move |b| pair(a, b))).collect();
        assert!(all(&pairs).is_empty());
        let key = |n| LockKey { inode: n, offset: BODY };
        assert!(through(&pairs, key(1), key(2)).is_none());
    }

    #[test]
    fn rings_of_two_and_three_are_found_once() {
        let pairs =
            [pair(1, 2), pair(2, 3), pair(2, 1), pair(3, 4), pair(4, 2), pair(4, 5), pair(1, 2)];
        let found = all(&pairs);
        assert_eq!(
            found.iter().map(names).collect::<Vec<_>>(),
            [["lock1", "lock2"].to_vec(), vec!["lock2", "lock3", "lock4"]]
        );
        let key = |n| LockKey { inode: n, offset: BODY };
        let closed = through(&pairs, key(4), key(2)).expect("it closes one");
        assert_eq!(names(&closed), ["lock4", "lock2", "lock3"]);
        let text = closed.to_string();
        assert!(text.contains("'lock2' while holding 'lock4' (process 7, p)"), "{text}");
    }

    #[test]
    fn locks_of_one_record_are_told_with_their_places() {
        let lock = |offset| Recorded {
            key: LockKey { inode: 1, offset: BODY + offset },
            name: "line".to_owned(),
        };
        let pair =
            |held, wanted| Pair { held: lock(held), wanted: lock(wanted), ..self::pair(1, 1) };
        let found = all(&[pair(0, 16), pair(16, 0)]);
        assert_eq!(names(&found[0]), ["line at byte 0", "line at byte 16"]);
    }
}
