//! Guards of a part of what a lock guards.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::guard::{Guard, Hold};
use super::raw::mutex::RawMutex;
use super::raw_lock::{RawLock, UniqueLock};
use super::rw_lock::{Reading, Writing};

/// Gives access to a part of what a lock guards, and unlocks the lock when dropped:
/// [`MutexGuard::map`](super::MutexGuard::map) and
/// [`filter_map`](super::MutexGuard::filter_map) make it, and its own functions of these names make
/// one of a part of the part.
///
/// It cannot mark the value consistent, because it sees only a part of it; and it cannot wait on a
/// condition variable, because another thread may change which part there is.
///
/// # If a process dies
/// As while the [`Guard`] that it came from is held.
pub struct MappedGuard<'a, R: RawLock, U: ?Sized, K = ()> {
    value: NonNull<U>,
    /// As in a [`Guard`].
    invariant: PhantomData<*mut U>,
    /// Unlocks when dropped.
    hold: Hold<'a, R>,
    /// As in a [`Guard`].
    keep: K,
}

/// A guard that gives `&mut` access to a reference is no guard of a shorter reference, through which
/// one could store a reference that is gone when the guard is.
///
/// ```compile_fail
/// use outlive::sync::MappedMutexGuard;
/// type Part<'a, 'b> = MappedMutexGuard<'a, &'b u32>;
/// fn shorter<'a>(part: Part<'a, 'static>) -> Part<'a, 'a> { part }
/// ```
///
/// ```compile_fail
/// use outlive::sync::MutexGuard;
/// type Whole<'a, 'b> = MutexGuard<'a, &'b u32>;
/// fn shorter<'a>(whole: Whole<'a, 'static>) -> Whole<'a, 'a> { whole }
/// ```
///
/// The same without the shorter lifetime compiles:
///
/// ```
/// use outlive::sync::{MappedMutexGuard, MutexGuard};
/// type Part<'a, 'b> = MappedMutexGuard<'a, &'b u32>;
/// type Whole<'a, 'b> = MutexGuard<'a, &'b u32>;
/// fn same<'a>(part: Part<'a, 'static>) -> Part<'a, 'static> { part }
/// fn same_whole<'a>(whole: Whole<'a, 'static>) -> Whole<'a, 'static> { whole }
/// ```
#[cfg(doctest)]
struct Invariant;

/// The [`MappedGuard`] of a [`Mutex`](super::Mutex).
pub type MappedMutexGuard<'a, U, K = ()> = MappedGuard<'a, RawMutex, U, K>;

/// The [`MappedGuard`] of a reader of an [`RwLock`](super::RwLock).
pub type MappedReadGuard<'a, U, K = ()> = MappedGuard<'a, Reading, U, K>;

/// The [`MappedGuard`] of a writer of an [`RwLock`](super::RwLock).
pub type MappedWriteGuard<'a, U, K = ()> = MappedGuard<'a, Writing, U, K>;

// SAFETY: a shared guard gives no more than `&U`, and `U: Sync`.
unsafe impl<R: RawLock, U: ?Sized + Sync, K: Sync> Sync for MappedGuard<'_, R, U, K> {}

impl<'a, R: UniqueLock, T, K> Guard<'a, R, T, K> {
    /// Makes a guard of a part of the value: a function can return it without telling its caller of
    /// the rest.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-map-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{Mutex, MutexGuard};
    ///
    /// let table = Mutex::<[u32; 4]>::options([1, 2, 3, 4]).open_or_create(&domain, "table")?;
    /// let mut last = MutexGuard::map(table.lock().unwrap(), |table| &mut table[3]);
    /// *last = 7;
    /// drop(last);
    /// assert_eq!(*table.lock().unwrap(), [1, 2, 3, 7]);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # If it panics
    /// A panic of `part` counts as a death while the guard is held.
    pub fn map<U: ?Sized>(
        mut guard: Guard<'a, R, T, K>,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> MappedGuard<'a, R, U, K> {
        let value = NonNull::from(part(&mut guard));
        MappedGuard::of(value, guard.hold, guard.keep)
    }

    /// Makes a guard of a part of the value, if there is such a part, as
    /// [`map`](super::MutexGuard::map) does; returns the whole guard if there is none.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-filter-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{Mutex, MutexGuard};
    ///
    /// let table = Mutex::<[u32; 4]>::options([1, 2, 3, 4]).open_or_create(&domain, "table")?;
    /// match MutexGuard::filter_map(table.lock().unwrap(), |table| {
    ///     table.iter_mut().find(|entry| **entry % 2 == 0)
    /// }) {
    ///     Ok(mut entry) => *entry = 7,
    ///     Err(table) => panic!("none of {table:?} is even"),
    /// }
    /// assert_eq!(*table.lock().unwrap(), [1, 7, 3, 4]);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// The guard itself, when `part` returns `None`.
    ///
    /// # If it panics
    /// As with [`map`](super::MutexGuard::map).
    pub fn filter_map<U: ?Sized>(
        mut guard: Guard<'a, R, T, K>,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedGuard<'a, R, U, K>, Guard<'a, R, T, K>> {
        match part(&mut guard).map(NonNull::from) {
            Some(value) => Ok(MappedGuard::of(value, guard.hold, guard.keep)),
            None => Err(guard),
        }
    }
}

impl<'a, T, K> Guard<'a, Reading, T, K> {
    /// Makes a guard of a part of the value, as [`MutexGuard::map`](super::MutexGuard::map) does.
    pub fn map<U: ?Sized>(
        guard: Guard<'a, Reading, T, K>,
        part: impl FnOnce(&T) -> &U,
    ) -> MappedGuard<'a, Reading, U, K> {
        guard.mapped(part)
    }

