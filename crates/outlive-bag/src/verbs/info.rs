//! `outlive bag info`: what is in a file.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use outlive_mcap::{Holder, Index, holder_of};
use outlive_program::date;
use outlive_program::figures::{bytes, count, counted};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::files::FilesArgs;
use crate::survey::{Packed, Survey, Topic};
use crate::{Common, each_of, print};

/// Show what is in files: topics, counts, rates, sizes, losses, deaths
///
/// info reads each file to its end, so its figures do not depend on the index. The recorder's own events count neither
/// as messages nor in the duration. If a file cannot be read, info goes on with the next; the exit code is the greatest
/// of all files. Damaged parts are counted and skipped, with exit code 0; 'outlive bag check' returns 1 for them.
#[derive(Args, Debug)]
#[command(
    after_long_help = "Examples:\n  outlive bag info drive.mcap\n  outlive bag info --json night_*.mcap"
)]
pub struct InfoArgs {
    #[command(flatten)]
    files: FilesArgs,
}

impl InfoArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let files = self.files.all();
        let mut sums = Sums::default();
        let shown = each_of(&files, |file| {
            self.files.look_for(file)?;
            self.show(file, &mut sums, common)
        });
        if files.len() > 1 && sums.files > 1 && !common.json {
            print(|out| writeln!(out, "\n{sums}"))?;
        }
        shown
    }

    fn show(&self, path: &Path, sums: &mut Sums, common: &Common) -> Result<(), Failure> {
        // First: a writer that ends meanwhile leaves a finished file.
        let holder = holder_of(path);
        let survey = Survey::read(path)?;
        // A part of an index may be there, if the writer died while it was finishing.
        let finished = survey.whole && !matches!(Index::read(path), Ok(None));
        let holder = holder.filter(|_| !finished);
        match common.json {
            true => print(|out| {
                let mut value = value(path, &survey, finished);
                value["writer"] = holder.filter(|holder| holder.writes).map(|one| one.pid).into();
                value["locked_by"] = holder.map(|holder| holder.pid).into();
                writeln!(out, "{value}")
            }),
            false => print(|out| {
                if sums.files > 0 {
                    writeln!(out)?;
                }
                sums.add(&survey);
                write(out, path, &survey, finished, holder)
            }),
        }
    }
}

/// What several files hold together.
#[derive(Debug, Default)]
struct Sums {
    files: u64,
    bytes: u64,
    messages: u64,
    lost: u64,
    times: Option<(u64, u64)>,
}

impl Sums {
    fn add(&mut self, survey: &Survey) {
        self.files += 1;
        self.bytes += survey.bytes;
        self.messages += survey.messages();
        self.lost = self.lost.saturating_add(survey.lost);
        let times = [self.times, survey.times()].into_iter().flatten();
        self.times = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, messages) = (counted(self.files, "file"), counted(self.messages, "message"));
        let (size, lost) = (bytes(self.bytes), count(self.lost));
        write!(f, "together:     {files}, {size}; {messages}, {lost} lost")?;
        match self.times {
            Some((first, last)) => write!(f, "; {}", span(last - first)),
            None => Ok(()),
        }
    }
}

fn seconds_of((first, last): (u64, u64)) -> f64 {
    (last - first) as f64 / 1e9
}

/// Returns all of it for a program.
fn value(path: &Path, survey: &Survey, finished: bool) -> Value {
    let topics: Vec<_> = survey
        .together()
        .iter()
        .map(|topic| {
            let (first, last) = topic.times.unzip();
            json!({"topic": topic.name, "schema": topic.schema,
                "schema_encoding": topic.schema_encoding, "encoding": topic.encoding,
                "array": topic.array, "messages": topic.messages, "bytes": topic.bytes,
                "first_ns": first, "last_ns": last, "hz": rate(topic.messages, topic.times)})
        })
        .collect();
    let ways: serde_json::Map<_, _> = survey
        .chunks
        .iter()
        .map(|(way, packed)| {
            let Packed { chunks, bytes, unpacked, .. } = packed;
            let value = json!({"chunks": chunks, "bytes": bytes, "unpacked_bytes": unpacked});
            (way_of(way).to_owned(), value)
        })
        .collect();
    let (header, (first, last)) = (survey.header.as_ref(), survey.times().unzip());
    json!({"file": path.to_string_lossy(), "bytes": survey.bytes,
        "profile": header.map(|header| &header.profile),
        "library": header.map(|header| &header.library),
        "finished": finished, "messages": survey.messages(), "events": survey.events(), "first_ns": first, "last_ns": last,
        "start": first.and_then(date::local), "end": last.and_then(date::local),
        "seconds": survey.times().map(seconds_of), "lost": survey.lost, "skipped": survey.skipped, "deaths": survey.deaths,
        "faults": faults(survey), "attachments": survey.attachments, "metadata": survey.metadata,
        "chunks": survey.chunks().0,
        "compression": ways, "topics": topics})
}

