//! Records: a user's own struct in a domain, with locks inside that a sweep can find.
//!
//! The file's header lists the places of all embedded primitives. So `Domain::sweep` and
//! `outlive gc`, which do not know the type, find every claim in it.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::time::Duration;

use super::lock::{Lock, take, take_for_ever};
use super::primitive::{Handle, KindOf, Sited};
use super::raw_lock::{Guards, LockWords, Site};
use super::{EmbeddedMutex, LockError, MutexGuard};
use crate::Plain;
use crate::domain::three_openings;
use crate::segment::{BODY, Header, Opening, Segment, SharedLayout, Spec};
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// Marks types that may be fields of a [`record!`](crate::record): atomics, embedded primitives
/// like [`EmbeddedMutex`], and arrays of those.
///
/// # Safety
/// Every bit pattern is a value, and shared references never see a change outside atomics or a
/// lock. `PRIMITIVES` is the number of embedded primitives in the type; `primitive` returns the
/// place of each.
pub unsafe trait SharedField {
    /// The number of primitives inside.
    const PRIMITIVES: usize;
    /// Returns where the `n`th of them begins, counted from the field's start, and its kind.
    fn primitive(n: usize) -> Place;
}

/// Says where an embedded primitive's words begin, and of which kind it is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Bytes from the start; a multiple of 4.
    pub offset: usize,
    /// The primitive's kind.
    pub kind: Kind,
    /// A semaphore's room for permits, a barrier's seats, a mutex's ceiling; 0 for the other kinds.
    pub number: u32,
}

impl Place {
    /// Returns the same place, counted from `start` bytes before.
    #[must_use]
    pub fn after(self, start: usize) -> Place {
        Place { offset: start + self.offset, ..self }
    }

    /// Packs it as a record's header holds it: the offset in units of 4 bytes, the kind's number
    /// above.
    fn packed(self) -> u32 {
        (self.offset / 4) as u32 & OFFSET | self.kind.number() << KIND_AT
    }

    fn unpacked(word: u32) -> Option<Place> {
        Some(Place {
            offset: (word & OFFSET) as usize * 4,
            kind: Kind::of_number(word >> KIND_AT)?,
            number: 0,
        })
    }
}

const KIND_AT: u32 = 27;
const OFFSET: u32 = (1 << KIND_AT) - 1;

/// Connects a primitive's shared half, a field of a record, with its other half, the handle.
pub trait Embed: SharedField + Sized {
    /// The type that uses it, the same as for a named primitive.
    type Handle;
    #[doc(hidden)]
    fn handle(handle: Handle<Self>) -> Self::Handle;
}

/// The words of a primitive as a record's field holds them, in front of a `T`, with what the field's
/// type says of them.
///
/// # Safety
/// The words are at offset 0 and fill the type. Any bytes are a `T`, and while other processes may
/// see it, safe code reaches the `T` only as the primitive allows.
pub unsafe trait InRecord<T>: SharedLayout + Sync + Sized {
    /// The primitive's kind.
    const KIND: Kind;
    /// The number that the type says: a ceiling, room for permits, seats; else 0.
    const NUMBER: u32 = 0;
    /// The type that uses it.
    type Handle;

    /// Makes a handle.
    fn handle(handle: Handle<Embedded<Self, T>>) -> Self::Handle;
}

// SAFETY: the words are the type; `Guards` says the rest.
unsafe impl<P: Guards<T>, T> InRecord<T> for P {
    const KIND: Kind = P::KINDS[0];
    type Handle = Lock<P, T>;

    fn handle(handle: Handle<Embedded<P, T>>) -> Lock<P, T> {
        lock_in_record(handle, |words| words, 0)
    }
}

/// Makes the handle of a lock inside a record, whose type says that number.
pub(super) fn lock_in_record<W, P: Guards<T>, T>(
    handle: Handle<Embedded<W, T>>,
    words: impl Fn(&W) -> &P,
    number: u32,
) -> Lock<P, T> {
    let handle = P::keep(handle);
    let local = words(&handle.shared().words).embedded_local(number);
    let value = NonNull::from(&handle.shared().value);
    // SAFETY: the value lies behind the words in the same field.
    unsafe { Lock::of(handle.part(|embedded| words(&embedded.words)), value, local) }
}

