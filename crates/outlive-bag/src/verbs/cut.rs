//! `outlive bag cut`: a part of the time.

use std::path::{Path, PathBuf};

use clap::Args;
use outlive_mcap::{Compression, Outline};
use outlive_program::{date, duration};

use crate::Common;
use crate::copy::{self, Choice, GROUP, Target};
use crate::exit::{Code, Failure};
use crate::files::RecordingArgs;
use crate::output::{Output, OutputArgs};
use crate::survey::{EVENTS, Survey};
use crate::verbs::info::span;

/// Keep a part of a recording's time, in another file
///
/// Times are log times: counted from the first message of the recording, or, with '@' in front, in seconds since
/// 1970. A message at '--start' is kept, and one at '--end' is not. If there is none, nothing is written, and the
/// exit code is 6.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bag cut drive.mcap --start 10s --end 1m -o part.mcap\n  \
    outlive bag cut drive.mcap --start @1767225600.5 -o rest.mcap")]
pub struct CutArgs {
    #[command(flatten)]
    recording: RecordingArgs,
    /// Keep messages from this time on
    #[arg(long, value_name = "WHEN", value_parser = parse, required_unless_present = "end")]
    start: Option<When>,
    /// Keep messages before this time
    #[arg(long, value_name = "WHEN", value_parser = parse)]
    end: Option<When>,
    #[command(flatten)]
    output: OutputArgs,
}

impl CutArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let files = self.recording.all()?;
        let is_relative = |when: &Option<When>| matches!(when, Some(When::After(_)));
        let first = match is_relative(&self.start) || is_relative(&self.end) {
            true => first_time_of(&files)?,
            false => 0,
        };
        let at = |when: When| match when {
            When::After(time) => first.saturating_add(time),
            When::At(time) => time,
        };
        let (start, end) = (self.start.map_or(0, at), self.end.map(at));
        if end.is_some_and(|end| end <= start) {
            let text = "--end is not after --start: nothing is between them";
            return Err(Failure::new(Code::Usage, text));
        }
        let output = Output::new(&self.output.output, self.output.force)?;
        let make =
            |profile: &str| Ok(Target::new(output.create(profile, Compression::None)?, GROUP));
        let target = copy::files(&files, make, &Choice { start, end, ..Choice::ALL })?;
        if target.recorded == 0 {
            return Err(self.nothing(&files)?);
        }
        target.keep(output, common)
    }
}

impl CutArgs {
    /// Returns that no message is in the time, and when there are some.
    fn nothing(&self, files: &[PathBuf]) -> Result<Failure, Failure> {
        let mut times = None;
        for file in files {
            let all = [times, Survey::read(file)?.times()].into_iter().flatten();
            times = all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        }
        let file = self.recording.name();
        let there = match times {
            Some((first, last)) => {
                let (length, [first, last]) =
                    (span(last - first), [first, last].map(date::seconds));
                format!("it has messages for {length}, from @{first} to @{last}")
            }
            None => "it has none at all".to_owned(),
        };
        let text = format!("{file} has no message in that time: nothing is written; {there}");
        Ok(Failure::new(Code::NotFound, text))
    }
}

/// A time, in nanoseconds.
#[derive(Clone, Copy, Debug)]
enum When {
    /// After the first message.
    After(u64),
    /// Since 1970.
    At(u64),
}

fn parse(text: &str) -> Result<When, String> {
    let nanoseconds = |text: &str| {
        u64::try_from(duration::seconds(text)?.as_nanos())
            .map_err(|_| "a time within 500 years is needed".to_owned())
    };
    match text.strip_prefix('@') {
        Some(text) => nanoseconds(text).map(When::At),
        None => nanoseconds(text).map(When::After),
    }
}

/// Returns the first log time of what was recorded, by the index where there is a sound one. It does not tell a
/// recorder's own events apart.
fn first_time(path: &Path) -> Result<Option<u64>, Failure> {
    if let Ok(outline) = Outline::read(path)
        && outline.has_all_channels()
        && outline.channels().all(|channel| channel.topic != EVENTS)
        && let Some(statistics) = &outline.statistics
        && statistics.message_count > 0
    {
        return Ok(Some(statistics.message_start_time));
    }
    Ok(Survey::read(path)?.times().map(|(first, _)| first))
}

/// Returns the first one of several files; 0: they have nothing.
fn first_time_of(files: &[PathBuf]) -> Result<u64, Failure> {
    let mut first = None;
    for file in files {
        first = [first, first_time(file)?].into_iter().flatten().min();
    }
    Ok(first.unwrap_or(0))
}
