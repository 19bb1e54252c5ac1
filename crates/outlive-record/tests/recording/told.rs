//! What the program says, and that a recording goes on when the reader of that has gone.

use std::io::Read;
use std::process::{Command, Stdio};

use outlive::Domain;
use outlive::queue::Queue;
use outlive::topic::Topic;

use crate::support::{Contents, Place, Recording, eventually, message, signal};

/// A pipe without a reader.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn a_recording_goes_on_when_nobody_reads_what_it_tells() {
    let place = Place::new("unread");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    for (file, more) in [("a.mcap", vec!["--json"]), ("b.mcap", vec!["missing"])] {
        let mut args = vec!["-o", file, "t"];
        args.extend(more);
        let mut command = place.command(&args);
        let command = command.stdout(unread()).stderr(unread());
        let recording = Recording(command.spawn().expect("starts"));
        assert!(eventually(|| topic.subscribers().len() == 1));
        publisher.publish(&message(1, 64)).map(drop).expect("published");
        recording.end();
        let contents = Contents::of(&place.file(file));
        assert!(contents.is_whole && contents.messages("t").len() == 1, "{file}");
    }
}

#[test]
fn a_domain_that_is_not_there_is_waited_for_and_not_made() {
    let place = Place::new("early");
    let folder = place.file("later");
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-record"));
    command.args(["--all", "-o", "out.mcap", "--domain"]).arg(&folder);
    command.current_dir(&place.folder).stdin(Stdio::null());
    let mut recording = Recording(command.stderr(Stdio::piped()).spawn().expect("starts"));
    let mut told = [0; 20];
    let mut err = recording.0.stderr.take().expect("piped");
    err.read_exact(&mut told).expect("it says that it waits");
    assert_eq!(&told, b"waiting for a proces");
    assert!(!folder.exists());
    let domain = Domain::open_or_create_at(&folder).expect("made");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    publisher.publish(&message(1, 64)).map(drop).expect("published");
    assert!(eventually(|| topic.subscribers().len() == 1));
    publisher.publish(&message(2, 64)).map(drop).expect("published");
    recording.end();
    assert!(!Contents::of(&place.file("out.mcap")).messages("t").is_empty());
}

#[test]
fn the_wait_for_a_domain_ends_with_the_duration() {
    let place = Place::new("none");
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-record"));
    command.args(["--all", "-o", "out.mcap", "--duration", "300ms", "--domain"]);
    command.arg(place.file("nowhere")).current_dir(&place.folder);
    let ended = command.output().expect("starts");
    assert!(ended.status.success() && !place.file("out.mcap").exists(), "{ended:?}");
}