/// Embeds a primitive, and what it guards, as a field of a [`record!`](crate::record): an
/// [`EmbeddedMutex`] and the like, which say more.
///
/// All zeroes are one that no thread uses: an unlocked lock around a zeroed value, say.
#[repr(C)]
pub struct Embedded<P, T = ()> {
    pub(super) words: P,
    pub(super) value: UnsafeCell<T>,
}

// SAFETY: safe code reaches the value only as the primitive allows, as `InRecord` says.
unsafe impl<P: InRecord<T>, T> Sync for Embedded<P, T> {}
// SAFETY: the words are `SharedLayout`; the value is of any bytes, as `InRecord` says.
unsafe impl<P: InRecord<T>, T> SharedLayout for Embedded<P, T> {}
// SAFETY: the words are at offset 0, as `primitive` says; `InRecord` says the rest.
unsafe impl<P: InRecord<T>, T> SharedField for Embedded<P, T> {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        Place { offset: 0, kind: P::KIND, number: P::NUMBER }
    }
}

impl<P: InRecord<T>, T> Embed for Embedded<P, T> {
    type Handle = P::Handle;
    fn handle(handle: Handle<Embedded<P, T>>) -> P::Handle {
        P::handle(handle)
    }
}

impl<P: InRecord<T, Handle = Lock<W, T>>, W: LockWords, T> Embedded<P, T> {
    /// Returns the value while no other process can reach it: in
    /// [`RecordOptions::init`](super::RecordOptions::init).
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

macro_rules! plain_fields {
    ($($t:ty),*) => { $(
        // SAFETY: an atomic: every bit pattern is a value, any process may change it, and it holds
        // no primitive.
        unsafe impl SharedField for $t {
            const PRIMITIVES: usize = 0;
            fn primitive(_: usize) -> Place { unreachable!("it has none") }
        }
    )* };
}
plain_fields!(
    core::sync::atomic::AtomicU8,
    core::sync::atomic::AtomicU16,
    core::sync::atomic::AtomicI32,
    core::sync::atomic::AtomicI64,
    AtomicU32,
    AtomicU64
);

// SAFETY: each element is a `SharedField`, and `primitive` adds the element's own start to its
// places.
unsafe impl<T: SharedField, const N: usize> SharedField for [T; N] {
    const PRIMITIVES: usize = N * T::PRIMITIVES;
    fn primitive(n: usize) -> Place {
        T::primitive(n % T::PRIMITIVES).after(n / T::PRIMITIVES * size_of::<T>())
    }
}

/// Marks a struct made by [`record!`](crate::record).
///
/// # Safety
/// `repr(C)`, every field is a [`SharedField`], and `primitives` returns the places of all embedded
/// primitives.
pub unsafe trait RecordType: Sized + 'static {
    /// Returns the places of all embedded primitives, counted from the struct's start.
    fn primitives() -> Vec<Place>;
}

