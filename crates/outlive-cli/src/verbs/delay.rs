//! `outlive delay`: how old messages are when they are received, by their publishers' stamps.

use std::time::{Instant, SystemTime};

use clap::Args;
use outlive::topic::Sample;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::Failure;
use crate::output::counted;
use crate::verbs::measuring::{self, Gauge, MeasureArgs, Span, Spread, told_lost, told_nothing};

/// Tell how old messages are when they are received
///
/// A message's age is the time of day at its receipt, less the time of day that its publisher
/// stamped on it. delay prints a line for each interval until it is interrupted, or has printed as
/// many as --count says. Messages without a stamp are counted.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  outlive topic delay camera --count 10")]
pub struct DelayArgs {
    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Default)]
struct Age {
    /// In seconds; below 0 when a publisher's clock is ahead, or its stamp means something else.
    ages: Vec<f64>,
    without: u64,
}

#[derive(Serialize)]
struct Report {
    messages: u64,
    /// Messages without a stamp.
    without_stamp: u64,
    lost: u64,
    delay_seconds: Option<Spread>,
}

impl Gauge for Age {
    type Report = Report;

    fn take(&mut self, sample: &Sample<[u8]>, _at: Instant) {
        match sample.header().time() {
            Some(then) => self.ages.push(match SystemTime::now().duration_since(then) {
                Ok(age) => age.as_secs_f64(),
                Err(ahead) => -ahead.duration().as_secs_f64(),
            }),
            None => self.without += 1,
        }
    }

    fn report(&mut self, span: Span) -> (Report, String) {
        let delay_seconds = Spread::of(&mut self.ages);
        let messages = self.ages.len() as u64;
        self.ages.clear();
        let without_stamp = std::mem::take(&mut self.without);
        let bare = match without_stamp {
            0 => String::new(),
            count => format!("{} without a stamp", counted(count, "message")),
        };
        let line = match delay_seconds {
            Some(delays) => {
                let bare = if bare.is_empty() { bare } else { format!(", {bare}") };
                format!(
                    "{}, {}{}{bare}",
                    delays.of_seconds(),
                    counted(messages, "message"),
                    told_lost(span.lost)
                )
            }
            None if bare.is_empty() => told_nothing(&span),
            None => format!("{bare}: the topic was made without stamps"),
        };
        (Report { messages, without_stamp, lost: span.lost, delay_seconds }, line)
    }
}

/// Runs the verb.
pub fn run(args: &DelayArgs, common: &Common) -> Result<(), Failure> {
    measuring::run(&args.measure, common, &mut Age::default())
}