#[test]
fn names_that_cannot_be_recorded_are_refused_and_missing_ones_told() {
    let place = Place::new("names");
    let _queue = Queue::<[u8]>::open_or_create(&place.domain, "jobs").expect("made");
    for (name, code) in [("jobs", 7), ("a/../b", 13), ("", 13)] {
        let mut command = place.command(&["-o", "out.mcap", "--", name]);
        let status = command.stderr(Stdio::null()).status().expect("starts");
        assert_eq!(status.code(), Some(code), "{name}");
        assert!(!place.file("out.mcap").exists(), "{name}");
    }
    let mut command = place.command(&["-o", "out.mcap", "batery", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
    let mut out = child.stdout.take().expect("piped");
    let recording = Recording(child);
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        out.read_exact(&mut byte).expect("a line");
        line.push(byte[0]);
    }
    let line: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
    assert_eq!(line, serde_json::json!({"event": "missing", "topic": "batery"}));
    recording.end();
}

/// It is a topic's name all the same, and the topic may come.
#[test]
fn a_command_with_a_typing_error_is_told_and_waited_for_as_a_topic() {
    let place = Place::new("mistyped");
    let first_line = |args: &[&str]| {
        let mut command = place.command(args);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
        let mut err = child.stderr.take().expect("piped");
        let recording = Recording(child);
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            err.read_exact(&mut byte).expect("a line");
            line.push(byte[0]);
        }
        (recording, String::from_utf8(line).expect("text"))
    };
    let (recording, said) = first_line(&["satus", "-o", "out.mcap"]);
    let told =
        "waiting for a process to make 'satus' (is the command 'outlive record status' meant?";
    assert!(said.contains(told) && said.contains("'outlive record -- satus')"), "{said}");
    let topic = Topic::<[u8]>::options().depth(64).open_or_create(&place.domain, "satus");
    let topic = topic.expect("made");
    assert!(eventually(|| topic.subscribers().len() == 1));
    recording.end();
    // Its writer means a topic.
    let (recording, said) = first_line(&["-o", "one.mcap", "--", "stpo"]);
    assert_eq!(said, "waiting for a process to make 'stpo'\n");
    recording.end();
    let (recording, said) = first_line(&["satus", "triger", "-o", "two.mcap"]);
    assert!(said.contains("waiting for a process to make 'triger'"), "{said}");
    recording.end();
    let mut early = Command::new(env!("CARGO_BIN_EXE_outlive-record"));
    early
        .args(["triger", "-o", "three.mcap", "--duration", "100s", "--domain"])
        .arg(place.file("later"));
    early.current_dir(&place.folder).stdin(Stdio::null());
    let mut child = early.stderr(Stdio::piped()).spawn().expect("starts");
    let mut said = String::new();
    let mut err = child.stderr.take().expect("piped");
    let recording = Recording(child);
    while !said.contains("the command 'outlive record trigger' meant?") {
        let mut byte = [0];
        err.read_exact(&mut byte).expect("it says so");
        said.push(char::from(byte[0]));
    }
    drop(recording);
}

