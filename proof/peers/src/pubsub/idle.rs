//! The processor time that a subscriber takes while it waits for a message that does not come, read
//! from outside.

use crate::peers::{
    BoostQueue, Futex, Iceoryx2, Outlive, PosixMq, Shape, Subscribe, Topic, Wait, ZeroMq,
};
use outlive_bench::harness::report::Absent;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::shared::{Board, Shared};
use outlive_bench::harness::{clock, crew};
use outlive_bench::{self, Error};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// The limit of a benchmark that takes some seconds.
const LIMIT_SECONDS: u32 = 120;
/// Until the subscriber has gone to sleep.
const SETTLE: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    /// Processor time in a second of waiting.
    median: f64,
    /// The same, in billionths of a core: there is no other row to compare with.
    ratio: f64,
    /// How often it was woken meanwhile.
    switches: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    bench: &'static str,
    mode: &'static str,
    meaning: &'static str,
    rows: &'a [Row],
    absent: &'a [Absent],
}

struct Field<'a> {
    stage: &'a Stage,
    span: Duration,
    only: &'a [String],
    rows: Vec<Row>,
    absent: Vec<Absent>,
}

pub(super) fn run(only: &[String], json: bool, quick: bool) -> Result<ExitCode, Error> {
    let _signals = outlive_bench::harness::begin(LIMIT_SECONDS, None)?;
    let stage = outlive_bench::harness::stage(None, outlive::WaitStrategy::default())?;
    let span = Duration::from_millis(if quick { 200 } else { 1_000 });
    let mut field = Field { stage: &stage, span, only, rows: Vec::new(), absent: Vec::new() };
    field.add::<Outlive>()?;
    field.add::<Iceoryx2>()?;
    field.add::<ZeroMq>()?;
    field.add::<BoostQueue>()?;
    field.add::<PosixMq>()?;
    #[cfg(feature = "zenoh")]
    field.add::<crate::peers::Zenoh>()?;
    field.add::<Futex>()?;
    let meaning = "processor time of a subscriber that waits, in a second";
    if json {
        let Field { rows, absent, .. } = &field;
        return outlive_bench::harness::print(&outlive_bench::harness::json_line(&Document {
            bench: "pubsub",
            mode: "idle",
            meaning,
            rows,
            absent,
        })?);
    }
    let mut text =
        format!("pubsub idle: {meaning}\n\n{:12}  {:>12}  {:>8}\n", "", "ns", "switches");
    for row in &field.rows {
        // Writing to a String cannot fail; so below.
        let _ = writeln!(text, "{:12}  {:>12.0}  {:>8}", row.name, row.median, row.switches);
    }
    for absent in &field.absent {
        let _ = writeln!(text, "\n{} did not take part: {}", absent.name, absent.why);
    }
    outlive_bench::harness::print(&text)
}

impl Field<'_> {
    fn add<T: Topic>(&mut self) -> Result<(), Error> {
        if !self.only.is_empty() && !self.only.iter().any(|only| only == T::NAME) {
            return Ok(());
        }
        let shape = Shape::pair(64, Wait::Block);
        if let Some(why) = T::refuses(&shape) {
            self.absent.push(Absent { name: T::NAME, why });
            return Ok(());
        }
        let place = T::place(self.stage, "there", shape)?;
        let board = Shared::<Board>::new()?;
        let mut crew = crew::Crew::new()?;
        let pid = crew.start("waiting subscriber", None, || {
            let mut subscriber = T::subscriber(&place)?;
            super::flow::assemble(&board, 2);
            subscriber.receive(|_| ())
        })?;
        crew.start("publisher", None, || {
            let _publisher = T::publisher(&place)?;
            super::flow::assemble(&board, 2);
            crew::stay()
        })?;
        let limit = clock::now() + 10_000_000_000;
        while board.ready.0.load(std::sync::atomic::Ordering::Acquire) < 2 {
            crew.any_ended()?;
            if clock::now() > limit {
                return Err(Error::TimedOut(format!("{}'s set-up", T::NAME)));
            }
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(SETTLE);
        let (computed, switches) = used(pid)?;
        let begun = clock::now();
        thread::sleep(self.span);
        let (computed_after, switches_after) = used(pid)?;
        let seconds = (clock::now() - begun) as f64 / 1e9;
        if crew.any_ended()? {
            return Err(Error::Wrong(format!("{}: a message came that nobody sent", T::NAME)));
        }
        let median = (computed_after - computed) as f64 / seconds;
        let switches = ((switches_after - switches) as f64 / seconds) as u64;
        self.rows.push(Row { name: T::NAME, unit: "ns", median, ratio: median, switches });
        Ok(())
    }
}

/// Nanoseconds that all threads of a process have computed, and how often they went to sleep.
fn used(pid: libc::pid_t) -> Result<(u64, u64), Error> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid places, and a child of ours that is not waited for.
    let asked = unsafe {
        libc::clock_getcpuclockid(pid, &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    if !asked {
        return Err(Error::last("asking how long a process has computed"));
    }
    let computed = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    let mut switches = 0;
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .map_err(|source| Error::System { doing: "listing a process's threads", source })?;
    for task in tasks.flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        switches += line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    Ok((computed, switches))
}
