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

    /// Opens the [`Mutex`](super::Mutex), [`RwLock`](super::RwLock) or [`PiMutex`](super::PiMutex)
    /// of that name or makes it, as `opening` says, with a value of that size behind it. `init`
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
        if !matches!(kind, Kind::Mutex | Kind::RwLock | Kind::PiMutex) {
            let why = "mutexes, rwlocks and pi mutexes are opened so";
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
mod tests {
    use super::*;
    use crate::sync::{
        AcquireError, EmbeddedCondvar, EmbeddedLatch, EmbeddedMutex, EmbeddedRwLock,
        EmbeddedSemaphore, Latch, LockError, Mutex, PiMutex, Record, RwLock,
    };

    fn in_a_domain(name: &str, test: impl FnOnce(&Domain)) {
        let folder =
            std::env::temp_dir().join(format!("outlive-untyped-{name}-{}", std::process::id()));
        test(&Domain::open_or_create_at(&folder).expect("a domain"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    const OPENING: Opening = Opening::OpenOrCreate;
    const LAYOUT: ValueType<'static> = ValueType { name: None, size: 48, align: 8 };

    #[test]
    fn a_named_lock_is_the_same_from_both_sides() {
        in_a_domain("named", |domain| {
            let eight = ValueType { name: None, size: 8, align: 8 };
            for kind in [Kind::Mutex, Kind::RwLock, Kind::PiMutex] {
                let name = kind.to_string();
                // SAFETY: the file has no name yet, so no other thread reaches it; eight aligned
                // bytes.
                let init = |at: *mut u8| unsafe { *at.cast::<u64>() = 77 };
                let there = Untyped::lock(
                    domain,
                    &name,
                    OPENING,
                    kind,
                    ValueType { name: Some("u64"), ..eight },
                    init,
                );
                let there = there.expect("made");
                // SAFETY: the value lies inside the file; no thread writes it.
                assert_eq!(unsafe { *there.as_ptr().add(there.value_offset()).cast::<u64>() }, 77);
                let seen = match kind {
                    Kind::Mutex => *Mutex::<u64>::options(0)
                        .open_or_create(domain, &name)
                        .expect("open")
                        .lock()
                        .expect("free"),
                    Kind::PiMutex => *PiMutex::<u64>::options(0)
                        .open_or_create(domain, &name)
                        .expect("open")
                        .lock()
                        .expect("free"),
                    _ => *RwLock::<u64>::options(0)
                        .open_or_create(domain, &name)
                        .expect("open")
                        .read()
                        .expect("free"),
                };
                assert_eq!(seen, 77);
                let other = Untyped::lock(
                    domain,
                    &name,
                    OPENING,
                    kind,
                    ValueType { size: 9, ..eight },
                    |_| (),
                );
                assert!(matches!(other, Err(Error::OtherType { .. })));
                // Made without a name for its type, it opens for every type of that size.
                let nameless = format!("{kind} nameless");
                drop(
                    Untyped::lock(
                        domain,
                        &nameless,
                        OPENING,
                        kind,
                        ValueType { align: 1, ..eight },
                        init,
                    )
                    .expect("made"),
                );
                let opened = |name: &str| match kind {
                    Kind::Mutex => Mutex::<u64>::options(0).open_or_create(domain, name).map(drop),
                    Kind::PiMutex => {
                        PiMutex::<u64>::options(0).open_or_create(domain, name).map(drop)
                    }
                    _ => RwLock::<u64>::options(0).open_or_create(domain, name).map(drop),
                };
                assert_eq!(opened(&nameless), Ok(()));
                let smaller = format!("{kind} smaller");
                drop(
                    Untyped::lock(
                        domain,
                        &smaller,
                        OPENING,
                        kind,
                        ValueType { size: 4, ..eight },
                        |_| (),
                    )
                    .expect("made"),
                );
                assert!(matches!(opened(&smaller), Err(Error::OtherType { .. })));
            }
        });
    }

    #[test]
    fn places_that_cannot_be_are_refused() {
        in_a_domain("places", |domain| {
            let at = |offset, kind| Place { offset, kind, number: 0 };
            let wrong: [&[Place]; 5] = [
                &[at(44, Kind::Mutex)],
                &[at(2, Kind::Mutex)],
                &[at(0, Kind::Mutex), at(4, Kind::Mutex)],
                &[at(0, Kind::RwLock)],
                &[at(0, Kind::Queue)],
            ];
            for places in wrong {
                let made = Untyped::record(domain, "wrong", OPENING, LAYOUT, places, |_| ());
                assert!(matches!(made, Err(Error::InvalidName { .. })), "{places:?}");
            }
            let right = [at(0, Kind::Mutex), at(8, Kind::Condvar)];
            let record =
                Untyped::record(domain, "right", OPENING, LAYOUT, &right, |_| ()).expect("made");
            assert!(
                record.handle::<EmbeddedMutex<()>>(0).is_some()
                    && record.handle::<EmbeddedCondvar>(8).is_some()
            );
            assert!(
                record.handle::<EmbeddedMutex<()>>(8).is_none()
                    && record.handle::<EmbeddedRwLock<()>>(0).is_none()
            );
            assert!(
                record.handle::<EmbeddedMutex<u64>>(48).is_none()
                    && record.handle::<EmbeddedMutex<[u8; 48]>>(0).is_none()
            );
            let other = Untyped::record(domain, "right", OPENING, LAYOUT, &right[..1], |_| ());
            assert!(matches!(other, Err(Error::OtherType { .. })));
        });
    }

    #[test]
    fn a_semaphore_and_a_barrier_are_as_large_as_their_places_say() {
        use crate::sync::{EmbeddedBarrier, EmbeddedSemaphore, Record, RecordType, SharedField};
        #[repr(C)]
        struct Both<const PERMITS: usize> {
            slots: EmbeddedSemaphore<PERMITS>,
            step: EmbeddedBarrier<2>,
        }
        // SAFETY: repr(C); both fields are SharedFields, and `primitives` returns their places.
        unsafe impl<const PERMITS: usize> RecordType for Both<PERMITS> {
            fn primitives() -> Vec<Place> {
                let step = <EmbeddedBarrier<2>>::primitive(0)
                    .after(core::mem::offset_of!(Both<PERMITS>, step));
                vec![<EmbeddedSemaphore<PERMITS>>::primitive(0), step]
            }
        }
        type Line = Both<3>;
        type Wider = Both<5>;
        in_a_domain("sized", |domain| {
            let size = size_of::<Line>();
            assert_eq!(
                size,
                size_of::<Wider>(),
                "the name of the type and its size do not tell them apart"
            );
            let layout = ValueType { name: None, size, align: 64 };
            let at = |offset, kind, number| Place { offset, kind, number };
            let right = [at(0, Kind::Semaphore, 3), at(128, Kind::Barrier, 2)];
            for wrong in
                [at(0, Kind::Semaphore, 0), at(0, Kind::Semaphore, 49), at(32, Kind::Barrier, 2)]
            {
                let made = Untyped::record(domain, "wrong", OPENING, layout, &[wrong], |_| ());
                assert!(matches!(made, Err(Error::InvalidName { .. })), "{wrong:?}");
            }
            // SAFETY: a new record's semaphore, zeroed, with room for three; the file has no name
            // yet.
            let init = |at: *mut u8| unsafe { Untyped::set_permits(at, 3, 1) };
            let made =
                Untyped::record(domain, "line", OPENING, layout, &right, init).expect("made");
            let semaphore = made.semaphore(0).expect("there");
            assert_eq!((semaphore.available_permits(), semaphore.max_permits()), (1, 3));
            assert!(
                made.semaphore(128).is_none()
                    && made.barrier(0).is_none()
                    && made.barrier(64).is_none()
            );
            // Rust opens the same record by its own type, though that type has another name.
            let line = Record::<Line>::open_or_create(domain, "line").expect("the same");
            let permit = semaphore.acquire().expect("free");
            assert_eq!(line.handle(|line| &line.slots).available_permits(), 0);
            drop(permit);
            let barrier = made.barrier(128).expect("there");
            let _seats = (
                barrier.join().expect("a seat"),
                line.handle(|line| &line.step).participants().len(),
            );
            assert!(matches!(
                Record::<Wider>::open_or_create(domain, "line"),
                Err(Error::OtherType { .. })
            ));
            let wider = [at(0, Kind::Semaphore, 5), right[1]];
            let other = Untyped::record(domain, "line", OPENING, layout, &wider, |_| ());
            assert!(matches!(other, Err(Error::OtherType { .. })));
            // And the other way round.
            drop(Record::<Line>::open_or_create(domain, "rusts").expect("made"));
            let rusts = Untyped::record(domain, "rusts", OPENING, layout, &right, |_| ())
                .expect("the same");
            assert_eq!(rusts.semaphore(0).expect("there").available_permits(), 3);
        });
    }

    #[test]
    fn any_handle_leads_to_the_file_that_it_has_open() {
        #[derive(
            Clone, Copy, Debug, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
        )]
        #[repr(C, align(128))]
        struct Wide([u8; 128]);
        crate::record! {
            struct Line { count: std::sync::atomic::AtomicU64, slots: EmbeddedSemaphore<3>, lock: EmbeddedMutex<u64> }
        }
        in_a_domain("of", |domain| {
            let line = Record::<Line>::open_or_create(domain, "line").expect("made");
            let (slots, lock) = (line.handle(|line| &line.slots), line.handle(|line| &line.lock));
            let wide = Mutex::options(Wide([7; 128])).create_new(domain, "wide").expect("made");
            let latch = Latch::options(2).create_new(domain, "latch").expect("made");
            // By now the name stands for another thing, or for nothing.
            for name in ["line", "wide", "latch"] {
                domain.remove(name).expect("removed");
            }
            Latch::options(5).create_new(domain, "line").expect("made");

            let address = core::ptr::from_ref(&*line).cast::<u8>();
            let offset = |field: usize| field - address as usize;
            let at = offset(core::ptr::from_ref(&line.slots) as usize);
            for of in [Untyped::of(&line), Untyped::of(&slots), Untyped::of(&lock)] {
                let of = of.expect("well");
                assert_eq!((of.kind(), of.as_ptr().cast_const()), (Kind::Record, address));
                assert_eq!((of.len(), of.value_offset()), (size_of::<Line>(), 0));
                assert_eq!(
                    of.kind_at(offset(core::ptr::from_ref(&line.lock) as usize)),
                    Some(Kind::Mutex)
                );
                let there = of.semaphore(at).expect("there");
                let permit = there.acquire().expect("free");
                assert_eq!((permit.index() < 3, slots.available_permits()), (true, 2));
            }
            let of = Untyped::of(&wide).expect("well");
            assert_eq!((of.kind(), of.value_offset(), of.len()), (Kind::Mutex, 128, 256));
            let guard = wide.lock().expect("free");
            // SAFETY: this thread holds the lock, and the value lies there.
            assert_eq!(unsafe { of.as_ptr().add(128) }.cast_const(), guard.0.as_ptr());
            latch.arrive(1);
            let of = Untyped::of(&latch).expect("well");
            assert_eq!(of.handle::<EmbeddedLatch>(0).expect("there").missing(), 1);
        });
    }

    #[test]
    fn a_named_semaphore_is_as_large_as_it_says() {
        in_a_domain("own-size", |domain| {
            for permits in [2, 70] {
                let name = format!("permits {permits}");
                let ours = Semaphore::options(permits).open_or_create(domain, &name).expect("made");
                let theirs = Untyped::of(&ours).expect("well").semaphore(0).expect("one");
                let _permits = [ours.acquire().expect("free"), ours.acquire().expect("free")];
                assert_eq!(
                    (theirs.available_permits(), theirs.max_permits()),
                    (permits as usize - 2, permits as usize)
                );
            }
            let ours = Barrier::options(3)
                .when_one_dies(WhenOneDies::Break)
                .open_or_create(domain, "barrier")
                .expect("made");
            let theirs = Untyped::of(&ours).expect("well").barrier(0).expect("one");
            let _seats = [ours.join(), theirs.join(), ours.join()].map(|seat| seat.expect("free"));
            assert!(theirs.join().is_err());
        });
    }

    #[test]
    fn a_ceiling_mutex_is_the_same_from_both_sides() {
        in_a_domain("ceiling", |domain| {
            let eight = ValueType { name: None, size: 8, align: 1 };
            // SAFETY: the file has no name yet, so no other thread reaches it; eight aligned bytes.
            let init = |at: *mut u8| unsafe { *at.cast::<u64>() = 77 };
            let there =
                Untyped::ceiling_lock(domain, "ours", OPENING, 40, eight, init).expect("made");
            assert_eq!(there.ceiling_mutex(0).expect("one").ceiling(), 40);
            let theirs = CeilingMutex::<u64>::options(40, 0)
                .open_or_create(domain, "ours")
                .expect("the same");
            // Without the right to run at 40 this locks nothing; the value lies where Rust's does.
            if let Ok(value) = theirs.lock() {
                assert_eq!(*value, 77);
                assert!(there.ceiling_mutex(0).expect("one").holder().is_some());
            }
            // SAFETY: the value lies inside the file; no thread writes it.
            assert_eq!(unsafe { *there.as_ptr().add(there.value_offset()).cast::<u64>() }, 77);
            let other = Untyped::ceiling_lock(domain, "ours", OPENING, 41, eight, init);
            assert!(matches!(other, Err(Error::OtherOptions { .. })));
            for wrong in [0, 100] {
                let other = Untyped::ceiling_lock(domain, "ours", OPENING, wrong, eight, init);
                assert!(matches!(other, Err(Error::InvalidOption { .. })), "{wrong}");
            }
            let other = Untyped::ceiling_lock(
                domain,
                "ours",
                OPENING,
                40,
                ValueType { size: 9, ..eight },
                init,
            );
            assert!(matches!(other, Err(Error::OtherType { .. })));
            drop(
                CeilingMutex::<[u32; 2]>::options(7, [1, 2])
                    .open_or_create(domain, "rusts")
                    .expect("made"),
            );
            let rusts =
                Untyped::ceiling_lock(domain, "rusts", OPENING, 7, eight, init).expect("the same");
            assert!(rusts.semaphore(0).is_none() && rusts.ceiling_mutex(0).is_some());
        });
    }

    #[test]
    fn what_is_not_recoverable_is_taken_to_be_reset() {
        in_a_domain("reset", |domain| {
            let mutex = Mutex::<u64>::options(0).open_or_create(domain, "mutex").expect("open");
            let holder = std::thread::spawn({
                let mutex = Mutex::<u64>::options(0).open_or_create(domain, "mutex").expect("open");
                move || mutex.lock().expect("free").into_raw()
            });
            holder.join().expect("ended");
            let Err(LockError::OwnerDied(guard)) = mutex.lock() else {
                panic!("its owner's thread ended")
            };
            guard.mark_not_recoverable();
            assert!(matches!(mutex.lock(), Err(LockError::Failed(AcquireError::NotRecoverable))));
            drop(mutex.lock_to_reset().expect("taken"));
            assert!(
                matches!(mutex.lock(), Err(LockError::Failed(AcquireError::NotRecoverable))),
                "nobody marked it consistent"
            );
            let mut guard = mutex.lock_to_reset().expect("taken");
            *guard = 5;
            guard.mark_consistent();
            drop(guard);
            assert_eq!(*mutex.lock().expect("whole again"), 5);
        });
    }

    #[test]
    fn a_guard_goes_through_its_raw_form_and_no_other_thread_takes_it() {
        in_a_domain("raw", |domain| {
            let mutex = Mutex::<u64>::options(0).open_or_create(domain, "mutex").expect("open");
            let raw = mutex.lock().expect("free").into_raw();
            std::thread::scope(|scope| {
                // SAFETY: the number came from a guard of this mutex.
                scope.spawn(|| assert!(unsafe { mutex.guard_from_raw(raw) }.is_none()));
                // SAFETY: 0 is no guard's number. The thread has no token yet, and its number is 0
                // as well.
                scope.spawn(|| assert!(unsafe { mutex.guard_from_raw(0) }.is_none()));
            });
            assert!(mutex.holder().is_some());
            assert!(
                matches!(mutex.try_lock(), Err(LockError::Failed(AcquireError::Deadlock))),
                "it is held still"
            );
            // SAFETY: the number came from a guard of this mutex, and is used once.
            *unsafe { mutex.guard_from_raw(raw) }.expect("ours") += 1;
            assert_eq!((mutex.holder(), *mutex.lock().expect("free")), (None, 1));
        });
    }
}
