//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use outlive_program::duration;
use outlive_record::Error;
use outlive_record::replay::{By, Options, Rate, Wanted, When};
use regex::Regex;

/// Publish a recording again
///
/// The player makes topics that do not exist, with their recorded options. It publishes messages in the recorded order
/// and spacing. It does not wait for subscribers, so a slow one loses messages. With '--reliable', or at the rate
/// 'max', it waits for reliable subscribers. The exit code is 6 if no file has a topic that is named.
///
/// Keys in a terminal: space stops and goes on, s publishes one message, left and right go 5 s back and forward,
/// + and - double and halve the rate, q ends.
#[derive(Parser, Debug)]
#[command(name = "outlive-replay", bin_name = "outlive replay", version)]
#[command(after_long_help = "Examples:\n  \
    outlive replay drive.mcap\n  \
    outlive replay drive.mcap --rate 2 --start 10s --topics lidar\n  \
    outlive replay drive_0.mcap drive_1.mcap --rename /camera/front=camera --wait 1\n  \
    outlive replay night.mcap --exact")]
pub struct Args {
    /// The files, in any order. drive.mcap stands for all files of the recording: drive_0.mcap, drive_1.mcap and so on
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Play the named files, and not the further ones of their recording
    #[arg(long)]
    exact: bool,
    /// How many times as fast, or 'max': as fast as subscribers take
    #[arg(long, value_name = "RATE", default_value = "1", value_parser = rate, allow_negative_numbers = true)]
    rate: Rate,
    /// Begin again at the end
    #[arg(long = "loop")]
    repeats: bool,
    /// Play messages from this time on: after the first message, or, with '@' in front, in seconds since 1970
    #[arg(long, value_name = "WHEN", value_parser = when)]
    start: Option<When>,
    /// Play messages before this time
    #[arg(long, value_name = "WHEN", value_parser = when)]
    end: Option<When>,
    /// End after this time by the clock on the wall
    #[arg(long, value_name = "TIME", value_parser = duration::more_than_none)]
    pub duration: Option<Duration>,
    /// These topics alone, by their names in the file or here
    #[arg(long, value_name = "TOPIC", num_args = 1..)]
    topics: Vec<String>,
    /// The topics in whose name this pattern is found, besides those of '--topics'
    #[arg(long, value_name = "PATTERN")]
    regex: Option<Regex>,
    /// Publish a topic of the file under another name
    #[arg(long, value_name = "FROM=TO", value_parser = renaming)]
    rename: Vec<(String, String)>,
    /// Which of a message's two times the spacing follows
    #[arg(long, value_name = "TIME", value_enum, default_value_t = Times::LogTime)]
    by: Times,
    /// Publish the time of the recording on the topic 'clock': nanoseconds as u64, 100 times a second
    #[arg(long)]
    clock: bool,
    /// Begin when space is pressed
    #[arg(long)]
    pub paused: bool,
    /// Wait for reliable subscribers, however long. Topics that the player makes are reliable then
    #[arg(long)]
    reliable: bool,
    /// Begin once the topics have so many subscribers together
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub wait: u64,
    /// Stamp messages with the time of the replay, or with their recorded stamps
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Stamps::Now)]
    stamps: Stamps,
    /// Make topics that hold so many messages, instead of as many as they did: at '--rate max' with short messages
    /// a deeper one is faster on a busy machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Run under SCHED_FIFO, where that is allowed
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, require_equals = true, default_missing_value = "20",
        value_parser = clap::value_parser!(i32).range(1..=99))]
    pub fifo: Option<i32>,
    /// The domain: a name, or a path, which has a '/' in it [env: OUTLIVE_DOMAIN]
    #[arg(long, short = 'd', value_name = "DOMAIN")]
    pub domain: Option<String>,
    /// The domain's group of users
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Print events and results as lines of JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Times {
    /// When it was recorded
    LogTime,
    /// When it was published
    PublishTime,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Stamps {
    Now,
    Original,
}

impl Args {
    /// Returns the files to play.
    pub fn files(&self) -> Result<Vec<PathBuf>, Error> {
        match self.exact {
            true => Ok(self.files.clone()),
            false => Ok(outlive_mcap::files_of(&self.files)?),
        }
    }

    /// Returns what is to be said if the files are more than those that were named.
    pub fn notice(&self, files: &[PathBuf]) -> Option<String> {
        let (first, last) = (files.first()?.display(), files.last()?.display());
        (files.len() > self.files.len()).then(|| {
            format!("plays {} files, {first} to {last}; --exact: the named ones alone", files.len())
        })
    }

    /// Returns the player's options.
    pub fn options(&self) -> Options {
        Options {
            wanted: Wanted { topics: self.topics.clone(), regex: self.regex.clone() },
            rename: self.rename.iter().cloned().collect(),
            rate: self.rate,
            by: match self.by {
                Times::LogTime => By::Log,
                Times::PublishTime => By::Publish,
            },
            start: self.start,
            end: self.end,
            repeats: self.repeats,
            is_paused: self.paused,
            reliable: self.reliable,
            clock: self.clock.then(|| "clock".to_owned()),
            original_stamps: self.stamps == Stamps::Original,
            depth: self.depth,
        }
    }

    /// Returns whether it is to go as fast as it can.
    pub fn is_max(&self) -> bool {
        self.rate == Rate::Max
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(Rate::Max),
        Ok(rate) if (1e-3..=1e3).contains(&rate) => Ok(Rate::Times(rate)),
        _ => Err("a rate is a number from 0.001 to 1000, or 'max'".to_owned()),
    }
}

fn when(text: &str) -> Result<When, String> {
    let nanoseconds = |text: &str| -> Result<u64, String> {
        u64::try_from(duration::seconds(text)?.as_nanos())
            .map_err(|_| "a time within 500 years is needed".to_owned())
    };
    match text.strip_prefix('@') {
        Some(text) => nanoseconds(text).map(When::At),
        None => nanoseconds(text).map(When::After),
    }
}

fn renaming(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => {
            Ok((from.to_owned(), to.to_owned()))
        }
        _ => Err("two names are needed, as in /camera/front=camera".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_times_and_names_are_read() {
        assert_eq!(rate("2"), Ok(Rate::Times(2.0)));
        assert_eq!(rate("max"), Ok(Rate::Max));
        assert!(["0", "-1", "nan", "inf", "x", ""].iter().all(|text| rate(text).is_err()));
        assert_eq!(when("1m30s"), Ok(When::After(90_000_000_000)));
        assert_eq!(when("@1767225600.5"), Ok(When::At(1_767_225_600_500_000_000)));
        assert!(["@", "x", "-1s"].iter().all(|text| when(text).is_err()));
        assert_eq!(renaming("/a=b=c"), Ok(("/a".to_owned(), "b=c".to_owned())));
        assert!(["a", "=b", "a="].iter().all(|text| renaming(text).is_err()));
    }
}
