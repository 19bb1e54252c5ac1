//! How many instructions something takes, counted one by one: `outlive-testkit` single-steps its
//! victims. Exact, the same on a busy machine, and no counter of the processor's is needed.
//!
//! What is counted is a loop in a program of its own, between its stage's beginning and end: a loop
//! of 128 less one of 64, by 64.

use outlive_bench::harness::scratch::Scratch;
use outlive_bench::{self, Error};
use outlive_testkit::engine::control::Control;
use outlive_testkit::engine::trace;
use outlive_testkit::engine::victim::{Stand, Victim};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The two loops. Neither may be longer than a topic is deep.
const SHORT: u32 = 64;
const LONG: u32 = 128;

/// A program with such a loop.
#[derive(Clone, Copy)]
pub(crate) struct Loop<'a> {
    /// In the rows' names, and in what is told of a fault.
    pub name: &'a str,
    /// The program.
    pub path: &'a Path,
    /// Where turns may have their folders.
    pub scratch: &'a Scratch,
}

/// What one turn of a loop is given: a domain's folder, the page by which it tells where it is, and
/// how long it is.
pub(crate) struct Turn {
    pub domain: PathBuf,
    pub control: PathBuf,
    pub count: u32,
}

/// Begins, before the first one.
pub(crate) fn begin() {
    trace::arm_interrupts();
}

impl Loop<'_> {
    /// Instructions of one time round.
    pub fn once(&self, arguments: impl Fn(&Turn) -> Vec<String>) -> Result<f64, Error> {
        let (short, long) = (self.count(SHORT, &arguments)?, self.count(LONG, &arguments)?);
        Ok((long as f64 - short as f64) / f64::from(LONG - SHORT))
    }

    /// Counts the instructions of the whole loop, and of what begins and ends it.
    fn count(&self, count: u32, arguments: impl Fn(&Turn) -> Vec<String>) -> Result<u64, Error> {
        let place = self.scratch.inner("counted")?;
        let stepping = |source| Error::System { doing: "stepping through a program", source };
        let [domain, control, log] =
            ["domain", "control", "log"].map(|name| place.path().join(name));
        let page = Control::open(&control).map_err(stepping)?;
        let arguments = arguments(&Turn { domain, control, count });
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut victim = Victim::start(self.path, &arguments, &page, &log).map_err(stepping)?;
        let mut steps = 0;
        loop {
            match victim.step(&page).map_err(stepping)? {
                Stand::Within => steps += 1,
                Stand::Ended => return Ok(steps),
                Stand::Asleep | Stand::Gone => {
                    return Err(Error::Wrong(format!("{} slept or ended", self.name)));
                }
            }
        }
    }
}

/// A row of what is told.
#[derive(Serialize)]
pub(crate) struct Row {
    name: String,
    unit: &'static str,
    median: f64,
    ratio: f64,
    baseline: bool,
}

impl Row {
    /// Makes a row of so many instructions, beside those of the row that others are compared with;
    /// `None`: it is that row.
    pub fn new(name: String, instructions: f64, of: Option<f64>) -> Self {
        let ratio = instructions / of.unwrap_or(instructions);
        Self { name, unit: "instructions", median: instructions, ratio, baseline: of.is_none() }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    bench: &'a str,
    mode: &'a str,
    meaning: &'a str,
    rows: &'a [Row],
}

/// Tells them, as a table or as JSON.
pub(crate) fn tell(
    bench: &str,
    meaning: &str,
    rows: &[Row],
    json: bool,
) -> Result<ExitCode, Error> {
    if json {
        return outlive_bench::harness::print(&outlive_bench::harness::json_line(&Document {
            bench,
            mode: "instructions",
            meaning,
            rows,
        })?);
    }
    let mut text = format!(
        "{bench} instructions: {meaning}\n\n{:28}{:>14}{:>10}\n",
        "", "instructions", "ratio"
    );
    for row in rows {
        let ratio = if row.baseline { "baseline".to_owned() } else { format!("{:.2}", row.ratio) };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:28}{:>14.1}{ratio:>10}", row.name, row.median);
    }
    outlive_bench::harness::print(&text)
}
