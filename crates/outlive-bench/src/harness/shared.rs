//! Memory that a benchmark's processes share: mapped before the fork, gone with the last of them.

use super::error::Error;
use super::round::Figure;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{ops::Deref, ptr, ptr::NonNull, time::Duration};

/// A type for which all bytes zero is a valid value, and which several processes may use through
/// `&`.
///
/// # Safety
/// The implementor promises both, and that the type holds no pointer into one process.
pub unsafe trait ZeroShared: Sync {}

/// A `T`, at first all zero, that the children forked after its making share with their parent.
pub struct Shared<T: ZeroShared> {
    place: NonNull<T>,
}

// SAFETY: it owns the mapping alone; a `T` may be used through `&` by other processes, so by
// threads as well.
unsafe impl<T: ZeroShared> Send for Shared<T> {}
// SAFETY: a `T` may be used through `&` by several threads, and the mapping does not change.
unsafe impl<T: ZeroShared> Sync for Shared<T> {}

impl<T: ZeroShared> Shared<T> {
    /// Maps it.
    pub fn new() -> Result<Self, Error> {
        const { assert!(align_of::<T>() <= 4096 && size_of::<T>() > 0) };
        // SAFETY: a fresh anonymous mapping touches nothing that exists.
        let place = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if place == libc::MAP_FAILED {
            return Err(Error::last("mapping memory for the benchmark's processes"));
        }
        // The kernel returns address 0 only to a caller that asks for it.
        let place = NonNull::new(place.cast())
            .ok_or_else(|| Error::Refused("mapped at address 0".into()))?;
        Ok(Self { place })
    }
}

impl<T: ZeroShared> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: mapped until drop, aligned to a page, and zero is a valid T (ZeroShared).
        unsafe { self.place.as_ref() }
    }
}

impl<T: ZeroShared> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: our own mapping of exactly this size; the borrow checker keeps references from
        // outliving it.
        unsafe { libc::munmap(self.place.as_ptr().cast(), size_of::<T>()) };
    }
}

/// A value alone on its cache lines: 128 bytes, since processors fetch lines in pairs.
#[repr(C, align(128))]
pub struct Line<T>(pub T);

/// Workers that a turn may have.
pub const MOST_WORKERS: usize = 16;

/// The words through which the processes of one turn tell each other where they are.
///
/// `step` and `done` go to and fro once an operation; the rest is written once a turn.
#[repr(C)]
pub struct Board {
    /// Written by the first process: the step that the second may begin.
    pub step: Line<AtomicU32>,
    /// Written by the second: the step it has ended.
    pub done: Line<AtomicU32>,
    /// How many processes have set up.
    pub ready: Line<AtomicU32>,
    /// When the first process let go or sent, by [`super::clock::now`].
    pub sent_at: Line<AtomicU64>,
    /// The turn's figure (an f64's bits), and how many nanoseconds the timed part of the turn took.
    pub figure: Line<[AtomicU64; 2]>,
    /// Counts and times that each worker leaves for the parent.
    left: [Line<[AtomicU64; 4]>; MOST_WORKERS],
}

// SAFETY: atomics only; zero is a valid value of each, and none points anywhere.
unsafe impl ZeroShared for Board {}

impl Board {
    /// Tells that this process is set up, and waits, spinning, for the other. The parent bounds the
    /// wait.
    pub fn meet(&self, processes: u32) {
        // AcqRel and Acquire: what each set up before is seen by all after.
        self.ready.0.fetch_add(1, Ordering::AcqRel);
        while self.ready.0.load(Ordering::Acquire) < processes {
            std::hint::spin_loop();
        }
    }

    /// Leaves a worker's counts and times for the parent.
    pub fn leave(&self, worker: usize, values: [u64; 4]) {
        for (word, value) in self.left[worker].0.iter().zip(values) {
            // Relaxed: the parent reads it after waitpid, which orders everything.
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Returns what that worker has left.
    pub fn left(&self, worker: usize) -> [u64; 4] {
        [0, 1, 2, 3].map(|word| self.left[worker].0[word].load(Ordering::Relaxed))
    }

    /// Leaves the turn's figure for the parent: nanoseconds an operation, and those of the whole
    /// timed part.
    pub fn leave_figure(&self, ns: f64, span: u64) {
        // Relaxed: the parent reads it after waitpid, which orders everything.
        self.figure.0[0].store(ns.to_bits(), Ordering::Relaxed);
        self.figure.0[1].store(span, Ordering::Relaxed);
    }

    /// Leaves the figure of so many operations that took `span` nanoseconds together.
    pub fn leave_mean(&self, span: u64, operations: u64) {
        self.leave_figure(span as f64 / operations as f64, span);
    }

    /// Returns the figure that a child has left; `preempted` is what the parent saw.
    pub fn figure(&self, preempted: u64) -> Result<Figure, Error> {
        let ns = f64::from_bits(self.figure.0[0].load(Ordering::Relaxed));
        let span = Duration::from_nanos(self.figure.0[1].load(Ordering::Relaxed));
        if ns.is_finite() && ns > 0.0 {
            Ok(Figure { ns, span, preempted, tail: [None; 2] })
        } else {
            Err(Error::Wrong(format!("a turn ended with {ns} ns per operation")))
        }
    }
}