#[test]
fn a_replay_goes_on_when_no_process_reads_its_lines() {
    let place = Place::new("unread-replay");
    let topic = Topic::<[u8]>::options().depth(64).open_or_create(&place.domain, "t");
    let publisher = topic.expect("made").publisher().expect("a ring");
    let recording = place.record(&["t", "-o", "in.mcap"], 1);
    publisher.publish(&message(1, 64)).map(drop).expect("published");
    recording.end();
    drop(publisher);
    for args in [&["in.mcap"][..], &["in.mcap", "--json"], &["in.mcap", "--rename", "t=u/v"]] {
        let mut command = place.player(args);
        let status = command.stdout(unread()).stderr(unread()).status().expect("starts");
        let code = if args.contains(&"t=u/v") { 13 } else { 0 };
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}

/// Runs a recorder until it has done that; returns what it printed.
fn told_by(place: &Place, args: &[&str], is_done: impl FnMut() -> bool) -> (String, String) {
    let mut command = place.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recording = Recording(command.spawn().expect("starts"));
    assert!(eventually(is_done), "{args:?}");
    let (mut out, mut err) = (String::new(), String::new());
    signal(&recording.0, libc::SIGTERM);
    assert!(recording.wait().success(), "{args:?}");
    // Both are short, so the recorder did not wait for their reader.
    recording.0.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
    recording.0.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
    (out, err)
}

#[test]
fn a_recording_of_nothing_leaves_no_file_and_says_so() {
    let place = Place::new("nothing");
    let topic = Topic::<[u8]>::options().depth(64).open_or_create(&place.domain, "battery");
    let topic = topic.expect("made");
    let begun = |file: &str| {
        let path = place.file(file);
        move || {
            std::fs::read(&path).is_ok_and(|bytes| bytes.windows(9).any(|at| at == b"\"started\""))
        }
    };
    for more in [&[][..], &["--as", "night"], &["--split", "1M"]] {
        let file = if more.contains(&"--split") { "out_0.mcap" } else { "out.mcap" };
        let args = [&["batery", "-o", "out.mcap"], more].concat();
        let (_, said) = told_by(&place, &args, begun(file));
        assert!(said.contains("to make 'batery' (is 'battery' meant?)"), "{said}");
        assert!(said.ends_with("nothing was there to record: no file is left\n"), "{said}");
        assert_eq!(place.files("out"), [""; 0].map(|name| place.file(name)), "{more:?}");
    }
    let (said, _) = told_by(&place, &["batery", "-o", "out.mcap", "--json"], begun("out.mcap"));
    let first = said.lines().next().expect("a line");
    let json = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    assert_eq!(
        json(first),
        serde_json::json!({"event": "missing", "topic": "batery", "nearest": "battery"})
    );
    assert_eq!(json(said.lines().last().expect("a line"))["files"], serde_json::json!([]));
    // A topic was there, though nothing came of it: that is something to know.
    let args = ["battery", "-o", "out.mcap"];
    let (_, said) = told_by(&place, &args, || topic.subscribers().len() == 1);
    assert!(said.ends_with("0 messages of 1 topic in out.mcap\n"), "{said}");
    assert!(Contents::of(&place.file("out.mcap")).topics.contains_key("battery"));
    // What was there before is not counted once more.
    let args = ["battery", "-o", "out.mcap", "--resume"];
    let (_, said) = told_by(&place, &args, || topic.subscribers().len() == 1);
    assert!(said.ends_with("0 more messages of 1 topic in out.mcap\n"), "{said}");
}

#[test]
fn the_end_tells_how_many_files_there_are() {
    let place = Place::new("told-files");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    // A file of another recording has one of the numbers.
    place.record(&["t", "-o", "out_1.mcap"], 1).end();
    let record = |more: &[&str]| {
        let args = ["t", "-o", "out.mcap", "--split", "1G", "--as", "rec"];
        let mut count = 0;
        told_by(&place, &[&args[..], more].concat(), || {
            if count == 15 || topic.subscribers().len() != 1 {
                return count == 15;
            }
            publisher.publish(&message(count, 64)).map(drop).expect("published");
            count += 1;
            if count % 5 == 0 {
                place.tell(&["split", "--as", "rec"]).expect("it serves");
            }
            false
        })
    };
    let files = |numbers: &[u32]| {
        numbers.iter().map(|number| format!("out_{number}.mcap")).collect::<Vec<_>>()
    };
    let (_, said) = record(&[]);
    let there = files(&[0, 2, 3, 4]);
    let counts = there.iter().map(|file| Contents::of(&place.file(file)).messages("t").len());
    assert_eq!(counts.collect::<Vec<_>>(), [5, 5, 5, 0]);
    let told = "15 messages of 1 topic in 4 files (out_0.mcap to out_4.mcap)\n";
    assert!(said.ends_with(told), "{said}");
    for file in there {
        std::fs::remove_file(place.file(&file)).expect("removed");
    }
    let (said, _) = record(&["--max-files", "2", "--json"]);
    let last: serde_json::Value =
        serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["messages"], &last["files"]), (&15.into(), &files(&[3, 4]).into()));
    for file in files(&[3, 4]) {
        std::fs::remove_file(place.file(&file)).expect("removed");
    }
    let (_, said) = record(&["--max-files", "2"]);
    let told = "in 2 files (out_3.mcap to out_4.mcap; older ones are removed)\n";
    assert!(said.ends_with(told), "{said}");
}

/// Each file ends with the group in which it gets older than that: also one that holds events alone.
#[test]
fn the_end_names_files_without_messages_too() {
    let place = Place::new("told-empty");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    for (name, messages) in [("t", 3), ("none", 0)] {
        let out = format!("{name}.mcap");
        let args = [name, "-o", &out, "--split", "1ns", "--flush", "1ms"];
        let record = |more: &[&str]| {
            let is_ready = || {
                let files = place.files(&format!("{name}_")).len();
                files > 1 && (name == "none" || topic.subscribers().len() == 1)
            };
            let mut is_sent = false;
            told_by(&place, &[&args[..], more].concat(), || {
                if is_ready() && !std::mem::replace(&mut is_sent, true) {
                    let numbers = 0..messages;
                    numbers.for_each(|at| {
                        publisher.publish(&message(at, 64)).map(drop).expect("published");
                    });
                }
                is_sent
            })
        };
        let (said, _) = record(&["--json"]);
        let there = place.files(&format!("{name}_"));
        let last: serde_json::Value =
            serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
        assert_eq!(last["messages"], messages);
        let named = last["files"].as_array().expect("files").iter();
        let mut named: Vec<_> =
            named.map(|file| place.file(file.as_str().expect("a name"))).collect();
        named.sort();
        assert_eq!(named, there);
        assert!(there.contains(&place.file(&format!("{name}_0.mcap"))), "{there:?}");
        there.iter().for_each(|file| std::fs::remove_file(file).expect("removed"));
        let (_, said) = record(&[]);
        let count = place.files(&format!("{name}_")).len();
        let told = format!(" in {count} files ({name}_0.mcap to {name}_");
        assert!(said.contains(&told), "{count}: {said}");
    }
}

