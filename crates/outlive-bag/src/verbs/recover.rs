//! `outlive bag recover`: what is whole of a file whose writer died, with an index.

use std::path::PathBuf;

use clap::Args;
use outlive_mcap::{Compression, Error, Item, Numbering, Options, Reader, Writer};
use outlive_program::figures::counted;
use serde_json::json;

use crate::copy::{Choice, GROUP, Target};
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::{Common, say};

/// Save what is whole of a file whose writer died, and write its index
///
/// Messages of a chunk that was cut off are saved, too. With '--in-place' a file of 'outlive record' ends
/// after its last whole group, so that 'outlive record --resume' can go on; any other file is written anew
/// beside itself, and then takes its own place. The exit code is 0 if nothing was lost, and 1 if something
/// was; how much is said.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bag recover --in-place drive.mcap\n  \
    outlive bag recover cut.mcap -o whole.mcap")]
pub struct RecoverArgs {
    /// The file
    file: PathBuf,
    /// Write the result into this file
    #[arg(short, long, value_name = "FILE", required_unless_present = "in_place")]
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
    /// Bytes that are in no record of the result.
    cut: u64,
    faults: u64,
    first: Option<String>,
}

impl RecoverArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let outcome = match &self.output {
            None => match self.mend()? {
                Some(outcome) => outcome,
                None => self.rewrite(Output::new(&self.file, true)?)?,
            },
            Some(output) => self.rewrite(Output::new(output, self.force)?)?,
        };
        let Outcome { messages, cut, faults, first } = outcome;
        say(common, json!({"messages": messages, "cut_bytes": cut, "faults": faults}), || {
            let messages = counted(messages, "message");
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
        let messages = writer.contents().statistics().message_count;
        Ok(Some(Outcome { messages, cut: tail.cut, faults: 0, first: None }))
    }

    /// Writes all that can be read into another file.
    fn rewrite(&self, output: Output) -> Result<Outcome, Failure> {
        let mut reader = Reader::open(&self.file)?;
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
        let messages = target.messages;
        target.finish()?;
        output.keep()?;
        Ok(Outcome { messages, cut, faults, first })
    }
}
