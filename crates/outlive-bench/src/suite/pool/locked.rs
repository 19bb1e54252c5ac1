//! HAProxy's "locked": a plain lock around one list of free buffers, which are used again and
//! again.
//!
//! The lock and the buffers lie in memory that is mapped before the processes are forked, at one
//! address in all of them; so a process may give back what another took. The list goes through the
//! free buffers themselves.

use super::Work;
use super::allocator::{Allocator, Heap};
use crate::harness::error::{Error, check};
use crate::harness::round::Stage;
use crate::harness::shared::{Shared, ZeroShared};
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

const PAGE: usize = 4096;

/// The lock and what it guards.
#[repr(C, align(64))]
struct Control {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    list: UnsafeCell<List>,
}

/// All zero: nothing is free, nothing has been used yet.
#[repr(C)]
struct List {
    /// Number of the first free buffer + 1, or 0.
    first: u64,
    /// Buffers from here on have not been used yet.
    fresh: u64,
}

// SAFETY: a PTHREAD_PROCESS_SHARED mutex is made for this, and the list is reached under it only.
unsafe impl Sync for Control {}
// SAFETY: zero is valid, no pointers.
unsafe impl ZeroShared for Control {}

/// The row.
pub(super) struct Locked;

/// Lock and buffers.
pub(super) struct Place {
    control: Shared<Control>,
    buffers: NonNull<u8>,
    count: u64,
    /// From one buffer to the next.
    step: usize,
}

// SAFETY: the buffers are handed out one by one, under the lock.
unsafe impl Sync for Place {}

/// A buffer in use.
pub(super) struct Buffer {
    start: NonNull<u8>,
}

// SAFETY: the thread that has it has the memory alone.
unsafe impl Send for Buffer {}

impl Allocator for Locked {
    const NAME: &'static str = "locked";
    const CROSSES: bool = true;
    type Place = Place;
    type Heap<'place> = &'place Place;

    fn place(_: &Stage, work: &Work) -> Result<Place, Error> {
        let step = if work.bytes < PAGE {
            work.bytes.next_multiple_of(64)
        } else {
            work.bytes.next_multiple_of(PAGE)
        };
        let control = Shared::<Control>::new()?;
        init(control.mutex.get())?;
        // SAFETY: a fresh anonymous mapping touches nothing that exists.
        let buffers = unsafe {
            libc::mmap(
                ptr::null_mut(),
                work.objects() * step,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if buffers == libc::MAP_FAILED {
            return Err(Error::last("mapping the locked list's buffers"));
        }
        let buffers = NonNull::new(buffers.cast())
            .ok_or_else(|| Error::Refused("mapped at address 0".into()))?;
        Ok(Place { control, buffers, count: work.objects() as u64, step })
    }

    fn open(place: &Place) -> Result<&Place, Error> {
        Ok(place)
    }
}

fn init(mutex: *mut libc::pthread_mutex_t) -> Result<(), Error> {
    // SAFETY: plain data that pthread_mutexattr_init fills; the mutex is ours alone so far.
    let refused = unsafe {
        let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
        libc::pthread_mutexattr_init(&mut attributes)
            | libc::pthread_mutexattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED)
            | libc::pthread_mutex_init(mutex, &attributes)
    };
    if refused == 0 {
        Ok(())
    } else {
        Err(Error::Refused("no mutex between processes can be made here".into()))
    }
}

impl Place {
    fn buffer(&self, number: u64) -> NonNull<u8> {
        // SAFETY: `number` is below `count`, so this lies in the mapping.
        unsafe { self.buffers.add(number as usize * self.step) }
    }

    /// Returns the link in a free buffer: the number of the next free one + 1, or 0.
    fn link(&self, number: u64) -> *mut u64 {
        // A buffer is aligned to 64.
        self.buffer(number).as_ptr().cast()
    }

    #[inline]
    fn under_lock<T>(&self, what: impl FnOnce(&mut List) -> T) -> T {
        // SAFETY: initialised in `place`; the list is reached here only, while the lock is ours.
        unsafe {
            libc::pthread_mutex_lock(self.control.mutex.get());
            let done = what(&mut *self.control.list.get());
            libc::pthread_mutex_unlock(self.control.mutex.get());
            done
        }
    }
}

impl Heap for &Place {
    type Object<'heap>
        = Buffer
    where
        Self: 'heap;

    #[inline]
    fn alloc(&self, _: usize) -> Result<Buffer, Error> {
        let number = self.under_lock(|list| match list.first.checked_sub(1) {
            Some(number) => {
                // SAFETY: a free buffer's first word belongs to the owner of the lock.
                list.first = unsafe { self.link(number).read() };
                number
            }
            None => {
                list.fresh += 1;
                list.fresh - 1
            }
        });
        if number >= self.count {
            return Err(Error::Wrong(
                "locked: more buffers are in use than the pattern holds".into(),
            ));
        }
        Ok(Buffer { start: self.buffer(number) })
    }

    #[inline]
    fn start(buffer: &mut Buffer) -> *mut u8 {
        buffer.start.as_ptr()
    }

    #[inline]
    fn free(&self, buffer: Buffer) -> Result<(), Error> {
        let number = (buffer.start.as_ptr() as usize - self.buffers.as_ptr() as usize) / self.step;
        self.under_lock(|list| {
            // SAFETY: the buffer is free from here on, its first word belongs to the owner of the
            // lock.
            unsafe { self.link(number as u64).write(list.first) };
            list.first = number as u64 + 1;
        });
        Ok(())
    }

    fn offer(&self, buffer: Buffer) -> Result<u64, Error> {
        Ok(buffer.start.as_ptr() as u64)
    }

    fn claim(&self, address: u64) -> Result<Buffer, Error> {
        let start = NonNull::new(address as usize as *mut u8);
        Ok(Buffer {
            start: start.ok_or_else(|| Error::Wrong("locked: no buffer was offered".into()))?,
        })
    }

    /// Gives back all pages of free buffers but the first, which holds the link; the others wait
    /// meanwhile, as HAProxy's do.
    fn gc(&self) -> Result<(), Error> {
        if self.step <= PAGE {
            return Ok(());
        }
        self.under_lock(|list| {
            let mut at = list.first;
            while let Some(number) = at.checked_sub(1) {
                // SAFETY: pages of our own mapping, in a buffer that no thread uses; the link is
                // not among them.
                let done = unsafe {
                    at = self.link(number).read();
                    libc::madvise(
                        self.buffer(number).as_ptr().add(PAGE).cast(),
                        self.step - PAGE,
                        libc::MADV_REMOVE,
                    )
                };
                check(done, "giving pages of free buffers back")?;
            }
            Ok(())
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: our own mapping of exactly this size; no thread has a buffer any more.
        unsafe { libc::munmap(self.buffers.as_ptr().cast(), self.count as usize * self.step) };
    }
}
