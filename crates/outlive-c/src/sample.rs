//! Received messages, and what publishers send along with them.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use outlive::topic::{Header, Sample};

use crate::argument::{borrow, out};
use crate::code::{Failure, entry, entry_or};

/// A received message: it stays as it is until it is released, whatever its publisher does. All
/// threads may use it at once, also longer than its subscriber exists.
pub struct outlive_sample_t(PhantomData<Sample<[u8]>>);

impl outlive_sample_t {
    /// The handle is the sample itself, which is one pointer.
    #[inline]
    pub(crate) fn of(sample: Sample<[u8]>) -> *mut outlive_sample_t {
        sample.into_raw().as_ptr().cast()
    }
}

/// Returns the sample that a handle is.
///
/// # Safety
/// The C caller guarantees NULL, or a handle from `outlive_sample_t::of`, for as long as `'a`.
#[inline]
unsafe fn sample<'a>(
    handle: *const outlive_sample_t,
) -> Result<impl Deref<Target = Sample<[u8]>> + 'a, Failure> {
    // SAFETY: the C caller passes NULL or a live sample; it is only read.
    let handle = NonNull::from(unsafe { borrow(handle, "a sample") }?);
    // SAFETY: the handle comes from `outlive_sample_t::of`; `ManuallyDrop` keeps this copy from
    // being dropped.
    Ok(ManuallyDrop::new(unsafe { Sample::from_raw(handle.cast()) }))
}

/// Data that a publisher sends along with a message. Its size never changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_header_t {
    /// The time: nanoseconds since 1970, or what the users of a topic agree on. 0: publishers fill
    /// in the time of day, unless the topic has no stamps.
    pub stamp: u64,
    /// A frame of reference, sensor or stream; its meaning is up to the application.
    pub frame: u64,
    /// The key by which subscribers may select messages.
    pub key: u64,
    /// Bytes for the application's own use.
    pub own: [u8; 32],
}

impl outlive_header_t {
    pub(crate) fn to_rust(self) -> Header {
        Header { stamp: self.stamp, frame: self.frame, key: self.key, own: self.own }
    }
}

/// Returns a sample's bytes, for reading: aligned to 8, or to 64 if there are more than 168. NULL
/// for NULL.
///
/// Owner: the sample.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_data(sample: *const outlive_sample_t) -> *const c_void {
    // SAFETY: the C caller passes NULL or a live sample.
    entry_or(core::ptr::null(), || Ok(unsafe { self::sample(sample) }?.bytes().as_ptr().cast()))
}

/// Returns how many bytes a sample has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_size(sample: *const outlive_sample_t) -> usize {
    // SAFETY: the C caller passes NULL or a live sample.
    entry_or(0, || Ok(unsafe { self::sample(sample) }?.bytes().len()))
}

/// Writes the header that its publisher sent along to `*header`; all zero if there was none.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_header(
    sample: *const outlive_sample_t,
    header: *mut outlive_header_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes NULL or a live sample and a place for `header`.
        let (sample, out) = unsafe { (self::sample(sample)?, out(header)?) };
        let Header { stamp, frame, key, own } = sample.header();
        out.put(outlive_header_t { stamp, frame, key, own });
        Ok(())
    })
}

/// Returns its number among the messages of its publisher's ring, without gaps except for lost
/// messages. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_sequence(sample: *const outlive_sample_t) -> u64 {
    // SAFETY: the C caller passes NULL or a live sample.
    entry_or(0, || Ok(unsafe { self::sample(sample) }?.sequence()))
}

/// Returns its order among all messages of the topic: a message that was published before another's
/// publishing began has the lower order. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_order(sample: *const outlive_sample_t) -> u64 {
    // SAFETY: the C caller passes NULL or a live sample.
    entry_or(0, || Ok(unsafe { self::sample(sample) }?.order()))
}

/// Returns the token of the process that published it. 0: not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_publisher(sample: *const outlive_sample_t) -> u32 {
    entry_or(0, || {
        // SAFETY: the C caller passes NULL or a live sample.
        Ok(unsafe { self::sample(sample) }?.publisher().map_or(0, |token| token.as_u32()))
    })
}

/// Returns the number of the session that it is of: each start of a publisher has a higher one. 0:
/// not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_session(sample: *const outlive_sample_t) -> u32 {
    // SAFETY: the C caller passes NULL or a live sample.
    entry_or(0, || Ok(unsafe { self::sample(sample) }?.session()))
}

/// Returns 1 if the process that published it is alive, 0 if not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_publisher_alive(sample: *const outlive_sample_t) -> c_int {
    // SAFETY: the C caller passes NULL or a live sample.
    entry_or(0, || Ok(c_int::from(unsafe { self::sample(sample) }?.publisher_alive())))
}

/// Returns how many nanoseconds ago it was published, by its stamp; UINT64_MAX without a stamp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_age(sample: *const outlive_sample_t) -> u64 {
    entry_or(u64::MAX, || {
        // SAFETY: the C caller passes NULL or a live sample.
        let age = unsafe { self::sample(sample) }?.age();
        Ok(age.map_or(u64::MAX, |age| age.as_nanos() as u64))
    })
}

/// Releases a sample: its memory can be reused. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sample_release(sample: *mut outlive_sample_t) {
    entry(|| {
        // SAFETY: the C caller passes a live sample, which it gives up.
        drop(NonNull::new(sample).map(|handle| unsafe { Sample::<[u8]>::from_raw(handle.cast()) }));
        Ok(())
    });
}
