//! What each language calls each kind of error: errors.txt; and whether an answer is what was
//! expected.

use std::collections::HashMap;

use crate::scenario::Expected;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Language {
    Rust,
    C,
    Cpp,
    Python,
    Go,
    Java,
}

/// How many languages there are.
const LANGUAGES: usize = 6;

impl Language {
    pub(crate) fn name(self) -> &'static str {
        ["Rust", "C", "C++", "Python", "Go", "Java"][self as usize]
    }

    /// In the table's head.
    pub(crate) fn letter(self) -> char {
        ['r', 'c', '+', 'p', 'g', 'j'][self as usize]
    }
}

/// By word: what each language says.
pub(crate) struct Words(HashMap<String, [Vec<String>; LANGUAGES]>);

impl Words {
    pub(crate) fn parse(text: &str) -> Result<Words, String> {
        let mut words = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let columns: Vec<&str> = line.split_ascii_whitespace().collect();
            let [word, names @ ..] = columns.as_slice() else { continue };
            let names: [Vec<String>; LANGUAGES] = std::array::from_fn(|at| {
                names
                    .get(at)
                    .map(|names| names.split('|').map(str::to_owned).collect())
                    .unwrap_or_default()
            });
            if columns.len() != LANGUAGES + 1 || words.insert((*word).to_owned(), names).is_some() {
                return Err(format!("errors.txt: {line}"));
            }
        }
        Ok(Words(words))
    }

    /// Returns whether the answer is one of those expected. Names with `$` are bound where they
    /// have no value yet.
    pub(crate) fn fits(
        &self,
        language: Language,
        expected: &Expected,
        answer: &str,
        names: &mut HashMap<String, String>,
    ) -> bool {
        let answer: Vec<&str> = answer.split(' ').collect();
        expected.iter().any(|one| match (one.as_slice(), answer.as_slice()) {
            ([first, word, wanted @ ..], ["error", name, said @ ..]) if first == "error" => {
                let said = said.join(" ");
                self.is_called(language, word, name)
                    && wanted.iter().all(|part| said.contains(&part.replace('~', " ")))
            }
            // A type system that keeps a fault out has refused it.
            ([first, word], ["impossible"]) if first == "error" => {
                self.is_called(language, word, "impossible")
            }
            (one, answer) if one.len() == answer.len() => {
                let mut bound = Vec::new();
                let all = one.iter().zip(answer).all(|(want, got)| match want.strip_prefix('$') {
                    Some(name) => match names.get(name) {
                        Some(value) => value == got,
                        None => {
                            bound.push((name.to_owned(), (*got).to_owned()));
                            true
                        }
                    },
                    None => want == "*" || want == got,
                });
                if all {
                    names.extend(bound);
                }
                all
            }
            _ => false,
        })
    }

    fn is_called(&self, language: Language, word: &str, name: &str) -> bool {
        self.0
            .get(word)
            .is_some_and(|names| names[language as usize].iter().any(|known| known == name))
    }

    /// Words that scenarios use and the table lacks.
    pub(crate) fn lacks(&self, expected: &Expected) -> Option<String> {
        let unknown = |one: &Vec<String>| match one.as_slice() {
            [first, word, ..] if first == "error" && !self.0.contains_key(word) => {
                Some(word.clone())
            }
            _ => None,
        };
        expected.iter().find_map(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_fit_or_do_not() {
        let words =
            Words::parse("# x\nempty Empty|None EAGAIN again None ErrWouldBlock WOULD_BLOCK\n")
                .expect("well formed");
        let fits = |expected: &str, answer: &str| {
            let one = |one: &str| one.split(' ').map(str::to_owned).collect();
            let mut names = HashMap::from([("a".to_owned(), "7".to_owned())]);
            words.fits(
                Language::Rust,
                &expected.split(" | ").map(one).collect(),
                answer,
                &mut names,
            )
        };
        for (expected, answer) in [
            ("ok", "ok"),
            ("ok 7", "ok 7"),
            ("ok *", "ok 7"),
            ("ok $a", "ok 7"),
            ("ok $new", "ok 8"),
            ("error empty", "error None "),
            ("error empty", "error Empty nothing is there"),
            ("error empty there nothing~is", "error Empty nothing is there"),
            ("ok 7 | owner-died 7", "owner-died 7"),
        ] {
            assert!(fits(expected, answer), "{expected}: {answer}");
        }
        for (expected, answer) in [
            ("ok", "ok 7"),
            ("ok 7", "ok"),
            ("ok *", "ok"),
            ("ok", "error Empty"),
            ("ok $a", "ok 8"),
            ("error empty", "ok"),
            ("error empty", "error EAGAIN"),
            ("error empty", "error Full full"),
            ("error empty", "impossible"),
            ("error empty is~nothing", "error Empty nothing is there"),
            ("error empty there", "error Full there"),
            ("error unheard", "error unheard"),
            ("owner-died 7", "ok 7"),
        ] {
            assert!(!fits(expected, answer), "{expected}: {answer}");
        }
        assert_eq!(
            words.lacks(&vec![vec!["error".to_owned(), "x".to_owned()]]),
            Some("x".to_owned())
        );
        assert!(Words::parse("empty Empty EAGAIN").is_err());
    }
}
