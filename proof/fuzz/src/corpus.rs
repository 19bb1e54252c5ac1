//! Past finds, as small texts: what was written, and by which seed the operations were put in
//! order.
//!
//! ```text
//! # What was wrong.
//! seed 17
//! write orphan 0x1080 4 0xffffffff 1
//! ```

use std::fs;
use std::path::Path;

use crate::script::Write;

/// A round that once went wrong.
pub struct Case {
    pub name: String,
    pub seed: u64,
    pub writes: Vec<Write>,
}

/// Returns all of them, by name.
pub fn all() -> Result<Vec<Case>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

pub fn read(path: &Path) -> Result<Case, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut case = Case { name, seed: 0, writes: Vec::new() };
    for line in
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line.strip_prefix("seed ") {
            Some(seed) => {
                case.seed =
                    seed.trim().parse().map_err(|error| format!("{}: {error}", case.name))?
            }
            None => {
                case.writes.push(line.parse().map_err(|error| format!("{}: {error}", case.name))?)
            }
        }
    }
    Ok(case)
}
