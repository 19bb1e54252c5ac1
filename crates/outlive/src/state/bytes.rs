//! The latest value, as bytes of any length up to a maximum.

use std::sync::Arc;

use super::Inner;
use super::buffers::{Buffer, Buffers};
use super::error::SetError;
use super::layout::{
    BUFFERS_AT, FIXED_SIZE, HEAD_AT, Latest, MOST_BUFFERS, MOST_BYTES, StateHead, buffer_bytes,
};
use super::wait::{Change, Told};
use super::write::RawWriter;
use crate::claim::Holder;
use crate::claim::NoRole;
use crate::liveness::Registry;
use crate::segment::{Segment, Spec};
use crate::shim::Ordering;
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error, Kind, WaitError, WaitStrategy};

/// The latest value under a name, as bytes of any length up to the maximum that it was made for.
///
/// [`State`](super::State) is the same for values of one type; [`StateBytes::open`] opens one as
/// bytes, too.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-bytes-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::state::StateBytes;
///
/// let mode = StateBytes::create(&domain, "mode", 64, b"idle")?;
/// let mut writer = mode.writer()?;
/// writer.set(b"driving")?;
/// drop(writer);
/// assert_eq!(mode.get()?, b"driving");
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// See [`State`](super::State).
#[derive(Clone)]
pub struct StateBytes {
    pub(super) inner: Arc<Inner>,
}

/// What a new state's file is made with.
pub(super) struct Shape {
    pub(super) type_name: String,
    pub(super) type_align: u64,
    pub(super) capacity: u64,
    pub(super) is_fixed: bool,
}

impl StateBytes {
    /// Opens the state of that name, or makes one with this value in it, for values of at most
    /// `most` bytes (at most 128 MiB).
    ///
    /// An existing state keeps its size and its value. A state takes four times that size, and as
    /// much again for each two readers that are stopped in the middle of a `get`.
    /// two readers that are stopped in the middle of a get.
    ///
    /// # Errors
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else,
    /// [`Error::NoSpace`], also for a first value or a size that is too large,
    /// [`Error::InvalidName`], and errors of the system.
    ///
    /// # If a process dies
    /// If this process dies while it makes the state, nothing is left of it.
    pub fn create(
        domain: &Domain,
        name: &str,
        most: usize,
        initial: &[u8],
    ) -> Result<StateBytes, Error> {
        let shape = Shape {
            type_name: String::new(),
            type_align: 1,
            capacity: most as u64,
            is_fixed: false,
        };
        StateBytes::make(domain, name, &shape, initial)
    }