    /// Makes a guard of a part of the value, if there is such a part, as
    /// [`MutexGuard::filter_map`](super::MutexGuard::filter_map) does.
    ///
    /// # Errors
    /// The guard itself, when `part` returns `None`.
    pub fn filter_map<U: ?Sized>(
        guard: Guard<'a, Reading, T, K>,
        part: impl FnOnce(&T) -> Option<&U>,
    ) -> Result<MappedGuard<'a, Reading, U, K>, Guard<'a, Reading, T, K>> {
        match part(&guard).map(NonNull::from) {
            Some(value) => Ok(MappedGuard::of(value, guard.hold, guard.keep)),
            None => Err(guard),
        }
    }
}

impl<'a, R: UniqueLock, U: ?Sized, K> MappedGuard<'a, R, U, K> {
    /// Makes a guard of a part of this part.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-map-map-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{MappedMutexGuard, Mutex, MutexGuard};
    ///
    /// let rows = Mutex::<[[u32; 2]; 2]>::options([[1, 2], [3, 4]]).open_or_create(&domain, "rows")?;
    /// let row = MutexGuard::map(rows.lock().unwrap(), |rows| &mut rows[1]);
    /// let mut cell = MappedMutexGuard::map(row, |row| &mut row[0]);
    /// *cell = 7;
    /// drop(cell);
    /// assert_eq!(*rows.lock().unwrap(), [[1, 2], [7, 4]]);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # If it panics
    /// A panic of `part` counts as a death while the guard is held.
    pub fn map<V: ?Sized>(
        mut guard: MappedGuard<'a, R, U, K>,
        part: impl FnOnce(&mut U) -> &mut V,
    ) -> MappedGuard<'a, R, V, K> {
        let value = NonNull::from(part(&mut guard));
        MappedGuard::of(value, guard.hold, guard.keep)
    }

    /// Makes a guard of a part of this part, if there is such a part.
    ///
    /// # Errors
    /// The guard itself, when `part` returns `None`.
    ///
    /// # If it panics
    /// A panic of `part` counts as a death while the guard is held.
    pub fn filter_map<V: ?Sized>(
        mut guard: MappedGuard<'a, R, U, K>,
        part: impl FnOnce(&mut U) -> Option<&mut V>,
    ) -> Result<MappedGuard<'a, R, V, K>, MappedGuard<'a, R, U, K>> {
        match part(&mut guard).map(NonNull::from) {
            Some(value) => Ok(MappedGuard::of(value, guard.hold, guard.keep)),
            None => Err(guard),
        }
    }
}

impl<'a, R: RawLock, U: ?Sized, K> MappedGuard<'a, R, U, K> {
    fn of(value: NonNull<U>, hold: Hold<'a, R>, keep: K) -> MappedGuard<'a, R, U, K> {
        MappedGuard { value, invariant: PhantomData, hold, keep }
    }
}

impl<'a, U: ?Sized, K> MappedGuard<'a, Reading, U, K> {
    /// Makes a guard of a part of this part.
    pub fn map<V: ?Sized>(
        guard: MappedGuard<'a, Reading, U, K>,
        part: impl FnOnce(&U) -> &V,
    ) -> MappedGuard<'a, Reading, V, K> {
        let value = NonNull::from(part(&guard));
        MappedGuard::of(value, guard.hold, guard.keep)
    }

    /// Makes a guard of a part of this part, if there is such a part.
    ///
    /// # Errors
    /// The guard itself, when `part` returns `None`.
    pub fn filter_map<V: ?Sized>(
        guard: MappedGuard<'a, Reading, U, K>,
        part: impl FnOnce(&U) -> Option<&V>,
    ) -> Result<MappedGuard<'a, Reading, V, K>, MappedGuard<'a, Reading, U, K>> {
        match part(&guard).map(NonNull::from) {
            Some(value) => Ok(MappedGuard::of(value, guard.hold, guard.keep)),
            None => Err(guard),
        }
    }
}

impl<'a, R: RawLock, T, K> Guard<'a, R, T, K> {
    /// Makes a guard of a part of the value that gives shared access to it, if `R` does.
    pub(super) fn mapped<U: ?Sized>(self, part: impl FnOnce(&T) -> &U) -> MappedGuard<'a, R, U, K> {
        let value = NonNull::from(part(&self));
        MappedGuard::of(value, self.hold, self.keep)
    }
}

impl<R: RawLock, U: ?Sized, K> Deref for MappedGuard<'_, R, U, K> {
    type Target = U;

    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: `hold` keeps the lock, and the part was borrowed from what the lock guards.
        unsafe { self.value.as_ref() }
    }
}

impl<R: UniqueLock, U: ?Sized, K> DerefMut for MappedGuard<'_, R, U, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: `hold` keeps the lock alone, and the part was borrowed from what the lock
        // guards; `&mut self` excludes a second borrow here.
        unsafe { self.value.as_mut() }
    }
}

impl<R: RawLock, U: ?Sized + fmt::Debug, K> fmt::Debug for MappedGuard<'_, R, U, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
