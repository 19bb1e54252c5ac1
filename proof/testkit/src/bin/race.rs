//! HAProxy's race: many threads take and give back large objects of one pool, while flush and gc
//! come at any time.
//!
//! HAProxy's lockless pool read `head->next` of an object that another thread had taken meanwhile
//! and given back to the system: a fault within 20 s with 16 threads and buffers of 2 MB. Here the
//! same is tried for as long as asked. Every page of an object says whose it is, and is looked at
//! again before it is given back: by the same thread, or by another one that it was handed to. At
//! the end everything is accounted for.
//!
//! `race --minutes N`. Exit code 1 when two had an object at once, when a page changed, or when the
//! sums are not right; a fault ends it by its signal.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use outlive::Domain;
use outlive::pool::{Object, Offset, Pool, PoolError, Usage};
use outlive_testkit::random::Random;
use outlive_testkit::world::scratch::{Scratch, clear_ended_runs};

#[derive(Parser)]
#[command(version, about = "Take and give back large objects while flush and gc come at any time")]
struct Arguments {
    /// For how long; fractions are welcome.
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    minutes: f64,
    /// How many threads.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Bytes in an object.
    #[arg(long, default_value_t = 2 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(64..=1 << 30))]
    size: u64,
    /// The most bytes of the pool; less than the threads would like, so that it is often full.
    #[arg(long, value_name = "MIB")]
    max_mib: Option<u64>,
    /// Repeats the choices of an earlier run; the threads' order is the kernel's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// So many objects a thread holds at most.
const HELD: usize = 6;
/// Between two words that say whose an object is: every page has one.
const PAGE: usize = 4096;
/// How long one thread may be in one step before the run counts as hung.
const STUCK: Duration = Duration::from_secs(60);

/// What the threads count and share.
struct Race<'pool> {
    pool: &'pool Pool,
    bytes: usize,
    over: AtomicBool,
    /// Objects handed over and not claimed yet, with the value in each.
    offered: Mutex<Vec<(Offset, u64)>>,
    steps: Vec<AtomicU64>,
    taken: AtomicU64,
    full: AtomicU64,
    claimed: AtomicU64,
    flushed: AtomicU64,
    collected: AtomicU64,
    returned: AtomicU64,
}

fn write(object: &mut Object<'_>, mark: u64) {
    for page in object.chunks_mut(PAGE) {
        let room = page.len().min(8);
        page[..room].copy_from_slice(&mark.to_ne_bytes()[..room]);
    }
}

fn check(object: &Object<'_>, mark: u64) -> Result<(), String> {
    for (number, page) in object.chunks(PAGE).enumerate() {
        let room = page.len().min(8);
        if page[..room] != mark.to_ne_bytes()[..room] {
            return Err(format!(
                "page {number} of an object in use holds {:x?}, not {mark:x}",
                &page[..room]
            ));
        }
    }
    Ok(())
}

