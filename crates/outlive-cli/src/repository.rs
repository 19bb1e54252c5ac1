//! Files of the project that tests compare this program with. A package of the program does not have
//! them.

use std::fs;
use std::path::Path;

/// Returns the text of a file, by its path from the project's root; `None` in a package, where there
/// is nothing to compare with.
pub fn text(path: &str) -> Option<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Cargo writes this file into each package that it makes.
    if package.join(".cargo_vcs_info.json").exists() {
        println!("skipped: {path} is not in a package");
        return None;
    }
    Some(fs::read_to_string(package.join("../..").join(path)).expect("a file of the project"))
}
