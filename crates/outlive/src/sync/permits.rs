//! Several permits of a semaphore at once: all that a caller asks for, or none.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::error::AcquireError;
use super::primitive::Sited;
use super::raw::semaphore::Gathered;
use super::semaphore::{Permit, Semaphore};
use super::wait_probes::wait_for_permits;
use crate::Deadline;
use crate::liveness::TokenId;

/// Holds several permits of a semaphore, and gives them back when dropped:
/// [`Semaphore::acquire_many`] returns it.
///
/// It is a collection of [`Permit`]s: [`IntoIterator`] returns them one by one, to be given back,
/// consumed or handed over separately.
///
/// # If a process dies
/// As with [`Permit`]: all of them are free at once.
#[must_use = "permits that are dropped are given back"]
pub struct Permits<'a, S: Deref<Target = Semaphore> = &'a Semaphore>(Vec<Permit<'a, S>>);

/// Holds several permits as [`Permits`] do, and keeps the semaphore's handle by [`Arc`]s:
/// [`Semaphore::acquire_many_owned`] returns it.
pub type OwnedPermits = Permits<'static, Arc<Semaphore>>;

impl<S: Deref<Target = Semaphore>> Permits<'_, S> {
    /// Returns how many permits these are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether these are none: the caller asked for 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Uses the permits up, one after the other, as [`Permit::consume`] does.
    ///
    /// # If a process dies
    /// During this call: the permits that it has not used up yet are free.
    pub fn consume(self) {
        self.0.into_iter().for_each(Permit::consume);
    }
}

impl<'a, S: Deref<Target = Semaphore>> IntoIterator for Permits<'a, S> {
    type Item = Permit<'a, S>;
    type IntoIter = std::vec::IntoIter<Permit<'a, S>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, S: Deref<Target = Semaphore>> FromIterator<Permit<'a, S>> for Permits<'a, S> {
    fn from_iter<I: IntoIterator<Item = Permit<'a, S>>>(permits: I) -> Self {
        Permits(permits.into_iter().collect())
    }
}

