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
    /// For a new job queue: how many jobs it holds at most [default: 1024]
    #[arg(long, value_name = "N")]
    max_jobs: Option<u32>,
    /// For a new job queue: the most bytes of a job, as in 64K [default: 4096]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_small)]
    job_bytes: Option<u32>,
    /// For a new job queue: after how many attempts a job is set aside; 0: never [default: 5]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
}

impl MakeArgs {
    /// Returns whether it was said how to make one.
    pub fn is_given(&self) -> bool {
        self.max_jobs.is_some() || self.job_bytes.is_some() || self.max_attempts.is_some()
    }

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
            options = options.job_bytes(bytes);
        }
        if let Some(attempts) = self.max_attempts {
            options = options.max_attempts(attempts);
        }
        options
    }
}
