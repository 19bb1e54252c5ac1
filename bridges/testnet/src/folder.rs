//! A test's own folder.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::{env, fs, ops};

use crate::run;

/// A folder that is removed with all that is in it, on drop.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes one, with that word in its name.
    ///
    /// # Panics
    /// If there is no place for one.
    pub fn new(what: &str) -> Folder {
        static LEFTOVERS: Once = Once::new();
        let parent = env::temp_dir();
        LEFTOVERS.call_once(|| remove_leftovers(&parent));
        let path = parent.join(run::name(what));
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Folder { path }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(run::is_leftover) {
            // Another run may be removing it as well.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_removed_also_after_a_panic_and_leftovers_are() {
        let kept = std::sync::Mutex::new(PathBuf::new());
        std::panic::catch_unwind(|| {
            let folder = Folder::new("one");
            fs::write(folder.join("file"), "").expect("is written");
            *kept.lock().expect("one thread") = folder.to_path_buf();
            panic!("on purpose");
        })
        .expect_err("it panics");
        assert!(!kept.into_inner().expect("one thread").exists());

        let leftover = env::temp_dir().join(format!("outlive-test-{}-1-0-x", std::process::id()));
        fs::create_dir_all(&leftover).expect("is made");
        remove_leftovers(&env::temp_dir());
        assert!(!leftover.exists());
    }
}
