//! What every benchmark is measured with: contenders, turns, processes, statistics and the report.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `round` | contenders, interleaved turn by turn |
//! | `crossing` | how far apart the cores are at the moment, and which rounds may be compared |
//! | `statistics`, `report`, `lines`, `chart`, `machine`, `profile` | what is told of it |
//! | `crew`, `shared`, `asleep`, `scratch`, `interrupt`, `clock`, `error`, `compiled` | processes, memory, files, C++ |
//! | `realtime` | scheduling for locks that are made for it |

pub mod asleep;
pub mod chart;
pub mod clock;
pub mod compiled;
pub mod crew;
pub mod crossing;
pub mod error;
pub mod interrupt;
pub mod lines;
pub mod machine;
pub mod profile;
pub mod realtime;
pub mod report;
pub mod round;
pub mod scratch;
pub mod shared;
pub mod statistics;

use std::io::{self, ErrorKind, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
pub use crossing::Cores;
pub use error::Error;
use machine::Machine;
use outlive::WaitStrategy;
use report::{Absent, Report, Title};
use round::{Contender, Group, Plan, Setting, Stage};
use scratch::Scratch;
use serde::Serialize;

use crate::duration;
use fundu::TimeUnit;

/// What all benchmarks take.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Print one line of JSON instead of a table
    #[arg(long)]
    pub json: bool,

    /// Also draw the rows as bars into this SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// How many rounds to compare, whose two cores are all of the same core complex, or all of
    /// different ones; at most twice as many are run [default: 15]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000))]
    pub rounds: Option<u32>,

    /// Run five rounds of short turns: a first look, not a result
    #[arg(long)]
    pub quick: bool,

    /// Do N operations in each turn, instead of as many as fill the time
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(8..=1 << 31))]
    loops: Option<u64>,

    /// How long a turn should take, 1ms to 10s; a bare number is milliseconds [default: 40ms]
    #[arg(long, value_name = "TIME", value_parser = parse_turn)]
    pub turn_ms: Option<u64>,

    /// The two cores to use, as in 0,1 [default: the first two allowed]
    #[arg(long, value_name = "A,B", value_parser = parse_cores)]
    cores: Option<Cores>,

    /// Measure only these rows, separated by commas, and the baseline
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Give the measuring processes this niceness; -20, where permitted, keeps other programs off
    /// their cores [default: that of this shell]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(i32).range(-20..=19))]
    pub nice: Option<i32>,

    /// Give up the whole with exit code 5 after this time
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = parse_limit)]
    pub limit: u32,
}

/// How Outlive's own row waits.
#[derive(Args, Clone, Debug)]
pub struct Waiting {
    /// How Outlive's own row waits
    #[arg(long, value_enum, default_value_t = WaitName::Adaptive)]
    pub wait: WaitName,
}

