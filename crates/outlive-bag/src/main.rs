//! The program `outlive-bag`, which `outlive bag` becomes: files in MCAP, Outlive's and others'.

mod copy;
mod exit;
mod fault;
mod files;
mod indexes;
mod output;
mod records;
mod survey;
mod verbs;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use outlive_program::figures::counted;
use outlive_program::names;

use crate::exit::{Code, Failure};

/// Look at recordings in MCAP, repair them, filter, cut, merge and convert them
///
/// The files may be those of 'outlive record' or of any other program. A file that is written has its
/// name only when it is whole, and never replaces another one unless '--force' is given.
#[derive(Parser, Debug)]
#[command(
    name = "outlive-bag",
    bin_name = "outlive bag",
    version,
    max_term_width = 100,
    after_long_help = "Examples:\n  \
    outlive bag info drive.mcap\n  \
    outlive bag recover --in-place drive.mcap\n  \
    outlive bag filter drive.mcap --topics lidar -o lidar.mcap\n\n\
    Exit codes are those of outlive: 0 done; 1 a check found a fault, or a part of the file was lost; 2 usage; 6 no \
    such file; 7 the result's name is taken; 8 not an MCAP file, or of a form that is not known; 9 no permission; 10 no \
    room; 11 the file is damaged; 12 another process has it locked; 15 the system refused."
)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

/// What every verb is told.
#[derive(Args, Debug)]
pub struct Common {
    /// Print results as JSON, one value a line
    #[arg(long, global = true, display_order = 903)]
    pub json: bool,
    /// The domain, as each verb of 'outlive' takes it; files need none
    #[arg(long, short = 'd', global = true, hide = true, value_name = "DOMAIN")]
    pub domain: Option<String>,
    /// The domain's group
    #[arg(long, global = true, hide = true, value_name = "GROUP")]
    pub group: Option<String>,
}

/// The verbs.
#[derive(Subcommand, Debug)]
enum Verb {
    Info(verbs::info::InfoArgs),
    Check(verbs::check::CheckArgs),
    Recover(verbs::recover::RecoverArgs),
    Convert(verbs::convert::ConvertArgs),
    Filter(verbs::filter::FilterArgs),
    Cut(verbs::cut::CutArgs),
    Merge(verbs::merge::MergeArgs),
}

impl Verb {
    fn run(&self, common: &Common) -> Result<(), Failure> {
        match self {
            Verb::Info(args) => args.run(common),
            Verb::Check(args) => args.run(common),
            Verb::Recover(args) => args.run(common),
            Verb::Convert(args) => args.run(common),
            Verb::Filter(args) => args.run(common),
            Verb::Cut(args) => args.run(common),
            Verb::Merge(args) => args.run(common),
        }
    }
}

/// Prints what `body` writes.
fn print(body: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let printed = body(&mut out).and_then(|()| out.flush());
    printed.map_err(|error| Failure::system("print", &error))
}

/// Prints a result: a value as JSON, or a sentence.
fn say(
    common: &Common,
    value: serde_json::Value,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    print(|out| match common.json {
        true => writeln!(out, "{value}"),
        false => writeln!(out, "{}", text()),
    })
}

/// Does the same with each file, also behind one with which it failed. The greatest of the codes is returned.
fn each_of(
    files: &[PathBuf],
    mut run: impl FnMut(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if let [file] = files {
        return run(file);
    }
    let mut failed: Vec<Code> = Vec::new();
    for file in files {
        match run(file) {
            Ok(()) => {}
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            Err(Failure::Told { code, message }) => {
                let name = file.display().to_string();
                match message.contains(&name) {
                    true => say_failed(&message),
                    false => say_failed(&format!("{name}: {message}")),
                }
                failed.push(code);
            }
        }
    }
    match failed.iter().max_by_key(|code| **code as u8) {
        None => Ok(()),
        Some(worst) => {
            let of = counted(files.len() as u64, "file");
            let text =
                format!("{} of {of}: a fault was found, or it could not be read", failed.len());
            Err(Failure::new(*worst, text))
        }
    }
}

fn say_failed(message: &str) {
    eprintln!("outlive bag: {message}");
}

/// Ends the program as the parser does, and says which mistake it may be.
fn refuse(error: &clap::Error) -> ! {
    let _ = error.print();
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if let (ErrorKind::MissingRequiredArgument, Some(hint)) =
        (error.kind(), names::taken_files(&words, &["--topics", "--not"]))
    {
        eprintln!("{hint}");
    }
    std::process::exit(error.exit_code())
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    match cli.verb.run(&cli.common) {
        Ok(()) | Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(Failure::Told { code, message }) => {
            say_failed(&message);
            ExitCode::from(code as u8)
        }
    }
}
