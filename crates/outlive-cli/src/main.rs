//! The program `outlive`: queues, topics, locks and liveness from a shell.
//!
//! One file per verb under `verbs`; arguments are defined there once, with clap, and make parsing, help, completions and
//! man pages. Results go to standard output, talk to standard error, and the exit code is one of [`exit::TABLE`].

mod bench;
mod cli;
mod domain;
mod exit;
mod framing;
mod msgpack;
mod output;
mod process;
mod progress;
mod signals;
mod size;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use exit::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let verb = cli.verb.name();
    match cli.verb.run(&cli.common) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Failure::Told { message, .. } = &failure {
                output::talk(verb, message);
            }
            ExitCode::from(failure.number())
        }
    }
}
