//! Each message is in the file, lost, or skipped, once, whatever the recorder could read, was told, or was killed in.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::topic::{Publisher, Topic};

use crate::kinds::Other;
use crate::support::{
    Contents, LONG, Place, await_stop, eventually, has, message, numbers, publish, serves, signal,
    stop, told, topic,
};

const NAMED: [&str; 7] = ["--all", "--as", "rec", "-o", "out.mcap", "--flush", "5ms"];

/// A thing of another version of the memory's layout cannot be read. It can be again when this goes.
struct Unreadable {
    file: File,
    version: [u8; 4],
}

impl Unreadable {
    fn make(place: &Place, name: &str) -> Unreadable {
        let path = place.domain.path().join(name);
        let file = File::options().read(true).write(true).open(path).expect("there");
        let mut version = [0; 4];
        file.read_exact_at(&mut version, 8).expect("read");
        file.write_all_at(&u32::MAX.to_le_bytes(), 8).expect("written");
        Unreadable { file, version }
    }
}

impl Drop for Unreadable {
    fn drop(&mut self) {
        self.file.write_all_at(&self.version, 8).expect("written");
    }
}

fn contents(place: &Place, file: &str) -> Contents {
    Contents::of(&place.file(file))
}

/// How many of a channel are in the files, lost, and skipped.
fn sums(place: &Place, channel: &str) -> [u64; 3] {
    let mut sums = [0; 3];
    for file in place.files("out") {
        let contents = Contents::of(&file);
        sums[0] += contents.messages(channel).len() as u64;
        sums[1] += told(&contents, "lost", channel);
        sums[2] += told(&contents, "skipped", channel);
    }
    sums
}

#[test]
fn what_a_thing_had_that_could_not_be_read_counts_nowhere_through_a_kill() {
    let place = Place::new("account-unread");
    let _other = topic(&place, "a");
    let topic = topic(&place, "t");
    let publisher = topic.publisher().expect("a ring");
    publish(&publisher, 0..1000);
    let queue = Queue::<[u8]>::options().max_messages(64).create_new(&place.domain, "q");
    let queue = queue.expect("made");
    let (sender, mut receiver) = (queue.sender().expect("one"), queue.receiver().expect("none"));
    for at in 0..500 {
        sender.send(&message(at, 64)).expect("room");
        receiver.recv().map(drop).expect("there");
    }
    let unreadable = ["t", "q"].map(|name| Unreadable::make(&place, name));
    let args = [&NAMED[..], &["--queues"]].concat();
    let mut recorder = place.record(&args, 1);
    serves(&place);
    assert_eq!(place.tell(&["status", "--as", "rec"]).expect("told")["refused"], 2);
    recorder.kill();
    // A successor that cannot read them either, and one that can.
    let mut recorder = place.record(&args, 1);
    serves(&place);
    recorder.kill();
    drop(unreadable);
    let recorder = place.record(&args, 2);
    serves(&place);
    publish(&publisher, 1000..1003);
    has(&place, "out.mcap", "t", 1002);
    recorder.end();
    assert_eq!(sums(&place, "t"), [3, 0, 0]);
    assert_eq!(sums(&place, "queue/q"), [0, 0, 0]);
}

#[test]
fn a_topic_made_anew_under_the_name_of_one_that_could_not_be_read_counts() {
    for is_killed in [false, true] {
        let place = Place::new("account-anew");
        let _other = topic(&place, "a");
        drop(topic(&place, "t"));
        let unreadable = Unreadable::make(&place, "t");
        let mut recorder = place.record(&NAMED, 1);
        serves(&place);
        match is_killed {
            true => recorder.kill(),
            false => stop(&recorder.0),
        }
        std::fs::remove_file(place.domain.path().join("t")).expect("removed");
        drop(unreadable);
        let topic = topic(&place, "t");
        publish(&topic.publisher().expect("a ring"), 0..100);
        match is_killed {
            true => recorder = place.record(&NAMED, 2),
            false => signal(&recorder.0, libc::SIGCONT),
        }
        has(&place, "out.mcap", "t", 99);
        recorder.end();
        assert_eq!(sums(&place, "t"), [16, 84, 0], "killed: {is_killed}");
    }
}

