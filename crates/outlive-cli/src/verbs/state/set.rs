//! `outlive state set`.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::Args;
use outlive::Error;
use outlive::state::State;
use serde::Serialize;

use crate::cli::Common;
use crate::described;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::output;
use crate::size;
use crate::verbs::attributes::AttributeArgs;
use crate::verbs::role;

/// Set the value
///
/// The value of a state that has a description of its values' type is given as JSON; with --raw it is
/// the bytes.
///
/// The value is there when set ends. A reader sees the old value or the new one, never parts of
/// both.
///
/// A state has one writer at a time. While another process is the writer, set waits up to a second
/// for it, then fails with exit code 12 and names that process; with --timeout it waits longer, and
/// fails with exit code 5.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive state set mode driving\n  \
    outlive state set --capacity 1M map < map.png\n  \
    outlive state set --timeout 5s mode idle")]
pub struct SetArgs {
    /// The state's name; a state that is not there is made
    state: String,
    /// The value; without it, set reads all of standard input, which must not be empty
    value: Option<OsString>,
    /// The value is the bytes, also if the state has a description of its values' type
    #[arg(long, short)]
    raw: bool,
    /// For a new state: how many bytes a value may have, 128M at most [default: 4K, or the size of
    /// this value if that is more]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    capacity: Option<u64>,
    /// Wait this long for another writer to leave or to end [default: 1s]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
    #[command(flatten)]
    attributes: AttributeArgs,
}

/// What was set, with --json.
#[derive(Serialize)]
struct Told {
    version: u64,
    bytes: usize,
}

/// The most that is read from standard input: more than any state has room for.
const MOST_BYTES: u64 = (128 << 20) + 1;
const USUAL_SIZE: u64 = 4096;

/// Runs it.
pub fn run(args: &SetArgs, common: &Common) -> Result<(), Failure> {
    let domain = args.attributes.on(common.domain.open()?);
    let value = match &args.value {
        Some(value) => value.as_bytes().to_vec(),
        None => {
            let mut value = Vec::new();
            let read = std::io::stdin().lock().take(MOST_BYTES).read_to_end(&mut value);
            read.map_err(|error| Failure::system("read standard input", &error))?;
            // A forgotten argument in a script, whose input is empty, must not lose the value.
            if value.is_empty() {
                let text = "no value: standard input is empty; for a value of no bytes give ''";
                return Err(Failure::new(Code::BadInput, text));
            }
            value
        }
    };
    let state = match State::open_as_bytes(&domain, &args.state) {
        Err(Error::NotFound { .. }) if !common.domain.no_create => {
            let capacity = args.capacity.unwrap_or(USUAL_SIZE.max(value.len() as u64));
            let options =
                State::<[u8]>::options().capacity(usize::try_from(capacity).unwrap_or(usize::MAX));
            match options.open_or_create(&domain, &args.state) {
                // Another process has made it meanwhile: it keeps its size.
                Err(Error::OtherOptions { .. }) => State::open(&domain, &args.state)?,
                other => other?,
            }
        }
        other => other?,
    };
    let value = match state.description()?.filter(|one| !args.raw && described::is_json(one)) {
        Some(description) => described::message(&description, &value)?,
        None => value,
    };
    let writer = match args.timeout {
        Some(span) => match state.wait_to_write_timeout(span)? {
            Some(writer) => Ok(writer),
            // The error says which process has it.
            None => state.writer().map_err(|error| match error {
                Error::Taken { .. } => Failure::from(error).with_code(Code::TimedOut),
                other => other.into(),
            }),
        },
        None => role::take(|| state.writer()).map_err(Failure::from),
    };
    let version = writer?.set(&value)?;
    if common.json { output::print_json(&Told { version, bytes: value.len() }) } else { Ok(()) }
}
