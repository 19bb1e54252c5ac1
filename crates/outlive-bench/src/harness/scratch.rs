//! A folder on the shared-memory file system for what a benchmark must have as files, removed with
//! everything in it.

use super::error::Error;
use std::ffi::OsString;
use std::fs;
use std::os::unix::{ffi::OsStringExt, fs::DirBuilderExt};
use std::path::{Path, PathBuf};

/// The folder; gone when dropped.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a fresh one, for this user only.
    pub fn new() -> Result<Self, Error> {
        Self::under(Path::new("/dev/shm"))
    }

    /// Makes one in another folder.
    pub fn under(folder: &Path) -> Result<Self, Error> {
        let mut template = folder.join("outlive-bench-XXXXXX").into_os_string().into_vec();
        template.push(0);
        // SAFETY: a writable string that ends with NUL; mkdtemp replaces the six X.
        if unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) }.is_null() {
            return Err(Error::last("making a folder for the benchmark"));
        }
        template.pop();
        Ok(Self { path: PathBuf::from(OsString::from_vec(template)) })
    }

    /// Makes one inside this one, for one turn.
    pub fn inner(&self, name: &str) -> Result<Self, Error> {
        let path = self.path.join(name);
        // Not create_dir_all: a folder that is there already belongs to another process, and must
        // not be removed here.
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|source| Error::System { doing: "making a folder for a turn", source })?;
        Ok(Self { path })
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("outlive bench: could not remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        let inner = scratch.inner("turn").unwrap();
        fs::write(inner.path().join("file"), b"x").unwrap();
        assert!(scratch.inner("turn").is_err(), "a folder that is there is not taken over");
        drop(inner);
        assert!(!path.join("turn").exists());
        fs::write(path.join("file"), b"x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
