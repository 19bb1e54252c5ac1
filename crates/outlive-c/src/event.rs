//! Events and latches: by name, or inside a record.

use std::ffi::{c_char, c_int};

use outlive::sync::{EmbeddedEvent, EmbeddedLatch, Event, Latch, Reset, Untyped};
use outlive::{Error, Kind};

use crate::argument::{borrow, borrow_mut, handle_out, out_or_none, text};
use crate::code::{Failure, OUTLIVE_OTHER_TYPE, entry, entry_or};
use crate::deadline::{in_time, moment, outlive_deadline_t};
use crate::domain::outlive_domain_t;
use crate::place::{self, Primitive, fast_table, find};

/// Thirty-two bits to wait for, in shared memory: 32 bytes of a record, or a named one. All zeroes
/// are a new event whose bits stay set until they are cleared.
#[repr(C)]
pub struct outlive_event_t {
    words: [u64; 4],
}

/// A number of arrivals to wait for, in shared memory: 32 bytes of a record, or a named one. All
/// zeroes are an open latch.
#[repr(C)]
pub struct outlive_latch_t {
    words: [u64; 4],
}

const _: () = place::same_shape::<outlive_event_t, EmbeddedEvent>();
const _: () = place::same_shape::<outlive_latch_t, EmbeddedLatch>();

/// Bits stay set until they are cleared.
pub const OUTLIVE_RESET_MANUAL: u32 = 0;
/// A waiter clears the bits that it waited for.
pub const OUTLIVE_RESET_AUTOMATIC: u32 = 1;

/// More arrivals than this are this many.
const MOST_ARRIVALS: u32 = i32::MAX as u32;

pub(crate) struct EventHandle(pub(crate) Event);

impl Primitive for EventHandle {
    type Words = outlive_event_t;
    const KIND: Kind = Kind::Event;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<EventHandle> {
        untyped.handle::<EmbeddedEvent>(offset).map(EventHandle)
    }
}

pub(crate) struct LatchHandle(pub(crate) Latch);

impl Primitive for LatchHandle {
    type Words = outlive_latch_t;
    const KIND: Kind = Kind::Latch;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<LatchHandle> {
        untyped.handle::<EmbeddedLatch>(offset).map(LatchHandle)
    }
}

fn reset_of(number: u32) -> Result<Reset, Failure> {
    match number {
        OUTLIVE_RESET_MANUAL => Ok(Reset::Manual),
        OUTLIVE_RESET_AUTOMATIC => Ok(Reset::Automatic),
        _ => Err(Failure::new(libc::EINVAL, "none of the OUTLIVE_RESET numbers")),
    }
}

/// Opens the event of that name, or makes it. `reset`: OUTLIVE_RESET_MANUAL or
/// OUTLIVE_RESET_AUTOMATIC.
///
/// Owner: `*event` is in shared memory, mapped until `outlive_event_close`.
///
/// Errors: as `outlive_mutex_open`; OUTLIVE_OTHER_TYPE when the event exists with the other reset.
///
/// If a process dies while it makes the event, nothing is left of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    reset: u32,
    event: *mut *mut outlive_event_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `event`, a live domain, and a NUL-terminated
        // name.
        let (out, domain, name) =
            unsafe { (handle_out(event)?, borrow(domain, "a domain")?, text(name, "a name")?) };
        match Event::options().reset(reset_of(reset)?).open_or_create(&domain.0, name) {
            Err(other @ Error::OtherOptions { .. }) => {
                return Err(Failure::new(OUTLIVE_OTHER_TYPE, &other.to_string()));
            }
            opened => opened?,
        };
        out.put(place::open(Untyped::named(&domain.0, name, Kind::Event)?).cast());
        Ok(())
    })
}

/// Sets, in a record's initialiser, how a new event's bits are reset.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_init(event: *mut outlive_event_t, reset: u32) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes an event of a new record, which no other process sees; of the
        // same size; every pattern of bytes is a value.
        unsafe { borrow_mut(event.cast::<EmbeddedEvent>(), "an event") }?
            .set_reset(reset_of(reset)?);
        Ok(())
    })
}

/// Closes this opening of a named event. No thread of this process may wait for it by this address.
/// Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_close(event: *mut outlive_event_t) {
    entry(|| place::close(event.cast(), Kind::Event));
}

/// Sets bits, 0 to 30, and wakes all waiters. `*before` (may be NULL): the bits as they were; while
/// threads wait, as they were a moment before.
///
/// Errors: EINVAL, also for bit 31.
///
/// If a process dies during the call, bits that it has set stay set, and waiters are woken all the
/// same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_set(
    event: *mut outlive_event_t,
    bits: u32,
    before: *mut u32,
) -> c_int {
    entry(|| {
        let event = &find::<EventHandle>(event)?.0;
        if bits & !Event::ALL != 0 {
            return Err(Failure::new(libc::EINVAL, "an event has 31 bits, 0 to 30"));
        }
        let old = event.set(bits);
        // SAFETY: the C caller passes NULL or a place for `before`.
        if let Some(out) = unsafe { out_or_none(before) } {
            out.put(old);
        }
        Ok(())
    })
}

