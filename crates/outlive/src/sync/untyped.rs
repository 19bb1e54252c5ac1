//! Primitives for other languages: at a place in a file, without a Rust type around them.
//!
//! A C program overlays its own struct on a record's bytes, and says where in it the primitives
//! lie. What Rust's type system promises of a [`Record`](super::Record), this module checks against
//! the file: each place must be in the table in the file's header, of the same kind, aligned, and
//! inside the file.

use std::ptr::NonNull;
use std::sync::Arc;

use super::ceiling_mutex::{RawCeiling, check_ceiling};
use super::embedded::{
    Embed, MOST_PLACES, Place, has_places, note_numbers, note_places, numbered_places, other_places,
};
use super::primitive::{Handle, KindOf, Primitive, Site, Sited};
use super::{Barrier, CeilingMutex, Semaphore, WhenOneDies, barrier, semaphore};
use crate::domain::agree;
use crate::liveness::Registry;
use crate::segment::{BODY, Opening, Segment, Spec};
use crate::{Domain, Error, Kind};

/// Describes a value's type in words that every language has.
#[derive(Clone, Copy, Debug)]
pub struct ValueType<'a> {
    /// Its name, as the file's header holds it; `None` stands for so many bytes in Rust, `[u8; N]`,
    /// which under a lock matches every type of that size. An existing file's name is not compared,
    /// because languages name their types differently.
    pub name: Option<&'a str>,
    /// Bytes.
    pub size: usize,
    /// Its alignment, a power of two up to 4,096; for a value under a lock, up to 64.
    pub align: usize,
}

/// Opens a file with primitives for bindings to other languages: a record, a named primitive, or a
/// lock with its value.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-untyped-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::{Kind, Opening, sync::{EmbeddedMutex, Place, Untyped, ValueType}};
///
/// // struct { lock; count } of another language: 8 bytes each.
/// let layout = ValueType { name: Some("counter"), size: 16, align: 8 };
/// let places = [Place { offset: 0, kind: Kind::Mutex, number: 0 }];
/// let how = Opening::OpenOrCreate;
/// let counter = Untyped::record(&domain, "counter", how, layout, &places, |_| ())?;
/// let lock = counter.handle::<EmbeddedMutex<()>>(0).unwrap();
/// let guard = lock.lock().unwrap();
/// // SAFETY: `count` lies at byte 8 of the record's 16, and this thread holds the lock that guards it.
/// unsafe { *counter.as_ptr().add(8).cast::<u64>() += 1 };
/// # drop(guard);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// As for the primitives inside.
pub struct Untyped {
    segment: Arc<Segment>,
    registry: &'static Registry,
    kind: Kind,
    len: usize,
    value_at: usize,
    places: Vec<Place>,
}

/// Returns where the value of a named lock begins: in the next cache line behind the words, or
/// where its alignment asks for more than a line.
fn value_at(kind: Kind, align: usize) -> usize {
    shape(kind, 1).map_or(0, |(size, _)| size.next_multiple_of(align.max(64)))
}

/// Returns the bytes and alignment of a primitive's words in a record; `None` for a kind that
/// cannot lie there.
fn shape(kind: Kind, number: u32) -> Option<(usize, usize)> {
    KindOf::kind(kind).and_then(|known| (known.shape)(number))
}

