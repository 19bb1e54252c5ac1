//! The program, on files of ours and of others, whole and damaged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outlive_mcap::{Item, MessageHeader, Options, Positions, Reader, Scan, Step, Writer};
use serde_json::Value;

/// A folder of a test's own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("outlive-bag-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Returns the files that are there.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Each is looked at, whatever came of those before; the code is the greatest.
#[test]
fn info_and_check_take_several_files() {
    let folder = Folder::new();
    let (good, open, none) = (folder.file("a.mcap"), folder.file("b.mcap"), folder.file("c.mcap"));
    write(&good, ["x", "y"], 1, true);
    write(&open, ["x", "y"], 20, false);
    let said = expect(1, &["check", &good, &open, &good]);
    assert!(said.contains(&format!("{open}: the file is not finished")), "{said}");
    assert!(said.contains("1 fault in") && said.contains("1 of 3 files"), "{said}");
    assert_eq!(expect(0, &["check", &good, &good]), "no fault in 2 files\n");
    let line = format!(r#"{{"chunks":1,"faults":0,"file":"{good}","unverified_chunks":0}}"#);
    assert_eq!(expect(0, &["check", "--json", &good]), line + "\n");
    let said = expect(1, &["check", "--json", &good, &open]);
    let line: serde_json::Value =
        serde_json::from_str(said.lines().nth(1).expect("a line")).expect("JSON");
    assert_eq!((&line["file"], line["fault"].is_string()), (&open.as_str().into(), true));
    // One that is not there is no reason to leave the next one out.
    let said = expect(6, &["info", &none, &good, &open]);
    assert!(said.contains(&format!("file:         {good}\n")), "{said}");
    assert!(said.contains("messages:     20, 0 lost"), "{said}");
    assert!(said.contains("messages:     1, 0 lost\nduration:     0.000s\n"), "{said}");
    let [first, second] = [13, 13].map(|width| " ".repeat(width));
    assert!(said.contains("  TOPIC  MESSAGES  RATE  SIZE  PAYLOAD\n"), "{said}");
    let row = format!("  x{first}1     -   7 B  Drive [jsonschema] (json)\n");
    assert!(said.contains(&row), "{said}");
    assert!(said.contains(&format!("  y{second}0     -   0 B  Drive")), "{said}");
    assert!(
        said.contains("\n\ntogether:     2 files, ")
            && said.contains("; 21 messages, 0 lost; 1.900s"),
        "{said}"
    );
    assert!(said.contains("c.mcap") && said.contains("1 of 3 files"), "{said}");
    fs::write(&none, "no recording").expect("room");
    expect(8, &["check", &open, &none, &folder.file("d.mcap")]);
}

/// The latest time that there is, which other programs write where they know none.
#[test]
fn a_message_of_the_latest_time_is_copied() {
    let folder = Folder::new();
    let (from, to) = (folder.file("a.mcap"), folder.file("b.mcap"));
    let mut writer: Writer = Writer::create(&from, Options::default()).expect("made");
    let channel_id = writer.add_channel(0, "t", "", &BTreeMap::new()).expect("a channel");
    for time in [0, u64::MAX] {
        let header = MessageHeader { channel_id, sequence: 0, log_time: time, publish_time: time };
        writer.put(&header, b"x").expect("put");
    }
    writer.finish(&Positions::new()).expect("finished");
    for verb in
        [&["convert"][..], &["recover"], &["filter", "--topics", "t"], &["cut", "--start", "0s"]]
    {
        let said = expect(0, &[verb, &["--force", &from, "-o", &to]].concat());
        assert_eq!(said, "2 messages\n", "{verb:?}");
    }
}

fn bag(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outlive-bag")).args(words).output().expect("the program runs")
}

/// Runs the program, which ends with this code; returns what it printed.
fn expect(code: i32, words: &[&str]) -> String {
    let ran = bag(words);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(code), "{words:?}: {told}");
    assert_eq!(told.is_empty(), code == 0, "{words:?}: {told}");
    String::from_utf8_lossy(&ran.stdout).into_owned() + &told
}

/// Writes a file of ours: two topics, a message each 100 ms, groups of ten; returns after which byte
/// each group was whole.
fn write(path: &str, topics: [&str; 2], messages: u32, finish: bool) -> Vec<u64> {
    let mut writer: Writer = Writer::create(path, Options::default()).expect("a new file");
    let schema = writer.add_schema("Drive", "jsonschema", b"{}").expect("a schema");
    let ids = topics.map(|topic| {
        writer.add_channel(schema, topic, "json", &BTreeMap::new()).expect("a channel")
    });
    let mut ends = Vec::new();
    for sequence in 0..messages {
        let time = 1_700_000_000_000_000_000 + u64::from(sequence) * 100_000_000;
        let channel_id = ids[sequence as usize % 2];
        let header = MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
        writer.put(&header, format!("{{\"n\":{sequence}}}").as_bytes()).expect("room");
        if sequence % 10 == 9 {
            writer.flush(&Positions::from([("n".into(), sequence.to_string())])).expect("room");
            ends.push(writer.file_len());
        }
    }
    if finish {
        writer.finish(&writer.positions().clone()).expect("room");
    }
    ends
}

