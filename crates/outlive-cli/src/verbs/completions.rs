//! `outlive completions SHELL`: from the same definitions as the parser.

use clap::Args;
use clap_complete::Shell;

use crate::cli;
use crate::exit::Failure;
use crate::output;

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive completions bash > ~/.local/share/bash-completion/completions/outlive")]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Runs the verb.
pub fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    // Into memory first: the generator panics when its output fails, and a broken pipe is no
    // failure.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "outlive", &mut script);
    output::print(String::from_utf8_lossy(&script))
}
