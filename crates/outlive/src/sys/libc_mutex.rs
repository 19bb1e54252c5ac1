//! libc's robust, process-shared mutex inside a registry slot: the one thing the kernel marks when a thread ends.
//!
//! We never look into its layout. Two facts are found out by asking: which 32-bit words an initialised, unlocked mutex
//! sets (its kind; the rest is zero, so that a zeroed slot is prepared by storing these, any number of times, by
//! anybody), and where the lock word lies (lock one, walk the robust list to the node inside it, add the list's
//! `futex_offset`). Offsets differ: glibc 0, musl 4.

use std::sync::OnceLock;

use super::{Errno, check_pthread, robust};
use crate::shim::{AtomicU32, Ordering};

/// Bytes kept for the mutex in a slot: x86-64 has 40, aarch64 with glibc 48.
pub(crate) const ROOM: usize = 48;
const WORDS: usize = ROOM / 4;

/// What the two questions above were answered with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Byte offset of the lock word in the mutex.
    pub(crate) word_offset: u32,
    /// The initialised mutex, word by word.
    template: [u32; WORDS],
}

/// The result of trying to take the mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was free, or its dead owner's.
    Mine,
    /// A living thread has it.
    Busy,
}

/// This process's libc, asked once.
pub(crate) fn layout() -> Result<Layout, Errno> {
    static LAYOUT: OnceLock<Result<Layout, Errno>> = OnceLock::new();
    *LAYOUT.get_or_init(ask)
}

#[repr(C, align(64))]
struct Scratch([u8; ROOM]);

fn ask() -> Result<Layout, Errno> {
    const { assert!(size_of::<libc::pthread_mutex_t>() <= ROOM) };
    let mut scratch = Scratch([0; ROOM]);
    let mutex: *mut libc::pthread_mutex_t = scratch.0.as_mut_ptr().cast();
    init(mutex)?;
    let mut template = [0u32; WORDS];
    for (word, bytes) in template.iter_mut().zip(scratch.0.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let mutex: *mut libc::pthread_mutex_t = scratch.0.as_mut_ptr().cast();
    // SAFETY: mutex is initialised, and this is the only thread that knows it.
    check_pthread(unsafe { libc::pthread_mutex_lock(mutex) })?;
    let offset = find_word(mutex.cast());
    // SAFETY: locked two lines above by this thread.
    check_pthread(unsafe { libc::pthread_mutex_unlock(mutex) })?;
    let word_offset = offset?;
    // A word that the template sets would be overwritten when a slot is prepared.
    if word_offset as usize + 4 > ROOM || template[word_offset as usize / 4] != 0 {
        return Err(Errno::NOTSUP);
    }
    Ok(Layout { word_offset, template })
}

fn init(mutex: *mut libc::pthread_mutex_t) -> Result<(), Errno> {
    let mut attr = core::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    // SAFETY: attr is initialised by its first call and used by this thread alone; mutex points to ROOM bytes.
    unsafe {
        check_pthread(libc::pthread_mutexattr_init(attr.as_mut_ptr()))?;
        check_pthread(libc::pthread_mutexattr_setpshared(attr.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED))?;
        check_pthread(libc::pthread_mutexattr_setrobust(attr.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST))?;
        check_pthread(libc::pthread_mutex_init(mutex, attr.as_ptr()))?;
        check_pthread(libc::pthread_mutexattr_destroy(attr.as_mut_ptr()))
    }
}

/// The lock word of a mutex that this thread holds, as an offset into it.
fn find_word(mutex: *const u8) -> Result<u32, Errno> {
    let head = robust::list_head()?;
    if head.is_null() {
        return Err(Errno::NOTSUP);
    }
    // SAFETY: the head and its entries are this thread's own, kept by libc; an entry's first word is the next one (the
    // lowest bit marks a PI mutex). The walk is bounded as the kernel's own is.
    unsafe {
        let offset = (*head).futex_offset;
        let mut entry = (*head).next;
        for _ in 0..2048 {
            if core::ptr::eq(entry.cast_const(), head.cast()) {
                break;
            }
            let clean = entry.map_addr(|a| a & !1);
            let inside = (clean as usize).wrapping_sub(mutex as usize);
            if inside < ROOM {
                let word = (clean as isize + offset) - mutex as isize;
                return u32::try_from(word).map_err(|_| Errno::NOTSUP);
            }
            entry = *clean.cast::<*mut u8>();
        }
    }
    Err(Errno::NOTSUP)
}

/// Makes zeroed memory an unlocked mutex. Only words that are 0 and should not be are stored, always with the same
/// value: so any number of threads may do it at once, and a death in between leaves nothing to repair.
pub(crate) fn prepare(layout: &Layout, words: &[AtomicU32; WORDS]) {
    for (word, &wanted) in words.iter().zip(&layout.template) {
        if wanted != 0 && word.load(Ordering::Relaxed) != wanted {
            // Relaxed: trylock in this thread comes after in program order; others store the same value.
            word.store(wanted, Ordering::Relaxed);
        }
    }
}

/// Takes the mutex if it is free or its owner is dead.
///
/// # Safety
/// `mutex` points to a prepared mutex of this libc in memory that stays mapped until this thread ends.
pub(crate) unsafe fn try_take(mutex: *mut u8) -> Result<Taken, Errno> {
    let mutex: *mut libc::pthread_mutex_t = mutex.cast();
    // SAFETY: the caller's promise.
    match unsafe { libc::pthread_mutex_trylock(mutex) } {
        0 => Ok(Taken::Mine),
        libc::EOWNERDEAD => {
            // SAFETY: EOWNERDEAD gives the lock to this thread.
            check_pthread(unsafe { libc::pthread_mutex_consistent(mutex) })?;
            Ok(Taken::Mine)
        }
        libc::EBUSY => Ok(Taken::Busy),
        other => Err(Errno::from_raw_os_error(other)),
    }
}

/// Gives the mutex back.
///
/// # Safety
/// This thread took it by [`try_take`].
pub(crate) unsafe fn give_back(mutex: *mut u8) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    check_pthread(unsafe { libc::pthread_mutex_unlock(mutex.cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_word_is_found_and_holds_the_tid() {
        let layout = layout().expect("libc answers");
        let words: [AtomicU32; WORDS] = core::array::from_fn(|_| AtomicU32::new(0));
        prepare(&layout, &words);
        let mutex = words.as_ptr().cast_mut().cast::<u8>();
        // SAFETY: prepared above, alive until the end of this function, given back before.
        unsafe {
            assert_eq!(try_take(mutex), Ok(Taken::Mine));
            let word = words[layout.word_offset as usize / 4].load(Ordering::Relaxed);
            assert_eq!(word, super::super::process::thread_id());
            give_back(mutex).expect("held");
        }
    }
}