/// Writes all of it for a person.
/// `holder`: the process that has it locked.
fn write(
    out: &mut dyn Write,
    path: &Path,
    survey: &Survey,
    finished: bool,
    holder: Option<Holder>,
) -> io::Result<()> {
    let mut line = |name: &str, text: &dyn Display| writeln!(out, "{name:<13} {text}");
    line("file:", &path.to_string_lossy().escape_debug())?;
    if let Some(header) = &survey.header {
        let named = |text: &str| match text {
            "" => "not said".to_owned(),
            text => text.escape_debug().to_string(),
        };
        line("library:", &named(&header.library))?;
        line("profile:", &named(&header.profile))?;
    }
    line("size:", &sized(survey.bytes))?;
    match (finished, holder) {
        (true, _) => line("state:", &"finished")?,
        (false, Some(holder)) if holder.writes => line("state:", &format_args!("{holder} it"))?,
        (false, Some(holder)) => line("state:", &format_args!("not finished; {holder} it"))?,
        (false, None) => line("state:", &"not finished ('outlive bag recover --in-place')")?,
    }
    let skipped = match survey.skipped {
        0 => String::new(),
        skipped => format!(", {} skipped", count(skipped)),
    };
    let messages = count(survey.messages());
    line("messages:", &format_args!("{messages}, {} lost{skipped}", count(survey.lost)))?;
    if survey.events() > 0 {
        line("events:", &format_args!("{} of the recorder", count(survey.events())))?;
    }
    if survey.deaths > 0 {
        line("deaths:", &counted(survey.deaths, "publisher"))?;
    }
    if let Some((first, last)) = survey.times() {
        line("duration:", &span(last - first))?;
        for (name, time) in [("start:", first), ("end:", last)] {
            let seconds = date::seconds(time);
            match date::local(time) {
                Some(date) => line(name, &format_args!("{date} ({seconds})"))?,
                None => line(name, &seconds)?,
            }
        }
    }
    line("chunks:", &chunks(survey))?;
    if !survey.metadata.is_empty() {
        let each = survey.metadata.iter();
        let each = each.map(|(name, number)| format!("{} {}", count(*number), name.escape_debug()));
        line("metadata:", &each.collect::<Vec<_>>().join(", "))?;
    }
    if survey.attachments > 0 {
        line("attachments:", &count(survey.attachments))?;
    }
    let faults = faults(survey);
    if faults > 0 {
        line("faults:", &format_args!("{}: 'outlive bag check' tells", count(faults)))?;
    }
    let topics = survey.together();
    line("topics:", &count(topics.len() as u64))?;
    table(out, &topics)
}

/// Writes a line for each topic, in columns.
fn table(out: &mut dyn Write, topics: &[Topic]) -> io::Result<()> {
    if topics.is_empty() {
        return Ok(());
    }
    let headings = ["TOPIC", "MESSAGES", "RATE", "SIZE", "PAYLOAD"].map(str::to_owned);
    let rows = topics.iter().map(|topic| {
        let hz = rate(topic.messages, topic.times);
        [
            topic.name.escape_debug().to_string(),
            count(topic.messages),
            hz.map_or_else(|| "-".to_owned(), |hz| format!("{hz:.1} Hz")),
            bytes(topic.bytes),
            what(topic),
        ]
    });
    let rows: Vec<[String; 5]> = std::iter::once(headings).chain(rows).collect();
    // One name that is very long does not make all lines so.
    let longest = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(|at| longest(at).min(60));
    for [name, messages, hz, size, what] in &rows {
        let [own, of_messages, of_hz, of_size] = widths;
        write!(out, "  {name:<own$}  {messages:>of_messages$}  {hz:>of_hz$}  {size:>of_size$}")?;
        writeln!(out, "  {what}")?;
    }
    Ok(())
}

