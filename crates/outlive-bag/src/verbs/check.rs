//! `outlive bag check`: each fault of a file, with its place.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::path::Path;

use clap::Args;
use outlive_mcap::{Channel, Error, Index, Statistics, holder_of};
use outlive_program::figures::{count, counted};
use serde_json::json;

use crate::exit::{Code, Failure};
use crate::fault::{self, Fault, Faults};
use crate::files::FilesArgs;
use crate::records::{CHUNK, DATA_END, Records};
use crate::survey::Survey;
use crate::{Common, each_of, indexes, print};

/// Check files: their records, chunks, checksums and indexes
///
/// Each line is a fault, with the byte at which the damaged part begins, and with the file's name if there are several
/// files. Like faults of one topic share a line, with their count. After 1,000 faults of a file, only their number is
/// printed. An unfinished file is a fault, too. Changed bits in a chunk without a checksum do not show; the last line
/// says how many such chunks there are. The exit code is 0 if there is no fault, and 1 if there is one; of several
/// files' codes the greatest.
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
        let (mut chunks, mut unverified) = (0, 0);
        each_of(&files, |file| {
            self.files.look_for(file)?;
            let checked = check(file, files.len() > 1, common)?;
            (chunks, unverified) = (chunks + checked.0, unverified + checked.1);
            Ok(())
        })?;
        if common.json {
            return Ok(());
        }
        print(|out| {
            writeln!(out, "no fault in {}", counted(files.len() as u64, "file"))?;
            match unverified_text(chunks, unverified) {
                Some(text) => writeln!(out, "{text}"),
                None => Ok(()),
            }
        })
    }
}

/// Says how much could not be verified, if there is some.
fn unverified_text(chunks: u64, unverified: u64) -> Option<String> {
    let which = match unverified {
        0 => return None,
        all if all == chunks => counted(all, "chunk"),
        some => format!("{} of {}", count(some), counted(chunks, "chunk")),
    };
    let has = if unverified == 1 { "has" } else { "have" };
    Some(format!("{which} {has} no checksum: changed bits in messages there do not show"))
}

/// Checks a file, and returns how many chunks it has, and how many of them have no checksum. `is_named`: each fault is
/// told with its file's name.
fn check(path: &Path, is_named: bool, common: &Common) -> Result<(u64, u64), Failure> {
    // First: a writer that ends meanwhile leaves a finished file.
    let holder = holder_of(path);
    let writer = holder.filter(|holder| holder.writes);
    let survey = Survey::read(path)?;
    let mut faults = Faults::default();
    // One that is being written ends in what is being written now.
    let is_told = |error: &&Error| !matches!(error, Error::Cut { .. }) || writer.is_none();
    survey.faults.iter().filter(is_told).for_each(|error| faults.add(|| Fault::from(error)));
    faults.add_more(survey.more_faults);
    match (survey.whole, holder) {
        (true, _) => {
            check_index(path, &survey, &mut faults)?;
            indexes::compare(path, &survey.definitions, &mut faults)?;
        }
        (false, Some(holder)) => {
            let text = match holder.writes {
                true => format!("{holder} the file: it gets its index at the end"),
                false => {
                    format!("the file is not finished, and {holder} it: wait until that has ended")
                }
            };
            faults.add(|| Fault::of_file(text));
            if !holder.writes && survey.header.is_some() {
                indexes::compare(path, &survey.definitions, &mut faults)?;
            }
        }
        (false, None) => {
            let text = "the file is not finished: it has no index, and 'outlive bag recover --in-place' writes one";
            faults.add(|| Fault::of_file(text));
            // Without it nothing else is there.
            if survey.header.is_some() {
                indexes::compare(path, &survey.definitions, &mut faults)?;
            }
        }
    }
    let name = path.to_string_lossy();
    let (chunks, unverified) = survey.chunks();
    print(|out| {
        if common.json {
            let rest = faults.rest().map(Fault::of_file);
            for Fault { offset, text } in faults.kept().iter().chain(&rest) {
                writeln!(out, "{}", json!({"file": name, "offset": offset, "fault": text}))?;
            }
            let sum = json!({"file": name, "faults": faults.count(), "chunks": chunks,
                "unverified_chunks": unverified});
            return writeln!(out, "{sum}");
        }
        for line in fault::lines(faults.kept()).into_iter().chain(faults.rest()) {
            match is_named {
                false => writeln!(out, "{line}")?,
                true => writeln!(out, "{name}: {line}")?,
            }
        }
        match unverified_text(chunks, unverified) {
            // Without a fault it is said once for all files.
            Some(text) if faults.count() > 0 && is_named => writeln!(out, "{name}: {text}"),
            Some(text) if faults.count() > 0 => writeln!(out, "{text}"),
            _ => Ok(()),
        }
    })?;
    if faults.count() == 0 {
        return Ok((chunks, unverified));
    }
    let text = format!("{} in {name}", counted(faults.count(), "fault"));
    Err(Failure::new(Code::CheckFailed, text))
}

