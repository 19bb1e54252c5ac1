//! `jobs.`

use std::collections::HashMap;

use outlive::Domain;
use outlive::jobs::{Job, JobQueue};

use crate::answer::{self, Answer, Refusal, done, find, said};

/// A job queue, and the job that was taken last.
pub(crate) struct Jobs {
    pub(crate) queue: JobQueue,
    job: Option<Job>,
}

pub(crate) fn act(
    domain: &Domain,
    queues: &mut HashMap<String, Jobs>,
    verb: &str,
    args: &[&str],
) -> Answer {
    match (verb, args) {
        ("open", [name, options @ ..]) => {
            let mut plan = JobQueue::options();
            if let Some(jobs) = answer::option(options, "max")? {
                plan = plan.max_jobs(jobs);
            }
            if let Some(attempts) = answer::option(options, "attempts")? {
                plan = plan.max_attempts(attempts);
            }
            let queue = plan.open_or_create(domain, name)?;
            queues.insert((*name).to_owned(), Jobs { queue, job: None });
            done()
        }
        ("put", [name, message, patience]) => {
            let (message, queue) = (answer::message(message)?, &find(queues, name)?.queue);
            match answer::patience(patience)? {
                None => said(queue.try_put(&message)?),
                Some(span) => said(queue.put_timeout(&message, span)?),
            }
        }
        ("take", [name, patience]) => {
            let jobs = find(queues, name)?;
            let job = match answer::patience(patience)? {
                None => jobs.queue.try_take()?,
                Some(span) => jobs.queue.take_timeout(span)?,
            };
            let job = jobs.job.insert(job.ok_or_else(|| Refusal::new("None", ""))?);
            said(format!("{} {}", answer::show(job), job.attempts()))
        }
        ("done" | "release" | "aside", [name]) => {
            let job = find(queues, name)?.job.take();
            let job = job.ok_or_else(|| Refusal::new("Usage", "no job was taken"))?;
            match verb {
                "done" => job.done()?,
                "release" => job.release()?,
                _ => job.set_aside()?,
            }
            done()
        }
        ("prefault", [name, jobs]) => {
            find(queues, name)?.queue.prefault(answer::number(jobs)?)?;
            done()
        }
        ("join", [name, span]) => {
            find(queues, name)?.queue.join_timeout(answer::span(span)?)?;
            done()
        }
        ("retry", [name, id]) => {
            said(u32::from(find(queues, name)?.queue.retry(answer::number(id)?)))
        }
        ("count", [name, what]) => {
            let counts = find(queues, name)?.queue.counts();
            match *what {
                "waiting" => said(counts.waiting),
                "taken" => said(counts.taken),
                "set_aside" => said(counts.set_aside),
                "put" => said(counts.put),
                _ => answer::unknown("jobs.count", args),
            }
        }
        _ => answer::unknown(verb, args),
    }
}
