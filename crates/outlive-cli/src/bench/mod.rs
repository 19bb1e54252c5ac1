//! `outlive bench`: what Outlive's parts cost beside their alternatives, in the same run on the same machine.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `round` | contenders, interleaved turn by turn |
//! | `crossing` | how far apart the cores are just now, and which rounds may be compared |
//! | `statistics`, `report`, `chart`, `machine` | what is told of it |
//! | `crew`, `shared`, `asleep`, `scratch`, `interrupt`, `clock`, `error`, `compiled` | processes, memory, files, C++ |
//! | `inversion` | a control loop's intervals beside a load: a report of its own |
//! | `realtime` | scheduling for locks that are made for it |
//! | `liveness`, `locks`, `counter`, `queue`, `mq`, `pool` | the benchmarks; in each, one file for every alternative |
//! | `rpc`, `copies`, `state` | benchmarks of one file |
//! | `all`, `page` | all of them, one after another, on one page |
//!
//! All figures are costs in nanoseconds: less is better.

mod all;
pub(crate) mod asleep;
pub(crate) mod chart;
pub(crate) mod clock;
pub(crate) mod compiled;
mod copies;
mod counter;
pub(crate) mod crew;
pub(crate) mod crossing;
pub(crate) mod error;
pub(crate) mod interrupt;
mod inversion;
mod lines;
mod liveness;
mod locks;
pub(crate) mod machine;
mod mq;
mod page;
pub mod pool;
pub(crate) mod queue;
mod realtime;
pub(crate) mod report;
pub(crate) mod round;
mod rpc;
pub(crate) mod scratch;
pub(crate) mod shared;
mod state;
pub(crate) mod statistics;

pub use error::Error;

use crate::duration;
use clap::{Args, Subcommand, ValueEnum, value_parser};
use crossing::Cores;
use machine::Machine;
use outlive::WaitStrategy;
use report::{Absent, Report, Title};
use round::{Contender, Group, Plan, Setting, Stage};
use scratch::Scratch;
use serde::Serialize;
use std::io::{self, ErrorKind, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure what things cost beside their alternatives, in the same run
///
/// Contenders take turns, and what is printed is the median with minimum and maximum. All figures
/// are costs in nanoseconds: less is better.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bench locks --contended\n  \
    outlive bench all --quick --html report.html")]
pub struct BenchArgs {
    /// What is measured
    #[command(subcommand)]
    pub(crate) which: Which,
}

/// The benchmarks.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Which {
    /// Asking whether a process is alive: a load, a token, and seven other ways
    #[command(after_long_help = "Example:\n  outlive bench liveness")]
    Liveness(LivenessArgs),
    /// Locks between processes, all kinds: uncontended, contended, chased around, or handed to a sleeper
    #[command(after_long_help = "Example:\n  outlive bench locks --contended --work 100ns")]
    Locks(LocksArgs),
    /// The mutex alone, with its older names of rows: uncontended, contended, or handed to a sleeper
    #[command(after_long_help = "Example:\n  outlive bench mutex --contended")]
    Mutex(MutexArgs),
    /// A control loop beside a disturbing load: its worst interval with a plain lock, priority inheritance, a ceiling
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
    /// The latest value read, or written: a state, beside a seqlock by hand and a readers-writer lock
    #[command(after_long_help = "Example:\n  outlive bench state --contended")]
    State(state::StateArgs),
    /// Taking and giving back memory: a pool's objects, beside a locked list, the system and malloc
    #[command(after_long_help = "Example:\n  outlive bench pool --size 64 --threads 2")]
    Pool(pool::PoolArgs),
    /// All of them, one after another; with --html, on one page with plots
    #[command(after_long_help = "Example:\n  outlive bench all --quick --html report.html")]
    All(all::AllArgs),
}

