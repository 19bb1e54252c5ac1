//! `outlive rm NAME…`: remove names. The life of a name is told in the verb's help.

use std::os::unix::fs::MetadataExt;

use clap::Args;
use outlive::{Domain, Error};
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{self, talk};
use crate::process;

/// Remove names
///
/// The life of a name: the first process that opens it makes it, and it stays until a process removes
/// it, whichever process dies; nothing counts its users. Every user who may write to it may remove
/// it: its owner, and in a group's domain all members, unless the file's mode says otherwise (of a
/// topic that was made with --mode 640 or 600 the owner alone).
///
/// Processes that have the thing open go on using it together, unseen by others, and a process that
/// opens the name afterwards makes a new one. So two programs can end up with two different things
/// of one name. That is why remove refuses with exit code 12 while a living process has the thing
/// open, unless --force is given. The memory is freed when the last user has closed the thing or
/// ended.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive domain remove old-log\n  \
    outlive domain remove --force jobs files")]
pub struct RmArgs {
    /// The names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Remove a name also while living processes have it open; they go on with the old thing
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Removed {
    removed: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &RmArgs, common: &Common) -> Result<(), Failure> {
    let domain = common.domain.existing()?;
    let mut removed = Vec::new();
    let mut first_failure = None;
    for name in &args.names {
        match remove(&domain, name, args.force) {
            Ok(()) => removed.push(name.clone()),
            // As rm(1): the others are removed all the same, and each failure is told.
            Err(failure) => {
                if let Some(Failure::Told { message, .. }) = first_failure.replace(failure) {
                    talk(message);
                }
            }
        }
    }
    if common.json {
        output::print_json(&Removed { removed })?;
    }
    first_failure.map_or(Ok(()), Err)
}

fn remove(domain: &Domain, name: &str, force: bool) -> Result<(), Failure> {
    if !force {
        let users = match domain.entry(name) {
            Ok(entry) => entry.users,
            // No use to this version, or damaged: its users cannot be told, and it may go.
            Err(Error::OtherVersion { .. } | Error::Damaged { .. }) => Vec::new(),
            Err(Error::NotFound { .. }) => return Err(not_there(domain, name)),
            Err(error @ Error::Permission { .. }) => return Err(not_allowed(domain, name, error)),
            Err(error) => return Err(error.into()),
        };
        if !users.is_empty() {
            let users: Vec<String> = users
                .iter()
                .map(|pid| {
                    format!("{pid} ({})", process::program(*pid).unwrap_or_else(|| "?".to_owned()))
                })
                .collect();
            let text = format!(
                "'{}' is open in {}; end that, or use --force: it would go on with the old one, unseen by new users",
                name.escape_debug(),
                users.join(", ")
            );
            return Err(Failure::new(Code::Busy, text));
        }
    }
    match domain.remove(name) {
        Err(Error::NotFound { .. }) => Err(not_there(domain, name)),
        Err(error @ Error::Permission { .. }) => Err(not_allowed(domain, name, error)),
        removed => Ok(removed?),
    }
}

/// Says whose file it is, where its mode is what forbids it.
fn not_allowed(domain: &Domain, name: &str, error: Error) -> Failure {
    let facts = std::fs::symlink_metadata(domain.path().join(name));
    let own = rustix::process::geteuid().as_raw();
    let Some(facts) = facts.ok().filter(|facts| facts.uid() != own) else { return error.into() };
    let (owner, mode) = (facts.uid(), facts.mode() & 0o7777);
    let text = format!(
        "'{}' belongs to user {owner}, and by its mode, {mode:04o}, no other user may remove it; have that user remove it, or root",
        name.escape_debug()
    );
    Failure::new(Code::Permission, text)
}

fn not_there(domain: &Domain, name: &str) -> Failure {
    let text = format!(
        "there is no '{}' in {}; 'outlive ls' shows what is",
        name.escape_debug(),
        domain.path().display()
    );
    Failure::new(Code::NotFound, text)
}
