//! `outlive wait NAME|PID`: sleep until a process ends.

use std::time::{Duration, Instant};

use clap::Args;
use outlive::sync::Holder;
use outlive::{Deadline, Detail, Domain, Error, TokenId, TokenKind, WaitError};
use serde::Serialize;

use crate::cli::Common;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::output::{self, talk};
use crate::process::Process;

/// Wait until a process ends: one given by its pid, or the one that holds a name
///
/// The name may be that of a lock, whose holder is waited for, of a queue (its receiver), a service
/// (its server), a state (its writer), or a record (the holders of locks in it). wait also ends
/// when that process gives the name back and lives on.
///
/// wait returns at once when no process has that pid or holds that name, and when the process is a
/// zombie.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive domain wait 4242\n  \
    outlive domain wait --timeout 1m backup")]
pub struct WaitArgs {
    /// A pid, or the name of a lock, queue, service, state or record
    ///
    /// A number is a pid, unless --name is given. Of a name, the processes that hold it now are
    /// waited for.
    target: String,
    /// Take the target for a name, also if it is a number
    #[arg(long)]
    name: bool,
    /// Give up with exit code 5 after this time [default: wait for ever]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
}

#[derive(Serialize)]
struct Waited {
    target: String,
    /// The processes that were waited for.
    processes: Vec<u32>,
    ended: bool,
    seconds: f64,
}

/// A process that holds a name may give it back and live on: wait notices that between two slices
/// of the wait for its end.
const SLICE: Duration = Duration::from_millis(250);

/// Runs the verb.
pub fn run(args: &WaitArgs, common: &Common) -> Result<(), Failure> {
    let begun = Instant::now();
    let until = args.timeout.map(|span| begun + span);
    let pid = if args.name { None } else { args.target.parse::<u32>().ok() };
    let (processes, ended) = match pid {
        Some(pid) => (vec![pid], wait_for_process(pid, common, until)?),
        None => wait_for_name(&args.target, common, until)?,
    };
    if common.json {
        let seconds = begun.elapsed().as_secs_f64();
        output::print_json(&Waited { target: args.target.clone(), processes, ended, seconds })?;
    }
    if ended {
        return Ok(());
    }
    Err(Failure::new(Code::TimedOut, format!("'{}' has not ended in that time", args.target)))
}

/// By its token when it has one in the domain: a token tells sooner. Else by the kernel's
/// descriptor.
fn wait_for_process(pid: u32, common: &Common, until: Option<Instant>) -> Result<bool, Failure> {
    let failed = |error| Failure::system(format_args!("wait for process {pid}"), &error);
    let Some(process) = Process::find(pid, None).map_err(failed)? else { return Ok(true) };
    // Without permission to look at the domain there is still the descriptor.
    if let Ok(Some(domain)) = common.domain.look()
        && let Some(token) = process_token(&domain, pid)
    {
        return wait_for_token(&domain, token, until);
    }
    process.wait(until).map_err(failed)
}

fn process_token(domain: &Domain, pid: u32) -> Option<TokenId> {
    let mut tokens = domain.tokens().into_iter();
    tokens
        .find(|info| {
            info.alive && info.same_namespace && info.kind == TokenKind::Process && info.pid == pid
        })
        .map(|info| info.id)
}

fn wait_for_token(
    domain: &Domain,
    token: TokenId,
    until: Option<Instant>,
) -> Result<bool, Failure> {
    match domain.peer(token).wait_dead_until(until.map_or(Deadline::NEVER, Deadline::at)) {
        Ok(()) => Ok(true),
        Err(WaitError::TimedOut) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits for each process that holds the name now.
fn wait_for_name(
    name: &str,
    common: &Common,
    until: Option<Instant>,
) -> Result<(Vec<u32>, bool), Failure> {
    let domain = common.domain.existing()?;
    let holders = holders(&domain, name)?;
    let pids = holders.iter().map(|holder| holder.pid).collect();
    if holders.is_empty() {
        talk(format_args!("no process holds '{name}': nothing to wait for"));
    }
    for holder in holders {
        loop {
            let slice = Instant::now() + SLICE;
            let last = until.is_some_and(|until| until <= slice);
            if wait_for_token(&domain, holder.token, if last { until } else { Some(slice) })? {
                break;
            }
            let still = match self::holders(&domain, name) {
                Ok(now) => now.iter().any(|now| now.token == holder.token),
                Err(Error::NotFound { .. }) => false,
                Err(error) => return Err(error.into()),
            };
            if !still {
                talk(format_args!("process {} gave '{name}' back, and lives on", holder.pid));
                break;
            }
            if last {
                return Ok((pids, false));
            }
        }
    }
    Ok((pids, true))
}

/// Returns the one holder of something that has one holder at most.
fn holders(domain: &Domain, name: &str) -> Result<Vec<Holder>, Error> {
    Ok(match domain.entry(name)?.detail {
        Detail::Lock(lock) => lock.holders,
        Detail::Record { holders, .. } => holders,
        Detail::Queue { receiver, .. } => receiver.into_iter().collect(),
        Detail::State { writer, .. } => writer.into_iter().collect(),
        Detail::Service(overview) => overview.server.into_iter().collect(),
        _ => Vec::new(),
    })
}