/// Both recorders want them, each with a selection of its own, and the second one could not read them at first.
#[test]
fn what_was_sent_between_two_selections_is_skipped_of_what_the_first_had_and_counts_nowhere_else() {
    let place = Place::new("account-two-selections");
    let (_other, first, second) = (topic(&place, "a"), topic(&place, "t"), topic(&place, "u"));
    let publishers = [&first, &second].map(|topic| topic.publisher().expect("a ring"));
    let begin = |topics: &[&str], names: &str| {
        let args = [topics, &["--as", "rec", "-o", "out.mcap", "--flush", "5ms"], &["--resume"]];
        let recorder = place.record(&args.concat(), names.split(' ').count());
        serves(&place);
        recorder
    };
    publish(&publishers[1], 0..10);
    let recorder = begin(&["a", "t"], "a t");
    publish(&publishers[0], 0..10);
    has(&place, "out.mcap", "t", 9);
    recorder.end();
    publishers.iter().for_each(|publisher| publish(publisher, 10..110));
    let unreadable = ["t", "u"].map(|name| Unreadable::make(&place, name));
    let mut recorder = begin(&["a", "t", "u"], "a");
    recorder.kill();
    let recorder = begin(&["a", "t", "u"], "a");
    drop(unreadable);
    assert!(eventually(|| [&first, &second].iter().all(|topic| topic.subscribers().len() == 1)));
    publishers.iter().for_each(|publisher| publish(publisher, 110..111));
    ["t", "u"].iter().for_each(|name| has(&place, "out.mcap", name, 110));
    recorder.end();
    let [found, lost, skipped] = sums(&place, "t");
    assert_eq!((found + skipped, lost), (111, 0), "{found} are there");
    assert!(skipped > 0, "more were sent than the ring has");
    // No recorder was to record what the first one did not want.
    assert_eq!(sums(&place, "u"), [1, 0, 0]);
}

/// Made anew after a stop, so all that it has then is to be skipped, also by a recorder with another selection.
#[test]
fn a_topic_made_anew_behind_a_stop_is_skipped_through_a_change_of_the_selection() {
    let place = Place::new("account-anew-selections");
    let (_other, _third) = (topic(&place, "a"), topic(&place, "u"));
    drop(topic(&place, "t"));
    let more = ["--as", "rec", "-o", "out.mcap", "--flush", "5ms", "--resume"];
    let recorder = place.record(&[&["a", "t"], &more[..]].concat(), 2);
    serves(&place);
    place.tell(&["stop", "--as", "rec"]).expect("stopped");
    std::fs::remove_file(place.domain.path().join("t")).expect("removed");
    let topic = topic(&place, "t");
    let publisher = topic.publisher().expect("a ring");
    publish(&publisher, 0..100);
    let unreadable = Unreadable::make(&place, "t");
    place.tell(&["start", "--as", "rec"]).expect("started");
    let mut recorder = recorder;
    recorder.kill();
    drop(unreadable);
    let last = place.files("out").pop().expect("a file");
    let last = last.file_name().expect("a name").to_str().expect("text");
    let more = ["--as", "rec", "-o", last, "--flush", "5ms", "--resume"];
    let recorder = place.record(&[&["a", "t", "u"], &more[..]].concat(), 3);
    serves(&place);
    assert!(eventually(|| topic.subscribers().len() == 1));
    publish(&publisher, 100..101);
    has(&place, last, "t", 100);
    recorder.end();
    assert_eq!(sums(&place, "t"), [1, 0, 100]);
}

