//! Who has a file mapped, as `/proc` tells.
//!
//! Nobody signs in anywhere when a named thing is opened: the kernel knows, and it forgets nobody who dies.

use std::collections::HashMap;
use std::fs;

use crate::sys::process::mapped_file;

/// Processes by the file they map, (device, inode).
pub(super) struct Users(HashMap<(u64, u64), Vec<u32>>);

impl Users {
    /// Looks at all processes that this user may look at.
    pub(super) fn now() -> Users {
        let mut users: HashMap<(u64, u64), Vec<u32>> = HashMap::new();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let Ok(maps) = fs::read(process.path().join("maps")) else {
                continue;
            };
            for file in maps.split(|byte| *byte == b'\n').filter_map(mapped_file) {
                let pids = users.entry(file).or_default();
                if pids.last() != Some(&pid) {
                    pids.push(pid);
                }
            }
        }
        Users(users)
    }

    pub(super) fn of(&self, file: (u64, u64)) -> Vec<u32> {
        let mut pids = self.0.get(&file).cloned().unwrap_or_default();
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}
