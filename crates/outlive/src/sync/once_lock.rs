//! A named value that the first caller makes, once.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use super::Holder;
use super::embedded::{Embedded, InRecord};
use super::error::AcquireError;
use super::lock::Named;
use super::primitive::{Handle, TypeOf};
use super::primitive::{Inspect, LockDetail, Primitive, Site, Sited};
use super::raw::once::{OnceClaim, RawOnce};
use crate::Plain;
use crate::domain::three_openings;
use crate::liveness::{Me, Registry};
use crate::segment::Opening;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// Holds a value that the first caller makes, for all processes and for good; reading it then costs
/// one load.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-once-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::OnceLock;
///
/// let table = OnceLock::<[u32; 4]>::open_or_create(&domain, "squares")?;
/// let squares = table.get_or_init(|_| [0, 1, 4, 9]).unwrap();
/// assert_eq!(squares[3], 9);
/// assert_eq!(table.get(), Some(&[0, 1, 4, 9]));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// While it makes the value: a caller that waits already, or the next one, makes it, and is told of
/// the death ([`OnceState::previous_died`]), because other work of the dead maker may be half done.
/// While it waits: other threads are not affected.
pub struct OnceLock<T> {
    handle: Handle<RawOnce>,
    value: NonNull<UnsafeCell<T>>,
}

/// Tells the maker of the value what happened before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnceState {
    failed: bool,
}

impl OnceState {
    /// Returns whether an earlier maker died or panicked.
    pub fn previous_died(&self) -> bool {
        self.failed
    }
}

// SAFETY: a handle gives no more than `&T`, and `T: Send + Sync`.
unsafe impl<T: Send + Sync> Send for OnceLock<T> {}
// SAFETY: a handle gives no more than `&T`, and `T: Send + Sync`.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

/// Says how to open a value that is made once, or to make the place for it: see
/// [`OnceLock::options`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct OnceLockOptions<T> {
    value: PhantomData<fn() -> T>,
}

impl<T: Plain + Sync> OnceLockOptions<T> {
    three_openings!(
        OnceLock<T>,
        "value",
        "[`Error::OtherType`](crate::Error::OtherType) for a value of another type."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<OnceLock<T>, Error> {
        let value = TypeOf::a::<T>();
        let handle = Handle::<Named<RawOnce, T>>::open_as(
            domain,
            name,
            opening,
            Kind::Once,
            value,
            |_, _| (),
        )?;
        let value = NonNull::from(&handle.shared().value);
        Ok(OnceLock { handle: handle.part(|named| &named.words.0), value })
    }
}

impl<T> Sited for OnceLock<T> {
    fn site(&self) -> &Site {
        self.handle.site()
    }
}

impl<T: Plain + Sync> OnceLock<T> {
    /// Returns the options for opening a value, or making a place for it. There is nothing to
    /// choose so far.
    pub fn options() -> OnceLockOptions<T> {
        OnceLockOptions { value: PhantomData }
    }

    /// Opens the existing value of that name, made or not.
    ///
    /// # Errors
    /// As [`OnceLockOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<OnceLock<T>, Error> {
        OnceLock::options().open(domain, name)
    }

    /// Opens the value of that name, or makes an empty place for it.
    ///
    /// # Errors
    /// As [`OnceLockOptions::open_or_create`].
    ///
    /// # If a process dies
    /// While it makes the place: nothing is left of it.
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<OnceLock<T>, Error> {
        OnceLock::options().open_or_create(domain, name)
    }