/// Compares the channels that the index repeats with those of the data: what reads a file by its index takes a message
/// for one of the topic that the index names. A channel without messages may be in the index alone.
fn check_channels(index: &Index, survey: &Survey, faults: &mut Faults) {
    let mut said: BTreeMap<u16, &Channel> =
        index.channels().map(|channel| (channel.id, channel)).collect();
    if said.is_empty() {
        return;
    }
    let mut schemas = BTreeSet::new();
    for there in survey.definitions.channels() {
        let (id, name) = (there.id, || fault::name(&there.topic));
        let schema = survey.definitions.schema(there.schema_id);
        let Some(channel) = said.remove(&id) else {
            // One without messages may be left out.
            if survey.topics.get(&id).is_some_and(|topic| topic.messages > 0) {
                faults.add(|| {
                    Fault::of_file(format!("the index lacks the channel {id}, {}", name()))
                });
            }
            continue;
        };
        if channel.topic != there.topic {
            faults.add(|| {
                let said = fault::name(&channel.topic);
                Fault::of_file(format!(
                    "the index calls the channel {id} {said}, and the data {}",
                    name()
                ))
            });
        } else if channel != there {
            faults.add(|| {
                let text = format!(
                    "the index has the channel {id}, {}, with another schema, encoding or metadata than the data",
                    name()
                );
                Fault::of_file(text)
            });
        } else if let (Some(said), Some(schema)) = (index.schema(there.schema_id), schema)
            && said != schema
            && schemas.insert(there.schema_id)
        {
            faults.add(|| {
                let name = fault::name(&schema.header.name);
                let id = there.schema_id;
                Fault::of_file(format!("the index has another schema {id}, {name}, than the data"))
            });
        }
    }
}

/// Compares times and counts. Of a file with damaged parts they cannot be known.
fn check_statistics(statistics: &Statistics, survey: &Survey, faults: &mut Faults) {
    if !survey.faults.is_empty() {
        return;
    }
    let said = (statistics.message_start_time, statistics.message_end_time);
    let there = survey.all_times().unwrap_or((0, 0));
    if said != there {
        faults.add(|| {
            Fault::of_file(format!("the index says {}", indexes::other_times(said, there)))
        });
    }
    let (chunks, metadata) = (survey.chunks().0, survey.metadata.values().sum());
    for (what, said, there) in [
        ("chunk", statistics.chunk_count, chunks),
        ("attachment", statistics.attachment_count, survey.attachments),
        ("metadata record", statistics.metadata_count, metadata),
    ] {
        if u64::from(said) != there {
            faults.add(|| {
                let said = counted(u64::from(said), what);
                Fault::of_file(format!("the index counts {said}, and {there} are there"))
            });
        }
    }
}

/// Compares the checksum of all that is before the file's index, which few writers make, with the bytes. The mcap crate
/// leaves chunks without a checksum out of this one, too, so it says nothing of a file that has some.
fn check_whole(path: &Path, faults: &mut Faults) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::system(format_args!("read {}", path.display()), &error);
    let mut records = Records::of(path)?;
    while let Some(place) = records.next()? {
        let mut said = [0; 4];
        if place.op != DATA_END || place.len < said.len() as u64 {
            continue;
        }
        records.file.read_exact_at(&mut said, place.body()).map_err(failed)?;
        let said = u32::from_le_bytes(said);
        if said == 0 {
            return Ok(());
        }
        let (mut sum, mut bytes) = (crc32fast::Hasher::new(), vec![0; 1 << 20]);
        let mut at = 0;
        while at < place.offset {
            let len = (place.offset - at).min(bytes.len() as u64) as usize;
            records.file.read_exact_at(&mut bytes[..len], at).map_err(failed)?;
            sum.update(&bytes[..len]);
            at += len as u64;
        }
        if sum.finalize() != said {
            let text = "the checksum at the end of the file's data is not that of the data";
            faults.add(|| Fault::at(place.offset, text.to_owned()));
        }
        return Ok(());
    }
    Ok(())
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
    check_channels(&index, survey, faults);
    if let Some(statistics) = &index.statistics {
        check_statistics(statistics, survey, faults);
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
    if survey.chunks().1 == 0 {
        check_whole(path, faults)?;
    }
    if index.statistics.is_none() && index.chunks.is_empty() && survey.chunks().0 > 0 {
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
