//! `outlive notifier listen`.

use clap::Args;
use outlive::notify::Listener;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::Failure;
use crate::output;
use crate::signals::{SLICE, Signals};
use crate::verbs::awaited::{Awaited, Found};

/// Print how often each number is notified
///
/// listen prints a line for each number that was notified since it looked last: the number, and how
/// often. It counts from when it begins, and goes on until it is interrupted (exit code 0), or has
/// been told of as many notices as --count says. While nothing happens, it sleeps.
///
/// A notifier that is not there is waited for, and so is the next one of its name when it is
/// removed. What the first notify tells, which makes the notifier, listen does not count then: it
/// finds the notifier a moment later. With --create, listen makes the notifier, and counts from its
/// first notice.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive notifier listen doors\n  \
    outlive notifier listen --create --count 1 doors\n  \
    outlive notifier listen --count 1 doors\n  \
    outlive notifier listen --json doors | jq .number")]
pub struct ListenArgs {
    /// The notifier's name; one that is not there is waited for
    name: String,
    /// Make the notifier if it is not there, without the options that a program may want for it: no
    /// notices of its own when a notifier comes, leaves or dies
    #[arg(long, conflicts_with = "no_create")]
    create: bool,
    /// End after N notices
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
}

/// How often a number was notified, with --json.
#[derive(Serialize)]
struct Told {
    number: u32,
    count: u64,
}

/// Runs it.
pub fn run(args: &ListenArgs, common: &Common) -> Result<(), Failure> {
    let mut signals = Signals::that_end()?;
    let mut awaited = Awaited::new("a notifier", &args.name, &common.domain);
    let mut here: Option<Listener> = None;
    if args.create {
        here = Some(Listener::open_or_create(&common.domain.open()?, &args.name)?);
    }
    let mut told = 0u64;
    while args.count.is_none_or(|count| told < count) && !signals.came()? {
        let Some(listener) = &mut here else {
            match awaited.wait(Some(&mut signals), None, Listener::open)? {
                Found::Thing(found) => here = Some(found),
                Found::Late | Found::End => break,
            }
            continue;
        };
        match listener.wait_timeout(SLICE)? {
            Some(notices) => {
                let mut text = String::new();
                for (number, count) in &notices {
                    told = told.saturating_add(count);
                    match common.json {
                        true => output::print_json(&Told { number, count })?,
                        false => text.push_str(&format!("{number} {count}\n")),
                    }
                }
                output::print(text)?;
            }
            None if listener.is_removed() => {
                here = None;
                awaited.removed();
            }
            None => {}
        }
    }
    Ok(())
}
