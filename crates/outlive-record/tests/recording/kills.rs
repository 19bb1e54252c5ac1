//! The recorder is killed again and again: nothing is missing, nothing is there twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use outlive::topic::Topic;

use crate::support::{Contents, Place, eventually, message, number};

/// What the files have: by publisher the number of its next message.
#[derive(Default)]
struct Found {
    next: BTreeMap<u64, u64>,
    /// The first file that has not been read.
    first: u32,
}

impl Found {
    /// Reads a file, which has each publisher's messages in order, once.
    fn read(&mut self, file: &Path) {
        let contents = Contents::of(file);
        assert!(contents.is_whole, "{}", file.display());
        for topic in ["t0", "t1"] {
            for one in contents.messages(topic) {
                let number = number(&one.bytes);
                let next = self.next.entry(number >> 32).or_default();
                assert_eq!(number & 0xffff_ffff, *next, "of publisher {}", number >> 32);
                *next += 1;
            }
        }
        assert_eq!(contents.events("lost").len(), 0);
    }

    /// Reads those files that no recorder writes any more, and removes them.
    fn read_and_remove(&mut self, place: &Place) {
        let file = |number| place.file(&format!("out_{number}.mcap"));
        while file(self.first + 2).exists() {
            self.read(&file(self.first));
            std::fs::remove_file(file(self.first)).expect("removed");
            self.first += 1;
        }
    }
}

/// How publishers publish.
#[derive(Clone, Copy)]
struct Load {
    lens: [usize; 2],
    pause: Duration,
}

const PAUSE: Duration = Duration::from_micros(50);

/// Publishes on two topics from two publishers each until told to end, while the recorder is killed so
/// often; then each message is in the files once.
fn kill(test: &str, args: &[&str], kills: u32, load: Load) -> Place {
    let mut found = Found::default();
    let Load { lens, pause } = load;
    let place = Place::new(test);
    let topics: Vec<Topic<[u8]>> = (0..2)
        .map(|at| {
            let topic = Topic::<[u8]>::options().depth(16).reliable(true);
            topic.open_or_create(&place.domain, &format!("t{at}")).expect("made")
        })
        .collect();
    let args: Vec<&str> = ["--all", "-o", "out.mcap", "--as", "rec", "--patience", "1h"]
        .iter()
        .chain(args)
        .copied()
        .collect();
    let mut recording = place.record(&args, 2);
    let (ends, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4]);
    std::thread::scope(|scope| {
        for who in 0..4_usize {
            let (topic, ends, count) = (&topics[who % 2], &ends, &counts[who]);
            scope.spawn(move || {
                let publisher = topic.publisher().expect("a ring");
                let mut at = 0;
                while !ends.load(Ordering::Relaxed) {
                    let bytes = message((who as u64) << 32 | at, lens[who % 2]);
                    publisher.publish(&bytes).map(drop).expect("published");
                    at += 1;
                    count.store(at, Ordering::Relaxed);
                    if !pause.is_zero() {
                        std::thread::sleep(pause);
                    }
                }
            });
        }
        for round in 0..kills {
            std::thread::sleep(Duration::from_micros(u64::from(round * 7919 % 40) * 500));
            recording.kill();
            // While none records, so that files do not become more.
            found.read_and_remove(&place);
            // What is there is published while none records.
            recording = place.record(&args, if round % 2 == 0 { 2 } else { 0 });
        }
        assert!(eventually(|| topics.iter().all(|topic| topic.subscribers().len() == 1)));
        ends.store(true, Ordering::Relaxed);
    });
    recording.end();
    for file in files(&place, found.first) {
        found.read(&file);
    }
    let published: BTreeMap<u64, u64> =
        (0..4).map(|who| (who as u64, counts[who].load(Ordering::Relaxed))).collect();
    assert_eq!(found.next, published);
    assert!(published.values().all(|&count| count > 10), "{published:?}");
    place
}

fn files(place: &Place, first: u32) -> Vec<PathBuf> {
    let single = place.file("out.mcap");
    match single.exists() {
        true => vec![single],
        false => (first..)
            .map(|number| place.file(&format!("out_{number}.mcap")))
            .take_while(|file| file.exists())
            .collect(),
    }
}

#[test]
fn nothing_is_missing_through_many_kills() {
    kill("kills", &["--flush", "5ms"], 40, Load { lens: [100, 20_000], pause: PAUSE });
}

#[test]
fn nothing_is_missing_at_the_seams_of_many_files() {
    let args = ["--split", "200K", "--flush", "5ms"];
    let place = kill("seams", &args, 40, Load { lens: [100, 9_000], pause: PAUSE });
    assert!(place.file("out_4.mcap").exists() || !place.file("out_0.mcap").exists());
}

#[test]
fn nothing_is_missing_in_compressed_files() {
    let load = Load { lens: [100, 20_000], pause: PAUSE };
    kill("packed", &["--compress", "zstd", "--flush", "5ms"], 15, load);
}

/// As fast as publishers can. `TMPDIR=/dev/shm cargo test --release -p outlive-record --test recording --
/// --ignored ten_thousand`
#[test]
#[ignore = "takes a quarter of an hour"]
fn nothing_is_missing_through_ten_thousand_kills() {
    let args = ["--split", "32M", "--flush", "5ms"];
    kill("soak", &args, 10_000, Load { lens: [64, 20_000], pause: Duration::ZERO });
}
