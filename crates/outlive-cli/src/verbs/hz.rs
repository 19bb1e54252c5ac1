//! `outlive hz`: how many messages a second a topic has, and how evenly they come.

use std::time::Instant;

use clap::Args;
use outlive::topic::Sample;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::Failure;
use crate::output::counted;
use crate::verbs::measuring::{self, Gauge, MeasureArgs, Span, Spread, told_lost, told_nothing};

/// Tell how many messages a second a topic has, and how evenly they come
///
/// hz prints a line for each interval until it is interrupted, or has printed as many as --count
/// says.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  outlive topic hz camera")]
pub struct HzArgs {
    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Default)]
struct Rate {
    messages: u64,
    last: Option<Instant>,
    /// Seconds between one message and the next.
    gaps: Vec<f64>,
}

#[derive(Serialize)]
struct Report {
    /// Messages a second, those that were lost included.
    hz: f64,
    messages: u64,
    lost: u64,
    seconds: f64,
    gap_seconds: Option<Spread>,
}

impl Gauge for Rate {
    type Report = Report;

    fn take(&mut self, _sample: &Sample<[u8]>, at: Instant) {
        self.messages += 1;
        self.gaps.extend(self.last.map(|last| (at - last).as_secs_f64()));
        self.last = Some(at);
    }

    fn report(&mut self, span: Span) -> (Report, String) {
        let gap_seconds = Spread::of(&mut self.gaps);
        self.gaps.clear();
        let messages = std::mem::take(&mut self.messages);
        let hz = (messages + span.lost) as f64 / span.seconds;
        let gaps =
            gap_seconds.map_or_else(String::new, |gaps| format!(", gaps: {}", gaps.of_seconds()));
        let line = match messages {
            0 => told_nothing(&span),
            _ => format!(
                "{} Hz, {}{}{gaps}",
                measuring::rate(hz),
                counted(messages, "message"),
                told_lost(span.lost)
            ),
        };
        (Report { hz, messages, lost: span.lost, seconds: span.seconds, gap_seconds }, line)
    }
}

/// Runs the verb.
pub fn run(args: &HzArgs, common: &Common) -> Result<(), Failure> {
    measuring::run(&args.measure, common, &mut Rate::default())
}
