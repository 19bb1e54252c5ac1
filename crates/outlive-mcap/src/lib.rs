//! MCAP files that outlive the process that writes them.
//!
//! [MCAP](https://mcap.dev/spec) is the format of robots' recordings. A [`Writer`] gathers messages
//! and writes them in *groups*, each by one system call with its lengths in front, long payloads
//! straight from where they lie. A process that is killed at any instruction leaves a file that
//! every MCAP reader can read up to there; [`Writer::resume`] continues it behind the last whole group,
//! and returns the *positions* that this group ended with: how far each source is in the file.
//!
//! ```
//! use outlive_mcap::{MessageHeader, Options, Positions, Writer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("outlive-mcap-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let path = folder.join("drive.mcap");
//! let mut writer: Writer = Writer::create(&path, Options::default())?;
//! let channel = writer.add_channel(0, "camera/front", "", &Default::default())?;
//! let header = MessageHeader { channel_id: channel, sequence: 1, log_time: 10, publish_time: 9 };
//! writer.put(&header, b"a picture")?;
//! writer.flush(&Positions::from([("camera/front".into(), "1".into())]))?;
//! // The process may die from here on: the message is in the file.
//! drop(writer);
//!
//! let (mut writer, tail) = Writer::<Vec<u8>>::resume(&path, Options::default())?;
//! assert_eq!(tail.positions["camera/front"], "1");
//! writer.finish(&tail.positions)?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

mod by_number;
mod contents;
mod error;
mod files;
mod finish;
mod group;
mod in_place;
mod index;
mod lock;
mod numbering;
mod outline;
mod put;
mod read;
mod record;
mod resume;
mod scan;
mod write;

pub use contents::{Contents, Schema};
pub use error::Error;
pub use files::{RECORDING, files_of, new_file, with_ending};
pub use group::COPIED;
pub use in_place::{Long, Next};
pub use index::Index;
pub use lock::{Holder, holder_of};
pub use mcap::records::{AttachmentHeader, Channel, MessageHeader, SchemaHeader, Statistics};
pub use mcap::records::{Header, Metadata};
pub use numbering::Numbering;
pub use outline::{Outline, Span};
pub use read::{Item, Message, Reader};
pub use record::MAX_CHUNK;
pub use resume::Tail;
pub use resume::read_positions;
pub use scan::{Place, Scan, Step};
pub use write::{Compression, Options, POSITIONS, Positions, Sync, Writer};