#[test]
fn a_folder_that_is_not_there_is_told_before_a_domain_is_waited_for() {
    let place = Place::new("no-folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-record"));
    command.args(["--all", "-o", "no/folder/out.mcap", "--domain"]).arg(place.file("later"));
    let ended = command.current_dir(&place.folder).output().expect("starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(6), "{said}");
    assert!(said.contains("no/folder/out.mcap") && !said.contains("waiting"), "{said}");
}

#[test]
fn help_is_a_command_and_options_behind_dashes_are_refused() {
    let place = Place::new("usage");
    let asked = |args: &[&str]| {
        let output = place.command(args).output().expect("starts");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let (code, said) = asked(&["help", "stop"]);
    assert!(code == Some(0) && said.contains("Finish a recorder's file"), "{said}");
    let (code, said) = asked(&["help"]);
    assert!(code == Some(0) && said.contains("record -o FILE.mcap -- stop"), "{said}");
    let (code, said) = asked(&["--", "stop", "-o", "out.mcap"]);
    assert!(code == Some(2) && said.contains("'-o' stands behind '--'"), "{said}");
    let (code, said) = asked(&["--all", "--split", "1"]);
    assert!(code == Some(2) && said.contains("64K") && said.contains("10m"), "{said}");
    let (code, said) = asked(&["--all", "-o", "s.mcpa"]);
    assert!(code == Some(2) && said.contains("as in s.mcap"), "{said}");
    assert_eq!(place.files(""), [place.file("domain")]);
}

#[test]
fn a_second_recorder_of_a_name_is_told_which_one_runs() {
    let place = Place::new("twice");
    let _topic = Topic::<[u8]>::options().depth(64).open_or_create(&place.domain, "t");
    let first = place.record(&["t", "--as", "night"], 1);
    let second = place.command(&["t", "--as", "night", "-o", "b.mcap"]).output().expect("starts");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(12), "{said}");
    let told = format!("a recorder 'night' runs already (process {})", first.0.id());
    assert!(said.contains(&told) && said.contains("--as") && !said.contains("server"), "{said}");
    assert!(!place.file("b.mcap").exists());
    let nowhere = place.command(&["t", "-o", "no/folder/b.mcap"]).output().expect("starts");
    assert_eq!(nowhere.status.code(), Some(6));
    first.end();
}

#[test]
fn of_living_and_killed_recorders_the_living_one_is_meant() {
    let place = Place::new("which");
    let _topic = Topic::<[u8]>::options().depth(64).open_or_create(&place.domain, "t");
    let asked = |args: &[&str]| {
        let output = place.command(args).output().expect("starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let mut killed = ["a", "b"].map(|name| {
        let recording = place.record(&["t", "--as", name], 1);
        assert!(eventually(|| place.tell(&["status", "--as", name]).is_ok()));
        recording
    });
    let (code, said) = asked(&["status"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(&format!("a (process {})", killed[0].0.id())), "{said}");
    killed[0].kill();
    let status = place.tell(&["status"]).expect("the other one");
    assert_eq!(status["pid"], killed[1].0.id());
    let (code, said) = asked(&["status", "--as", "a"]);
    assert_eq!(code, Some(3), "{said}");
    let told = format!("'a' (process {}) was killed", killed[0].0.id());
    assert!(said.contains(&told) && said.contains("record stop --as a"), "{said}");
    killed[1].kill();
    let (code, said) = asked(&["status"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no recorder runs here"), "{said}");
    place.tell(&["stop", "--as", "b"]).expect("given up");
    // It is the only one that has left something.
    assert_eq!(place.tell(&["stop"]).expect("given up")["state"], "removed");
    assert_eq!(asked(&["status"]).0, Some(6));
}
