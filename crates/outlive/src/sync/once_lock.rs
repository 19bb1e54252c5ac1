//! A named value that is made once, by whoever comes first.

use std::cell::UnsafeCell;
use std::ptr::NonNull;

use super::embedded::{Embed, Place, SharedField};
use super::guard::LockError;
use super::primitive::{Home, TypeOf};
use super::primitive::{Inspect, LockDetail};
use super::raw::once::{NoTurn, RawOnce, Turn};
use super::{Holder, Plain};
use crate::liveness::{Me, Registry};
use crate::segment::Shared;
use crate::shim::AtomicU64;
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// A value that the first who needs it makes, for all processes and for good; reading it then is one load.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-once-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::OnceLock;
///
/// let table = OnceLock::<[u32; 4]>::open(&domain, "squares")?;
/// let squares = table.get_or_init(|_| [0, 1, 4, 9]).unwrap();
/// assert_eq!(squares[3], 9);
/// assert_eq!(table.get(), Some(&[0, 1, 4, 9]));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// Making it: the next who needs it makes it, also one who waited already, and is told
/// ([`OnceState::previous_died`]): what else the dead one did may have been done by half. Waiting: nobody notices.
pub struct OnceLock<T> {
    home: Home<RawOnce>,
    value: NonNull<UnsafeCell<T>>,
    spin_wait: SpinWait,
}

/// What whoever makes the value is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnceState {
    failed: bool,
}

impl OnceState {
    /// Whether somebody died, or panicked, making it.
    pub fn previous_died(&self) -> bool {
        self.failed
    }
}

/// The body of a named one: the value in the next line but one.
#[repr(C, align(64))]
struct Apart<T> {
    raw: RawOnce,
    reserved: [AtomicU64; 7],
    value: UnsafeCell<T>,
}

// SAFETY: atomics, and a Plain value that is written by whose turn it is and read when it is done.
unsafe impl<T: Plain> Shared for Apart<T> {}
// SAFETY: as good as a reference to a T.
unsafe impl<T: Send + Sync> Send for OnceLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T: Plain + Sync> OnceLock<T> {
    /// Opens the value of that name, or makes a place for it, empty.
    ///
    /// # Errors
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else, [`Error::NoSpace`],
    /// [`Error::InvalidName`], and what the system says.
    ///
    /// # If a process dies
    /// While it makes the place: nothing is left of it.
    pub fn open(domain: &Domain, name: &str) -> Result<OnceLock<T>, Error> {
        let home = Home::<Apart<T>>::open(domain, name, Kind::Once, TypeOf::a::<T>(), |_| ())?;
        let value = NonNull::from(&home.shared().value);
        Ok(OnceLock { home: home.part(|cell| &cell.raw), value, spin_wait: SpinWait::new() })
    }

