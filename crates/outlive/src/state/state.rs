//! A state as a whole, and its writer.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::buffers::Buffer;
use super::inner::Inner;
use super::wait::{Change, Told};
use super::watch::{Followed, Watch};
use super::write::RawWriter;
use crate::claim::{HasRole, Holder, Role, StandBy, unless_taken};
use crate::{Deadline, Error, Payload, SendError, WaitStrategy};

/// The latest value under a name: one writer, any number of readers in any number of processes.
///
/// A value is of a [`Plain`](crate::Plain) type, or bytes (`State<[u8]>`) or a slice of a plain
/// type, of any length up to the state's capacity.
///
/// A `get` never waits for a writer, be it in the middle of a `set`, stopped or dead, and always
/// ends after a bounded number of steps. It makes no store to shared memory and needs no token,
/// unless its copy was overtaken three times in a row, each time by three whole sets. A `set` never
/// waits for readers. Neither makes a system call unless a waiter sleeps.
///
/// A state takes 8 KiB of memory, or four times the value if that is more (and as much as two
/// values more for each reader that is stopped in the very middle of a get, 66 values at most).
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-state2-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::state::State;
///
/// let level = State::<u64>::options().initial(&10).open_or_create(&domain, "level")?;
/// assert_eq!(level.get()?, 10);
/// let mut writer = level.writer()?;
/// assert_eq!(writer.set(&11)?, 2);
/// assert_eq!((level.get()?, level.version()), (11, 2));
/// assert!(level.writer().is_err(), "one at a time");
///
/// let mode = State::<[u8]>::options().capacity(64).open_or_create(&domain, "mode")?;
/// mode.writer()?.set(b"driving")?;
/// assert_eq!(mode.get()?, b"driving");
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the writer dies, at any instruction, readers go on with the previous or the new value, whole;
/// waiters are told ([`Change::WriterDied`]); the next process to call [`State::writer`] is the
/// writer. A reader's death has no effect.
pub struct State<M: Payload + ?Sized = [u8]> {
    pub(super) inner: Arc<Inner>,
    pub(super) _value: PhantomData<fn(&M)>,
}

impl<M: Payload + ?Sized> Clone for State<M> {
    fn clone(&self) -> State<M> {
        State { inner: Arc::clone(&self.inner), _value: PhantomData }
    }
}

impl<M: Payload + ?Sized> State<M> {
    /// Returns the latest value. Never waits.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NoAddressSpace`].
    #[inline]
    pub fn get(&self) -> Result<M::Owned, Error> {
        Ok(self.get_with_version()?.0)
    }

    /// Returns the latest value and its version. Never waits.
    ///
    /// # Errors
    /// The errors of [`State::get`].
    #[inline]
    pub fn get_with_version(&self) -> Result<(M::Owned, u64), Error> {
        // SAFETY: `read_to` writes what it returns, to where there is room for `most` bytes.
        let made = unsafe { M::make(self.most(), |to| self.read_to(to)) };
        made?.ok_or_else(|| self.inner.buffers.segment.damaged("a value's length"))
    }

    /// Copies the latest value into `value`, in whose memory it then lies, and returns its version.
    ///
    /// # Errors
    /// The errors of [`State::get`]; then `value` may hold parts of several values, or none.
    #[inline]
    pub fn get_into(&self, value: &mut M::Owned) -> Result<u64, Error> {
        // SAFETY: `read_to` writes what it returns, to where there is room for `most` bytes.
        let filled = unsafe { M::fill(value, self.most(), |to| self.read_to(to)) };
        filled?.ok_or_else(|| self.inner.buffers.segment.damaged("a value's length"))
    }

    /// Returns the most bytes that [`State::read_to`] writes.
    #[inline]
    fn most(&self) -> usize {
        if M::METADATA.is_fixed() {
            M::METADATA.size as usize
        } else {
            self.inner.buffers.capacity()
        }
    }