/// Its words can be read, or not, at the start.
#[test]
fn what_was_sent_before_a_start_that_could_not_open_the_topic_is_skipped() {
    let place = Place::new("account-refused");
    let topic = Topic::<[u8]>::options().max_subscribers(1).depth(16);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let recorder = place.record(&NAMED, 1);
    serves(&place);
    publish(&publisher, 0..10);
    has(&place, "out.mcap", "t", 9);
    place.tell(&["stop", "--as", "rec"]).expect("stopped");
    let other = topic.subscriber().expect("a slot");
    publish(&publisher, 10..110);
    let status = place.tell(&["start", "--as", "rec"]).expect("started");
    assert_eq!(status["refused"], 1);
    drop(other);
    assert!(eventually(|| topic.subscribers().len() == 1));
    publish(&publisher, 110..111);
    has(&place, "out_1.mcap", "t", 110);
    assert_eq!(sums(&place, "t"), [11, 0, 100]);
    place.tell(&["stop", "--as", "rec"]).expect("stopped");
    let unreadable = Unreadable::make(&place, "t");
    let status = place.tell(&["start", "--as", "rec"]).expect("started");
    assert_eq!(status["refused"], 1);
    drop(unreadable);
    assert!(eventually(|| topic.subscribers().len() == 1));
    publish(&publisher, 111..112);
    has(&place, "out_2.mcap", "t", 111);
    recorder.end();
    assert_eq!(sums(&place, "t"), [12, 0, 100]);
}

