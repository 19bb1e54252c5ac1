//! `outlive bench all`: every benchmark, one after another, told as tables, as JSON, or on one
//! page.
//!
//! One that cannot run on this machine is named, with the reason, and the others go on.

use super::{Which, inversion, page, pool, prepare};
use crate::harness::error::Error;
use crate::harness::machine::Machine;
use crate::harness::report::Report;
use crate::harness::{
    Cores, begin, interrupt, json_line, measure, parse_cores, parse_limit, parse_turn, print,
};
use clap::{Args, Parser, value_parser};
use serde::{Serialize, Serializer};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `outlive bench all`.
#[derive(Args, Clone, Debug)]
pub struct AllArgs {
    /// Write one page with tables and plots, which opens without a network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Run only these, separated by commas: liveness, locks, counter, inversion, queue, mq, copies,
    /// state, pool
    #[arg(long, value_name = "BENCHES", value_delimiter = ',')]
    benches: Vec<String>,

    /// Print one line of JSON, a list, instead of tables
    #[arg(long)]
    json: bool,

    /// Run few rounds of short turns, and fewer settings: a first look within a minute or two, not
    /// a result
    #[arg(long)]
    quick: bool,

    /// How many rounds each benchmark compares, instead of its own number
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,

    /// How long a turn should take, 1ms to 10s; a bare number is milliseconds [default: 40ms]
    #[arg(long, value_name = "TIME", value_parser = parse_turn)]
    turn_ms: Option<u64>,

    /// The two cores to use, as in 0,1 [default: the first two allowed; all of them for a crowd]
    #[arg(long, value_name = "A,B", value_parser = parse_cores)]
    cores: Option<Cores>,

    /// Give the measuring processes this niceness; -20, where permitted, keeps other programs off
    /// their cores [default: that of this shell]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(i32).range(-20..=19))]
    nice: Option<i32>,

    /// Give up the whole with exit code 5 after this time
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = parse_limit)]
    limit: u32,
}

/// What is run, as one would type it; and in a quick run, if that differs.
const ALL: [(&str, Option<&str>); 30] = [
    ("liveness", None),
    ("locks", None),
    ("locks --contended", None),
    ("locks --wake", None),
    ("locks --sleeper", None),
    ("counter", Some("counter --workers 1,2,5")),
    ("counter --processes", Some("counter --processes --workers 1,2,5")),
    ("inversion", None),
    ("queue", None),
    ("queue --batch", None),
    ("queue --sleeping", None),
    ("queue --roundtrip", None),
    ("queue --grow", Some("queue --grow --grow-mib 64")),
    ("mq --size 64,512,4096", None),
    ("mq --size 64,512,4096 --wait block", Some("mq --size 64 --wait block")),
    ("copies", Some("copies --size 4096,1048576")),
    ("state", None),
    ("state --write", None),
    ("state --contended", None),
    ("pool", Some("pool --size 64,49152,2097152")),
    ("pool --threads 2", Some("pool --threads 2 --size 64")),
    ("pool --threads 4", Some("pool --threads 4 --size 64")),
    ("pool --threads 16", Some("pool --threads 16 --size 64,49152")),
    ("pool --processes 2", Some("pool --processes 2 --size 64,49152")),
    ("pool --size 49152 --threads 1,2,4,16", Some("pool --size 49152 --threads 1,2")),
    ("pool --pattern batch", Some("pool --pattern batch --size 64,49152")),
    ("pool --pattern batch --threads 16", Some("pool --pattern batch --threads 16 --size 64")),
    ("pool --pattern hand-over", Some("pool --pattern hand-over --size 64,49152")),
    (
        "pool --pattern hand-over --processes 2",
        Some("pool --pattern hand-over --processes 2 --size 64,49152"),
    ),
    (
        "pool --pattern random --threads 16",
        Some("pool --pattern random --threads 4 --size 64,49152"),
    ),
];

/// Of each benchmark in a quick run, unless asked for otherwise.
const QUICK_ROUNDS: u32 = 3;

/// A benchmark as typed, and what came out.
pub(super) struct Entry {
    /// As typed after `outlive bench`.
    pub(super) typed: &'static str,
    /// The report, or why there is none.
    pub(super) outcome: Result<Told, Error>,
}

/// What came out of one.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Told {
    /// Contenders, compared.
    Compared(#[serde(serialize_with = "document")] Report),
    /// Intervals of a control loop.
    Inversion(inversion::Report),
}

fn document<S: Serializer>(report: &Report, serializer: S) -> Result<S::Ok, S::Error> {
    report.document().serialize(serializer)
}

impl Told {
    fn table(&self) -> String {
        match self {
            Self::Compared(report) => report.table(),
            Self::Inversion(report) => report.table(),
        }
    }