    /// Copies the latest value to `to`; returns its version and its length.
    ///
    /// # Safety
    /// The caller guarantees that [`State::most`] bytes can be written at `to`.
    #[inline]
    unsafe fn read_to(&self, to: *mut u8) -> Result<(u64, usize), Error> {
        let most = self.most();
        let len_of = |buffer: Buffer<'_>| {
            if M::METADATA.is_fixed() {
                return Some(most);
            }
            let len = buffer.len();
            (len <= most).then_some(len)
        };
        // SAFETY: the caller guarantees room for `most` bytes, and `len_of` returns no more; a
        // buffer holds as many (for a value of one type, `open_as` has compared the sizes).
        unsafe { self.inner.read(to, len_of) }
    }

    /// Returns the latest value's version: the first value has version 1, and each set adds 1.
    #[inline]
    pub fn version(&self) -> u64 {
        self.inner.version()
    }

    /// Makes this process the state's writer, if there is none or it is dead. Never waits for a
    /// living writer: see [`State::wait_to_write`].
    ///
    /// # Errors
    /// [`Error::Taken`] while another writer lives, [`Error::Ending`] when a thread of the dead one
    /// has not exited after two seconds, for which this waits, [`Error::NoToken`],
    /// [`Error::NoSpace`]; [`Error::NoAddressSpace`] when other processes have made more buffers than
    /// this one could map.
    ///
    /// # If a process dies
    /// If this process dies while it takes over, the next process to call this function takes over.
    pub fn writer(&self) -> Result<Writer<M>, Error> {
        self.writer_by(Deadline::NEVER)
    }

    /// Makes this process the writer; waits for the last thread of a dead writer until the deadline,
    /// and two seconds at most.
    fn writer_by(&self, deadline: Deadline) -> Result<Writer<M>, Error> {
        let raw = RawWriter::new(Arc::clone(&self.inner), deadline)?;
        Ok(Writer { raw, _value: PhantomData })
    }

    /// Makes this process the writer, waiting for a living writer to leave or to end, and for the
    /// last thread of a dead one.
    ///
    /// A writer of this process is in the way like any other: this call waits until another thread
    /// drops it, and for ever where the calling thread has it.
    ///
    /// # Errors
    /// The errors of [`State::writer`], but neither [`Error::Taken`] nor
    /// [`Error::Ending`].
    ///
    /// # If a process dies
    /// If the writer dies, the wait is over at once. If this process dies while it takes over, the
    /// next process takes over.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-state-wait-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::state::State;
    /// use std::time::Duration;
    /// let level = State::<u64>::open_or_create(&domain, "level")?;
    /// let writer = level.writer()?;
    /// assert!(level.wait_to_write_timeout(Duration::from_millis(1))?.is_none());
    /// drop(writer);
    /// level.wait_to_write()?.set(&1)?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_to_write(&self) -> Result<Writer<M>, Error> {
        Deadline::never(|deadline| self.wait_to_write_until(deadline))
    }

    /// Makes this process the writer; `None` at once while another writer lives, or while the last
    /// thread of a dead one has not exited.
    ///
    /// # Errors
    /// The errors of [`State::wait_to_write`].
    ///
    /// # If a process dies
    /// The same as with [`State::writer`].
    pub fn try_wait_to_write(&self) -> Result<Option<Writer<M>>, Error> {
        unless_taken(self.writer_by(Deadline::at_nanos(0)))
    }

    /// Makes this process the writer, waiting for a living writer as long as `span`; `None` when
    /// that has passed.
    ///
    /// # Errors
    /// The errors of [`State::wait_to_write`].
    ///
    /// # If a process dies
    /// The same as with [`State::wait_to_write`].
    pub fn wait_to_write_timeout(&self, span: Duration) -> Result<Option<Writer<M>>, Error> {
        self.wait_to_write_until(Deadline::after(span))
    }

    /// Makes this process the writer, waiting for a living writer until the deadline; `None` when
    /// that has passed.
    ///
    /// # Errors
    /// The errors of [`State::wait_to_write`].
    ///
    /// # If a process dies
    /// The same as with [`State::wait_to_write`].
    pub fn wait_to_write_until(&self, deadline: Deadline) -> Result<Option<Writer<M>>, Error> {
        let path = self.inner.registry.path();
        self.inner.role().wait_to_take(path, deadline, || self.writer_by(deadline))
    }

    /// Returns what a wait set waits for that stands by: it is ready while no process writes.
    #[must_use]
    pub fn stand_by(&self) -> StandBy {
        StandBy::of_role(Arc::clone(&self.inner))
    }

    /// Waits until the value has another version than this one, or its writer is dead.
    ///
    /// While no writer lives, and none died, it waits for a writer to come and set a value.
    ///
    /// # Errors
    /// [`Error::NoToken`] and errors of the system.
    ///
    /// # If a process dies
    /// If the writer dies, this returns [`Change::WriterDied`] at once, after its last value; and
    /// again at each call with that version, until another writer takes its place
    /// ([`State::watch`] reports it once).
    pub fn wait_changed(&self, version: u64) -> Result<Change, Error> {
        Deadline::never(|deadline| self.wait_changed_until(version, deadline))
    }

    /// Returns how the state has changed since that version, as [`State::wait_changed`] does;
    /// `None` when it has not. Never waits.
    ///
    /// # Errors
    /// The errors of [`State::wait_changed`].
    ///
    /// # If a process dies
    /// The same as with [`State::wait_changed`].
    pub fn try_wait_changed(&self, version: u64) -> Result<Option<Change>, Error> {
        Ok(self.inner.try_changed(&Told::of(version)))
    }

    /// Waits for a change as [`State::wait_changed`] does, as long as `span`; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// The errors of [`State::wait_changed`].
    ///
    /// # If a process dies
    /// The same as with [`State::wait_changed`].
    pub fn wait_changed_timeout(
        &self,
        version: u64,
        span: Duration,
    ) -> Result<Option<Change>, Error> {
        self.wait_changed_until(version, Deadline::after(span))
    }

    /// Waits for a change as [`State::wait_changed`] does, until the deadline; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// The errors of [`State::wait_changed`].
    ///
    /// # If a process dies
    /// The same as with [`State::wait_changed`].
    pub fn wait_changed_until(
        &self,
        version: u64,
        deadline: Deadline,
    ) -> Result<Option<Change>, Error> {
        self.inner.wait_changed(&Told::of(version), deadline)
    }

    /// Follows the value from here on; the first report is the present value.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-state3-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::state::{Change, State};
    /// let level = State::<u64>::open_or_create(&domain, "level")?;
    /// let mut watch = level.watch();
    /// assert_eq!(watch.changed()?, Change::Value { version: 1 });
    /// level.writer()?.set(&11)?;
    /// assert_eq!(watch.changed()?, Change::Value { version: 2 });
    /// assert_eq!(watch.try_changed()?, None);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(Followed { inner: Arc::clone(&self.inner), told: Arc::new(Told::of(0)) })
    }

    /// Returns the writer, dead or alive.
    #[must_use]
    pub fn current_writer(&self) -> Option<Holder> {
        self.inner.role().holder().map(|token| Holder::of(self.inner.registry, token))
    }

    /// Sets how waits through this handle and its clones wait.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.inner.spin_wait.set(wait);
    }

    /// Returns whether the state's name has been removed: processes that have it open go on, no
    /// other process finds it.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.inner.buffers.segment.header().is_removed()
    }

    /// Returns the attributes that its maker gave it.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when a process wrote over them, and errors of the
    /// system.
    pub fn attributes(&self) -> Result<crate::Attributes, crate::Error> {
        self.inner.buffers.segment.attributes()
    }
}

