//! The benchmarks of `outlive bench`: in each folder, one file for every alternative.

mod all;
mod copies;
mod counter;
mod inversion;
mod liveness;
mod locks;
mod mq;
mod page;
pub mod pool;
pub mod queue;
mod rpc;
mod sets;
mod state;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, value_parser};

use crate::duration;
use crate::harness::report::Title;
use crate::harness::round::Setting;
use crate::harness::{Common, Error, Prepared, Waiting, begin, measure, tell, within};
use fundu::TimeUnit;

/// Measure what things cost beside their alternatives, in the same run
///
/// Contenders take turns, and what is printed is the median with minimum and maximum. All figures
/// are costs in nanoseconds: less is better.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bench locks --contended\n  \
    outlive bench all --quick --html report.html")]
pub struct BenchArgs {
    /// What to measure
    #[command(subcommand)]
    pub which: Which,
}

/// The benchmarks.
#[derive(Subcommand, Clone, Debug)]
pub enum Which {
    /// Asking whether a process is alive: a load, a token, and seven other ways
    #[command(after_long_help = "Example:\n  outlive bench liveness")]
    Liveness(LivenessArgs),
    /// Locks between processes, all kinds: uncontended, contended, chased around, or handed to a
    /// sleeper
    #[command(after_long_help = "Example:\n  outlive bench locks --contended --work 100ns")]
    Locks(LocksArgs),
    /// The mutex alone: uncontended, contended, or handed to a sleeper
    #[command(after_long_help = "Example:\n  outlive bench mutex --contended")]
    Mutex(MutexArgs),
    /// A control loop beside a disturbing load: its worst interval with a plain lock, priority
    /// inheritance, a ceiling
    #[command(after_long_help = "Example:\n  outlive bench inversion")]
    Inversion(inversion::InversionArgs),
    /// One to five threads, or processes, raise one number inside a lock
    #[command(after_long_help = "Example:\n  outlive bench counter --workers 1,2")]
    Counter(counter::CounterArgs),
    /// Messages between processes: rate, batches, round trip, waking a receiver, growing
    #[command(after_long_help = "Example:\n  outlive bench queue --roundtrip")]
    Queue(QueueArgs),
    /// A message queue made of a lock, as the system's own and Outlive's
    #[command(after_long_help = "Example:\n  outlive bench mq --size 64,512")]
    Mq(mq::MqArgs),
    /// A request to another process and its answer: a service, beside two queues and sockets
    #[command(name = "calls", after_long_help = "Example:\n  outlive bench calls --size 64")]
    Rpc(rpc::RpcArgs),
    /// A message published as a copy, beside copying it
    #[command(after_long_help = "Example:\n  outlive bench copies --size 4096")]
    Copies(copies::CopiesArgs),
    /// The latest value read, or written: a state, beside a seqlock by hand and a readers-writer
    /// lock
    #[command(after_long_help = "Example:\n  outlive bench state --contended")]
    State(state::StateArgs),
    /// Waking up from a wait for many sources: a wait set of queues, beside an epoll of eventfds
    #[command(after_long_help = "Example:\n  outlive bench sets --sources 16,4096")]
    Sets(sets::SetsArgs),
    /// Taking and giving back memory: a pool's objects, beside a locked list, the system and malloc
    #[command(after_long_help = "Example:\n  outlive bench pool --size 64 --threads 2")]
    Pool(pool::PoolArgs),
    /// All of them, one after another; with --html, on one page with plots
    #[command(after_long_help = "Example:\n  outlive bench all --quick --html report.html")]
    All(all::AllArgs),
}

/// The arguments of `outlive bench liveness`.
#[derive(Args, Clone, Debug)]
pub struct LivenessArgs {
    /// Put the question into the loop itself instead of calling a function: what a few instructions
    /// cost
    #[arg(long)]
    inlined: bool,

    #[command(flatten)]
    common: Common,
}

/// The arguments of `outlive bench locks`.
#[derive(Args, Clone, Debug)]
#[group(id = "how", multiple = false, args = ["contended", "wake", "sleeper"])]
pub struct LocksArgs {
    /// Measure two processes on two cores that raise one number inside the lock, or read it
    /// together
    #[arg(long)]
    contended: bool,

