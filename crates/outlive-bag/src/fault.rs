//! A fault of a file, and how many faults are told.

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
            | Error::Cut { offset }
            | Error::UnknownCompression { offset, .. } => Some(*offset),
            _ => None,
        };
        Fault { offset, text: error.to_string() }
    }
}

/// Returns the faults as lines for a person: of those that differ by their numbers alone, the first one with how many
/// more there are.
pub fn lines(faults: &[Fault]) -> Vec<String> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut alike: Vec<(&Fault, u64, Option<u64>)> = Vec::new();
    for fault in faults {
        let like = fault.text.replace(|letter: char| letter.is_ascii_digit(), "");
        let at = *known.entry(like).or_insert(alike.len());
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
    fn like_faults_are_one_line() {
        let all: Vec<Fault> = [(7, "damaged at byte 7: a"), (8, "b"), (9, "damaged at byte 9: a")]
            .into_iter()
            .chain((10..13).map(|at| (at, "damaged at byte 1: a")))
            .map(|(at, text)| Fault::at(at, text.to_owned()))
            .collect();
        let told = lines(&all);
        assert_eq!(told, ["damaged at byte 7: a; 4 more faults like it, the last at byte 12", "b"]);
        assert_eq!(lines(&[Fault::of_file("x"), Fault::of_file("x")]), ["x; 1 more fault like it"]);
    }
}