/// Returns what the messages of a topic are.
fn what(topic: &Topic) -> String {
    let encoding = topic.encoding.escape_debug();
    match (&*topic.schema, &*topic.schema_encoding, &topic.array) {
        ("", _, Some(array)) => array.escape_debug().to_string(),
        ("", ..) if topic.encoding.is_empty() => "bytes".to_owned(),
        ("", ..) => encoding.to_string(),
        (schema, "", _) => format!("{} ({encoding})", schema.escape_debug()),
        (schema, of, _) => {
            format!("{} [{}] ({encoding})", schema.escape_debug(), of.escape_debug())
        }
    }
}

/// Returns the chunks of each way of compression, and what it saves.
fn chunks(survey: &Survey) -> String {
    let (total, _) = survey.chunks();
    let ways = survey.chunks.iter().map(|(way, packed)| {
        let of = if survey.chunks.len() > 1 {
            format!("{} of them ", count(packed.chunks))
        } else {
            String::new()
        };
        if way.is_empty() {
            return format!("{of}not compressed, {}", bytes(packed.bytes));
        }
        let ratio = match packed.unpacked {
            0 => String::new(),
            all => format!(" ({:.1} %)", packed.bytes as f64 / all as f64 * 100.0),
        };
        let (packed, all) = (bytes(packed.bytes), bytes(packed.unpacked));
        format!("{of}{}, {all} in {packed}{ratio}", way_of(way).escape_debug())
    });
    let ways: Vec<String> = ways.collect();
    match total {
        0 => "none".to_owned(),
        _ => format!("{}; {}", count(total), ways.join("; ")),
    }
}

fn way_of(way: &str) -> &str {
    if way.is_empty() { "none" } else { way }
}

fn faults(survey: &Survey) -> u64 {
    survey.faults.len() as u64 + survey.more_faults
}

/// Returns a size for a person and for a program.
fn sized(size: u64) -> String {
    match size {
        0..1024 => counted(size, "byte"),
        _ => format!("{} ({})", bytes(size), counted(size, "byte")),
    }
}

/// Returns a duration as `--start` takes it.
pub fn span(nanoseconds: u64) -> String {
    let (minutes, rest) = (nanoseconds / 60_000_000_000, nanoseconds % 60_000_000_000);
    let seconds = format!("{}.{:03}s", rest / 1_000_000_000, rest / 1_000_000 % 1_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

fn rate(messages: u64, times: Option<(u64, u64)>) -> Option<f64> {
    let (first, last) = times.filter(|(first, last)| last > first)?;
    Some((messages - 1) as f64 / ((last - first) as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_a_person() {
        assert_eq!(span(0), "0.000s");
        assert_eq!(span(3_900_000_000), "3.900s");
        assert_eq!(span(59_999_999_999), "59.999s");
        assert_eq!(span(3_723_004_000_000), "1h2m3.004s");
        assert_eq!(span(60_000_000_000), "1m0.000s");
        assert!(span(u64::MAX).starts_with("5124095h"));
        assert_eq!(sized(1), "1 byte");
        assert_eq!(sized(2 << 20), "2.0 MiB (2,097,152 bytes)");
        // As one at each end of all time: no rate that is infinite.
        assert_eq!(rate(2, Some((7, 7))), None);
        assert!(rate(2, Some((0, u64::MAX))).is_some_and(|hz| hz > 0.0));
        let topic = |schema: &str, of: &str, encoding: &str, array: Option<&str>| {
            what(&Topic {
                schema: schema.to_owned(),
                schema_encoding: of.to_owned(),
                encoding: encoding.to_owned(),
                array: array.map(str::to_owned),
                ..Topic::default()
            })
        };
        assert_eq!(topic("", "", "", None), "bytes");
        assert_eq!(topic("", "", "json", None), "json");
        assert_eq!(topic("", "", "", Some("array <f4 [-1,3]")), "array <f4 [-1,3]");
        assert_eq!(topic("a/b", "ros2msg", "cdr", None), "a/b [ros2msg] (cdr)");
        assert_eq!(topic("a/b", "", "cdr", None), "a/b (cdr)");
    }
}