/// Returns each message's topic, time and payload.
fn read(path: &str) -> Vec<(String, u64, String)> {
    let mut reader = Reader::open(path).expect("a file");
    let mut messages = Vec::new();
    while let Some(item) = reader.next().expect("a whole file") {
        if let Item::Message(message) = item {
            let text = String::from_utf8_lossy(message.data).into_owned();
            messages.push((message.channel.topic.clone(), message.header.log_time, text));
        }
    }
    messages
}

#[test]
fn info_says_what_is_there() {
    let folder = Folder::new();
    let file = folder.file("a.mcap");
    write(&file, ["x", "y"], 40, true);
    let text = expect(0, &["info", &file]);
    let seconds = ["(1700000000.000000000)", "(1700000003.900000000)"];
    for told in [
        "library:      outlive-mcap",
        "profile:      not said",
        "state:        finished",
        "messages:     40, 0 lost",
        "duration:     3.900s",
        "start:        2023-11-1",
        "end:          2023-11-1",
        seconds[0],
        seconds[1],
        "chunks:       4; not compressed, ",
        "metadata:     5 outlive.positions",
        "topics:       2",
        "  TOPIC  MESSAGES    RATE   SIZE  PAYLOAD\n",
        "  x            20  5.0 Hz  ",
        "Drive [jsonschema] (json)",
    ] {
        assert!(text.contains(told), "'{told}' is not in {text}");
    }
    for absent in ["deaths", "attachments", "events", "together"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    let line: serde_json::Value =
        serde_json::from_str(&expect(0, &["--json", "info", &file])).expect("JSON");
    assert_eq!(line["messages"], 40);
    assert_eq!(line["topics"][1]["topic"], "y");
    assert_eq!(line["topics"][1]["schema"], "Drive");
    assert_eq!(line["finished"], true);
    assert_eq!(line["metadata"]["outlive.positions"], 5);
    assert_eq!((&line["chunks"], &line["compression"]["none"]["chunks"]), (&4.into(), &4.into()));
    assert!(line["start"].as_str().is_some_and(|date| date.starts_with("2023-11-1")), "{line}");
    // Packed, a half and more is saved.
    let packed = folder.file("b.mcap");
    expect(0, &["convert", &file, "--compress", "zstd", "-o", &packed]);
    let text = expect(0, &["info", &packed]);
    assert!(text.contains("chunks:       1; zstd, ") && text.contains(" %)"), "{text}");
    // As `outlive bag` starts it.
    expect(0, &["--domain", "some", "--json", "info", &file]);
}

#[test]
fn losses_and_deaths_are_counted_by_the_recorders_events() {
    let folder = Folder::new();
    let file = folder.file("a.mcap");
    let mut writer: Writer = Writer::create(&file, Options::default()).expect("a new file");
    let channel_id =
        writer.add_channel(0, "outlive/events", "json", &BTreeMap::new()).expect("a channel");
    for (sequence, event) in [
        r#"{"event":"lost","topic":"x","count":7}"#,
        r#"{"event":"publisher_died","topic":"x","session":1}"#,
        r#"{"event":"lost","topic":"y","count":3}"#,
        r#"{"event":"skipped","topic":"y","count":5}"#,
        "no JSON",
    ]
    .iter()
    .enumerate()
    {
        let header =
            MessageHeader { channel_id, sequence: sequence as u32, log_time: 1, publish_time: 1 };
        writer.put(&header, event.as_bytes()).expect("room");
    }
    writer.finish(&Positions::new()).expect("room");
    let line: serde_json::Value =
        serde_json::from_str(&expect(0, &["info", "--json", &file])).expect("JSON");
    let told = ["lost", "skipped", "deaths", "events", "messages"].map(|key| line[key].as_u64());
    assert_eq!(told, [Some(10), Some(5), Some(1), Some(5), Some(0)]);
    assert_eq!(line["topics"], serde_json::json!([]));
}

/// What a recorder writes of itself is no message that was recorded: not in counts, times and rates.
#[test]
fn a_recorders_events_are_kept_apart() {
    let folder = Folder::new();
    let (file, out) = (folder.file("a.mcap"), folder.file("out.mcap"));
    let mut writer: Writer = Writer::create(&file, Options::default()).expect("a new file");
    let [events, t] = ["outlive/events", "t"]
        .map(|topic| writer.add_channel(0, topic, "", &BTreeMap::new()).expect("a channel"));
    // It waited for a minute, and then there were two messages.
    for (channel_id, seconds) in [(events, 100), (t, 160), (t, 170), (events, 300)] {
        let time = seconds * 1_000_000_000;
        let header = MessageHeader { channel_id, sequence: 0, log_time: time, publish_time: time };
        writer.put(&header, b"{}").expect("room");
    }
    writer.finish(&Positions::new()).expect("room");
    let text = expect(0, &["info", &file]);
    for told in [
        "messages:     2, 0 lost\n",
        "events:       2 of the recorder\n",
        "duration:     10.000s\n",
        "(160.000000000)",
        "(170.000000000)",
        "topics:       1\n",
        "0.1 Hz",
    ] {
        assert!(text.contains(told), "'{told}' is not in {text}");
    }
    expect(0, &["check", &file]);
    // They count apart where a file is written, too.
    for verb in ["merge", "convert", "recover"] {
        let second: &[&str] = if verb == "merge" { &[&file] } else { &[] };
        let words = [&[verb, &file][..], second, &["-o", &out, "--force"]].concat();
        let said = expect(0, &words);
        let (messages, all) = (2 * (1 + second.len()), 4 * (1 + second.len()));
        assert_eq!(said, format!("{messages} messages, and {messages} events of the recorder\n"));
        let said = expect(0, &[&words[..], &["--json"]].concat());
        assert!(said.contains(&format!("\"events\":{messages}")), "{said}");
        assert_eq!(read(&out).len(), all);
    }
    // Times count from the first of them.
    expect(0, &["cut", &file, "--start", "5s", "--end", "11s", "-o", &out, "--force"]);
    assert_eq!(read(&out), [("t".to_owned(), 170_000_000_000, "{}".to_owned())]);
    // Events alone are nothing.
    let told = expect(6, &["cut", &file, "--start", "60s", "-o", &out, "--force"]);
    assert!(told.contains("no message in that time: nothing is written"), "{told}");
    assert!(told.contains("for 10.000s, from @160.000000000 to @170.000000000"), "{told}");
    assert_eq!(read(&out).len(), 1, "the file before stays");
    let told = expect(6, &["filter", &file, "--not", "t", "-o", &out, "--force"]);
    assert!(told.contains("no topic of") && told.contains("there is 't'"), "{told}");
}

#[test]
fn the_name_of_a_recording_stands_for_all_of_its_files() {
    let folder = Folder::new();
    for (number, messages) in [(0, 10), (1, 20), (10, 30)] {
        write(&folder.file(&format!("night_{number}.mcap")), ["x", "y"], messages, true);
    }
    let (night, first) = (folder.file("night.mcap"), folder.file("night_0.mcap"));
    let text = expect(0, &["info", &night]);
    assert!(text.contains("together:     3 files, ") && text.contains("; 60 messages, "), "{text}");
    let at = |number: u32| {
        text.find(&format!("night_{number}.mcap")).unwrap_or_else(|| panic!("{number}: {text}"))
    };
    assert!(at(0) < at(1) && at(1) < at(10), "in the order of their numbers: {text}");
    assert_eq!(expect(0, &["info", "--json", &night]).lines().count(), 3);
    expect(0, &["check", &night]);
    assert_eq!(expect(0, &["info", "--json", &first]).lines().count(), 1);
    expect(6, &["info", "--exact", &night]);
    let out = folder.file("out.mcap");
    expect(0, &["merge", &night, "-o", &out]);
    assert_eq!(read(&out).len(), 60);
    let told = expect(2, &["merge", &first, "-o", &out]);
    assert!(told.contains("two or more"), "{told}");
    // One after another.
    let out_args = ["-o", &out, "--force"];
    for (words, messages) in [
        (&["convert"][..], 60),
        (&["filter", "--regex", "x"], 30),
        (&["cut", "--start", "1s"], 30),
        (&["cut", "--end", "1s"], 30),
    ] {
        let one = bag(&[words, &["--exact", &first][..], &out_args].concat());
        let all = format!("{messages} messages");
        assert!(!String::from_utf8_lossy(&one.stdout).starts_with(&all), "{words:?}");
        let said = expect(0, &[words, &[&night], &out_args[..]].concat());
        assert_eq!(said, format!("{messages} messages\n"), "{words:?}");
        assert_eq!(read(&out).len(), messages);
        expect(0, &["check", &out]);
        let said = expect(6, &[words, &["--exact", &night], &out_args].concat());
        assert!(said.contains("night.mcap"), "{said}");
    }
    assert_eq!(expect(0, &["convert", "--to", "jsonl", &night]).lines().count(), 60);
    let said = expect(2, &["recover", &night, "--in-place"]);
    assert!(said.contains("a recording of 3 files") && said.contains("night_10.mcap"), "{said}");
    let said = expect(6, &["filter", &folder.file("day"), "--not", "x", "-o", &out, "--force"]);
    assert!(said.contains("neither") && said.contains("day_0.mcap"), "{said}");
}

#[test]
fn a_filter_without_any_and_names_that_end_otherwise_are_refused() {
    let folder = Folder::new();
    let file = folder.file("a.mcap");
    write(&file, ["x", "y"], 10, true);
    let told = expect(2, &["filter", &file, "-o", &folder.file("b")]);
    assert!(told.contains("--topics, --regex or --not"), "{told}");
    let told = expect(2, &["filter", &file, "--not", "x", "-o", &folder.file("b.mcpa")]);
    assert!(told.contains("'.mcpa'") && told.contains("b.mcap"), "{told}");
    assert_eq!(folder.names(), ["a.mcap"]);
    expect(0, &["filter", &file, "--not", "x", "-o", &folder.file("b")]);
    expect(0, &["recover", &file, "-o", &folder.file("c")]);
    assert_eq!(folder.names(), ["a.mcap", "b.mcap", "c.mcap"]);
    for size in ["500", "0", "x", "2T"] {
        expect(2, &["convert", &file, "--chunk-size", size, "-o", &folder.file("d")]);
    }
}

/// Which process it is, the kernel's list of locks says.
#[test]
fn a_file_that_is_being_written_is_no_dead_writers() {
    let folder = Folder::new();
    let file = folder.file("a.mcap");
    let mut writer: Writer = Writer::create(&file, Options::default()).expect("a new file");
    let channel_id = writer.add_channel(0, "t", "", &BTreeMap::new()).expect("a channel");
    let header = MessageHeader { channel_id, sequence: 0, log_time: 1, publish_time: 1 };
    writer.put(&header, b"x").expect("room");
    writer.flush(&Positions::new()).expect("room");
    let own = format!("process {} writes", std::process::id());
    let said = expect(1, &["check", &file]);
    assert!(said.contains(&own) && said.contains("1 fault in"), "{said}");
    // In the middle of a group.
    let is_within = |cut: &str| cut.contains("ends in the middle");
    fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &[6, 200, 0, 0]))
        .expect("written");
    let said = expect(1, &["check", &file]);
    assert!(said.contains(&own) && !is_within(&said), "{said}");
    assert!(expect(0, &["info", &file]).contains(&own), "info");
    let line = |words: &[&str]| {
        serde_json::from_str::<serde_json::Value>(&expect(0, words)).expect("JSON")
    };
    let told = line(&["info", "--json", &file]);
    assert_eq!((&told["writer"], &told["finished"]), (&std::process::id().into(), &false.into()));
    let said = expect(12, &["recover", "--in-place", &file]);
    assert!(said.contains(&own), "{said}");
    drop(writer);
    // Another test may just be starting a process, which has all files for a moment, and their locks.
    let end = Instant::now() + Duration::from_secs(60);
    while outlive_mcap::holder_of(Path::new(&file)).is_some() {
        assert!(Instant::now() < end, "its lock stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Whatever has it locked, and open for reading alone, as the program `flock` has.
    let reads = fs::File::open(&file).expect("there");
    rustix::fs::flock(&reads, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let said = expect(1, &["check", &file]);
    let locked = format!("process {} has locked", std::process::id());
    assert!(is_within(&said) && said.contains(&locked) && !said.contains(&own), "{said}");
    assert!(expect(0, &["info", &file]).contains(&locked), "info");
    let told = line(&["info", "--json", &file]);
    assert_eq!((&told["writer"], &told["locked_by"]), (&Value::Null, &std::process::id().into()));
    let said = expect(12, &["recover", "--in-place", &file]);
    assert!(said.contains(&locked), "{said}");
    drop(reads);
    while outlive_mcap::holder_of(Path::new(&file)).is_some() {
        assert!(Instant::now() < end, "its lock stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = expect(1, &["check", &file]);
    assert!(is_within(&said) && said.contains("recover --in-place"), "{said}");
    assert!(expect(0, &["info", &file]).contains("recover --in-place"), "info");
    expect(1, &["recover", "--in-place", &file]);
    assert!(line(&["info", "--json", &file])["writer"].is_null());
}

/// The places of the records with that opcode.
fn records(path: &str, opcode: u8) -> Vec<usize> {
    let path: std::sync::Arc<Path> = Path::new(path).into();
    let file = std::sync::Arc::new(fs::File::open(&path).expect("there"));
    let mut scan = Scan::new(&file, &path).expect("a recording");
    let mut found = Vec::new();
    while let Step::Record(place) = scan.step().expect("readable") {
        found.extend((place.op == opcode).then_some(place.offset as usize));
    }
    found
}

#[test]
fn message_indexes_are_compared_with_their_chunks() {
    let folder = Folder::new();
    let (whole, file) = (folder.file("whole.mcap"), folder.file("a.mcap"));
    write(&whole, ["x", "y"], 40, true);
    let bytes = fs::read(&whole).expect("the file");
    let (chunks, indexes) = (records(&whole, 6), records(&whole, 7));
    assert_eq!((chunks.len(), indexes.len()), (4, 8));
    let check = |bytes: &[u8]| {
        fs::write(&file, bytes).expect("room");
        expect(1, &["check", &file])
    };
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        check(&bytes)
    };
    // A head of 9 bytes, the channel, the length of the entries, and of each the time and the place.
    let (second, chunk) = (indexes[2], chunks[1]);
    let said = changed(second + 15, &7_u64.to_le_bytes());
    let told =
        format!("the message index at byte {second} has a message of 'x' (channel 1) at byte");
    assert!(said.contains(&told) && said.contains("with the log time 7: the chunk has"), "{said}");
    assert!(
        said.contains(&format!("the chunk at byte {chunk}")) && said.contains("1 fault in"),
        "{said}"
    );
    let said = changed(second + 23, &1_u64.to_le_bytes());
    assert!(said.contains("at byte 1 of the chunk"), "{said}");
    // One of its messages twice, and so another one never.
    let said = changed(second + 31, &bytes[second + 15..second + 31]);
    assert!(said.contains(&told) && said.contains("1 fault in"), "{said}");
    let said = changed(second + 11, &0_u32.to_le_bytes());
    assert!(said.contains("is not as long as it says"), "{said}");
    // As of the other channel: one is there twice, and one never.
    let said = changed(second + 9, &2_u16.to_le_bytes());
    let told =
        format!("the chunk at byte {chunk} has messages of 'x' (channel 1), and no message index");
    assert!(said.contains(&told), "{said}");
    assert!(said.contains("the index has the message index of 'x'"), "{said}");
    // A file without its index has message indexes, too.
    let end = records(&whole, 0x0f)[0];
    let mut dead = bytes[..end].to_vec();
    dead[second + 15] ^= 1;
    let said = check(&dead);
    assert!(said.contains("not finished") && said.contains("2 faults in"), "{said}");
    // The index's own records of these, whose checksum is left out.
    let mut lies = bytes.clone();
    let footer = records(&whole, 2)[0];
    lies[footer + 25..footer + 29].fill(0);
    let first = records(&whole, 8)[0];
    lies[first + 9 + 36 + 2] ^= 1;
    let said = check(&lies);
    let told = format!("it is at byte {}", indexes[0]);
    assert!(said.contains(&told) && said.contains("1 fault in"), "{said}");
    // One that reaches behind itself, and one of a chunk that has its own already.
    lies[first + 9 + 32..first + 9 + 36].copy_from_slice(&600_000_u32.to_le_bytes());
    let said = check(&lies);
    let told = format!("the chunk index at byte {first} is not as long as it says");
    assert!(said.contains(&told), "{said}");
    let second = records(&whole, 8)[1];
    let place = lies[first + 9 + 16..first + 9 + 24].to_vec();
    lies[first..second].copy_from_slice(&bytes[first..second]);
    lies[second + 9 + 16..second + 9 + 24].copy_from_slice(&place);
    let said = check(&lies);
    assert!(said.contains(&format!("the chunk at byte {} more than once", chunks[0])), "{said}");
    // Like ones are one line.
    let mut lies = bytes.clone();
    for index in &indexes {
        lies[index + 15] ^= 1;
    }
    let said = check(&lies);
    assert!(said.contains("3 more faults like it, the last at byte"), "{said}");
    assert!(said.contains("8 faults in"), "{said}");
    assert_eq!(expect(1, &["check", "--json", &file]).matches("\"fault\"").count(), 8);
}

/// Times, counts and channels: whatever reads a file by its index believes them.
#[test]
fn what_the_index_and_the_chunks_say_is_compared_with_the_messages() {
    let folder = Folder::new();
    let (whole, file) = (folder.file("whole.mcap"), folder.file("a.mcap"));
    write(&whole, ["x", "y"], 40, true);
    let mut bytes = fs::read(&whole).expect("the file");
    // The index's checksum is left out.
    let footer = records(&whole, 2)[0];
    bytes[footer + 25..footer + 29].fill(0);
    fs::write(&file, &bytes).expect("room");
    expect(0, &["check", &file]);
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        fs::write(&file, bytes).expect("room");
        let said = expect(1, &["check", &file]);
        assert!(said.contains(": 1 fault in"), "{said}");
        said
    };
    let (seven, body) = (7_u64.to_le_bytes(), 9);
    let (statistics, index) = (records(&whole, 0x0b)[0] + body, records(&whole, 8)[2] + body);
    let chunk = records(&whole, 6)[2];
    let of = |said: &str, end: &str| format!("{said} that its messages have the log times {end}");
    let (first, last) = (1_700_000_000_000_000_000_u64, 1_700_000_003_900_000_000_u64);
    let said = changed(statistics + 26, &seven);
    let all = format!("7 to {last}, and they have {first} to {last}");
    assert!(said.contains(&of("the index says", &all)), "{said}");
    assert!(changed(statistics + 34, &seven).contains(&of("the index says", "")));
    assert!(changed(statistics + 22, &[9]).contains("counts 9 chunks, and 4 are there"));
    assert!(changed(statistics + 18, &[9]).contains("counts 9 metadata records, and"));
    assert!(changed(statistics + 14, &[1]).contains("counts 1 attachment, and 0 are there"));
    for at in [0, 8] {
        let said = changed(index + at, &seven);
        let what = format!("the index says of the chunk at byte {chunk}");
        assert!(said.contains(&of(&what, "")), "{said}");
        let said = changed(chunk + body + at, &seven);
        assert!(said.contains(&of(&format!("the chunk at byte {chunk} says"), "")), "{said}");
    }
    // The first two are those of the data.
    let channel = records(&whole, 4)[2] + body;
    let said = changed(channel + 8, b"y");
    assert!(said.contains("the index calls the channel 1 'y', and the data 'x'"), "{said}");
    let said = changed(channel + 2, &[0]);
    assert!(said.contains("the index has the channel 1, 'x', with another schema"), "{said}");
    let said = changed(records(&whole, 3)[1] + body + 6, b"T");
    assert!(said.contains("the index has another schema 1, 'Drive', than the data"), "{said}");
    // Without the index's channel: as an unknown record it is passed over.
    let said = changed(channel - body, &[0x7f]);
    assert!(said.contains("the index lacks the channel 1, 'x'"), "{said}");
}

/// The chunk defines its channel under another name than the index. What else is in the chunk is compared all the
/// same.
#[test]
fn a_chunk_with_channels_of_its_own_is_compared() {
    let folder = Folder::new();
    let file = folder.file("theirs.mcap");
    let mut writer = mcap::WriteOptions::new()
        .compression(None)
        .calculate_summary_section_crc(false)
        .calculate_chunk_crcs(false)
        .create(fs::File::create(&file).expect("room"))
        .expect("a writer");
    let channel_id = writer.add_channel(0, "front", "", &BTreeMap::new()).expect("a channel");
    for sequence in 0..5_u32 {
        let (log_time, publish_time) = (u64::from(sequence), 0);
        let header = mcap::records::MessageHeader { channel_id, sequence, log_time, publish_time };
        writer.write_to_known_channel(&header, b"x").expect("room");
    }
    writer.finish().expect("room");
    drop(writer);
    let said = expect(0, &["check", &file]);
    assert!(said.contains("1 chunk has no checksum: changed bits in messages"), "{said}");
    let line = expect(0, &["check", "--json", &file]);
    let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let keys = ["faults", "chunks", "unverified_chunks"].map(|key| line[key].as_u64());
    assert_eq!(keys, [Some(0), Some(1), Some(1)]);
    let mut bytes = fs::read(&file).expect("the file");
    let (channel, index) = (records(&file, 4)[0], records(&file, 7)[0]);
    bytes[channel + 9 + 8..][..5].copy_from_slice(b"back2");
    bytes[index + 15] ^= 1;
    fs::write(&file, bytes).expect("room");
    let said = expect(1, &["check", &file]);
    assert!(said.contains("calls the channel 1 'back2', and the data 'front'"), "{said}");
    assert!(said.contains("has a message of 'front' (channel 1)"), "{said}");
    assert!(said.contains("2 faults in"), "{said}");
}

/// A writer that is killed, or has no room, when it makes its file leaves nothing in it.
#[test]
fn an_empty_file_is_one_without_messages() {
    let folder = Folder::new();
    let (file, out) = (folder.file("empty.mcap"), folder.file("out.mcap"));
    for (bytes, code) in [(&b""[..], 0), (b"\x89MC", 1)] {
        fs::write(&file, bytes).expect("room");
        let said = expect(1, &["check", &file]);
        assert!(said.contains("the file is empty") && said.contains("--in-place"), "{said}");
        let said = expect(0, &["info", &file]);
        assert!(said.contains("not finished") && said.contains("messages:     0"), "{said}");
        // It does not commend itself.
        for words in [&["filter", &file, "--topics", "x"][..], &["convert", &file]] {
            let said = expect(11, &[words, &["-o", &out]].concat());
            assert!(said.contains("recover --in-place FILE' makes"), "{said}");
        }
        expect(code, &["recover", &file, "-o", &out]);
        expect(0, &["check", &out]);
        expect(code, &["recover", "--in-place", &file]);
        expect(0, &["check", &file]);
        assert_eq!((read(&file).len(), read(&out).len()), (0, 0));
        fs::remove_file(&out).expect("there");
    }
    let told = expect(2, &["recover", &file]);
    assert!(told.contains("recover --in-place [OPTIONS] <FILE>"), "{told}");
    let told = expect(2, &["convert", &file, "-o", &folder.file(".mcap")]);
    assert!(told.contains("an ending without a name"), "{told}");
    for verb in ["info", "check"] {
        let told = expect(6, &[verb, &folder.file("nothing")]);
        assert!(told.contains("nothing.mcap nor"), "{told}");
    }
}

#[test]
fn a_chunk_that_unpacks_to_too_much_is_damage() {
    let folder = Folder::new();
    let (file, out) = (folder.file("a.mcap"), folder.file("out.mcap"));
    write(&file, ["x", "y"], 20, true);
    let mut bytes = fs::read(&file).expect("the file");
    let chunk = records(&file, 6)[0];
    bytes[chunk + 9 + 16..][..8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    fs::write(&file, bytes).expect("room");
    let told = expect(11, &["convert", &file, "-o", &out]);
    assert!(told.contains("too large") && told.contains("recover FILE"), "{told}");
    // What is whole is shown; the code for what is not is that of `check`.
    assert!(expect(0, &["info", &file]).contains("faults:       1"));
    expect(1, &["recover", &file, "-o", &out]);
    assert_eq!(read(&out).len(), 10);
}

#[test]
fn an_option_that_has_taken_the_file_is_named() {
    let told = expect(2, &["filter", "--topics", "x", "a.mcap", "-o", "b.mcap"]);
    assert!(told.contains("--topics takes all names behind it, and has taken a.mcap"), "{told}");
    let told = expect(2, &["info"]);
    assert!(!told.contains("takes all names"), "{told}");
}

#[test]
fn a_dead_writers_file_is_checked_and_recovered() {
    let folder = Folder::new();
    let (whole, file, out) =
        (folder.file("whole.mcap"), folder.file("cut.mcap"), folder.file("out.mcap"));
    let ends = write(&whole, ["x", "y"], 40, true);
    expect(0, &["check", &whole]);
    let bytes = fs::read(&whole).expect("the file");
    // In the middle of the index.
    fs::write(&file, &bytes[..bytes.len() - 50]).expect("room");
    assert!(expect(1, &["check", &file]).contains("no index"));
    assert!(expect(0, &["info", &file]).contains("not finished"));
    expect(0, &["recover", "--in-place", &file]);
    expect(0, &["check", &file]);
    assert_eq!(read(&file).len(), 40);
    // Exactly after a group: only the index is missing.
    fs::write(&file, &bytes[..ends[2] as usize]).expect("room");
    let told = expect(1, &["check", &file]);
    assert!(told.contains("not finished"), "{told}");
    expect(0, &["recover", &file, "-o", &out]);
    expect(0, &["check", &out]);
    assert_eq!(read(&out).len(), 30);
    // It is never replaced unasked.
    let told = expect(7, &["recover", &file, "-o", &out]);
    assert!(told.contains("--force"), "{told}");
    expect(0, &["recover", &file, "-o", &out, "--force"]);
    expect(0, &["recover", &file, "--in-place"]);
    expect(0, &["check", &file]);
    assert_eq!(read(&file).len(), 30);
    // In the middle of a group: messages of its chunk are whole.
    let cut = ends[2] as usize + 250;
    fs::write(&file, &bytes[..cut]).expect("room");
    let told = expect(1, &["recover", &file, "-o", &out, "--force"]);
    assert!(told.contains("a part of") && told.contains("ends in the middle"), "{told}");
    expect(0, &["check", &out]);
    let some = read(&out).len();
    assert!((31..40).contains(&some), "{some} messages");
    // In place, the file ends after the last whole group: there its recorder goes on.
    let told = expect(1, &["recover", "--in-place", &file]);
    assert!(told.contains(&format!("{} bytes", cut as u64 - ends[2])), "{told}");
    assert_eq!(read(&file).len(), 30);
    expect(0, &["check", &file]);
    expect(0, &["recover", "--in-place", &file]);
    assert_eq!(folder.names(), ["cut.mcap", "out.mcap", "whole.mcap"]);
}

#[test]
fn a_file_of_others_is_recovered() {
    let folder = Folder::new();
    let (file, out) = (folder.file("theirs.mcap"), folder.file("out.mcap"));
    let mut bytes = std::io::Cursor::new(Vec::new());
    let options = mcap::WriteOptions::new().compression(None).profile("ros2");
    let mut writer = options.create(&mut bytes).expect("a writer");
    let id = writer.add_channel(0, "c", "json", &BTreeMap::new()).expect("a channel");
    for sequence in 0..50 {
        let header = mcap::records::MessageHeader {
            channel_id: id,
            sequence,
            log_time: u64::from(sequence),
            publish_time: 5,
        };
        writer.write_to_known_channel(&header, b"{}").expect("room");
    }
    writer.finish().expect("room");
    drop(writer);
    let bytes = bytes.into_inner();
    fs::write(&file, &bytes).expect("room");
    expect(0, &["check", &file]);
    // As its writer leaves it when it dies: in the open chunk, whose lengths are not there yet.
    let chunk = bytes.iter().skip(30).position(|byte| *byte == 6).expect("a chunk") + 30;
    let mut dead = bytes[..bytes.len() / 3].to_vec();
    dead[chunk + 1..chunk + 9].fill(255);
    fs::write(&file, &dead).expect("room");
    let told = expect(1, &["recover", "--in-place", &file]);
    assert!(told.contains("ends in the middle"), "{told}");
    assert!(read(&file).len() > 5, "{}", read(&file).len());
    expect(0, &["check", &file]);
    // The profile stays.
    expect(0, &["filter", &file, "--topics", "c", "-o", &out]);
    assert!(expect(0, &["info", &out]).contains("profile:      ros2\n"));
}

#[test]
fn changed_bits_outside_of_chunks_show_by_the_checksum_of_all_data() {
    let folder = Folder::new();
    let file = folder.file("theirs.mcap");
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer =
        mcap::WriteOptions::new().use_chunks(false).create(&mut bytes).expect("a writer");
    let channel_id = writer.add_channel(0, "c", "json", &BTreeMap::new()).expect("a channel");
    let header = MessageHeader { channel_id, sequence: 1, log_time: 1, publish_time: 1 };
    writer.write_to_known_channel(&header, b"\"payload\"").expect("room");
    writer.finish().expect("room");
    drop(writer);
    let mut bytes = bytes.into_inner();
    fs::write(&file, &bytes).expect("room");
    assert_eq!(expect(0, &["check", &file]), "no fault in 1 file\n");
    let payload = bytes.windows(7).position(|some| some == b"payload").expect("it is there");
    bytes[payload] ^= 1;
    fs::write(&file, &bytes).expect("room");
    let said = expect(1, &["check", &file]);
    assert!(said.contains("the checksum at the end of the file's data"), "{said}");
}

#[test]
fn damage_is_found_and_passed_over() {
    let folder = Folder::new();
    let (file, out) = (folder.file("a.mcap"), folder.file("out.mcap"));
    let ends = write(&file, ["x", "y"], 40, true);
    let mut bytes = fs::read(&file).expect("the file");
    // In the second group's chunk, which has a checksum.
    bytes[ends[0] as usize + 100] ^= 1;
    fs::write(&file, &bytes).expect("room");
    let told = expect(1, &["check", &file]);
    assert!(told.contains(&format!("damaged at byte {}: a chunk's checksum", ends[0])), "{told}");
    let told = expect(11, &["filter", &file, "--topics", "x", "-o", &out]);
    assert!(told.contains("recover"), "{told}");
    assert_eq!(folder.names(), ["a.mcap"]);
    expect(1, &["recover", &file, "-o", &out]);
    assert_eq!(read(&out).len(), 30);
    expect(0, &["check", &out]);
    // The index, too, is compared.
    let whole = fs::read(&out).expect("the file");
    for at in [whole.len() - 12, whole.len() - 60] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&out, &bytes).expect("room");
        expect(1, &["check", &out]);
    }
}

#[test]
fn a_part_of_the_topics_and_of_the_time() {
    let folder = Folder::new();
    let (file, out) = (folder.file("a.mcap"), folder.file("out.mcap"));
    write(&file, ["camera/x", "y"], 40, true);
    let out_args = ["-o", &out, "--force"];
    let run = |words: &[&str]| {
        expect(0, &[words, &out_args].concat());
        expect(0, &["check", &out]);
        read(&out)
    };
    assert!(run(&["filter", &file, "--topics", "y"]).iter().all(|(topic, ..)| topic == "y"));
    assert_eq!(run(&["filter", &file, "--not", "y"]).len(), 20);
    assert_eq!(run(&["filter", &file, "--regex", "^camera/"]).len(), 20);
    let none = folder.file("none.mcap");
    for words in [&["--regex", ".", "--not", "y", "camera/x"][..], &["--regex", "^z"]] {
        let told = expect(6, &[&["filter", &file], words, &["-o", &none]].concat());
        assert!(told.contains("nothing is written; there are 'camera/x', 'y'"), "{told}");
    }
    expect(2, &["filter", &file, "--regex", "(", "-o", &out]);
    let told = expect(6, &["filter", &file, "--topics", "y", "yy", "-o", &folder.file("no.mcap")]);
    assert!(
        told.contains("no topic 'yy' (is 'y' meant?)") && told.contains("there are '"),
        "{told}"
    );
    assert!(!folder.names().iter().any(|name| name.contains("no.mcap")));
    let cut = run(&["cut", &file, "--start", "1s", "--end", "1500ms"]);
    assert_eq!(cut.len(), 5);
    assert_eq!(cut[0].2, "{\"n\":10}");
    assert_eq!(run(&["cut", &file, "--start", "@1700000003.0"]).len(), 10);
    for words in [["--end", "0s"], ["--start", "4s"]] {
        let told = expect(6, &[&["cut", &file], &words[..], &["-o", &none]].concat());
        assert!(told.contains("no message in that time: nothing is written"), "{told}");
    }
    assert!(!folder.names().iter().any(|name| name.contains("none.mcap")));
    expect(2, &["cut", &file, "--start", "soon", "-o", &out]);
    expect(2, &["cut", &file, "-o", &out]);
    expect(2, &["cut", &file, "--start", "2s", "--end", "1s", "-o", &out]);
}

#[test]
fn files_are_merged_by_time_and_converted() {
    let folder = Folder::new();
    let (a, b) = (folder.file("a.mcap"), folder.file("b.mcap"));
    let (out, packed) = (folder.file("out.mcap"), folder.file("packed.mcap"));
    write(&a, ["x", "y"], 40, true);
    write(&b, ["x", "z"], 20, false);
    expect(0, &["merge", &a, &b, "-o", &out]);
    expect(0, &["check", &out]);
    let merged = read(&out);
    assert_eq!(merged.len(), 60);
    assert!(merged.is_sorted_by_key(|(_, time, _)| *time));
    expect(2, &["merge", &a, "-o", &out]);
    for compress in ["zstd", "lz4", "none"] {
        let size = ["--chunk-size", "500B", "--force"];
        expect(0, &[&["convert", &out, "--compress", compress, "-o", &packed][..], &size].concat());
        expect(0, &["check", &packed]);
        assert_eq!(read(&packed), merged);
    }
    let lines = expect(0, &["convert", &packed, "--to", "jsonl"]);
    assert_eq!(lines.lines().count(), 60);
    let first: serde_json::Value =
        serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["topic"], &first["data"]["n"]), (&"x".into(), &0.into()));
    // Bytes that are text are told as text.
    let plain = folder.file("plain.mcap");
    let mut writer: Writer = Writer::create(&plain, Options::default()).expect("a new file");
    let channel = writer.add_channel(0, "plain", "", &BTreeMap::new()).expect("room");
    for payload in [&b"hello"[..], b"a\0b", &[0xff]] {
        let header =
            MessageHeader { channel_id: channel, sequence: 0, log_time: 0, publish_time: 0 };
        writer.put(&header, payload).expect("room");
    }
    writer.finish(&Positions::new()).expect("written");
    let lines = expect(0, &["convert", &plain, "--to", "jsonl"]);
    let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    let told: Vec<_> = lines.lines().map(line).collect();
    assert_eq!((&told[0]["text"], told[0].get("hex")), (&"hello".into(), None));
    assert_eq!((&told[1]["hex"], &told[2]["hex"]), (&"610062".into(), &"ff".into()));
    let usage = expect(2, &["convert", &packed]);
    assert!(usage.contains("Usage: outlive bag convert"), "{usage}");
    expect(2, &["convert", &packed, "--to", "jsonl", "-o", &out]);
}

#[test]
fn what_is_no_recording_is_told() {
    let folder = Folder::new();
    let file = folder.file("text.mcap");
    fs::write(&file, "no recording, and long enough").expect("room");
    for verb in ["info", "check"] {
        expect(8, &[verb, &file]);
        expect(6, &[verb, &folder.file("nothing.mcap")]);
    }
    expect(8, &["recover", "--in-place", &file]);
    assert!(Path::new(&file).exists());
    expect(2, &["recover", &file]);
    // A living writer keeps its file.
    let living = folder.file("living.mcap");
    let writer: Writer = Writer::create(&living, Options::default()).expect("a new file");
    expect(12, &["recover", "--in-place", &living]);
    drop(writer);
    expect(0, &["recover", "--in-place", &living]);
}
