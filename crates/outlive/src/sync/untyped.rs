//! Primitives as other languages have them: at a place in a file, without a Rust type around them.
//!
//! A C program overlays its own struct on a record's bytes, and says where in it the primitives lie. What Rust's type
//! system promises of a [`Record`](super::Record) is compared here with what the file says: a place has to be one of the
//! table in the file's header, of that kind, aligned, and inside.

use std::ptr::NonNull;
use std::sync::Arc;

use super::ceiling_mutex::RawCeiling;
use super::home::Home;
use super::pi_mutex::RawPi;
use super::raw_condvar::RawCondvar;
use super::raw_event::RawEvent;
use super::raw_mutex::RawMutex;
use super::raw_once::RawOnce;
use super::raw_rw_lock::RawRwLock;
use super::record::{Embed, MOST_PLACES, Place, note_places, places};
use crate::liveness::Registry;
use crate::segment::{BODY, Segment, Spec};
use crate::{Domain, Error, Kind};

/// What a value is, in words that every language has.
#[derive(Clone, Copy, Debug)]
pub struct ValueType<'a> {
    /// Its name, as the file's header has it; `None`: that of as many bytes in Rust, `[u8; N]`, which under a lock is every
    /// type of that size. Not compared with the name in a file that is there: languages name their types differently.
    pub name: Option<&'a str>,
    /// Bytes.
    pub size: usize,
    /// Its alignment, a power of two up to 4,096; of a value under a lock, up to 64.
    pub align: usize,
}

/// A file with primitives, for bindings to other languages: a record, a named primitive, or one with a value behind it.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-untyped-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::{Kind, sync::{Embedded, Place, Untyped, ValueType}};
///
/// // struct { lock; count } of another language: 8 bytes each.
/// let layout = ValueType { name: Some("counter"), size: 16, align: 8 };
/// let places = [Place { offset: 0, kind: Kind::Mutex }];
/// let counter = Untyped::record(&domain, "counter", layout, &places, |_| ())?;
/// let lock = counter.handle::<Embedded<()>>(0).unwrap();
/// let guard = lock.lock().unwrap();
/// // SAFETY: inside, and under the lock.
/// unsafe { *counter.as_ptr().add(8).cast::<u64>() += 1 };
/// # drop(guard);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// As with what is inside.
pub struct Untyped {
    segment: Arc<Segment>,
    registry: &'static Registry,
    kind: Kind,
    len: usize,
    places: Vec<Place>,
}

/// Where the value of a named lock begins: what [`Mutex`](super::Mutex) and [`RwLock`](super::RwLock) agree on for all values
/// that are aligned to 64 bytes or less.
const fn value_at(kind: Kind) -> usize {
    match kind {
        Kind::RwLock => size_of::<RawRwLock>(),
        // A mutex's is kept away from its lock; one with priority inheritance is as long.
        _ => 64,
    }
}

/// Bytes and alignment of a kind's words, as they stand in a record; `None` for what has none of a fixed size.
fn shape(kind: Kind) -> Option<(usize, usize)> {
    fn of<T>() -> Option<(usize, usize)> {
        Some((size_of::<T>(), align_of::<T>()))
    }
    match kind {
        Kind::Mutex => of::<RawMutex>(),
        Kind::RwLock => Some((size_of::<RawRwLock>(), 64)),
        Kind::Condvar => of::<RawCondvar>(),
        Kind::Event | Kind::Latch => of::<RawEvent>(),
        Kind::Once => of::<RawOnce>(),
        Kind::PiMutex => of::<RawPi>(),
        Kind::CeilingMutex => of::<RawCeiling>(),
        _ => None,
    }
}

