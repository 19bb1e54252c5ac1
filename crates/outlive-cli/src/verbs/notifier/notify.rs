//! `outlive notifier notify`.

use clap::Args;
use outlive::notify::{IDS, Notifier};
use serde::Serialize;

use crate::cli::Common;
use crate::exit::Failure;
use crate::output;
use crate::verbs::attributes::AttributeArgs;

/// Notify all listeners
///
/// Each listener counts, for each number from 0 to 63, how often it has been notified. notify ends
/// at once, also when no process listens: --json says how many did.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive notifier notify doors 3\n  \
    outlive notifier notify doors 3 7 --json")]
pub struct NotifyArgs {
    /// The notifier's name; one that is not there is made
    name: String,
    /// The numbers, 0 to 63
    #[arg(required = true, value_name = "NUMBER", value_parser = number)]
    numbers: Vec<u32>,
    #[command(flatten)]
    attributes: AttributeArgs,
}

/// Reads a notice's number.
fn number(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number < IDS);
    number.ok_or_else(|| format!("a notice's number is one from 0 to {}", IDS - 1))
}

/// What was notified, with --json.
#[derive(Serialize)]
struct Told {
    notices: usize,
    listeners: u32,
}

/// Runs it.
pub fn run(args: &NotifyArgs, common: &Common) -> Result<(), Failure> {
    let domain = args.attributes.on(common.domain.open()?);
    let notifier = match common.domain.no_create {
        true => Notifier::open(&domain, &args.name)?,
        false => Notifier::open_or_create(&domain, &args.name)?,
    };
    let mut listeners = 0;
    for number in &args.numbers {
        listeners = notifier.notify(*number)?;
    }
    match common.json {
        true => output::print_json(&Told { notices: args.numbers.len(), listeners }),
        false => Ok(()),
    }
}
