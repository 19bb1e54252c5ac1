//! The three processes of a turn.

use crate::harness::clock;
use crate::harness::crew::{self, Crew};
use crate::harness::error::{Error, check};
use crate::harness::scratch::Scratch;
use crate::harness::shared::{Line, Shared, ZeroShared};
use outlive::Domain;
use outlive::sync::{CeilingMutex, LockError, Mutex, PiMutex};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The control loop's period.
pub const PERIOD_NS: u64 = 5_000_000;
const CONTROL_NS: u64 = 100_000;
/// The helper: under the lock, and between.
const HELPER_NS: u64 = 2_000_000;
// No part of the period: else the two would go on meeting at one place of it.
const HELPER_REST: Duration = Duration::from_micros(3_700);
/// The load: 90 of some 240 ms. All three together stay below what the kernel lets real-time
/// threads take of a second.
const LOAD_NS: u64 = 90_000_000;
const LOAD_REST: Duration = Duration::from_millis(147);

const HIGH: i32 = 30;
const MIDDLING: i32 = 20;
const LOW: i32 = 10;

/// Which lock the control loop and its helper share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    Plain,
    Pi,
    Ceiling,
}

const MOST: usize = 1 << 17;

/// What the processes share beside the lock.
#[repr(C)]
struct Log {
    /// How many have the lock open and are ready.
    ready: Line<AtomicU32>,
    /// The control loop has come to its end.
    over: Line<AtomicU32>,
    intervals: [AtomicU64; MOST],
}

// SAFETY: atomics only; zero is valid, no pointers.
unsafe impl ZeroShared for Log {}

impl Log {
    /// Waits for the others without keeping them from running.
    fn meet(&self, processes: u32) {
        self.ready.0.fetch_add(1, Ordering::AcqRel);
        while self.ready.0.load(Ordering::Acquire) < processes {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn is_over(&self) -> bool {
        self.over.0.load(Ordering::Relaxed) != 0
    }
}

/// One of the locks, open.
enum Opened {
    Plain(Mutex<u64>),
    Pi(PiMutex<u64>),
    Ceiling(CeilingMutex<u64>),
}

impl Opened {
    fn open(lock: Lock, folder: &Path) -> Result<Opened, Error> {
        let told = |error| Error::told("opening a lock", error);
        let domain = Domain::open_or_create_at(folder).map_err(told)?;
        Ok(match lock {
            Lock::Plain => {
                Opened::Plain(Mutex::options(0).open_or_create(&domain, "plain").map_err(told)?)
            }
            Lock::Pi => {
                Opened::Pi(PiMutex::options(0).open_or_create(&domain, "pi").map_err(told)?)
            }
            Lock::Ceiling => Opened::Ceiling(
                CeilingMutex::options(HIGH as u32, 0)
                    .open_or_create(&domain, "ceiling")
                    .map_err(told)?,
            ),
        })
    }

    fn with(&self, body: impl FnOnce()) -> Result<(), Error> {
        fn refused<G>(error: LockError<G>) -> Error {
            Error::Wrong(format!("a lock in which no process died: {error}"))
        }
        match self {
            Opened::Plain(mutex) => {
                let _guard = mutex.lock().map_err(refused)?;
                body();
            }
            Opened::Pi(mutex) => {
                let _guard = mutex.lock().map_err(refused)?;
                body();
            }
            Opened::Ceiling(mutex) => {
                let _guard = mutex.lock().map_err(refused)?;
                body();
            }
        }
        Ok(())
    }
}

/// Refuses where this user may not have real-time priorities.
pub fn require_real_time() -> Result<(), Error> {
    let mut crew = Crew::new()?;
    crew.start("real-time process", None, || become_fifo(HIGH))?;
    crew.finish(Duration::from_secs(10)).map_err(|error| {
        Error::Refused(format!(
            "this benchmark needs real-time priorities (CAP_SYS_NICE, or 'ulimit -r {HIGH}', and a budget of the control \
             group): {error}"
        ))
    })?;
    Ok(())
}

fn become_fifo(priority: i32) -> Result<(), Error> {
    // SAFETY: plain numbers; all zero is valid. musl's has more of them than glibc's.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority;
    // SAFETY: the parameter is plain data.
    check(
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) },
        "becoming a real-time process",
    )
    .map(drop)
}

/// Computes for so long, by this process's own clock: while others run it does not count.
fn compute(ns: u64) {
    let end = clock::computed() + ns;
    while clock::computed() < end {
        std::hint::spin_loop();
    }
}

/// Returns the control loop's intervals, in nanoseconds.
pub fn turn(
    scratch: &Scratch,
    core: usize,
    lock: Lock,
    disturbed: bool,
    periods: u64,
) -> Result<Vec<u64>, Error> {
    let periods = (periods as usize).clamp(1, MOST);
    let place = scratch.inner("locks")?;
    let log = Shared::<Log>::new()?;
    let (log, folder) = (&*log, place.path());
    let crowd = if disturbed { 3 } else { 2 };
    let mut crew = Crew::new()?;
    // Real-time first, then on the core: otherwise it would stand there as an ordinary one while
    // others come.
    let enter = |priority| {
        become_fifo(priority)?;
        crew::pin(core)
    };
    crew.start("control loop", None, || {
        enter(HIGH)?;
        let lock = Opened::open(lock, folder)?;
        lock.with(|| ())?;
        log.meet(crowd);
        let ended = control(&lock, log, periods);
        log.over.0.store(1, Ordering::Relaxed);
        ended
    })?;
    crew.start("helper", None, || {
        enter(LOW)?;
        let lock = Opened::open(lock, folder)?;
        lock.with(|| ())?;
        log.meet(crowd);
        while !log.is_over() {
            lock.with(|| compute(HELPER_NS))?;
            std::thread::sleep(HELPER_REST);
        }
        Ok(())
    })?;
    if disturbed {
        crew.start("load", None, || {
            enter(MIDDLING)?;
            log.meet(crowd);
            while !log.is_over() {
                std::thread::sleep(LOAD_REST);
                compute(LOAD_NS);
            }
            Ok(())
        })?;
    }
    // With the load's bursts a turn may take many times its periods, but not for ever.
    crew.finish(Duration::from_nanos(PERIOD_NS * periods as u64) * 20 + Duration::from_secs(20))?;
    Ok(log.intervals[..periods].iter().map(|interval| interval.load(Ordering::Relaxed)).collect())
}

fn control(lock: &Opened, log: &Log, periods: usize) -> Result<(), Error> {
    let mut next = clock::now();
    let mut last = 0;
    // The first end begins the first interval.
    for turn in 0..=periods {
        // A period that was missed is not made up for.
        next = (next + PERIOD_NS).max(clock::now());
        sleep_until(next);
        lock.with(|| compute(CONTROL_NS))?;
        let end = clock::now();
        if turn > 0 {
            log.intervals[turn - 1].store(end - last, Ordering::Relaxed);
        }
        last = end;
    }
    Ok(())
}

fn sleep_until(moment: u64) {
    let until = libc::timespec {
        tv_sec: (moment / 1_000_000_000) as _,
        tv_nsec: (moment % 1_000_000_000) as _,
    };
    // SAFETY: the time is ours; nothing is written. Woken early by a signal, the interval is a
    // little shorter.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &until,
            std::ptr::null_mut(),
        )
    };
}
