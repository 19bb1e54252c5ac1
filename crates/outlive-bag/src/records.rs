//! The records of a file, one after another, without what is in them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use outlive_mcap::{Error, Place, Scan, Step};

use crate::exit::Failure;

/// The opcode of a chunk.
pub const CHUNK: u8 = 0x06;
/// The opcode of the record behind a file's data, which has the checksum of them, or 0.
pub const DATA_END: u8 = 0x0f;

/// See the head of this file.
pub struct Records {
    pub file: Arc<File>,
    pub scan: Scan,
}

impl Records {
    /// Opens a file.
    pub fn of(path: &Path) -> Result<Records, Failure> {
        let path: Arc<Path> = path.into();
        let open = File::open(&path);
        let file =
            open.map_err(|error| Failure::system(format_args!("open {}", path.display()), &error))?;
        let file = Arc::new(file);
        Ok(Records { scan: Scan::new(&file, &path)?, file })
    }

    /// Returns the next one. `None`: none comes behind, or it is cut off or damaged, which reading the file tells.
    pub fn next(&mut self) -> Result<Option<Place>, Failure> {
        match self.scan.step() {
            Ok(Step::Record(place)) => Ok(Some(place)),
            Err(error @ Error::Io { .. }) => Err(error.into()),
            Ok(_) | Err(_) => Ok(None),
        }
    }
}
