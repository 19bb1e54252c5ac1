//! `outlive state`: the latest value under a name, from a shell.

mod get;
mod set;
mod watch;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::Common;
use crate::exit::Failure;
use crate::output;

/// Arguments of `state`.
#[derive(Args, Debug)]
pub struct StateArgs {
    #[command(subcommand)]
    action: Action,
}

/// What is done with it.
#[derive(Subcommand, Debug)]
enum Action {
    /// Print the latest value
    ///
    /// Never waits: not for a writer that is in the middle of setting one, nor for one that was stopped or killed there. The
    /// value is always whole.
    #[command(after_long_help = "Examples:\n  \
        outlive state get mode\n  \
        outlive state get --hex pose\n  \
        outlive state get --raw map > map.png")]
    Get(get::GetArgs),

    /// Set the value
    ///
    /// A state has one writer at a time. While another process has it, set fails with exit code 12 and names it, or waits for
    /// its end, if told so. The value is there when set ends; who reads it sees the old one or the new one, never parts of
    /// both.
    #[command(after_long_help = "Examples:\n  \
        outlive state set mode driving\n  \
        outlive state set --size 1M map < map.png\n  \
        outlive state set --timeout 5 mode idle")]
    Set(set::SetArgs),

    /// Print the value whenever it changes
    ///
    /// Begins with the value that is there, and goes on until it is interrupted (exit code 0), or has printed as many as it
    /// should. Values that follow each other faster than they can be printed are skipped: what is printed is the latest. When
    /// the writer dies, watch says so on standard error and waits for the next one. Takes no processor time meanwhile.
    #[command(after_long_help = "Examples:\n  \
        outlive state watch mode\n  \
        outlive state watch --json mode | jq .text\n  \
        outlive state watch --count 2 mode | tail -n 1   # wait for a change")]
    Watch(watch::WatchArgs),
}

/// How a value is printed.
#[derive(Args, Debug, Clone, Copy)]
pub struct Form {
    /// Print two hexadecimal digits for each byte
    #[arg(long, short = 'x')]
    hex: bool,
    /// Print the bytes and nothing else, without a newline at the end
    #[arg(long, short, conflicts_with = "hex")]
    raw: bool,
}

/// A value, with --json.
#[derive(Serialize)]
struct Told<'a> {
    version: u64,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// What is no UTF-8, two digits a byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Form {
    /// Prints a value.
    fn print(self, value: &[u8], version: u64, common: &Common) -> Result<(), Failure> {
        let hex = || value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if common.json {
            let text = std::str::from_utf8(value).ok().filter(|_| !self.hex);
            let told = Told { version, bytes: value.len(), text, hex: text.is_none().then(hex) };
            let line = serde_json::to_string(&told).map_err(|error| Failure::system("write JSON", &error.into()))?;
            return output::print(format_args!("{line}\n"));
        }
        if self.hex {
            return output::print(format_args!("{}\n", hex()));
        }
        let newline: &[u8] = if self.raw { b"" } else { b"\n" };
        output::print_bytes(&[value, newline])
    }
}

/// Runs the verb.
pub fn run(args: &StateArgs, common: &Common) -> Result<(), Failure> {
    match &args.action {
        Action::Get(args) => get::run(args, common),
        Action::Set(args) => set::run(args, common),
        Action::Watch(args) => watch::run(args, common),
    }
}
