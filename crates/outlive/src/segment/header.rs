//! The first bytes of every file of a domain: what it is, and which programs may read it.
//!
//! Written once, before the file has a name, and constant from then on, except `flags`.
//! doc/memory-layout.md has the byte diagram; a change of layout raises [`LAYOUT_VERSION`].

use std::borrow::Cow;
use std::path::Path;

use super::hash::fnv_1a;
use crate::describe::Description;
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::map::PAGE;
use crate::{Error, Kind};

/// `OUTLIVE\0`, read as a little-endian number.
const MAGIC: u64 = u64::from_le_bytes(*b"OUTLIVE\0");
/// Changes with every change of any shared layout. 2: the registry has its own relay word, before
/// its counters, and a slot's relay word says whether sleepers use that one. 3: an object's number
/// in its span has 15 bits, there are pools, and readers' words of a reader-writer lock have no
/// waiters' bit, but an eventcount. 6: a topic's ring says whether a device writes there. 7: a
/// request lies in its client's own call slot. 8: a slot of the registry notes the generation whose
/// sleepers were told, and the registry's size is its file's. 9: eventcounts, a waiters' bit in
/// events and latches; absent (AWAY) seats of a barrier; long type names with a hash. 10: a span's
/// entry says how many pages of its tags exist; a queue's, a topic's and a service's tags come with
/// the objects: a program that does not know this would touch tags without pages. 14: a barrier's
/// phase has a bit for "broken" for each parity, and one for a reset. 15: bodies begin two pages
/// later, behind the attributes and the description of the payload's type (`segment::pages`).
/// Topics say whether they offer reliable delivery, and which subscribers lag. A reentrant mutex has
/// a fourth state. 16: the description of a service's payloads has that of its replies behind it.
/// 17: a topic says for how many publishers, subscribers and samples it has room; what its
/// subscribers write lies in a second file; its publishers assert that they are there, and say how
/// long their messages count. 18: a queue's eventcount of messages has a word that names a large
/// wait set's doorbell, of which the registry has 24; a service may have several servers; a call's
/// slot has the places of a request's parts. 20: a topic's ring names the last session that was
/// disowned, and a message says whether its publisher stands for one elsewhere; a queue has a number
/// that no other queue has, and `taken` names the last message that was handed out, of several that
/// are not committed. 21: a service names the process that stands in for a server elsewhere, and a call
/// says that its server has done nothing for it; a state's value, that its writer is elsewhere; a
/// notifier's slot may be kept for a gateway. 22: a subscriber of a topic may have a name, under which its
/// slot is kept when its process dies.
const LAYOUT_VERSION: u32 = 23;
/// Programs of another byte order or pointer width lay memory out otherwise.
const ARCHITECTURE: u32 = (size_of::<usize>() as u32) << 8 | cfg!(target_endian = "big") as u32;
const TYPE_NAME: usize = 128;

/// Where the attributes lie: on the page behind the header's.
pub(super) const ATTRIBUTES_AT: u64 = PAGE;
/// Where the description of the payload's type lies.
pub(super) const DESCRIPTION_AT: u64 = 2 * PAGE;
/// Where the kind's own data begin: behind the header's page and these two.
pub(crate) const BODY: u64 = 3 * PAGE;

/// What a new file will be, or what an existing one must be.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) type_name: String,
    pub(crate) type_size: u64,
    pub(crate) type_align: u64,
    /// What lies where in the type, if the maker or opener says so.
    pub(crate) description: Option<Description>,
    /// Bytes of address space to reserve for it.
    pub(crate) reserve: u64,
    /// The most bytes to which it may grow.
    pub(crate) max_bytes: u64,
    /// Bytes that exist from the beginning.
    pub(crate) initial: u64,
}

/// The header as it lies in the file.
#[repr(C)]
pub(crate) struct Header {
    // Written by the maker, before the file has a name.
    magic: AtomicU64,
    layout_version: AtomicU32,
    architecture: AtomicU32,
    kind: AtomicU32,
    type_align: AtomicU32,
    type_size: AtomicU64,
    reserve: AtomicU64,
    max_bytes: AtomicU64,
    creator_pid: AtomicU32,
    // Written by the process that removes the name.
    flags: AtomicU32,
    reserved: AtomicU64,
    /// UTF-8, filled with zeroes; a long name is cut and gets a hash: see [`as_kept`].
    type_name: [AtomicU64; TYPE_NAME / 8],
    /// By kind: the offset table of a record (`sync::embedded`); in the first word 1 + what the
    /// maker of a latch or a semaphore began it with (`sync::primitive`), 0 if an older build made
    /// it; there, too, the number of a topic's control file, and in that the topic's inode next to
    /// it (`control_file`).
    pub(crate) extra: [AtomicU64; 24],
}

const _: () = assert!(size_of::<Header>() == 64 + TYPE_NAME + 192);

const REMOVED: u32 = 1;

