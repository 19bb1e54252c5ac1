//! Names that were mistyped.

use std::path::Path;

use outlive_program::names::nearest;

/// Returns the name beside a path that is not there which is most like the path's own: that of
/// another thing of the domain, or of another domain.
pub fn similar(path: &Path) -> Option<String> {
    let wanted = path.file_name()?.to_str()?;
    let beside = std::fs::read_dir(path.parent()?).ok()?;
    let names = beside.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    nearest(wanted, names)
}