/// What all benchmarks take.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Print one line of JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,

    /// Also draw the rows as bars into this SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Rounds of one kind (near or far cores) to compare; at most twice as many are run [default: 15]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: Option<u32>,

    /// Five rounds of short turns: a first look, not a result
    #[arg(long)]
    pub(crate) quick: bool,

    /// Operations in each turn, instead of as many as fill the time
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(8..=1 << 31))]
    loops: Option<u64>,

    /// How long a turn should take, 1ms to 10s; a bare number is milliseconds [default: 40ms]
    #[arg(long, value_name = "TIME", value_parser = parse_turn)]
    pub(crate) turn_ms: Option<u64>,

    /// The two cores to use, as in 0,1 [default: the first two allowed]
    #[arg(long, value_name = "A,B", value_parser = parse_cores)]
    cores: Option<Cores>,

    /// Only these rows, separated by commas; the baseline is always measured
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Niceness of the measuring processes; -20, where permitted, keeps other programs off their cores
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(i32).range(-20..=19))]
    pub(crate) nice: Option<i32>,

    /// The time after which the whole is given up
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = parse_limit)]
    pub(crate) limit: u32,
}

/// How Outlive's own row waits.
#[derive(Args, Clone, Debug)]
pub(crate) struct Waiting {
    /// How outlive's own row waits
    #[arg(long, value_enum, default_value_t = WaitName::Adaptive)]
    wait: WaitName,
}

/// The names of [`outlive::WaitStrategy`].
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitName {
    /// Spin as long as that has been paying, then sleep: the library's default
    Adaptive,
    /// Sleep at once
    Block,
    /// Spin long before sleeping
    Spin,
}

impl From<WaitName> for WaitStrategy {
    fn from(name: WaitName) -> Self {
        match name {
            WaitName::Adaptive => Self::Adaptive,
            WaitName::Block => Self::Block,
            WaitName::Spin => Self::Spin,
        }
    }
}

/// The arguments of `outlive bench liveness`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LivenessArgs {
    /// Put the question into the loop itself, instead of calling it: counts single instructions
    #[arg(long)]
    inlined: bool,

    #[command(flatten)]
    common: Common,
}

/// The arguments of `outlive bench locks`.
#[derive(Args, Clone, Debug)]
#[group(id = "how", multiple = false, args = ["contended", "wake", "sleeper"])]
pub(crate) struct LocksArgs {
    /// Two processes on two cores raise one number inside the lock, or read it together
    #[arg(long)]
    contended: bool,

    /// Two processes chase each other around three locks: each step waits for one of the other's
    #[arg(long)]
    wake: bool,

    /// From unlock until a process that slept for the lock has it
    #[arg(long)]
    sleeper: bool,

    /// Compute for this long while holding the lock, and as long before taking it again, 1ns to 1ms; a bare number is nanoseconds
    #[arg(long, value_name = "TIME", requires = "contended", value_parser = parse_work)]
    work: Option<u32>,

    #[command(flatten)]
    waiting: Waiting,

    #[command(flatten)]
    common: Common,
}

/// The arguments of `outlive bench mutex`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MutexArgs {
    /// Two processes on two cores raise one counter inside the lock
    #[arg(long, conflicts_with = "wake")]
    contended: bool,

    /// From unlock until a process that slept for the lock has it
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
pub(crate) struct QueueArgs {
    /// Bytes in a message
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: usize,

    /// Send in batches of so many where the way knows batches
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "64")]
    batch: Option<usize>,

    /// To a receiver that sleeps in its receiving call
    #[arg(long)]
    sleeping: bool,

    /// A message there and another back
    #[arg(long)]
    roundtrip: bool,

    /// The longest single send while a queue without reader grows to 1 GiB, beside allocating 2 MiB
    #[arg(long)]
    grow: bool,

    /// Where --grow ends, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, requires = "grow", value_parser = value_parser!(u64).range(1..=65_536))]
    grow_mib: u64,

    #[command(flatten)]
    waiting: Waiting,

    #[command(flatten)]
    common: Common,
}

/// One benchmark, made ready from its arguments.
pub(crate) struct Prepared {
    pub(crate) title: Title,
    pub(crate) groups: Vec<Group>,
    pub(crate) absent: Vec<Absent>,
    /// What is the same in all groups and worth telling.
    pub(crate) fixed: Vec<Setting>,
    pub(crate) needs_two_cores: bool,
    pub(crate) wait: WaitStrategy,
    /// A turn of this one takes so long that few rounds must do.
    pub(crate) long_turns: bool,
}

impl Prepared {
    /// With these contenders, all compared with each other, in two processes on two cores.
    pub(crate) fn of(title: Title, rows: Vec<Box<dyn Contender>>, baseline: &'static str) -> Self {
        Self {
            title,
            groups: vec![Group { setting: None, rows, baseline, kinds_differ: true }],
            absent: Vec::new(),
            fixed: Vec::new(),
            needs_two_cores: true,
            wait: WaitStrategy::default(),
            long_turns: false,
        }
    }

