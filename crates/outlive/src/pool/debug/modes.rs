//! A pool's debug modes, as bits of a word in the pool's head, and as text.
//!
//! ```text
//! bits 0 to 6    tag, integrity, poison, uaf, fail, caller, cold-first
//! 8 to 14        fail: the percentage
//! 16 to 23       poison: the byte
//! 24 to 31       fail: the seed, 0: another one each time
//! 32 to 63       how often the modes were changed, and one
//! ```
//!
//! The lower half is 0 when no mode is on, and taking an object from the cache checks only that.
//! The moment at which a process sees a change does not matter: an object is freed with the modes
//! with which it was taken, and its record says whether a free one is filled, with the number of
//! changes (doc/protocols/pool-modes.md).

use core::fmt;
use core::ops::BitOr;
use core::str::FromStr;

/// A set of a pool's debug modes, with their figures. Its text form is a list, as
/// `tag,poison=0x41,fail=10%`, or `none`.
///
/// ```
/// use outlive::pool::Modes;
///
/// let modes: Modes = "tag,poison".parse()?;
/// assert_eq!(modes, Modes::TAG | Modes::POISON);
/// assert_eq!((modes | Modes::fail(10)).to_string(), "tag,poison,fail=10%");
/// assert!("tga".parse::<Modes>().is_err());
/// # Ok::<(), outlive::pool::ModesError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Modes(u32);

/// A pool's modes, as they were at one look.
#[derive(Clone, Copy)]
pub(in crate::pool) struct Now {
    pub(in crate::pool) modes: Modes,
    /// How often they had been changed.
    pub(super) changes: u32,
}

impl Now {
    pub(super) fn from_word(word: u64) -> Now {
        Now { modes: Modes::from_word(word), changes: (word >> 32) as u32 }
    }
}

/// The description of one mode, for users who choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mode {
    /// Its name in text, with its figure where it takes one.
    pub name: &'static str,
    /// The fault that it finds, or what else it is for.
    pub finds: &'static str,
    /// What it costs.
    pub costs: &'static str,
    /// How it reports a fault.
    pub reports: &'static str,
}

/// All modes: `doc/protocols/pool-modes.md` and the program show the same table.
pub static MODES: [Mode; 7] = [
    Mode {
        name: "tag",
        finds: "a write behind the end of an object; an object freed twice, or to another pool, that is dropped",
        costs: "104 bytes an object more, and what is unused of it written and compared",
        reports: "an error from `free`, `into_offset`, `claim` and `free_raw`; when dropped, a fault",
    },
    Mode {
        name: "integrity",
        finds: "a write into a free object, by whichever process",
        costs: "all bytes of an object written when it is freed, and read when it is taken",
        reports: "a fault when the object is taken: which byte, what it was and is",
    },
    Mode {
        name: "poison[=BYTE]",
        finds: "reads of what was never written: a new object is full of the byte, 0x50",
        costs: "all bytes of an object written when it is taken",
        reports: "nothing by itself: the program sees the byte",
    },
    Mode {
        name: "uaf",
        finds: "any access after free, or after hand-over, in the process that gave the object away",
        costs: "whole pages for each object, no caches, a system call or two each time",
        reports: "SIGSEGV at the instruction that touches",
    },
    Mode {
        name: "fail=N%[@SEED]",
        finds: "callers that do not bear a full pool: N of 100 allocations fail",
        costs: "nothing",
        reports: "`NoSpace`, marked as injected",
    },
    Mode {
        name: "caller",
        finds: "which code took what is still held",
        costs: "104 bytes an object more, written when it is taken",
        reports: "`Pool::held`: process, thread, program, file and line; in faults, too",
    },
    Mode {
        name: "cold-first",
        finds: "nothing by itself: objects are used again as late as can be, which helps `integrity`",
        costs: "memory that is no longer in the processor's cache",
        reports: "nothing",
    },
];

const TAG: u32 = 1;
const INTEGRITY: u32 = 1 << 1;
const POISON: u32 = 1 << 2;
const UAF: u32 = 1 << 3;
const FAIL: u32 = 1 << 4;
const CALLER: u32 = 1 << 5;
const COLD_FIRST: u32 = 1 << 6;
const PERCENT: u32 = 8;
const BYTE: u32 = 16;
const SEED: u32 = 24;
/// The contents of new objects by default: 'P'.
const POISON_BYTE: u8 = 0x50;