/// Defines a struct that may live in a domain as a [`Record`]: `repr(C)`, with fields that are
/// atomics or embedded primitives like [`EmbeddedMutex`].
///
/// ```
/// use outlive::sync::{EmbeddedMutex, Record};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// outlive::record! {
///     /// What all processes of the line share.
///     pub struct Line {
///         pub position: EmbeddedMutex<[f64; 3]>,
///         pub ticks: AtomicU64,
///     }
/// }
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-record-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// let line = Record::<Line>::options().init(|line| *line.position.get_mut() = [1.0, 2.0, 3.0]);
/// let line = line.open_or_create(&domain, "line")?;
/// line.ticks.fetch_add(1, Ordering::Relaxed);
/// line.lock(|line| &line.position).unwrap()[0] = 4.0;
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
#[macro_export]
macro_rules! record {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$fmeta:meta])* $fvis:vis $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        $vis struct $name { $($(#[$fmeta])* $fvis $field: $ty),* }
        // SAFETY: `repr(C)`; the macro demands SharedField of every field's type and computes the
        // offsets from the struct itself.
        unsafe impl $crate::sync::RecordType for $name {
            fn primitives() -> Vec<$crate::sync::Place> {
                let mut places = Vec::new();
                $(
                    let count = <$ty as $crate::sync::SharedField>::PRIMITIVES;
                    let start = ::core::mem::offset_of!($name, $field);
                    places.extend((0..count).map(|n| <$ty as $crate::sync::SharedField>::primitive(n).after(start)));
                )*
                places
            }
        }
    };
}

/// Shares a user's own struct by name between processes. See [`record!`](crate::record).
///
/// # If a process dies
/// Each embedded lock tells its next locker, as a named [`Mutex`](super::Mutex) does. Atomics keep
/// their last values.
pub struct Record<T> {
    value: NonNull<T>,
    site: Site,
    _value: PhantomData<T>,
}

// SAFETY: `T: RecordType` holds only atomics and locks (`record!` checks each field).
unsafe impl<T: RecordType> Send for Record<T> {}
// SAFETY: `T: RecordType` holds only atomics and locks (`record!` checks each field).
unsafe impl<T: RecordType> Sync for Record<T> {}

#[repr(transparent)]
struct Body<T>(T);
// SAFETY: `RecordType`'s implementer promises it.
unsafe impl<T: RecordType> SharedLayout for Body<T> {}

/// The most embedded primitives for which a header has room.
pub(super) const MOST_PLACES: usize = 46;

/// Says how to open a record, or make one.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-record-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{EmbeddedMutex, Record};
///
/// outlive::record! { pub struct Oven { pub degrees: EmbeddedMutex<f64> } }
/// let oven = Record::<Oven>::options().init(|oven| *oven.degrees.get_mut() = 20.0);
/// let oven = oven.create_new(&domain, "oven")?;
/// let same = Record::<Oven>::open(&domain, "oven")?;
/// assert_eq!(*same.lock(|oven| &oven.degrees).unwrap(), 20.0);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct RecordOptions<T, F = fn(&mut T)> {
    init: F,
    record: PhantomData<fn() -> T>,
}

impl<T: RecordType, F: Fn(&mut T)> RecordOptions<T, F> {
    /// Sets what fills in a new record, before any other process can see it; by default it stays
    /// zeroed.
    pub fn init<G: Fn(&mut T)>(self, init: G) -> RecordOptions<T, G> {
        RecordOptions { init, record: PhantomData }
    }

    three_openings!(
        Record<T>,
        "record",
        "[`Error::OtherType`](crate::Error::OtherType) when it has another type, which may be one \
         with primitives at other places; [`Error::InvalidName`](crate::Error::InvalidName) also \
         for a type with more than 46 primitives."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Record<T>, Error> {
        const { assert!(align_of::<T>() <= 4096) };
        let places = T::primitives();
        if places.len() > MOST_PLACES {
            return Err(Error::InvalidName {
                name: name.to_owned(),
                why: "its type has more than 46 locks",
            });
        }
        let bytes = BODY + (size_of::<T>() as u64).max(1);
        let spec = Spec {
            kind: Kind::Record,
            type_name: std::any::type_name::<T>().to_owned(),
            type_size: size_of::<T>() as u64,
            type_align: align_of::<T>() as u64,
            reserve: bytes,
            max_bytes: bytes,
            initial: bytes,
            description: None,
        };
        let segment = domain.open_as(name, opening, &spec, |segment| {
            note_places(segment.header(), &places);
            segment.at::<Body<T>>(BODY)?;
            // SAFETY: `at` has checked the place; the file has no name yet, so this reference is
            // the only one.
            (self.init)(unsafe { &mut *segment.address(BODY).cast::<T>() });
            note_numbers(segment, &places)
        })?;
        if !has_places(&segment, &places)? {
            return Err(other_places(&segment, size_of::<T>()));
        }
        super::order::opened(domain);
        let value = NonNull::from(segment.at::<Body<T>>(BODY)?).cast();
        Ok(Record { value, site: Site::opened(domain.registry(), segment), _value: PhantomData })
    }
}

impl<T> Sited for Record<T> {
    fn site(&self) -> &Site {
        &self.site
    }
}

impl<T: RecordType> Record<T> {
    /// Returns the options for opening a record, or making one.
    pub fn options() -> RecordOptions<T> {
        RecordOptions { init: |_| (), record: PhantomData }
    }

