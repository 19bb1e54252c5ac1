//! The program `outlive-bench`, which `outlive bench` becomes.
//!
//! It is a program of its own because it takes a fifth of the whole time to compile: a user that tries the demo
//! need not wait for it.

use std::process::ExitCode;

use clap::Parser;
use outlive_bench::{BenchArgs, Error};
use outlive_program::exit::Code;

// It calls itself 'outlive bench', also when it is started by its own name. Its help is that of the arguments.
#[derive(Parser, Debug)]
#[command(name = "outlive bench", bin_name = "outlive bench", version, max_term_width = 100)]
struct Program {
    #[command(flatten)]
    args: BenchArgs,
    /// As `outlive --json bench` passes it on: each benchmark has this option.
    #[arg(long, global = true, hide = true)]
    json: bool,
}

fn main() -> ExitCode {
    match outlive_bench::run(&Program::parse().args, |_| {}) {
        Ok(code) => code,
        Err(Error::Interrupted(signal)) => ExitCode::from(128 + signal as u8),
        Err(error) => {
            eprintln!("outlive bench: {error}");
            ExitCode::from(code_of(&error) as u8)
        }
    }
}

fn code_of(error: &Error) -> Code {
    match error {
        Error::Refused(_) => Code::Usage,
        Error::Wrong(_) => Code::CheckFailed,
        Error::TimedOut(_) => Code::TimedOut,
        Error::System { .. } | Error::Child(_) | Error::Interrupted(_) => Code::System,
    }
}