    /// In one process, to which it does not matter how far apart the cores are.
    pub(crate) fn alone(mut self) -> Self {
        self.needs_two_cores = false;
        self.groups.iter_mut().for_each(|group| group.kinds_differ = false);
        self
    }

    pub(crate) fn waiting(self, wait: WaitName) -> Self {
        Self { wait: wait.into(), ..self }
    }

    pub(crate) fn without(self, absent: Vec<Absent>) -> Self {
        Self { absent, ..self }
    }
}

/// Runs a benchmark and tells what came out: results on stdout, talk on stderr. `peers` adds other libraries' rows to
/// `bench pool`.
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

/// Draws the report if asked, and prints it.
pub(crate) fn tell(report: &Report, common: &Common) -> Result<ExitCode, Error> {
    if let Some(path) = &common.svg {
        chart::draw(report, path)?;
        eprintln!("outlive bench: drew {}", path.display());
    }
    print(&if common.json { json_line(&report.document())? } else { report.table() })
}

/// Makes this program ready to fork.
pub(crate) fn begin(limit: u32, nice: Option<i32>) -> Result<interrupt::Guard, Error> {
    crew::require_one_thread()?;
    let guard = interrupt::Guard::new(limit)?;
    if let Some(niceness) = nice {
        crew::set_niceness(niceness)?;
    }
    Ok(guard)
}

/// A report as one line of JSON.
pub(crate) fn json_line(document: &impl Serialize) -> Result<String, Error> {
    let json = serde_json::to_string(document).map_err(|error| Error::Refused(error.to_string()))?;
    Ok(json + "\n")
}

pub(crate) fn print(text: &str) -> Result<ExitCode, Error> {
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever read has seen enough: no error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(source) => Err(Error::System { doing: "writing the result", source }),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
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
            let prepared = prepare_locks(mode.title(), locks::Field::of_locks(mode, &args.common.only), mode);
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
        return Err(Error::Refused(format!("a message carries its number: --size {} or more", queue::LEAST_BYTES)));
    }
    let mode = match args.batch {
        Some(0) => {
            return Err(Error::Refused("a batch holds at least one message: --batch 1 or more".into()));
        }
        Some(messages) => queue::Mode::Batch(messages),
        None if args.sleeping => queue::Mode::Sleeping,
        None if args.roundtrip => queue::Mode::RoundTrip,
        None if args.grow => queue::Mode::Grow(args.grow_mib << 20),
        None => queue::Mode::OneWay,
    };
    let field = queue::Field::new(mode, args.size);
    let prepared = Prepared::of(mode.title(), field.rows, field.baseline).without(field.absent);
    let prepared = Prepared { fixed: vec![Setting::MessageBytes(args.size)], ..prepared.waiting(args.waiting.wait) };
    Ok(match mode {
        queue::Mode::Grow(_) => Prepared { long_turns: true, ..prepared.alone() },
        _ => prepared,
    })
}

pub(crate) fn measure(prepared: Prepared, common: &Common) -> Result<Report, Error> {
    let Prepared { title, mut groups, absent, fixed, needs_two_cores, wait, long_turns } = prepared;
    let stage = stage(common.cores, wait)?;
    if needs_two_cores && stage.cores.is_none() {
        return Err(Error::Refused("this benchmark needs two cores, and this process may use one only".into()));
    }
    retain_wanted(&mut groups, &common.only, &absent)?;
    if common.nice.is_none() && machine::load_average().is_some_and(|load| load > 0.7) {
        eprintln!("outlive bench: this machine is busy with something else, which shows in what two processes do");
    }
    let default_rounds = match (common.quick, long_turns) {
        (true, true) => 2,
        (true, false) | (false, true) => 5,
        (false, false) => 15,
    };
    let turn_ms = common.turn_ms.unwrap_or(if common.quick { 10 } else { 40 });
    let plan = Plan {
        rounds: common.rounds.unwrap_or(default_rounds) as usize,
        turn: Duration::from_millis(turn_ms),
        operations: common.loops,
    };
    let run = round::run(groups, &stage, plan)?;
    Ok(Report { fixed, ..Report::new(title, Machine::look(crew::allowed_cores()?.len()), &run, absent) })
}

