//! Files that are there, names that are taken, disks that are full, files that are too many.

use std::process::Stdio;

use outlive::topic::Topic;

use crate::support::{Contents, Place, Recording, message, number};

fn fails(place: &Place, args: &[&str]) -> (i32, String) {
    let mut command = place.command(args);
    let output = command.stdout(Stdio::null()).output().expect("starts");
    let text = String::from_utf8(output.stderr).expect("text");
    (output.status.code().expect("no signal"), text)
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let place = Place::new("there");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    publisher.publish(&message(0, 64)).map(drop).expect("published");
    let args = ["--all", "-o", "out.mcap"];
    for round in 0..3 {
        let more = if round == 0 { vec![] } else { vec!["--resume"] };
        let recording = place.record(&[&args[..], &more[..]].concat(), 1);
        publisher.publish(&message(round, 64)).map(drop).expect("published");
        let (code, text) = fails(&place, &[&args[..], &["--resume"]].concat());
        let told = format!("process {} writes", recording.0.id());
        assert!(code == 12 && text.contains(&told), "{code}: {text}");
        recording.end();
        let (code, text) = fails(&place, &args);
        assert!(code == 12 && text.contains("--resume"), "{code}: {text}");
    }
    let contents = Contents::of(&place.file("out.mcap"));
    let numbers: Vec<u64> =
        contents.messages("t").iter().map(|found| number(&found.bytes)).collect();
    assert_eq!(numbers, [0, 1, 2]);
    std::fs::write(place.file("not.mcap"), b"something else").expect("written");
    let (code, text) = fails(&place, &["--all", "-o", "not.mcap", "--resume"]);
    assert!(code == 16 && text.contains("not an MCAP file"), "{code}: {text}");
}

#[test]
fn a_name_has_one_recorder() {
    let place = Place::new("name");
    let _topic = Topic::<[u8]>::open_or_create(&place.domain, "t").expect("made");
    let recording = place.record(&["--all", "--as", "rec"], 1);
    let (code, text) = fails(&place, &["--all", "--as", "rec", "-o", "other.mcap"]);
    assert!(code == 12 && text.contains(&recording.0.id().to_string()), "{code}: {text}");
    assert!(!place.file("other.mcap").exists(), "it has made a file in vain");
    recording.end();
    assert!(place.file("rec.mcap").exists());
}

/// A limit on a file's size is what a full disk is to the writer.
#[test]
fn a_full_disk_ends_it_and_damages_nothing() {
    let place = Place::new("full");
    let topic = Topic::<[u8]>::options().depth(16).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let own = place.command(&["--all", "-o", "out.mcap", "--flush", "10ms"]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 200; exec \"$0\" \"$@\""]).arg(own.get_program());
    limited.args(own.get_args()).current_dir(&place.folder);
    let mut recording = Recording(limited.stderr(Stdio::piped()).spawn().expect("starts"));
    assert!(crate::support::eventually(|| topic.subscribers().len() == 1));
    let mut count = 0;
    // Publishers go on when it has ended.
    while recording.0.try_wait().expect("a child").is_none() || count < 100 {
        publisher.publish(&message(count, 5000)).map(drop).expect("published");
        count += 1;
    }
    assert_eq!(recording.wait().code(), Some(10));
    let mut told = String::new();
    let stderr = recording.0.stderr.as_mut().expect("a pipe");
    std::io::Read::read_to_string(stderr, &mut told).expect("read");
    assert!(told.contains("--resume") && told.contains("bag recover --in-place"), "{told}");
    let contents = Contents::of(&place.file("out.mcap"));
    let numbers: Vec<u64> =
        contents.messages("t").iter().map(|found| number(&found.bytes)).collect();
    assert!(numbers.len() > 3, "{numbers:?}");
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    // Without the limit it goes on.
    let recording = place.record(&["--all", "-o", "out.mcap", "--resume"], 1);
    publisher.publish(&message(7, 64)).map(drop).expect("published");
    recording.end();
    assert!(Contents::of(&place.file("out.mcap")).is_whole);
}

#[test]
fn the_oldest_files_are_removed() {
    let place = Place::new("oldest");
    let topic = Topic::<[u8]>::options().depth(16).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let args = ["--all", "-o", "out.mcap", "--split", "100K", "--max-files", "3", "--flush", "1ms"];
    let recording = place.record(&args, 1);
    for at in 0..1000 {
        publisher.publish(&message(at, 2000)).map(drop).expect("published");
    }
    recording.end();
    let names = std::fs::read_dir(&place.folder).expect("there").flatten();
    let mut numbers: Vec<u32> = names
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_prefix("out_")?.strip_suffix(".mcap")?.parse().ok()
        })
        .collect();
    numbers.sort_unstable();
    let last = numbers.last().copied().expect("files");
    assert!(last > 3);
    assert_eq!(numbers, [last - 2, last - 1, last]);
    let mut next = None;
    for number_of in numbers {
        let contents = Contents::of(&place.file(&format!("out_{number_of}.mcap")));
        assert!(contents.is_whole);
        for found in contents.messages("t") {
            let number = number(&found.bytes);
            assert!(next.is_none_or(|next| next == number), "no gap at a seam");
            next = Some(number + 1);
        }
    }
    assert_eq!(next, Some(1000));
}
