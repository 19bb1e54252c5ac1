//! `outlive bag recover`: what is whole of a file whose writer died, with an index.

use std::path::PathBuf;

use clap::Args;
use outlive_mcap::{Compression, Error, Item, Numbering, Options, Reader, Writer, files_of};
use outlive_program::figures::counted;
use serde_json::json;

use crate::copy::{Choice, GROUP, Target, told};
use crate::exit::{Code, Failure};
use crate::output::{Output, file_name};
use crate::survey::EVENTS;
use crate::{Common, say};

/// Save what is whole of a file whose writer died, and write its index
///
/// Messages of a chunk that was cut off are saved, too. With '--in-place' a file of 'outlive record' ends
/// after its last whole group, so that 'outlive record --resume' can go on; any other file is written anew
/// beside itself, and then takes its own place. The exit code is 0 if nothing was lost, and 1 if something
/// was; how much is said.
#[derive(Args, Debug)]
#[command(
    override_usage = "outlive bag recover --in-place [OPTIONS] <FILE>\n       \
        outlive bag recover <FILE> --output <FILE.mcap> [OPTIONS]",
    after_long_help = "Examples:\n  \
    outlive bag recover --in-place drive.mcap\n  \
    outlive bag recover cut.mcap -o whole.mcap"
)]
pub struct RecoverArgs {
    /// The file
    file: PathBuf,
    /// Write the result into this file, also without '.mcap'
    #[arg(short, long, value_name = "FILE.mcap", required_unless_present = "in_place", value_parser = file_name())]
    output: Option<PathBuf>,
    /// Repair the file itself
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

/// What came of it.
struct Outcome {
    messages: u64,
    /// The recorder's own events.
    events: u64,
    /// Bytes that are in no record of the result.
    cut: u64,
    faults: u64,
    first: Option<String>,
}

impl RecoverArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        self.is_one_file()?;
        let outcome = match &self.output {
            None => match self.mend()? {
                Some(outcome) => outcome,
                None => self.rewrite(Output::new(&self.file, true)?)?,
            },
            Some(output) => self.rewrite(Output::new(output, self.force)?)?,
        };
        let Outcome { messages, events, cut, faults, first } = outcome;
        let value =
            json!({"messages": messages, "events": events, "cut_bytes": cut, "faults": faults});
        say(common, value, || {
            let messages = told(messages, events);
            match cut {
                0 => messages,
                _ => format!("{messages}; {} at its end in no whole record", counted(cut, "byte")),
            }
        })?;
        if cut == 0 && faults == 0 {
            return Ok(());
        }
        let first = first.map(|first| format!(": {first}")).unwrap_or_default();
        let text = format!("a part of {} was lost{first}", self.file.display());
        Err(Failure::new(Code::CheckFailed, text))
    }

    /// Cuts a file of ours back to its last whole group and finishes it; `None` if it is not ours.
    fn mend(&self) -> Result<Option<Outcome>, Failure> {
        let resumed = Writer::<Vec<u8>>::resume(&self.file, Options::default());
        let (mut writer, tail) = match resumed {
            Ok(resumed) => resumed,
            Err(Error::NotResumable { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        writer.finish(&tail.positions)?;
        let statistics = writer.contents().statistics();
        let own = writer.contents().channels().filter(|channel| channel.topic == EVENTS);
        let of = |id| statistics.channel_message_counts.get(&id).copied().unwrap_or(0);
        let events = own.map(|channel| of(channel.id)).sum();
        let messages = statistics.message_count - events;
        Ok(Some(Outcome { messages, events, cut: tail.cut, faults: 0, first: None }))
    }

    /// Refuses the name of several files: each is recovered into one of its own.
    fn is_one_file(&self) -> Result<(), Failure> {
        if self.file.exists() {
            return Ok(());
        }
        let files = files_of(&[&self.file])?;
        let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        let text = format!(
            "{} is a recording of {}: recover each by its own name: {}",
            self.file.display(),
            counted(files.len() as u64, "file"),
            names.join(" ")
        );
        Err(Failure::new(Code::Usage, text))
    }

    /// Writes all that can be read into another file.
    fn rewrite(&self, output: Output) -> Result<Outcome, Failure> {
        let mut reader = match Reader::open(&self.file) {
            // Its writer made the file, and no more.
            Err(Error::Cut { offset: 0 }) => {
                let looked = self.file.metadata();
                let cut = looked.map_err(|error| Failure::system("read", &error))?.len();
                Target::new(output.create("", Compression::None)?, GROUP).finish()?;
                output.keep()?;
                return Ok(Outcome { messages: 0, events: 0, cut, faults: 0, first: None });
            }
            opened => opened?,
        };
        let profile = match reader.next()? {
            Some(Item::Header(header)) => header.profile,
            _ => return Err(Failure::new(Code::Damaged, "the file has no header")),
        };
        let writer = output.create(&profile, Compression::None)?;
        let mut target = Target::new(writer, GROUP);
        let (mut numbering, mut faults, mut cut, mut first) = (Numbering::default(), 0, 0, None);
        loop {
            match reader.next() {
                Ok(None) => break,
                Ok(Some(item)) => target.take(&mut numbering, item, &Choice::ALL)?,
                Err(error @ Error::Io { .. }) => return Err(error.into()),
                Err(error) => {
                    if let Error::Cut { offset } = error {
                        cut = reader.file_len() - offset;
                    } else {
                        faults += 1;
                    }
                    first.get_or_insert_with(|| error.to_string());
                }
            }
        }
        let (messages, events) = (target.recorded, target.events());
        target.finish()?;
        output.keep()?;
        Ok(Outcome { messages, events, cut, faults, first })
    }
}