impl Header {
    pub(crate) fn fill(&self, spec: &Spec, creator: u32) {
        self.layout_version.store(LAYOUT_VERSION, Ordering::Relaxed);
        self.architecture.store(ARCHITECTURE, Ordering::Relaxed);
        self.kind.store(spec.kind.number(), Ordering::Relaxed);
        self.type_align.store(spec.type_align as u32, Ordering::Relaxed);
        self.type_size.store(spec.type_size, Ordering::Relaxed);
        self.reserve.store(spec.reserve, Ordering::Relaxed);
        self.max_bytes.store(spec.max_bytes, Ordering::Relaxed);
        self.creator_pid.store(creator, Ordering::Relaxed);
        let mut bytes = [0u8; TYPE_NAME];
        let name = as_kept(&spec.type_name);
        let name = name.as_bytes();
        bytes[..name.len()].copy_from_slice(name);
        for (word, chunk) in self.type_name.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_le_bytes(chunk.try_into().unwrap_or_default()), Ordering::Relaxed);
        }
        // Relaxed everywhere: the link that gives the file its name orders all of it before any
        // opener.
        self.magic.store(MAGIC, Ordering::Relaxed);
    }

    /// Checks magic, version, architecture and kind. [`Header::check_type`] checks the type.
    pub(crate) fn check(&self, path: &Path) -> Result<Kind, Error> {
        if self.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(Error::NotASegment {
                path: path.to_path_buf(),
                why: "it lacks the magic bytes",
            });
        }
        let found = (
            self.layout_version.load(Ordering::Relaxed),
            self.architecture.load(Ordering::Relaxed),
        );
        let ours = (LAYOUT_VERSION, ARCHITECTURE);
        if found != ours {
            return Err(Error::OtherVersion { path: path.to_path_buf(), found, ours });
        }
        let number = self.kind.load(Ordering::Relaxed);
        Kind::of_number(number).ok_or_else(|| Error::NotASegment {
            path: path.to_path_buf(),
            why: "it is of an unknown kind",
        })
    }

    /// Checks that the values inside have the wanted type, by its name, size and alignment.
    pub(super) fn check_type(&self, path: &Path, spec: &Spec) -> Result<(), Error> {
        let size = self.type_size.load(Ordering::Relaxed);
        let align = u64::from(self.type_align.load(Ordering::Relaxed));
        let name = self.type_name();
        if (size, align, name.as_str())
            == (spec.type_size, spec.type_align, &*as_kept(&spec.type_name))
            // An event's name is its reset, an option (sync/event.rs).
            || spec.kind == Kind::Event
        {
            return Ok(());
        }
        // Languages without Rust's types know only a value's size, and its bytes may be any:
        // `[u8; N]` matches every type of that size. Up to this alignment, values of all types lie
        // at the same place.
        let has_plain_value = matches!(
            spec.kind,
            Kind::Mutex
                | Kind::ReentrantMutex
                | Kind::RwLock
                | Kind::PiMutex
                | Kind::CeilingMutex
                | Kind::State
        ) && align.max(spec.type_align) <= 64;
        // For a record, the places of its locks are compared as well (sync/embedded.rs), and it
        // begins at a page.
        let fits = has_plain_value || spec.kind == Kind::Record;
        let bytes = format!("[u8; {size}]");
        let is_bytes = name == bytes || spec.type_name == bytes;
        if fits && is_bytes && size == spec.type_size {
            return Ok(());
        }
        let describe = |name: &str, size: u64, align: u64| match (name, size) {
            ("", 1) => crate::error::NO_TYPE.to_owned(),
            _ => format!("'{name}' ({size} bytes, alignment {align})"),
        };
        Err(Error::OtherType {
            path: path.to_path_buf(),
            found: describe(&name, size, align),
            wanted: describe(&spec.type_name, spec.type_size, spec.type_align),
        })
    }

    pub(crate) fn type_name(&self) -> String {
        let mut bytes = Vec::with_capacity(TYPE_NAME);
        for word in &self.type_name {
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        let len = bytes.iter().position(|&b| b == 0).unwrap_or(TYPE_NAME);
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    pub(crate) fn type_align(&self) -> u64 {
        u64::from(self.type_align.load(Ordering::Relaxed))
    }

    pub(crate) fn type_size(&self) -> u64 {
        self.type_size.load(Ordering::Relaxed)
    }

    pub(crate) fn reserve(&self) -> u64 {
        self.reserve.load(Ordering::Relaxed)
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }

    /// Tells the processes that still have it open that its name is gone.
    pub(crate) fn mark_removed(&self) {
        self.flags.fetch_or(REMOVED, Ordering::Relaxed);
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & REMOVED != 0
    }
}

/// Returns a type's name as the header keeps it: whole if it fits; otherwise its beginning, `#`,
/// and a hash of the whole, so that two long names that begin alike differ. No type name in Rust
/// contains a `#`.
fn as_kept(name: &str) -> Cow<'_, str> {
    if name.len() < TYPE_NAME {
        return Cow::Borrowed(name);
    }
    let hash = format!("#{:016x}", fnv_1a(name.bytes()));
    let mut end = TYPE_NAME - 1 - hash.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}{hash}", &name[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_that_begin_alike_are_kept_as_two() {
        for name in ["", "u8", &"x".repeat(TYPE_NAME - 1)] {
            assert_eq!(as_kept(name), name);
        }
        for letter in ["x", "ö", "𐍈"] {
            let beginning = letter.repeat(TYPE_NAME);
            let names = ["", "A", "B", "AB"].map(|end| format!("{beginning}{end}"));
            let kept: std::collections::HashSet<_> =
                names.iter().map(|name| as_kept(name)).collect();
            assert_eq!(kept.len(), names.len(), "{kept:?}");
            assert!(
                kept.iter().all(|kept| kept.len() < TYPE_NAME && kept.len() > TYPE_NAME - 5),
                "{kept:?}"
            );
        }
    }
}
