//! After a seek come the messages of that time and later ones, in the file's order, whatever the file's form.

use std::path::PathBuf;

use outlive::topic::Subscriber;
use outlive_record::Error;
use outlive_record::replay::{Due, Options, Player, Rate, When};

use crate::forms::{FORMS, Form, Place, Planned, Random, plan, write};

fn player(place: &Place, files: &[PathBuf], start: Option<u64>, repeats: bool) -> Player {
    let options =
        Options { rate: Rate::Max, start: start.map(When::At), repeats, ..Options::default() };
    Player::open(&place.domain, files, options).expect("a recording")
}

/// Plays so many messages at most; returns which came.
fn play(player: &mut Player, subscriber: &mut Subscriber, most: u64) -> Vec<u32> {
    let mut found = Vec::new();
    let end = player.counts().messages + most;
    loop {
        match player.due().expect("no fault but a cut end") {
            Due::End => break,
            Due::Unknown => continue,
            Due::At(_) | Due::Paused => {}
        }
        let left = end - player.counts().messages;
        assert!(player.publish_some(left.min(50) as u32).expect("sent"));
        while let Some(sample) = subscriber.try_recv().expect("nothing is lost") {
            let number = u64::from_le_bytes(sample[..8].try_into().expect("8 bytes"));
            let number = number as u32;
            let planned = Planned { number, time: 0, len: sample.len() };
            assert!(*sample == *planned.payload(), "message {number} is torn");
            found.push(number);
        }
        if player.counts().messages >= end {
            break;
        }
    }
    found
}

fn numbers(messages: &[Planned], from: u64) -> Vec<u32> {
    messages.iter().filter(|one| one.time >= from).map(|one| one.number).collect()
}

fn span(messages: &[Planned]) -> (u64, u64) {
    let times = || messages.iter().map(|one| one.time);
    (times().min().expect("some"), times().max().expect("some"))
}

#[test]
fn a_start_is_found_in_every_form() {
    let place = Place::new("start");
    let (mut random, mut subscriber) = (Random(0x51ab_0f3d_9e37_79b9), place.subscriber("t"));
    for form in FORMS {
        for round in 0..12 {
            let file = place.file("in.mcap");
            let planned = plan(&mut random, 60);
            let there = write(&file, form, &planned, &mut random);
            let (first, last) = span(&planned);
            for start in [
                first,
                last,
                last + 1,
                first.saturating_sub(1),
                first + random.below(last - first + 1),
                planned[random.below(60) as usize].time,
            ] {
                let options =
                    Options { rate: Rate::Max, start: Some(When::At(start)), ..Options::default() };
                let expected = numbers(&there, start);
                let found = match Player::open(&place.domain, std::slice::from_ref(&file), options)
                {
                    // An index says so, before any message is read.
                    Err(Error::NothingThen { .. }) => Vec::new(),
                    player => {
                        let mut player = player.expect("a recording");
                        let found = play(&mut player, &mut subscriber, u64::MAX >> 1);
                        let is_told = matches!(player.unmet(), Some(Error::NothingThen { .. }));
                        assert_eq!(is_told, expected.is_empty(), "{form:?} {round} from {start}");
                        found
                    }
                };
                assert_eq!(found, expected, "{form:?} {round} from {start}");
            }
        }
    }
}

/// Two files, of which the former may be cut off: what is in its end is found, too.
#[test]
fn a_start_is_found_in_the_files_of_a_split_recording() {
    let place = Place::new("split");
    let (mut random, mut subscriber) = (Random(0x0123_4567_89ab_cdef), place.subscriber("t"));
    for form in FORMS {
        for round in 0..8 {
            let planned = plan(&mut random, 80);
            let files = [place.file("a.mcap"), place.file("b.mcap")];
            let mut there = write(&files[0], form, &planned[..40], &mut random);
            let times = there.iter().map(|one| one.time).min();
            let second = Form::Ours(outlive_mcap::Compression::None, true);
            there.extend(write(&files[1], second, &planned[40..], &mut random));
            if times.is_none_or(|first| first > span(&planned[40..]).0) {
                // The files are played in the order of their first messages.
                continue;
            }
            let (first, last) = span(&planned);
            for start in [first, last, first + random.below(last - first + 1)] {
                let mut player = player(&place, &files, Some(start), false);
                let found = play(&mut player, &mut subscriber, u64::MAX >> 1);
                assert_eq!(found, numbers(&there, start), "{form:?} {round} from {start}");
            }
        }
    }
}

/// Back and forth, from anywhere, and single steps.
#[test]
fn a_seek_goes_to_the_first_message_of_the_time_and_a_step_to_the_next_one() {
    let place = Place::new("seeks");
    let (mut random, mut subscriber) = (Random(0x7f4a_7c15_51ab_0f3d), place.subscriber("t"));
    for form in FORMS {
        for round in 0..6 {
            let file = place.file("in.mcap");
            let planned = plan(&mut random, 60);
            let there = write(&file, form, &planned, &mut random);
            // How far the player knows the file: a chunk that is cut off has no times.
            let mut player = player(&place, std::slice::from_ref(&file), None, false);
            let (_, length) = player.progress();
            let first = span(&there).0;
            for _ in 0..6 {
                play(&mut player, &mut subscriber, 1 + random.below(20));
                let (at, _) = player.progress();
                let by = random.below(2 * length + 2) as i64 - length as i64 - 1;
                player.seek_by(by).expect("a file");
                let target = first + at.saturating_add_signed(by).min(length);
                let expected = numbers(&there, target);
                let steps = (1 + random.below(5) as usize).min(expected.len());
                let mut found = Vec::new();
                for _ in 0..steps {
                    player.step().expect("a message");
                    let sample = subscriber.try_recv().expect("nothing is lost");
                    let sample = sample.expect("one for each step");
                    found.push(u64::from_le_bytes(sample[..8].try_into().expect("8")) as u32);
                    assert_eq!(subscriber.try_recv().expect("nothing is lost").map(drop), None);
                }
                player.toggle();
                assert_eq!(found, expected[..steps], "{form:?} {round} by {by} to {target}");
                if random.below(3) == 0 {
                    let rest = play(&mut player, &mut subscriber, u64::MAX >> 1);
                    assert_eq!(rest, expected[steps..], "{form:?} {round} by {by} to {target}");
                }
            }
        }
    }
}

#[test]
fn a_loop_has_each_round_whole_also_from_a_start() {
    let place = Place::new("loops");
    let (mut random, mut subscriber) = (Random(0x9e37_79b9_7f4a_7c15), place.subscriber("t"));
    for form in FORMS {
        let file = place.file("in.mcap");
        let planned = plan(&mut random, 50);
        let there = write(&file, form, &planned, &mut random);
        let (first, last) = span(&there);
        for start in [None, Some(first + random.below(last - first + 1))] {
            let once = numbers(&there, start.unwrap_or(0));
            let mut player = player(&place, std::slice::from_ref(&file), start, true);
            let found = play(&mut player, &mut subscriber, 3 * once.len() as u64);
            assert_eq!(found, once.repeat(3), "{form:?} from {start:?}");
        }
    }
}
