//! Which users may publish to a topic, and which may subscribe: the modes of its two files.
//!
//! | the topic's own file | its control file | a member of the group |
//! | --- | --- | --- |
//! | 0660 | 0660 | publishes, subscribes |
//! | 0640 | 0660 | subscribes: it writes the control file, and reads the other one |
//! | 0600 | 0600 | cannot open either |
//!
//! Both files have their modes before they have their names, so no process finds one with another
//! mode; a death of the maker leaves nothing between the two (`segment/control_file.rs`).

use core::fmt;

use crate::Error;

/// A mode of a topic's own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode(pub(super) u32);

impl Mode {
    /// Refuses a mode with which no process, or any process, could use the topic.
    pub(super) fn checked(self) -> Result<Mode, Error> {
        match self.0 {
            0o600 | 0o640 | 0o660 => Ok(self),
            _ => Err(Error::InvalidOption {
                what: "a topic's mode",
                wanted: self.to_string().into(),
                why: "0600, 0640 (the group subscribes) or 0660 (the group publishes, too)",
            }),
        }
    }

    /// Returns the mode of the control file: a process that may read messages may write there.
    pub(super) fn of_control(self) -> u32 {
        if self.0 & 0o040 == 0 { 0o600 } else { 0o660 }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}
