//! What a curve is of, as it is typed: `pose.position[2]`, `camera@rate`.

use crate::described::pick::{self, Step};

/// What a curve is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// As it was typed.
    pub text: String,
    /// The topic's or state's name.
    pub name: String,
    /// What of it.
    pub what: What,
}

/// What of a topic or state is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The number at the end of a path.
    Number(Vec<Step>),
    /// Messages a second, those that were lost included.
    Rate,
    /// How old messages are when they are received, in seconds, by their stamps.
    Age,
    /// How many bytes a message has.
    Bytes,
}

impl Source {
    /// Reads one. `is_there` says whether something has that name: names may have dots, so the
    /// longest that is there is meant, and where none is, the one before the first dot or bracket.
    pub fn read(text: &str, is_there: impl Fn(&str) -> bool) -> Result<Source, String> {
        let of = |name: &str, what| {
            if name.is_empty() {
                return Err(format!("'{text}' begins with a topic's or state's name"));
            }
            Ok(Source { text: text.to_owned(), name: name.to_owned(), what })
        };
        // A name does not begin with a dot.
        let mut ends: Vec<usize> = text.match_indices(['.', '[']).map(|(at, _)| at).collect();
        ends.push(text.len());
        let first = ends[0];
        let found = ends.into_iter().rev().find(|end| is_there(&text[..*end]));
        // A name may have an '@', too.
        if let Some((name, what)) = text.rsplit_once('@')
            && found.is_none_or(|end| end <= name.len())
        {
            return match what {
                "rate" => of(name, What::Rate),
                "age" => of(name, What::Age),
                "bytes" => of(name, What::Bytes),
                _ => Err(format!("behind '@' stands rate, age or bytes, not '{what}'")),
            };
        }
        let end = found.unwrap_or(first);
        of(&text[..end], What::Number(pick::path(&text[end..])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_that_is_there_is_meant() {
        let there = |name: &str| ["arm", "arm.left", "a@rate", "a@b"].contains(&name);
        let read = |text: &str| Source::read(text, there).map(|one| (one.name, one.what));
        let path = |text: &str| What::Number(pick::path(text).expect("a path"));
        assert_eq!(read("arm"), Ok(("arm".into(), path(""))));
        assert_eq!(read("arm.x[2]"), Ok(("arm".into(), path(".x[2]"))));
        assert_eq!(read("arm.left.x"), Ok(("arm.left".into(), path(".x"))));
        assert_eq!(read("later.left.x"), Ok(("later".into(), path(".left.x"))));
        assert_eq!(read("scan[3]"), Ok(("scan".into(), path("[3]"))));
        assert_eq!(read("arm.left@rate"), Ok(("arm.left".into(), What::Rate)));
        assert_eq!(read("x@age"), Ok(("x".into(), What::Age)));
        assert_eq!(read("a@rate"), Ok(("a@rate".into(), path(""))));
        assert_eq!(read("a@b.x"), Ok(("a@b".into(), path(".x"))));
        assert_eq!(read("a@b@rate"), Ok(("a@b".into(), What::Rate)));
        assert!(read("x@hz").is_err_and(|why| why.contains("rate, age or bytes")));
        for wrong in ["", ".x", "@rate", "[1]", "arm..x", "arm[x]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
