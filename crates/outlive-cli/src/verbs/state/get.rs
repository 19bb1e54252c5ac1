//! `outlive state get`.

use clap::Args;
use outlive::state::State;

use super::Form;
use crate::cli::Common;
use crate::exit::Failure;
use crate::payload::OutputArgs;

/// Print the latest value
///
/// get never waits: not for a writer that is in the middle of setting a value, nor for one that
/// was stopped or killed there. The value is always whole. A newline follows it; --raw leaves
/// that out. In a file (standard output redirected to one) no newline follows a value that is no
/// text, either; on a terminal it is shown as hexadecimal.
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
    args.form.print(&value, version, &args.output.open()?, common)
}
