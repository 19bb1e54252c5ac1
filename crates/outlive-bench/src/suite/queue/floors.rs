//! Below these no message can go: one flag on one cache line, and one futex.

use super::{Channel, Receive, Send};
use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::shared::{Line, Shared, ZeroShared};
use std::hint;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many hand-overs there have been, alone on its cache line.
#[repr(C)]
pub struct Flag(Line<AtomicU32>);

// SAFETY: one atomic; zero is valid.
unsafe impl ZeroShared for Flag {}

/// An end: the flag, and the last value that this end has written or seen.
pub struct End<'a> {
    word: &'a AtomicU32,
    last: u32,
}

/// As [`End`], for the futex.
pub struct FutexEnd<'a>(End<'a>);

/// Returns the flag of a place that outlives the turn's processes.
fn end(place: &Shared<Flag>) -> End<'static> {
    let flag: *const Flag = &**place;
    // SAFETY: the mapping is dropped by the parent only, after the processes that call this have
    // ended.
    let word = unsafe { &(*flag).0.0 };
    End { word, last: 0 }
}

/// The bare flag: one store, seen by a receiver that spins.
pub struct CacheLine;

impl Channel for CacheLine {
    const NAME: &'static str = "cacheline";
    const IS_FLOOR: bool = true;
    type Place = Shared<Flag>;
    type Sender = End<'static>;
    type Receiver = End<'static>;

    fn place(_: &Stage, _: &'static str, _: usize) -> Result<Self::Place, Error> {
        Shared::new()
    }

    fn sender(place: &Self::Place) -> Result<Self::Sender, Error> {
        Ok(end(place))
    }

    fn receiver(place: &Self::Place) -> Result<Self::Receiver, Error> {
        Ok(end(place))
    }
}

impl Send for End<'_> {
    #[inline]
    fn send(&mut self, _: &[u8]) -> Result<(), Error> {
        self.last = self.last.wrapping_add(1);
        // Release, as a message's would be; it pairs with the Acquire in `receive`.
        self.word.store(self.last, Ordering::Release);
        Ok(())
    }
}

impl Receive for End<'_> {
    #[inline]
    fn receive(&mut self, _: &mut Vec<u8>) -> Result<(), Error> {
        while self.word.load(Ordering::Acquire) == self.last {
            hint::spin_loop();
        }
        self.last = self.last.wrapping_add(1);
        Ok(())
    }
}

/// The bare futex: a store and FUTEX_WAKE, FUTEX_WAIT on the other side.
pub struct Futex;

impl Channel for Futex {
    const NAME: &'static str = "futex";
    const IS_FLOOR: bool = true;
    type Place = Shared<Flag>;
    type Sender = FutexEnd<'static>;
    type Receiver = FutexEnd<'static>;

    fn place(_: &Stage, _: &'static str, _: usize) -> Result<Self::Place, Error> {
        Shared::new()
    }

    fn sender(place: &Self::Place) -> Result<Self::Sender, Error> {
        Ok(FutexEnd(end(place)))
    }

    fn receiver(place: &Self::Place) -> Result<Self::Receiver, Error> {
        Ok(FutexEnd(end(place)))
    }
}

impl Send for FutexEnd<'_> {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.0.send(message)?;
        // SAFETY: a live word; waking touches no memory of ours.
        unsafe {
            libc::syscall(libc::SYS_futex, ptr::from_ref(self.0.word), libc::FUTEX_WAKE, 1, 0, 0, 0)
        };
        Ok(())
    }
}

impl Receive for FutexEnd<'_> {
    #[inline]
    fn receive(&mut self, _: &mut Vec<u8>) -> Result<(), Error> {
        let End { word, last } = &mut self.0;
        while word.load(Ordering::Acquire) == *last {
            // SAFETY: a live word, no timeout. EAGAIN and EINTR are ordinary: the loop looks again.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    ptr::from_ref(*word),
                    libc::FUTEX_WAIT,
                    *last,
                    0,
                    0,
                    0,
                )
            };
        }
        *last = last.wrapping_add(1);
        Ok(())
    }
}
