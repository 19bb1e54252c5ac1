//! What a row must be able to do.

use super::Work;
use crate::harness::error::Error;
use crate::harness::round::Stage;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A way to get memory and to give it back.
pub trait Allocator: 'static {
    /// The row's name.
    const NAME: &'static str;
    /// Whether a process may give back what another took.
    const CROSSES: bool = false;
    /// What is made before the processes are forked.
    type Place;
    /// A process's view of it.
    type Heap<'place>: Heap;

    /// Makes it.
    fn place(stage: &Stage, work: &Work) -> Result<Self::Place, Error>;
    /// Opens it, in the process that will use it.
    fn open(place: &Self::Place) -> Result<Self::Heap<'_>, Error>;
}

/// A process's view; all its threads use the same.
pub trait Heap: Sync {
    /// An object in use.
    type Object<'heap>: Send
    where
        Self: 'heap;

    /// Takes one of so many bytes.
    fn alloc(&self, bytes: usize) -> Result<Self::Object<'_>, Error>;
    /// Returns where it begins; that many bytes from there are the holder's.
    fn start(object: &mut Self::Object<'_>) -> *mut u8;
    /// Gives it back.
    fn free(&self, object: Self::Object<'_>) -> Result<(), Error>;

    /// Lets go of it for another process, which gets this number.
    fn offer(&self, _: Self::Object<'_>) -> Result<u64, Error> {
        Err(Error::Refused("this memory is one process's".into()))
    }
    /// Takes what another process has let go of.
    fn claim(&self, _: u64) -> Result<Self::Object<'_>, Error> {
        Err(Error::Refused("this memory is one process's".into()))
    }

    /// Empties the caches, where there are any.
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
    /// Gives what is free back to the system, where that can be done.
    fn gc(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// An allocator that is two functions, as `malloc` and `free`.
pub trait Functions: Sync + 'static {
    /// The row's name.
    const NAME: &'static str;

    /// Returns so many bytes, or null.
    fn alloc(bytes: usize) -> *mut u8;

    /// Gives it back.
    ///
    /// # Safety
    /// The caller guarantees that `start` came from `alloc(bytes)`, and that no thread uses it any
    /// more.
    unsafe fn free(start: *mut u8, bytes: usize);

    /// Gives what is free back to the system, where that can be done.
    fn gc() {}
}

/// The row of two functions.
pub struct Called<F>(PhantomData<F>);

/// What they gave.
pub struct Piece {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the thread that has the piece has the memory alone, and such functions may free in any
// thread.
unsafe impl Send for Piece {}

impl<F: Functions> Allocator for Called<F> {
    const NAME: &'static str = F::NAME;
    type Place = ();
    type Heap<'place> = Self;

    fn place(_: &Stage, _: &Work) -> Result<(), Error> {
        Ok(())
    }

    fn open((): &()) -> Result<Self, Error> {
        Ok(Self(PhantomData))
    }
}

impl<F: Functions> Heap for Called<F> {
    type Object<'heap> = Piece;

    #[inline]
    fn alloc(&self, bytes: usize) -> Result<Piece, Error> {
        match NonNull::new(F::alloc(bytes)) {
            Some(start) => Ok(Piece { start, bytes }),
            None => Err(Error::Child(format!("{} has no {bytes} bytes", F::NAME))),
        }
    }

    #[inline]
    fn start(piece: &mut Piece) -> *mut u8 {
        piece.start.as_ptr()
    }

    #[inline]
    fn free(&self, piece: Piece) -> Result<(), Error> {
        // SAFETY: a piece is made by `alloc` above only, and is used up here.
        unsafe { F::free(piece.start.as_ptr(), piece.bytes) };
        Ok(())
    }

    fn gc(&self) -> Result<(), Error> {
        F::gc();
        Ok(())
    }
}
