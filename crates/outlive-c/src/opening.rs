//! The three openings of everything that has a name.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use outlive::{Domain, Opening};

use crate::argument::{Out, borrow, handle_out, text};
use crate::code::Failure;
use crate::domain::outlive_domain_t;

/// What an opening does with a name: the `how` of all functions that open something by its name.
///
/// Options that are 0 or NULL take what an existing thing has; one that is set, and is not what the
/// thing has, is EINVAL. Options that concern the calling process alone (how it waits) are never
/// compared. All these functions return, besides what they say themselves:
///
/// - EINVAL: an invalid name, domain, `how` or option, or options that contradict what is there.
/// - ENOENT: nothing has that name (OUTLIVE_OPEN).
/// - EEXIST: something has that name, of whatever kind (OUTLIVE_CREATE_NEW).
/// - OUTLIVE_OTHER_KIND: the name is in use for something else.
/// - OUTLIVE_OTHER_TYPE: what has the name has values of another type, size or layout.
/// - ENOSPC, ENOMEM, EACCES, EUSERS, OUTLIVE_OTHER_VERSION, OUTLIVE_NOT_OURS, OUTLIVE_DAMAGED, and
///   errors of the system.
///
/// If a process dies while it makes something, nothing is left of it.
#[repr(C)]
pub enum outlive_opening_t {
    /// Opens what has that name, and makes it if nothing has.
    OUTLIVE_OPEN_OR_CREATE = 0,
    /// Opens what has that name, which must exist.
    OUTLIVE_OPEN = 1,
    /// Makes something new of that name, which nothing may have.
    OUTLIVE_CREATE_NEW = 2,
}

/// What to open; `O`: where the handle goes, if there is one.
pub(crate) struct Naming<'a, O> {
    pub(crate) out: O,
    pub(crate) domain: &'a Domain,
    pub(crate) name: &'a str,
    pub(crate) opening: Opening,
}

/// Returns the first arguments of a function that opens something by its name, checked; there is no
/// handle in its place until the call has succeeded.
///
/// # Safety
/// The C caller guarantees a live domain, a NUL-terminated name and a place for the handle, each of
/// which may be NULL: that is EINVAL.
pub(crate) unsafe fn naming<'a, T>(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    place: *mut *mut T,
) -> Result<Naming<'a, Out<*mut T>>, Failure> {
    // SAFETY: the C caller passes a place for the handle, or NULL.
    let out = unsafe { handle_out(place) }?;
    // SAFETY: the C caller passes a live domain and a NUL-terminated name, or NULL.
    let Naming { domain, name, opening, .. } = unsafe { named(domain, name, how) }?;
    Ok(Naming { out, domain, name, opening })
}

/// Does the same for a function that opens something and returns no handle.
///
/// # Safety
/// The C caller guarantees a live domain and a NUL-terminated name, each of which may be NULL: that
/// is EINVAL.
pub(crate) unsafe fn named<'a>(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
) -> Result<Naming<'a, ()>, Failure> {
    // SAFETY: the C caller passes a live domain and a NUL-terminated name, or NULL.
    let (domain, name) = unsafe { (borrow(domain, "a domain")?, text(name, "a name")?) };
    Ok(Naming { out: (), domain: &domain.0, name, opening: opening(how)? })
}

/// Returns the opening that a C caller asks for. A number that is none of the enum's is no value of
/// Rust's, hence the `MaybeUninit`.
pub(crate) fn opening(how: MaybeUninit<outlive_opening_t>) -> Result<Opening, Failure> {
    const OPEN_OR_CREATE: u32 = outlive_opening_t::OUTLIVE_OPEN_OR_CREATE as u32;
    const OPEN: u32 = outlive_opening_t::OUTLIVE_OPEN as u32;
    const CREATE_NEW: u32 = outlive_opening_t::OUTLIVE_CREATE_NEW as u32;
    const _: () = assert!(size_of::<outlive_opening_t>() == size_of::<u32>());
    // SAFETY: an enum of C's is an integer of four bytes, as just checked, which the C caller has
    // passed; any bytes are a u32.
    match unsafe { how.as_ptr().cast::<u32>().read() } {
        OPEN_OR_CREATE => Ok(Opening::OpenOrCreate),
        OPEN => Ok(Opening::Open),
        CREATE_NEW => Ok(Opening::CreateNew),
        _ => Err(Failure::new(libc::EINVAL, "none of the openings: see outlive_opening_t")),
    }
}

/// Opens by the core's options in the way that a [`Naming`] says.
macro_rules! open_as {
    ($options:expr, $naming:expr) => {{
        let (options, naming) = ($options, &$naming);
        match naming.opening {
            outlive::Opening::OpenOrCreate => options.open_or_create(naming.domain, naming.name),
            outlive::Opening::Open => options.open(naming.domain, naming.name),
            outlive::Opening::CreateNew => options.create_new(naming.domain, naming.name),
        }
    }};
}
pub(crate) use open_as;

/// Does the same with options whose messages or values are bytes here: what is there already may be
/// of any type.
macro_rules! open_as_bytes {
    ($options:expr, $naming:expr) => {{
        let (options, naming) = ($options, &$naming);
        match naming.opening {
            outlive::Opening::Open => options.open_as_bytes(naming.domain, naming.name),
            _ => $crate::opening::open_as!(options, naming),
        }
    }};
}
pub(crate) use open_as_bytes;