impl Modes {
    /// No mode.
    pub const NONE: Modes = Modes(0);
    /// A write behind an object's end is reported when it is freed. [`MODES`] describes this mode
    /// and all others.
    pub const TAG: Modes = Modes(TAG);
    /// A write to a free object is reported.
    pub const INTEGRITY: Modes = Modes(INTEGRITY);
    /// New objects are filled with 0x50.
    pub const POISON: Modes = Modes::poison(POISON_BYTE);
    /// A process that touches an object that it has freed gets SIGSEGV.
    pub const UAF: Modes = Modes(UAF);
    /// Objects record which caller took them.
    pub const CALLER: Modes = Modes(CALLER);
    /// Caches return the objects that have been there longest.
    pub const COLD_FIRST: Modes = Modes(COLD_FIRST);

    /// Returns the mode that fills new objects with that byte.
    #[must_use]
    pub const fn poison(byte: u8) -> Modes {
        Modes(POISON | (byte as u32) << BYTE)
    }

    /// Returns the mode in which so many of a hundred allocations fail.
    #[must_use]
    pub const fn fail(percent: u8) -> Modes {
        Modes::fail_seeded(percent, 0)
    }

    /// Returns the mode [`Modes::fail`], with the same failures each time for a thread; the seed 0
    /// is another one each time.
    #[must_use]
    pub const fn fail_seeded(percent: u8, seed: u8) -> Modes {
        let percent = if percent > 100 { 100 } else { percent };
        Modes(FAIL | (percent as u32) << PERCENT | (seed as u32) << SEED)
    }

    /// Returns whether no mode is on.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns whether all of these are on, whatever their figures.
    #[must_use]
    pub const fn contains(self, modes: Modes) -> bool {
        self.0 & modes.0 & FLAGS == modes.0 & FLAGS
    }

    /// Reads the pool's word. Bits without a meaning are ignored.
    pub(in crate::pool) const fn from_word(word: u64) -> Modes {
        let bits = word as u32;
        let mut modes = bits & FLAGS;
        if modes & POISON != 0 {
            modes |= bits & 0xff << BYTE;
        }
        if modes & FAIL != 0 {
            modes |= Modes::fail_seeded((bits >> PERCENT & 0x7f) as u8, (bits >> SEED) as u8).0;
        }
        Modes(modes)
    }

    /// Returns the lower half of the pool's word.
    pub(in crate::pool) const fn bits(self) -> u32 {
        self.0
    }

    pub(super) const fn poison_byte(self) -> u8 {
        (self.0 >> BYTE) as u8
    }

    pub(super) const fn percent(self) -> u64 {
        (self.0 >> PERCENT & 0x7f) as u64
    }

    pub(super) const fn seed(self) -> u8 {
        (self.0 >> SEED) as u8
    }

    /// Returns the environment's modes for pools of that name: `OUTLIVE_POOL=MODES`, or
    /// `NAME:MODES;NAME:MODES`.
    pub(in crate::pool) fn from_environment(name: &str) -> Option<Modes> {
        let text = std::env::var("OUTLIVE_POOL").ok()?;
        match Modes::for_name(&text, name) {
            Ok(modes) => modes,
            Err(error) => {
                // Printed, since no caller can get the error: the text is not the program's.
                eprintln!("outlive: OUTLIVE_POOL is not heeded: {error}");
                None
            }
        }
    }

    fn for_name(text: &str, name: &str) -> Result<Option<Modes>, ModesError> {
        let mut found = None;
        for part in text.split(';').filter(|part| !part.trim().is_empty()) {
            let (of, modes) =
                part.split_once(':').map_or((None, part), |(of, modes)| (Some(of.trim()), modes));
            let modes = modes.parse()?;
            if of.is_none_or(|of| of == name) {
                found = Some(modes);
            }
        }
        Ok(found)
    }
}

const FLAGS: u32 = TAG | INTEGRITY | POISON | UAF | FAIL | CALLER | COLD_FIRST;

impl BitOr for Modes {
    type Output = Modes;

    /// Returns the modes of both; where both have a figure, the latter's.
    fn bitor(self, other: Modes) -> Modes {
        let mut kept = self.0;
        if other.0 & POISON != 0 {
            kept &= !(0xff << BYTE);
        }
        if other.0 & FAIL != 0 {
            kept &= !(0x7f << PERCENT | 0xff << SEED);
        }
        Modes(kept | other.0)
    }
}

impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        let mut first = true;
        for (at, mode) in MODES.iter().enumerate().filter(|(at, _)| self.0 & 1 << at != 0) {
            if !core::mem::take(&mut first) {
                f.write_str(",")?;
            }
            f.write_str(word_of(mode))?;
            match 1 << at {
                POISON if self.poison_byte() != POISON_BYTE => {
                    write!(f, "={:#04x}", self.poison_byte())?
                }
                FAIL if self.seed() != 0 => write!(f, "={}%@{}", self.percent(), self.seed())?,
                FAIL => write!(f, "={}%", self.percent())?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Modes({self})")
    }
}

/// Returns a mode's name without its figure.
fn word_of(mode: &Mode) -> &'static str {
    let end = mode.name.find(['[', '=']).unwrap_or(mode.name.len());
    &mode.name[..end]
}

