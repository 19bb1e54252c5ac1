//! The latest value of one type.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::bytes::{BytesWatch, BytesWriter, Shape, StateBytes};
use super::error::SetError;
use super::layout::MOST_BYTES;
use super::wait::Change;
use crate::Plain;
use crate::claim::Holder;
use crate::{Deadline, Domain, Error, WaitError, WaitStrategy};

/// The latest value under a name: one writer, any number of readers in any number of processes.
///
/// A `get` never waits for a writer, be it in the middle of a `set`, stopped or dead, and always
/// ends after a bounded number of steps. It makes no store to shared memory and needs no token,
/// unless three whole sets have overtaken its copy three times in a row. A `set` never waits for
/// readers. Neither makes a system call unless a waiter sleeps.
///
/// A state takes 8 KiB of memory, or four times the value if that is more (and as much as two
/// values more for each reader that is stopped in the very middle of a get, 66 values at most).
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-state2-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::state::State;
///
/// let level = State::<u64>::open(&domain, "level", 10)?;
/// assert_eq!(level.get()?, 10);
/// let mut writer = level.writer()?;
/// assert_eq!(writer.set(&11)?, 2);
/// assert_eq!((level.get()?, level.version()), (11, 2));
/// assert!(level.writer().is_err(), "one at a time");
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the writer dies, at any instruction, readers go on with the previous or the new value, whole;
/// waiters are told ([`Change::WriterDied`]); the next process to call [`State::writer`] is the
/// writer. A reader's death has no effect.
pub struct State<T> {
    bytes: StateBytes,
    _type: PhantomData<fn(T) -> T>,
}

impl<T> Clone for State<T> {
    fn clone(&self) -> State<T> {
        State { bytes: self.bytes.clone(), _type: PhantomData }
    }
}

impl<T: Plain> State<T> {
    /// Opens the state of that name, or makes it with this value.
    ///
    /// # Errors
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else,
    /// [`Error::NoSpace`], [`Error::InvalidName`], and errors of the system.
    ///
    /// # If a process dies
    /// If this process dies while it makes the state, nothing is left of it.
    pub fn open(domain: &Domain, name: &str, initial: T) -> Result<State<T>, Error> {
        const { assert!(size_of::<T>() as u64 <= MOST_BYTES) };
        let shape = Shape {
            type_name: std::any::type_name::<T>().to_owned(),
            type_align: align_of::<T>() as u64,
            capacity: size_of::<T>() as u64,
            is_fixed: true,
        };
        let bytes = StateBytes::make(domain, name, &shape, initial.as_bytes())?;
        // Its header has this type and size: the rest of it is not trusted.
        if bytes.capacity() != size_of::<T>() || !bytes.is_fixed_size() {
            return Err(bytes.inner.buffers.segment.damaged("a state's size"));
        }
        Ok(State { bytes, _type: PhantomData })
    }

    /// Returns the latest value. Never waits.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NoAddressSpace`].
    #[inline]
    pub fn get(&self) -> Result<T, Error> {
        Ok(self.get_with_version()?.0)
    }