    /// How waiting is done through this handle.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.spin_wait.set(wait);
    }

    /// The value, if it has been made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: done, so nobody writes it any more; mapped as long as the handle is.
        self.raw().is_done().then(|| unsafe { &*self.value.as_ref().get() })
    }

    /// The value; made by `make` if nobody has made it. Who comes while it is being made waits.
    ///
    /// `make` runs again, here or elsewhere, when its process dies before the value is in place, and when it panics.
    ///
    /// # Errors
    /// [`LockError::Deadlock`] when called from within `make` itself, [`LockError::Damaged`], [`LockError::System`].
    ///
    /// # If a process dies
    /// See [`OnceLock`].
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce(OnceState) -> T) -> Result<&T, LockError<()>> {
        self.get_or_init_until(Deadline::NEVER, make)
    }

    /// The same, waiting for another who makes it until the deadline.
    ///
    /// # Errors
    /// As [`OnceLock::get_or_init`], and [`LockError::TimedOut`].
    #[inline]
    pub fn get_or_init_until(
        &self,
        deadline: impl Into<Deadline>,
        make: impl FnOnce(OnceState) -> T,
    ) -> Result<&T, LockError<()>> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.init_slow(make, |me| self.raw().turn(me, &self.spin_wait, deadline.into())),
        }
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`OnceLock::get_or_init`], and [`LockError::WouldBlock`] while another makes it.
    pub fn try_get_or_init(&self, make: impl FnOnce(OnceState) -> T) -> Result<&T, LockError<()>> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.init_slow(make, |me| self.raw().try_turn(me)),
        }
    }

    #[cold]
    fn init_slow(
        &self,
        make: impl FnOnce(OnceState) -> T,
        turn: impl FnOnce(Me) -> Result<Turn, NoTurn>,
    ) -> Result<&T, LockError<()>> {
        let me = self.home.me().map_err(LockError::System)?;
        let turn = turn(me).map_err(|reason| match reason {
            NoTurn::Deadlock => LockError::Deadlock,
            NoTurn::WouldBlock => LockError::WouldBlock,
            NoTurn::TimedOut => LockError::TimedOut,
            NoTurn::Damaged => LockError::Damaged,
            NoTurn::System(errno) => {
                LockError::System(Error::from_errno("wait for a value in", me.registry.path(), errno))
            }
        })?;
        if let Turn::Mine { failed } = turn {
            let panicked = Panicked { raw: self.raw(), me };
            let value = make(OnceState { failed });
            core::mem::forget(panicked);
            // In a child that `make` forked the turn is the parent's.
            if me.registry.current_bits() != me.id.as_u32() {
                return Err(LockError::NotHeld);
            }
            // SAFETY: it is our turn, so nobody else writes it, and it is not done, so nobody reads it.
            unsafe { self.value.as_ref().get().write(value) };
            self.raw().finish(me.id);
        }
        // SAFETY: as in `get`.
        Ok(unsafe { &*self.value.as_ref().get() })
    }

    /// Who is making it just now.
    pub fn maker(&self) -> Option<Holder> {
        self.raw().owner().map(|token| Holder::of(self.home.registry(), token))
    }

    #[inline]
    fn raw(&self) -> &RawOnce {
        self.home.shared()
    }
}

/// Dropped when `make` panics: then it is somebody else's turn.
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

/// A value that is made once, for use as a field of a [`record!`](crate::record). 8 bytes and the value; all zeroes are
/// one that has not been made. [`Record::handle`](super::Record::handle) gives the [`OnceLock`] to use it by.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-once-in-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{EmbeddedOnceLock, Record};
///
/// outlive::record! { pub struct Camera { pub size: EmbeddedOnceLock<[u32; 2]> } }
/// let camera = Record::<Camera>::open(&domain, "camera", |_| ())?;
/// let size = camera.handle(|camera| &camera.size);
/// assert_eq!(size.get_or_init(|_| [640, 480]).unwrap(), &[640, 480]);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
#[repr(C)]
pub struct EmbeddedOnceLock<T> {
    raw: RawOnce,
    value: UnsafeCell<T>,
}

// SAFETY: the value is written by whose turn it is and read when it is done.
unsafe impl<T: Send + Sync> Sync for EmbeddedOnceLock<T> {}
// SAFETY: atomics at the start, and a Plain value beside them.
unsafe impl<T: Plain + Sync> SharedField for EmbeddedOnceLock<T> {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        Place { offset: core::mem::offset_of!(EmbeddedOnceLock<T>, raw), kind: Kind::Once, number: 0 }
    }
}

impl<T: Plain + Sync> Embed for EmbeddedOnceLock<T> {
    type Handle = OnceLock<T>;
    fn handle(home: Home<EmbeddedOnceLock<T>>) -> OnceLock<T> {
        let value = NonNull::from(&home.shared().value);
        OnceLock { home: home.part(|embedded| &embedded.raw), value, spin_wait: SpinWait::new() }
    }
}

impl Inspect for RawOnce {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let holders: Vec<Holder> = self.owner().map(|token| Holder::of(registry, token)).into_iter().collect();
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