/// A text that names no debug modes of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModesError {
    /// The part that could not be read.
    pub word: String,
}

impl fmt::Display for ModesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no mode of a pool; there are none", self.word)?;
        MODES.iter().try_for_each(|mode| write!(f, ", {}", mode.name))
    }
}

impl std::error::Error for ModesError {}

impl FromStr for Modes {
    type Err = ModesError;

    fn from_str(text: &str) -> Result<Modes, ModesError> {
        let mut modes = Modes::NONE;
        for word in text.split(',').map(str::trim) {
            let error = || ModesError { word: word.to_owned() };
            let (name, figure) =
                word.split_once('=').map_or((word, None), |(name, figure)| (name, Some(figure)));
            if name == "none" && figure.is_none() {
                continue;
            }
            let at = MODES.iter().position(|mode| word_of(mode) == name).ok_or_else(error)?;
            let one = match (1 << at, figure) {
                (POISON, None) => Modes::POISON,
                (POISON, Some(figure)) => Modes::poison(number(figure).ok_or_else(error)?),
                (FAIL, Some(figure)) => fail_figures(figure).ok_or_else(error)?,
                (FAIL, None) | (_, Some(_)) => return Err(error()),
                (flag, None) => Modes(flag),
            };
            modes = modes | one;
        }
        Ok(modes)
    }
}

/// `10%`, `10%@7`.
fn fail_figures(text: &str) -> Option<Modes> {
    let (percent, seed) =
        text.split_once('@').map_or((text, None), |(percent, seed)| (percent, Some(seed)));
    let percent =
        number(percent.strip_suffix('%').unwrap_or(percent)).filter(|&percent| percent <= 100)?;
    Some(Modes::fail_seeded(percent, seed.map_or(Some(0), number)?))
}

fn number(text: &str) -> Option<u8> {
    match text.strip_prefix("0x") {
        Some(hexadecimal) => u8::from_str_radix(hexadecimal, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn text_and_modes_are_one() {
        let all = "tag,integrity,poison=0x41,uaf,fail=10%@7,caller,cold-first";
        for text in [
            "none",
            "tag",
            "integrity",
            "poison",
            "poison=0x00",
            "uaf",
            "fail=0%",
            "fail=100%",
            "caller",
            all,
        ] {
            let modes: Modes = text.parse().expect("a mode");
            assert_eq!(modes.to_string(), text);
            assert_eq!(Modes::from_word(u64::from(modes.bits()) | 77 << 32), modes);
            assert_eq!(modes.is_none(), text == "none");
        }
        assert_eq!("fail=10".parse(), Ok(Modes::fail(10)));
        assert_eq!(" tag , poison=80".parse(), Ok(Modes::TAG | Modes::POISON));
        assert_eq!(
            Modes::fail(90) | Modes::fail_seeded(3, 4) | Modes::poison(1),
            "poison=1,fail=3%@4".parse().expect("is")
        );
        for text in [
            "",
            "tga",
            "fail",
            "fail=101%",
            "fail=x",
            "poison=256",
            "tag=1",
            "none=1",
            "tag poison",
        ] {
            let error = text.parse::<Modes>().expect_err("no mode");
            assert!(error.to_string().contains("cold-first"), "{error}");
        }
        // Any bits in the word.
        for word in [u64::MAX, 1 << 7, 0xff00, 0xffff_ff00] {
            let modes = Modes::from_word(word);
            assert!(modes.percent() <= 100);
            assert_eq!(modes.to_string().parse(), Ok(modes));
        }
    }

    #[test]
    fn the_environment_names_pools() {
        let of = |text: &str, name: &str| Modes::for_name(text, name);
        assert_eq!(of("tag", "frames"), Ok(Some(Modes::TAG)));
        assert_eq!(of("frames:tag; other:uaf", "frames"), Ok(Some(Modes::TAG)));
        assert_eq!(of("frames:tag; other:uaf", "other"), Ok(Some(Modes::UAF)));
        assert_eq!(of("frames:tag", "others"), Ok(None));
        assert!(of("frames:tga", "others").is_err());
    }

    /// The document is not in a package, and only the project's own tests have the feature.
    #[cfg(feature = "testing")]
    #[test]
    fn the_documents_table_is_this_one() {
        let document = include_str!("../../../../../doc/protocols/pool-modes.md");
        for mode in &MODES {
            let row =
                format!("| `{}` | {} | {} | {} |", mode.name, mode.finds, mode.costs, mode.reports);
            assert!(
                document.lines().any(|line| line == row),
                "doc/protocols/pool-modes.md lacks\n{row}"
            );
        }
        let rows = document.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, MODES.len(), "rows that are no modes");
    }
}
