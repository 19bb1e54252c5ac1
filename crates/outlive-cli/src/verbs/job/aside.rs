//! `outlive job aside`: the jobs that were set aside.

use clap::Args;
use outlive::jobs::{JobQueue, SetAside};
use serde::Serialize;

use crate::cli::Common;
use crate::exit::Failure;
use crate::output::{self, talk};

/// Show the jobs that are set aside, and retry or discard them
///
/// A job is set aside when it has been taken as often as the queue allows (--max-attempts): its
/// command failed, or its worker was killed, each time. Each line has the job's number, how often
/// it was taken, and the job. A job whose length a stray write has damaged is marked "damaged:",
/// and what lies in its place is shown; --retry leaves it where it is.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive job aside encode\n  \
    outlive job aside encode --retry")]
pub struct AsideArgs {
    /// The job queue's name
    queue: String,
    /// Show them, and let them be taken again, with as many attempts as a new job
    #[arg(long, conflicts_with = "discard")]
    retry: bool,
    /// Show them, and remove them for good
    #[arg(long)]
    discard: bool,
}

/// A job, with --json.
#[derive(Serialize)]
struct Told<'a> {
    id: u64,
    attempts: u32,
    bytes: usize,
    /// Whether its length is damaged: the bytes are what lies in its place.
    is_damaged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// What is no UTF-8, two digits a byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

/// Runs the verb.
pub fn run(args: &AsideArgs, common: &Common) -> Result<(), Failure> {
    let domain = common.domain.existing()?;
    let queue = JobQueue::open_as_bytes(&domain, &args.queue)?;
    for job in queue.set_aside()? {
        show(&job, common)?;
        // Shown first: what is not seen is not lost. Another process may have been quicker.
        let _ = match (args.retry, args.discard) {
            // It would end each worker that takes it, and be set aside again.
            (true, _) if job.is_damaged => {
                let text = format!("job {} is damaged, and stays: --discard removes it", job.id);
                talk(text);
                false
            }
            (true, _) => queue.retry(job.id),
            (_, true) => queue.discard(job.id),
            _ => true,
        };
    }
    Ok(())
}

fn show(job: &SetAside, common: &Common) -> Result<(), Failure> {
    let text = std::str::from_utf8(&job.data).ok();
    if common.json {
        let hex = || job.data.iter().map(|byte| format!("{byte:02x}")).collect();
        return output::print_json(&Told {
            id: job.id,
            attempts: job.attempts,
            bytes: job.data.len(),
            is_damaged: job.is_damaged,
            text,
            hex: text.is_none().then(hex),
        });
    }
    let shown = String::from_utf8_lossy(&job.data);
    let shown = shown.escape_debug();
    let damaged = if job.is_damaged { "damaged: " } else { "" };
    output::print(format_args!("{} {} {damaged}{shown}\n", job.id, job.attempts))
}
