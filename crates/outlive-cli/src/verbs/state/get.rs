//! `outlive state get`.

use clap::Args;
use outlive::state::State;

use super::Form;
use crate::cli::Common;
use crate::exit::Failure;
use crate::payload::OutputArgs;

/// Print the latest value
///
/// get never waits, also while a writer is setting a value, or was stopped or killed in the middle
/// of that. The value that it prints is always whole.
///
/// Text is printed with a newline behind it. A value that is no text is shown on a terminal as
/// hexadecimal, its first 64 bytes; in a pipe it is its bytes and a newline; in a file to which
/// standard output is redirected, its bytes alone. A value of a described type is JSON, on a
/// terminal with its first 256 numbers. --raw and --output always write the bytes alone.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive state get mode\n  \
    outlive state get --hex pose\n  \
    outlive state get --output map.png map")]
pub struct GetArgs {
    /// The state's name
    state: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs it.
pub fn run(args: &GetArgs, common: &Common) -> Result<(), Failure> {
    args.form.check(common)?;
    common.refuse_json_beside(&[("--output", args.output.is_file())])?;
    let state = State::open_as_bytes(&common.domain.existing()?, &args.state)?;
    let mut value = Vec::new();
    let version = state.get_into(&mut value)?;
    let description = state.description()?;
    args.form.print(&value, description.as_ref(), version, &args.output.open()?, common)
}
