//! The mutexes of two, three and four states that one learns a futex by: [`crate::classics`].

use crate::classics::{Mutex2, Mutex3, Mutex4};
use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::shared::{Shared, ZeroShared};
use crate::suite::locks::{Handle, Held, Lock, Number};
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

/// The word with its number beside it.
#[repr(C, align(64))]
pub(super) struct Guarded {
    word: AtomicU32,
    number: Number,
}

// SAFETY: zero is a free mutex and a valid number; no pointers.
unsafe impl ZeroShared for Guarded {}

/// What makes them differ.
pub(super) trait States: Sync + 'static {
    /// The row's name.
    const NAME: &'static str;
    /// Takes the lock.
    fn lock(word: &AtomicU32);
    /// Gives it back.
    fn unlock(word: &AtomicU32);
}

macro_rules! states {
    ($($(#[$doc:meta])* $row:ident, $name:literal, $mutex:path;)*) => { $(
        $(#[$doc])*
        pub(super) struct $row;

        impl States for $row {
            const NAME: &'static str = $name;

            #[inline]
            fn lock(word: &AtomicU32) {
                <$mutex>::lock(word);
            }

            #[inline]
            fn unlock(word: &AtomicU32) {
                <$mutex>::unlock(word);
            }
        }
    )* };
}

states! {
    /// Free and locked: each unlock calls the kernel.
    Two, "two_state", Mutex2;
    /// Free, locked, and waited for.
    Three, "three_state", Mutex3;
    /// With a bit of its own for "a thread may sleep", so that an unlock does not clear it.
    Four, "four_state", Mutex4;
}

/// The row.
pub(super) struct Teaching<S>(PhantomData<S>);

/// A worker's view.
pub(super) struct View<'place, S> {
    guarded: &'place Guarded,
    states: PhantomData<S>,
}

/// The lock, held.
pub(super) struct Locked<'handle, S>(&'handle View<'handle, S>);

impl<S: States> Lock for Teaching<S> {
    const NAME: &'static str = S::NAME;
    type Place = Shared<Guarded>;
    type Handle<'place> = View<'place, S>;

    fn place(_: &Stage, _: &'static str) -> Result<Shared<Guarded>, Error> {
        Shared::new()
    }

    fn open(place: &Shared<Guarded>) -> Result<View<'_, S>, Error> {
        Ok(View { guarded: place, states: PhantomData })
    }
}

impl<S: States> Handle for View<'_, S> {
    type Held<'handle>
        = Locked<'handle, S>
    where
        Self: 'handle;

    #[inline]
    fn acquire(&self) -> Result<Locked<'_, S>, Error> {
        S::lock(&self.guarded.word);
        Ok(Locked(self))
    }
}

impl<S: States> Held for Locked<'_, S> {
    #[inline]
    fn touch(&mut self) -> u64 {
        // SAFETY: the lock is ours.
        unsafe { self.0.guarded.number.raise() }
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        S::unlock(&self.0.guarded.word);
        Ok(())
    }
}
