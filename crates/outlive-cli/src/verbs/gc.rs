//! `outlive gc`: sweep up what dead processes left.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use outlive::SweepReport;
use serde::Serialize;

use crate::cli::Common;
use crate::domain::DomainArgs;
use crate::exit::{Code, Failure, code_of};
use crate::output::{self, bytes, counted, talk};

/// Sweep up what dead processes left
///
/// No process needs this to go on: the next process that meets a dead owner's claim deals with
/// it. gc gives back memory and tokens that no process happens to meet. The next process that
/// locks what a dead process had locked is still told. Of pools, each 2 MiB in which all objects
/// are free goes back to the system, whichever process freed them.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive domain gc --dry-run\n  \
    outlive domain gc --below /run/outlive")]
pub struct GcArgs {
    /// Only tell what would be swept up
    #[arg(long)]
    dry_run: bool,
    /// Sweep each domain that lies in this folder; one that is not there has none
    #[arg(long, value_name = "FOLDER")]
    below: Option<PathBuf>,
}

#[derive(Serialize)]
struct Swept {
    /// With --below.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    dry_run: bool,
    claims: u32,
    objects: u32,
    tokens: u32,
    quarantined: u32,
    /// Things with something left of processes that are dead and have not exited yet.
    ending: u32,
    /// Of pools: what the system has back.
    bytes: u64,
    failed: Vec<FailedEntry>,
}

#[derive(Serialize)]
struct FailedEntry {
    name: String,
    why: String,
}

/// Runs the verb.
pub fn run(args: &GcArgs, common: &Common) -> Result<(), Failure> {
    let Some(folder) = &args.below else {
        let report = match common.domain.look()? {
            Some(domain) => domain.sweep(args.dry_run)?,
            None => SweepReport::default(),
        };
        return tell(args, common, None, &report);
    };
    let mut failed = None;
    for path in domains_in(folder)? {
        let swept = DomainArgs::named(Some(path.clone()), group_of(&path))
            .existing()
            .and_then(|domain| Ok(domain.sweep(args.dry_run)?))
            .and_then(|report| tell(args, common, Some(path.clone()), &report));
        // One that cannot be swept is told, and the others are swept all the same.
        if let Err(failure) = swept {
            if let Failure::Told { message, .. } = &failure {
                talk(message);
            }
            failed.get_or_insert(failure.number());
        }
    }
    failed.map_or(Ok(()), |code| Err(Failure::Silent(code)))
}

/// Returns the folders in a folder that hold a domain, by name.
fn domains_in(folder: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error| Failure::system(format_args!("list {}", folder.display()), &error);
    let folder = std::path::absolute(folder).map_err(failed)?;
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut domains = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        // A folder, and no link to one: another user may have put that there.
        let is_folder = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
        if is_folder && path.join(".tokens").symlink_metadata().is_ok() {
            let why = || {
                let text = format!("{}: not valid UTF-8", path.display());
                Failure::new(Code::Usage, text)
            };
            domains.push(path.to_str().ok_or_else(why)?.to_owned());
        }
    }
    domains.sort();
    Ok(domains)
}

/// Returns the group that shares the domain, if one does.
fn group_of(path: &str) -> Option<String> {
    let facts = fs::symlink_metadata(path).ok()?;
    (facts.mode() & 0o070 == 0o070).then(|| facts.gid().to_string())
}

/// Tells what was swept, of that domain among several.
fn tell(
    args: &GcArgs,
    common: &Common,
    domain: Option<String>,
    report: &SweepReport,
) -> Result<(), Failure> {
    let failed: Vec<FailedEntry> = report
        .failed
        .iter()
        .map(|(name, why)| FailedEntry { name: name.clone(), why: why.to_string() })
        .collect();
    if common.json {
        output::print_json(&Swept {
            domain,
            dry_run: args.dry_run,
            claims: report.claims,
            objects: report.objects,
            tokens: report.tokens,
            quarantined: report.quarantined,
            ending: report.ending,
            bytes: report.bytes,
            failed,
        })?;
    } else {
        for failed in &failed {
            talk(format_args!("'{}' was left out: {}", failed.name.escape_debug(), failed.why));
        }
        let place = domain.map_or_else(String::new, |domain| format!("{domain}: "));
        output::print(format_args!("{place}{}\n", told(report, args.dry_run)))?;
    }
    match report.failed.first() {
        None => Ok(()),
        Some((_, why)) => Err(Failure::Silent(code_of(why) as u8)),
    }
}

/// Returns what was swept, in a line.
pub fn told(report: &SweepReport, dry_run: bool) -> String {
    let found = [
        (report.claims, "claim"),
        (report.objects, "object"),
        (report.tokens, "token"),
        (report.quarantined, "quarantined slot"),
    ];
    let parts: Vec<String> = found
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|&(number, word)| counted(u64::from(number), word))
        .collect();
    let verb = if dry_run { "would sweep" } else { "swept" };
    let swept = if parts.is_empty() {
        "nothing left of the dead".to_owned()
    } else {
        format!("{verb} {}", parts.join(", "))
    };
    let swept = match report.ending {
        0 => swept,
        ending => format!(
            "{swept}; {} of processes that have not quite ended",
            counted(u64::from(ending), "thing")
        ),
    };
    let back = if report.bytes == 0 {
        String::new()
    } else {
        format!("; {} back to the system", bytes(report.bytes))
    };
    format!("{swept}{back}")
}