impl Untyped {
    /// Opens the record of that name or makes it, as `opening` says: zeroed, then filled in by
    /// `init`, before any other process can see it.
    ///
    /// # Errors
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else,
    /// also for a record of another size or with primitives at other places; [`Error::NotFound`]
    /// and [`Error::AlreadyExists`], as `opening` says; [`Error::InvalidName`], also for impossible
    /// places; [`Error::NoSpace`], and errors of the system.
    ///
    /// # If a process dies
    /// While it makes the record: no trace of the record remains.
    pub fn record(
        domain: &Domain,
        name: &str,
        opening: Opening,
        value: ValueType<'_>,
        wanted: &[Place],
        init: impl Fn(*mut u8),
    ) -> Result<Untyped, Error> {
        let wrong = |why| Error::InvalidName { name: name.to_owned(), why };
        if wanted.len() > MOST_PLACES {
            return Err(wrong("its type has more than 46 locks"));
        }
        let mut sorted = wanted.to_vec();
        sorted.sort_unstable_by_key(|place| place.offset);
        let mut end = 0;
        for place in &sorted {
            let shape = shape(place.kind, place.number);
            let (size, align) = shape
                .ok_or_else(|| wrong("a primitive of that kind, or so large, lies in no record"))?;
            if place.offset < end || !place.offset.is_multiple_of(align) || value.align < align {
                return Err(wrong("its locks lie in one another, or are not aligned"));
            }
            end = place.offset.saturating_add(size);
        }
        if end > value.size {
            return Err(wrong("a lock of it lies outside"));
        }
        let made = Untyped::open(domain, name, opening, Kind::Record, value, 0, |segment, at| {
            note_places(segment.header(), wanted);
            init(at);
            note_numbers(segment, wanted)
        })?;
        if !has_places(&made.segment, wanted)? {
            return Err(other_places(&made.segment, value.size));
        }
        Ok(Untyped { places: wanted.to_vec(), ..made })
    }

    /// Opens the [`Mutex`](super::Mutex), [`ReentrantMutex`](super::ReentrantMutex),
    /// [`RwLock`](super::RwLock) or [`PiMutex`](super::PiMutex) of that name or makes it, as
    /// `opening` says, with a value of that size behind it. `init`
    /// fills the value in before any other process can see it.
    ///
    /// # Errors
    /// As [`Untyped::record`].
    ///
    /// # If a process dies
    /// While it makes the lock: no trace of the lock remains.
    pub fn lock(
        domain: &Domain,
        name: &str,
        opening: Opening,
        kind: Kind,
        value: ValueType<'_>,
        init: impl Fn(*mut u8),
    ) -> Result<Untyped, Error> {
        if !matches!(kind, Kind::Mutex | Kind::ReentrantMutex | Kind::RwLock | Kind::PiMutex) {
            let why = "mutexes, reentrant mutexes, rwlocks and pi mutexes are opened so";
            return Err(Error::InvalidName { name: name.to_owned(), why });
        }
        Untyped::open_lock(domain, name, opening, kind, value, |_, at| {
            init(at);
            Ok(())
        })
    }

    fn open_lock(
        domain: &Domain,
        name: &str,
        opening: Opening,
        kind: Kind,
        value: ValueType<'_>,
        init: impl Fn(&Segment, *mut u8) -> Result<(), Error>,
    ) -> Result<Untyped, Error> {
        if value.align > 64 {
            let why = "values behind locks are aligned to 64 bytes at most";
            return Err(Error::InvalidName { name: name.to_owned(), why });
        }
        Untyped::open(domain, name, opening, kind, value, value_at(kind, value.align), init)
    }

    /// Opens the [`CeilingMutex`] of that name and ceiling or makes it, as [`Untyped::lock`] does
    /// for other locks. A ceiling of 0 takes what an existing one has; a maker must say it.
    ///
    /// # Errors
    /// As [`Untyped::record`], and those of [`CeilingMutex::open`].
    ///
    /// # If a process dies
    /// While it makes the lock: no trace of the lock remains.
    pub fn ceiling_lock(
        domain: &Domain,
        name: &str,
        opening: Opening,
        ceiling: u32,
        value: ValueType<'_>,
        init: impl Fn(*mut u8),
    ) -> Result<Untyped, Error> {
        let wanted = (ceiling != 0 || opening != Opening::Open).then_some(ceiling);
        wanted.map_or(Ok(()), check_ceiling)?;
        let kind = Kind::CeilingMutex;
        let made = Untyped::open_lock(domain, name, opening, kind, value, |segment, at| {
            init(at);
            segment.at::<RawCeiling>(BODY)?.note(ceiling);
            Ok(())
        })?;
        let found = made.segment.at::<RawCeiling>(BODY)?.noted();
        agree(&made.segment, "ceiling", found, wanted)?;
        Ok(made)
    }

