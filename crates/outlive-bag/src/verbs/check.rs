//! `outlive bag check`: each fault of a file, with its place.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use outlive_mcap::{Error, Index, writer_of};
use outlive_program::figures::counted;
use serde_json::json;

use crate::exit::{Code, Failure};
use crate::fault::{self, Fault, Faults};
use crate::files::FilesArgs;
use crate::records::{CHUNK, Records};
use crate::survey::Survey;
use crate::{Common, each_of, indexes, print};

/// Check files: their records, chunks, checksums and indexes
///
/// Each fault is a line, with the byte at which the damaged part begins; with several files, the file's name is
/// in front. Faults that differ by their numbers alone are one line. A file that is not finished is a fault, too. The exit code is 0 if there is none, and 1 if there is
/// one; of several files' codes the greatest.
#[derive(Args, Debug)]
#[command(
    after_long_help = "Examples:\n  outlive bag check drive.mcap\n  outlive bag check --json night_*.mcap"
)]
pub struct CheckArgs {
    #[command(flatten)]
    files: FilesArgs,
}

impl CheckArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let files = self.files.all();
        each_of(&files, |file| check(file, files.len() > 1, common))?;
        if common.json {
            return Ok(());
        }
        print(|out| writeln!(out, "no fault in {}", counted(files.len() as u64, "file")))
    }
}

/// `is_named`: each fault is told with its file's name.
fn check(path: &Path, is_named: bool, common: &Common) -> Result<(), Failure> {
    // First: a writer that ends meanwhile leaves a finished file.
    let writer = writer_of(path);
    let survey = Survey::read(path)?;
    let mut faults = Faults::default();
    // One that is being written ends in what is being written now.
    let is_told = |error: &&Error| !matches!(error, Error::Cut { .. }) || writer.is_none();
    survey.faults.iter().filter(is_told).for_each(|error| faults.add(|| Fault::from(error)));
    faults.add_more(survey.more_faults);
    match (survey.whole, writer) {
        (true, _) => {
            check_index(path, &survey, &mut faults)?;
            indexes::compare(path, &mut faults)?;
        }
        (false, Some(pid)) => {
            let text = format!("process {pid} writes the file: it gets its index at the end");
            faults.add(|| Fault::of_file(text));
        }
        (false, None) => {
            let text = "the file is not finished: it has no index, and 'outlive bag recover --in-place' writes one";
            faults.add(|| Fault::of_file(text));
            indexes::compare(path, &mut faults)?;
        }
    }
    let name = path.to_string_lossy();
    print(|out| {
        if common.json {
            let rest = faults.rest().map(Fault::of_file);
            for Fault { offset, text } in faults.kept().iter().chain(&rest) {
                writeln!(out, "{}", json!({"file": name, "offset": offset, "fault": text}))?;
            }
            return Ok(());
        }
        for line in fault::lines(faults.kept()).into_iter().chain(faults.rest()) {
            match is_named {
                false => writeln!(out, "{line}")?,
                true => writeln!(out, "{name}: {line}")?,
            }
        }
        Ok(())
    })?;
    if faults.count() == 0 {
        return Ok(());
    }
    let text = format!("{} in {name}", counted(faults.count(), "fault"));
    Err(Failure::new(Code::CheckFailed, text))
}

/// Compares the index with what was read.
fn check_index(path: &Path, survey: &Survey, faults: &mut Faults) -> Result<(), Failure> {
    let index = match Index::read(path) {
        Ok(Some(index)) => index,
        Ok(None) => Index::default(),
        Err(error @ Error::Io { .. }) => return Err(error.into()),
        Err(error) => {
            faults.add(|| Fault::from(&error));
            return Ok(());
        }
    };
    if let Some(statistics) = &index.statistics {
        let (said, there) = (statistics.message_count, survey.messages() + survey.events());
        if said != there {
            let text = format!("the index counts {said} messages, and {there} are there");
            faults.add(|| Fault::of_file(text));
        }
        for (id, topic) in &survey.topics {
            let said = statistics.channel_message_counts.get(id).copied().unwrap_or(0);
            if said != topic.messages && !statistics.channel_message_counts.is_empty() {
                faults.add(|| {
                    let (name, there) = (fault::name(&topic.name), topic.messages);
                    let text = format!(
                        "the index counts {said} messages of {name}, and {there} are there"
                    );
                    Fault::of_file(text)
                });
            }
        }
    }
    if index.statistics.is_none() && index.chunks.is_empty() {
        let text = "the file has no index: 'outlive bag recover FILE -o NEW' writes one";
        faults.add(|| Fault::of_file(text));
        return Ok(());
    }
    // A writer may leave out where its chunks are.
    if index.chunks.is_empty() {
        return Ok(());
    }
    let mut records = Records::of(path)?;
    let mut chunks = BTreeMap::new();
    while let Some(place) = records.next()? {
        if place.op == CHUNK {
            chunks.insert(place.offset, place.end() - place.offset);
        }
    }
    for (offset, len) in &chunks {
        if index.chunks.get(offset) != Some(len) {
            faults.add(|| {
                Fault::at(*offset, format!("the chunk at byte {offset} is not in the index"))
            });
        }
    }
    for offset in index.chunks.keys().filter(|offset| !chunks.contains_key(offset)) {
        faults.add(|| {
            Fault::at(*offset, format!("the index has a chunk at byte {offset}, where none is"))
        });
    }
    Ok(())
}
