//! Recorders that end, or that others give up, while the next one of their name begins.

use std::process::Stdio;
use std::time::Duration;

use crate::support::{Place, Recording, eventually, signal, topic};

fn serves(place: &Place) -> bool {
    eventually(|| place.tell(&["status", "--as", "rec"]).is_ok())
}

/// Once the recorder has ended in order, no publisher waits for its name: also not in a topic that only its predecessor
/// recorded.
#[test]
fn one_that_ends_has_no_place_left() {
    let place = Place::new("no-place");
    let second = (topic(&place, "first"), topic(&place, "second")).1;
    let more = ["-o", "out.mcap", "--as", "rec", "--flush", "5ms"];
    for stops in [false, true] {
        let both = [&["first", "second"], &more[..]].concat();
        let one = [&["first", "--resume"], &more[..]].concat();
        let mut both_recorded = place.record(&[&both[..], &["--resume"]].concat(), 2);
        assert!(serves(&place));
        both_recorded.kill();
        assert_eq!(second.kept().len(), 1, "it waits for a successor");
        let mut recording = place.record(&one, 1);
        assert!(serves(&place));
        if stops {
            place.tell(&["stop", "--as", "rec"]).expect("stopped");
            assert_eq!(second.kept().len(), 0, "stopped");
            recording.kill();
        } else {
            recording.end();
            assert_eq!(second.kept().len(), 0, "ended");
        }
    }
}

/// A service that is removed after it was opened, and before it is served, would be found by no client.
#[test]
fn one_that_begins_while_the_former_ends_can_be_asked() {
    let place = Place::new("ends-and-begins");
    let topic = topic(&place, "t");
    let publisher = topic.publisher().expect("a ring");
    let args = ["--all", "--as", "rec", "-o", "out.mcap", "--resume", "--patience", "0s"];
    let begin = || {
        let mut command = place.command(&args);
        Recording(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started"))
    };
    let mut lived = 0;
    for round in 0..40_u64 {
        let mut former = begin();
        assert!(serves(&place));
        publisher.publish(&round.to_le_bytes()).map(drop).expect("published");
        let mut stop = None;
        if round % 2 == 0 {
            former.kill();
            let mut command = place.command(&["stop", "--as", "rec"]);
            let command = command.stdout(Stdio::null()).stderr(Stdio::null());
            stop = Some(command.spawn().expect("started"));
        } else {
            signal(&former.0, libc::SIGTERM);
        }
        std::thread::sleep(Duration::from_micros(round * 7919 % 60 * 100));
        let mut next = begin();
        if let Some(stop) = &mut stop {
            stop.wait().expect("a child");
        }
        // It answers, or it has ended because the name was in use still.
        let mut ended = false;
        assert!(
            eventually(|| {
                ended = next.0.try_wait().expect("a child").is_some();
                ended || place.tell(&["status", "--as", "rec"]).is_ok()
            }),
            "round {round}: it lives and cannot be asked"
        );
        lived += u32::from(!ended);
        next.kill();
        former.kill();
    }
    println!("{lived} of 40 went on");
}
