//! What does it cost to take memory and to give it back?
//!
//! HAProxy's pool ("possible race with free() in the lockless pool") was 2.6 times as fast as no
//! cache and as a pool behind a lock, on buffers of 2 MB with 16 threads. The same comparison, for
//! objects of any size, in threads of one process or in processes:
//!
//! | row | where an object comes from |
//! | --- | --- |
//! | `outlive` | Outlive's pool, in memory that all processes share |
//! | `outlive_uncached` | the same without a cache for each thread |
//! | `locked` | one list of free buffers behind a plain lock; memory that the processes of the benchmark share |
//! | `no_cache` | the system: each buffer is mapped and unmapped |
//! | `malloc` | the C library: private memory, the baseline |
//!
//! Every row writes the first byte of each page that it gets (`--touch first`: of the object only),
//! and reads the first byte again before it gives the object back: memory that two have at once is
//! an error. The figure is the time from the first worker's beginning to the last one's end,
//! divided by the number of objects taken and given back. Before that, each worker has held as many
//! objects as it ever will, all workers at once.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `allocator` | what a row must be able to do; rows that are two functions |
//! | `pattern`, `ring` | which worker takes and gives back, and when; how an object goes to another |
//! | `outlive`, `locked`, `system` | the rows |

mod allocator;
mod locked;
mod outlive;
mod pattern;
mod ring;
mod system;

pub use allocator::{Called, Functions};

use crate::harness::crew::Crew;
use crate::harness::error::Error;
use crate::harness::report::{Absent, Title};
use crate::harness::round::{Contender, Figure, Group, Setting, Stage};
use crate::harness::shared::{Board, MOST_WORKERS, Shared};
use crate::harness::{Common, Prepared};
use allocator::Allocator;
use clap::{Args, ValueEnum, value_parser};
use pattern::{Part, Rings};
use std::fs;
use std::marker::PhantomData;

/// The arguments of `outlive bench pool`.
#[derive(Args, Clone, Debug)]
pub struct PoolArgs {
    /// Bytes in an object; several sizes are separated by commas
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_values_t = SIZES,
        value_parser = value_parser!(u64).range(1..=1 << 30))]
    size: Vec<u64>,

    /// Threads of one process at it; several numbers, for one size, are separated by commas
    /// [default: 1, or a pair]
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "processes",
        value_parser = value_parser!(u8).range(1..=MOST_WORKERS as i64))]
    threads: Vec<u8>,

    /// Processes at it, instead of threads
    #[arg(long, value_name = "N,…", value_delimiter = ',',
        value_parser = value_parser!(u8).range(1..=MOST_WORKERS as i64))]
    processes: Vec<u8>,

    /// Which worker takes and gives back, and when
    #[arg(long, value_enum, default_value_t = Pattern::AllocFree)]
    pattern: Pattern,

    /// What is written into an object
    #[arg(long, value_enum, default_value_t = Touch::Pages)]
    touch: Touch,

    #[command(flatten)]
    pub(super) common: Common,
}

/// A cache line, a page, a network buffer, a large one, and HAProxy's.
const SIZES: [u64; 5] = [64, 4 << 10, 48 << 10, 256 << 10, 2 << 20];

/// Which worker takes and gives back, and when.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// An object is given back before the next is taken
    AllocFree,
    /// 64 are taken, then all are given back, the oldest first
    Batch,
    /// One worker takes, another gives back
    HandOver,
    /// Each worker has 16 and replaces any of them; beside it the row's flush, every millisecond,
    /// and its gc, every ten
    Random,
}

/// What is written into each object.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// The first byte of each page: the memory is really there
    Pages,
    /// The first byte of the object: what taking and giving back cost by themselves
    First,
}

impl Pattern {
    fn title(self) -> Title {
        let (mode, meaning) = match self {
            Self::AllocFree => ("alloc-free", "an object taken and given back"),
            Self::Batch => ("batch", "an object taken and given back, 64 at a time"),
            Self::HandOver => ("hand-over", "an object taken by one and given back by another"),
            Self::Random => (
                "random",
                "one of 16 objects given back and another taken, with flush and gc beside it",
            ),
        };
        Title {
            bench: "pool",
            mode,
            meaning,
            ours: &["outlive", "outlive_uncached"],
            rate_of: None,
        }
    }

