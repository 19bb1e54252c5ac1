//! `outlive work`: runs a command for each job, as `xargs -P` that survives.
//!
//! | killed | then |
//! | --- | --- |
//! | this process, waiting for a job | no other process notices |
//! | this process, while commands run | the kernel kills the commands (PR_SET_PDEATHSIG), and the jobs go to other workers |
//! | a command | its job is given back, and counted |
//!
//! So it needs no handling of signals.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use outlive::jobs::{Job, JobQueue};
use outlive::{Domain, WaitError};

use super::MakeArgs;
use crate::cli::Common;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::output::{self, talk};
use crate::process;
use crate::verbs::awaited::{Awaited, Found};

/// Do the jobs of a job queue: run a command for each
///
/// In the command, {} is the job. Without {} the job is added as the last argument; with --stdin
/// the command reads it. The command finds the job's number in OUTLIVE_JOB_ID, and in
/// OUTLIVE_JOB_ATTEMPT how often the job has been taken. Any number of 'outlive work' may do the
/// jobs of one queue. A queue that is not there is waited for; if an option says how a new one is to
/// be, work makes it.
///
/// A job is done when its command exits with 0. If the command fails or is killed, work gives the
/// job back, and the job is tried again before all that were put after it. If work itself is
/// killed, its commands are killed with it, and its jobs go to other workers. After --max-attempts
/// a job is set aside ('outlive job aside'). So each job is done at least once, and a command may
/// find a part of its work done by an attempt before.
///
/// work goes on until a signal ends it, or the reader of its standard output has gone and a command
/// fails for that (exit code 0; its job is given back). With --drain or --timeout it ends by itself: with exit code
/// 0, or with 1 if it has set a job aside. It exits with 126 or 127 when the command cannot be run
/// or is not found.
///
/// What follows the first word of the command belongs to the command, options too; options of work
/// come before it.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive job work encode -P 4 ./encode.sh {}\n  \
    outlive job work mails --stdin --drain sendmail -t")]
pub struct WorkArgs {
    /// The job queue's name; one that is not there is waited for
    queue: String,
    /// Run up to N commands at once
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_procs: u32,
    /// The command reads the job from standard input
    #[arg(long)]
    stdin: bool,
    /// End when all jobs of the queue are done or set aside; with exit code 6 when there is no
    /// queue
    #[arg(long)]
    drain: bool,
    /// End when no job has come for this time (exit code 0, or 6 when there is no queue yet)
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
    #[command(flatten)]
    made: MakeArgs,
    /// The command, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// How long a worker waits before it looks whether it should end.
const SLICE: Duration = Duration::from_millis(100);

/// What the workers of this process share.
struct Workers<'a> {
    args: &'a WorkArgs,
    queue: &'a JobQueue,
    /// One has failed: the others end after their jobs.
    ends: AtomicBool,
    /// Jobs that were set aside.
    aside: AtomicU64,
    max_attempts: u32,
}

/// Runs the verb.
pub fn run(args: &WorkArgs, common: &Common) -> Result<(), Failure> {
    let queue = open(args, common)?;
    let workers = Workers {
        args,
        queue: &queue,
        ends: AtomicBool::new(false),
        aside: AtomicU64::new(0),
        max_attempts: queue.config().max_attempts,
    };
    let results: Vec<Result<(), Failure>> = thread::scope(|scope| {
        let started: Vec<_> =
            (0..args.max_procs).map(|_| scope.spawn(|| workers.until_the_end())).collect();
        let panicked = || Err(Failure::new(Code::System, "a worker's thread panicked"));
        started.into_iter().map(|one| one.join().unwrap_or_else(|_| panicked())).collect()
    });
    results.into_iter().collect::<Result<(), Failure>>()?;
    match workers.aside.load(Ordering::Relaxed) {
        0 => Ok(()),
        _ => Err(Failure::Silent(Code::CheckFailed as u8)),
    }
}

/// Opens the job queue. As `outlive recv` does, it waits for one that is not there, unless it was
/// said how to make it.
fn open(args: &WorkArgs, common: &Common) -> Result<JobQueue, Failure> {
    if args.made.is_given() {
        let create = !common.domain.no_create;
        return args.made.open(&common.domain.open()?, &args.queue, create);
    }
    let open = |domain: &Domain, name: &str| JobQueue::open_as_bytes(domain, name);
    let mut awaited = Awaited::new("a producer", &args.queue, &common.domain);
    match awaited.open(open)? {
        Some(queue) => return Ok(queue),
        // No job of it is left to do.
        None if args.drain => return Err(awaited.not_there("job queue")),
        None => {}
    }
    match awaited.wait(None, args.timeout.map(|span| Instant::now() + span), open)? {
        Found::Thing(queue) => Ok(queue),
        Found::Late | Found::End => Err(awaited.not_there("job queue")),
    }
}

