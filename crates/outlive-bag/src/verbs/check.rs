//! `outlive bag check`: each fault of a file, with its place.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use outlive_mcap::{Error, Index, Scan, Step};
use outlive_program::figures::counted;
use serde_json::json;

use crate::exit::{Code, Failure};
use crate::files::FilesArgs;
use crate::survey::Survey;
use crate::{Common, each_of, print};

/// Check files: their records, chunks, checksums and indexes
///
/// Each fault is a line, with the byte at which the damaged part begins; with several files, the file's name is
/// in front. A file that is not finished is a fault, too. The exit code is 0 if there is none, and 1 if there is
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
        each_of(&files, |file| self.check(file, files.len() > 1, common))
    }

    /// `is_named`: each fault is told with its file's name.
    fn check(&self, path: &Path, is_named: bool, common: &Common) -> Result<(), Failure> {
        let survey = Survey::read(path)?;
        let mut faults: Vec<(Option<u64>, String)> = survey.faults.iter().map(place).collect();
        if survey.more_faults > 0 {
            faults.push((None, counted(survey.more_faults, "more fault")));
        }
        if survey.whole {
            check_index(path, &survey, &mut faults)?;
        } else {
            let text =
                "the file is not finished: it has no index, and 'outlive bag recover' writes one";
            faults.push((None, text.to_owned()));
        }
        let name = path.to_string_lossy();
        print(|out| {
            for (offset, fault) in &faults {
                match (common.json, is_named) {
                    (true, _) => {
                        let line = json!({"file": name, "offset": offset, "fault": fault});
                        writeln!(out, "{line}")?;
                    }
                    (false, false) => writeln!(out, "{fault}")?,
                    (false, true) => writeln!(out, "{name}: {fault}")?,
                }
            }
            Ok(())
        })?;
        if faults.is_empty() {
            return Ok(());
        }
        let text = format!("{} in {name}", counted(faults.len() as u64, "fault"));
        Err(Failure::new(Code::CheckFailed, text))
    }
}

fn place(error: &Error) -> (Option<u64>, String) {
    let offset = match error {
        Error::Damaged { offset, .. }
        | Error::Cut { offset }
        | Error::UnknownCompression { offset, .. } => Some(*offset),
        _ => None,
    };
    (offset, error.to_string())
}

/// Compares the index with what was read.
fn check_index(
    path: &Path,
    survey: &Survey,
    faults: &mut Vec<(Option<u64>, String)>,
) -> Result<(), Failure> {
    let index = match Index::read(path) {
        Ok(Some(index)) => index,
        Ok(None) => Index::default(),
        Err(error @ Error::Io { .. }) => return Err(error.into()),
        Err(error) => {
            faults.push(place(&error));
            return Ok(());
        }
    };
    if let Some(statistics) = &index.statistics {
        let (said, there) = (statistics.message_count, survey.messages() + survey.events());
        if said != there {
            faults.push((None, format!("the index counts {said} messages, and {there} are there")));
        }
        for (id, topic) in &survey.topics {
            let said = statistics.channel_message_counts.get(id).copied().unwrap_or(0);
            if said != topic.messages && !statistics.channel_message_counts.is_empty() {
                let (name, there) = (topic.name.escape_debug(), topic.messages);
                faults.push((
                    None,
                    format!("the index counts {said} messages of '{name}', and {there} are there"),
                ));
            }
        }
    }
    if index.statistics.is_none() && index.chunks.is_empty() {
        let text = "the file has no index: 'outlive bag recover' writes one";
        faults.push((None, text.to_owned()));
        return Ok(());
    }
    let file = File::open(path).map_err(|error| Failure::system("open the file", &error))?;
    let mut scan = Scan::new(&Arc::new(file), &path.into())?;
    let mut chunks = BTreeMap::new();
    while let Step::Record(place) = scan.step()? {
        if place.op == 0x06 {
            chunks.insert(place.offset, place.end() - place.offset);
        }
    }
    for (offset, len) in &chunks {
        if index.chunks.get(offset) != Some(len) {
            faults.push((Some(*offset), format!("the chunk at byte {offset} is not in the index")));
        }
    }
    for offset in index.chunks.keys().filter(|offset| !chunks.contains_key(offset)) {
        faults.push((
            Some(*offset),
            format!("the index has a chunk at byte {offset}, where none is"),
        ));
    }
    Ok(())
}
