//! `outlive state get`.

use clap::Args;
use outlive::state::StateBytes;

use super::Form;
use crate::cli::Common;
use crate::exit::Failure;

/// Arguments of `state get`.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// The state's name
    state: String,
    #[command(flatten)]
    form: Form,
}

/// Runs it.
pub fn run(args: &GetArgs, common: &Common) -> Result<(), Failure> {
    let state = StateBytes::open(&common.domain.existing()?, &args.state)?;
    let mut value = Vec::new();
    let version = state.get_into(&mut value)?;
    args.form.print(&value, version, common)
}
