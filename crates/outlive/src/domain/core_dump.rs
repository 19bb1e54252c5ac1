//! Whether core dumps have the shared memory.

use super::DomainOptions;
use crate::sys::map;

/// Set to 0, core dumps have none of the shared memory.
const VARIABLE: &str = "OUTLIVE_CORE_DUMP";

impl DomainOptions {
    /// Sets whether core dumps of this process may have the shared memory that it maps from now on, in
    /// whatever domain (`MADV_DONTDUMP`). Default: they may, unless the environment has
    /// `OUTLIVE_CORE_DUMP=0`.
    ///
    /// The process's `/proc/PID/coredump_filter` decides whether they do. By default they do not, except
    /// for files whose names have been removed while this process uses them; with bit 3 (`0x3b`) they
    /// have all of it. Other processes notice the death only when the dump is written, and the dump
    /// contains what they have written. gdb shows shared memory of a core file only if the file has it.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-dump-{}", std::process::id()));
    /// let domain = outlive::Domain::options().core_dump(false).open_or_create_at(&folder)?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    pub fn core_dump(mut self, may: bool) -> DomainOptions {
        self.core_dump = Some(may);
        self
    }
}

/// Does what the options say, or else the environment.
pub(super) fn apply(wanted: Option<bool>) {
    match wanted {
        Some(may) => map::set_in_core_dumps(may),
        None if std::env::var_os(VARIABLE).is_some_and(|value| value == "0") => {
            map::set_in_core_dumps(false);
        }
        None => {}
    }
}
