//! Hostile memory: a process scribbles over a domain's files while it is used.
//!
//! A round takes a domain in a state as it may be found (locks held by the living and the dead,
//! queues full, orphaned and fresh), changes some of its bytes, and lets a child do everything that
//! can be done in a domain. Asserted: the child comes back with results or errors: never a signal,
//! a panic, an endless loop, or memory without bounds.
//!
//! *Quiet* rounds scribble first and use afterwards: a find comes again with its script, and is
//! made as short as it will go. *Busy* rounds scribble while several children use the domain. The
//! scripts of past finds lie in `corpus/` and are replayed first. Stable compiler, no sanitizer:
//! what is looked for shows by itself.
//!
//! `cargo run -p outlive-fuzz -- [--seconds N] [--seed N] [--replay FILE]`

mod board;
mod busy;
mod corpus;
mod descriptions;
mod locks;
mod operations;
mod pools;
mod quiet;
mod random;
mod script;
mod snapshot;
mod topics;
mod watch;
mod worker;
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What the command line says.
struct Options {
    seconds: u64,
    seed: u64,
    replay: Option<String>,
}

fn options() -> Option<Options> {
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
    let mut options = Options { seconds: 60, seed: clock % 1_000_000_007, replay: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next()?;
        match flag.as_str() {
            "--seconds" => options.seconds = value.parse().ok()?,
            "--seed" => options.seed = value.parse().ok()?,
            "--replay" => options.replay = Some(value),
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: outlive-fuzz [--seconds N] [--seed N] [--replay FILE]");
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    world::clear_ended_runs();
    pools::pass_faults_over();
    let (mut passed, mut failed) = (0, 0);
    let past = match &options.replay {
        Some(file) => corpus::read(file.as_ref()).map(|case| vec![case]),
        None => corpus::all(),
    };
    let past = match past {
        Ok(past) => past,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    for case in &past {
        match worker::replay(case) {
            Ok(()) => passed += 1,
            Err(find) => {
                failed += 1;
                println!("corpus: {}: {find}", case.name);
            }
        }
    }
    println!("corpus: {} past finds replayed", past.len());
    if options.replay.is_none() {
        println!("seed {}", options.seed);
        let until = begun + Duration::from_secs(options.seconds);
        let report = worker::run_all(options.seed, until);
        println!(
            "{} quiet rounds, {} busy rounds, {} operations",
            report.quiet, report.busy, report.operations
        );
        for find in &report.finds {
            println!("\n{find}");
        }
        failed += report.finds.len();
        // One for each way of scribbling that came through whole.
        passed += usize::from(
            report.quiet > 0 && !report.finds.iter().any(|find| find.contains("quiet round")),
        );
        passed += usize::from(
            report.busy > 0 && !report.finds.iter().any(|find| find.contains("busy round")),
        );
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
