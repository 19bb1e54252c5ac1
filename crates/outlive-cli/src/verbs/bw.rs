//! `outlive bw`: how many bytes a second pass through a topic.

use std::time::Instant;

use clap::Args;
use outlive::topic::Sample;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::Failure;
use crate::output::{bytes, counted};
use crate::verbs::measuring::{self, Gauge, MeasureArgs, Span, told_lost};

/// Tell how many bytes a second pass through a topic
///
/// bw prints a line for each interval until it is interrupted, or has printed as many as --count
/// says.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  outlive topic bw camera --interval 2s")]
pub struct BwArgs {
    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Default)]
struct Width {
    messages: u64,
    bytes: u64,
    least: u64,
    most: u64,
}

#[derive(Serialize)]
struct Report {
    /// Of messages that were looked at.
    bytes_per_second: f64,
    messages: u64,
    bytes: u64,
    lost: u64,
    seconds: f64,
    smallest: u64,
    largest: u64,
}

impl Gauge for Width {
    type Report = Report;

    fn take(&mut self, sample: &Sample<[u8]>, _at: Instant) {
        let len = sample.bytes().len() as u64;
        self.least = if self.messages == 0 { len } else { self.least.min(len) };
        self.most = self.most.max(len);
        self.messages += 1;
        self.bytes += len;
    }

    fn report(&mut self, span: Span) -> (Report, String) {
        let Width { messages, bytes: sum, least, most } = std::mem::take(self);
        let per_second = sum as f64 / span.seconds;
        let line = match messages {
            0 => format!("no message{}", told_lost(span.lost)),
            _ => format!(
                "{}/s, {}{}, of {} on average (smallest {}, largest {})",
                bytes(per_second as u64),
                counted(messages, "message"),
                told_lost(span.lost),
                bytes(sum / messages),
                bytes(least),
                bytes(most),
            ),
        };
        let report = Report {
            bytes_per_second: per_second,
            messages,
            bytes: sum,
            lost: span.lost,
            seconds: span.seconds,
            smallest: least,
            largest: most,
        };
        (report, line)
    }
}

/// Runs the verb.
pub fn run(args: &BwArgs, common: &Common) -> Result<(), Failure> {
    measuring::run(&args.measure, common, &mut Width::default())
}
