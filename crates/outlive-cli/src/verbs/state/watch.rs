//! `outlive state watch`.

use clap::Args;
use outlive::Domain;
use outlive::describe::Description;
use outlive::state::{Change, State, Watch};

use super::Form;
use crate::cli::Common;
use crate::exit::Failure;
use crate::output::talk;
use crate::payload::Output;
use crate::signals::{SLICE, Signals};
use crate::verbs::awaited::{Awaited, Found};

/// Print the value whenever it changes
///
/// watch begins with the present value, and goes on until it is interrupted (exit code 0), or has
/// printed as many values as --count says. When values follow each other faster than watch can
/// print them, it prints the latest one and skips the others. While nothing changes, watch sleeps.
///
/// A state that is not there is waited for, and so is the next one of its name when it is removed.
/// When the writer dies, watch says so on standard error and waits for the next writer.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive state watch mode\n  \
    outlive state watch --json mode | jq .text\n  \
    outlive state watch --count 2 mode | tail -n 1")]
pub struct WatchArgs {
    /// The state's name; a state that is not there is waited for
    state: String,
    #[command(flatten)]
    form: Form,
    /// End after N values
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
}

/// Runs it.
pub fn run(args: &WatchArgs, common: &Common) -> Result<(), Failure> {
    args.form.check(common)?;
    let mut signals = Signals::that_end()?;
    let mut awaited = Awaited::new("a writer", &args.state, &common.domain);
    let mut here: Option<(State<[u8]>, Watch, Option<Description>)> = None;
    let mut value = Vec::new();
    let (mut printed, mut last) = (0, 0);
    while args.count.is_none_or(|count| printed < count) && !signals.came()? {
        let Some((state, watch, description)) = &mut here else {
            let open = |domain: &Domain, name: &str| {
                let state = State::open_as_bytes(domain, name)?;
                let (watch, description) = (state.watch(), state.description()?);
                Ok((state, watch, description))
            };
            match awaited.wait(Some(&mut signals), None, open)? {
                Found::Thing(found) => (here, last) = (Some(found), 0),
                Found::Late | Found::End => break,
            }
            continue;
        };
        match watch.changed_timeout(SLICE)? {
            Some(Change::Value { .. }) => {
                let version = state.get_into(&mut value)?;
                // What the last get brought may be what this change tells of.
                if version != last {
                    args.form.print(
                        &value,
                        description.as_ref(),
                        version,
                        &Output::STDOUT,
                        common,
                    )?;
                    printed += 1;
                    last = version;
                }
            }
            Some(_) => {
                talk(format_args!("the writer of {} died; this was its last value", args.state))
            }
            None if state.is_removed() => {
                here = None;
                awaited.removed();
            }
            None => {}
        }
    }
    Ok(())
}
