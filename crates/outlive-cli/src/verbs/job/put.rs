//! `outlive job put`: jobs from the command line or from a pipe.

use std::ffi::OsString;
use std::fs::File;
use std::io::stdin;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::Args;
use outlive::Deadline;
use outlive::jobs::JobQueue;
use serde::Serialize;

use super::MakeArgs;
use crate::cli::Common;
use crate::duration;
use crate::exit::Failure;
use crate::framing::{FramingArgs, Splitter};
use crate::output;
use crate::verbs::attributes::AttributeArgs;

/// Put jobs into a job queue: those named, or one for each line of standard input
///
/// Once put has ended, its jobs are in the queue, whichever process dies. One of the workers
/// ('outlive work') does each job, and another one if the first is killed. While the queue holds as
/// many jobs as it can, put waits.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive job put thumbnails cat.png dog.png\n  \
    find . -name '*.flac' -print0 | outlive job put --null encode")]
pub struct PutArgs {
    /// The job queue's name; one that is not there is made
    queue: String,
    /// The jobs; without any, each line of standard input is one
    #[arg(value_name = "JOB")]
    jobs: Vec<OsString>,
    #[command(flatten)]
    framing: FramingArgs,
    #[command(flatten)]
    made: MakeArgs,
    /// Give up with exit code 5 when the queue has been full for this time [default: wait for ever]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
    #[command(flatten)]
    attributes: AttributeArgs,
}

/// What was put.
#[derive(Debug, Default, Serialize)]
struct Put {
    jobs: u64,
    bytes: u64,
}

/// Runs the verb.
pub fn run(args: &PutArgs, common: &Common) -> Result<(), Failure> {
    let domain = args.attributes.on(common.domain.open()?);
    let queue = args.made.open(&domain, &args.queue, !common.domain.no_create)?;
    let mut put = Put::default();
    let result = if args.jobs.is_empty() {
        from_stdin(args, &queue, &mut put)
    } else {
        args.jobs.iter().try_for_each(|job| one(args, &queue, job.as_bytes(), &mut put))
    };
    if common.json {
        output::print_json(&put)?;
    }
    result.map_err(|failure| match failure {
        Failure::Told { code, message } => {
            let put = output::counted(put.jobs, "job");
            Failure::Told { code, message: format!("{message} ({put} put before)") }
        }
        other => other,
    })
}

fn one(args: &PutArgs, queue: &JobQueue, job: &[u8], put: &mut Put) -> Result<(), Failure> {
    queue.put_until(job, args.timeout.map_or(Deadline::NEVER, Deadline::after))?;
    put.jobs += 1;
    put.bytes += job.len() as u64;
    Ok(())
}

fn from_stdin(args: &PutArgs, queue: &JobQueue, put: &mut Put) -> Result<(), Failure> {
    // Not `Stdin`, which has a buffer of its own: what is ready must be seen at once.
    let mut input = stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(File::from)
        .map_err(|error| Failure::system("read standard input", &error))?;
    let mut splitter = Splitter::new(args.framing.framing());
    let mut places = Vec::new();
    loop {
        let count = splitter.fill(&mut input)?;
        // What is complete goes out even if what follows it is not valid.
        let made_sense = splitter.complete(&mut places);
        for place in &places {
            one(args, queue, &splitter.bytes()[place.clone()], put)?;
        }
        made_sense?;
        if count == 0 {
            break;
        }
    }
    match splitter.rest()? {
        Some(place) => one(args, queue, &splitter.bytes()[place], put),
        None => Ok(()),
    }
}
