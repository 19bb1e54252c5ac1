//! A handle of the core's, and what it lends to objects that outlive the call: a client's calls.
//!
//! Only a thread that is inside with the lender may touch what was lent, since the core changes the
//! lender by it. So what is collected while another thread is inside is put aside (a stray), and
//! the next thread that enters drops it.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::handle_mutex::{HandleGuard, HandleMutex, process};
use crate::waiting::Until;

/// Returns the lender, for as long as what it lends exists: the one place where a lifetime is
/// extended.
///
/// # Safety
/// The caller keeps the lender where it is, and drops what is borrowed through this before it.
pub(crate) unsafe fn lender<T>(lender: &T) -> &'static T {
    // SAFETY: the caller keeps the lender where it is until all borrows have been dropped.
    unsafe { &*core::ptr::from_ref(lender) }
}

/// What no object wants any more. Dropped inside with its lender.
struct Stray<L>(L);

// SAFETY: it refers to the lender, and only a thread that is inside with the lender drops it.
unsafe impl<L> Send for Stray<L> {}

pub(crate) struct Lender<T, L> {
    /// Before the lender, which they borrow. Locked for a moment, never during a wait, with nothing
    /// of Python's inside.
    strays: Mutex<Vec<Stray<L>>>,
    handle: HandleMutex<T>,
}

impl<T, L> Lender<T, L> {
    pub(crate) fn new(value: T) -> Arc<Lender<T, L>> {
        Arc::new(Lender { strays: Mutex::new(Vec::new()), handle: HandleMutex::new(value) })
    }

    /// Enters; returns `None` when that took too long. The lender is given by shared reference
    /// only: what is lent refers to it.
    pub(crate) fn lock_until(
        &self,
        py: Python<'_>,
        until: Until,
    ) -> PyResult<Option<Alone<'_, T>>> {
        Ok(self.handle.lock_until(py, until)?.map(|inside| self.let_in(inside)))
    }

    fn let_in<'l>(&'l self, inside: HandleGuard<'l, T>) -> Alone<'l, T> {
        let strays =
            std::mem::take(&mut *self.strays.lock().unwrap_or_else(PoisonError::into_inner));
        drop(strays);
        Alone(inside)
    }

    /// Drops what was lent, now or when the next thread enters.
    pub(crate) fn give_back(&self, lent: L) {
        match self.handle.try_lock() {
            Some(inside) => {
                drop(lent);
                drop(inside);
            }
            None => {
                self.strays.lock().unwrap_or_else(PoisonError::into_inner).push(Stray(lent));
                // The thread that was inside may have left before it was put aside.
                drop(self.handle.try_lock().map(|inside| self.let_in(inside)));
            }
        }
    }
}

/// Access to a lender, for the thread that is inside.
pub(crate) struct Alone<'l, T>(HandleGuard<'l, T>);

impl<T> Alone<'_, T> {
    /// Returns the lender, to borrow from for longer than this exists.
    ///
    /// # Safety
    /// The caller drops what it borrows before the lender, and uses it inside only: as [`Lent`]
    /// does.
    pub(crate) unsafe fn lender(&self) -> &'static T {
        // SAFETY: the lender lies in the Arc of a `Lender`; the caller drops its borrows first.
        unsafe { lender(&*self.0) }
    }
}

impl<T> Deref for Alone<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What was lent, in an object that any thread may have.
pub(crate) struct Lent<T, L> {
    /// Before its lender, which it borrows.
    lent: UnsafeCell<Option<L>>,
    process: u32,
    lender: Arc<Lender<T, L>>,
}

// SAFETY: only the thread that is inside with the lender, or that owns this, reaches what was lent.
unsafe impl<T: Send, L> Sync for Lent<T, L> {}
// SAFETY: a thread that drops it does so inside with its lender.
unsafe impl<T: Send, L> Send for Lent<T, L> {}

impl<T, L> Lent<T, L> {
    /// Keeps what `lender` has just lent.
    pub(crate) fn new(lent: L, lender: &Arc<Lender<T, L>>) -> Lent<T, L> {
        Lent { lent: UnsafeCell::new(Some(lent)), process: process(), lender: Arc::clone(lender) }
    }

    /// Enters with its lender; returns `None` when that took too long.
    pub(crate) fn lock_until(
        &self,
        py: Python<'_>,
        until: Until,
    ) -> PyResult<Option<With<'_, T, L>>> {
        Ok(self.lender.lock_until(py, until)?.map(|alone| With { lent: self, _alone: alone }))
    }
}

impl<T, L> Drop for Lent<T, L> {
    fn drop(&mut self) {
        let Some(lent) = self.lent.get_mut().take() else { return };
        if process() == self.process {
            self.lender.give_back(lent);
        } else {
            // In a forked child it belongs to the parent.
            std::mem::forget(lent);
        }
    }
}

/// Access to what was lent, for the thread that is inside; `None` once it was given back.
pub(crate) struct With<'l, T, L> {
    lent: &'l Lent<T, L>,
    _alone: Alone<'l, T>,
}

impl<T, L> Deref for With<'_, T, L> {
    type Target = Option<L>;

    fn deref(&self) -> &Option<L> {
        // SAFETY: this thread is inside with its lender.
        unsafe { &*self.lent.lent.get() }
    }
}

impl<T, L> DerefMut for With<'_, T, L> {
    fn deref_mut(&mut self) -> &mut Option<L> {
        // SAFETY: this thread is inside with its lender, and there is one `With`.
        unsafe { &mut *self.lent.lent.get() }
    }
}
