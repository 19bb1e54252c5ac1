//! Names here and keys there: `camera.front` is `camera/front`.
//!
//! The two must mean each other, or a name could be published under one key and received under
//! another. So what has no twin is refused: a name with an empty part or with a character that zenoh
//! gives a meaning, a key with a part that has a dot.

use std::fmt;

/// Characters that mean something in a key expression.
const MEANT: [char; 4] = ['*', '$', '?', '#'];
/// What the names of gateways' own things begin with: they stay where they are.
pub const OWN: &str = "outlive-gateway.";
/// The longest name of a thing in a domain, in bytes.
const LONGEST: usize = 200;

/// Why a name has no key, or a key no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A part between two dots, or two slashes, is empty.
    EmptyPart,
    /// A part has a character that key expressions give a meaning, or a slash.
    Meant(char),
    /// A part begins with '@', which zenoh keeps for what `**` must not match.
    Verbatim,
    /// A part of a key has a dot: as a name it would have one part more.
    Dot,
    /// The name would be longer than 200 bytes.
    TooLong,
    /// It has a control character.
    Control,
    /// It is a gateway's own.
    Own,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::EmptyPart => f.write_str("a part of it is empty"),
            Refused::Meant(character) => write!(f, "it contains '{character}'"),
            Refused::Verbatim => f.write_str("a part of it begins with '@'"),
            Refused::Dot => f.write_str("a part of the key contains '.'"),
            Refused::TooLong => f.write_str("it is longer than 200 bytes"),
            Refused::Control => f.write_str("it contains a control character"),
            Refused::Own => f.write_str("gateways' own things stay where they are"),
        }
    }
}

fn checked<'t>(text: &'t str, parts: char) -> Result<std::str::Split<'t, char>, Refused> {
    if text.len() > LONGEST {
        return Err(Refused::TooLong);
    }
    let other = if parts == '.' { '/' } else { '.' };
    for part in text.split(parts) {
        if part.is_empty() {
            return Err(Refused::EmptyPart);
        }
        if part.starts_with('@') {
            return Err(Refused::Verbatim);
        }
        if let Some(found) = part.chars().find(|c| MEANT.contains(c) || *c == other) {
            return Err(if found == '.' { Refused::Dot } else { Refused::Meant(found) });
        }
        if part.chars().any(char::is_control) {
            return Err(Refused::Control);
        }
    }
    Ok(text.split(parts))
}

fn joined(parts: std::str::Split<'_, char>, by: &str) -> String {
    parts.collect::<Vec<_>>().join(by)
}

/// Returns the key of a thing with that name.
///
/// # Errors
/// The name has no key that means it again.
pub fn key_of(name: &str) -> Result<String, Refused> {
    if name.starts_with(OWN) {
        return Err(Refused::Own);
    }
    checked(name, '.').map(|parts| joined(parts, "/"))
}

/// Returns the name of a thing with that key.
///
/// # Errors
/// The key has no name that means it again, or comes from a program that means no good.
pub fn name_of(key: &str) -> Result<String, Refused> {
    let name = checked(key, '/').map(|parts| joined(parts, "."))?;
    if name.starts_with(OWN) { Err(Refused::Own) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys_mean_each_other() {
        for (name, key) in
            [("camera", "camera"), ("camera.front.raw", "camera/front/raw"), ("a b.ü", "a b/ü")]
        {
            assert_eq!(key_of(name).as_deref(), Ok(key));
            assert_eq!(name_of(key).as_deref(), Ok(name));
        }
    }

    #[test]
    fn what_has_no_twin_is_refused() {
        for (name, why) in [
            ("", Refused::EmptyPart),
            ("a..b", Refused::EmptyPart),
            (".a", Refused::EmptyPart),
            ("a/b", Refused::Meant('/')),
            ("a*", Refused::Meant('*')),
            ("a.$b", Refused::Meant('$')),
            ("a.@b", Refused::Verbatim),
            ("a\n", Refused::Control),
        ] {
            assert_eq!(key_of(name), Err(why), "{name:?}");
        }
        for (key, why) in [
            ("", Refused::EmptyPart),
            ("/a", Refused::EmptyPart),
            ("a//b", Refused::EmptyPart),
            ("../../etc/passwd", Refused::Dot),
            ("a/..", Refused::Dot),
            ("a/.tokens", Refused::Dot),
            ("a/b.c", Refused::Dot),
            ("@outlive/1", Refused::Verbatim),
            ("a\0", Refused::Control),
            ("outlive-gateway/default/journal", Refused::Own),
        ] {
            assert_eq!(name_of(key), Err(why), "{key:?}");
        }
        assert_eq!(name_of(&"x".repeat(201)), Err(Refused::TooLong));
    }
}
