//! The page that a victim shares with the process that kills it.
//!
//! The victim writes here how far it has come: which *phase* it is in and how many things it may
//! call acknowledged. The page is a file of its own beside the domain's folder, so that it is no
//! part of the state under test and stays readable after the victim's death. The victim writes,
//! save for one word; the engine reads after each instruction, while the victim stands still. The
//! word by which the engine says that the victim was overtaken is the engine's.
//!
//! ```text
//! phase:  SETTING_UP -> BEGUN (its first instruction is next) -> ENDED (the operation returned)
//! ```

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The victim still prepares; it is not yet traced.
pub const SETTING_UP: u32 = 0;
/// The operation under test begins with the next instruction.
pub const BEGUN: u32 = 1;
/// The operation under test has returned.
pub const ENDED: u32 = 2;

const PAGE_BYTES: usize = 4096;
/// Room for what an error says.
const TOLD_BYTES: usize = 1024;

/// What lies in the page. All zero is a valid start.
#[repr(C)]
pub struct ControlPage {
    phase: AtomicU32,
    tid: AtomicU32,
    acknowledged: AtomicU64,
    notes: [AtomicU64; 8],
    overtaken: AtomicU32,
    failed: AtomicU32,
    end: AtomicU64,
    told: [AtomicU8; TOLD_BYTES],
}

/// A mapping of the control page, by victim or engine.
pub struct Control {
    page: NonNull<ControlPage>,
}

impl Control {
    /// Maps the page in `file`, which is made when it is missing.
    ///
    /// # Errors
    /// What opening, sizing or mapping the file reports.
    pub fn open(file: &Path) -> io::Result<Control> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file)?;
        file.set_len(PAGE_BYTES as u64)?;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice, of a file that is as
        // long as the mapping.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let page = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Control { page })
    }

    fn page(&self) -> &ControlPage {
        // SAFETY: the mapping lives as long as self, is page-aligned, and every byte pattern is a
        // valid ControlPage.
        unsafe { self.page.as_ref() }
    }

    /// Back to the state before any victim ran.
    pub fn clear(&self) {
        let page = self.page();
        page.tid.store(0, Ordering::SeqCst);
        page.acknowledged.store(0, Ordering::SeqCst);
        for note in &page.notes {
            note.store(0, Ordering::SeqCst);
        }
        page.overtaken.store(0, Ordering::SeqCst);
        page.failed.store(0, Ordering::SeqCst);
        page.end.store(0, Ordering::SeqCst);
        page.phase.store(SETTING_UP, Ordering::SeqCst);
    }

    /// The phase the victim is in.
    #[must_use]
    pub fn phase(&self) -> u32 {
        self.page().phase.load(Ordering::SeqCst)
    }

    /// Enters a phase.
    pub fn set_phase(&self, phase: u32) {
        self.page().phase.store(phase, Ordering::SeqCst);
    }

    /// The kernel's number of the thread that runs the operation; 0 until it is known.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.page().tid.load(Ordering::SeqCst)
    }

    /// Names the thread that runs the operation.
    pub fn set_tid(&self, tid: u32) {
        self.page().tid.store(tid, Ordering::SeqCst);
    }

    /// How many things (messages, lock rounds) were acknowledged to the victim so far.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.page().acknowledged.load(Ordering::SeqCst)
    }

    /// Counts so many more acknowledged things.
    pub fn acknowledge(&self, things: u64) {
        self.page().acknowledged.fetch_add(things, Ordering::SeqCst);
    }

    /// Returns whether the victim stood still meanwhile, so that others may have been there first.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        self.page().overtaken.load(Ordering::SeqCst) != 0
    }

    /// Says to the victim that others may have been there first. The engine's, while the victim
    /// stands still.
    pub fn set_overtaken(&self) {
        self.page().overtaken.store(1, Ordering::SeqCst);
    }

    /// Returns whether the victim's operation ended by an error.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.page().failed.load(Ordering::SeqCst) != 0
    }

    /// Says that the operation ended by an error, and what it says.
    pub fn set_failed(&self, error: &dyn Display) {
        let said = error.to_string();
        let bytes = said.bytes().chain(std::iter::repeat(0));
        self.page().told.iter().zip(bytes).for_each(|(to, byte)| to.store(byte, Ordering::Relaxed));
        self.page().failed.store(1, Ordering::SeqCst);
    }

    /// What the error said by which the victim's operation ended.
    #[must_use]
    pub fn told(&self) -> String {
        let bytes = self.page().told.iter().map(|byte| byte.load(Ordering::Relaxed));
        String::from_utf8_lossy(&bytes.take_while(|&byte| byte != 0).collect::<Vec<_>>())
            .into_owned()
    }

    /// Where the code begins by which the victim says that its operation has ended; 0: it has not
    /// told.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.page().end.load(Ordering::SeqCst)
    }

    /// Tells where that is.
    pub fn set_end(&self, address: u64) {
        self.page().end.store(address, Ordering::SeqCst);
    }

    /// A number the victim left for the check, by place.
    #[must_use]
    pub fn note(&self, place: usize) -> u64 {
        self.page().notes[place].load(Ordering::SeqCst)
    }

    /// Leaves a number for the check.
    pub fn set_note(&self, place: usize, value: u64) {
        self.page().notes[place].store(value, Ordering::SeqCst);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: our own mapping, made with this length; no reference into it outlives self.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}

// SAFETY: the page holds atomics alone.
unsafe impl Send for Control {}
// SAFETY: the page holds atomics alone.
unsafe impl Sync for Control {}