impl Workers<'_> {
    fn until_the_end(&self) -> Result<(), Failure> {
        let result = self.work();
        if result.is_err() {
            self.ends.store(true, Ordering::Relaxed);
        }
        result
    }

    fn work(&self) -> Result<(), Failure> {
        let mut idle_since = Instant::now();
        while !self.ends.load(Ordering::Relaxed) {
            match self.queue.take_timeout(SLICE)? {
                Some(job) => {
                    self.run(job)?;
                    idle_since = Instant::now();
                }
                None if self.args.timeout.is_some_and(|span| idle_since.elapsed() >= span) => break,
                None if self.args.drain => match self.queue.try_join() {
                    Ok(()) => break,
                    Err(WaitError::TimedOut) => {}
                    Err(error) => return Err(error.into()),
                },
                None => {}
            }
        }
        Ok(())
    }

    /// Runs the command for a job, and acknowledges or releases the job.
    fn run(&self, job: Job) -> Result<(), Failure> {
        let mut child = match self.start(&job) {
            Ok(child) => child,
            // Of the job, not of the command: given back, it would end the next work too.
            Err(error) if is_no_argument(&error) => {
                let why =
                    "it holds a NUL or is too long for an argument; use --stdin. It is set aside";
                self.say(&job, why);
                self.aside.fetch_add(1, Ordering::Relaxed);
                return Ok(job.set_aside()?);
            }
            Err(error) => {
                // Given back by its drop.
                let program = self.args.command.first().map_or(OsStr::new(""), OsString::as_os_str);
                let text = format!("could not run '{}': {error}", program.display());
                let code = match error.kind() {
                    ErrorKind::NotFound => Code::CommandNotFound,
                    _ => Code::NotExecutable,
                };
                return Err(Failure::new(code, text));
            }
        };
        if let Some(mut input) = child.stdin.take() {
            // A command that does not want its input may leave it. One that writes much before it
            // reads writes to our own output, which does not depend on us.
            let _ = input.write_all(&job);
        }
        let status =
            child.wait().map_err(|error| Failure::system("wait for the command", &error))?;
        if status.success() {
            return Ok(job.done()?);
        }
        // As `head` leaves it: each command would fail in the same way, and set its job aside.
        let has_no_reader = has_lost_its_reader(status) && output::has_no_reader();
        if has_no_reader {
            self.ends.store(true, Ordering::Relaxed);
        }
        if self.max_attempts != 0 && job.attempts() >= self.max_attempts {
            self.say(&job, format_args!("ended by {status}, and is set aside"));
            self.aside.fetch_add(1, Ordering::Relaxed);
        } else if !has_no_reader {
            self.say(&job, format_args!("ended by {status}, and is given back"));
        }
        Ok(job.release()?)
    }

    fn say(&self, job: &Job, text: impl std::fmt::Display) {
        talk(format_args!("job {}, attempt {}: {text}", job.id(), job.attempts()));
    }

    fn start(&self, job: &Job) -> std::io::Result<Child> {
        let job_text = OsStr::from_bytes(job);
        let mut words: Vec<OsString> =
            self.args.command.iter().map(|word| with_job(word, job_text)).collect();
        let has_braces =
            self.args.command.iter().any(|word| with_job(word, OsStr::new("")) != *word);
        if !self.args.stdin && !has_braces {
            words.push(job_text.to_owned());
        }
        let program = words.remove(0);
        let parent = std::process::id();
        let mut command = Command::new(program);
        command
            .args(words)
            .env("OUTLIVE_JOB_ID", job.id().to_string())
            .env("OUTLIVE_JOB_ATTEMPT", job.attempts().to_string())
            .stdin(if self.args.stdin { Stdio::piped() } else { Stdio::null() });
        // SAFETY: between fork and exec it makes two system calls, and touches no memory that
        // another thread might have locked.
        unsafe {
            command.pre_exec(move || match process::die_with_parent(parent)? {
                true => Ok(()),
                false => Err(ErrorKind::Interrupted.into()),
            })
        };
        command.spawn()
    }
}

/// Returns whether a command has ended because no process reads what it writes; a shell tells that
/// of its last command by a code.
fn has_lost_its_reader(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGPIPE) || status.code() == Some(128 + libc::SIGPIPE)
}

/// Returns whether a command could not be started because of what its arguments are.
fn is_no_argument(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::ArgumentListTooLong)
}

/// Returns a word of the command with the job in place of each {}.
fn with_job(word: &OsStr, job: &OsStr) -> OsString {
    let (word, job) = (word.as_bytes(), job.as_bytes());
    let mut made = Vec::with_capacity(word.len());
    let mut at = 0;
    while at < word.len() {
        if word[at..].starts_with(b"{}") {
            made.extend_from_slice(job);
            at += 2;
        } else {
            made.push(word[at]);
            at += 1;
        }
    }
    OsString::from_vec(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_is_put_in_place_of_braces() {
        let made = |word: &str| with_job(OsStr::new(word), OsStr::new("a{}b"));
        assert_eq!(made("{}"), "a{}b");
        assert_eq!(made("x{}-{}"), "xa{}b-a{}b");
        assert_eq!(made("none{"), "none{");
    }
}
