//! A domain, a running recorder, and what is in its files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive::topic::{Publisher, Topic};
use outlive_mcap::{Item, Reader};

/// Longer than anything takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

/// A domain and a folder of its own.
pub struct Place {
    pub folder: PathBuf,
    pub domain: Domain,
}

impl Place {
    pub fn new(name: &str) -> Place {
        // Two tests may have the same idea of a name.
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("outlive-record-{name}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("made");
        let domain = Domain::open_or_create_at(folder.join("domain")).expect("made");
        Place { folder, domain }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The command line of a recorder of this domain.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-record"));
        command.args(["--domain", self.domain.path().to_str().expect("text")]).args(args);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// The command line of a player in this domain.
    pub fn player(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-replay"));
        command.args(["--domain", self.domain.path().to_str().expect("text")]).args(args);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// Plays to the end; returns what it told at last.
    pub fn replay(&self, args: &[&str]) -> serde_json::Value {
        let output = self.player(args).arg("--json").output().expect("starts");
        let told = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
        let last = told.lines().last().expect("it tells how it ended");
        serde_json::from_str(last).expect("JSON")
    }

    /// Starts a recorder, and returns when it records so many topics.
    pub fn record(&self, args: &[&str], topics: usize) -> Recording {
        let recording = Recording(self.command(args).spawn().expect("starts"));
        let is_there = || {
            let subscribers = self.subscribers(recording.0.id());
            subscribers >= topics
        };
        assert!(eventually(is_there), "it records {topics} topics");
        recording
    }

    /// Starts a recorder into that file, and returns when it has looked for topics.
    pub fn begin(&self, args: &[&str], file: &str) -> Recording {
        let recording = self.record(args, 0);
        let begun = || {
            let bytes = std::fs::read(self.file(file)).unwrap_or_default();
            bytes.windows(9).any(|bytes| bytes == b"\"started\"")
        };
        assert!(eventually(begun), "it begins");
        recording
    }

    /// Tells a recorder what to do; returns what it said, or the exit code.
    pub fn tell(&self, args: &[&str]) -> Result<serde_json::Value, i32> {
        let output = self.command(args).arg("--json").output().expect("starts");
        match output.status.code() {
            Some(0) => Ok(serde_json::from_slice(&output.stdout).expect("one line of JSON")),
            code => Err(code.expect("no signal")),
        }
    }

    /// The files in the folder that are called so, in order.
    pub fn files(&self, start: &str) -> Vec<PathBuf> {
        let names = std::fs::read_dir(&self.folder).expect("there").flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(start)).collect();
        names.sort();
        names.iter().map(|name| self.file(name)).collect()
    }

    /// How many topics that process subscribes to.
    pub fn subscribers(&self, pid: u32) -> usize {
        let names = self.domain.contents().expect("readable").names;
        let topics = names
            .iter()
            .filter_map(|name| outlive::topic::Topic::open_as_bytes(&self.domain, name).ok());
        topics.filter(|topic| topic.subscribers().iter().any(|one| one.pid == pid)).count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A recorder that runs; killed if the test fails.
pub struct Recording(pub Child);

impl Recording {
    /// Ends it in order.
    pub fn end(mut self) {
        signal(&self.0, libc::SIGTERM);
        let status = self.wait();
        assert!(status.success(), "{status}");
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        let mut status = None;
        assert!(eventually(|| {
            status = self.0.try_wait().expect("a child");
            status.is_some()
        }));
        status.expect("it has ended")
    }

    pub fn kill(&mut self) {
        self.0.kill().expect("its own child");
        self.0.wait().expect("a child");
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn signal(child: &Child, signal: i32) {
    // SAFETY: a child that has not been waited for: its number is its own.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// Stops a process, and waits until all its threads are stopped.
pub fn stop(child: &Child) {
    signal(child, libc::SIGSTOP);
    await_stop(child.id());
}

/// Waits until all threads of a child are stopped that was sent SIGSTOP.
pub fn await_stop(pid: u32) {
    let threads = format!("/proc/{pid}/task");
    let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = thread.and_then(|thread| std::fs::read_to_string(thread.path().join("stat")));
        // A thread that has ended meanwhile does nothing any more.
        stat.map_or(true, |stat| stat.contains(") T "))
    };
    let are_stopped = || std::fs::read_dir(&threads).expect("its own child").all(is_stopped);
    assert!(eventually(are_stopped), "it does not stop");
}

pub fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + LONG;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A message in a file.
pub struct Recorded {
    pub sequence: u32,
    pub bytes: Vec<u8>,
}

/// A topic in a file.
#[derive(Default)]
pub struct Channel {
    pub encoding: String,
    pub schema: Option<(String, String, String)>,
    pub metadata: BTreeMap<String, String>,
    pub messages: Vec<Recorded>,
}

/// What is in a file.
pub struct Contents {
    pub topics: BTreeMap<String, Channel>,
    pub is_whole: bool,
}

impl Contents {
    /// A file that has not even its beginning yet has nothing: a recorder makes it, then writes.
    pub fn of(path: &Path) -> Contents {
        let mut topics = BTreeMap::<String, Channel>::new();
        let mut reader = match Reader::open(path) {
            Ok(reader) => reader,
            Err(outlive_mcap::Error::Cut { .. }) => return Contents { topics, is_whole: false },
            Err(error) => panic!("{}: {error}", path.display()),
        };
        loop {
            match reader.next() {
                Ok(None) => break,
                Ok(Some(Item::Message(message))) => {
                    let topic = topics.entry(message.channel.topic.clone()).or_default();
                    let (sequence, bytes) = (message.header.sequence, message.data.to_vec());
                    topic.messages.push(Recorded { sequence, bytes });
                }
                Ok(Some(Item::Channel(channel))) => {
                    let topic = topics.entry(channel.topic.clone()).or_default();
                    topic.encoding.clone_from(&channel.message_encoding);
                    topic.metadata.clone_from(&channel.metadata);
                    let id = channel.schema_id;
                    topic.schema = reader.schema(id).map(|schema| {
                        let text = String::from_utf8(schema.data.clone()).expect("text");
                        (schema.header.name.clone(), schema.header.encoding.clone(), text)
                    });
                }
                Ok(Some(_)) => {}
                Err(outlive_mcap::Error::Cut { .. }) => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
        Contents { topics, is_whole: reader.is_whole() }
    }

    pub fn messages(&self, topic: &str) -> &[Recorded] {
        self.topics.get(topic).map_or(&[], |topic| &topic.messages)
    }

    /// What the recorder told, of that kind.
    pub fn events(&self, kind: &str) -> Vec<serde_json::Value> {
        let lines = self.messages(outlive_record::EVENTS).iter();
        let lines = lines.map(|line| serde_json::from_slice(&line.bytes).expect("JSON"));
        lines.filter(|line: &serde_json::Value| line["event"] == kind).collect()
    }
}

/// A message that names its number, of so many bytes.
pub fn message(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; len.max(8)];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The number of a message, which must be whole.
pub fn number(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    assert!(bytes[8..].iter().all(|&byte| byte == number as u8), "message {number} is torn");
    number
}

/// A topic that offers reliable delivery, of a small depth.
pub fn topic(place: &Place, name: &str) -> Topic<[u8]> {
    let topic = Topic::<[u8]>::options().depth(16).reliable(true);
    topic.open_or_create(&place.domain, name).expect("made")
}

/// Publishes messages that name these numbers.
pub fn publish(publisher: &Publisher, numbers: Range<u64>) {
    for at in numbers {
        publisher.publish(&message(at, 64)).map(drop).expect("published");
    }
}

/// The numbers of a channel's messages.
pub fn numbers(contents: &Contents, channel: &str) -> Vec<u64> {
    contents.messages(channel).iter().map(|found| number(&found.bytes)).collect()
}

/// How many the events of that kind count of a channel.
pub fn told(contents: &Contents, kind: &str, channel: &str) -> u64 {
    let events = contents.events(kind);
    let own = events.iter().filter(|event| event["topic"] == channel);
    own.map(|event| event["count"].as_u64().expect("a number")).sum()
}

/// Waits until the file has a message of that number.
pub fn has(place: &Place, file: &str, channel: &str, last: u64) {
    let is_there = || {
        let path = place.file(file);
        path.metadata().is_ok_and(|file| file.len() > 500)
            && numbers(&Contents::of(&path), channel).last() == Some(&last)
    };
    assert!(eventually(is_there), "{last} is in {file}");
}

/// Waits until the recorder `rec` answers: it has begun.
pub fn serves(place: &Place) {
    assert!(eventually(|| place.tell(&["status", "--as", "rec"]).is_ok()), "it serves");
}
