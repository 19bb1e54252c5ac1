//! Looking at a topic's messages span by span: what `hz`, `bw` and `delay` share.

use std::time::{Duration, Instant};

use clap::Args;
use outlive::topic::{Sample, Subscriber};
use serde::Serialize;

use crate::cli::Common;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::output;
use crate::verbs::subscribing::{Came, Subscribing};

/// What is looked at, and how often that is told.
#[derive(Args, Debug)]
pub struct MeasureArgs {
    /// The topic's name; a topic that is not there is waited for
    topic: String,
    /// Print a line each time this much time has passed
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = duration::seconds)]
    interval: Duration,
    /// End after N lines
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// Count only messages with this key, a number; may be given several times
    #[arg(long, value_name = "KEY")]
    key: Vec<u64>,
}

/// One span of time.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// How long it was.
    pub seconds: f64,
    /// Messages that were overwritten in it before they could be looked at.
    pub lost: u64,
    /// Whether the topic has a publisher at its end.
    pub has_publisher: bool,
}

/// What is measured.
pub trait Gauge {
    /// What a span comes to, as JSON and as a line for a person.
    type Report: Serialize;

    /// A message came.
    fn take(&mut self, sample: &Sample<[u8]>, at: Instant);

    /// Returns what came since the last report.
    fn report(&mut self, span: Span) -> (Self::Report, String);
}

/// Measures until it is interrupted.
pub fn run(args: &MeasureArgs, common: &Common, gauge: &mut impl Gauge) -> Result<(), Failure> {
    if args.interval.is_zero() {
        return Err(Failure::new(Code::Usage, "--interval: more than 0 seconds"));
    }
    let options = Subscriber::options().keys(&args.key);
    let mut subscribing = Subscribing::begin(&args.topic, options, None, common)?;
    let (mut begun, mut lost, mut told) = (Instant::now(), 0, 0);
    while told < args.count.unwrap_or(u64::MAX) {
        match subscribing.next(Some(begun + args.interval))? {
            Came::Sample(sample) => gauge.take(&sample, Instant::now()),
            Came::News(news) => news.tell(common)?,
            Came::End => break,
            // There is no publisher to measure yet.
            Came::Moment if subscribing.topic().is_none() => begun = Instant::now(),
            Came::Moment => {
                let (now, lost_now) = (Instant::now(), subscribing.lost());
                let has_publisher =
                    subscribing.topic().is_some_and(|topic| !topic.publishers().is_empty());
                let (report, line) = gauge.report(Span {
                    seconds: (now - begun).as_secs_f64(),
                    lost: lost_now - lost,
                    has_publisher,
                });
                if common.json {
                    output::print_json(&report)?
                } else {
                    output::print(format_args!("{line}\n"))?
                }
                (begun, lost) = (now, lost_now);
                told += 1;
            }
        }
    }
    Ok(())
}

/// How figures are spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// All but one in a hundred are no larger.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
}

impl Spread {
    /// Of figures, which are left sorted. `None`: there are none.
    pub fn of(figures: &mut [f64]) -> Option<Spread> {
        figures.sort_unstable_by(f64::total_cmp);
        let (first, last) = (*figures.first()?, *figures.last()?);
        let at = |part: f64| figures[(part * (figures.len() - 1) as f64).round() as usize];
        let mean = figures.iter().sum::<f64>() / figures.len() as f64;
        let variance = figures.iter().map(|figure| (figure - mean).powi(2)).sum::<f64>()
            / figures.len() as f64;
        let deviation = variance.sqrt();
        Some(Spread { min: first, median: at(0.5), p99: at(0.99), max: last, mean, deviation })
    }

    /// Figures in seconds, in the unit that fits them.
    pub fn of_seconds(&self) -> String {
        let of = |figure| seconds(figure);
        format!(
            "min {}, median {}, 99 % {}, max {}",
            of(self.min),
            of(self.median),
            of(self.p99),
            of(self.max)
        )
    }
}

/// Returns a short time for a person: `340 ns`, `1.25 us`, `33.3 ms`, `2.00 s`.
pub fn seconds(figure: f64) -> String {
    let size = figure.abs();
    match size {
        _ if size < 1e-6 => format!("{:.0} ns", figure * 1e9),
        _ if size < 1e-3 => format!("{:.2} us", figure * 1e6),
        _ if size < 1.0 => format!("{:.2} ms", figure * 1e3),
        _ => format!("{figure:.2} s"),
    }
}

/// Returns a rate for a person: three digits, or all before the point.
pub fn rate(figure: f64) -> String {
    match figure {
        _ if figure >= 99.95 => output::count(figure.round() as u64),
        _ if figure >= 9.995 => format!("{figure:.1}"),
        _ if figure > 0.0 => format!("{figure:.2}"),
        _ => "0".to_owned(),
    }
}

/// Returns that nothing came, and whether there is a publisher that could have published.
pub fn told_nothing(span: &Span) -> String {
    let publisher = if span.has_publisher { "" } else { ", and no publisher" };
    format!("no message{publisher}{}", told_lost(span.lost))
}

/// Returns what was lost, if anything.
pub fn told_lost(lost: u64) -> String {
    if lost == 0 { String::new() } else { format!(", {} lost", output::count(lost)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_knows_its_ends_and_its_middle() {
        assert_eq!(Spread::of(&mut []), None);
        let one = Spread::of(&mut [3.0]).expect("one");
        assert_eq!(
            (one.min, one.median, one.p99, one.max, one.mean, one.deviation),
            (3.0, 3.0, 3.0, 3.0, 3.0, 0.0)
        );
        let mut figures: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let spread = Spread::of(&mut figures).expect("some");
        assert_eq!(
            (spread.min, spread.median, spread.p99, spread.max, spread.mean),
            (1.0, 51.0, 100.0, 101.0, 51.0)
        );
        assert!((spread.deviation - 29.15).abs() < 0.01);
    }

    #[test]
    fn times_and_rates_have_their_units() {
        assert_eq!(seconds(340e-9), "340 ns");
        assert_eq!(seconds(1.25e-6), "1.25 us");
        assert_eq!(seconds(-0.0333), "-33.30 ms");
        assert_eq!(seconds(2.0), "2.00 s");
        assert_eq!(rate(0.0), "0");
        assert_eq!(rate(0.5), "0.50");
        assert_eq!(rate(29.97), "30.0");
        assert_eq!(rate(99.97), "100");
        assert_eq!(rate(1234567.8), "1,234,568");
    }
}