    /// Measure two processes that chase each other around three locks: each step waits for one of
    /// the other's
    #[arg(long)]
    wake: bool,

    /// Measure from an unlock until a process that slept for the lock has it
    #[arg(long)]
    sleeper: bool,

    /// Compute for this long while holding the lock, and as long before taking it again, 1ns to
    /// 1ms; a bare number is nanoseconds
    #[arg(long, value_name = "TIME", requires = "contended", value_parser = parse_work)]
    work: Option<u32>,

    #[command(flatten)]
    waiting: Waiting,

    #[command(flatten)]
    common: Common,
}

/// The arguments of `outlive bench mutex`.
#[derive(Args, Clone, Debug)]
pub struct MutexArgs {
    /// Measure two processes on two cores that raise one counter inside the lock
    #[arg(long, conflicts_with = "wake")]
    contended: bool,

    /// Measure from an unlock until a process that slept for the lock has it
    #[arg(long)]
    wake: bool,

    #[command(flatten)]
    waiting: Waiting,

    #[command(flatten)]
    common: Common,
}

/// The arguments of `outlive bench queue`.
#[derive(Args, Clone, Debug)]
#[group(id = "way", multiple = false, args = ["batch", "sleeping", "roundtrip", "grow"])]
pub struct QueueArgs {
    /// Bytes in a message
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: usize,

    /// Send N messages by one call, where the contender has such a call; without N, 64
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "64")]
    batch: Option<usize>,

    /// Measure sends to a receiver that sleeps in its receiving call
    #[arg(long)]
    sleeping: bool,

    /// Measure a message there and another back
    #[arg(long)]
    roundtrip: bool,

    /// Measure the longest single send while a queue without a receiver grows to 1 GiB, beside the
    /// allocation of 2 MiB
    #[arg(long)]
    grow: bool,

    /// With --grow: to how many MiB the queue grows
    #[arg(long, value_name = "MIB", default_value_t = 1024, requires = "grow", value_parser = value_parser!(u64).range(1..=65_536))]
    grow_mib: u64,

    #[command(flatten)]
    waiting: Waiting,

    #[command(flatten)]
    common: Common,
}

/// Runs a benchmark and tells what came out: results on stdout, talk on stderr. `peers` adds other
/// libraries' rows to `bench pool`.
///
/// # Errors
/// Whatever kept it from giving right figures; see [`Error`]. Slowness is no error.
pub fn run(args: &BenchArgs, peers: pool::Peers) -> Result<ExitCode, Error> {
    match &args.which {
        Which::All(args) => return all::run(args, peers),
        Which::Inversion(args) => return inversion::run(args).map(|()| ExitCode::SUCCESS),
        _ => {}
    }
    let (prepared, common) = prepare(&args.which, peers)?;
    let _signals = begin(common.limit, common.nice)?;
    tell(&measure(prepared, common)?, common)
}

fn prepare(which: &Which, peers: pool::Peers) -> Result<(Prepared, &Common), Error> {
    Ok(match which {
        Which::Liveness(args) => {
            let mode = if args.inlined { liveness::Mode::Inlined } else { liveness::Mode::Called };
            let (rows, baseline) = liveness::contenders(mode);
            (Prepared::of(mode.title(), rows, baseline).alone(), &args.common)
        }
        Which::Locks(args) => {
            let mode = match (args.contended, args.wake, args.sleeper) {
                (true, _, _) => locks::Mode::Contended(args.work.unwrap_or(0)),
                (_, true, _) => locks::Mode::Chase,
                (_, _, true) => locks::Mode::Sleeper,
                _ => locks::Mode::Uncontended,
            };
            let prepared =
                prepare_locks(mode.title(), locks::Field::of_locks(mode, &args.common.only), mode);
            let fixed = args.work.map(|ns| Setting::WorkNs(ns as usize)).into_iter().collect();
            (Prepared { fixed, ..prepared.waiting(args.waiting.wait) }, &args.common)
        }
        Which::Mutex(args) => {
            let mode = match (args.contended, args.wake) {
                (true, _) => locks::Mode::Contended(0),
                (_, true) => locks::Mode::Sleeper,
                _ => locks::Mode::Uncontended,
            };
            let prepared = prepare_locks(mode.mutex_title(), locks::Field::of_mutexes(mode), mode);
            (prepared.waiting(args.waiting.wait), &args.common)
        }
        Which::Counter(args) => (counter::prepare(args), &args.common),
        Which::Queue(args) => (prepare_queue(args)?, &args.common),
        Which::Inversion(_) => return Err(Error::Refused("it has a report of its own".into())),
        Which::Mq(args) => (mq::prepare(args)?, &args.common),
        Which::Rpc(args) => (rpc::prepare(args)?, &args.common),
        Which::Copies(args) => (copies::prepare(args)?, &args.common),
        Which::State(args) => (state::prepare(args), &args.common),
        Which::Sets(args) => (sets::prepare(args)?, &args.common),
        Which::Pool(args) => (pool::prepare(args, peers)?, &args.common),
        Which::All(_) => return Err(Error::Refused("all of them cannot be one".into())),
    })
}

