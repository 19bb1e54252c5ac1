//! The page as a file, for node_exporter's textfile collector.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Returns the file's name while it is written: one that the collector, which reads `*.prom`, passes over.
fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Writes the page, so that each reader finds this one or the one before, whole. A process that is killed
/// in the middle leaves the temporary file, which no program reads.
pub fn write(path: &Path, page: &str) -> io::Result<()> {
    let temporary = temporary(path);
    let options = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        // Where others may write, too, the name may be a link of theirs.
        .custom_flags(libc::O_NOFOLLOW)
        .open(&temporary);
    let written = options.and_then(|mut file| {
        file.write_all(page.as_bytes())?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // Half a page on a full disk is of no use.
        let _ = fs::remove_file(&temporary);
    }
    written
}
