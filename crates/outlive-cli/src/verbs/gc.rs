//! `outlive gc`: sweep up what dead processes left.

use clap::Args;
use outlive::SweepReport;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Failure, code_of};
use crate::output::{self, bytes, counted, talk};

/// Sweep up what dead processes left
///
/// No process needs this to go on: the next process that meets a dead owner's claim deals with
/// it. gc gives back memory and tokens that no process happens to meet. The next process that
/// locks what a dead process had locked is still told. Of pools, each 2 MiB in which all objects
/// are free goes back to the system, whichever process freed them.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive domain gc --dry-run")]
pub struct GcArgs {
    /// Only tell what would be swept up
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Swept {
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
    let report = match common.domain.look()? {
        Some(domain) => domain.sweep(args.dry_run)?,
        None => SweepReport::default(),
    };
    let failed: Vec<FailedEntry> = report
        .failed
        .iter()
        .map(|(name, why)| FailedEntry { name: name.clone(), why: why.to_string() })
        .collect();
    if common.json {
        output::print_json(&Swept {
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
        output::print(format_args!("{}\n", told(&report, args.dry_run)))?;
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