    /// Opens the existing record of that name.
    ///
    /// # Errors
    /// As [`RecordOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Record<T>, Error> {
        Record::options().open(domain, name)
    }

    /// Opens the record of that name, or makes it, all zeroes.
    ///
    /// # Errors
    /// As [`RecordOptions::open_or_create`].
    ///
    /// # If a process dies
    /// While it makes the record: nothing is left of it.
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<Record<T>, Error> {
        Record::options().open_or_create(domain, name)
    }

    /// Returns a handle for one of the embedded primitives, of the same type and use as a named
    /// primitive's. The handle keeps the record open.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-handle-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{EmbeddedMutex, Record};
    ///
    /// outlive::record! { pub struct Arm { joints: [EmbeddedMutex<f64>; 6] } }
    /// let arm = Record::<Arm>::open_or_create(&domain, "arm")?;
    /// let elbow = arm.handle(|arm| &arm.joints[2]);
    /// *elbow.lock().unwrap() = 0.5;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Panics
    /// If `field` returns a place that is not of this record.
    pub fn handle<F: Embed>(&self, field: impl FnOnce(&T) -> &F) -> F::Handle {
        F::handle(Handle::inside(self.own(field), self.site.registry, &self.site.segment))
    }

    /// Returns the field that `field` chooses, and refuses any other place: its lock would name
    /// tokens of this record's domain, and could outlive its memory. Where the compiler knows the
    /// field, it knows that it lies inside.
    #[inline]
    fn own<F>(&self, field: impl FnOnce(&T) -> &F) -> &F {
        let record = &**self;
        let field = field(record);
        let offset = (&raw const *field).addr().wrapping_sub((&raw const *record).addr());
        let is_own = offset < size_of::<T>() && size_of::<F>() <= size_of::<T>() - offset;
        assert!(is_own, "a field that is not of this record");
        field
    }

    /// Sets how [`Record::lock`] waits; each handle has its own setting.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.site.spin_wait.set(wait);
    }

    /// Takes one of the embedded mutexes, as `handle(field).lock()` does, waiting as long as a
    /// living owner holds it.
    ///
    /// # Errors
    /// As [`Mutex::lock`](super::Mutex::lock).
    ///
    /// # Panics
    /// As [`Record::handle`].
    #[inline]
    pub fn lock<'a, V: Plain>(
        &'a self,
        field: impl FnOnce(&T) -> &EmbeddedMutex<V>,
    ) -> Result<MutexGuard<'a, V>, LockError<MutexGuard<'a, V>>> {
        let EmbeddedMutex { words, value } = self.own(field);
        // SAFETY: the lock guards the value behind it (`UnsafeCell<V>` has the layout of `V`), and
        // `site` keeps both mapped.
        unsafe { take_for_ever(words, &(), &self.site, NonNull::from(value).cast()) }
    }

    /// Takes one of the embedded mutexes if it is free, or its owner is dead; returns `None` while
    /// a living thread holds it. Never waits.
    ///
    /// # Errors
    /// As [`Mutex::lock`](super::Mutex::lock).
    pub fn try_lock<'a, V: Plain>(
        &'a self,
        field: impl FnOnce(&T) -> &EmbeddedMutex<V>,
    ) -> Result<Option<MutexGuard<'a, V>>, LockError<MutexGuard<'a, V>>> {
        self.take(self.own(field), || None)
    }

    /// Takes one of the embedded mutexes, and waits for so long at most; returns `None` if a living
    /// thread still holds it then.
    ///
    /// # Errors
    /// As [`Mutex::lock`](super::Mutex::lock).
    pub fn lock_timeout<'a, V: Plain>(
        &'a self,
        field: impl FnOnce(&T) -> &EmbeddedMutex<V>,
        timeout: Duration,
    ) -> Result<Option<MutexGuard<'a, V>>, LockError<MutexGuard<'a, V>>> {
        self.take(self.own(field), || Some(Deadline::after(timeout)))
    }

    /// Takes one of the embedded mutexes, and waits until the deadline; returns `None` if a living
    /// thread still holds it then.
    ///
    /// # Errors
    /// As [`Mutex::lock`](super::Mutex::lock).
    pub fn lock_until<'a, V: Plain>(
        &'a self,
        field: impl FnOnce(&T) -> &EmbeddedMutex<V>,
        deadline: Deadline,
    ) -> Result<Option<MutexGuard<'a, V>>, LockError<MutexGuard<'a, V>>> {
        self.take(self.own(field), || Some(deadline))
    }

    fn take<'a, V: Plain>(
        &'a self,
        EmbeddedMutex { words, value }: &'a EmbeddedMutex<V>,
        wait: impl FnOnce() -> Option<Deadline>,
    ) -> Result<Option<MutexGuard<'a, V>>, LockError<MutexGuard<'a, V>>> {
        // SAFETY: the lock guards the value behind it (`UnsafeCell<V>` has the layout of `V`), and
        // `site` keeps both mapped.
        unsafe { take(words, &(), &self.site, NonNull::from(value).cast(), wait) }
    }
}

