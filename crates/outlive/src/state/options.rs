//! Making and opening a state.

use core::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::buffers::Buffers;
use super::inner::Inner;
use super::layout::{
    BUFFER_HEAD, BUFFERS_AT, FIXED_SIZE, HEAD_AT, Latest, MOST_BUFFERS, MOST_BYTES, StateHead,
    buffer_bytes,
};
use super::state::State;
use crate::describe::{Described, Description, Encoding};
use crate::domain::{agree, three_openings};
use crate::liveness::Registry;
use crate::payload::AnyLength;
use crate::segment::{Opening, Segment, Spec, note_opened};
use crate::shim::{AtomicU64, Ordering};
use crate::{Domain, Error, Kind, Payload, WaitStrategy};

/// The largest value of a new state that was not told any.
const USUAL_CAPACITY: usize = 4096;

/// Options for opening a state, or for making one: what a value may be, and the first value.
///
/// An option that is not set takes what is there. The first value and
/// [`wait_strategy`](Self::wait_strategy) are never compared with what is there.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-state-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::Error;
/// use outlive::state::State;
///
/// let mode = State::<[u8]>::options().capacity(64).initial(b"idle").create_new(&domain, "mode")?;
/// assert_eq!(mode.get()?, b"idle");
/// let again = State::<[u8]>::open(&domain, "mode")?;
/// assert_eq!(again.config().capacity, 64);
/// let larger = State::<[u8]>::options().capacity(65).open(&domain, "mode");
/// assert!(matches!(larger, Err(Error::OtherOptions { what: "capacity", .. })));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "options do nothing until they open or make a state"]
pub struct StateOptions<M: Payload + ?Sized = [u8]> {
    asked: Asked,
    _value: PhantomData<fn(&M)>,
}

/// What was set.
#[derive(Clone, Debug, Default)]
struct Asked {
    capacity: Option<usize>,
    fixed_size: Option<usize>,
    initial: Option<Vec<u8>>,
    wait: Option<WaitStrategy>,
    description: Option<Description>,
}

/// What a state was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateConfig {
    /// The most bytes of a value.
    pub capacity: usize,
    /// Whether all values have as many bytes: the state was made for values of one type, or with
    /// [`StateOptions::fixed_size`].
    pub is_fixed_size: bool,
}

impl<M: Payload + ?Sized> Clone for StateOptions<M> {
    fn clone(&self) -> StateOptions<M> {
        StateOptions { asked: self.asked.clone(), _value: PhantomData }
    }
}

impl<M: Payload + ?Sized> fmt::Debug for StateOptions<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateOptions").field(&self.asked).finish()
    }
}

impl<M: Payload + ?Sized> StateOptions<M> {
    /// Sets the value of a state that is made. Default: zeroes, or no bytes where values may have
    /// any length. An existing state keeps its value.
    pub fn initial(mut self, value: &M) -> StateOptions<M> {
        self.asked.initial = Some(value.bytes().to_vec());
        self
    }

    /// Sets how waits through this handle and its clones wait.
    pub fn wait_strategy(mut self, wait: WaitStrategy) -> StateOptions<M> {
        self.asked.wait = Some(wait);
        self
    }

    three_openings!(
        State<M>,
        "state",
        "[`Error::OtherType`](crate::Error::OtherType) when its values have another type; \
         [`Error::NoSpace`](crate::Error::NoSpace) also for a first value or a capacity that is \
         too large."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<State<M>, Error> {
        const { assert!(!M::METADATA.is_fixed() || M::METADATA.size <= MOST_BYTES) };
        let asked = self.asked;
        if let (Some(size), Some(capacity)) = (asked.fixed_size, asked.capacity)
            && size != capacity
        {
            return Err(Error::InvalidOption {
                what: "a state's capacity",
                wanted: capacity.to_string().into(),
                why: "the size of all its values, which was set, too",
            });
        }
        let shape = Shape::of::<M>(&asked);
        let initial = asked.initial.unwrap_or_else(|| vec![0; shape.base as usize]);
        let segment = shape.open(domain, name, opening, &initial)?;
        let state = State::finish(segment, domain.registry())?;
        let config = state.config();
        let segment = &state.inner.buffers.segment;
        // Values without bytes and values of any length have the same header.
        let fixed = if shape.is_fixed { shape.capacity } else { config.capacity as u64 };
        if shape.is_fixed != config.is_fixed_size && fixed == 0 {
            let of =
                |is_fixed| if is_fixed { "values without bytes" } else { "values of any length" };
            return Err(Error::OtherType {
                path: segment.path().into(),
                found: of(config.is_fixed_size).to_owned(),
                wanted: of(shape.is_fixed).to_owned(),
            });
        }
        if shape.is_fixed && config.capacity as u64 != shape.capacity
            || shape.is_fixed != config.is_fixed_size
        {
            // Its header has this type and size and no more: the rest of it is not trusted.
            return Err(segment.damaged("a state's size"));
        }
        let capacity = asked.capacity.filter(|_| !shape.is_fixed);
        state.agreeing(capacity, asked.wait)
    }
}

impl<M: AnyLength + ?Sized> StateOptions<M> {
    /// Sets the most bytes of a value, with its tail if it has one, 128 MiB at most. Default for a new state: 4 KiB, or the
    /// length of the first value if that is more.
    ///
    /// A state takes four times that size, and as much again for each two readers that are stopped
    /// in the middle of a [`get`](State::get).
    pub fn capacity(mut self, bytes: usize) -> StateOptions<M> {
        self.asked.capacity = Some(bytes);
        self
    }
}

impl<M: Described + ?Sized> StateOptions<M> {
    /// Keeps the description of the values' type in a new state, and wants an existing state to
    /// have the same one: as [`TopicOptions::described`](crate::topic::TopicOptions::described).
    pub fn described(mut self) -> StateOptions<M> {
        self.asked.description = Some(M::description());
        self
    }
}

impl StateOptions<[u8]> {
    /// Sets the description of the values' type, of which they are the bytes: for types that are
    /// known at run time alone. Values of a type that is no slice have all its size.
    pub fn description(mut self, description: Description) -> StateOptions<[u8]> {
        self.asked.description = Some(description);
        self
    }

