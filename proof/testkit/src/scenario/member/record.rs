//! Orders about recorders of one topic, into a file of its name beside the domain.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive_mcap::{Item, Reader};
use outlive_record::{Options, Recorder, Split};

use crate::message::Stamp;

/// The name of all recorders.
const NAME: &str = "recorder";
/// Longer than any round.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Longer than a topic is set aside.
const ASIDE: Duration = Duration::from_millis(1_200);

/// Where the recording of a topic lies. One that is split has numbers behind the name.
#[must_use]
pub fn file(domain: &Path, topic: &str) -> PathBuf {
    domain.with_file_name(format!("{topic}.mcap"))
}

/// Begins to record that topic, or goes on.
///
/// # Errors
/// What starting says.
pub fn start(
    domain: &Domain,
    folder: &Path,
    topic: &str,
    is_split: bool,
) -> Result<Recorder, String> {
    let wanted = topic.to_owned();
    let options = Options {
        wanted: Box::new(move |name| name == wanted),
        name: Some(NAME.to_owned()),
        patience: PATIENCE,
        resume: true,
        split: Split { bytes: is_split.then_some(1), ..Split::default() },
        // Groups are written on request.
        flush: PATIENCE,
        ..Options::new(file(folder, topic))
    };
    Recorder::start(domain, options).map_err(|error| error.to_string())
}

/// Takes what is there. A topic that the system refuses is set aside for a second, and then taken from again.
///
/// # Errors
/// What the recorder says.
pub fn take(recorder: &mut Recorder) -> Result<(), String> {
    recorder.step(Instant::now()).map_err(|error| error.to_string())?;
    if recorder.counts().refused > 0 {
        std::thread::sleep(ASIDE);
        for _ in 0..2 {
            recorder.step(Instant::now()).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// What has been recorded of a topic, in the order of the files.
fn recorded(folder: &Path, topic: &str, is_split: bool) -> Result<Vec<Stamp>, String> {
    let numbered = |number| folder.with_file_name(format!("{topic}_{number}.mcap"));
    let files: Vec<PathBuf> = match is_split {
        true => (0..).map(numbered).take_while(|file| file.exists()).collect(),
        false => vec![file(folder, topic)],
    };
    let mut stamps = Vec::new();
    for file in files {
        let mut reader = Reader::open(&file).map_err(|error| error.to_string())?;
        while let Some(item) = reader.next().map_err(|error| error.to_string())? {
            if let Item::Message(message) = item
                && message.channel.topic == topic
            {
                stamps.push(Stamp::of(message.data)?);
            }
        }
        if !reader.is_whole() {
            return Err(format!("{} has no index", file.display()));
        }
    }
    Ok(stamps)
}

/// A survivor's recorders, by topic.
#[derive(Default)]
pub struct Recorders {
    running: BTreeMap<String, Recorder>,
}

impl Recorders {
    /// Carries an order out.
    ///
    /// # Errors
    /// Why it could not.
    pub fn obey(
        &mut self,
        domain: &Domain,
        folder: &Path,
        order: &[&str],
    ) -> Result<String, String> {
        match order {
            // Begins, and takes what is there.
            ["start", topic, split] => {
                let recorder = start(domain, folder, topic, *split == "split")?;
                self.running.insert((*topic).to_owned(), recorder);
                Ok(String::new())
            }
            ["take", topic] => {
                let recorder = self.running.get_mut(*topic).ok_or("it records no such topic")?;
                take(recorder).map(|()| String::new())
            }
            // Ends in order.
            ["finish", topic] => {
                let recorder = self.running.remove(*topic).ok_or("it records no such topic")?;
                let counts = recorder.finish().map_err(|error| error.to_string())?;
                Ok(counts.messages.to_string())
            }
            // A part of a group, as a recorder leaves it that is killed in its system call.
            ["tear", topic] => {
                let file = OpenOptions::new().append(true).open(file(folder, topic));
                let mut torn = vec![6];
                torn.extend_from_slice(&1_000_u64.to_le_bytes());
                torn.extend_from_slice(&[7; 500]);
                let written = file.and_then(|mut file| file.write_all(&torn));
                written.map(|()| String::new()).map_err(|error| error.to_string())
            }
            ["list", topic, split] => {
                let stamps = recorded(folder, topic, *split == "split")?;
                let words = stamps.iter().map(|stamp| format!("{}:{}", stamp.sender, stamp.number));
                Ok(words.collect::<Vec<_>>().join(" "))
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