impl<T: RecordType> Deref for Record<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `open` has checked the place, `site` keeps it mapped, and `T: RecordType` may
        // be shared.
        unsafe { self.value.as_ref() }
    }
}

/// Writes the header's words: the count, then two places in each word.
pub(super) fn note_places(header: &Header, places: &[Place]) {
    header.extra[0].store(places.len() as u64, Ordering::Relaxed);
    for (word, pair) in header.extra[1..].iter().zip(places.chunks(2)) {
        let second = pair.get(1).map_or(0, |place| u64::from(place.packed()));
        word.store(u64::from(pair[0].packed()) | second << 32, Ordering::Relaxed);
    }
}

/// Writes each primitive's number into its own words, for processes that inspect the record from
/// outside. This comes after the initialiser, which may have wiped those words.
pub(super) fn note_numbers(segment: &Segment, places: &[Place]) -> Result<(), Error> {
    for place in places {
        if let Some(known) = KindOf::kind(place.kind) {
            (known.note)(segment, BODY + place.offset as u64, place.number)?;
        }
    }
    Ok(())
}

/// Returns whether the record has exactly these primitives. Other languages do not name types as
/// Rust does, so this, and not the type's name, tells whether two programs mean the same struct.
pub(super) fn has_places(segment: &Segment, wanted: &[Place]) -> Result<bool, Error> {
    let found = places(segment)?;
    let same = |a: &Place, b: &Place| (a.offset, a.kind) == (b.offset, b.kind);
    if found.len() != wanted.len() {
        return Ok(false);
    }
    for place in wanted {
        let noted = match KindOf::kind(place.kind) {
            Some(known) => (known.noted)(segment, BODY + place.offset as u64)?,
            None => 0,
        };
        // 0: an older build made the record, and no process has used this primitive yet.
        if !found.iter().any(|found| same(found, place)) || (noted != place.number && noted != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn other_places(segment: &Segment, wanted: usize) -> Error {
    Error::OtherType {
        path: segment.path().to_path_buf(),
        found: format!("locks at other places ({} bytes)", segment.header().type_size()),
        wanted: format!("{wanted} bytes"),
    }
}

/// Returns the embedded primitives of a record of any type, with the numbers that their words hold.
/// One without its number is left out: an older build made the record, and no process has used that
/// primitive yet.
pub(super) fn numbered_places(segment: &Segment) -> Result<Vec<Place>, Error> {
    let mut numbered = Vec::new();
    for place in places(segment)? {
        let Some(known) = KindOf::kind(place.kind) else { continue };
        let number = (known.noted)(segment, BODY + place.offset as u64)?;
        if (known.shape)(number).is_some() {
            numbered.push(Place { number, ..place });
        }
    }
    Ok(numbered)
}

/// Returns the embedded primitives of a record of any type; each that has a number holds it in its
/// own words.
pub(super) fn places(segment: &Segment) -> Result<Vec<Place>, Error> {
    let header = segment.header();
    let count = header.extra[0].load(Ordering::Relaxed);
    if count > MOST_PLACES as u64 {
        return Err(segment.damaged("the table of locks"));
    }
    (0..count as usize)
        .map(|n| {
            let pair = header.extra[1 + n / 2].load(Ordering::Relaxed);
            let word = if n % 2 == 0 { pair as u32 } else { (pair >> 32) as u32 };
            Place::unpacked(word).ok_or_else(|| segment.damaged("the table of locks"))
        })
        .collect()
}
