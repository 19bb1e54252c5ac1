//! What is written over what: made up by chance around the words that are in use, and as text.

use std::fmt;
use std::str::FromStr;

use crate::random::Random;
use crate::world::World;

/// Below this offset most words are a kind's own.
const OWN_WORDS: u64 = 24 << 10;

/// One write of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub file: String,
    pub at: u64,
    pub value: u64,
    /// Bytes of the value that are written: 1, 4 or 8.
    pub width: u64,
    /// How many times, one after the other.
    pub times: u64,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write { file, at, value, width, times } = self;
        write!(f, "write {file} {at:#x} {width} {value:#x} {times}")
    }
}

impl FromStr for Write {
    type Err = String;

    fn from_str(line: &str) -> Result<Write, String> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["write", file, at, width, value, times] = fields[..] else {
            return Err(format!("not a write: {line}"));
        };
        let number = |text: &str| {
            let parsed = match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => text.parse(),
            };
            parsed.map_err(|error| format!("{text}: {error}"))
        };
        let file = file.to_owned();
        Ok(Write {
            file,
            at: number(at)?,
            value: number(value)?,
            width: number(width)?,
            times: number(times)?,
        })
    }
}

impl Write {
    pub fn apply(&self, world: &World) {
        let Some(file) = world.file(&self.file) else { return };
        let bytes = self.value.to_le_bytes();
        let bytes = &bytes[..self.width.clamp(1, 8) as usize];
        let all = bytes.repeat(self.times.clamp(1, 1 << 16) as usize);
        file.write(self.at, &all);
    }

    /// Makes one up: mostly at or beside a word that is in use, mostly with a value that means
    /// something somewhere.
    pub fn by_chance(world: &World, random: &mut Random) -> Write {
        let file = random.pick(&world.files);
        let width = *random.pick(&[4, 4, 4, 8, 8, 1]);
        let anywhere = |random: &mut Random| {
            let ranges: Vec<_> = file.ranges().collect();
            let (start, end) = *random.pick(&ranges);
            start + random.below((end - start).max(8)) / 8 * 8
        };
        // Low in a file are its own words; further up are mostly the users' bytes.
        let own = file.used().partition_point(|&at| at < OWN_WORDS);
        let near = |random: &mut Random| match file.used() {
            [] => 0,
            used if own > 0 && random.below(4) > 0 => *random.pick(&used[..own]),
            used => *random.pick(used),
        };
        let at = match random.below(10) {
            0..6 => near(random),
            6..8 => near(random).saturating_add(8 * random.below(17)).saturating_sub(64),
            // The header and the kind's own words.
            8 => random.below(0x1300) / 8 * 8,
            _ => anywhere(random),
        };
        let at = at + if width == 4 { 4 * random.below(2) } else { 0 };
        let before = file.word(at);
        let value = Write::some_value(world, random, before);
        let times = match random.below(12) {
            0 => 1 << random.below(10),
            _ => 1,
        };
        Write { file: file.name.clone(), at: at.min(file.len()), value, width, times }
    }

    fn some_value(world: &World, random: &mut Random, before: u64) -> u64 {
        let lap = 1u64 << 31;
        match random.below(16) {
            0 => 0,
            1 => u64::MAX,
            2 => *random.pick(&[1, 2, 3, 4, 7, 8, 63, 64, 127, 128, 4_095, 4_096, 65_535, 65_536]),
            3 => u64::from(*random.pick(&world.ids)),
            4 => u64::from(*random.pick(&world.ids)) | 1 << 31,
            // A neighbour's number, or the same slot's next.
            5 => u64::from(*random.pick(&world.ids)).wrapping_add(*random.pick(&[1, 1 << 16])),
            // Closed, sealed.
            6 => before ^ 1 << 63,
            7 => before ^ 1 << random.below(64),
            8 => before.wrapping_add(1),
            9 => before.wrapping_sub(1),
            10 => before.wrapping_add(lap),
            11 => before.wrapping_sub(lap),
            // Lengths and counts.
            12 => *random.pick(&[
                1 << 30,
                (1 << 30) + 1,
                u64::from(u32::MAX),
                1 << 31,
                1 << 20,
                (1 << 63) - 1,
                1 << 33,
            ]),
            // A slot's word: a lap, an owner, a state.
            13 => {
                (random.below(4) * lap)
                    | (u64::from(*random.pick(&world.ids) & 0x1fff_ffff) << 2)
                    | random.below(4)
            }
            // An object's tag, or a span's word.
            14 => {
                random.below(4) << 62 | random.below(4) << 32 | u64::from(*random.pick(&world.ids))
            }
            _ => random.next() >> random.below(64),
        }
    }
}
