//! `outlive bag merge`: several files in one, by log time.

use clap::Args;
use outlive_mcap::{Compression, Item, Message, MessageHeader, Numbering, Reader};

use crate::Common;
use crate::copy::{self, Choice, GROUP, Target};
use crate::exit::{Code, Failure};
use crate::files::FilesArgs;
use crate::output::{Output, OutputArgs};

/// Merge files into one, by log time
///
/// Each file's own order is kept: where its log times go back, the merged file's do, too. The profile is
/// that of the first file.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bag merge front.mcap rear.mcap -o both.mcap\n  \
    outlive bag merge night.mcap -o whole.mcap      # night_0.mcap, night_1.mcap and so on")]
pub struct MergeArgs {
    #[command(flatten)]
    files: FilesArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// A file with its next message.
struct Input {
    reader: Reader,
    numbering: Numbering,
    next: Option<MessageHeader>,
    data: Vec<u8>,
}

impl Input {
    /// Goes to the next message; what else is in between goes into the merged file at once.
    fn advance(&mut self, target: &mut Target) -> Result<(), Failure> {
        self.next = None;
        while let Some(item) = self.reader.next()? {
            if let Item::Message(Message { header, data, .. }) = item {
                self.next = Some(header);
                self.data.clear();
                self.data.extend_from_slice(data);
                return Ok(());
            }
            target.take(&mut self.numbering, item, &Choice::ALL)?;
        }
        Ok(())
    }
}

impl MergeArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let files = self.files.all();
        if let [file] = &files[..] {
            let text = format!("{} is one file: merge takes two or more", file.display());
            return Err(Failure::new(Code::Usage, text));
        }
        let output = Output::new(&self.output.output, self.output.force)?;
        let mut inputs = Vec::new();
        let mut profile = None;
        for file in &files {
            let (reader, header) = copy::open(file)?;
            profile.get_or_insert(header.profile);
            inputs.push(Input {
                reader,
                numbering: Numbering::default(),
                next: None,
                data: Vec::new(),
            });
        }
        let writer = output.create(&profile.unwrap_or_default(), Compression::None)?;
        let mut target = Target::new(writer, GROUP);
        for input in &mut inputs {
            input.advance(&mut target)?;
        }
        loop {
            let ready = inputs.iter_mut().filter_map(|input| Some((input.next?.log_time, input)));
            let Some((_, input)) = ready.min_by_key(|(time, _)| *time) else { break };
            if let Some(header) = input.next {
                target.put_from(&input.numbering, header, &input.data)?;
            }
            input.advance(&mut target)?;
        }
        target.keep(output, common)
    }
}