impl<'pool> Race<'pool> {
    fn offered(&self) -> std::sync::MutexGuard<'_, Vec<(Offset, u64)>> {
        self.offered.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn run(&self, number: usize, seed: u64) -> Result<(), String> {
        let mut random = Random::new(seed ^ (number as u64) << 32);
        let mut held: Vec<(Object<'pool>, u64)> = Vec::with_capacity(HELD);
        while !self.over.load(Ordering::Relaxed) {
            self.step(&mut random, &mut held)?;
            self.steps[number].fetch_add(1, Ordering::Relaxed);
        }
        held.drain(..).try_for_each(give_back)
    }

    fn step(
        &self,
        random: &mut Random,
        held: &mut Vec<(Object<'pool>, u64)>,
    ) -> Result<(), String> {
        match random.below(256) {
            0..=3 => {
                self.pool.flush();
                self.flushed.fetch_add(1, Ordering::Relaxed);
            }
            4..=5 => {
                let trimmed = self.pool.gc().map_err(|error| format!("gc: {error}"))?;
                self.collected.fetch_add(1, Ordering::Relaxed);
                self.returned.fetch_add(trimmed.bytes, Ordering::Relaxed);
            }
            6..=25 => {
                if let Some((object, mark)) = held.pop() {
                    let offset =
                        object.into_offset().map_err(|error| format!("handing over: {error}"))?;
                    self.offered().push((offset, mark));
                }
            }
            26..=45 => {
                let offer = self.offered().pop();
                if let Some((offset, mark)) = offer {
                    let object =
                        self.pool.claim(offset).map_err(|error| format!("claiming: {error}"))?;
                    self.claimed.fetch_add(1, Ordering::Relaxed);
                    if !matches!(self.pool.claim(offset), Err(PoolError::Stale)) {
                        return Err("one offset was claimed twice".into());
                    }
                    give_back((object, mark))?;
                }
            }
            _ if held.len() < HELD && random.below(2) == 0 => match self.pool.alloc(self.bytes) {
                Ok(mut object) => {
                    let mark = random.word();
                    write(&mut object, mark);
                    held.push((object, mark));
                    self.taken.fetch_add(1, Ordering::Relaxed);
                }
                Err(PoolError::NoSpace { .. }) => {
                    self.full.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(format!("taking an object: {error}")),
            },
            _ if !held.is_empty() => {
                give_back(held.swap_remove(random.below(held.len() as u64) as usize))?
            }
            _ => {}
        }
        Ok(())
    }

    /// Names the threads that do not get on.
    fn watch(&self, until: Instant) -> Result<(), String> {
        let now = |steps: &[AtomicU64]| {
            steps.iter().map(|of| of.load(Ordering::Relaxed)).collect::<Vec<_>>()
        };
        let mut seen: Vec<(u64, Instant)> =
            now(&self.steps).into_iter().map(|steps| (steps, Instant::now())).collect();
        while Instant::now() < until && !self.over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
            for (number, steps) in now(&self.steps).into_iter().enumerate() {
                if steps != seen[number].0 {
                    seen[number] = (steps, Instant::now());
                } else if seen[number].1.elapsed() > STUCK {
                    return Err(format!(
                        "thread {number} has been in one step for {} s",
                        STUCK.as_secs()
                    ));
                }
            }
        }
        Ok(())
    }
}

fn give_back((object, mark): (Object<'_>, u64)) -> Result<(), String> {
    check(&object, mark)?;
    object.free().map_err(|error| format!("giving an object back: {error}"))
}

/// Every object is somewhere, and no process holds any.
fn account(usage: &Usage, nobody_in_it: bool) -> Result<(), String> {
    for of in usage.sizes.iter().chain([&usage.sum]) {
        if of.used + of.cached + of.free + of.offered + of.moving != of.total {
            return Err(format!("the sum is not right: {of:?}"));
        }
    }
    let sum = &usage.sum;
    if nobody_in_it && sum.used + sum.cached + sum.offered + sum.moving != 0 {
        return Err(format!(
            "all was given back, and not all is free: {sum:?}; {:?}",
            usage.holders
        ));
    }
    Ok(())
}

fn race(arguments: &Arguments, seed: u64) -> Result<(), String> {
    clear_ended_runs();
    let scratch = Scratch::new("race").map_err(|error| error.to_string())?;
    let domain = Domain::open_or_create_at(scratch.path().join("domain"))
        .map_err(|error| error.to_string())?;
    let wished = u64::from(arguments.threads) * HELD as u64 * arguments.size;
    let max_bytes = arguments.max_mib.map_or(wished / 4 + (64 << 20), |mib| mib << 20);
    let options = Pool::options().max_bytes(max_bytes);
    let pool = options.open_or_create(&domain, "raced").map_err(|error| error.to_string())?;
    let count = || AtomicU64::new(0);
    let race = Race {
        pool: &pool,
        bytes: arguments.size as usize,
        over: AtomicBool::new(false),
        offered: Mutex::new(Vec::new()),
        steps: (0..arguments.threads).map(|_| count()).collect(),
        taken: count(),
        full: count(),
        claimed: count(),
        flushed: count(),
        collected: count(),
        returned: count(),
    };
    let until = Instant::now() + Duration::from_secs_f64(arguments.minutes.max(0.0) * 60.0);
    thread::scope(|scope| {
        let racers: Vec<_> = (0..usize::from(arguments.threads))
            .map(|number| {
                let race = &race;
                scope.spawn(move || {
                    let ended = race.run(number, seed);
                    race.over.store(true, Ordering::Relaxed);
                    ended
                })
            })
            .collect();
        if let Err(hung) = race.watch(until) {
            // The hung threads never end, so the process does not wait for them.
            eprintln!("race: hung: {hung}");
            std::process::exit(1);
        }
        race.over.store(true, Ordering::Relaxed);
        // All are waited for; the first problem is told.
        let ended: Vec<Result<(), String>> = racers
            .into_iter()
            .map(|racer| racer.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect();
        ended.into_iter().collect::<Result<(), String>>()
    })?;
    for (offset, mark) in race.offered().drain(..) {
        give_back((pool.claim(offset).map_err(|error| error.to_string())?, mark))?;
    }
    account(&pool.usage().map_err(|error| error.to_string())?, false)?;
    // The threads' caches went with them, and this one's goes now.
    pool.flush();
    account(&pool.usage().map_err(|error| error.to_string())?, true)?;
    let trimmed = pool.gc().map_err(|error| error.to_string())?;
    account(&pool.usage().map_err(|error| error.to_string())?, true)?;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{} objects taken, {} handed over, {} times full; {} flushes, {} gcs, {} MiB given back, {} MiB at the end",
        read(&race.taken),
        read(&race.claimed),
        read(&race.full),
        read(&race.flushed),
        read(&race.collected),
        read(&race.returned) >> 20,
        trimmed.bytes >> 20,
    );
    // A race that no process ran proves nothing.
    if [&race.taken, &race.claimed, &race.flushed, &race.collected]
        .into_iter()
        .any(|counter| read(counter) == 0)
    {
        return Err("too short: not everything was tried; --minutes N".into());
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let clock = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(1, |now| now.as_nanos() as u64);
    let seed = arguments.seed.unwrap_or(clock);
    println!(
        "race: {} minutes, {} threads, {} B, seed {seed}",
        arguments.minutes, arguments.threads, arguments.size
    );
    match race(&arguments, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("race: {problem}");
            ExitCode::FAILURE
        }
    }
}
