//! The shared words of a state: pins of the dead and of the living, and words that are scribbled
//! over.

use std::time::Duration;

use outlive::Detail;
use outlive::Error;
use outlive::state::State;

use crate::board::Board;
use crate::child::Child;
use crate::forge::{BODY, Bytes};
use crate::random::Random;
use crate::runner::World;
use crate::states::{opened, value};

crate::checks!(
    pins_of_the_dead_are_cleared,
    pins_of_the_living_are_respected,
    scribbled_words_are_errors,
);

/// Where the words stand: see doc/memory-layout.md.
const LATEST: u64 = BODY + 64;
const USED: u64 = BODY + 136;
const COUNT: u64 = BODY + 140;
const ROLE: u64 = BODY + 192;
const CELLS: u64 = BODY + 256;
const BUFFERS: u64 = BODY + 1024;
const BUFFER: u64 = (16 + 513 * 8u64).next_multiple_of(64);

fn pins_of_the_dead_are_cleared(world: &World) {
    let state = opened(world);
    let domain = world.domain();
    let board = Board::new();
    let mut child = Child::start(|| {
        board.set(0, u64::from(domain.token().expect("a token").as_u32()));
        loop {
            std::thread::park();
        }
    });
    let dead = board.reach(0, 1);
    child.kill();
    let words = Bytes::of(&domain, "s");
    for cell in 0..64 {
        words.set(CELLS + 8 * cell, &(dead | (cell % 5 + 1) << 32).to_ne_bytes());
    }
    words.set_word(USED, 64);
    assert_eq!(domain.entry("s").expect("there").dead_claims, 64);
    // A reader takes a dead one's cell; a set clears the others.
    let bytes = State::open_as_bytes(&domain, "s").expect("there");
    assert_eq!(bytes.get_as_if_overtaken().expect("got").1, 1);
    assert_eq!(domain.entry("s").expect("there").dead_claims, 63);
    let mut writer = state.writer().expect("free");
    assert_eq!(writer.set(&value(2)), Ok(2));
    let entry = domain.entry("s").expect("there");
    assert_eq!(entry.dead_claims, 0);
    assert!(
        matches!(entry.detail, Detail::State { buffers: 4, pins: 0, .. }),
        "{:?}",
        entry.detail
    );
}

fn pins_of_the_living_are_respected(world: &World) {
    let state = opened(world);
    let domain = world.domain();
    let mut writer = state.writer().expect("free");
    let words = Bytes::of(&domain, "s");
    let me = u64::from(domain.token().expect("a token").as_u32());
    // As if 64 threads were in the middle of a get, one after the other.
    for cell in 0..64 {
        let pinned = u64::from(words.word(LATEST) & 0xff);
        words.set(CELLS + 8 * cell, &(me | (pinned + 2) << 32).to_ne_bytes());
        words.set_word(USED, cell as u32 + 1);
        let at = BUFFERS + pinned * BUFFER;
        let stamp = words.word(at);
        for _ in 0..5 {
            let version = state.version() + 1;
            assert_eq!(writer.set(&value(version)), Ok(version));
            assert_eq!(words.word(at), stamp, "a pinned buffer was written");
            assert_eq!(state.get(), Ok(value(version)));
        }
    }
    assert_eq!(words.word(COUNT), 66);
    // No cell is left: the optimistic way goes on.
    let bytes = State::open_as_bytes(&domain, "s").expect("there");
    assert_eq!(bytes.get_as_if_overtaken().expect("got").1, state.version());
    // One that asks gets the latest.
    words.set(CELLS, &(me | 1 << 32).to_ne_bytes());
    let latest = u64::from(words.word(LATEST) & 0xff);
    let version = state.version() + 1;
    assert_eq!(writer.set(&value(version)), Ok(version));
    assert_eq!(u64::from(words.word(CELLS + 4)), latest + 2);
}

fn scribbled_words_are_errors(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..400u64 {
        let name = format!("s{}", round % 40);
        let state = State::options().initial(&value(1)).open_or_create(&domain, &name);
        let Ok(state) = state else { continue };
        let words = Bytes::of(&domain, &name);
        let kept: Vec<u32> = (0..256).map(|n| words.word(BODY + 4 * n)).collect();
        for _ in 0..=random.below(4) {
            // Not the constant words, which are read once, when it is opened: round 0 of each name
            // is for those.
            let first = if round < 40 { 0 } else { 16 };
            let at = BODY + 4 * (first + random.below(256 - first));
            let what = [
                0,
                1,
                2,
                3,
                0xff,
                0x2345_0001,
                0x8000_0000,
                u32::MAX,
                random.below(1 << 32) as u32,
            ];
            words.set_word(at, what[random.below(9) as usize]);
        }
        let short = Duration::from_millis(1);
        let _ = state.get();
        let _ = state.wait_changed_timeout(state.version(), short);
        if let Ok(bytes) = State::open_as_bytes(&domain, &name) {
            let _ = (bytes.get(), bytes.get_as_if_overtaken());
        }
        if let Ok(mut writer) = state.writer() {
            for _ in 0..70 {
                let _ = writer.set(&value(2));
            }
        }
        // Not each time: it looks at all processes of the machine.
        if round % 20 == 0 {
            let _ = domain.entry(&name).map(|entry| format!("{entry:?}"));
        }
        let _ = domain.sweep(true);
        for (n, word) in kept.iter().enumerate() {
            words.set_word(BODY + 4 * n as u64, *word);
        }
    }
    assert!(domain.sweep(false).is_ok());
    // A stamp that does not fit a latest that stands still.
    let state = State::options().initial(&value(1)).create_new(&domain, "stamp").expect("made");
    let words = Bytes::of(&domain, "stamp");
    words.set_word(BUFFERS, 0);
    assert!(matches!(state.get(), Err(Error::Damaged { .. })));
    words.set_word(LATEST, 200 | 1 << 8);
    assert!(matches!(state.get(), Err(Error::Damaged { .. })), "a buffer that cannot be");
    words.set_word(ROLE, 0x77);
    assert!(matches!(state.writer(), Err(Error::Damaged { .. })));
}