    /// Returns the file of a handle that is open: a named primitive's, or the record in which an
    /// embedded one lies. It is the handle's own mapping; the name is not looked up again.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-untyped-of-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{Semaphore, Untyped};
    ///
    /// let encoders = Semaphore::options(2).create_new(&domain, "encoders")?;
    /// domain.remove("encoders")?;
    /// let words = Untyped::of(&encoders)?;
    /// assert_eq!(words.semaphore(0).unwrap().available_permits(), 2);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Damaged`], and errors of the system.
    pub fn of(handle: &impl Sited) -> Result<Untyped, Error> {
        let Site { registry, segment, .. } = handle.site();
        Untyped::in_file(registry, Arc::clone(segment))
    }

    /// Returns a file that is open, with what its header says lies in it.
    fn in_file(registry: &'static Registry, segment: Arc<Segment>) -> Result<Untyped, Error> {
        let header = segment.header();
        let kind = header.check(segment.path())?;
        let Some(align) = usize::try_from(header.type_align())
            .ok()
            .filter(|&align| align == 0 || align.is_power_of_two() && align <= 4096)
        else {
            return Err(segment.damaged("the alignment of its type"));
        };
        let value_at = if kind == Kind::Record { 0 } else { value_at(kind, align) };
        // Without a value behind it, a primitive may end before the next cache line.
        let len = match (header.type_size(), kind) {
            (0, Kind::Record) => Some(0),
            // One that holds its own size is checked when a handle is made.
            (0, kind) => shape(kind, 1).map(|(size, _)| size),
            (size, _) => usize::try_from(size).ok().and_then(|size| value_at.checked_add(size)),
        };
        let len = len.ok_or_else(|| segment.damaged("a kind or a size that no primitive has"))?;
        segment.exists(BODY + len as u64)?;
        let places = match kind {
            Kind::Record => numbered_places(&segment)?,
            kind => vec![Place { offset: 0, kind, number: 0 }],
        };
        Ok(Untyped { segment, registry, kind, len, value_at, places })
    }

    /// Opens the file. `before`: bytes before the value.
    fn open(
        domain: &Domain,
        name: &str,
        opening: Opening,
        kind: Kind,
        value: ValueType<'_>,
        before: usize,
        init: impl Fn(&Segment, *mut u8) -> Result<(), Error>,
    ) -> Result<Untyped, Error> {
        if !value.align.is_power_of_two() || value.align > 4096 || value.size > 1 << 30 {
            let why = "a value has at most 1 GiB, aligned to 4,096 at most";
            return Err(Error::InvalidName { name: name.to_owned(), why });
        }
        let bytes = BODY + before as u64 + (value.size as u64).max(1);
        let spec = Spec {
            kind,
            type_name: value.name.map_or_else(|| format!("[u8; {}]", value.size), str::to_owned),
            type_size: value.size as u64,
            type_align: value.align as u64,
            reserve: bytes,
            max_bytes: bytes,
            initial: bytes,
            description: None,
        };
        let segment = loop {
            if opening != Opening::CreateNew {
                match domain.open_segment(name) {
                    Err(Error::NotFound { .. }) if opening == Opening::OpenOrCreate => {}
                    found => break found?,
                }
            }
            let made = domain.open_as(name, Opening::CreateNew, &spec, |segment| {
                // SAFETY: the file has so many bytes and no name yet, so no other process reaches
                // it.
                init(segment, unsafe { segment.address(BODY + before as u64) })
            });
            match made {
                // Another process was quicker: the next turn finds its file.
                Err(Error::AlreadyExists { .. }) if opening == Opening::OpenOrCreate => {}
                made => break made?,
            }
        };
        segment.expect(kind)?;
        super::order::opened(domain);
        let found = segment.header().type_size();
        if found != value.size as u64 {
            return Err(Error::OtherType {
                path: segment.path().to_path_buf(),
                found: format!("{} ({found} bytes)", segment.header().type_name()),
                wanted: format!("{} bytes", value.size),
            });
        }
        Untyped::in_file(domain.registry(), Arc::new(segment))
    }

