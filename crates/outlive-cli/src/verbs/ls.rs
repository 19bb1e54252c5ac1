//! `outlive ls`: what is in the domain, a line each.

use clap::Args;
use outlive::{Detail, Entry, Error, Kind};
use serde::Serialize;

use crate::cli::Common;
use crate::exit::Failure;
use crate::output::{self, bytes, talk};
use crate::verbs::info::Described;
use crate::verbs::topic::list;

/// List what is in the domain
///
/// A name is 1 to 200 bytes without '/' and NUL, and does not begin with '.'. USERS counts the
/// living processes that have the thing open, as far as you may see them. DEAD counts claims in
/// it whose owners died: the next user is told of them, or 'outlive domain gc' sweeps them.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive domain list\n  \
    outlive domain list --json | jq -r '.entries[].name'")]
pub struct LsArgs {}

#[derive(Serialize)]
struct Listing {
    domain: String,
    entries: Vec<Described>,
}

/// Runs the verb.
pub fn run(_args: &LsArgs, common: &Common) -> Result<(), Failure> {
    run_of(&[], common)
}

/// Lists the things of these kinds; of all kinds when none is given.
pub fn run_of(kinds: &[Kind], common: &Common) -> Result<(), Failure> {
    let path = common.domain.path().display().to_string();
    let domain = common.domain.look()?;
    let mut entries = match &domain {
        Some(domain) => domain.entries()?,
        None => Vec::new(),
    };
    entries.retain(|entry| kinds.is_empty() || is_of(entry, kinds));
    if common.json {
        return output::print_json(&Listing {
            domain: path,
            entries: entries.iter().map(Described::new).collect(),
        });
    }
    if domain.is_none() {
        talk(format_args!("nothing yet: {path} is made when something is first used"));
        return Ok(());
    }
    if entries.is_empty() {
        let what =
            if kinds.is_empty() { "nothing".to_owned() } else { format!("no {}", word(kinds)) };
        talk(format_args!("{what} in {path}"));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    output::print(output::table(
        &["NAME", "KIND", "SIZE", "USERS", "DEAD", "STATE"],
        &[2, 3, 4],
        &rows,
    ))
}

/// Returns whether an entry is listed with things of these kinds. One whose kind cannot be told may
/// be of them, unless it is no file of this version of Outlive at all; a record without locks is no
/// lock.
fn is_of(entry: &Entry, kinds: &[Kind]) -> bool {
    match (&entry.kind, &entry.detail) {
        (Ok(_), Detail::Record { locks: 0, .. })
        | (Err(Error::NotASegment { .. } | Error::OtherVersion { .. }), _) => false,
        (Ok(kind), _) => kinds.contains(kind),
        (Err(_), _) => true,
    }
}

/// Returns what things of these kinds are called together.
pub fn word(kinds: &[Kind]) -> String {
    match kinds {
        [kind] => kind.to_string(),
        _ => "lock".to_owned(),
    }
}

fn row(entry: &Entry) -> Vec<String> {
    let kind = entry.kind.as_ref().map_or_else(|_| "?".to_owned(), ToString::to_string);
    vec![
        // A name may hold anything but '/' and NUL; a terminal must not be made to obey it.
        entry.name.escape_debug().to_string(),
        kind,
        bytes(entry.bytes),
        entry.users.len().to_string(),
        entry.dead_claims.to_string(),
        state(entry),
    ]
}

/// Returns what it is doing, in a few words.
pub fn state(entry: &Entry) -> String {
    use crate::verbs::info::who;
    if let Err(error) = &entry.kind {
        return error.to_string();
    }
    let waiting = match entry.waiters.len() {
        0 => String::new(),
        count => format!(", {} waiting", output::count(count as u64)),
    };
    match &entry.detail {
        Detail::Lock(lock) if lock.not_recoverable => "not recoverable".to_owned(),
        Detail::Lock(lock) => match (&lock.state, lock.holders.as_slice()) {
            (Some(state), _) => format!("{state}{waiting}"),
            (None, []) => "free".to_owned(),
            (None, [holder]) => format!("held by {}{waiting}", who(holder)),
            (None, holders) => {
                format!("held by {}{waiting}", output::counted(holders.len() as u64, "thread"))
            }
        },
        Detail::Record { locks: 0, .. } => String::new(),
        Detail::Record { locks, holders, .. } => {
            format!(
                "{} of {} held{waiting}",
                holders.len(),
                output::counted(u64::from(*locks), "lock")
            )
        }
        Detail::Queue { counters, receiver, senders, .. } => {
            let receiver = match receiver {
                Some(receiver) => format!("receiver {}", who(receiver)),
                None => "no receiver".to_owned(),
            };
            let senders = match senders.iter().filter(|sender| sender.alive).count() as u64 {
                0 => String::new(),
                count => format!(", {}", output::counted(count, "sender")),
            };
            format!("{} waiting, {receiver}{senders}", output::counted(counters.pending, "message"))
        }
        Detail::Notifier(usage) => {
            let living = |all: &[outlive::sync::Holder]| all.iter().filter(|one| one.alive).count();
            let listeners: Vec<_> = usage.listeners.iter().map(|one| one.who.clone()).collect();
            format!(
                "{}, {}",
                output::counted(living(&usage.notifiers) as u64, "notifier"),
                output::counted(living(&listeners) as u64, "listener")
            )
        }
        Detail::State { version, writer, .. } => {
            let writer = match writer {
                Some(writer) => format!("writer {}", who(writer)),
                None => "no writer".to_owned(),
            };
            format!("version {}, {writer}{waiting}", output::count(*version))
        }
        Detail::Service(overview) => {
            let server = match &overview.server {
                Some(server) => format!("server {}", who(server)),
                None => "no server".to_owned(),
            };
            let clients = overview.clients.iter().filter(|client| client.who.alive).count() as u64;
            let begun = overview.clients.iter().map(|client| u64::from(client.begun)).sum::<u64>();
            let requests = output::counted(overview.requests.pending, "request");
            format!(
                "{server}, {}, {requests} waiting, {} begun",
                output::counted(clients, "client"),
                output::count(begun)
            )
        }
        Detail::Pool(usage) => {
            let sum = &usage.sum;
            let offered = match sum.offered {
                0 => String::new(),
                offered => format!(", {} offered", output::count(offered)),
            };
            let shared = match sum.shared {
                0 => String::new(),
                shared => format!(", {} shared", output::count(shared)),
            };
            format!(
                "{} in use, {} cached{offered}{shared}",
                output::counted(sum.used, "object"),
                output::count(sum.cached)
            )
        }
        Detail::Jobs(usage) => {
            let aside = match usage.counts.set_aside {
                0 => String::new(),
                aside => format!(", {} set aside", output::count(u64::from(aside))),
            };
            format!(
                "{} waiting, {} taken{aside}{waiting}",
                output::counted(u64::from(usage.counts.waiting), "job"),
                output::count(u64::from(usage.counts.taken))
            )
        }
        Detail::Topic(usage) => {
            let (publishers, subscribers) =
                (list::living_publishers(usage), list::living_subscribers(usage));
            format!(
                "{} published, {}, {}",
                output::counted(list::published(usage), "message"),
                output::counted(publishers as u64, "publisher"),
                output::counted(subscribers as u64, "subscriber")
            )
        }
        _ => String::new(),
    }
}