/// The names of [`outlive::WaitStrategy`].
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitName {
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

/// One benchmark, made ready from its arguments.
pub struct Prepared {
    /// What is measured, and its unit.
    pub title: Title,
    /// The contenders, in groups that are compared.
    pub groups: Vec<Group>,
    /// Contenders that this machine does not have, and why.
    pub absent: Vec<Absent>,
    /// What is the same in all groups and worth telling.
    pub fixed: Vec<Setting>,
    /// Whether a turn takes place on two cores.
    pub needs_two_cores: bool,
    /// How Outlive's own row waits.
    pub wait: WaitStrategy,
    /// A turn of this one takes so long that few rounds must do.
    pub long_turns: bool,
}

impl Prepared {
    /// Makes a benchmark of these contenders, all compared with each other, in two processes on two
    /// cores.
    pub fn of(title: Title, rows: Vec<Box<dyn Contender>>, baseline: &'static str) -> Self {
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

    /// Runs it in one process, to which it does not matter how far apart the cores are.
    pub fn alone(mut self) -> Self {
        self.needs_two_cores = false;
        self.groups.iter_mut().for_each(|group| group.kinds_differ = false);
        self
    }

    /// Sets the wait strategy of Outlive's own row.
    pub fn waiting(self, wait: WaitName) -> Self {
        Self { wait: wait.into(), ..self }
    }

    /// Names these contenders as left out.
    pub fn without(self, absent: Vec<Absent>) -> Self {
        Self { absent, ..self }
    }
}

/// Draws the report if asked, and prints it.
pub fn tell(report: &Report, common: &Common) -> Result<ExitCode, Error> {
    if let Some(path) = &common.svg {
        chart::draw(report, path)?;
        eprintln!("outlive bench: drew {}", path.display());
    }
    print(&if common.json { json_line(&report.document())? } else { report.table() })
}

/// Makes this program ready to fork.
pub fn begin(limit: u32, nice: Option<i32>) -> Result<interrupt::Guard, Error> {
    crew::require_one_thread()?;
    let guard = interrupt::Guard::new(limit)?;
    if let Some(niceness) = nice {
        crew::set_niceness(niceness)?;
    }
    Ok(guard)
}

/// Returns a report as one line of JSON.
pub fn json_line(document: &impl Serialize) -> Result<String, Error> {
    let json =
        serde_json::to_string(document).map_err(|error| Error::Refused(error.to_string()))?;
    Ok(json + "\n")
}

/// Prints a report; a reader that has seen enough is no error.
///
/// # Errors
/// What kept it from being written.
pub fn print(text: &str) -> Result<ExitCode, Error> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has closed the output: no error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(source) => Err(Error::System { doing: "writing the result", source }),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// Runs all rounds of a benchmark.
///
/// # Errors
/// Whatever kept it from giving right figures.
pub fn measure(prepared: Prepared, common: &Common) -> Result<Report, Error> {
    let Prepared { title, mut groups, mut absent, fixed, needs_two_cores, wait, long_turns } =
        prepared;
    let stage = stage(common.cores, wait)?;
    if needs_two_cores && stage.cores.is_none() {
        return Err(Error::Refused(
            "this benchmark needs two cores, and this process may use one only".into(),
        ));
    }
    retain_wanted(&mut groups, &common.only, &absent)?;
    profile::warn_if_not_published();
    if common.nice.is_none() && machine::load_average().is_some_and(|load| load > 0.7) {
        eprintln!(
            "outlive bench: this machine is busy with something else, which shows in what two processes do"
        );
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
    let mut run = round::run(groups, &stage, plan, title.ours)?;
    absent.append(&mut run.failed);
    Ok(Report {
        fixed,
        ..Report::new(title, Machine::look(crew::allowed_cores()?.len()), &run, absent)
    })
}

/// Returns where turns take place: on these cores, or on the first two allowed.
pub fn stage(asked: Option<Cores>, wait: WaitStrategy) -> Result<Stage, Error> {
    let allowed = crew::allowed_cores()?;
    let cores = choose_cores(&allowed, asked)?;
    let workers_on = asked.map_or(allowed, |cores| vec![cores.first, cores.second]);
    Ok(Stage {
        cores,
        workers_on,
        scratch: Scratch::new()?,
        wait,
        turn_limit: Duration::from_secs(60),
    })
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
        group.rows.retain(|row| {
            row.name() == group.baseline || only.iter().any(|name| name == row.name())
        });
    }
    Ok(())
}

/// Milliseconds of a turn.
pub fn parse_turn(text: &str) -> Result<u64, String> {
    let turn = within(
        duration::of(text, TimeUnit::MilliSecond)?,
        Duration::from_millis(1)..=Duration::from_secs(10),
    )?;
    Ok(turn.as_millis() as u64)
}

/// Reads a limit as whole seconds until the alarm, rounded up.
pub fn parse_limit(text: &str) -> Result<u32, String> {
    let limit = within(
        duration::of(text, TimeUnit::Second)?,
        Duration::from_nanos(1)..=Duration::from_secs(1 << 31),
    )?;
    Ok(limit.as_secs_f64().ceil() as u32)
}

/// Returns a time, if it lies in the range.
pub fn within(time: Duration, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    if range.contains(&time) {
        Ok(time)
    } else {
        Err(format!("use {:?} to {:?}", range.start(), range.end()))
    }
}

/// Reads two core numbers, as in `0,1`.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_cores(text: &str) -> Result<Cores, String> {
    let parts =
        text.split_once(',').map(|(first, second)| (first.trim().parse(), second.trim().parse()));
    match parts {
        Some((Ok(first), Ok(second))) => Ok(Cores { first, second }),
        _ => Err("two core numbers with a comma between them are wanted".into()),
    }
}

fn choose_cores(allowed: &[usize], asked: Option<Cores>) -> Result<Option<Cores>, Error> {
    match asked {
        Some(Cores { first, second })
            if first == second || !allowed.contains(&first) || !allowed.contains(&second) =>
        {
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
        assert_eq!(
            choose_cores(&[0, 1, 2], Some(asked)).unwrap(),
            Some(Cores { first: 2, second: 0 })
        );
        for wrong in ["0,0", "0,9"] {
            assert!(
                choose_cores(&[0, 1, 2], Some(parse_cores(wrong).unwrap())).is_err(),
                "{wrong}"
            );
        }
        for wrong in ["1", "1,", "a,b", "1,2,3"] {
            assert!(parse_cores(wrong).is_err(), "{wrong}");
        }
    }
}
