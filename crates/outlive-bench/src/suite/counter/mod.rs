//! What does a lock cost when more and more want it?
//!
//! One to five threads of a process, or one to five processes, raise one number until it has
//! reached the turn's, each time inside the lock ("Detailed approach of the futex": there, to
//! 100,000,000). The figure is the time from the first worker's beginning to the last one's end,
//! divided by how often the number was raised. Workers are spread over the cores that may be used;
//! where there are more of them than cores, some hold the lock while they have none.
//!
//! The locks are those of `bench locks`, and the three that one learns a futex by. A wrong number
//! at the end is an error.

mod teaching;

use super::locks::{Handle, Lock, OurMutex, Plain, Pthread, SemT, SysV};
use crate::harness::clock;
use crate::harness::crew::{self, Crew};
use crate::harness::error::Error;
use crate::harness::report::Title;
use crate::harness::round::{Contender, Figure, Group, Setting, Stage};
use crate::harness::shared::{Board, MOST_WORKERS, Shared};
use crate::harness::{Common, Prepared, Waiting};
use clap::{Args, value_parser};
use std::marker::PhantomData;
use std::thread;
use teaching::{Four, Teaching, Three, Two};

/// The arguments of `outlive bench counter`.
#[derive(Args, Clone, Debug)]
pub struct CounterArgs {
    /// Processes, instead of threads of one process
    #[arg(long)]
    pub(super) processes: bool,

    /// How many workers, separated by commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 2, 3, 4, 5],
        value_parser = value_parser!(u8).range(1..=MOST_WORKERS as i64))]
    pub(super) workers: Vec<u8>,

    #[command(flatten)]
    pub(super) waiting: Waiting,

    #[command(flatten)]
    pub(super) common: Common,
}

/// Makes it ready.
pub(super) fn prepare(args: &CounterArgs) -> Prepared {
    let (mode, meaning) = if args.processes {
        ("processes", "raising a number inside a lock, by so many processes at once")
    } else {
        ("threads", "raising a number inside a lock, by so many threads at once")
    };
    let title = Title { bench: "counter", mode, meaning, ours: &[OurMutex::NAME], rate_of: None };
    let mut counts: Vec<usize> = args.workers.iter().map(|&workers| workers.into()).collect();
    counts.sort_unstable();
    counts.dedup();
    let groups = counts.into_iter().map(|workers| group(workers, args.processes)).collect();
    let prepared =
        Prepared { groups, needs_two_cores: false, ..Prepared::of(title, Vec::new(), "") };
    prepared.waiting(args.waiting.wait)
}

fn group(workers: usize, processes: bool) -> Group {
    fn row<L: Lock>(workers: usize, processes: bool) -> Box<dyn Contender> {
        Box::new(Counting::<L> { workers, processes, lock: PhantomData })
    }
    Group {
        setting: Some(if processes {
            Setting::Processes(workers)
        } else {
            Setting::Threads(workers)
        }),
        rows: vec![
            row::<OurMutex>(workers, processes),
            row::<Pthread<Plain>>(workers, processes),
            row::<SemT>(workers, processes),
            row::<SysV>(workers, processes),
            row::<Teaching<Two>>(workers, processes),
            row::<Teaching<Three>>(workers, processes),
            row::<Teaching<Four>>(workers, processes),
        ],
        baseline: Pthread::<Plain>::NAME,
        kinds_differ: workers > 1,
    }
}

struct Counting<L> {
    workers: usize,
    processes: bool,
    lock: PhantomData<L>,
}

impl<L: Lock> Contender for Counting<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    /// Returns enough operations that the first worker does not do all before the others wake up.
    fn least_operations(&self) -> u64 {
        20_000
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let place = L::place(stage, "lock")?;
        let board = Shared::<Board>::new()?;
        let mut crew = Crew::new()?;
        let workers = self.workers;
        let core =
            |worker: usize| stage.workers_on.get(worker % stage.workers_on.len().max(1)).copied();
        if self.processes {
            for worker in 0..workers {
                let (place, board) = (&place, &board);
                crew.start("counting process", core(worker), move || {
                    work(&L::open(place)?, board, worker, workers, operations)
                })?;
            }
        } else {
            crew.start("counting process", None, || {
                let lock = L::open(&place)?;
                thread::scope(|scope| {
                    let threads: Vec<_> = (0..workers)
                        .map(|worker| {
                            let (lock, board, core) = (&lock, &board, core(worker));
                            scope.spawn(move || {
                                core.map_or(Ok(()), crew::pin)?;
                                work(lock, board, worker, workers, operations)
                            })
                        })
                        .collect();
                    threads.into_iter().try_for_each(|thread| {
                        thread.join().unwrap_or_else(|_| {
                            Err(Error::Child("a counting thread panicked".into()))
                        })
                    })
                })
            })?;
        }
        let preempted = crew.finish(stage.turn_limit)?;
        sum_up::<L>(&board, workers)?;
        board.figure(preempted)
    }
}

/// Raises the number until it is as large as wanted.
fn work(
    lock: &impl Handle,
    board: &Board,
    worker: usize,
    workers: usize,
    operations: u64,
) -> Result<(), Error> {
    lock.once()?;
    board.meet(workers as u32);
    let begun = clock::now();
    let (mut mine, mut number) = (0, 0);
    while number < operations {
        number = lock.once()?;
        mine += 1;
    }
    board.leave(worker, [mine, begun, clock::now(), number]);
    Ok(())
}

fn sum_up<L: Lock>(board: &Board, workers: usize) -> Result<(), Error> {
    let left: Vec<[u64; 4]> = (0..workers).map(|worker| board.left(worker)).collect();
    let raised: u64 = left.iter().map(|worker| worker[0]).sum();
    let number = left.iter().map(|worker| worker[3]).max().unwrap_or(0);
    // Each raised it once before they met.
    if number != raised + workers as u64 {
        let why = format!(
            "{}: {workers} workers raised the number {raised} times, and it is {number}",
            L::NAME
        );
        return Err(Error::Wrong(why));
    }
    let begun = left.iter().map(|worker| worker[1]).min().unwrap_or(0);
    let ended = left.iter().map(|worker| worker[2]).max().unwrap_or(0);
    board.leave_mean(ended - begun, raised);
    Ok(())
}