    /// Returns the most objects that one worker has at once.
    const fn held(self) -> usize {
        match self {
            Self::AllocFree => 1,
            Self::Batch => 64,
            // What lies in the ring, and one in each pair of hands; a half for each of the two.
            Self::HandOver => ring::SLOTS / 2 + 1,
            Self::Random => 16,
        }
    }
}

/// What a turn does.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pattern: Pattern,
    touch: Touch,
    workers: usize,
    processes: bool,
    /// Bytes in an object.
    bytes: usize,
}

impl Work {
    /// Returns the most objects that are in use at once.
    fn objects(&self) -> usize {
        self.workers * self.pattern.held()
    }

    /// Returns whether one process gives back what another took.
    fn crosses(&self) -> bool {
        self.processes && self.pattern == Pattern::HandOver
    }

    /// Rounds so many operations of all workers up to a worker's equal share.
    fn share(&self, operations: u64) -> u64 {
        let share = operations.div_ceil(self.workers as u64);
        if self.pattern == Pattern::Batch {
            share.next_multiple_of(self.pattern.held() as u64)
        } else {
            share
        }
    }

    fn who(&self) -> Setting {
        if self.processes {
            Setting::Processes(self.workers)
        } else {
            Setting::Threads(self.workers)
        }
    }

    /// Refuses a run that would make the machine swap.
    fn fits(&self) -> Result<(), Error> {
        let needed = self.objects() as u64 * self.bytes as u64;
        match available() {
            Some(available) if needed > available / 2 => Err(Error::Refused(format!(
                "{} objects of {} B at once are {} MiB, and this machine has {} MiB to spare; take a smaller --size",
                self.objects(),
                self.bytes,
                needed >> 20,
                available >> 20
            ))),
            _ => Ok(()),
        }
    }
}

/// Returns the memory that is available without swapping, in bytes.
fn available() -> Option<u64> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Adds rows of other libraries to each group.
pub type Peers = fn(&mut Field);

/// The rows of one group.
pub struct Field {
    work: Work,
    rows: Vec<Box<dyn Contender>>,
    absent: Vec<Absent>,
}

impl Field {
    /// Adds a row, if it can do this work.
    pub fn add<A: Allocator>(&mut self) {
        if self.work.crosses() && !A::CROSSES {
            let why = "its memory is one process's: another cannot give it back".into();
            self.absent.push(Absent { name: A::NAME, why });
        } else {
            self.rows.push(Box::new(Row::<A> { work: self.work, allocator: PhantomData }));
        }
    }
}

/// Makes it ready.
pub(super) fn prepare(args: &PoolArgs, peers: Peers) -> Result<Prepared, Error> {
    let mut sizes: Vec<usize> = args.size.iter().map(|&bytes| bytes as usize).collect();
    let mut crowds: Vec<usize> =
        args.threads.iter().chain(&args.processes).map(|&workers| workers.into()).collect();
    if crowds.is_empty() {
        crowds.push(if args.pattern == Pattern::HandOver { 2 } else { 1 });
    }
    for list in [&mut sizes, &mut crowds] {
        list.sort_unstable();
        list.dedup();
    }
    if args.pattern == Pattern::HandOver && crowds.iter().any(|workers| workers % 2 == 1) {
        return Err(Error::Refused(
            "objects go from one to another: an even number of workers is wanted".into(),
        ));
    }
    let processes = !args.processes.is_empty();
    let work = |bytes, workers| Work {
        pattern: args.pattern,
        touch: args.touch,
        workers,
        processes,
        bytes,
    };
    let works: Vec<Work> = sizes
        .iter()
        .flat_map(|&bytes| crowds.iter().map(move |&workers| work(bytes, workers)))
        .collect();
    // One axis: either the size or the number of workers is the same everywhere.
    let (size, who) = (|work: &Work| Setting::ObjectBytes(work.bytes), Work::who);
    let (fixed, setting) = match (&works[..], sizes.len(), crowds.len()) {
        ([only], ..) => (vec![size(only), who(only)], None),
        ([first, ..], _, 1) => (vec![who(first)], Some(size as fn(&Work) -> Setting)),
        ([first, ..], 1, _) => (vec![size(first)], Some(who as fn(&Work) -> Setting)),
        _ => {
            let why = "several numbers of workers are compared at one size: add --size BYTES";
            return Err(Error::Refused(why.into()));
        }
    };
    let mut absent: Vec<Absent> = Vec::new();
    let mut groups = Vec::with_capacity(works.len());
    for work in &works {
        work.fits()?;
        let field = field(*work, peers);
        // The same rows everywhere, so the same are missing.
        absent = field.absent;
        groups.push(Group {
            setting: setting.map(|setting| setting(work)),
            rows: field.rows,
            baseline: if work.crosses() { locked::Locked::NAME } else { system::MALLOC },
            kinds_differ: work.workers > 1,
        });
    }
    let prepared = Prepared::of(args.pattern.title(), Vec::new(), "").without(absent);
    Ok(Prepared { groups, fixed, needs_two_cores: false, ..prepared })
}

