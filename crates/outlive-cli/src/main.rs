//! The program `outlive`: queues, topics, locks and liveness from a shell.
//!
//! One file per verb under `verbs`; arguments are defined there once, with clap, and make parsing,
//! help, completions and man pages. Results go to standard output, talk to standard error, and the
//! exit code is one of [`exit::TABLE`].

mod array;
mod cli;
mod described;
mod domain;
mod exit;
mod external;
mod framing;
mod msgpack;
mod names;
mod nouns;
mod output;
mod payload;
mod process;
mod progress;
#[cfg(test)]
mod repository;
#[cfg(any(feature = "image", feature = "plot", feature = "top"))]
mod screen;
mod signals;
mod verbs;

use std::process::ExitCode;

use cli::Json;
use exit::{Code, Failure};
use outlive_program::{duration, size};

fn main() -> ExitCode {
    verbs::completions::answer();
    let (path, mut cli) = cli::parse(std::env::args_os().collect());
    output::speak_as(&path);
    let completed = match cli.verb.needs_domain() {
        true => cli.common.domain.complete(),
        false => Ok(()),
    };
    let result = completed.and_then(|()| match cli::json_of(&path) {
        Some(Json::Refused(why)) if cli.common.json => {
            Err(Failure::new(Code::Usage, format!("--json is refused: {why}")))
        }
        _ => cli.verb.run(&cli.common),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Failure::Told { message, .. } = &failure {
                output::talk(message);
            }
            ExitCode::from(failure.number())
        }
    }
}
