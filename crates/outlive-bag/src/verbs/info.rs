//! `outlive bag info`: what is in a file.

use std::path::{Path, PathBuf};

use clap::Args;
use outlive_mcap::Index;
use outlive_program::figures::{count, counted};
use serde_json::json;

use crate::exit::Failure;
use crate::survey::Survey;
use crate::{Common, each_of, print};

/// Show what is in files: topics, counts, rates, sizes, losses, deaths
///
/// It reads all of a file, so what it says is so, whether the file has an index or not. A file that cannot be
/// read does not keep it from the next one; the exit code is then the greatest of the files' codes.
#[derive(Args, Debug)]
#[command(
    after_long_help = "Examples:\n  outlive bag info drive.mcap\n  outlive bag info --json night_*.mcap"
)]
pub struct InfoArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

impl InfoArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        each_of(&self.files, |file| self.show(file, common))
    }

    fn show(&self, path: &Path, common: &Common) -> Result<(), Failure> {
        let survey = Survey::read(path)?;
        // A part of an index may be there, if the writer died while it was finishing.
        let finished = survey.whole && !matches!(Index::read(path), Ok(None));
        let faults = survey.faults.len() as u64 + survey.more_faults;
        let seconds = |(first, last): (u64, u64)| (last - first) as f64 / 1e9;
        let times = survey.times();
        if common.json {
            let topics: Vec<_> = survey
                .together()
                .iter()
                .map(|topic| {
                    let (first, last) = topic.times.unzip();
                    json!({"topic": topic.name, "schema": topic.schema, "encoding": topic.encoding,
                    "messages": topic.messages, "bytes": topic.bytes, "first_ns": first,
                    "last_ns": last, "hz": rate(topic.messages, topic.times)})
                })
                .collect();
            let header = survey.header.as_ref();
            return print(|out| {
                let (first, last) = times.unzip();
                let line = json!({"file": path.to_string_lossy(), "bytes": survey.bytes,
                    "profile": header.map(|header| &header.profile),
                    "library": header.map(|header| &header.library),
                    "finished": finished, "messages": survey.messages(), "first_ns": first,
                    "last_ns": last, "seconds": times.map(seconds), "lost": survey.lost,
                    "deaths": survey.deaths, "faults": faults, "attachments": survey.attachments,
                    "metadata": survey.metadata, "topics": topics});
                writeln!(out, "{line}")
            });
        }
        print(|out| {
            if self.files.len() > 1 {
                writeln!(out, "{}:", path.to_string_lossy().escape_debug())?;
            }
            if let Some(header) = &survey.header {
                writeln!(
                    out,
                    "written by {}, profile '{}'",
                    header.library.escape_debug(),
                    header.profile.escape_debug()
                )?;
            }
            let finished = match finished {
                true => "finished",
                false => "not finished: its writer lives, or died ('outlive bag recover')",
            };
            writeln!(out, "{}, {finished}", counted(survey.bytes, "byte"))?;
            let duration = times.map_or(0.0, seconds);
            writeln!(
                out,
                "{} in {duration:.3} s, {} lost, {} died",
                counted(survey.messages(), "message"),
                count(survey.lost),
                counted(survey.deaths, "publisher")
            )?;
            if let Some((first, last)) = times {
                let at =
                    |time: u64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
                writeln!(out, "from {} to {}, seconds since 1970", at(first), at(last))?;
            }
            for topic in survey.together() {
                let hz = rate(topic.messages, topic.times);
                let hz = hz.map_or(String::new(), |hz| format!(", {hz:.1} Hz"));
                writeln!(
                    out,
                    "  {}: {}{hz}, {}, {} ({})",
                    topic.name.escape_debug(),
                    counted(topic.messages, "message"),
                    counted(topic.bytes, "byte"),
                    if topic.schema.is_empty() {
                        "no schema".into()
                    } else {
                        topic.schema.escape_debug().to_string()
                    },
                    if topic.encoding.is_empty() {
                        "no encoding".into()
                    } else {
                        topic.encoding.escape_debug().to_string()
                    }
                )?;
            }
            for (name, count) in &survey.metadata {
                writeln!(out, "  metadata {}: {count}", name.escape_debug())?;
            }
            if survey.attachments > 0 {
                writeln!(out, "  {}", counted(survey.attachments, "attachment"))?;
            }
            if faults > 0 {
                writeln!(out, "{}: 'outlive bag check' tells", counted(faults, "fault"))?;
            }
            Ok(())
        })
    }
}

fn rate(messages: u64, times: Option<(u64, u64)>) -> Option<f64> {
    let (first, last) = times.filter(|(first, last)| last > first)?;
    Some((messages - 1) as f64 / ((last - first) as f64 / 1e9))
}