fn field(work: Work, peers: Peers) -> Field {
    let mut field = Field { work, rows: Vec::new(), absent: Vec::new() };
    outlive::add(&mut field);
    field.add::<locked::Locked>();
    field.add::<Called<system::NoCache>>();
    field.add::<Called<system::Malloc>>();
    peers(&mut field);
    field
}

struct Row<A> {
    work: Work,
    allocator: PhantomData<A>,
}

impl<A: Allocator> Contender for Row<A> {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn least_operations(&self) -> u64 {
        self.work.objects() as u64
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let work = self.work;
        let place = A::place(stage, &work)?;
        let board = Shared::<Board>::new()?;
        let rings = Shared::<Rings>::new()?;
        let mut crew = Crew::new()?;
        let share = work.share(operations);
        let core =
            |worker: usize| stage.workers_on.get(worker % stage.workers_on.len().max(1)).copied();
        let threads = if work.processes { 1 } else { work.workers };
        for first in (0..work.workers).step_by(threads) {
            let part = Part { work, share, board: &board, rings: &rings, first, threads };
            crew.start("allocating process", core(first), || part.play(&A::open(&place)?, core))?;
        }
        let preempted = crew.finish(stage.turn_limit)?;
        let left: Vec<[u64; 4]> = (0..work.workers).map(|worker| board.left(worker)).collect();
        let objects: u64 = left.iter().map(|worker| worker[0]).sum();
        if objects != share * work.workers as u64 {
            let why =
                format!("{}: {objects} objects, not {share} by each of {}", A::NAME, work.workers);
            return Err(Error::Wrong(why));
        }
        let begun = left.iter().map(|worker| worker[1]).min().unwrap_or(0);
        let ended = left.iter().map(|worker| worker[2]).max().unwrap_or(0);
        board.leave_mean(ended - begun, objects);
        board.figure(preempted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(pattern: Pattern, workers: usize) -> Work {
        Work { pattern, touch: Touch::Pages, workers, processes: false, bytes: 64 }
    }

    #[test]
    fn shares_are_equal_and_batches_whole() {
        assert_eq!(work(Pattern::AllocFree, 4).share(10), 3);
        assert_eq!(work(Pattern::Batch, 2).share(100), 64);
        assert_eq!(work(Pattern::Batch, 2).share(129), 128);
    }

    #[test]
    fn what_cannot_fit_is_refused() {
        let huge = Work { bytes: 1 << 45, ..work(Pattern::Random, 16) };
        assert!(huge.fits().unwrap_err().to_string().contains("a smaller --size"));
        assert!(work(Pattern::Random, 16).fits().is_ok());
    }

    #[test]
    fn row_names_are_an_interface() {
        let names =
            |work| field(work, |_| {}).rows.iter().map(|row| row.name()).collect::<Vec<_>>();
        let alone = names(work(Pattern::AllocFree, 1));
        assert!(alone.ends_with(&["locked", "no_cache", "malloc"]), "{alone:?}");
        let crossing = names(Work { processes: true, ..work(Pattern::HandOver, 2) });
        assert!(crossing.ends_with(&["locked"]), "{crossing:?}");
    }
}