#[test]
fn messages_that_expire_before_they_are_taken_are_lost() {
    let place = Place::new("account-expired");
    let topic = Topic::<[u8]>::options().depth(16).stamps(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let lifespan = Publisher::options().lifespan(Duration::from_millis(20));
    let publisher = topic.publisher_with(lifespan).expect("a ring");
    let recorder = place.record(&NAMED, 1);
    serves(&place);
    stop(&recorder.0);
    publish(&publisher, 0..100);
    std::thread::sleep(Duration::from_millis(200));
    signal(&recorder.0, libc::SIGCONT);
    assert!(eventually(|| sums(&place, "t").iter().sum::<u64>() == 100), "{:?}", sums(&place, "t"));
    recorder.end();
    let [found, lost, skipped] = sums(&place, "t");
    assert_eq!((found + lost, skipped), (100, 0));
}

/// The one in between does not want the topic, and gives up the place there.
#[test]
fn what_was_sent_while_a_recorder_of_other_topics_ran_is_skipped() {
    let place = Place::new("account-selections");
    let (_first, second) = (topic(&place, "first"), topic(&place, "second"));
    let publisher = second.publisher().expect("a ring");
    let more = ["-o", "out.mcap", "--as", "rec", "--flush", "5ms"];
    let both = [&["first", "second"], &more[..]].concat();
    let mut recorder = place.record(&both, 2);
    serves(&place);
    publish(&publisher, 0..5);
    has(&place, "out.mcap", "second", 4);
    recorder.kill();
    // Lost: the dead one was to record them, and the next one does not want them.
    publish(&publisher, 5..12);
    let mut recorder = place.record(&[&["first"], &more[..]].concat(), 1);
    serves(&place);
    assert_eq!(second.kept().len(), 0, "publishers wait for none");
    publish(&publisher, 12..112);
    recorder.kill();
    let recorder = place.record(&both, 2);
    serves(&place);
    publish(&publisher, 112..115);
    has(&place, "out.mcap", "second", 114);
    recorder.end();
    assert_eq!(sums(&place, "second"), [5 + 3, 7, 100]);
}

/// Stopped is what the last group says, whether or not the file has its index.
#[test]
fn one_that_was_killed_before_the_index_of_a_stopped_file_goes_on_in_the_next_one() {
    let place = Place::new("account-index");
    let topic = topic(&place, "t");
    let publisher = topic.publisher().expect("a ring");
    let mut recorder = place.record(&NAMED, 1);
    serves(&place);
    publish(&publisher, 0..10);
    place.tell(&["stop", "--as", "rec"]).expect("stopped");
    publish(&publisher, 10..20);
    recorder.kill();
    let file = File::options().write(true).open(place.file("out.mcap")).expect("there");
    file.set_len(file.metadata().expect("there").len() - 1).expect("cut");
    let recorder = place.record(&NAMED, 1);
    serves(&place);
    publish(&publisher, 20..23);
    recorder.end();
    assert!(contents(&place, "out.mcap").is_whole, "its successor has written the index");
    assert_eq!(numbers(&contents(&place, "out.mcap"), "t"), (0..10).collect::<Vec<_>>());
    assert_eq!(numbers(&contents(&place, "out_1.mcap"), "t"), [20, 21, 22]);
    assert_eq!(sums(&place, "t"), [13, 0, 10]);
}

/// As a kill leaves the file that comes before the first group: empty, or with a header.
#[test]
fn what_was_there_before_a_recorder_that_wrote_no_group_counts_nowhere() {
    for has_header in [false, true] {
        let place = Place::new("account-first");
        let topic = topic(&place, "t");
        let publisher = topic.publisher().expect("a ring");
        publish(&publisher, 0..100);
        let file = place.file("out.mcap");
        match has_header {
            true => {
                let options = outlive_mcap::Options::default();
                drop(outlive_mcap::Writer::<Vec<u8>>::create(&file, options).expect("made"));
            }
            false => std::fs::write(&file, b"").expect("made"),
        }
        let recorder = place.record(&NAMED, 1);
        serves(&place);
        publish(&publisher, 100..103);
        has(&place, "out.mcap", "t", 102);
        recorder.end();
        assert_eq!(sums(&place, "t"), [3, 0, 0], "header: {has_header}");
    }
}

/// The calls that the files tell of.
fn calls(place: &Place) -> u64 {
    let files = place.files("out").into_iter();
    let lines = files.flat_map(|file| {
        let contents = Contents::of(&file);
        let lines = contents.messages("service/c").iter();
        lines
            .map(|line| serde_json::from_slice::<serde_json::Value>(&line.bytes).expect("JSON"))
            .map(|line| line["call"].to_string())
            .collect::<Vec<_>>()
    });
    lines.collect::<std::collections::BTreeSet<_>>().len() as u64
}

/// A service whose server is stopped, and its server.
fn stopped_service(place: &Place) -> (Service<[u8], [u8]>, Other, i32) {
    let service = Service::<[u8], [u8]>::options().create_new(&place.domain, "c").expect("made");
    let server = Other::start(place, "serve");
    assert!(eventually(|| service.current_server().is_some()));
    let pid = service.current_server().expect("there").pid as i32;
    (service, server, pid)
}

fn send(pid: i32, signal: i32) {
    // SAFETY: a child that has not been waited for: its number is its own.
    unsafe { libc::kill(pid, signal) };
    if signal == libc::SIGSTOP {
        await_stop(pid.cast_unsigned());
    }
}

#[test]
fn a_call_that_is_under_way_at_a_start_is_told_and_not_skipped() {
    let place = Place::new("account-call");
    let _topic = topic(&place, "t");
    let (service, _server, pid) = stopped_service(&place);
    let recorder = place.record(&[&NAMED[..], &["--services"]].concat(), 1);
    serves(&place);
    place.tell(&["stop", "--as", "rec"]).expect("stopped");
    service.client().expect("one").call(b"over before the start").map(drop).expect("answered");
    send(pid, libc::SIGSTOP);
    std::thread::scope(|scope| {
        let client = service.client().expect("one");
        scope.spawn(move || client.call_timeout(b"please", LONG).map(drop).expect("answered"));
        assert!(eventually(|| service.calls_made() == 2));
        let status = place.tell(&["start", "--as", "rec"]).expect("started");
        send(pid, libc::SIGCONT);
        assert_eq!(status["skipped"], 1);
    });
    let is_told = || {
        let contents = contents(&place, "out_1.mcap");
        let lines = contents.messages("service/c").iter();
        lines.last().is_some_and(|line| String::from_utf8_lossy(&line.bytes).contains("answered"))
    };
    assert!(eventually(is_told));
    recorder.end();
    let [_, lost, skipped] = sums(&place, "service/c");
    assert_eq!((calls(&place), lost, skipped), (1, 0, 1));
}

#[test]
fn each_of_many_calls_under_way_counts_once_through_a_kill() {
    const CALLS: u64 = 300;
    let place = Place::new("account-calls");
    let _topic = topic(&place, "t");
    let (service, _server, pid) = stopped_service(&place);
    let args = [&NAMED[..], &["--services"]].concat();
    let mut recorder = place.record(&args, 1);
    serves(&place);
    send(pid, libc::SIGSTOP);
    std::thread::scope(|scope| {
        for _ in 0..CALLS {
            let client = service.client().expect("one");
            scope.spawn(move || client.call_timeout(b"please", LONG).map(drop).expect("answered"));
        }
        // In a group with its positions, or not: what a successor looks at is there.
        let is_told = eventually(|| calls(&place) == CALLS);
        recorder.kill();
        recorder = place.record(&args, 1);
        serves(&place);
        send(pid, libc::SIGCONT);
        assert!(is_told);
    });
    recorder.end();
    let lines = contents(&place, "out.mcap");
    let first = lines.messages("service/c").iter();
    let first = first
        .map(|line| serde_json::from_slice::<serde_json::Value>(&line.bytes).expect("JSON"))
        .filter(|line| line["is"] == "waiting" || line["is"] == "begun")
        .map(|line| line["call"].to_string())
        .collect::<Vec<_>>();
    // Some may have been over before the server was stopped.
    assert!(first.len() > 256, "{}", first.len());
    let distinct = first.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(first.len(), distinct, "a successor knows all that are under way");
    assert_eq!(service.calls_made(), CALLS);
    let [_, lost, skipped] = sums(&place, "service/c");
    assert_eq!((calls(&place), lost, skipped), (CALLS, 0, 0));
}

#[test]
fn a_snapshot_that_waits_is_written_when_a_dead_recorder_is_given_up() {
    let place = Place::new("account-note");
    let topic = topic(&place, "t");
    let args = ["--all", "--as", "rec", "-o", "out.mcap", "--snapshot", "60s,8M", "--on-death"];
    let mut recorder = place.record(&args, 1);
    serves(&place);
    publish(&topic.publisher().expect("a ring"), 0..10);
    let folder = place.domain.path().join(".record:rec");
    let is_kept = || {
        let segments = std::fs::read_dir(&folder).expect("there").flatten();
        let mut segments = segments.map(|entry| std::fs::read(entry.path()).unwrap_or_default());
        segments.any(|bytes| bytes.windows(64).any(|bytes| bytes == message(9, 64)))
    };
    assert!(eventually(is_kept));
    // As a recorder writes one when a publisher dies.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let note = serde_json::json!({"file": place.file("death.mcap"), "reason": "a publisher died",
        "due": now + 3_600_000_000_000_u64});
    std::fs::write(folder.join("0000000000000001-1.note"), note.to_string()).expect("written");
    recorder.kill();
    let told = place.tell(&["stop", "--as", "rec"]).expect("given up");
    assert_eq!(told["snapshots"], 1);
    assert!(!folder.exists());
    assert_eq!(numbers(&contents(&place, "death.mcap"), "t"), (0..10).collect::<Vec<_>>());
}

/// A file that is not finished goes on with the recorder that began it, of its name.
#[test]
fn an_unfinished_file_of_another_recorder_is_not_written_on() {
    for args in [&["--all", "-o", "out.mcap"][..], &["--all", "-o", "out.mcap", "--as", "other"]] {
        let place = Place::new("account-another");
        let _topic = topic(&place, "t");
        place.begin(args, "out.mcap").kill();
        let before = std::fs::read(place.file("out.mcap")).expect("there");
        let mut wrong = place.command(&NAMED);
        let status = wrong.stderr(std::process::Stdio::null()).status().expect("starts");
        assert_eq!(status.code(), Some(12));
        assert!(std::fs::read(place.file("out.mcap")).expect("there") == before);
        // Unless it is told to.
        place.record(&[&NAMED[..], &["--resume"]].concat(), 1).end();
        assert!(contents(&place, "out.mcap").is_whole);
    }
}
