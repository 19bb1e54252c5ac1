//! Shared files: checked folders, headers, creation without a race, growth without a move.

mod attributes;
mod budget;
pub(crate) mod control_file;
mod copy;
mod folder;
mod hash;
mod header;
mod name;
mod pages;
mod resident;
#[expect(clippy::module_inception, reason = "the folder's main thing")]
mod segment;

pub use attributes::{Attributes, AttributesIter};
pub(crate) use attributes::{MOST_BYTES as MOST_ATTRIBUTES, put as put_pair, take as take_pair};
pub(crate) use copy::{copy_in, copy_out};
pub(crate) use folder::{Contents, Folder};
pub(crate) use hash::fnv_1a;
pub(crate) use header::{BODY, Header, Spec};
pub(crate) use name::{DEFAULT_DOMAIN, check_name};
pub(crate) use pages::MOST_PAGE_BYTES;
pub(crate) use resident::{Resident, make_opened_resident, note_opened};
pub use segment::Opening;
pub(crate) use segment::{MOST_RESERVED, Segment, SharedLayout, View, Writer, lock_error};