    /// Returns the latest value and its version. Never waits.
    ///
    /// # Errors
    /// The errors of [`State::get`].
    #[inline]
    pub fn get_with_version(&self) -> Result<(T, u64), Error> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: `value` has room for a T, and a buffer holds no more.
        let (version, _) =
            unsafe { self.bytes.inner.read(value.as_mut_ptr().cast(), |_| Some(size_of::<T>()))? };
        // SAFETY: all its bytes have been written, and every pattern of them is a T.
        Ok((unsafe { value.assume_init() }, version))
    }

    /// Copies the latest value into `value`, and returns its version: for large values.
    ///
    /// # Errors
    /// The errors of [`State::get`]; then `value` may hold parts of several values.
    #[inline]
    pub fn get_into(&self, value: &mut T) -> Result<u64, Error> {
        // SAFETY: `value` has room for a T, of which every byte pattern is a value.
        let read =
            unsafe { self.bytes.inner.read((&raw mut *value).cast(), |_| Some(size_of::<T>())) };
        Ok(read?.0)
    }

    /// Returns the latest value's version: the first value has version 1, and each set adds 1.
    #[inline]
    pub fn version(&self) -> u64 {
        self.bytes.version()
    }

    /// Makes this process the state's writer, if there is none or it is dead.
    ///
    /// # Errors
    /// The errors of [`StateBytes::writer`].
    ///
    /// # If a process dies
    /// If this process dies while it takes over, the next process to call this function takes over.
    pub fn writer(&self) -> Result<StateWriter<T>, Error> {
        Ok(StateWriter { bytes: self.bytes.writer()?, _type: PhantomData })
    }

    /// Makes this process the writer, waiting until the deadline for a living writer to leave or to
    /// end.
    ///
    /// # Errors
    /// The errors of [`StateBytes::writer_until`].
    ///
    /// # If a process dies
    /// If the writer dies, the wait is over at once.
    pub fn writer_until(&self, deadline: impl Into<Deadline>) -> Result<StateWriter<T>, Error> {
        Ok(StateWriter { bytes: self.bytes.writer_until(deadline)?, _type: PhantomData })
    }

    /// Waits until the value has another version than this one, or its writer is dead.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// The same as with [`StateBytes::wait_changed`].
    pub fn wait_changed(&self, version: u64) -> Result<Change, WaitError> {
        self.bytes.wait_changed(version)
    }

    /// Waits for a change as [`State::wait_changed`] does, until the deadline.
    ///
    /// # Errors
    /// The errors of [`State::wait_changed`], and [`WaitError::TimedOut`].
    pub fn wait_changed_until(
        &self,
        version: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<Change, WaitError> {
        self.bytes.wait_changed_until(version, deadline)
    }

    /// Follows the value from here on; the first report is the present value.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-state3-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::state::{Change, State};
    /// # let level = State::<u64>::open(&domain, "level", 10)?;
    /// let mut watch = level.watch();
    /// assert_eq!(watch.changed()?, Change::Value { version: 1 });
    /// level.writer()?.set(&11)?;
    /// assert_eq!(watch.changed()?, Change::Value { version: 2 });
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch(&self) -> StateWatch {
        StateWatch { bytes: self.bytes.watch() }
    }

    /// Returns the writer, dead or alive.
    pub fn writer_now(&self) -> Option<Holder> {
        self.bytes.writer_now()
    }

    /// Sets how waits through this handle and its clones wait.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.bytes.set_wait(wait);
    }

    /// Returns whether the state's name has been removed: processes that have it open go on, no
    /// other process finds it.
    pub fn is_removed(&self) -> bool {
        self.bytes.is_removed()
    }
}

/// Sets the values of a [`State`]. A state has one writer at a time; it may move between threads.
///
/// # If a process dies
/// The same as with [`BytesWriter`].
pub struct StateWriter<T> {
    bytes: BytesWriter,
    _type: PhantomData<fn(T)>,
}

impl<T: Plain> StateWriter<T> {
    /// Sets the value and returns its version.
    ///
    /// # Errors
    /// The errors of [`BytesWriter::set`].
    #[inline]
    pub fn set(&mut self, value: &T) -> Result<u64, SetError> {
        self.bytes.set(value.as_bytes())
    }
}

/// Follows the values of a [`State`]: reports each change that it sees, and each death of a writer
/// once.
pub struct StateWatch {
    pub(super) bytes: BytesWatch,
}

impl StateWatch {
    pub(crate) fn bytes_mut(&mut self) -> &mut BytesWatch {
        &mut self.bytes
    }

    /// Returns the next change, if there is one. Never waits.
    ///
    /// # If a process dies
    /// The same as with [`BytesWatch::changed`].
    pub fn try_changed(&mut self) -> Option<Change> {
        self.bytes.try_changed()
    }

    /// Waits for the next change.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// The same as with [`BytesWatch::changed`].
    pub fn changed(&mut self) -> Result<Change, WaitError> {
        self.bytes.changed()
    }

    /// Waits for the next change, until the deadline.
    ///
    /// # Errors
    /// The errors of [`StateWatch::changed`], and [`WaitError::TimedOut`].
    pub fn changed_until(&mut self, deadline: impl Into<Deadline>) -> Result<Change, WaitError> {
        self.bytes.changed_until(deadline)
    }
}
