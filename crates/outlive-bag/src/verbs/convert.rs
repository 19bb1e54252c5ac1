//! `outlive bag convert`: other chunks, or lines of JSON.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use outlive_mcap::{Compression, Item, MAX_CHUNK, Message};
use outlive_program::figures::count;
use outlive_program::size;
use serde_json::{Value, json};

use crate::copy::{self, Choice, Target};
use crate::exit::{Code, Failure};
use crate::files::RecordingArgs;
use crate::output::{Output, file_name};
use crate::{Common, print};

/// Write a recording anew: packed, unpacked, in chunks of another size, or as lines of JSON
///
/// As JSON, each message is a line on the standard output. A payload that is JSON is in 'data' as it is;
/// bytes without an encoding that are text (UTF-8 without a NUL) are in 'text'; any other is in 'hex'.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bag convert drive.mcap --compress zstd -o small.mcap\n  \
    outlive bag convert drive.mcap --to jsonl")]
pub struct ConvertArgs {
    #[command(flatten)]
    recording: RecordingArgs,
    /// The form of the result
    #[arg(long, value_enum, default_value = "mcap")]
    to: Form,
    /// How chunks are compressed
    #[arg(long, value_enum, default_value = "none")]
    compress: Compress,
    /// A chunk ends when it has this size, before it is compressed
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = chunk_size)]
    chunk_size: u64,
    /// Write the result into this file, also without '.mcap'
    #[arg(
        short,
        long,
        value_name = "FILE.mcap",
        value_parser = file_name(),
        required_unless_present = "to",
        required_if_eq("to", "mcap")
    )]
    output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Mcap,
    Jsonl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compress {
    None,
    Zstd,
    Lz4,
}

impl ConvertArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let files = self.recording.all()?;
        let path = match (self.to, &self.output) {
            (Form::Mcap, Some(path)) => path,
            (Form::Jsonl, None) => {
                return files.iter().try_for_each(|file| print_lines(&mut copy::open(file)?.0));
            }
            _ => {
                let text = "lines of JSON go to the standard output: leave '--output' out";
                return Err(Failure::new(Code::Usage, text));
            }
        };
        let compression = match self.compress {
            Compress::None => Compression::None,
            // The levels that both libraries have for "as usual".
            Compress::Zstd => Compression::Zstd(3),
            Compress::Lz4 => Compression::Lz4(0),
        };
        let output = Output::new(path, self.force)?;
        let make =
            |profile: &str| Ok(Target::new(output.create(profile, compression)?, self.chunk_size));
        let target = copy::files(&files, make, &Choice::ALL)?;
        target.keep(output, common)
    }
}

fn chunk_size(text: &str) -> Result<u64, String> {
    match size::with_unit(text, 1)? {
        bytes if bytes <= MAX_CHUNK => Ok(bytes),
        _ => Err(format!("a chunk has at most {} bytes", count(MAX_CHUNK))),
    }
}

/// Prints each message of a file as a line.
fn print_lines(reader: &mut outlive_mcap::Reader) -> Result<(), Failure> {
    loop {
        // The lines that one call prints are flushed together.
        let mut failed = None;
        let mut ended = false;
        print(|out| {
            for _ in 0..1000 {
                match reader.next() {
                    Ok(Some(Item::Message(message))) => writeln!(out, "{}", line(&message))?,
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        ended = true;
                        break;
                    }
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            Ok(())
        })?;
        match failed {
            Some(error) => return Err(error.into()),
            None if ended => return Ok(()),
            None => {}
        }
    }
}

fn line(message: &Message<'_>) -> Value {
    let Message { channel, header, data, .. } = message;
    let mut line = json!({"topic": channel.topic, "sequence": header.sequence,
        "log_time": header.log_time, "publish_time": header.publish_time,
        "encoding": channel.message_encoding});
    match serde_json::from_slice::<Value>(data) {
        Ok(value) if channel.message_encoding == "json" => line["data"] = value,
        _ => match std::str::from_utf8(data) {
            Ok(text) if channel.message_encoding.is_empty() && !text.contains('\0') => {
                line["text"] = text.into();
            }
            _ => {
                let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                line["hex"] = hex.into();
            }
        },
    }
    line
}
