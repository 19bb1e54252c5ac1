//! Whether threads of a domain wait for each other in a cycle.

use std::collections::HashMap;

use super::entries::{Detail, Entry};
use super::waits::Waiter;
use crate::liveness::TokenId;
use crate::{Domain, Error};

/// Describes threads that wait for each other in a cycle: none goes on unless its wait has a
/// deadline, or one of them ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// Each waits for something that the next one holds; the last one waits for the first.
    pub cycle: Vec<Blocked>,
}

/// Describes one thread of a [`Deadlock`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// The name of what it waits for.
    pub name: String,
    /// The thread, how long it has waited, and for which holder.
    pub waiter: Waiter,
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
        let first = cycles(&self.entries()?);
        if first.is_empty() {
            return Ok(first);
        }
        // A waiter that was woken and has not run yet looks as if it still slept.
        let again = cycles(&self.entries()?);
        Ok(again.into_iter().filter(|cycle| first.iter().any(|seen| seen.is_same(cycle))).collect())
    }
}

impl Deadlock {
    /// Returns whether the same threads wait for the same things.
    fn is_same(&self, other: &Deadlock) -> bool {
        let key = |blocked: &Blocked| {
            (blocked.waiter.who.token, blocked.name.clone(), blocked.waiter.offset)
        };
        self.cycle.iter().map(key).eq(other.cycle.iter().map(key))
    }
}

/// Returns the cycles among the waiters.
fn cycles(entries: &[Entry]) -> Vec<Deadlock> {
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
                let cycle = &path[at..];
                if !cycle.iter().any(|one| done.contains(&one.waiter.who.token)) {
                    found.push(Deadlock { cycle: cycle.iter().map(|&one| one.clone()).collect() });
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::claim::Holder;

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
    fn cycles_are_found_once_and_tails_are_no_part_of_them() {
        // 1 → 2 → 3 → 1; 4 and 5 wait for threads in it; 6 waits for 7, which does not wait; 8 and
        // 9 for each other.
        let entries = [
            entry("a", vec![blocked(1, 2, "a"), blocked(4, 2, "a"), blocked(8, 9, "a")]),
            entry("b", vec![blocked(2, 3, "b"), blocked(6, 7, "b"), blocked(9, 8, "b")]),
            entry("c", vec![blocked(3, 1, "c"), blocked(5, 4, "c")]),
        ];
        let found = cycles(&entries);
        let names: Vec<String> = found
            .iter()
            .map(|deadlock| deadlock.cycle.iter().map(|one| one.name.clone()).collect())
            .collect();
        assert_eq!(names, ["abc", "ab"]);
        assert!(super::cycles(&entries[..2]).len() == 1, "the cycle of three is open without c");
        let mut dead = entries[0].clone();
        dead.waiters
            .iter_mut()
            .for_each(|waiter| waiter.holder.as_mut().expect("one").alive = false);
        assert!(
            super::cycles(&[dead, entries[1].clone(), entries[2].clone()]).is_empty(),
            "a dead thread holds up no other"
        );
    }
}
