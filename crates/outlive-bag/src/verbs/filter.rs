//! `outlive bag filter`: a part of the topics.

use std::cell::RefCell;
use std::collections::BTreeSet;

use clap::Args;
use outlive_mcap::Compression;
use outlive_program::names::{nearest, shown, those};
use regex::Regex;

use crate::Common;
use crate::copy::{self, Choice, GROUP, Target};
use crate::exit::{Code, Failure};
use crate::files::RecordingArgs;
use crate::output::{Output, OutputArgs};
use crate::survey::EVENTS;

/// Keep some topics of a recording, in another file
///
/// A topic is kept if one of '--topics' and '--regex' names it, or if there is '--not' alone; and if no '--not'
/// names it. If one of '--topics' is not in the file, or no topic is kept, nothing is written, and the exit code is 6.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bag filter drive.mcap --topics camera.front lidar -o two.mcap\n  \
    outlive bag filter drive.mcap --regex '^camera' --not camera.rear -o cameras.mcap")]
pub struct FilterArgs {
    #[command(flatten)]
    recording: RecordingArgs,
    /// Keep these topics
    #[arg(long, value_name = "TOPIC", num_args = 1..)]
    topics: Vec<String>,
    /// Leave these topics out
    #[arg(long, value_name = "TOPIC", num_args = 1..)]
    not: Vec<String>,
    /// Keep the topics in whose name this pattern is found
    #[arg(long, value_name = "PATTERN")]
    regex: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl FilterArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        if self.topics.is_empty() && self.not.is_empty() && self.regex.is_none() {
            let text = "nothing says which topics to keep: give --topics, --regex or --not ('outlive bag convert' keeps all)";
            return Err(Failure::new(Code::Usage, text));
        }
        let regex = self.regex.as_deref().map(Regex::new).transpose();
        let regex =
            regex.map_err(|error| Failure::new(Code::Usage, format!("--regex: {error}")))?;
        let all = self.topics.is_empty() && regex.is_none();
        let there: RefCell<BTreeSet<String>> = RefCell::default();
        let is_chosen = |topic: &str| {
            let is_in = |names: &[String]| names.iter().any(|name| name == topic);
            let found = regex.as_ref().is_some_and(|regex| regex.is_match(topic));
            (all || found || is_in(&self.topics)) && !is_in(&self.not)
        };
        let is_kept = |topic: &str| {
            there.borrow_mut().insert(topic.to_owned());
            is_chosen(topic)
        };
        let output = Output::new(&self.output.output, self.output.force)?;
        let files = self.recording.all()?;
        let make =
            |profile: &str| Ok(Target::new(output.create(profile, Compression::None)?, GROUP));
        let target = copy::files(&files, make, &Choice { topic: &is_kept, ..Choice::ALL })?;
        let there = there.into_inner();
        if let Some(name) = self.topics.iter().find(|name| !there.contains(*name)) {
            let near = nearest(name, there.iter().cloned());
            let meant = near.map(|near| format!(" (is '{}' meant?)", shown(&near)));
            let (name, meant, file) =
                (shown(name), meant.unwrap_or_default(), self.recording.name());
            let all = those(there.iter().map(String::as_str));
            let text = format!("there is no topic '{name}'{meant} in {file}; {all}");
            return Err(Failure::new(Code::NotFound, text));
        }
        let kept = there.iter().filter(|topic| *topic != EVENTS && is_chosen(topic)).count();
        if kept == 0 {
            let all = those(there.iter().filter(|topic| *topic != EVENTS).map(String::as_str));
            let text =
                format!("no topic of {} is kept: nothing is written; {all}", self.recording.name());
            return Err(Failure::new(Code::NotFound, text));
        }
        target.keep(output, common)
    }
}
