//! Which processes have a file mapped, as `/proc` shows.
//!
//! A process registers nowhere when it opens a named thing: the kernel knows, and forgets no
//! process that dies.

use std::collections::HashMap;
use std::fs;

use crate::sys::process::mapped_file;

/// Processes by the file that they map, (device, inode).
pub(super) struct Users(HashMap<(u64, u64), Vec<u32>>);

impl Users {
    /// Reads the mappings of all processes that this user may read.
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
