//! `outlive completions SHELL`: from the same definitions as the parser.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Failure;
use crate::output;

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Runs the verb.
pub fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    // Into memory first: the generator panics when its output fails, and a broken pipe is no failure.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "outlive", &mut script);
    output::print(String::from_utf8_lossy(&script))
}