    /// Returns what the file is: a record, or a primitive.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns where the words begin, page-aligned; they stay mapped as long as this or a handle
    /// exists.
    pub fn as_ptr(&self) -> *mut u8 {
        // SAFETY: `in_file` has checked that the file reaches beyond `BODY`.
        unsafe { self.segment.address(BODY) }
    }

    /// Returns how many bytes lie there: primitive and value.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns where a named lock's value begins, counted from the words; for a record, 0.
    pub fn value_offset(&self) -> usize {
        self.value_at
    }

    /// Returns the kind of the primitive that begins there.
    pub fn kind_at(&self, offset: usize) -> Option<Kind> {
        self.places.iter().find(|place| place.offset == offset).map(|place| place.kind)
    }

    /// Returns a handle for the primitive that begins there; `None` if none of that kind does. The
    /// handle keeps the file mapped.
    pub fn handle<F: Embed>(&self, offset: usize) -> Option<F::Handle> {
        let kind =
            (F::PRIMITIVES == 1).then(|| F::primitive(0)).filter(|place| place.offset == 0)?.kind;
        let end = offset.checked_add(size_of::<F>()).filter(|&end| end <= self.len);
        if self.kind_at(offset) != Some(kind)
            || end.is_none()
            || !offset.is_multiple_of(align_of::<F>())
        {
            return None;
        }
        // SAFETY: `places` holds only places inside the file (`in_file` checked it), the
        // body is page-aligned, and a SharedField has no invalid bytes and changes only by atomics
        // or under its locks.
        let shared =
            unsafe { NonNull::new_unchecked(self.as_ptr().add(offset)).cast::<F>().as_ref() };
        Some(F::handle(Handle::inside(shared, self.registry, &self.segment)))
    }

    /// Returns a handle for a semaphore of any size, as the file's own words or the record's places
    /// say.
    pub fn semaphore(&self, offset: usize) -> Option<Semaphore> {
        let number = self.number_at(offset, Kind::Semaphore)?;
        Semaphore::inside(&self.segment, self.registry, BODY + offset as u64, number).ok()
    }

    /// Returns a handle for a barrier of any size.
    pub fn barrier(&self, offset: usize) -> Option<Barrier> {
        let number = self.number_at(offset, Kind::Barrier)?;
        Barrier::inside(&self.segment, self.registry, BODY + offset as u64, number).ok()
    }

    /// Returns a handle for a mutex with a ceiling; the caller knows what it guards.
    pub fn ceiling_mutex(&self, offset: usize) -> Option<CeilingMutex<()>> {
        let number = self.number_at(offset, Kind::CeilingMutex)?;
        let words = self.segment.at::<RawCeiling>(BODY + offset as u64).ok()?;
        CeilingMutex::inside(Handle::inside(words, self.registry, &self.segment), number).ok()
    }

    /// Returns a record's number if a primitive of that kind begins there.
    fn number_at(&self, offset: usize, kind: Kind) -> Option<Option<u32>> {
        let place =
            self.places.iter().find(|place| (place.offset, place.kind) == (offset, kind))?;
        Some((self.kind == Kind::Record).then_some(place.number))
    }

    /// Sets, in a record's initialiser, how many of the semaphore's permits are free at first;
    /// without this all are.
    ///
    /// # Safety
    /// At `at` lies the place of a semaphore with that much room, and no other process sees it yet.
    pub unsafe fn set_permits(at: *mut u8, room: u32, permits: u32) {
        // SAFETY: the caller promises a semaphore's words with that room at `at`, unseen by others.
        unsafe { semaphore::prepare_at(at, room, permits) }
    }

    /// Sets, in a record's initialiser, what a participant's death does to the barrier; without
    /// this it breaks the barrier.
    ///
    /// # Safety
    /// At `at` lies the place of a barrier, and no other process sees it yet.
    pub unsafe fn set_policy(at: *mut u8, when_one_dies: WhenOneDies) {
        // SAFETY: the caller promises a barrier's words at `at`, unseen by others.
        unsafe { barrier::prepare_at(at, when_one_dies) }
    }
}

#[cfg(test)]
#[path = "untyped_tests.rs"]
mod tests;
