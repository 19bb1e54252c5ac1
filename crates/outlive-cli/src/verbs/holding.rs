//! What a holder does with what it holds, in words: for those that are refused, or that look.

use std::time::Duration;

use outlive::Domain;
use outlive::sync::Holder;
use serde::Serialize;

use crate::output::counted;
use crate::process;
use crate::verbs::info::span;
use crate::verbs::node;

/// What a holder of a lock runs.
#[derive(Debug, Serialize)]
pub struct Command {
    /// The process that holds it.
    pub holder: u32,
    /// The process that runs the command: the holder, or what `outlive lock` started.
    pub pid: u32,
    /// As it was typed.
    pub command: String,
    /// For how long it has run, where that says since when it has been held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl Command {
    /// Returns what a living holder runs, if that can be seen from here.
    pub fn of(holder: &Holder) -> Option<Command> {
        // A pid of another namespace may mean another program here.
        if !holder.alive || process::program(holder.pid)? != holder.program {
            return None;
        }
        let own = |pid| process::command_line(pid);
        // What `outlive lock` and `outlive sem` have started runs since they hold it.
        let child =
            (holder.program == "outlive").then(|| process::children(holder.pid)).into_iter();
        let of_child = child.flatten().find_map(|pid| Some((pid, own(pid)?)));
        match of_child {
            Some((pid, command)) => {
                let seconds = process::age(pid).map(|age| age.as_secs_f64());
                Some(Command { holder: holder.pid, pid, command, seconds })
            }
            None => {
                let command = own(holder.pid)?;
                Some(Command { holder: holder.pid, pid: holder.pid, command, seconds: None })
            }
        }
    }

    /// Returns since when, in words.
    pub fn since(&self) -> String {
        self.seconds.map_or_else(String::new, |seconds| {
            format!(", for {}", span(Duration::from_secs_f64(seconds)))
        })
    }
}

/// So many holders are named one by one.
const NAMED: usize = 3;

/// Returns which processes hold something, and what they run; `None` when none can be seen.
pub fn held_by(holders: &[Holder], domain: Option<&Domain>) -> Option<String> {
    let named = holders.iter().take(NAMED);
    let mut named: Vec<String> = named.map(|holder| holding(holder, domain)).collect();
    if let more @ 1.. = holders.len().saturating_sub(NAMED) {
        named.push(counted(more as u64, "other thread"));
    }
    let (last, others) = named.split_last()?;
    let before = if others.is_empty() { String::new() } else { others.join(", ") + " and " };
    Some(format!("held by {before}{last}"))
}

fn holding(holder: &Holder, domain: Option<&Domain>) -> String {
    let node = domain.and_then(|domain| domain.node_of(holder.token).ok().flatten());
    let node = node.map_or_else(String::new, |node| format!("node '{}', ", node::name(&node)));
    match Command::of(holder) {
        Some(command) => {
            format!("{node}process {} ({}{})", holder.pid, command.command, command.since())
        }
        None => format!("{node}process {} ({})", holder.pid, holder.program.escape_debug()),
    }
}

/// Returns a type's name without the paths of its modules: `[[AtomicU64; 2]; 512]`.
pub fn type_for_people(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            match behind.strip_prefix("::") {
                Some(inner) => rest = inner,
                None => {
                    short.push_str(word);
                    rest = behind;
                }
            }
        } else {
            short.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_lose_their_modules() {
        for (name, short) in [
            ("[[core::sync::atomic::AtomicU64; 2]; 512]", "[[AtomicU64; 2]; 512]"),
            ("alloc::vec::Vec<robot::arm::Pose>", "Vec<Pose>"),
            ("(u8, my_crate::T)", "(u8, T)"),
            ("[u8]", "[u8]"),
            ("geometry/Pose v2", "geometry/Pose v2"),
            ("größe::Maß", "Maß"),
            ("a::", ""),
        ] {
            assert_eq!(type_for_people(name), short);
        }
    }

    #[test]
    fn nobody_is_not_named() {
        assert_eq!(held_by(&[], None), None);
    }
}