    /// Opens the existing state of that name as [`State::open_as_bytes`] does, with these options.
    ///
    /// # Errors
    /// As [`StateOptions::open`], without [`Error::OtherType`].
    pub fn open_as_bytes(self, domain: &Domain, name: &str) -> Result<State<[u8]>, Error> {
        let segment = domain.open_segment(name)?;
        if let Some(wanted) = &self.asked.description {
            segment.expect(Kind::State)?;
            segment.check_description(wanted)?;
        }
        let state = State::finish(segment, domain.registry())?;
        state.agreeing(self.asked.capacity, self.asked.wait)
    }

    /// Sets that all values have so many bytes; the first one is filled up with zeroes.
    ///
    /// It is the same as a state of a type of that size: for languages that have other types. An
    /// existing state whose values have another size, or several, is refused with
    /// [`Error::OtherType`].
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-fixed-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::state::State;
    ///
    /// let bytes = State::<[u8]>::options()
    ///     .fixed_size(8)
    ///     .initial(&10u64.to_ne_bytes())
    ///     .open_or_create(&domain, "level")?;
    /// let level = State::<u64>::open(&domain, "level")?;
    /// assert_eq!(level.get()?, 10);
    /// assert!(bytes.writer()?.set(b"short").is_err());
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fixed_size(mut self, bytes: usize) -> StateOptions<[u8]> {
        self.asked.fixed_size = Some(bytes);
        self
    }
}

/// What a new state's file is made with.
struct Shape {
    description: Option<Description>,
    type_name: String,
    type_align: u64,
    capacity: u64,
    is_fixed: bool,
    /// Of how many bytes a length behind `base` is a multiple, where values may have several.
    unit: u32,
    /// The fewest bytes of a value, where values may have several.
    base: u32,
}

impl Shape {
    fn of<M: Payload + ?Sized>(asked: &Asked) -> Shape {
        let metadata = M::METADATA;
        let (type_name, type_align) = (metadata.type_name(), metadata.align as u64);
        let description = asked.description.clone();
        let usual = |base: u64| {
            let given = asked.initial.as_ref().map_or(0, Vec::len);
            asked.capacity.unwrap_or(given.max(USUAL_CAPACITY).max(base as usize)) as u64
        };
        let raw = description.as_ref().filter(|one| one.encoding() == Encoding::Raw);
        if let Some(one) = raw.filter(|_| metadata.is_bytes()) {
            // The description's maker has checked that these are 1 GiB at most.
            let (size, item) =
                (one.size() as u32, one.tail().map_or(0, |tail| tail.bytes() as u32));
            let base = if item > 0 { size } else { 0 };
            return Shape {
                type_name: one.header_name(),
                type_align: one.align(),
                capacity: if one.is_fixed() { one.size() } else { usual(base.into()) },
                is_fixed: one.is_fixed(),
                unit: if one.is_slice() { size } else { item },
                base,
                description,
            };
        }
        match asked.fixed_size {
            Some(size) => Shape {
                description,
                type_name: format!("[u8; {size}]"),
                type_align: 1,
                capacity: size as u64,
                is_fixed: true,
                unit: 0,
                base: 0,
            },
            None => {
                // No state is as large as a value whose size does not fit here.
                let size = u32::try_from(metadata.size).unwrap_or(u32::MAX);
                let (is_fixed, tail) = (metadata.is_fixed(), metadata.tail);
                let base = if tail > 0 { size } else { 0 };
                Shape {
                    description,
                    type_name,
                    type_align,
                    capacity: if is_fixed { metadata.size } else { usual(base.into()) },
                    is_fixed,
                    unit: if metadata.is_slice { size } else { tail },
                    base,
                }
            }
        }
    }