    /// Returns what it ran on.
    pub(super) fn machine(&self) -> &Machine {
        match self {
            Self::Compared(report) => &report.machine,
            Self::Inversion(report) => &report.machine,
        }
    }
}

/// What the words after `outlive bench` mean.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Typed {
    #[command(subcommand)]
    which: Which,
}

/// Runs them.
pub(super) fn run(args: &AllArgs, peers: pool::Peers) -> Result<ExitCode, Error> {
    let chosen = chosen(args)?;
    let _signals = begin(args.limit, args.nice)?;
    let mut entries = Vec::with_capacity(chosen.len());
    for (place, typed) in chosen.iter().enumerate() {
        eprintln!("outlive bench all: {} of {}, {typed}", place + 1, chosen.len());
        let outcome = one(typed, args, peers);
        // A user who has ended the run does not want a page of half of it.
        if let Err(Error::Interrupted(_)) = outcome {
            return outcome.map(|_| ExitCode::SUCCESS);
        }
        interrupt::check()?;
        if let Err(error) = &outcome {
            eprintln!("outlive bench all: {typed}: {error}");
        }
        entries.push(Entry { typed, outcome });
    }
    if let Some(path) = &args.html {
        fs::write(path, page::write(&entries, args.quick)?).map_err(|error| {
            Error::Refused(format!("the page could not be written to {}: {error}", path.display()))
        })?;
        eprintln!("outlive bench all: wrote {}", path.display());
    }
    let code = print(&if args.json { json(&entries)? } else { tables(&entries) })?;
    // A machine that lacks something is no fault; a wrong count is.
    match entries
        .into_iter()
        .find_map(|entry| entry.outcome.err().filter(|error| !is_refusal(error)))
    {
        Some(error) => Err(error),
        None => Ok(code),
    }
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Refused(_))
}

fn chosen(args: &AllArgs) -> Result<Vec<&'static str>, Error> {
    let first = |typed: &str| typed.split(' ').next().map(str::to_owned).unwrap_or_default();
    if let Some(name) =
        args.benches.iter().find(|name| !ALL.iter().any(|(typed, _)| first(typed) == **name))
    {
        return Err(Error::Refused(format!("no benchmark is called {name}")));
    }
    let wanted = |typed: &str| args.benches.is_empty() || args.benches.contains(&first(typed));
    let short = |(full, quick): &(&'static str, Option<&'static str>)| {
        if args.quick { quick.unwrap_or(full) } else { *full }
    };
    Ok(ALL.iter().map(short).filter(|typed| wanted(typed)).collect())
}

fn one(typed: &str, args: &AllArgs, peers: pool::Peers) -> Result<Told, Error> {
    if typed == "inversion" {
        let words = if args.quick { &["inversion", "--quick"][..] } else { &["inversion"] };
        return match Typed::try_parse_from(words) {
            Ok(Typed { which: Which::Inversion(args) }) => {
                inversion::measure(&args).map(Told::Inversion)
            }
            other => {
                Err(Error::Refused(other.err().map(|error| error.to_string()).unwrap_or_default()))
            }
        };
    }
    let mut words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
    let mut add = |option: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{option}={value}")))
    };
    let rounds = args.rounds.or(args.quick.then_some(QUICK_ROUNDS));
    add("--rounds", rounds.map(|rounds| rounds.to_string()));
    add("--turn-ms", args.turn_ms.map(|turn| turn.to_string()));
    add("--cores", args.cores.map(|cores| format!("{},{}", cores.first, cores.second)));
    add("--nice", args.nice.map(|nice| nice.to_string()));
    if args.quick {
        words.push("--quick".into());
    }
    let typed = Typed::try_parse_from(words).map_err(|error| Error::Refused(error.to_string()))?;
    let (prepared, common) = prepare(&typed.which, peers)?;
    measure(prepared, common).map(Told::Compared)
}

fn json(entries: &[Entry]) -> Result<String, Error> {
    let told: Vec<&Told> = entries.iter().filter_map(|entry| entry.outcome.as_ref().ok()).collect();
    json_line(&told)
}

fn tables(entries: &[Entry]) -> String {
    let tables: Vec<_> = entries
        .iter()
        .map(|Entry { typed, outcome }| match outcome {
            Ok(told) => told.table(),
            Err(error) => format!("{typed}: {error}\n"),
        })
        .collect();
    tables.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_benchmark() {
        for (full, quick) in ALL {
            for typed in [Some(full), quick].into_iter().flatten() {
                if let Err(error) = Typed::try_parse_from(typed.split(' ')) {
                    panic!("{typed}: {error}");
                }
            }
        }
    }
}
