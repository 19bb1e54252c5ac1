//! The ways by a robust mutex that the watched process holds: look at its word, or try to lock it.

use super::Question;
use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::shared::{Shared, ZeroShared};
use std::cell::UnsafeCell;
use std::mem::{self, MaybeUninit};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Set by the kernel in the word when the holder has ended (FUTEX_OWNER_DIED).
const OWNER_DIED: u32 = 0x4000_0000;

/// The mutex and where in it its lock word lies.
#[repr(C, align(64))]
pub(super) struct Watched {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    word_offset: AtomicUsize,
}

// SAFETY: a pthread mutex with PTHREAD_PROCESS_SHARED is made for this, and it is initialised
// before the fork.
unsafe impl Sync for Watched {}
// SAFETY: all zero is a valid pthread_mutex_t and a valid offset.
unsafe impl ZeroShared for Watched {}

fn place() -> Result<Shared<Watched>, Error> {
    let watched = Shared::<Watched>::new()?;
    // SAFETY: the attributes are initialised before use; the mutex lies in memory that no other
    // process has yet.
    let failed = unsafe {
        let mut attributes = MaybeUninit::uninit();
        libc::pthread_mutexattr_init(attributes.as_mut_ptr())
            | libc::pthread_mutexattr_setpshared(
                attributes.as_mut_ptr(),
                libc::PTHREAD_PROCESS_SHARED,
            )
            | libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST)
            | libc::pthread_mutex_init(watched.mutex.get(), attributes.as_ptr())
    };
    if failed == 0 {
        Ok(watched)
    } else {
        Err(Error::Refused("the C library has no robust mutexes".into()))
    }
}

/// The head of a thread's robust list, as the kernel knows it.
#[repr(C)]
struct RobustListHead {
    next: *const RobustListNode,
    futex_offset: isize,
    pending: *const RobustListNode,
}

#[repr(C)]
struct RobustListNode {
    next: *const RobustListNode,
}

/// Locks the mutex and finds its word: the list's node that lies inside the mutex, plus the list's
/// offset. That is right for glibc and musl alike.
fn hold(watched: &Watched) -> Result<(), Error> {
    // SAFETY: initialised by `place`.
    if unsafe { libc::pthread_mutex_lock(watched.mutex.get()) } != 0 {
        return Err(Error::Child("the watched process could not lock its mutex".into()));
    }
    let mut head: *const RobustListHead = std::ptr::null();
    let mut length: usize = 0;
    // SAFETY: asks for this thread's own list; both places are valid.
    let failed = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &mut head, &mut length) };
    if failed != 0 || length != size_of::<RobustListHead>() {
        return Err(Error::last("asking for the robust list"));
    }
    let mutex = watched.mutex.get() as usize;
    let inside = mutex..mutex + size_of::<libc::pthread_mutex_t>();
    // SAFETY: the list is this thread's, it changes only by this thread's locking, and it is
    // circular through its head.
    unsafe {
        let mut node = (*head).next;
        while !std::ptr::eq(node.cast::<RobustListHead>(), head) {
            if inside.contains(&(node as usize)) {
                let word = (node as usize).wrapping_add_signed((*head).futex_offset);
                // Release pairs with `prepare`, by way of the board.
                watched.word_offset.store(word - mutex, Ordering::Release);
                return Ok(());
            }
            // musl keeps a mark in the lowest bit of its links.
            node = (*node).next.map_addr(|address| address & !1);
        }
    }
    Err(Error::Child("the held mutex is not in the robust list".into()))
}

/// One relaxed load of the word.
pub(super) struct Load {
    word: &'static AtomicU32,
}

impl Question for Load {
    const NAME: &'static str = "load";
    type Place = Shared<Watched>;

    fn place(_: &Stage) -> Result<Self::Place, Error> {
        place()
    }

    fn hold(place: &Self::Place) -> Result<impl Sized, Error> {
        hold(place)
    }

    fn prepare(place: &Self::Place, _: libc::pid_t) -> Result<Self, Error> {
        let offset = place.word_offset.load(Ordering::Acquire);
        if offset + 4 > size_of::<libc::pthread_mutex_t>() || !offset.is_multiple_of(4) {
            return Err(Error::Wrong(format!("the lock word seems to lie at {offset}")));
        }
        let word = place.mutex.get().wrapping_byte_add(offset).cast::<AtomicU32>();
        // SAFETY: inside the mutex and aligned, by the check; libc and the kernel change it
        // atomically only. The turn's mapping outlives the asking process's loop, and the process
        // ends right after it.
        let word = unsafe { &*word };
        Ok(Self { word })
    }

    #[inline]
    fn ask(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word != 0 && word & OWNER_DIED == 0
    }
}

/// `pthread_mutex_trylock`: busy means alive.
pub(super) struct TryLock {
    mutex: *mut libc::pthread_mutex_t,
}

impl Question for TryLock {
    const NAME: &'static str = "mutex";
    type Place = Shared<Watched>;

    fn place(_: &Stage) -> Result<Self::Place, Error> {
        place()
    }

    fn hold(place: &Self::Place) -> Result<impl Sized, Error> {
        hold(place)
    }

    fn prepare(place: &Self::Place, _: libc::pid_t) -> Result<Self, Error> {
        Ok(Self { mutex: place.mutex.get() })
    }

    #[inline]
    fn ask(&self) -> bool {
        // SAFETY: initialised by `place` and mapped until the process ends.
        unsafe { libc::pthread_mutex_trylock(self.mutex) == libc::EBUSY }
    }
}

const _: () = assert!(mem::offset_of!(Watched, mutex) == 0);
