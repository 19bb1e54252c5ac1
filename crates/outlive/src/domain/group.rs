//! Groups by name: from the system's own list, without the name service, which a library that other
//! languages load cannot call everywhere.

use crate::Error;
use crate::sys::file;

const LIST: &str = "/etc/group";

/// Returns the id of a group that is given by number or by name.
pub(super) fn id_of(group: &str) -> Result<u32, Error> {
    let invalid = || Error::InvalidOption {
        what: "the group",
        wanted: format!("'{}'", group.escape_debug()).into(),
        why: "a group's number, or a name that /etc/group has",
    };
    match group.parse() {
        // The number that chown(2) takes for "leave it".
        Ok(u32::MAX) => Err(invalid()),
        Ok(number) => Ok(number),
        Err(_) => {
            let list = file::read_text(LIST).unwrap_or_default();
            find(&list, group).ok_or_else(invalid)
        }
    }
}

/// Finds a name in the lines of group(5).
fn find(list: &str, wanted: &str) -> Option<u32> {
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id = fields.nth(1)?;
        if name == wanted { id.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_number_and_by_name() {
        let list = "root:x:0:\nrobots:x:2000:ann,bob\nbroken\nodd:x:many:\n";
        assert_eq!(find(list, "robots"), Some(2000));
        for wanted in ["robot", "x", "", "broken", "odd"] {
            assert_eq!(find(list, wanted), None, "{wanted}");
        }
        assert_eq!(id_of("2000"), Ok(2000));
        for wrong in ["-1", "4294967295", "4294967296", "no such group", ""] {
            let error = id_of(wrong).expect_err(wrong).to_string();
            assert!(error.contains("/etc/group"), "{error}");
        }
    }
}
