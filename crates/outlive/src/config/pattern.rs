//! Patterns of topics' names: `*` stands for any number of characters, `?` for one.

/// Returns whether a name fits a pattern, in time proportional to both lengths multiplied.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut of_name) = (0, 0);
    // Where to go on when what follows the last `*` does not fit: that `*` takes one more.
    let mut retry = None;
    while of_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                retry = Some((at + 1, of_name + 1));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[of_name] => {
                at += 1;
                of_name += 1;
            }
            _ => match retry {
                Some((behind, next)) => {
                    (at, of_name) = (behind, next);
                    retry = Some((behind, next + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "camera"),
            ("camera", "camera"),
            ("camera.*", "camera.front"),
            ("*.raw", "camera.raw.raw"),
            ("a*b*c", "axxbyybzc"),
            ("?ö?", "xöy"),
            ("**", "x"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "x"),
            ("camera.*", "camera"),
            ("*.raw", "camera.rawx"),
            ("a*b*c", "axxbyyb"),
            ("?", ""),
            ("?", "xy"),
            ("Camera", "camera"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    /// A pattern that backtracks over each `*` would take years here.
    #[test]
    fn many_stars_take_no_time() {
        assert!(!fits(&("a*".repeat(60) + "b"), &"a".repeat(200)));
    }
}
