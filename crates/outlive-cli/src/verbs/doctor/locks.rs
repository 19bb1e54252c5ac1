//! Locks that processes wait for: deadlock cycles.

use outlive::{Deadlock, Domain};

use super::Finding;
use crate::output::counted;
use crate::verbs::info::{span, thread};

/// Threads that wait for each other's locks at this moment.
pub fn deadlocks(domain: &Domain) -> Finding {
    match domain.deadlocks() {
        Ok(cycles) if cycles.is_empty() => Finding::good("deadlocks", "none"),
        Ok(cycles) => {
            let told: Vec<String> = cycles.iter().map(cycle).collect();
            Finding::fault(
                "deadlocks",
                told.join("; "),
                "end one of them; take the locks in the same order everywhere: OUTLIVE_LOCK_ORDER=1 finds where not",
            )
        }
        Err(error) => {
            Finding::fault("deadlocks", error.to_string(), "check the folder's permissions")
        }
    }
}

/// Orders of locks that can become a deadlock, as recorded by processes that watched.
pub fn orders(domain: &Domain, repair: bool) -> Finding {
    let name = "lock order";
    match domain.lock_orders() {
        Ok(orders) if orders.is_empty() => Finding::good(name, "no conflict recorded"),
        Ok(orders) if repair => match domain.forget_lock_orders() {
            Ok(()) => Finding::mended(
                name,
                format!("{} forgotten", counted(orders.len() as u64, "conflict")),
            ),
            Err(error) => {
                Finding::fault(name, error.to_string(), "remove the file .lock-order by hand")
            }
        },
        Ok(orders) => {
            let told: Vec<String> = orders.iter().map(ToString::to_string).collect();
            Finding::fault(
                name,
                told.join("; "),
                "take them in the same order everywhere; 'outlive doctor --repair' forgets what was recorded",
            )
        }
        Err(_) if repair && domain.forget_lock_orders().is_ok() => {
            Finding::mended(name, "a damaged record removed")
        }
        Err(error) => {
            Finding::fault(name, error.to_string(), "'outlive doctor --repair' removes the record")
        }
    }
}

/// Returns the cycle in words.
pub fn cycle(deadlock: &Deadlock) -> String {
    let told: Vec<String> = deadlock
        .cycle
        .iter()
        .map(|one| {
            let (who, name) = (thread(&one.waiter.who), one.name.escape_debug());
            let holder = one
                .waiter
                .holder
                .as_ref()
                .map_or_else(String::new, |holder| format!(", held by {}", thread(holder)));
            format!("{who} has waited {} for '{name}'{holder}", span(one.waiter.waited))
        })
        .collect();
    told.join(", ")
}