impl<S: Deref<Target = Semaphore>> fmt::Debug for Permits<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl Semaphore {
    /// Acquires so many permits, all or none, waiting as long as living holders have too many of
    /// them.
    ///
    /// Callers that want several have their turns one after the other, in no particular order. The
    /// caller whose turn it is takes permits as they become free, beside the callers that want one,
    /// and keeps them while it waits for the rest: so all that it wants need never be free at one
    /// moment, and no two callers wait for each other's part. It competes for each permit: threads
    /// that give one back and acquire it again at once may win every time. A thread that holds a permit and asks for more may
    /// wait for a caller that waits for it: acquire at once all that is needed.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-many-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::Semaphore;
    ///
    /// let cores = Semaphore::options(8).open_or_create(&domain, "cores")?;
    /// let six = cores.acquire_many(6)?;
    /// assert!(cores.try_acquire_many(3)?.is_none());
    /// assert_eq!(cores.available_permits(), 2, "a caller that cannot have all takes none");
    /// drop(six);
    /// assert_eq!(cores.try_acquire_many(8)?.expect("free").len(), 8);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AcquireError::Full`] when there may never be so many permits: make it with a higher
    /// [`max_permits`](super::SemaphoreOptions::max_permits). [`AcquireError::Deadlock`] when this
    /// thread holds so many permits that the others would not be enough;
    /// [`AcquireError::Damaged`], [`AcquireError::System`].
    ///
    /// # If a process dies
    /// All permits that it had, and its turn, go to others at once, as with [`Semaphore::acquire`].
    pub fn acquire_many(&self, permits: usize) -> Result<Permits<'_>, AcquireError> {
        Deadline::never(|deadline| self.acquire_many_until(permits, deadline))
    }

    /// Acquires so many permits that are free, or dead holders', or none: then it returns `None`.
    /// Never waits.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`], but for [`AcquireError::Deadlock`].
    pub fn try_acquire_many(&self, permits: usize) -> Result<Option<Permits<'_>>, AcquireError> {
        self.many(permits, None)
    }

    /// Acquires so many permits as [`Semaphore::acquire_many`] does, for so long at most; returns
    /// `None` when it could not have all by then.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::acquire_many`].
    pub fn acquire_many_timeout(
        &self,
        permits: usize,
        timeout: Duration,
    ) -> Result<Option<Permits<'_>>, AcquireError> {
        self.acquire_many_until(permits, Deadline::after(timeout))
    }

    /// Acquires so many permits as [`Semaphore::acquire_many`] does, waiting until the deadline;
    /// returns `None` when it could not have all by then.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::acquire_many`].
    pub fn acquire_many_until(
        &self,
        permits: usize,
        deadline: Deadline,
    ) -> Result<Option<Permits<'_>>, AcquireError> {
        self.many(permits, Some(deadline).filter(|deadline| !deadline.has_passed()))
    }

    fn many(
        &self,
        permits: usize,
        wait: Option<Deadline>,
    ) -> Result<Option<Permits<'_>>, AcquireError> {
        if permits > self.max_permits() {
            return Err(AcquireError::Full);
        }
        let me = self.me()?;
        let take =
            || self.raw().acquire_many(me, &self.site().spin_wait, wait, self.start(me), permits);
        let got = match wait {
            None => take(),
            Some(_) => {
                let free = || self.available_permits();
                wait_for_permits(self.raw().free, self.site(), permits, free, take)
            }
        };
        let got = AcquireError::settle(got, me)?;
        Ok(got.map(|taken| taken.into_iter().map(|index| self.permit(me.id, index)).collect()))
    }

    /// Acquires permits as [`Semaphore::acquire_many`] does, which keep this handle.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::acquire_many`].
    pub fn acquire_many_owned(
        self: &Arc<Self>,
        permits: usize,
    ) -> Result<OwnedPermits, AcquireError> {
        Deadline::never(|deadline| self.acquire_many_owned_until(permits, deadline))
    }

    /// Acquires permits as [`Semaphore::try_acquire_many`] does, which keep this handle.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire_many`].
    pub fn try_acquire_many_owned(
        self: &Arc<Self>,
        permits: usize,
    ) -> Result<Option<OwnedPermits>, AcquireError> {
        Ok(self.try_acquire_many(permits)?.map(|permits| self.own_all(permits)))
    }

    /// Acquires permits as [`Semaphore::acquire_many_timeout`] does, which keep this handle.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::acquire_many`].
    pub fn acquire_many_owned_timeout(
        self: &Arc<Self>,
        permits: usize,
        timeout: Duration,
    ) -> Result<Option<OwnedPermits>, AcquireError> {
        self.acquire_many_owned_until(permits, Deadline::after(timeout))
    }

    /// Acquires permits as [`Semaphore::acquire_many_until`] does, which keep this handle.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::acquire_many`].
    pub fn acquire_many_owned_until(
        self: &Arc<Self>,
        permits: usize,
        deadline: Deadline,
    ) -> Result<Option<OwnedPermits>, AcquireError> {
        Ok(self.acquire_many_until(permits, deadline)?.map(|permits| self.own_all(permits)))
    }

    fn own_all(self: &Arc<Self>, permits: Permits<'_>) -> OwnedPermits {
        permits.into_iter().map(|permit| self.own(permit)).collect()
    }

    /// Begins to acquire so many permits by parts, for bindings that look for signals in between. It
    /// keeps the permits and the turn between the parts.
    ///
    /// # Errors
    /// [`AcquireError::Full`].
    #[doc(hidden)]
    pub fn begin_acquire_many(
        self: &Arc<Self>,
        permits: usize,
    ) -> Result<BegunAcquire, AcquireError> {
        if permits > self.max_permits() {
            return Err(AcquireError::Full);
        }
        Ok(BegunAcquire {
            semaphore: Arc::clone(self),
            permits,
            gatherer: None,
            gathered: Gathered::default(),
            _thread: PhantomData,
        })
    }
}

/// A wait for several permits, of several parts. Dropping it gives back what it has.
///
/// # If a process dies
/// As with [`Semaphore::acquire_many`].
#[doc(hidden)]
pub struct BegunAcquire {
    semaphore: Arc<Semaphore>,
    permits: usize,
    /// The thread, from the first part on.
    gatherer: Option<TokenId>,
    gathered: Gathered,
    /// Neither Send nor Sync: the permits name their thread.
    _thread: PhantomData<*mut ()>,
}

impl BegunAcquire {
    /// Waits until the deadline; returns the permits once it has all of them.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    pub fn continue_acquire(
        &mut self,
        deadline: Deadline,
    ) -> Result<Option<OwnedPermits>, AcquireError> {
        let me = self.semaphore.me()?;
        if self.gatherer.replace(me.id) != Some(me.id) {
            // The first part; or a forked child goes on with the wait, and what its parent has is its
            // parent's.
            self.gathered = Gathered::default();
        }
        let (raw, start) = (self.semaphore.raw(), self.semaphore.start(me));
        let spin_wait = &self.semaphore.site().spin_wait;
        let (wait, gathered) = (Some(deadline), &mut self.gathered);
        let got = raw.gather(me, spin_wait, wait, start, self.permits, gathered);
        Ok(AcquireError::settle(got, me)?.map(|()| {
            let taken = core::mem::take(&mut self.gathered).into_permits().into_iter();
            taken.map(|index| self.semaphore.own(self.semaphore.permit(me.id, index))).collect()
        }))
    }
}

impl Drop for BegunAcquire {
    fn drop(&mut self) {
        // A forked child has another token or none: the permits and the turn are its parent's.
        let here = self.semaphore.current_bits();
        if let Some(id) = self.gatherer.filter(|id| id.as_u32() == here) {
            self.semaphore.raw().give_up(id, &mut self.gathered);
        }
    }
}
