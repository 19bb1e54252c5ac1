//! Forged states: bytes of a domain's files, written past the library.
//!
//! The registry (`.tokens`) has its own words where bodies begin and its slots a page later;
//! the byte diagram is in doc/memory-layout.md. A layout that changes makes these checks fail, not
//! pass.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use outlive::Domain;

/// Where a segment's layout version, architecture mark and kind stand.
pub const MAGIC: u64 = 0;
pub const VERSION: u64 = 8;
pub const KIND: u64 = 16;
/// Where a kind's own data begin.
pub const BODY: u64 = 12_288;

const SLOTS_AT: u64 = BODY + 4096;
const SLOT: u64 = 128;
const GENERATION: u64 = 48;
const TID: u64 = 52;
const HOME: u64 = 64;
const RESTED: u64 = 112;
/// What the kernel writes into a robust word when its holder ends.
pub const OWNER_DIED: u32 = 0x4000_0000;
/// Numbers that an id has bits for.
pub const NUMBERS: u32 = 8192;
/// The most slots that a registry has.
pub const MOST_SLOTS: u32 = 65_536;

/// A file of a domain, for reading and writing what lies in it.
pub struct Bytes(File);

impl Bytes {
    pub fn of(domain: &Domain, name: &str) -> Bytes {
        let path = domain.path().join(name);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        Bytes(file.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    pub fn word(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.0.read_exact_at(&mut bytes, at).expect("inside the file");
        u32::from_ne_bytes(bytes)
    }

    pub fn set_word(&self, at: u64, value: u32) {
        self.0.write_all_at(&value.to_ne_bytes(), at).expect("written");
    }

    pub fn set(&self, at: u64, bytes: &[u8]) {
        self.0.write_all_at(bytes, at).expect("written");
    }

    pub fn len(&self) -> u64 {
        self.0.metadata().expect("known").len()
    }

    pub fn set_len(&self, len: u64) {
        self.0.set_len(len).expect("cut");
    }
}

/// A domain's registry.
pub struct Registry(Bytes);

impl Registry {
    pub fn of(domain: &Domain) -> Registry {
        Registry(Bytes::of(domain, ".tokens"))
    }

    /// Makes it as large as it gets.
    pub fn grow_to_most(&self) {
        self.0.set_len(SLOTS_AT + u64::from(MOST_SLOTS) * SLOT);
    }

    fn at(slot: u32) -> u64 {
        SLOTS_AT + u64::from(slot) * SLOT
    }

    pub fn generation(&self, slot: u32) -> u32 {
        self.0.word(Registry::at(slot) + GENERATION)
    }

    /// As if the slot had been used that often: twice the number, plus one while in use.
    pub fn set_generation(&self, slot: u32, generation: u32) {
        self.0.set_word(Registry::at(slot) + GENERATION, generation);
    }

    pub fn rested(&self, slot: u32) -> u32 {
        self.0.word(Registry::at(slot) + RESTED)
    }

    /// Where libc's lock word lies in a slot that was used.
    fn word_at(&self, slot: u32) -> u64 {
        u64::from(self.0.word(Registry::at(slot) + HOME) & 0xff)
    }

    /// Makes `slot` look as if the thread `tid` held it; `like` is a slot that a real thread of
    /// this libc and namespace has used.
    pub fn pretend_in_use(&self, slot: u32, like: u32, tid: u32) {
        let mut bytes = [0; SLOT as usize];
        self.0.0.read_exact_at(&mut bytes, Registry::at(like)).expect("inside the file");
        // The list pointers that libc left are of no further use.
        bytes[4..48].fill(0);
        let word_at = self.word_at(like) as usize;
        bytes[word_at..word_at + 4].copy_from_slice(&tid.to_ne_bytes());
        bytes[GENERATION as usize..][..4].copy_from_slice(&1u32.to_ne_bytes());
        bytes[TID as usize..][..4].copy_from_slice(&tid.to_ne_bytes());
        self.0.set(Registry::at(slot), &bytes);
    }

    /// Writes over the words of a slot's libc mutex that no thread holds: all but the lock word.
    pub fn damage(&self, slot: u32) {
        // glibc's owner: PTHREAD_MUTEX_NOTRECOVERABLE.
        self.0.set_word(Registry::at(slot) + 8, 0x7fff_fffe);
        for at in [12, 20, 24, 32] {
            self.0.set_word(Registry::at(slot) + at, 0x5a5a_5a5a);
        }
    }

    /// What the kernel writes when the holder ends.
    pub fn mark_died(&self, slot: u32) {
        self.0.set_word(Registry::at(slot) + self.word_at(slot), OWNER_DIED);
    }
}
