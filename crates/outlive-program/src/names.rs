//! Names that were mistyped, and lists of those that are there.

use std::ffi::OsString;

/// Returns the name that is most like the one that was wanted, if one is much like it.
pub fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Option<String> {
    // A third of its letters may be wrong, and at least one: of a name of one letter, none.
    let length = wanted.chars().count();
    let most = (length / 3).max(1).min(length.checked_sub(1)?);
    // What begins with a dot is the domain's own.
    names
        .filter(|name| !name.starts_with('.') && !wanted.starts_with('.'))
        .map(|name| (strsim::osa_distance(wanted, &name), name))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| name)
}

/// Returns a name for a person: without control characters, and of a long one the beginning.
pub fn shown(name: &str) -> String {
    const SHOWN: usize = 100;
    let mut shown: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns which names there are, for a person, of many the first ones: `there are 'a', 'b' and 3 more`.
pub fn those<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    // The last one takes no more room than "and 1 more".
    let shown_ones = if names.len() == 13 { 13 } else { 12 };
    let first: Vec<String> =
        names.iter().take(shown_ones).map(|name| format!("'{}'", shown(name))).collect();
    match (names.len(), names.len().saturating_sub(shown_ones)) {
        (0, _) => "there is none".to_owned(),
        (1, _) => format!("there is {}", first[0]),
        (_, 0) => format!("there are {}", first.join(", ")),
        (_, more) => format!("there are {} and {more} more", first.join(", ")),
    }
}

/// Returns what to say where no file is left, because an option that takes all names behind it has taken the files.
/// `options`: these options. `words`: the command line.
pub fn taken_files(words: &[OsString], options: &[&str]) -> Option<String> {
    let mut taker = None;
    for word in words.iter().filter_map(|word| word.to_str()) {
        if let Some(option) = options.iter().find(|option| **option == word) {
            taker = Some(*option);
        } else if word.starts_with('-') {
            taker = None;
        } else if let Some(option) = taker
            && word.ends_with(".mcap")
        {
            return Some(format!(
                "{option} takes all names behind it, and has taken {} as one: name the files first",
                shown(word)
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_much_like_a_name_is_found() {
        let find = |wanted: &str| {
            let names = ["camera", "cameras", "log", "q", ".tokens"].map(String::from);
            nearest(wanted, names.into_iter())
        };
        assert_eq!(find("camrea").as_deref(), Some("camera"));
        assert_eq!(find("camerass").as_deref(), Some("cameras"));
        assert_eq!(find("lag").as_deref(), Some("log"));
        for wanted in ["", "r", "lidar", "tokens", ".token"] {
            assert_eq!(find(wanted), None, "{wanted}");
        }
    }

    #[test]
    fn files_that_an_option_has_taken_are_found() {
        let told = |line: &str| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            taken_files(&words, &["--topics", "--not"])
        };
        let text = told("--not x a.mcap --rate 2").expect("told");
        assert!(text.contains("--not takes") && text.contains("taken a.mcap as one"), "{text}");
        for line in ["--topics x --out a.mcap", "a.mcap --topics x", "--topics a", "--topic a.mcap"]
        {
            assert_eq!(told(line), None, "{line}");
        }
    }

    #[test]
    fn of_many_names_some_are_listed() {
        assert_eq!(those(["a", "b\n"]), "there are 'a', 'b\\n'");
        assert_eq!(those(["a"]), "there is 'a'");
        assert_eq!(those([]), "there is none");
        assert_eq!(shown(&"\x1b".repeat(200)), "\\u{1b}".repeat(100) + "…");
        let text = those(["x"; 15]);
        assert_eq!(those(["x"; 13]).matches("'x'").count(), 13);
        assert!(text.ends_with("'x' and 3 more") && text.matches("'x'").count() == 12, "{text}");
    }
}
