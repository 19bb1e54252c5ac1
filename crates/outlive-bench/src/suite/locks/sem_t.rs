//! A POSIX semaphore of one permit, in shared memory. A dead holder's permit is lost.

use super::number::Number;
use super::{Handle, Held, Lock};
use crate::harness::error::{Error, check};
use crate::harness::round::Stage;
use crate::harness::shared::{Shared, ZeroShared};
use std::cell::UnsafeCell;

/// The semaphore with its number beside it.
#[repr(C, align(64))]
pub(crate) struct Guarded {
    semaphore: UnsafeCell<libc::sem_t>,
    number: Number,
}

// SAFETY: a semaphore made with pshared is made for this, and the number is reached by the permit's
// holder only.
unsafe impl Sync for Guarded {}
// SAFETY: zero is valid, no pointers.
unsafe impl ZeroShared for Guarded {}

/// The row.
pub(crate) struct SemT;

/// A process's view of it.
pub(crate) struct View<'place>(&'place Guarded);

impl Lock for SemT {
    const NAME: &'static str = "sem_t";
    type Place = Shared<Guarded>;
    type Handle<'place> = View<'place>;

    fn place(_: &Stage, _: &'static str) -> Result<Shared<Guarded>, Error> {
        let guarded = Shared::<Guarded>::new()?;
        // SAFETY: no other process has it yet.
        let made = unsafe { libc::sem_init(guarded.semaphore.get(), 1, 1) };
        check(made, "making a POSIX semaphore")?;
        Ok(guarded)
    }

    fn open(place: &Shared<Guarded>) -> Result<View<'_>, Error> {
        Ok(View(place))
    }
}

impl Handle for View<'_> {
    type Held<'handle>
        = Permit<'handle>
    where
        Self: 'handle;

    #[inline]
    fn acquire(&self) -> Result<Permit<'_>, Error> {
        // SAFETY: mapped and initialised for as long as the place is borrowed.
        let taken = unsafe { libc::sem_wait(self.0.semaphore.get()) };
        check(taken, "taking a POSIX semaphore's permit")?;
        Ok(Permit(self.0))
    }
}

/// The only permit.
pub(crate) struct Permit<'handle>(&'handle Guarded);

impl Held for Permit<'_> {
    #[inline]
    fn touch(&mut self) -> u64 {
        // SAFETY: ours is the only permit.
        unsafe { self.0.number.raise() }
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        // SAFETY: mapped and initialised for as long as the permit borrows its place.
        check(
            unsafe { libc::sem_post(self.0.semaphore.get()) },
            "giving a POSIX semaphore's permit back",
        )
        .map(drop)
    }
}
