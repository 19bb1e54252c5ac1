//! `outlive bag filter`: a part of the topics.

use std::cell::RefCell;
use std::path::PathBuf;

use clap::Args;
use outlive_mcap::Compression;
use regex::Regex;

use crate::Common;
use crate::copy::{self, Choice, GROUP, Target};
use crate::exit::{Code, Failure};
use crate::output::{Output, OutputArgs};

/// Keep some topics of a file, in another file
///
/// A topic is kept if one of '--topics' and '--regex' names it, or if neither is given; and if no '--not'
/// names it. If one of '--topics' is not in the file, nothing is written, and the exit code is 6.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bag filter drive.mcap --topics camera.front lidar -o two.mcap\n  \
    outlive bag filter drive.mcap --regex '^camera' --not camera.rear -o cameras.mcap")]
pub struct FilterArgs {
    /// The file
    file: PathBuf,
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
        let regex = self.regex.as_deref().map(Regex::new).transpose();
        let regex =
            regex.map_err(|error| Failure::new(Code::Usage, format!("--regex: {error}")))?;
        let all = self.topics.is_empty() && regex.is_none();
        let missing: RefCell<Vec<&String>> = RefCell::new(self.topics.iter().collect());
        let is_kept = |topic: &str| {
            missing.borrow_mut().retain(|name| *name != topic);
            let is_in = |names: &[String]| names.iter().any(|name| name == topic);
            let found = regex.as_ref().is_some_and(|regex| regex.is_match(topic));
            (all || found || is_in(&self.topics)) && !is_in(&self.not)
        };
        let output = Output::new(&self.output.output, self.output.force)?;
        let (mut reader, header) = copy::open(&self.file)?;
        let writer = output.create(&header.profile, Compression::None)?;
        let mut target = Target::new(writer, GROUP);
        copy::all(&mut reader, &mut target, &Choice { topic: &is_kept, ..Choice::ALL })?;
        if let Some(name) = missing.into_inner().first() {
            let file = self.file.display();
            let text = format!("there is no topic '{}' in {file}", name.escape_debug());
            return Err(Failure::new(Code::NotFound, text));
        }
        target.keep(output, common)
    }
}
