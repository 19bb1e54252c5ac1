//! SHA256SUMS: a checksum of each file of a release, as `sha256sum --check` reads them.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

const NAME: &str = "SHA256SUMS";

/// Writes the checksums of all files below a folder, and returns how many there are.
pub(super) fn write(folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let mut files = Vec::new();
    below(folder, folder, &mut files)?;
    files.retain(|file| file != NAME);
    files.sort_unstable();
    let mut sums = String::new();
    if !files.is_empty() {
        let mut sum = Command::new("sha256sum");
        sums = super::said(sum.args(&files).current_dir(folder))?;
    }
    fs::write(folder.join(NAME), sums)?;
    Ok(files.len())
}

fn below(folder: &Path, top: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            below(&path, top, files)?;
        } else if let Ok(name) = path.strip_prefix(top) {
            files.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_sum_that_holds() {
        let folder = std::env::temp_dir().join(format!("outlive-sums-{}", std::process::id()));
        fs::create_dir_all(folder.join("part")).expect("made");
        fs::write(folder.join("part/a b"), "1").expect("written");
        fs::write(folder.join("c"), "2").expect("written");
        // Once more: the list itself is not in it.
        for _ in 0..2 {
            assert_eq!(write(&folder).expect("written"), 2);
        }
        let check = || {
            let mut check = Command::new("sha256sum");
            crate::dist::said(check.args(["--check", NAME]).current_dir(&folder))
        };
        check().expect("they hold");
        fs::write(folder.join("part/a b"), "3").expect("written");
        check().expect_err("a file is another");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
