//! Eight processes lock, send and receive in one domain while they are killed, stopped and made to
//! exec at random.
//!
//! `soak --minutes N`; `soak --topics --minutes N`: the crowd, with topics, a state and a service,
//! in rounds of a minute. The seed is printed. Exit code 1 when something was lost, corrupted or
//! hung, or memory grew.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Parser;
use outlive_testkit::soak::crowd;
use outlive_testkit::soak::supervisor::{Orders, run};
use outlive_testkit::soak::worker::{Part, work};
use outlive_testkit::world::{Recheck, scratch};

#[derive(Parser)]
#[command(version, about = "Kill, stop and exec at random under load")]
struct Arguments {
    /// For how long; fractions are welcome.
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    minutes: f64,
    /// Repeats the choices of an earlier run.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Whether the coarse recheck is on.
    #[arg(long, value_name = "off|on", default_value = "off", value_parser = ["off", "on"])]
    recheck: String,
    /// How large the queue may grow, in MiB: small, so that it is often full.
    #[arg(long, default_value_t = 8, value_name = "MIB")]
    queue_mib: u64,
    /// On a hang, wait so many seconds before any process is ended, for a look with a debugger.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    hold: u64,
    /// The crowd instead: topics, a state and a service.
    #[arg(long)]
    topics: bool,
    /// How many processes the crowd has.
    #[arg(long, default_value_t = crowd::USUAL, value_name = "N", requires = "topics")]
    processes: usize,
    /// How many seconds a round of the crowd lasts.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS", requires = "topics")]
    round: f64,
}

fn play_one_of_the_crowd(words: &[String]) -> Result<(), String> {
    let [domain, book, number, recheck, seed] = words else {
        return Err("usage: soak crowd DOMAIN BOOK NUMBER RECHECK SEED".to_owned());
    };
    let text = |error: std::num::ParseIntError| error.to_string();
    crowd::worker::work(&crowd::worker::Part {
        domain: Path::new(domain),
        book: Path::new(book),
        number: number.parse().map_err(text)?,
        recheck: Recheck::from_word(recheck).ok_or("RECHECK is off or on")?,
        seed: seed.parse().map_err(text)?,
    })
}

fn soak_a_crowd(arguments: &Arguments, seed: u64) -> ExitCode {
    let orders = crowd::supervisor::Orders {
        span: Duration::from_secs_f64(arguments.minutes.max(0.0) * 60.0),
        round: Duration::from_secs_f64(arguments.round.max(0.1)),
        processes: arguments.processes.clamp(crowd::TOPICS + 1, crowd::MOST),
        seed,
        recheck: Recheck::from_word(&arguments.recheck).unwrap_or(Recheck::Off),
        program: std::env::current_exe().unwrap_or_else(|_| "soak".into()),
    };
    let (account, kept) = match crowd::supervisor::run(&orders) {
        Ok(done) => done,
        Err(error) => {
            eprintln!("soak: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{} processes, {} kills, {} stops", orders.processes, account.kills, account.stops);
    println!(
        "{} messages acknowledged, {} kept, {} taken in passing; {} values set, {} got; {} calls answered, {} cut short",
        account.acknowledged,
        account.kept,
        account.passed,
        account.set,
        account.got,
        account.answered,
        account.died
    );
    println!("KiB after each round: the most in use, in use at rest, a keeper's own");
    for (round, memory) in account.memory.iter().enumerate() {
        println!("{:4} {:8} {:8} {:8}", round + 1, memory.most, memory.at_rest, memory.keepers);
    }
    for problem in &account.wrong {
        println!("{problem}");
    }
    if let Some(folder) = kept {
        println!("kept: {}", folder.display());
    }
    println!("wrong: {}", account.wrong.len());
    if account.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn play_worker(words: &[String]) -> Result<(), String> {
    let [domain, ledger, number, recheck, seed, mib] = words else {
        return Err("usage: soak work DOMAIN LEDGER NUMBER RECHECK SEED MIB".to_owned());
    };
    let text = |error: std::num::ParseIntError| error.to_string();
    work(&Part {
        domain: Path::new(domain),
        ledger: Path::new(ledger),
        number: number.parse().map_err(text)?,
        recheck: Recheck::from_word(recheck).ok_or("RECHECK is off or on")?,
        seed: seed.parse().map_err(text)?,
        queue_mib: mib.parse().map_err(text)?,
    })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "work") {
        return match play_worker(&words[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("{problem}");
                ExitCode::FAILURE
            }
        };
    }
    if words.first().is_some_and(|word| word == "crowd") {
        return match play_one_of_the_crowd(&words[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("{problem}");
                ExitCode::FAILURE
            }
        };
    }
    let arguments = Arguments::parse();
    let clock = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(1, |now| now.as_nanos() as u64);
    let seed = arguments.seed.unwrap_or(clock);
    println!("soak: {} minutes, seed {seed}, recheck {}", arguments.minutes, arguments.recheck);
    scratch::clear_ended_runs();
    if arguments.topics {
        return soak_a_crowd(&arguments, seed);
    }
    let orders = Orders {
        hold: Duration::from_secs(arguments.hold),
        span: Duration::from_secs_f64(arguments.minutes.max(0.0) * 60.0),
        seed,
        queue_mib: arguments.queue_mib,
        recheck: Recheck::from_word(&arguments.recheck).unwrap_or(Recheck::Off),
        program: std::env::current_exe().unwrap_or_else(|_| "soak".into()),
    };
    match run(&orders) {
        Ok((account, kept)) => {
            println!("{} kills, {} stops, {} execs", account.kills, account.stops, account.execs);
            println!(
                "{} messages acknowledged, {} arrived, {} handed out again after a receiver's death, {} abandoned; {} takeovers, \
                 senders told {} times",
                account.acknowledged,
                account.arrived,
                account.repeats,
                account.abandoned,
                account.takeovers,
                account.reader_deaths
            );
            println!(
                "{} rounds of the lock, {} times from a dead owner",
                account.locked, account.owner_deaths
            );
            for problem in account.corrupted.iter().chain(&account.hung) {
                println!("{problem}");
            }
            if let Some(folder) = kept {
                println!("kept: {}", folder.display());
            }
            println!(
                "acknowledged and lost: {}; corrupted: {}; hung: {}",
                account.lost,
                account.corrupted.len(),
                account.hung.len()
            );
            if account.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}