    /// Sets how this handle waits.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.handle.site().spin_wait.set(wait);
    }

    /// Returns the value if it has been made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: the value is done, so no thread writes it any more (raw/once.rs); `handle` keeps
        // it mapped.
        self.raw().is_done().then(|| unsafe { &*self.value.as_ref().get() })
    }

    /// Returns the value, and makes it by `make` if no caller has. While another caller makes it,
    /// this one waits.
    ///
    /// If its process dies before the value is in place, or if it panics, the `make` of another
    /// call runs.
    ///
    /// # Errors
    /// [`AcquireError::Deadlock`] when `make` itself calls this; [`AcquireError::NotHeld`] in a
    /// child that `make` forked; [`AcquireError::Damaged`], [`AcquireError::System`].
    ///
    /// # If a process dies
    /// See [`OnceLock`].
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce(OnceState) -> T) -> Result<&T, AcquireError> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.init_slow(make),
        }
    }

    /// Returns the value as [`OnceLock::get_or_init`] does, and waits for so long at most while
    /// another caller makes it; returns `None` when the time is over first.
    ///
    /// # Errors
    /// As [`OnceLock::get_or_init`].
    #[inline]
    pub fn get_or_init_timeout(
        &self,
        timeout: Duration,
        make: impl FnOnce(OnceState) -> T,
    ) -> Result<Option<&T>, AcquireError> {
        match self.get() {
            Some(value) => Ok(Some(value)),
            None => self.init_if(make, Some(Deadline::after(timeout))),
        }
    }

    /// Returns the value as [`OnceLock::get_or_init`] does, and waits until the deadline while
    /// another caller makes it; returns `None` when the deadline passes first.
    ///
    /// # Errors
    /// As [`OnceLock::get_or_init`].
    #[inline]
    pub fn get_or_init_until(
        &self,
        deadline: Deadline,
        make: impl FnOnce(OnceState) -> T,
    ) -> Result<Option<&T>, AcquireError> {
        match self.get() {
            Some(value) => Ok(Some(value)),
            None => self.init_if(make, Some(deadline)),
        }
    }

    /// Returns the value as [`OnceLock::get_or_init`] does, but never waits; returns `None` while
    /// another caller makes it.
    ///
    /// # Errors
    /// As [`OnceLock::get_or_init`].
    pub fn try_get_or_init(
        &self,
        make: impl FnOnce(OnceState) -> T,
    ) -> Result<Option<&T>, AcquireError> {
        match self.get() {
            Some(value) => Ok(Some(value)),
            None => self.init_if(make, None),
        }
    }

    /// Claims the right to make the value, or learns that it is there, and waits until the
    /// deadline, or never.
    fn claim(&self, me: Me, wait: Option<Deadline>) -> Result<Option<OnceClaim>, AcquireError> {
        let got = match wait.filter(|deadline| !deadline.has_passed()) {
            Some(deadline) => self.raw().claim(me, &self.handle.site().spin_wait, deadline),
            None => self.raw().try_claim(me),
        };
        AcquireError::settle(got, me)
    }

    #[cold]
    fn init_slow(&self, make: impl FnOnce(OnceState) -> T) -> Result<&T, AcquireError> {
        let me = self.handle.me().map_err(AcquireError::System)?;
        let claim = Deadline::never(|deadline| self.claim(me, Some(deadline)))?;
        self.init(make, me, claim)
    }

    #[cold]
    fn init_if(
        &self,
        make: impl FnOnce(OnceState) -> T,
        wait: Option<Deadline>,
    ) -> Result<Option<&T>, AcquireError> {
        let me = self.handle.me().map_err(AcquireError::System)?;
        self.claim(me, wait)?.map(|claim| self.init(make, me, claim)).transpose()
    }

    fn init(
        &self,
        make: impl FnOnce(OnceState) -> T,
        me: Me,
        claim: OnceClaim,
    ) -> Result<&T, AcquireError> {
        if let OnceClaim::Mine { failed } = claim {
            let panicked = Panicked { raw: self.raw(), me };
            let value = make(OnceState { failed });
            core::mem::forget(panicked);
            // In a child that `make` forked, the parent is the maker.
            if me.registry.current_bits() != me.id.as_u32() {
                return Err(AcquireError::NotHeld);
            }
            // SAFETY: this thread is the maker, so no other writes the value; it is not done, so no
            // thread reads it (raw/once.rs).
            unsafe { self.value.as_ref().get().write(value) };
            self.raw().finish(me.id);
        }
        // SAFETY: the value is done, so no thread writes it any more (raw/once.rs); `handle` keeps
        // it mapped.
        Ok(unsafe { &*self.value.as_ref().get() })
    }

    /// Returns the thread that makes the value just now, dead or alive.
    pub fn initializer(&self) -> Option<Holder> {
        self.raw().owner().map(|token| Holder::of(self.handle.registry(), token))
    }

    #[inline]
    fn raw(&self) -> &RawOnce {
        self.handle.shared()
    }
}

/// Dropped when `make` panics: another caller then makes the value.
struct Panicked<'a> {
    raw: &'a RawOnce,
    me: Me,
}

impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        if self.me.registry.current_bits() == self.me.id.as_u32() {
            self.raw.abandon(self.me.id);
        }
    }
}

/// Embeds a value that is made once as a field of a [`record!`](crate::record).
///
/// It takes 8 bytes and the value; all zeroes are one that has not been made.
/// [`Record::handle`](super::Record::handle) returns the [`OnceLock`] that uses it.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-once-in-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{EmbeddedOnceLock, Record};
///
/// outlive::record! { pub struct Camera { pub size: EmbeddedOnceLock<[u32; 2]> } }
/// let camera = Record::<Camera>::open_or_create(&domain, "camera")?;
/// let size = camera.handle(|camera| &camera.size);
/// assert_eq!(size.get_or_init(|_| [640, 480]).unwrap(), &[640, 480]);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
pub type EmbeddedOnceLock<T> = Embedded<RawOnce, T>;

// SAFETY: the words are the type, and the value is `Plain`: only the maker writes it, and readers
// read it only once it is done (raw/once.rs).
unsafe impl<T: Plain + Sync> InRecord<T> for RawOnce {
    const KIND: Kind = Kind::Once;
    type Handle = OnceLock<T>;

    fn handle(handle: Handle<EmbeddedOnceLock<T>>) -> OnceLock<T> {
        let value = NonNull::from(&handle.shared().value);
        OnceLock { handle: handle.part(|embedded| &embedded.words), value }
    }
}

impl Primitive for RawOnce {
    const KINDS: &[Kind] = &[Kind::Once];
}

impl Inspect for RawOnce {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let holders: Vec<Holder> =
            self.owner().map(|token| Holder::of(registry, token)).into_iter().collect();
        let state = match (self.is_done(), holders.is_empty()) {
            (true, _) => "done",
            (false, true) => "not done",
            (false, false) => "being done",
        };
        LockDetail { holders, state: Some(state.to_owned()), ..LockDetail::default() }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        u32::from(RawOnce::sweep(self, me, dry_run))
    }
}
