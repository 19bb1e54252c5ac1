//! The faults of a file, and how they are told.

use std::collections::BTreeMap;

use outlive_mcap::Error;
use outlive_program::figures::counted;

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte at which the damaged part begins.
    pub offset: Option<u64>,
    pub text: String,
}

impl Fault {
    /// Makes one with a place.
    pub fn at(offset: u64, text: String) -> Fault {
        Fault { offset: Some(offset), text }
    }

    /// Makes one of the whole file.
    pub fn of_file(text: impl Into<String>) -> Fault {
        Fault { offset: None, text: text.into() }
    }
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Fault {
        let offset = match error {
            Error::Damaged { offset, .. }
            | Error::TwoChannels { offset, .. }
            | Error::Cut { offset }
            | Error::UnknownCompression { offset, .. } => Some(*offset),
            _ => None,
        };
        Fault { offset, text: error.to_string() }
    }
}

/// More faults than these are counted and not kept.
pub const MOST_FAULTS: usize = 1000;
/// The most letters of a topic's name in a fault: a file may have names of any length.
const MOST_LETTERS: usize = 100;

/// Those of a file.
#[derive(Debug, Default)]
pub struct Faults {
    kept: Vec<Fault>,
    more: u64,
}

impl Faults {
    /// Adds one, and makes its text only if it is kept.
    pub fn add(&mut self, fault: impl FnOnce() -> Fault) {
        match self.kept.len() < MOST_FAULTS {
            true => self.kept.push(fault()),
            false => self.more += 1,
        }
    }

    /// Adds some that were counted elsewhere.
    pub fn add_more(&mut self, count: u64) {
        self.more += count;
    }

    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.kept.len() as u64 + self.more
    }

    /// Returns those that are kept.
    pub fn kept(&self) -> &[Fault] {
        &self.kept
    }

    /// Says how many are not kept, if there are any.
    pub fn rest(&self) -> Option<String> {
        (self.more > 0).then(|| counted(self.more, "more fault"))
    }
}

/// Returns a topic's name as faults tell it.
pub fn name(topic: &str) -> String {
    let mut letters = topic.chars();
    let begin: String = letters.by_ref().take(MOST_LETTERS).flat_map(char::escape_debug).collect();
    let end = if letters.next().is_some() { "…" } else { "" };
    format!("'{begin}'{end}")
}

/// Returns what faults of one kind have in common: the text without its numbers. What stands between quotes is a
/// name, as [`name`] makes it, and two names are two kinds.
fn kind(text: &str) -> String {
    let (mut is_name, mut is_escaped) = (false, false);
    let mut kept = String::with_capacity(text.len());
    for letter in text.chars() {
        is_name ^= letter == '\'' && !is_escaped;
        is_escaped = is_name && letter == '\\' && !is_escaped;
        if is_name || !letter.is_ascii_digit() {
            kept.push(letter);
        }
    }
    kept
}

/// Returns the faults as lines for a person: of those of one kind, the first one with how many more there are.
pub fn lines(faults: &[Fault]) -> Vec<String> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut alike: Vec<(&Fault, u64, Option<u64>)> = Vec::new();
    for fault in faults {
        let at = *known.entry(kind(&fault.text)).or_insert(alike.len());
        match alike.get_mut(at) {
            Some((_, more, last)) => (*more, *last) = (*more + 1, fault.offset),
            None => alike.push((fault, 0, None)),
        }
    }
    let line = |(first, more, last): (&Fault, u64, Option<u64>)| match (more, last) {
        (0, _) => first.text.clone(),
        (more, None) => format!("{}; {} like it", first.text, counted(more, "more fault")),
        (more, Some(last)) => {
            format!(
                "{}; {} like it, the last at byte {last}",
                first.text,
                counted(more, "more fault")
            )
        }
    };
    alike.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_faults_are_kept_and_no_name_is_told_whole_that_is_long() {
        let mut faults = Faults::default();
        (0..MOST_FAULTS as u64).for_each(|at| faults.add(|| Fault::at(at, "x".to_owned())));
        assert_eq!(faults.rest(), None);
        faults.add(|| unreachable!("nobody reads it"));
        faults.add_more(2);
        assert_eq!((faults.kept().len(), faults.count()), (MOST_FAULTS, 1003));
        assert_eq!(faults.rest().as_deref(), Some("3 more faults"));
        assert_eq!(name("a\nb"), r"'a\nb'");
        assert_eq!(name(&"é".repeat(100)), format!("'{}'", "é".repeat(100)));
        assert!(name(&"\u{1}".repeat(1 << 20)).len() < 1000);
    }

    #[test]
    fn like_faults_are_one_line() {
        let all: Vec<Fault> = [(7, "damaged at byte 7: a"), (8, "b"), (9, "damaged at byte 9: a")]
            .into_iter()
            .chain((10..13).map(|at| (at, "damaged at byte 1: a")))
            .map(|(at, text)| Fault::at(at, text.to_owned()))
            .collect();
        let told = lines(&all);
        assert_eq!(told, ["damaged at byte 7: a; 4 more faults like it, the last at byte 12", "b"]);
        assert_eq!(lines(&[Fault::of_file("x"), Fault::of_file("x")]), ["x; 1 more fault like it"]);
        // Two topics are two, also with a quote in their names.
        let of = |number: u8, topic: &str| Fault::of_file(format!("{number} of {}", name(topic)));
        let told =
            lines(&[of(1, "cam1"), of(2, "cam2"), of(3, "cam1"), of(4, "o'1"), of(5, "o'2")]);
        let one = "1 of 'cam1'; 1 more fault like it";
        assert_eq!(told, [one, "2 of 'cam2'", r"4 of 'o\'1'", r"5 of 'o\'2'"]);
    }
}