fn prepare_locks(title: Title, field: locks::Field, mode: locks::Mode) -> Prepared {
    let prepared = Prepared::of(title, field.rows, field.baseline).without(field.absent);
    if mode == locks::Mode::Uncontended { prepared.alone() } else { prepared }
}

fn prepare_queue(args: &QueueArgs) -> Result<Prepared, Error> {
    if args.size < queue::LEAST_BYTES {
        return Err(Error::Refused(format!(
            "a message carries its number: --size {} or more",
            queue::LEAST_BYTES
        )));
    }
    let mode = match args.batch {
        Some(0) => {
            return Err(Error::Refused(
                "a batch holds at least one message: --batch 1 or more".into(),
            ));
        }
        Some(messages) => queue::Mode::Batch(messages),
        None if args.sleeping => queue::Mode::Sleeping,
        None if args.roundtrip => queue::Mode::RoundTrip,
        None if args.grow => queue::Mode::Grow(args.grow_mib << 20),
        None => queue::Mode::OneWay,
    };
    let field = queue::Field::new(mode, args.size);
    let prepared = Prepared::of(mode.title(), field.rows, field.baseline).without(field.absent);
    let prepared = Prepared {
        fixed: vec![Setting::MessageBytes(args.size)],
        ..prepared.waiting(args.waiting.wait)
    };
    Ok(match mode {
        queue::Mode::Grow(_) => Prepared { long_turns: true, ..prepared.alone() },
        _ => prepared,
    })
}

/// Nanoseconds of work.
fn parse_work(text: &str) -> Result<u32, String> {
    let work = within(
        duration::of(text, TimeUnit::NanoSecond)?,
        Duration::from_nanos(1)..=Duration::from_millis(1),
    )?;
    Ok(work.as_nanos() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::round::Contender;

    #[test]
    fn row_names_are_an_interface() {
        let names = |rows: &[Box<dyn Contender>]| {
            rows.iter().map(|row| row.name()).collect::<Vec<_>>().join(" ")
        };
        let (rows, baseline) = liveness::contenders(liveness::Mode::Called);
        assert_eq!(
            (&names(&rows)[..], baseline),
            ("dummy load mutex epoll kill procfs pidfd fcntl token", "load")
        );
        let field = locks::Field::of_mutexes(locks::Mode::Contended(0));
        let mutexes = "outlive pthread pthread_robust pthread_pi fcntl sysv";
        assert_eq!((&names(&field.rows)[..], field.baseline), (mutexes, "pthread"));
        let peers = "outlive posix_mq pipe unix_seqpacket sysv_msg";
        let field = queue::Field::new(queue::Mode::OneWay, 64);
        assert_eq!(names(&field.rows), format!("{peers} cacheline futex"));
        assert_eq!(field.baseline, "posix_mq");
        let field = queue::Field::new(queue::Mode::RoundTrip, 64);
        assert_eq!(field.baseline, "cacheline");
        let field = queue::Field::new(queue::Mode::Sleeping, 64);
        assert_eq!((names(&field.rows), field.baseline), (format!("{peers} futex"), "futex"));
        let field = queue::Field::new(queue::Mode::Grow(1 << 30), 64);
        assert_eq!((&names(&field.rows)[..], field.baseline), ("outlive alloc_2mib", "alloc_2mib"));
    }
}
