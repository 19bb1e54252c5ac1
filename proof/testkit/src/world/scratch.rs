//! Where runs keep their folders: on the memory file system, one folder a run, cleared by the next
//! run.
//!
//! A failing round's folder is kept for a person to look into. The next run clears what ended runs
//! have left, and only that: runs beside it are known by the pid in their folder's name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A run's folder. Removed when dropped, unless something in it is worth keeping.
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

fn base() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    root.join(format!("outlive-testkit-{}", rustix::process::getuid().as_raw()))
}

fn is_of_an_ended_run(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let pid = name.rsplit('-').next().and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Removes what ended runs have left.
pub fn clear_ended_runs() {
    let Ok(folders) = fs::read_dir(base()) else {
        return;
    };
    for folder in folders.flatten().map(|entry| entry.path()) {
        if is_of_an_ended_run(&folder) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl Scratch {
    /// Makes a folder for this run, named after `purpose` and this process.
    ///
    /// # Errors
    /// What making it reports.
    pub fn new(purpose: &str) -> io::Result<Scratch> {
        let path = base().join(format!("{purpose}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
        Ok(Scratch { path, keep: false })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder in place for a person to look at.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
            // Goes when it is empty.
            let _ = fs::remove_dir(base());
        }
    }
}
