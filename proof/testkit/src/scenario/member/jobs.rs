//! Orders about job queues: of numbers, with room for two jobs.
//!
//! A job is kept for as long as the survivor lives, or until it is told to end it.

use std::collections::BTreeMap;

use outlive::Domain;
use outlive::jobs::{Job, JobQueue};

/// How many jobs a queue holds.
pub const ROOM: u32 = 2;

/// The job queue of that name.
pub fn open(domain: &Domain, name: &str) -> Result<JobQueue<u64>, String> {
    let options = JobQueue::<u64>::options().max_jobs(ROOM).max_attempts(0);
    options.open_or_create(domain, name).map_err(|error| error.to_string())
}

/// The job queues that a survivor has open, and the jobs that it keeps.
#[derive(Default)]
pub struct JobQueues {
    open: BTreeMap<String, JobQueue<u64>>,
    held: BTreeMap<String, Job<u64>>,
}

/// A job as it is told: its number and how often it was taken.
fn told(job: &Job<u64>) -> String {
    format!("{}:{}", **job, job.attempts())
}

impl JobQueues {
    fn named(&mut self, domain: &Domain, name: &str) -> Result<JobQueue<u64>, String> {
        if let Some(queue) = self.open.get(name) {
            return Ok(queue.clone());
        }
        let queue = open(domain, name)?;
        queue.set_wait_strategy(outlive::WaitStrategy::Block);
        self.open.insert(name.to_owned(), queue.clone());
        Ok(queue)
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        let [order, name, words @ ..] = order else { return Err("unknown order".to_owned()) };
        let queue = self.named(domain, name)?;
        match (*order, words) {
            ("open", []) => Ok(String::new()),
            ("put", [number]) => {
                let number: u64 = number.parse().map_err(|_| "no number")?;
                queue.put(&number).map(|_| "put".to_owned()).map_err(|error| error.to_string())
            }
            // Takes one and is done with it.
            ("take", []) => {
                let job = queue.take().map_err(|error| error.to_string())?;
                let said = told(&job);
                job.done().map_err(|error| error.to_string())?;
                Ok(said)
            }
            ("hold", []) => {
                let job = queue.take().map_err(|error| error.to_string())?;
                let said = told(&job);
                self.held.insert((*name).to_owned(), job);
                Ok(said)
            }
            // Takes all that there are, and is done with them.
            ("drain", []) => {
                let mut said = Vec::new();
                while let Some(job) = queue.try_take().map_err(|error| error.to_string())? {
                    said.push(told(&job));
                    job.done().map_err(|error| error.to_string())?;
                }
                Ok(said.join(" "))
            }
            ("join", []) => queue.join().map(|()| "joined".to_owned()).map_err(|e| e.to_string()),
            // Processes that have a job.
            ("workers", []) => {
                let taken = queue.taken();
                let pids = taken.iter().map(|job| job.worker.pid.to_string());
                Ok(pids.collect::<Vec<_>>().join(" "))
            }
            ("being-put", []) => Ok(queue.counts().being_put.to_string()),
            _ => Err("unknown order".to_owned()),
        }
    }
}
