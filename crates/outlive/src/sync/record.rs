//! A user's own struct in a domain, with locks inside that a sweep can find.
//!
//! The file's header holds the offsets of all embedded locks, so that `Domain::sweep` and `outlive gc`, which know
//! nothing of the type, find every claim in it.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::Plain;
use super::guard::{Guard, LockError};
use super::mutex::lock_at;
use super::raw_mutex::RawMutex;
use crate::liveness::{Patience, Registry};
use crate::segment::{BODY, Header, Segment, Shared, Spec};
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::{Deadline, Domain, Error, Kind, Wait};

/// A mutex and its value, for use as a field of a [`record!`](crate::record). 8 bytes and the value.
///
/// All zeroes are an unlocked mutex around a zeroed value.
#[repr(C)]
pub struct Embedded<T> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached under the lock only.
unsafe impl<T: Send> Sync for Embedded<T> {}

impl<T: Plain> Embedded<T> {
    /// The value, where nobody else can reach it: in [`Record::open`]'s initialiser.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Types that may stand in a [`record!`](crate::record): atomics, [`Embedded`] mutexes, arrays of those.
///
/// # Safety
/// Every bit pattern is a value, and shared references never see a change outside atomics or a lock. `LOCKS` is how many
/// embedded locks the type has; `offset` gives the place of each.
pub unsafe trait SharedField {
    /// How many embedded locks are inside.
    const LOCKS: usize;
    /// Where the `n`th of them begins, in bytes from the field's start.
    fn offset(n: usize) -> usize;
}

macro_rules! plain_fields {
    ($($t:ty),*) => { $(
        // SAFETY: an atomic, without a lock.
        unsafe impl SharedField for $t {
            const LOCKS: usize = 0;
            fn offset(_: usize) -> usize { 0 }
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

// SAFETY: the lock is at the start; the value is Plain and under it.
unsafe impl<T: Plain> SharedField for Embedded<T> {
    const LOCKS: usize = 1;
    fn offset(_: usize) -> usize {
        core::mem::offset_of!(Embedded<T>, raw)
    }
}

// SAFETY: its elements may.
unsafe impl<T: SharedField, const N: usize> SharedField for [T; N] {
    const LOCKS: usize = N * T::LOCKS;
    fn offset(n: usize) -> usize {
        n / T::LOCKS.max(1) * size_of::<T>() + T::offset(n % T::LOCKS.max(1))
    }
}

/// A struct made by [`record!`](crate::record).
///
/// # Safety
/// `repr(C)`, every field is a [`SharedField`], and `locks` gives the offsets of all embedded locks.
pub unsafe trait RecordType: Sized + 'static {
    /// Offsets of all embedded locks, from the struct's start.
    fn locks() -> Vec<usize>;
}

/// Defines a struct that may live in a domain as a [`Record`]: `repr(C)`, its fields atomics and
/// [`Embedded`] mutexes.
///
/// ```
/// use outlive::sync::{Embedded, Record};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// outlive::record! {
///     /// What all processes of the line share.
///     pub struct Line {
///         pub position: Embedded<[f64; 3]>,
///         pub ticks: AtomicU64,
///     }
/// }
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-record-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// let line = Record::<Line>::open(&domain, "line", |line| *line.position.get_mut() = [1.0, 2.0, 3.0])?;
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
        // SAFETY: repr(C); every field's type is asked for SharedField below; the offsets are computed from it.
        unsafe impl $crate::sync::RecordType for $name {
            fn locks() -> Vec<usize> {
                let mut locks = Vec::new();
                $(
                    let count = <$ty as $crate::sync::SharedField>::LOCKS;
                    let start = ::core::mem::offset_of!($name, $field);
                    locks.extend((0..count).map(|n| start + <$ty as $crate::sync::SharedField>::offset(n)));
                )*
                locks
            }
        }
    };
}

/// A user's own struct, shared by name between processes. See [`record!`](crate::record).
///
/// # If a process dies
/// Each embedded lock tells the next to lock it, like [`Mutex`](super::Mutex). Atomics stay as the dead one left them.
pub struct Record<T> {
    value: NonNull<T>,
    registry: &'static Registry,
    patience: Patience,
    _segment: Segment,
    _value: PhantomData<T>,
}

// SAFETY: a RecordType is atomics and locks.
unsafe impl<T: RecordType> Send for Record<T> {}
// SAFETY: as above.
unsafe impl<T: RecordType> Sync for Record<T> {}

#[repr(transparent)]
struct Body<T>(T);
// SAFETY: RecordType promises it.
unsafe impl<T: RecordType> Shared for Body<T> {}

/// How many embedded locks a header has room for.
const MOST_LOCKS: usize = 46;

impl<T: RecordType> Record<T> {
    /// Opens the record of that name, or makes it: zeroed, then filled in by `init`, before anybody else can see it.
    ///
    /// # Errors
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else, [`Error::NoSpace`],
    /// [`Error::InvalidName`] (also for a type with more than 46 locks), and what the system says.
    ///
    /// # If a process dies
    /// While it makes the record: nothing is left of it.
    pub fn open(domain: &Domain, name: &str, init: impl Fn(&mut T)) -> Result<Record<T>, Error> {
        const { assert!(align_of::<T>() <= 4096) };
        let locks = T::locks();
        if locks.len() > MOST_LOCKS {
            return Err(Error::InvalidName { name: name.to_owned(), why: "its type has more than 46 locks" });
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
        };
        let segment = domain.create_or_open(name, &spec, |segment| {
            note_locks(segment.header(), &locks);
            segment.at::<Body<T>>(BODY)?;
            // SAFETY: checked just now; the file has no name yet, so this reference is the only one.
            init(unsafe { &mut *segment.address(BODY).cast::<T>() });
            Ok(())
        })?;
        let value = NonNull::from(segment.at::<Body<T>>(BODY)?).cast();
        Ok(Record {
            value,
            registry: domain.registry(),
            patience: Patience::new(),
            _segment: segment,
            _value: PhantomData,
        })
    }

    /// How waiting is done through this handle.
    pub fn set_wait(&self, wait: Wait) {
        self.patience.set(wait);
    }

    /// Takes one of the embedded locks, waiting as long as a living owner holds it.
    ///
    /// # Errors
    /// As [`Mutex::lock`](super::Mutex::lock).
    pub fn lock<'a, V: Plain>(
        &'a self,
        field: impl FnOnce(&'a T) -> &'a Embedded<V>,
    ) -> Result<Guard<'a, V>, LockError<Guard<'a, V>>> {
        self.lock_until(field, Deadline::NEVER)
    }

    /// Takes one of the embedded locks, waiting until the deadline.
    ///
    /// # Errors
    /// As [`Mutex::lock_until`](super::Mutex::lock_until).
    pub fn lock_until<'a, V: Plain>(
        &'a self,
        field: impl FnOnce(&'a T) -> &'a Embedded<V>,
        deadline: impl Into<Deadline>,
    ) -> Result<Guard<'a, V>, LockError<Guard<'a, V>>> {
        let lock = field(&**self);
        lock_at(&lock.raw, &lock.value, self.registry, &self.patience, deadline.into())
    }
}

impl<T: RecordType> Deref for Record<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: checked when opened; mapped as long as the segment is; RecordType may be shared.
        unsafe { self.value.as_ref() }
    }
}

/// Header words: the count, then two offsets each.
fn note_locks(header: &Header, locks: &[usize]) {
    header.extra[0].store(locks.len() as u64, Ordering::Relaxed);
    for (word, pair) in header.extra[1..].iter().zip(locks.chunks(2)) {
        let second = pair.get(1).copied().unwrap_or(0) as u64;
        word.store(pair[0] as u64 | second << 32, Ordering::Relaxed);
    }
}

/// All embedded locks of a record of any type.
pub(crate) fn raw_locks(segment: &Segment) -> Result<Vec<&RawMutex>, Error> {
    let header = segment.header();
    let count = header.extra[0].load(Ordering::Relaxed);
    if count > MOST_LOCKS as u64 {
        return Err(segment.damaged("the table of locks"));
    }
    (0..count as usize)
        .map(|n| {
            let pair = header.extra[1 + n / 2].load(Ordering::Relaxed);
            let offset = if n % 2 == 0 { pair & 0xffff_ffff } else { pair >> 32 };
            segment.at::<RawMutex>(BODY + offset)
        })
        .collect()
}