impl State<[u8]> {
    /// Copies the latest value to `to`, which may be uninitialised; returns its version and its
    /// length.
    ///
    /// # Errors
    /// The errors of [`State::get`]; then `to` may hold parts of several values.
    ///
    /// # Safety
    /// The caller guarantees that as many bytes as [`State::config`] names as the capacity can be
    /// written at `to`.
    #[inline]
    pub unsafe fn get_to(&self, to: *mut u8) -> Result<(u64, usize), Error> {
        // SAFETY: the caller guarantees room for the capacity, which is `most` for bytes.
        unsafe { self.read_to(to) }
    }

    /// Reads as a reader that has been overtaken does: for tests.
    #[doc(hidden)]
    #[cfg(feature = "testing")]
    pub fn get_as_if_overtaken(&self) -> Result<(Vec<u8>, u64), Error> {
        self.get_as_if_stopped(|| {})
    }

    /// Reads as `get_as_if_overtaken` does, with a stop between the pin and the copy.
    #[doc(hidden)]
    #[cfg(feature = "testing")]
    pub fn get_as_if_stopped(&self, stop: impl Fn()) -> Result<(Vec<u8>, u64), Error> {
        let most = self.inner.buffers.capacity();
        let mut value = Vec::with_capacity(most);
        let len_of = |buffer: Buffer<'_>| {
            stop();
            Some(buffer.len().min(most))
        };
        // SAFETY: `value` has room for `capacity` bytes, a whole buffer, and `len_of` returns no
        // more.
        let (version, len) = unsafe { self.inner.read_overtaken(value.as_mut_ptr(), len_of)? };
        // SAFETY: `read_overtaken` has written `len` bytes.
        unsafe { value.set_len(len) };
        Ok((value, version))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

/// Sets the values of a [`State`]. A state has one writer at a time; it may move between threads.
///
/// # If a process dies
/// If the writer's process dies, at any instruction, the value is the previous or the new one,
/// whole; waiters are told, and the next process to call [`State::writer`] goes on.
pub struct Writer<M: Payload + ?Sized = [u8]> {
    pub(super) raw: RawWriter,
    _value: PhantomData<fn(&M)>,
}

impl<M: Payload + ?Sized> Writer<M> {
    /// Sets the value and returns its version.
    ///
    /// It makes no system call unless a reader sleeps, and does not wait: the value is set when
    /// this returns.
    ///
    /// # Errors
    /// [`SendError::TooLarge`], [`SendError::OtherLength`], [`SendError::NotOwner`],
    /// [`SendError::Damaged`], [`SendError::System`], also when there is no memory for one more
    /// buffer, which readers that are stopped made necessary. After an error the previous value
    /// stays the latest.
    #[inline]
    pub fn set(&mut self, value: &M) -> Result<u64, SendError> {
        let bytes = value.bytes();
        // Only bytes can have a length that no value of the state's type has. Its readers would
        // take it for damage.
        if const { M::METADATA.is_slice && M::METADATA.size == 1 }
            && let Some(wanted) = self.raw.inner.buffers.wanted_length(bytes.len())
        {
            let (len, wanted) = (bytes.len() as u64, wanted as u64);
            return Err(SendError::OtherLength { len, wanted });
        }
        self.raw.set(bytes)
    }
}

impl HasRole for Arc<Inner> {
    fn role(&self) -> Role<'_> {
        Inner::role(self)
    }
}