    fn open(
        &self,
        domain: &Domain,
        name: &str,
        opening: Opening,
        initial: &[u8],
    ) -> Result<Segment, Error> {
        let &Shape { capacity, is_fixed, .. } = self;
        if capacity > MOST_BYTES || initial.len() as u64 > capacity {
            let wanted = capacity.max(initial.len() as u64);
            return Err(Error::NoSpace { path: domain.folder().file_path(name), wanted });
        }
        let count = Buffers::at_first(capacity);
        let bytes = |count: u32| BUFFERS_AT + u64::from(count) * buffer_bytes(capacity);
        let spec = Spec {
            kind: Kind::State,
            type_name: self.type_name.clone(),
            type_size: if is_fixed { capacity } else { 0 },
            type_align: self.type_align,
            reserve: bytes(MOST_BUFFERS),
            max_bytes: bytes(MOST_BUFFERS),
            initial: bytes(count),
            description: self.description.clone(),
        };
        domain.open_as(name, opening, &spec, |segment| {
            let head: &StateHead = segment.at(HEAD_AT)?;
            head.capacity.store(capacity, Ordering::Relaxed);
            head.options.store(u32::from(is_fixed) * FIXED_SIZE, Ordering::Relaxed);
            head.unit.store(self.unit, Ordering::Relaxed);
            head.base.store(self.base, Ordering::Relaxed);
            head.count.store(count, Ordering::Relaxed);
            head.latest.store(Latest::new(1, 0).0, Ordering::Relaxed);
            // No other process sees it yet; the link that names it orders all of this before any
            // opener.
            let len: &AtomicU64 = segment.at(BUFFERS_AT + 8)?;
            len.store(if is_fixed { capacity } else { initial.len() as u64 }, Ordering::Relaxed);
            segment.at::<AtomicU64>(BUFFERS_AT)?.store(1, Ordering::Relaxed);
            segment.exists(BUFFERS_AT + buffer_bytes(capacity))?;
            // SAFETY: the first buffer exists, and holds as many bytes; no other process can reach
            // it.
            unsafe {
                let to = segment.address(BUFFERS_AT + BUFFER_HEAD);
                core::ptr::copy_nonoverlapping(initial.as_ptr(), to, initial.len());
            }
            Ok(())
        })
    }
}

impl<M: Payload + ?Sized> State<M> {
    /// Returns options for opening a state or making one.
    pub fn options() -> StateOptions<M> {
        StateOptions { asked: Asked::default(), _value: PhantomData }
    }

    /// Opens the existing state of that name.
    ///
    /// # Errors
    /// The errors of [`StateOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<State<M>, Error> {
        State::options().open(domain, name)
    }

    /// Opens the state of that name, or makes it with a value of zeroes, or of no bytes where
    /// values may have any length.
    ///
    /// # Errors
    /// The errors of [`StateOptions::open_or_create`].
    ///
    /// # If a process dies
    /// If this process dies while it makes the state, nothing is left of it.
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<State<M>, Error> {
        State::options().open_or_create(domain, name)
    }

    /// Returns the description of the values' type, if the state's maker gave one. It is read from
    /// the file.
    ///
    /// # Errors
    /// [`Error::Damaged`] when a stray write hit it; errors of the system.
    pub fn description(&self) -> Result<Option<Description>, Error> {
        self.inner.buffers.segment.description()
    }

    /// Returns what the state was made with.
    #[must_use]
    pub fn config(&self) -> StateConfig {
        let Inner { buffers, .. } = &*self.inner;
        StateConfig { capacity: buffers.capacity(), is_fixed_size: buffers.is_fixed() }
    }

    /// Returns the state, unless it was made with another capacity.
    fn agreeing(
        self,
        capacity: Option<usize>,
        wait: Option<WaitStrategy>,
    ) -> Result<State<M>, Error> {
        let Inner { buffers, .. } = &*self.inner;
        agree(&buffers.segment, "capacity", buffers.capacity(), capacity)?;
        if let Some(wait) = wait {
            self.set_wait_strategy(wait);
        }
        Ok(self)
    }

    pub(crate) fn finish(segment: Segment, registry: &'static Registry) -> Result<State<M>, Error> {
        segment.expect(Kind::State)?;
        let buffers = Buffers::new(segment)?;
        let inner = Inner { buffers, registry, spin_wait: registry.spin_wait() };
        let inner = Arc::new(inner);
        note_opened(registry.index, &inner);
        Ok(State { inner, _value: PhantomData })
    }
}

impl State<[u8]> {
    /// Opens the existing state of that name with its values as bytes, whatever their type. For
    /// programs that pass values on or inspect them without knowing the type.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OtherKind`], [`Error::Damaged`], and errors of the system.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-state-bytes-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::state::State;
    /// let level = State::<u64>::options().initial(&10).create_new(&domain, "level")?;
    /// let bytes = State::open_as_bytes(&domain, "level")?;
    /// assert_eq!(bytes.get()?, 10u64.to_ne_bytes());
    /// assert!(bytes.config().is_fixed_size);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_as_bytes(domain: &Domain, name: &str) -> Result<State<[u8]>, Error> {
        State::<[u8]>::options().open_as_bytes(domain, name)
    }
}
