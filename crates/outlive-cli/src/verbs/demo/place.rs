//! The demo's own folder in memory: a domain, the material, the journals. Removed when the demo
//! ends.
//!
//! A demo that was killed itself cannot remove its folder. The name says whose it is, so the next
//! demo removes it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use outlive::Domain;

use crate::exit::Failure;
use crate::process;

/// The folder, while it is there.
pub struct Place {
    path: PathBuf,
}

/// Returns where memory file systems are.
fn base() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    if shm.is_dir() { shm } else { std::env::temp_dir() }
}

/// Names of this user's demos in this pid namespace begin so.
fn prefix() -> String {
    format!("outlive-demo-{}-{}-", rustix::process::geteuid().as_raw(), process::pid_namespace())
}

impl Place {
    /// Makes it.
    pub fn make() -> Result<Place, Failure> {
        for left in leftovers() {
            let _ = fs::remove_dir_all(left);
        }
        let pid = std::process::id();
        let path =
            base().join(format!("{}{pid}-{}", prefix(), process::start_time(pid).unwrap_or(0)));
        let failed =
            |error: &io::Error| Failure::system(format_args!("make {}", path.display()), error);
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| failed(&error))?;
        Ok(Place { path })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns the domain in a demo's folder.
pub fn domain(folder: &Path) -> Result<Domain, Failure> {
    Ok(Domain::open_or_create_at(folder.join("domain"))?)
}

/// Folders of demos that were killed before they could remove them.
pub fn leftovers() -> Vec<PathBuf> {
    let prefix = prefix();
    let mut found = Vec::new();
    for entry in fs::read_dir(base()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(whose) = name.to_str().and_then(|name| name.strip_prefix(&prefix)) else {
            continue;
        };
        let Some((pid, started)) = whose.split_once('-') else { continue };
        if let (Ok(pid), Ok(started)) = (pid.parse(), started.parse::<u64>())
            && process::Process::find(pid, Some(started)).is_ok_and(|found| found.is_none())
        {
            found.push(entry.path());
        }
    }
    found
}
