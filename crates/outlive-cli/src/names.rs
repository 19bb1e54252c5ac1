//! Names that were mistyped.

use std::path::Path;

/// Returns the name beside a path that is not there which is most like the path's own: that of
/// another thing of the domain, or of another domain.
pub fn similar(path: &Path) -> Option<String> {
    let wanted = path.file_name()?.to_str()?;
    let beside = std::fs::read_dir(path.parent()?).ok()?;
    let names = beside.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    nearest(wanted, names)
}

/// Returns the name that is most like the one that was wanted, if one is much like it.
fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Option<String> {
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
}
