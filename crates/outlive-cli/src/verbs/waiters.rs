//! `outlive domain waiters`: which threads sleep in the domain, for what, and which thread keeps
//! them waiting.

use clap::Args;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::Failure;
use crate::output::{self, talk};
use crate::verbs::info::{Asleep, span, thread, who};

/// List the threads that wait in the domain, for what, and which thread they wait for
///
/// Only waiters that have slept for a moment are seen. 'outlive doctor' tells of deadlock cycles
/// among them.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  outlive domain waiters")]
pub struct WaitersArgs {}

/// A waiter, with --json.
#[derive(Serialize)]
struct Told<'a> {
    name: &'a str,
    #[serde(flatten)]
    waiter: Asleep,
}

/// Runs the verb.
pub fn run(_args: &WaitersArgs, common: &Common) -> Result<(), Failure> {
    let entries = match common.domain.look()? {
        Some(domain) => domain.entries()?,
        None => Vec::new(),
    };
    let waiters =
        entries.iter().flat_map(|entry| entry.waiters.iter().map(move |waiter| (entry, waiter)));
    if common.json {
        return waiters
            .map(|(entry, waiter)| Told { name: &entry.name, waiter: Asleep::new(waiter) })
            .try_for_each(|told| output::print_json(&told));
    }
    let rows: Vec<Vec<String>> = waiters
        .map(|(entry, waiter)| {
            let holder = waiter.holder.as_ref().map_or_else(String::new, who);
            vec![
                entry.name.escape_debug().to_string(),
                thread(&waiter.who),
                span(waiter.waited),
                holder,
            ]
        })
        .collect();
    if rows.is_empty() {
        talk("no thread waits");
        return Ok(());
    }
    output::print(output::table(&["NAME", "WAITER", "WAITED", "HOLDER"], &[], &rows))
}
