//! Records: a user's own struct in shared memory, with primitives inside.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use outlive::Kind;
use outlive::sync::{Place, Untyped, ValueType};

use crate::argument::items;
use crate::code::{Failure, entry};
use crate::domain::outlive_domain_t;
use crate::opening::{Naming, naming, outlive_opening_t};
use crate::place;

/// In an `outlive_place_t`: an `outlive_mutex_t`.
pub const OUTLIVE_MUTEX: u32 = 2;
/// In an `outlive_place_t`: an `outlive_rwlock_t`.
pub const OUTLIVE_RWLOCK: u32 = 5;
/// In an `outlive_place_t`: an `outlive_condvar_t`.
pub const OUTLIVE_CONDVAR: u32 = 6;

/// In an `outlive_place_t`: an `outlive_event_t`.
pub const OUTLIVE_EVENT: u32 = 7;
/// In an `outlive_place_t`: an `outlive_once_t`.
pub const OUTLIVE_ONCE: u32 = 8;
/// In an `outlive_place_t`: an `outlive_latch_t`.
pub const OUTLIVE_LATCH: u32 = 9;

/// In an `outlive_place_t`: an `outlive_pi_mutex_t`.
pub const OUTLIVE_PI_MUTEX: u32 = 12;

/// In an `outlive_place_t`: an `outlive_semaphore_t` with permits behind it:
/// `OUTLIVE_SEMAPHORE_PLACE`.
pub const OUTLIVE_SEMAPHORE: u32 = 10;
/// In an `outlive_place_t`: an `outlive_barrier_t` with seats behind it: `OUTLIVE_BARRIER_PLACE`.
pub const OUTLIVE_BARRIER: u32 = 11;
/// In an `outlive_place_t`: an `outlive_ceiling_mutex_t`: `OUTLIVE_CEILING_PLACE`.
pub const OUTLIVE_CEILING_MUTEX: u32 = 13;

/// In an `outlive_place_t`: an `outlive_reentrant_mutex_t`.
pub const OUTLIVE_REENTRANT_MUTEX: u32 = 20;

/// Where in a record a primitive lies, and of which kind: `OUTLIVE_PLACE(type, member,
/// OUTLIVE_MUTEX)`.
#[repr(C)]
pub struct outlive_place_t {
    /// Bytes from the record's start.
    pub offset: usize,
    /// One of the numbers above.
    pub kind: u32,
    /// How many permits a semaphore has room for, how many seats a barrier, how high a mutex's
    /// ceiling is; 0 for the others.
    pub number: u32,
}

fn kind(number: u32) -> Result<Kind, Failure> {
    match number {
        OUTLIVE_MUTEX => Ok(Kind::Mutex),
        OUTLIVE_RWLOCK => Ok(Kind::RwLock),
        OUTLIVE_CONDVAR => Ok(Kind::Condvar),
        OUTLIVE_EVENT => Ok(Kind::Event),
        OUTLIVE_ONCE => Ok(Kind::Once),
        OUTLIVE_LATCH => Ok(Kind::Latch),
        OUTLIVE_PI_MUTEX => Ok(Kind::PiMutex),
        OUTLIVE_SEMAPHORE => Ok(Kind::Semaphore),
        OUTLIVE_BARRIER => Ok(Kind::Barrier),
        OUTLIVE_CEILING_MUTEX => Ok(Kind::CeilingMutex),
        OUTLIVE_REENTRANT_MUTEX => Ok(Kind::ReentrantMutex),
        _ => Err(Failure::new(libc::EINVAL, "a place of no kind that records have in C")),
    }
}

/// Initialises a new record, zeroed before, which no other process sees yet. It must return; it may
/// be called twice, for two files of which one is thrown away. `argument` is the caller's.
pub type outlive_init_t = Option<unsafe extern "C" fn(data: *mut c_void, argument: *mut c_void)>;

/// Opens the record of that name, or makes it: `size` bytes, page-aligned, zeroed, then initialised
/// by `init` (may be NULL) before another process sees them. `places` says where the primitives
/// lie. The file records them, so that any process finds what dead ones hold, and a program with
/// another idea of the struct is refused.
///
/// Owner: `*data` is shared memory, mapped until `outlive_record_close`. Fields that no lock guards
/// have to be atomic.
///
/// Errors: see `outlive_opening_t`; EINVAL also for places that overlap, lie outside or are not
/// aligned, for invalid numbers, and for more than 46. OUTLIVE_OTHER_TYPE: it exists with another
/// size, or with other primitives, places or numbers.
///
/// If a process dies, each primitive reports that by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_record_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    size: usize,
    places: *const outlive_place_t,
    count: usize,
    init: outlive_init_t,
    argument: *mut c_void,
    data: *mut *mut c_void,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `data`, a live domain, and a NUL-terminated name.
        let naming = unsafe { naming(domain, name, how, data) }?;
        // SAFETY: the C caller passes `count` readable items at `places`.
        let places = unsafe { items(places, count, "the places of primitives") }?;
        let place = |place: &outlive_place_t| {
            let kind = kind(place.kind)?;
            Ok(Place { offset: place.offset, kind, number: place.number })
        };
        let places: Vec<Place> = places.iter().map(place).collect::<Result<_, Failure>>()?;
        if size == 0 {
            return Err(Failure::new(libc::EINVAL, "a record without bytes"));
        }
        let layout = ValueType { name: None, size, align: 64 };
        let Naming { out, domain, name, opening } = naming;
        let untyped = Untyped::record(domain, name, opening, layout, &places, |at| {
            if let Some(init) = init {
                // SAFETY: `at` has `size` bytes of a file that no other process has yet; the C
                // caller passes `init` for such a record.
                unsafe { init(at.cast(), argument) };
            }
        })?;
        out.put(place::open(untyped).cast());
        Ok(())
    })
}

/// Closes this opening of a record: addresses in it are invalid from then on. No thread of this
/// process may hold or wait for a primitive in it. Passing NULL, or what is not an opened record's
/// start, has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_record_close(data: *mut c_void) {
    entry(|| place::close(data.cast(), Kind::Record));
}
