//! `outlive job`: job queues. `open` is what the verbs share.

pub mod aside;
pub mod put;
pub mod work;

use clap::Args;
use outlive::jobs::{JobQueue, JobQueueOptions};
use outlive::{Domain, Error};

use crate::exit::Failure;
use crate::size;

/// How to make a job queue that is not there.
#[derive(Args, Debug)]
pub struct MakeArgs {
    /// If the job queue is made: how many jobs it holds at most [default: 1024]
    #[arg(long, value_name = "N")]
    max_jobs: Option<u32>,
    /// If the job queue is made: the most bytes of a job, as in 64K [default: 4096]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    job_bytes: Option<u64>,
    /// If the job queue is made: how often a job is taken before it is set aside; 0: for ever
    /// [default: 5]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
}

impl MakeArgs {
    /// Returns the job queue of that name, of whatever type, made as asked unless it is there.
    pub fn open(&self, domain: &Domain, name: &str, create: bool) -> Result<JobQueue, Failure> {
        loop {
            // A queue that is there is taken as it is.
            match JobQueue::open_as_bytes(domain, name) {
                Err(Error::NotFound { .. }) if create => {}
                opened => return Ok(opened?),
            }
            match self.options().create_new(domain, name) {
                // Another process was quicker.
                Err(Error::AlreadyExists { .. }) => {}
                made => return Ok(made?),
            }
        }
    }

    fn options(&self) -> JobQueueOptions {
        let mut options = JobQueue::options();
        if let Some(jobs) = self.max_jobs {
            options = options.max_jobs(jobs);
        }
        if let Some(bytes) = self.job_bytes {
            options = options.job_bytes(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        if let Some(attempts) = self.max_attempts {
            options = options.max_attempts(attempts);
        }
        options
    }
}