impl Untyped {
    /// Opens the record of that name, or makes it: zeroed, then filled in by `init`, before anybody else can see it.
    ///
    /// # Errors
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else, also for a record of another
    /// size or with primitives at other places; [`Error::InvalidName`], also for places that cannot be; [`Error::NoSpace`],
    /// and what the system says.
    ///
    /// # If a process dies
    /// While it makes the record: nothing is left of it.
    pub fn record(
        domain: &Domain,
        name: &str,
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
            let (size, align) = shape(place.kind).ok_or_else(|| wrong("a primitive of that kind has no fixed size"))?;
            if place.offset < end || !place.offset.is_multiple_of(align) || value.align < align {
                return Err(wrong("its locks lie in one another, or are not aligned"));
            }
            end = place.offset.saturating_add(size);
        }
        if end > value.size {
            return Err(wrong("a lock of it lies outside"));
        }
        let made = Untyped::open(domain, name, Kind::Record, value, 0, |segment, at| {
            note_places(segment.header(), wanted);
            init(at);
        })?;
        let found = places(&made.segment)?;
        let same = |a: &Place, b: &Place| (a.offset, a.kind) == (b.offset, b.kind);
        if found.len() != wanted.len() || !wanted.iter().all(|w| found.iter().any(|f| same(f, w))) {
            return Err(made.other_type("locks at other places", value.size));
        }
        Ok(Untyped { places: found, ..made })
    }

    /// Opens the [`Mutex`](super::Mutex), [`RwLock`](super::RwLock) or [`PiMutex`](super::PiMutex) of that name, or makes it, with a
    /// value of that size behind it. `init` fills the value in before anybody else can see it.
    ///
    /// # Errors
    /// As [`Untyped::record`].
    ///
    /// # If a process dies
    /// While it makes the lock: nothing is left of it.
    pub fn lock(
        domain: &Domain,
        name: &str,
        kind: Kind,
        value: ValueType<'_>,
        init: impl Fn(*mut u8),
    ) -> Result<Untyped, Error> {
        if !matches!(kind, Kind::Mutex | Kind::RwLock | Kind::PiMutex) || value.align > 64 {
            let why =
                "values behind locks are aligned to 64 bytes at most, and mutexes, rwlocks and pi mutexes have them";
            return Err(Error::InvalidName { name: name.to_owned(), why });
        }
        let made = Untyped::open(domain, name, kind, value, value_at(kind), |_, at| init(at))?;
        Ok(Untyped { places: vec![Place { offset: 0, kind }], ..made })
    }

    /// Opens the primitive of that kind and name, which must be there: made by its own `open`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OtherKind`], and what the system says.
    pub fn named(domain: &Domain, name: &str, kind: Kind) -> Result<Untyped, Error> {
        let segment = domain.open_segment(name)?;
        segment.expect(kind)?;
        let (size, _) = shape(kind).ok_or_else(|| segment.damaged("a kind of no fixed size"))?;
        segment.exists(BODY + size as u64)?;
        Ok(Untyped {
            segment: Arc::new(segment),
            registry: domain.registry(),
            kind,
            len: size,
            places: vec![Place { offset: 0, kind }],
        })
    }

    /// `before`: bytes before the value.
    fn open(
        domain: &Domain,
        name: &str,
        kind: Kind,
        value: ValueType<'_>,
        before: usize,
        init: impl Fn(&Segment, *mut u8),
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
            match domain.open_segment(name) {
                Ok(segment) => break segment,
                Err(Error::NotFound { .. }) => {}
                Err(other) => return Err(other),
            }
            let made = domain.create_or_open(name, &spec, |segment| {
                // SAFETY: the file was made with so many bytes and has no name yet, so nobody else can reach it.
                init(segment, unsafe { segment.address(BODY + before as u64) });
                Ok(())
            });
            match made {
                // Somebody was quicker, and names the type differently: looked at above.
                Err(Error::OtherType { .. }) => {}
                made => break made?,
            }
        };
        segment.expect(kind)?;
        super::order::opened(domain);
        let found = Untyped {
            segment: Arc::new(segment),
            registry: domain.registry(),
            kind,
            len: before + value.size,
            places: Vec::new(),
        };
        if found.segment.header().type_size() != value.size as u64 {
            return Err(found.other_type(&found.segment.header().type_name(), value.size));
        }
        found.segment.exists(bytes)?;
        Ok(found)
    }

    fn other_type(&self, what: &str, wanted: usize) -> Error {
        Error::OtherType {
            path: self.segment.path().to_path_buf(),
            found: format!("{what} ({} bytes)", self.segment.header().type_size()),
            wanted: format!("{wanted} bytes"),
        }
    }

    /// What the file is: a record, or a primitive.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where the words begin, mapped as long as this or a handle is there: page-aligned.
    pub fn as_ptr(&self) -> *mut u8 {
        // SAFETY: `open` and `named` have seen that it exists.
        unsafe { self.segment.address(BODY) }
    }

    /// Bytes from there on: primitive and value.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where a named lock's value begins, from the words on; of a record, that is where it begins itself.
    pub fn value_offset(&self) -> usize {
        if self.kind == Kind::Record { 0 } else { value_at(self.kind) }
    }

    /// The primitive that begins there: which kind it is.
    pub fn kind_at(&self, offset: usize) -> Option<Kind> {
        self.places.iter().find(|place| place.offset == offset).map(|place| place.kind)
    }

    /// A handle for the primitive that begins there; `None` if there is none of that kind. It keeps the file mapped.
    pub fn handle<F: Embed>(&self, offset: usize) -> Option<F::Handle> {
        let kind = (F::PRIMITIVES == 1).then(|| F::primitive(0)).filter(|place| place.offset == 0)?.kind;
        let end = offset.checked_add(size_of::<F>()).filter(|&end| end <= self.len);
        if self.kind_at(offset) != Some(kind) || end.is_none() || !offset.is_multiple_of(align_of::<F>()) {
            return None;
        }
        // SAFETY: inside the file, as seen when it was opened, and aligned, as the body is page-aligned; every bit pattern is a
        // value of a SharedField, which is atomics and what lies under locks.
        let shared = unsafe { NonNull::new_unchecked(self.as_ptr().add(offset)).cast::<F>().as_ref() };
        Some(F::handle(Home::inside(shared, self.registry, &self.segment)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Embedded, EmbeddedCondvar, EmbeddedRwLock, LockError, Mutex, PiMutex, RwLock};

    fn in_a_domain(name: &str, test: impl FnOnce(&Domain)) {
        let folder = std::env::temp_dir().join(format!("outlive-untyped-{name}-{}", std::process::id()));
        test(&Domain::open_at(&folder).expect("a domain"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    const LAYOUT: ValueType<'static> = ValueType { name: None, size: 48, align: 8 };

    #[test]
    fn a_named_lock_is_the_same_from_both_sides() {
        in_a_domain("named", |domain| {
            let eight = ValueType { name: None, size: 8, align: 8 };
            for kind in [Kind::Mutex, Kind::RwLock, Kind::PiMutex] {
                let name = kind.to_string();
                // SAFETY: nobody else has it yet; eight bytes, aligned.
                let init = |at: *mut u8| unsafe { *at.cast::<u64>() = 77 };
                let there = Untyped::lock(domain, &name, kind, ValueType { name: Some("u64"), ..eight }, init);
                let there = there.expect("made");
                // SAFETY: inside; nobody writes.
                assert_eq!(unsafe { *there.as_ptr().add(there.value_offset()).cast::<u64>() }, 77);
                let seen = match kind {
                    Kind::Mutex => *Mutex::<u64>::open(domain, &name, 0).expect("open").lock().expect("free"),
                    Kind::PiMutex => *PiMutex::<u64>::open(domain, &name, 0).expect("open").lock().expect("free"),
                    _ => *RwLock::<u64>::open(domain, &name, 0).expect("open").read().expect("free"),
                };
                assert_eq!(seen, 77);
                let other = Untyped::lock(domain, &name, kind, ValueType { size: 9, ..eight }, |_| ());
                assert!(matches!(other, Err(Error::OtherType { .. })));
                // Made without a name for its type, it is open to each of that size.
                let nameless = format!("{kind} nameless");
                drop(Untyped::lock(domain, &nameless, kind, ValueType { align: 1, ..eight }, init).expect("made"));
                let opened = |name: &str| match kind {
                    Kind::Mutex => Mutex::<u64>::open(domain, name, 0).map(drop),
                    Kind::PiMutex => PiMutex::<u64>::open(domain, name, 0).map(drop),
                    _ => RwLock::<u64>::open(domain, name, 0).map(drop),
                };
                assert_eq!(opened(&nameless), Ok(()));
                let smaller = format!("{kind} smaller");
                drop(Untyped::lock(domain, &smaller, kind, ValueType { size: 4, ..eight }, |_| ()).expect("made"));
                assert!(matches!(opened(&smaller), Err(Error::OtherType { .. })));
            }
        });
    }

    #[test]
    fn places_that_cannot_be_are_refused() {
        in_a_domain("places", |domain| {
            let at = |offset, kind| Place { offset, kind };
            let wrong: [&[Place]; 5] = [
                &[at(44, Kind::Mutex)],
                &[at(2, Kind::Mutex)],
                &[at(0, Kind::Mutex), at(4, Kind::Mutex)],
                &[at(0, Kind::RwLock)],
                &[at(0, Kind::Queue)],
            ];
            for places in wrong {
                let made = Untyped::record(domain, "wrong", LAYOUT, places, |_| ());
                assert!(matches!(made, Err(Error::InvalidName { .. })), "{places:?}");
            }
            let right = [at(0, Kind::Mutex), at(8, Kind::Condvar)];
            let record = Untyped::record(domain, "right", LAYOUT, &right, |_| ()).expect("made");
            assert!(record.handle::<Embedded<()>>(0).is_some() && record.handle::<EmbeddedCondvar>(8).is_some());
            assert!(record.handle::<Embedded<()>>(8).is_none() && record.handle::<EmbeddedRwLock<()>>(0).is_none());
            assert!(record.handle::<Embedded<u64>>(48).is_none() && record.handle::<Embedded<[u8; 48]>>(0).is_none());
            let other = Untyped::record(domain, "right", LAYOUT, &right[..1], |_| ());
            assert!(matches!(other, Err(Error::OtherType { .. })));
        });
    }

    #[test]
    fn what_was_given_up_is_taken_to_be_reset() {
        in_a_domain("reset", |domain| {
            let mutex = Mutex::<u64>::open(domain, "mutex", 0).expect("open");
            let holder = std::thread::spawn({
                let mutex = Mutex::<u64>::open(domain, "mutex", 0).expect("open");
                move || mutex.lock().expect("free").into_raw()
            });
            holder.join().expect("ended");
            let Err(LockError::OwnerDied(guard)) = mutex.lock() else { panic!("its owner's thread ended") };
            drop(guard);
            assert!(matches!(mutex.lock(), Err(LockError::NotRecoverable)));
            drop(mutex.lock_to_reset(crate::Deadline::NEVER).expect("taken"));
            assert!(matches!(mutex.lock(), Err(LockError::NotRecoverable)), "nobody marked it consistent");
            let mut guard = mutex.lock_to_reset(crate::Deadline::NEVER).expect("taken");
            *guard = 5;
            guard.mark_consistent();
            drop(guard);
            assert_eq!(*mutex.lock().expect("whole again"), 5);
        });
    }

    #[test]
    fn a_guard_goes_through_its_raw_form_and_no_other_thread_takes_it() {
        in_a_domain("raw", |domain| {
            let mutex = Mutex::<u64>::open(domain, "mutex", 0).expect("open");
            let raw = mutex.lock().expect("free").into_raw();
            std::thread::scope(|scope| {
                // SAFETY: of this mutex.
                scope.spawn(|| assert!(unsafe { mutex.guard_from_raw(raw) }.is_none()));
                // SAFETY: none of any. By a thread that has no token yet, whose number is 0 as well.
                scope.spawn(|| assert!(unsafe { mutex.guard_from_raw(0) }.is_none()));
            });
            assert!(mutex.holder().is_some());
            assert!(matches!(mutex.try_lock(), Err(LockError::Deadlock)), "it is held still");
            // SAFETY: of this mutex, used once.
            *unsafe { mutex.guard_from_raw(raw) }.expect("ours") += 1;
            assert_eq!((mutex.holder(), *mutex.lock().expect("free")), (None, 1));
        });
    }
}
