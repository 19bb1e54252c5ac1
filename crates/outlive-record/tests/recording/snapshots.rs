//! The flight recorder: what it keeps, what it writes, and what is there when it has been killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive::rpc::{CallError, Service};
use outlive::topic::{Publisher, Topic};

use crate::support::{Contents, Place, Recording, eventually, message, number, signal, stop};

/// A recorder that keeps more than a test lasts.
const KEEPS: [&str; 7] = ["--all", "--as", "box", "--snapshot", "1h,64M", "--patience", "1h"];

fn topic(place: &Place, depth: u32) -> (Topic<[u8]>, Publisher) {
    let topic = Topic::<[u8]>::options().depth(depth).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    (topic, publisher)
}

fn publish(publisher: &Publisher, numbers: std::ops::Range<u64>, len: usize) {
    for at in numbers {
        publisher.publish(&message(at, len)).map(drop).expect("published");
    }
}

/// The numbers in a snapshot, which is whole, has its event at the end, and no gap.
fn numbers(file: &Path) -> Vec<u64> {
    let contents = Contents::of(file);
    assert!(contents.is_whole, "{}", file.display());
    let events = contents.events("snapshot");
    // Also those of snapshots before.
    let own = events.last().expect("it tells of itself");
    let count: usize = contents.topics.values().map(|topic| topic.messages.len()).sum();
    assert_eq!(messages_and_events(own), count, "as other programs count");
    assert_eq!(own["faults"].as_u64(), Some(0));
    let numbers: Vec<u64> = contents.messages("t").iter().map(|one| number(&one.bytes)).collect();
    let gap = numbers.windows(2).find(|two| two[0] + 1 != two[1]);
    assert_eq!(gap, None, "{}", file.display());
    numbers
}

/// How many of both an event counts together.
fn messages_and_events(event: &serde_json::Value) -> usize {
    let count = |key: &str| event[key].as_u64().expect("a number");
    (count("messages") + count("events")) as usize
}

fn file(event: &serde_json::Value) -> PathBuf {
    PathBuf::from(event["file"].as_str().expect("a file"))
}

fn trigger(place: &Place, more: &[&str]) -> PathBuf {
    file(&place.tell(&[&["trigger"], more].concat()).expect("written"))
}

fn window(place: &Place) -> PathBuf {
    place.domain.path().join(".record:box")
}

/// Nothing of a file that is not whole is left.
fn has_no_parts(place: &Place) {
    assert!(place.files(".").is_empty(), "{:?}", place.files("."));
}

#[test]
fn a_snapshot_has_all_that_was_published_before_it() {
    let place = Place::new("snapshot");
    let (_topic, publisher) = topic(&place, 256);
    // Nothing is written before the trigger: the open group is in the snapshot.
    let recording = place.record(&[&KEEPS[..], &["-o", "out.mcap", "--flush", "1h"]].concat(), 1);
    publish(&publisher, 0..100, 64);
    let said = place.tell(&["trigger", "--reason", "because"]).expect("written");
    assert_eq!(
        (said["event"].as_str(), said["reason"].as_str()),
        (Some("snapshot"), Some("because"))
    );
    assert_eq!(numbers(&file(&said)), (0..100).collect::<Vec<_>>());
    let contents = Contents::of(&file(&said));
    let count: usize = contents.topics.values().map(|topic| topic.messages.len()).sum();
    assert_eq!((&said["messages"], messages_and_events(&said)), (&100.into(), count));
    assert_eq!(contents.events("snapshot")[0]["reason"], "because");
    assert_eq!(contents.topics["t"].metadata["outlive.depth"], "256");
    publish(&publisher, 100..150, 64);
    // With a name, and with a signal.
    let named = trigger(&place, &["--as", "box", "-o", "mine.mcap"]);
    assert_eq!(named, place.file("mine.mcap").canonicalize().expect("there"));
    assert_eq!(numbers(&named), (0..150).collect::<Vec<_>>());
    assert_eq!(place.tell(&["trigger", "-o", "mine.mcap"]), Err(1));
    let said = place.command(&["trigger", "-o", "mine.mcap"]).output().expect("starts").stderr;
    assert!(String::from_utf8_lossy(&said).contains("give the snapshot another name"));
    assert_eq!(place.tell(&["trigger", "-o", "../mine.mcap"]), Err(1));
    publish(&publisher, 150..160, 64);
    signal(&recording.0, libc::SIGUSR1);
    assert!(eventually(|| place.files("out_").len() == 2));
    assert_eq!(numbers(&place.files("out_")[1]), (0..160).collect::<Vec<_>>());
    has_no_parts(&place);
    recording.end();
    assert!(!window(&place).exists());
    assert!(!place.file("out.mcap").exists());
    assert!(place.domain.contents().expect("readable").names.iter().all(|name| name == "t"));
}

