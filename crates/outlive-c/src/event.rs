//! Events and latches: by name, or inside a record.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use outlive::sync::{EmbeddedEvent, EmbeddedLatch, Event, Latch, Reset, Untyped};
use outlive::{Kind, Opening};

use crate::argument::{borrow_mut, out_or_none};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{in_time, moment, outlive_deadline_t};
use crate::domain::outlive_domain_t;
use crate::opening::{naming, open_as, outlive_opening_t};
use crate::place::{self, Primitive, fast_table, find};

/// Thirty-one bits to wait for, in shared memory: 160 bytes of a record, or a named one. All zeroes
/// are a new event whose bits stay set until they are cleared.
#[repr(C)]
pub struct outlive_event_t {
    words: [u64; 20],
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
pub const OUTLIVE_RESET_MANUAL: u32 = 1;
/// A waiter clears the bits that it waited for.
pub const OUTLIVE_RESET_AUTOMATIC: u32 = 2;

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

fn reset_of(number: u32) -> Result<Option<Reset>, Failure> {
    match number {
        0 => Ok(None),
        OUTLIVE_RESET_MANUAL => Ok(Some(Reset::Manual)),
        OUTLIVE_RESET_AUTOMATIC => Ok(Some(Reset::Automatic)),
        _ => Err(Failure::new(libc::EINVAL, "none of the OUTLIVE_RESET numbers")),
    }
}

/// Opens the event of that name, or makes it. `reset`: OUTLIVE_RESET_MANUAL or
/// OUTLIVE_RESET_AUTOMATIC; 0: what an existing event has, and in a new one as
/// OUTLIVE_RESET_MANUAL.
///
/// Owner: `*event` is in shared memory, mapped until `outlive_event_close`.
///
/// Errors: see `outlive_opening_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    reset: u32,
    event: *mut *mut outlive_event_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `event`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, event) }?;
        let mut options = Event::options();
        if let Some(reset) = reset_of(reset)? {
            options = options.reset(reset);
        }
        let event = open_as!(options, naming)?;
        naming.out.put(place::open(Untyped::of(&event)?).cast());
        Ok(())
    })
}

/// Sets, in a record's initialiser, how a new event's bits are reset: as in `outlive_event_open`.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_event_init(event: *mut outlive_event_t, reset: u32) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes an event of a new record, which no other process sees; of the
        // same size; every pattern of bytes is a value.
        unsafe { borrow_mut(event.cast::<EmbeddedEvent>(), "an event") }?
            .set_reset(reset_of(reset)?.unwrap_or(Reset::Manual));
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

/// Clears bits. `*before` (may be NULL): the bits as they were. With OUTLIVE_RESET_MANUAL, threads
/// that have waited for one of them since before return all the same; a wait for all of several does
/// if one call cleared them together.
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

/// Opens the latch of that name, or makes one that so many arrivals open, 2,147,483,647 at most. 0,
/// with OUTLIVE_OPEN: whatever number it began with.
///
/// Owner: `*latch` is in shared memory, mapped until `outlive_latch_close`.
///
/// Errors: see `outlive_opening_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_latch_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    arrivals: u32,
    latch: *mut *mut outlive_latch_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `latch`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, latch) }?;
        let latch = if arrivals == 0 && naming.opening == Opening::Open {
            Latch::open(naming.domain, naming.name)
        } else {
            open_as!(Latch::options(arrivals), naming)
        }?;
        naming.out.put(place::open(Untyped::of(&latch)?).cast());
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