/// Clears bits. `*before` (may be NULL): the bits as they were.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_clear(
    event: *mut outlive_event_t,
    bits: u32,
    before: *mut u32,
) -> c_int {
    entry(|| {
        let old = find::<EventHandle>(event)?.0.clear(bits);
        // SAFETY: the C caller passes NULL or a place for `before`.
        if let Some(out) = unsafe { out_or_none(before) } {
            out.put(old);
        }
        Ok(())
    })
}

/// Returns the bits as they are. 0 for what is no event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_bits(event: *const outlive_event_t) -> u32 {
    entry_or(0, || Ok(find::<EventHandle>(event)?.0.bits()))
}

/// # Safety
/// The caller guarantees that `seen` is NULL, or a place for a number.
unsafe fn wait_for(
    event: *mut outlive_event_t,
    bits: u32,
    all: bool,
    deadline: outlive_deadline_t,
    seen: *mut u32,
) -> Result<(), Failure> {
    let event = &find::<EventHandle>(event)?.0;
    let got = match (moment(deadline), all) {
        (Some(moment), false) => event.wait_any_until(bits, moment),
        (Some(moment), true) => event.wait_all_until(bits, moment),
        (None, false) => event.try_wait_any(bits),
        (None, true) => event.try_wait_all(bits),
    }?;
    let got = in_time(got, deadline, libc::EAGAIN)?;
    // SAFETY: the caller guarantees that `seen` is NULL, or a place for a number.
    if let Some(out) = unsafe { out_or_none(seen) } {
        out.put(got);
    }
    Ok(())
}

/// Waits until one of the bits is set, or until the deadline. `*seen` (may be NULL): which of them
/// were.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
///
/// If another waiter dies, that has no effect. The event does not know which process ought to set
/// the bits; see `outlive_wait_set_t` for watching its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_wait_any(
    event: *mut outlive_event_t,
    bits: u32,
    deadline: outlive_deadline_t,
    seen: *mut u32,
) -> c_int {
    // SAFETY: the C caller passes NULL or a place for `seen`.
    entry(|| unsafe { wait_for(event, bits, false, deadline, seen) })
}

/// Waits until all of the bits are set at once, or until the deadline. Otherwise it is the same as
/// `outlive_event_wait_any`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_wait_all(
    event: *mut outlive_event_t,
    bits: u32,
    deadline: outlive_deadline_t,
    seen: *mut u32,
) -> c_int {
    // SAFETY: the C caller passes NULL or a place for `seen`.
    entry(|| unsafe { wait_for(event, bits, true, deadline, seen) })
}

/// Opens the latch of that name, or makes one that so many arrivals open.
///
/// Owner: `*latch` is in shared memory, mapped until `outlive_latch_close`.
///
/// Errors: as `outlive_mutex_open`; EINVAL when it exists and began with another number.
///
/// If a process dies while it makes the latch, nothing is left of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_latch_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    arrivals: u32,
    latch: *mut *mut outlive_latch_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `latch`, a live domain, and a NUL-terminated
        // name.
        let (out, domain, name) =
            unsafe { (handle_out(latch)?, borrow(domain, "a domain")?, text(name, "a name")?) };
        Latch::options(arrivals.min(MOST_ARRIVALS)).open_or_create(&domain.0, name)?;
        out.put(place::open(Untyped::named(&domain.0, name, Kind::Latch)?).cast());
        Ok(())
    })
}

/// Sets, in a record's initialiser, how many arrivals open a new latch.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_latch_init(latch: *mut outlive_latch_t, arrivals: u32) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a latch of a new record, which no other process sees; every
        // pattern of bytes is a value.
        unsafe { borrow_mut(latch.cast::<EmbeddedLatch>(), "a latch") }?.expect_arrivals(arrivals);
        Ok(())
    })
}

/// Closes this opening of a named latch. No thread of this process may wait for it by this address.
/// Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_latch_close(latch: *mut outlive_latch_t) {
    entry(|| place::close(latch.cast(), Kind::Latch));
}

/// Arrives so many times; the last arrival wakes all waiters. UINT32_MAX opens the latch at once.
/// `*missing` (may be NULL): how many arrivals are missing now.
///
/// Errors: EINVAL.
///
/// If a process dies during the call, it has arrived or not; waiters are woken all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_latch_arrive(
    latch: *mut outlive_latch_t,
    arrivals: u32,
    missing: *mut u32,
) -> c_int {
    entry(|| {
        let left = find::<LatchHandle>(latch)?.0.arrive(arrivals);
        // SAFETY: the C caller passes NULL or a place for `missing`.
        if let Some(out) = unsafe { out_or_none(missing) } {
            out.put(left);
        }
        Ok(())
    })
}

/// Waits until the latch is open, or until the deadline.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_latch_wait(
    latch: *mut outlive_latch_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let latch = &find::<LatchHandle>(latch)?.0;
        match moment(deadline) {
            Some(moment) => Ok(latch.wait_until(moment)?),
            None if latch.is_open() => Ok(()),
            None => Err(Failure::new(libc::EAGAIN, "arrivals are missing still")),
        }
    })
}