/// Where turns take place: on these cores, or on the first two allowed.
pub(crate) fn stage(asked: Option<Cores>, wait: WaitStrategy) -> Result<Stage, Error> {
    let allowed = crew::allowed_cores()?;
    let cores = choose_cores(&allowed, asked)?;
    let workers_on = asked.map_or(allowed, |cores| vec![cores.first, cores.second]);
    Ok(Stage { cores, workers_on, scratch: Scratch::new()?, wait, turn_limit: Duration::from_secs(60) })
}

/// Leaves the rows that were asked for, and the baselines.
fn retain_wanted(groups: &mut [Group], only: &[String], absent: &[Absent]) -> Result<(), Error> {
    if only.is_empty() {
        return Ok(());
    }
    let mut names: Vec<&'static str> = Vec::new();
    for name in groups.iter().flat_map(|group| &group.rows).map(|row| row.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if let Some(name) = only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(Error::Refused(match absent.iter().find(|absent| absent.name == name) {
            Some(absent) => format!("{name} cannot take part: {}", absent.why),
            None => format!("no row is called {name}; there are {}", names.join(", ")),
        }));
    }
    for group in groups {
        group.rows.retain(|row| row.name() == group.baseline || only.iter().any(|name| name == row.name()));
    }
    Ok(())
}

/// Milliseconds of a turn.
fn parse_turn(text: &str) -> Result<u64, String> {
    let turn = within(duration::of(text, "ms")?, Duration::from_millis(1)..=Duration::from_secs(10))?;
    Ok(turn.as_millis() as u64)
}

/// Nanoseconds of work.
fn parse_work(text: &str) -> Result<u32, String> {
    let work = within(duration::of(text, "ns")?, Duration::from_nanos(1)..=Duration::from_millis(1))?;
    Ok(work.as_nanos() as u32)
}

/// Whole seconds until the alarm, rounded up.
fn parse_limit(text: &str) -> Result<u32, String> {
    let limit = within(duration::seconds(text)?, Duration::from_nanos(1)..=Duration::from_secs(1 << 31))?;
    Ok(limit.as_secs_f64().ceil() as u32)
}

/// A time, if it lies in the range.
fn within(time: Duration, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    if range.contains(&time) { Ok(time) } else { Err(format!("use {:?} to {:?}", range.start(), range.end())) }
}

fn parse_cores(text: &str) -> Result<Cores, String> {
    let parts = text.split_once(',').map(|(first, second)| (first.trim().parse(), second.trim().parse()));
    match parts {
        Some((Ok(first), Ok(second))) => Ok(Cores { first, second }),
        _ => Err("two core numbers with a comma between them are wanted".into()),
    }
}

fn choose_cores(allowed: &[usize], asked: Option<Cores>) -> Result<Option<Cores>, Error> {
    match asked {
        Some(Cores { first, second }) if first == second || !allowed.contains(&first) || !allowed.contains(&second) => {
            Err(Error::Refused(format!("--cores takes two different ones of {allowed:?}")))
        }
        Some(cores) => Ok(Some(cores)),
        None => Ok(match allowed {
            [first, second, ..] => Some(Cores { first: *first, second: *second }),
            _ => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_chosen_among_the_allowed() {
        assert_eq!(choose_cores(&[0, 1, 2], None).unwrap(), Some(Cores { first: 0, second: 1 }));
        assert_eq!(choose_cores(&[4], None).unwrap(), None);
        let asked = parse_cores("2, 0").unwrap();
        assert_eq!(choose_cores(&[0, 1, 2], Some(asked)).unwrap(), Some(Cores { first: 2, second: 0 }));
        for wrong in ["0,0", "0,9"] {
            assert!(choose_cores(&[0, 1, 2], Some(parse_cores(wrong).unwrap())).is_err(), "{wrong}");
        }
        for wrong in ["1", "1,", "a,b", "1,2,3"] {
            assert!(parse_cores(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn row_names_are_an_interface() {
        let names = |rows: &[Box<dyn Contender>]| rows.iter().map(|row| row.name()).collect::<Vec<_>>().join(" ");
        let (rows, baseline) = liveness::contenders(liveness::Mode::Called);
        assert_eq!((&names(&rows)[..], baseline), ("dummy load mutex epoll kill procfs pidfd fcntl token", "load"));
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
