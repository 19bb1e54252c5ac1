//! Which names a domain allows.

use crate::Error;

/// The longest name, in bytes. The kernel allows 255; the rest is for suffixes that later versions
/// may add.
pub(crate) const LONGEST: usize = 200;

/// The name of the domain that nothing names otherwise.
pub(crate) const DEFAULT_DOMAIN: &str = "default";

/// Checks a name that a user gave. Names become file names unchanged, so that `ls` and `rm` work as
/// expected.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST {
        "it is longer than 200 bytes"
    } else if name.contains('/') {
        "it contains '/'"
    } else if name.contains('\0') {
        "it contains a NUL"
    } else if name.starts_with('.') {
        "it starts with '.'"
    } else {
        return Ok(());
    };
    Err(Error::InvalidName { name: name.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_says_which_name_one_with_slashes_can_have() {
        let told = |name| check_name(name).expect_err(name).to_string();
        assert!(told("/camera/image").contains("'camera.image' can,"), "{}", told("/camera/image"));
        assert!(told("a//b/").contains("'a.b' can,"), "{}", told("a//b/"));
        for name in ["/", "//", "../b", ".a/b", &format!("/{}", "x".repeat(201)), "a/\0"] {
            assert!(!told(name).contains(" can,"), "{}", told(name));
        }
    }

    #[test]
    fn bad_names_are_refused_with_a_reason() {
        for name in ["", "a/b", "/", "..", ".hidden", "nul\0", &"x".repeat(300)] {
            let error = check_name(name).expect_err(name);
            assert!(error.to_string().contains("cannot be a name"), "{error}");
        }
        for name in ["q", "a b", "gps.fix", "größe", &"x".repeat(200)] {
            check_name(name).expect(name);
        }
    }
}