    /// Opens the state of that name, or makes one whose values all have `size` bytes, with this
    /// value in it, filled up with zeroes.
    ///
    /// It is the same as a [`State`](super::State) of a type of that size: for languages that have
    /// other types.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-fixed-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::state::{State, StateBytes};
    ///
    /// let bytes = StateBytes::create_fixed(&domain, "level", 8, &10u64.to_ne_bytes())?;
    /// let level = State::<u64>::open(&domain, "level", 0)?;
    /// assert_eq!(level.get()?, 10);
    /// assert!(bytes.writer()?.set(b"short").is_err());
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`StateBytes::create`]; [`Error::OtherType`] also for a state whose values
    /// have another size, or several.
    ///
    /// # If a process dies
    /// If this process dies while it makes the state, nothing is left of it.
    pub fn create_fixed(
        domain: &Domain,
        name: &str,
        size: usize,
        initial: &[u8],
    ) -> Result<StateBytes, Error> {
        let shape = Shape {
            type_name: format!("[u8; {size}]"),
            type_align: 1,
            capacity: size as u64,
            is_fixed: true,
        };
        let state = StateBytes::make(domain, name, &shape, initial)?;
        // Its header has this size and no more: the rest of it is not trusted.
        if state.capacity() != size || !state.is_fixed_size() {
            return Err(state.inner.buffers.segment.damaged("a state's size"));
        }
        Ok(state)
    }

    pub(super) fn make(
        domain: &Domain,
        name: &str,
        shape: &Shape,
        initial: &[u8],
    ) -> Result<StateBytes, Error> {
        let capacity = shape.capacity;
        if capacity > MOST_BYTES || initial.len() as u64 > capacity {
            let wanted = capacity.max(initial.len() as u64);
            return Err(Error::NoSpace { path: domain.folder().file_path(name), wanted });
        }
        let count = Buffers::at_first(capacity);
        let bytes = |count: u32| BUFFERS_AT + u64::from(count) * buffer_bytes(capacity);
        let spec = Spec {
            kind: Kind::State,
            type_name: shape.type_name.clone(),
            type_size: if shape.is_fixed { capacity } else { 0 },
            type_align: shape.type_align,
            reserve: bytes(MOST_BUFFERS),
            max_bytes: bytes(MOST_BUFFERS),
            initial: bytes(count),
        };
        let segment = domain.create_or_open(name, &spec, |segment| {
            let head: &StateHead = segment.at(HEAD_AT)?;
            head.capacity.store(capacity, Ordering::Relaxed);
            head.options.store(u32::from(shape.is_fixed) * FIXED_SIZE, Ordering::Relaxed);
            head.count.store(count, Ordering::Relaxed);
            head.latest.store(Latest::new(1, 0).0, Ordering::Relaxed);
            // No other process sees it yet; the link that names it orders all of this before any
            // opener.
            let len: &crate::shim::AtomicU64 = segment.at(BUFFERS_AT + 8)?;
            len.store(
                if shape.is_fixed { capacity } else { initial.len() as u64 },
                Ordering::Relaxed,
            );
            segment.at::<crate::shim::AtomicU64>(BUFFERS_AT)?.store(1, Ordering::Relaxed);
            segment.exists(BUFFERS_AT + buffer_bytes(capacity))?;
            // SAFETY: the first buffer exists, and holds as many bytes; no other process can reach
            // it.
            unsafe {
                let to = segment.address(BUFFERS_AT + super::layout::BUFFER_HEAD);
                core::ptr::copy_nonoverlapping(initial.as_ptr(), to, initial.len());
            }
            Ok(())
        })?;
        StateBytes::finish(segment, domain.registry())
    }

    /// Opens the existing state of that name, whatever its values' type.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OtherKind`], [`Error::Damaged`], and errors of the system.
    pub fn open(domain: &Domain, name: &str) -> Result<StateBytes, Error> {
        StateBytes::finish(domain.open_segment(name)?, domain.registry())
    }

    pub(crate) fn finish(
        segment: Segment,
        registry: &'static Registry,
    ) -> Result<StateBytes, Error> {
        segment.expect(Kind::State)?;
        let buffers = Buffers::new(segment)?;
        Ok(StateBytes { inner: Arc::new(Inner { buffers, registry, spin_wait: SpinWait::new() }) })
    }

    /// Returns the latest value. Never waits.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NoAddressSpace`].
    pub fn get(&self) -> Result<Vec<u8>, Error> {
        let mut value = Vec::new();
        self.get_into(&mut value)?;
        Ok(value)
    }

    /// Copies the latest value into a buffer, whose contents it replaces; returns the value's
    /// version.
    ///
    /// # Errors
    /// The errors of [`StateBytes::get`]; then there is no value in the buffer.
    pub fn get_into(&self, value: &mut Vec<u8>) -> Result<u64, Error> {
        value.clear();
        value.reserve(self.capacity());
        // SAFETY: `reserve` made room for `capacity` bytes.
        let (version, len) = unsafe { self.get_to(value.as_mut_ptr())? };
        // SAFETY: `get_to` has written `len` bytes.
        unsafe { value.set_len(len) };
        Ok(version)
    }

    /// Copies the latest value to `to`, which may be uninitialised; returns its version and its
    /// length.
    ///
    /// # Errors
    /// The errors of [`StateBytes::get`]; then `to` may hold parts of several values.
    ///
    /// # Safety
    /// The caller guarantees that [`StateBytes::capacity`] bytes can be written at `to`.
    #[inline]
    pub unsafe fn get_to(&self, to: *mut u8) -> Result<(u64, usize), Error> {
        let most = self.inner.buffers.capacity();
        let len_of = |buffer: Buffer<'_>| {
            let len = buffer.len.load(Ordering::Relaxed) as usize;
            (len <= most).then_some(len)
        };
        // SAFETY: the caller guarantees room for `capacity` bytes, a whole buffer, and `len_of`
        // returns no more.
        unsafe { self.inner.read(to, len_of) }
    }

    /// Reads as a reader that has been overtaken does: for tests.
    #[doc(hidden)]
    pub fn get_as_if_overtaken(&self) -> Result<(Vec<u8>, u64), Error> {
        self.get_as_if_stopped(|| {})
    }

    /// Reads as `get_as_if_overtaken` does, with a stop between the pin and the copy.
    #[doc(hidden)]
    pub fn get_as_if_stopped(&self, stop: impl Fn()) -> Result<(Vec<u8>, u64), Error> {
        let most = self.inner.buffers.capacity();
        let mut value = Vec::with_capacity(most);
        let len_of = |buffer: Buffer<'_>| {
            stop();
            Some((buffer.len.load(Ordering::Relaxed) as usize).min(most))
        };
        // SAFETY: `value` has room for `capacity` bytes, a whole buffer, and `len_of` returns no
        // more.
        let (version, len) = unsafe { self.inner.read_overtaken(value.as_mut_ptr(), len_of)? };
        // SAFETY: `read_overtaken` has written `len` bytes.
        unsafe { value.set_len(len) };
        Ok((value, version))
    }

    /// Returns the latest value's version: the first value has version 1, and each set adds 1.
    #[inline]
    pub fn version(&self) -> u64 {
        self.inner.version()
    }

    /// Returns the most bytes of a value.
    pub fn capacity(&self) -> usize {
        self.inner.buffers.capacity()
    }

    /// Returns whether all values have that size: the state was made for values of one type.
    pub fn is_fixed_size(&self) -> bool {
        self.inner.buffers.is_fixed()
    }

    /// Makes this process the state's writer, if there is none or it is dead.
    ///
    /// # Errors
    /// [`Error::WriterTaken`] while another writer lives, [`Error::WriterEnding`] while a thread of
    /// the dead one has not ended, [`Error::NoToken`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// If this process dies while it takes over, the next process to call this function takes over.
    pub fn writer(&self) -> Result<BytesWriter, Error> {
        let taken = RawWriter::new(Arc::clone(&self.inner));
        let path = || self.inner.buffers.segment.path().to_path_buf();
        let raw = taken.map_err(|refused| match refused {
            NoRole::Taken { pid } => Error::WriterTaken { path: path(), pid },
            NoRole::Ending { pid } => Error::WriterEnding { path: path(), pid },
            NoRole::Damaged => self.inner.buffers.segment.damaged("the writer's word"),
            NoRole::System(error) => error,
        })?;
        Ok(BytesWriter { raw })
    }

    /// Makes this process the writer, waiting until the deadline for a living writer to leave or to
    /// end.
    ///
    /// # Errors
    /// The errors of [`StateBytes::writer`]; [`Error::WriterTaken`] when the deadline passed
    /// first.
    ///
    /// # If a process dies
    /// If the writer dies, the wait is over at once.
    pub fn writer_until(&self, deadline: impl Into<Deadline>) -> Result<BytesWriter, Error> {
        let deadline = deadline.into();
        loop {
            match self.writer() {
                Err(Error::WriterTaken { path, pid }) => {
                    if !self.inner.wait_unwritten(deadline)? {
                        return Err(Error::WriterTaken { path, pid });
                    }
                }
                other => return other,
            }
        }
    }

    /// Waits until the value has another version than this one, or its writer is dead.
    ///
    /// While no writer lives, and none died, it waits for a writer to come and set a value.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// If the writer dies, this returns [`Change::WriterDied`] at once, after its last value; and
    /// again at each call with that version, until another writer takes its place
    /// ([`StateBytes::watch`] reports it once).
    pub fn wait_changed(&self, version: u64) -> Result<Change, WaitError> {
        self.wait_changed_until(version, Deadline::NEVER)
    }

    /// Waits for a change as [`StateBytes::wait_changed`] does, until the deadline.
    ///
    /// # Errors
    /// The errors of [`StateBytes::wait_changed`], and [`WaitError::TimedOut`].
    pub fn wait_changed_until(
        &self,
        version: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<Change, WaitError> {
        let change = self
            .inner
            .wait_changed(&Told::of(version), deadline.into())
            .map_err(WaitError::System)?;
        change.ok_or(WaitError::TimedOut)
    }

    /// Follows the value from here on; the first report is the present value.
    pub fn watch(&self) -> BytesWatch {
        BytesWatch { inner: Arc::clone(&self.inner), told: Arc::new(Told::of(0)) }
    }

    /// Returns the writer, dead or alive.
    pub fn writer_now(&self) -> Option<Holder> {
        self.inner.role().holder().map(|token| Holder::of(self.inner.registry, token))
    }

    /// Sets how waits through this handle and its clones wait.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.inner.spin_wait.set(wait);
    }

    /// Returns whether the state's name has been removed: processes that have it open go on, no
    /// other process finds it.
    pub fn is_removed(&self) -> bool {
        self.inner.buffers.segment.header().is_removed()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

/// Sets the values of a [`StateBytes`]. A state has one writer at a time; it may move between
/// threads.
///
/// # If a process dies
/// If the writer's process dies, at any instruction, the value is the previous or the new one,
/// whole; waiters are told, and the next process to call [`StateBytes::writer`] goes on.
pub struct BytesWriter {
    raw: RawWriter,
}

impl BytesWriter {
    /// Sets the value and returns its version.
    ///
    /// It makes no system call unless a reader sleeps, and does not wait: the value is set when
    /// this returns.
    ///
    /// # Errors
    /// [`SetError::TooLarge`], [`SetError::OtherLength`], [`SetError::NotWriter`],
    /// [`SetError::Damaged`], [`SetError::System`]; then the previous value stays the latest.
    #[inline]
    pub fn set(&mut self, value: &[u8]) -> Result<u64, SetError> {
        self.raw.set(value)
    }
}

/// Follows the values of a [`StateBytes`]: reports each change that it sees, and each death of a
/// writer once. It does not report values that were set and replaced between two looks.
pub struct BytesWatch {
    pub(super) inner: Arc<Inner>,
    pub(super) told: Arc<Told>,
}

impl BytesWatch {
    /// Returns the next change, if there is one. Never waits.
    ///
    /// # If a process dies
    /// The same as with [`BytesWatch::changed`].
    pub fn try_changed(&mut self) -> Option<Change> {
        self.inner.try_changed(&self.told)
    }

    /// Waits for the next change.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// If the writer dies, its last value is reported first, then [`Change::WriterDied`], once;
    /// then this waits for another writer.
    pub fn changed(&mut self) -> Result<Change, WaitError> {
        self.changed_until(Deadline::NEVER)
    }

    /// Waits for the next change, until the deadline.
    ///
    /// # Errors
    /// The errors of [`BytesWatch::changed`], and [`WaitError::TimedOut`].
    pub fn changed_until(&mut self, deadline: impl Into<Deadline>) -> Result<Change, WaitError> {
        let change =
            self.inner.wait_changed(&self.told, deadline.into()).map_err(WaitError::System)?;
        change.ok_or(WaitError::TimedOut)
    }
}