/// PyPI's `mcap` finds by the index what our own reader reads.
#[test]
fn another_reader_reads_a_snapshot() {
    const READ: &str = "import sys\nfrom mcap.reader import make_reader\n\
        found = make_reader(open(sys.argv[1], 'rb')).iter_messages(topics=['t'])\n\
        print(*[int.from_bytes(message.data[:8], 'little') for _, _, message in found])";
    let named = std::env::var("OUTLIVE_MCAP_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let tried = Command::new(&named).args(["-c", "import mcap"]).stderr(Stdio::null()).status();
    if !tried.is_ok_and(|tried| tried.success()) {
        println!("another_reader_reads_a_snapshot: skipped: no Python here has the package mcap");
        return;
    }
    let place = Place::new("snapshot-py");
    let (_topic, publisher) = topic(&place, 256);
    let recording = place.record(&[&KEEPS[..], &["--compress", "zstd"]].concat(), 1);
    publish(&publisher, 0..200, 5000);
    let file = trigger(&place, &[]);
    let ran = Command::new(named).args(["-c", READ]).arg(file).output().expect("Python runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let found = String::from_utf8(ran.stdout).expect("text");
    let found: Vec<u64> =
        found.split_whitespace().map(|one| one.parse().expect("a number")).collect();
    assert_eq!(found, (0..200).collect::<Vec<_>>());
    recording.end();
}

/// The bytes of all segments, as they are at that moment or a little later.
fn bytes_of(window: &Path) -> u64 {
    let found = std::fs::read_dir(window).expect("there").flatten();
    // One that goes meanwhile is counted or not.
    let found = found.filter(|one| one.file_name().to_string_lossy().starts_with("window_"));
    found.filter_map(|one| Some(one.metadata().ok()?.len())).sum()
}

#[test]
fn the_window_keeps_to_its_room_and_to_its_span() {
    let place = Place::new("bounds");
    let (_topic, publisher) = topic(&place, 64);
    let bounds = ["--all", "--as", "box", "--snapshot", "1h,1M", "--flush", "1ms"];
    let recording = place.record(&bounds, 1);
    let most = (1 << 20) + (1 << 16);
    // Snapshots are written meanwhile; none has a gap.
    let mut asks = Vec::new();
    for at in 0..4000 {
        if at % 250 == 100 {
            let ask = place.command(&["trigger"]).stdout(Stdio::null()).spawn();
            asks.push(Recording(ask.expect("starts")));
        }
        publish(&publisher, at..at + 1, 4000);
        if at % 8 == 0 {
            let bytes = bytes_of(&window(&place));
            assert!(bytes <= most, "{bytes} of {most}");
        }
        if at % 500 == 499 {
            let found = numbers(&trigger(&place, &[]));
            assert_eq!(found.last(), Some(&at));
            assert!(found.len() < 140, "{}", found.len());
        }
    }
    asks.iter_mut().for_each(|ask| assert!(ask.wait().success()));
    assert!(place.files("box_").iter().filter(|file| numbers(file).len() > 50).count() >= 8);
    recording.end();
    let recording = place.record(&["--all", "--as", "box", "--snapshot", "200ms,64M"], 1);
    let mut at = 0;
    let has_left = || {
        publish(&publisher, at..at + 1, 64);
        at += 1;
        // On a slow machine the last one may be too old as well.
        numbers(&trigger(&place, &[])).first().is_none_or(|first| *first > 0)
    };
    assert!(eventually(has_left), "the first message is never too old");
    recording.end();
}

#[test]
fn what_a_killed_recorder_kept_is_written_and_continued() {
    let place = Place::new("dead");
    let (topic, publisher) = topic(&place, 64);
    let args = [&KEEPS[..], &["-o", "out.mcap", "--flush", "1ms"]].concat();
    let mut recording = place.record(&args, 1);
    assert!(eventually(|| place.tell(&["status"]).is_ok()), "it serves");
    publish(&publisher, 0..300, 64);
    // All but what it had not written is in the window; publishers have no room for more of that.
    recording.kill();
    let found = numbers(&trigger(&place, &["--as", "box"]));
    assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
    assert!(found.len() >= 300 - 64, "{}", found.len());
    // Once more, from the same.
    assert_eq!(numbers(&trigger(&place, &[])), found);
    let recording = place.record(&args, 1);
    publish(&publisher, 300..400, 64);
    assert_eq!(numbers(&trigger(&place, &[])), (0..400).collect::<Vec<_>>());
    // One that stands still does not answer, and what it has written is there.
    stop(&recording.0);
    let found = numbers(&trigger(&place, &["--timeout", "100ms"]));
    assert_eq!(found, (0..400).collect::<Vec<_>>());
    signal(&recording.0, libc::SIGCONT);
    assert!(eventually(|| place.tell(&["status"]).is_ok()));
    // One that was killed leaves it until it is told to go.
    let mut recording = recording;
    recording.kill();
    assert!(window(&place).exists());
    assert_eq!(place.tell(&["stop"]).expect("removed")["state"], "removed");
    assert!(!window(&place).exists());
    assert_eq!(place.tell(&["trigger", "--as", "box"]), Err(6));
    assert_eq!(place.tell(&["stop", "--as", "box"]), Err(6));
    drop(topic);
    has_no_parts(&place);
}

struct OnDrop<'b>(&'b AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A snapshot that is asked for is written, whichever process is killed; each is whole, and the last one has all.
#[test]
fn kills_while_snapshots_are_written_take_nothing() {
    let place = Place::new("snapkills");
    let (topic, _) = topic(&place, 16);
    let args = [&KEEPS[..], &["-o", "out.mcap", "--flush", "2ms"]].concat();
    let mut recording = place.record(&args, 1);
    let (ends, published) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (ends, published, place) = (&ends, &published, &place);
        // Also when an assertion fails.
        let _end = OnDrop(ends);
        scope.spawn(move || {
            let publisher = topic.publisher().expect("a ring");
            let mut at = 0;
            while !ends.load(Ordering::Relaxed) {
                publish(&publisher, at..at + 1, 1000);
                at += 1;
                published.store(at, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for round in 0..25_u64 {
            // Two at once, one of which may find no recorder.
            let asks = [0, 1].map(|_| {
                let mut ask = place.command(&["trigger", "--as", "box"]);
                Recording(ask.stdout(Stdio::null()).spawn().expect("starts"))
            });
            std::thread::sleep(Duration::from_micros(round * 7919 % 41 * 700));
            recording.kill();
            if round % 3 == 0 {
                asks.into_iter().for_each(|mut ask| ask.kill());
                recording = place.record(&args, 1);
            } else {
                recording = place.record(&args, 1);
                for mut ask in asks {
                    let status = ask.wait();
                    assert!(status.success(), "round {round}: {status}");
                }
            }
        }
    });
    let last = trigger(&place, &[]);
    let (found, published) = (numbers(&last), published.load(Ordering::Relaxed));
    assert_eq!((found.first(), found.len() as u64), (Some(&0), published));
    // Notes of asks that were killed are carried out before it ends.
    recording.end();
    let files = place.files("out_");
    // One at least in each round in which the asks were not killed.
    assert!(files.len() >= 16, "{}", files.len());
    for file in files {
        let found = numbers(&file);
        assert_eq!(found.first().copied().unwrap_or(0), 0, "{}", file.display());
    }
    has_no_parts(&place);
}

/// A note that a dead recorder left is carried out by its successor, a file that was written is not written
/// again, and a part of one is.
#[test]
fn a_successor_carries_out_notes() {
    let place = Place::new("notes");
    let (_topic, publisher) = topic(&place, 64);
    let args = [&KEEPS[..], &["-o", "out.mcap", "--flush", "1ms"]].concat();
    let mut recording = place.record(&args, 1);
    assert!(eventually(|| place.tell(&["status"]).is_ok()), "it serves");
    publish(&publisher, 0..50, 64);
    recording.kill();
    for (id, name) in [("1", "one.mcap"), ("2", "two.mcap")] {
        let note = serde_json::json!({"file": place.file(name), "reason": "left", "due": 1});
        std::fs::write(window(&place).join(format!("{id}.note")), note.to_string())
            .expect("written");
    }
    std::fs::write(place.file(".one.mcap.1.part"), b"a part").expect("written");
    std::fs::write(place.file("two.mcap"), b"it is there").expect("written");
    std::fs::write(window(&place).join("3.note"), b"no note").expect("written");
    let recording = place.record(&args, 1);
    let notes = || {
        let found = std::fs::read_dir(window(&place)).expect("there").flatten();
        found.filter(|one| one.file_name().to_string_lossy().ends_with(".note")).count()
    };
    assert!(eventually(|| notes() == 0));
    assert_eq!(numbers(&place.file("one.mcap")), (0..50).collect::<Vec<_>>());
    assert_eq!(std::fs::read(place.file("two.mcap")).expect("there"), b"it is there");
    has_no_parts(&place);
    recording.end();
}

#[test]
fn a_death_is_written_with_what_follows_it() {
    let place = Place::new("death");
    let (_topic, publisher) = topic(&place, 64);
    let first = place.record(&["--all", "-o", "played.mcap"], 1);
    publish(&publisher, 0..20, 64);
    first.end();
    drop(publisher);
    let args = [&KEEPS[..], &["-o", "out.mcap", "--on-death", "--after", "10s"]].concat();
    let recording = place.record(&args, 1);
    let play = ["played.mcap", "--rename", "t=played", "--loop"];
    // Two of them die within the time after the first death.
    let mut players = [0, 1].map(|_| Recording(place.player(&play).spawn().expect("starts")));
    assert!(eventually(|| {
        let played = Topic::<[u8]>::open_as_bytes(&place.domain, "played");
        played.is_ok_and(|topic| topic.subscribers().len() == 1 && topic.publishers().len() == 2)
    }));
    let played = Topic::<[u8]>::open_as_bytes(&place.domain, "played").expect("there");
    let own = played.publisher().expect("a ring");
    own.publish(&message(7, 64)).map(drop).expect("published");
    players.iter_mut().for_each(Recording::kill);
    own.publish(&message(8, 64)).map(drop).expect("published");
    assert!(eventually(|| !place.files("out_").is_empty()));
    let file = &place.files("out_")[0];
    let contents = Contents::of(file);
    assert!(contents.is_whole);
    assert_eq!(contents.events("publisher_died").len(), 2);
    assert!(contents.events("snapshot")[0]["reason"].as_str().expect("text").contains("died"));
    let last = contents.messages("played").last().expect("messages");
    assert_eq!(number(&last.bytes), 8);
    recording.end();
    assert_eq!(place.files("out_").len(), 1);
}

/// A limit on a file's size is what a full disk is. The window's own files and the service's are shorter.
#[test]
fn a_snapshot_without_room_is_told_and_the_recording_goes_on() {
    let place = Place::new("noroom");
    let (topic, publisher) = topic(&place, 16);
    let args = [&KEEPS[..4], &["1h,200M", "-o", "out.mcap", "--json", "--flush", "1ms"]].concat();
    let own = place.command(&args);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 80000; exec \"$0\" \"$@\""]).arg(own.get_program());
    limited.args(own.get_args()).current_dir(&place.folder).stdout(Stdio::null());
    let recording = Recording(limited.spawn().expect("starts"));
    assert!(eventually(|| topic.subscribers().len() == 1));
    publish(&publisher, 0..450, 100_000);
    assert_eq!(place.tell(&["trigger"]), Err(1));
    has_no_parts(&place);
    assert!(place.files("out_").is_empty());
    publish(&publisher, 450..460, 64);
    let goes_on = || place.tell(&["status"]).is_ok_and(|told| told["messages"] == 460);
    assert!(eventually(goes_on));
    recording.end();
}

/// Nothing of the recorder's is where its files would be.
#[test]
fn a_file_of_the_recorders_name_stays() {
    let place = Place::new("stays");
    let (_topic, publisher) = topic(&place, 64);
    std::fs::write(place.file("out.mcap"), b"of a user").expect("written");
    let recording = place.record(&[&KEEPS[..], &["-o", "out.mcap"]].concat(), 1);
    publish(&publisher, 0..5, 64);
    assert_eq!(numbers(&trigger(&place, &[])), (0..5).collect::<Vec<_>>());
    assert_eq!(place.tell(&["trigger", "-o", "out.mcap"]), Err(1));
    recording.end();
    assert_eq!(std::fs::read(place.file("out.mcap")).expect("there"), b"of a user");
    // A recorder of files refuses it, and does nothing.
    let recording = place.record(&["--all", "--as", "files", "-o", "files.mcap"], 1);
    publish(&publisher, 5..10, 64);
    assert!(eventually(|| place.tell(&["status", "--as", "files"]).is_ok()));
    assert_eq!(place.tell(&["trigger", "--as", "files"]), Err(1));
    recording.end();
    assert_eq!(place.files("files"), [place.file("files.mcap")]);
    assert_eq!(Contents::of(&place.file("files.mcap")).messages("t").len(), 5);
}

/// A client may ask as often as it likes; what is under way is one snapshot.
#[test]
fn one_snapshot_is_written_at_a_time() {
    let place = Place::new("busy");
    let (_topic, publisher) = topic(&place, 64);
    let recording = place.record(&[&KEEPS[..], &["-o", "out.mcap"]].concat(), 1);
    publish(&publisher, 0..30, 64);
    assert!(eventually(|| place.tell(&["status"]).is_ok()));
    let service = Service::open_as_bytes(&place.domain, "record:box").expect("there");
    let client = service.client().expect("a client");
    // All are there when it looks.
    stop(&recording.0);
    let calls: Vec<_> =
        (0..8).map(|_| client.begin(br#"{"do":"trigger"}"#).expect("begun")).collect();
    signal(&recording.0, libc::SIGCONT);
    let mut written = 0;
    for call in calls {
        match call.wait() {
            Ok(_) => written += 1,
            Err(CallError::Failed(why)) => assert!(why.starts_with("busy"), "{why}"),
            Err(other) => panic!("{other}"),
        }
    }
    assert!((1..8).contains(&written), "{written}");
    assert_eq!(place.files("out_").len(), written);
    // The command asks again until it has its snapshot.
    let asks: Vec<_> =
        (0..4).map(|_| place.command(&["trigger"]).spawn().expect("starts")).collect();
    for ask in asks {
        assert!(Recording(ask).wait().success());
    }
    recording.end();
    assert_eq!(place.files("out_").len(), written + 4);
}

/// A memory file system, which is gone when the test ends.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Small> {
        use rustix::mount::{MountFlags, mount};
        std::fs::create_dir_all(at).expect("made");
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        match mount("tmpfs", at, "tmpfs", flags, Some(c"size=16m,mode=0700")) {
            Ok(()) => Some(Small(at.to_owned())),
            Err(errno) => {
                println!("skipped: no file system may be mounted here ({errno})");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A note takes a page, and the file that says where snapshots go takes another: the oldest seconds give way.
#[test]
fn full_memory_shortens_the_window_and_takes_no_snapshot() {
    let mut place = Place::new("small");
    let Some(small) = Small::mount(&place.file("small")) else { return };
    place.domain = Domain::open_or_create_at(small.0.join("domain")).expect("made");
    let topic = Topic::<[u8]>::options().depth(16).reliable(true).max_bytes(1 << 20);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let args =
        ["--all", "--as", "box", "--snapshot", "1h,4M", "--patience", "1h", "--flush", "1ms"];
    let args = [&args[..], &["-o", "out.mcap"]].concat();
    let mut recording = place.record(&args, 1);
    publish(&publisher, 0..400, 4000);
    // The rest of it, to the last page.
    let rest = || {
        let rest = std::fs::OpenOptions::new().create(true).append(true).open(small.0.join("rest"));
        let mut rest = rest.expect("a file");
        while std::io::Write::write(&mut rest, &[1; 4096]).is_ok_and(|len| len > 0) {}
    };
    let is_written = |count: usize| {
        assert!(eventually(|| place.files("out_").len() == count), "snapshot {count}");
        let found = numbers(&place.files("out_")[count - 1]);
        assert!(found.len() > 20, "{}", found.len());
        assert_eq!(found.last(), Some(&399));
    };
    assert!(eventually(|| place.tell(&["status"]).is_ok_and(|told| told["messages"] == 400)));
    rest();
    signal(&recording.0, libc::SIGUSR1);
    is_written(1);
    // A successor writes down where its snapshots go.
    recording.kill();
    rest();
    let recording = place.record(&args, 1);
    signal(&recording.0, libc::SIGUSR1);
    is_written(2);
    drop(recording);
}

/// Stray writes into the window: the recorder begins anew, and a snapshot tells.
#[test]
fn segments_that_are_damaged_are_told_and_passed_over() {
    let place = Place::new("hostile");
    let (_topic, publisher) = topic(&place, 64);
    let args = [&KEEPS[..], &["-o", "out.mcap", "--flush", "1ms"]].concat();
    let mut recording = place.record(&args, 1);
    publish(&publisher, 0..50, 64);
    trigger(&place, &[]);
    publish(&publisher, 50..100, 64);
    assert_eq!(numbers(&trigger(&place, &[])).len(), 100);
    recording.kill();
    // An earlier one: the rest is read.
    std::fs::write(window(&place).join("window_1.mcap"), [0xff; 1000]).expect("written");
    let said = place.tell(&["trigger"]).expect("written");
    assert_eq!(said["faults"], 1);
    let contents = Contents::of(&file(&said));
    assert!(contents.is_whole && !contents.messages("t").is_empty());
    // The last one: where its recorder was is not known.
    for wrong in [&b"no segment at all"[..], &[0xff; 100], b"\x89MCAP1\r\n"] {
        let mut last = (0..).map(|number| window(&place).join(format!("window_{number}.mcap")));
        let next = last.position(|path| !path.exists()).expect("there is an end");
        let last = window(&place).join(format!("window_{}.mcap", next.max(1) - 1));
        std::fs::write(last, wrong).expect("written");
        let mut recording = place.record(&args, 1);
        publish(&publisher, 0..10, 64);
        let contents = Contents::of(&trigger(&place, &[]));
        assert_eq!(contents.events("window_dropped").len(), 1);
        assert_eq!(contents.messages("t").len(), 10);
        recording.kill();
    }
    // What is in the way of the folder, or in it, is no reason to hang or to panic.
    std::fs::remove_dir_all(window(&place)).expect("removed");
    std::fs::write(window(&place), b"a file").expect("written");
    let mut refused = place.command(&args);
    assert_eq!(refused.stderr(Stdio::null()).status().expect("starts").code(), Some(9));
    assert_eq!(place.tell(&["trigger", "--as", "box"]), Err(9));
}

/// The domain does not see it: lists, sweeps, watches.
#[test]
fn the_window_is_no_thing_of_the_domain() {
    let place = Place::new("foreign");
    let (_topic, publisher) = topic(&place, 64);
    let mut recording = place.record(&KEEPS, 1);
    publish(&publisher, 0..10, 64);
    trigger(&place, &[]);
    let mut watch = place.domain.watch();
    watch.changed().expect("the first report");
    // Segments come and go.
    publish(&publisher, 10..20, 64);
    trigger(&place, &[]);
    let names = place.domain.contents().expect("readable").names;
    assert_eq!(names, ["record:box", "t"]);
    assert!(place.domain.entries().expect("listed").iter().all(|entry| entry.kind.is_ok()));
    recording.kill();
    assert!(eventually(|| place.domain.sweep(false).expect("swept").failed.is_empty()));
    assert!(window(&place).exists());
    assert!(Domain::open_at(place.domain.path()).is_ok());
}

/// A recorder that dies between writing and acknowledging: its successor knows by the positions of the last
/// segment what the window has.
#[test]
fn a_successor_passes_over_what_the_window_has() {
    let place = Place::new("positions");
    let (topic, publisher) = topic(&place, 64);
    let args = [&KEEPS[..], &["-o", "out.mcap", "--flush", "1h"]].concat();
    let mut recording = place.record(&args, 1);
    assert!(eventually(|| place.tell(&["status"]).is_ok()), "it serves");
    publish(&publisher, 0..10, 64);
    recording.kill();
    // As if it had written the first four.
    let path = window(&place).join("window_0.mcap");
    let (mut writer, mut tail) =
        outlive_mcap::Writer::<Vec<u8>>::resume(path, outlive_mcap::Options::default())
            .expect("resumed");
    for ring in 0..4 {
        let key = format!("{:016x}.{ring}", topic.instance().expect("readable"));
        tail.positions.insert(key, "4".to_owned());
    }
    writer.flush(&tail.positions).expect("written");
    drop(writer);
    let recording = place.record(&args, 1);
    assert_eq!(numbers(&trigger(&place, &[])), (4..10).collect::<Vec<_>>());
    recording.end();
}

/// What is being copied stays until it is, however much comes meanwhile.
#[test]
fn nothing_leaves_a_window_that_is_being_copied() {
    let place = Place::new("copied");
    let (_topic, publisher) = topic(&place, 8);
    let args = ["--all", "--as", "box", "--snapshot", "1h,64M", "--compress", "zstd"];
    let recording = place.record(&[&args[..], &["-o", "out.mcap"]].concat(), 1);
    let noise = |from: u64, to: u64| {
        for at in from..to {
            let mut bytes = vec![0; 1 << 20];
            let mut word = at + 1;
            for part in bytes.chunks_exact_mut(8) {
                // xorshift: bytes that take their time to be packed, and get no shorter.
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                part.copy_from_slice(&word.to_le_bytes());
            }
            bytes[..8].copy_from_slice(&at.to_le_bytes());
            publisher.publish(&bytes).map(drop).expect("published");
        }
    };
    noise(0, 24);
    let ask = place.command(&["trigger", "--json"]).stdout(Stdio::piped()).spawn().expect("starts");
    // Until the snapshot has begun, nothing may push the first ones out.
    assert!(eventually(|| !place.files(".").is_empty() || !place.files("out_").is_empty()));
    noise(24, 90);
    let said = ask.wait_with_output().expect("a child");
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let contents = Contents::of(&file(&said));
    let found = contents.messages("t").iter();
    let found = found.map(|one| u64::from_le_bytes(one.bytes[..8].try_into().expect("8 bytes")));
    assert_eq!(found.collect::<Vec<_>>(), (0..24).collect::<Vec<_>>());
    assert_eq!(said["faults"], 0);
    recording.end();
}

/// Segments end while messages wait to be written.
#[test]
fn nothing_is_missing_where_short_segments_meet() {
    let place = Place::new("meet");
    let (_topic, publisher) = topic(&place, 64);
    // A segment for each 50 ms, in which a group waits for longer.
    let args = ["--all", "--as", "box", "--snapshot", "400ms,64M", "--flush", "80ms"];
    let recording = place.record(&args, 1);
    for at in 0..600 {
        let published = Instant::now();
        publish(&publisher, at..at + 1, 64);
        std::thread::sleep(Duration::from_millis(1));
        if at % 100 == 99 {
            let found = numbers(&trigger(&place, &[]));
            // A busy machine may take it longer than what is kept.
            let is_kept = published.elapsed() < Duration::from_millis(350);
            assert!(found.last() == Some(&at) || !is_kept, "{at}: {:?}", found.last());
        }
    }
    recording.end();
}
