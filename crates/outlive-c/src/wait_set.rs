//! Wait sets: waiting for many things at once. What a set waits for is added by `wait_sources.rs`,
//! `wait_told.rs` and `stand_by.rs`.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::AsRawFd;

use outlive::state::Watch;
use outlive::topic::{Due, Presence, Writable};
use outlive::wait::{Key, Readiness, Source, Timer, WaitSet};

use crate::argument::{borrow, borrow_mut, handle_out, out};
use crate::code::{Failure, entry};
use crate::deadline::{in_time, moment, outlive_deadline_t};
use crate::domain::outlive_domain_t;

/// A set of sources to wait for, all of one domain. One thread at a time may use it.
pub struct outlive_wait_set_t {
    set: WaitSet,
    next: u64,
    numbers: HashMap<Key, u64>,
    keys: HashMap<u64, Key>,
    pub(crate) told: HashMap<u64, Told>,
}

/// Sources of which the set tells more than that they are ready, by this process's part of them.
pub(crate) enum Told {
    Timer(Timer),
    State(Watch),
    Topic(Presence),
    Due(Due),
    Room(Writable),
}

/// A receive is worth a try.
pub const OUTLIVE_READABLE: u32 = 1;
/// The peer, or all senders of a queue, have ended.
pub const OUTLIVE_ENDED: u32 = 2;
/// The bits are set; the latch is open.
pub const OUTLIVE_SET: u32 = 3;
/// The timer's moment has passed.
pub const OUTLIVE_ELAPSED: u32 = 4;

/// There is another value; or the publishers or subscribers have changed.
pub const OUTLIVE_CHANGED: u32 = 5;
/// A publish is worth a try.
pub const OUTLIVE_WRITABLE: u32 = 6;
/// The subscriber has got no message, or the publisher has published none, for its period.
pub const OUTLIVE_MISSED: u32 = 7;

/// A source that is ready.
#[repr(C)]
pub struct outlive_ready_t {
    /// Its key, as the call that added it returned it.
    pub key: u64,
    /// What it is ready for: one of the numbers above.
    pub what: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// Makes an empty set, for sources of that domain.
///
/// Owner: `*set` is the caller's, until `outlive_wait_set_close`.
///
/// Errors: EINVAL.
///
/// If a process dies whose end a set waits for, all such sets report it; what a dead sender had
/// sent is still reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_open(
    domain: *const outlive_domain_t,
    set: *mut *mut outlive_wait_set_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `set` and a live domain.
        let (out, domain) = unsafe { (handle_out(set)?, borrow(domain, "a domain")?) };
        out.put(Box::into_raw(Box::new(outlive_wait_set_t {
            set: WaitSet::new(&domain.0),
            next: 1,
            numbers: HashMap::new(),
            keys: HashMap::new(),
            told: HashMap::new(),
        })));
        Ok(())
    })
}

/// Closes a set, and its descriptor. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_close(set: *mut outlive_wait_set_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { crate::domain::close(set) }
}

/// Adds a source; returns its key.
///
/// # Safety
/// The C caller passes a live set that no other thread uses, and a place for `key`.
pub(crate) unsafe fn add(
    set: *mut outlive_wait_set_t,
    source: &impl Source,
    key: *mut u64,
) -> Result<u64, Failure> {
    // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
    let (this, out) = unsafe { (borrow_mut(set, "a set")?, out(key)?) };
    let number = this.next;
    let added = this.set.add(source)?;
    this.next += 1;
    this.numbers.insert(added, number);
    this.keys.insert(number, added);
    out.put(number);
    Ok(number)
}

/// Removes a source from the set. The handle that it was made from may be closed before or after.
///
/// Errors: EINVAL: the set does not have it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_remove(set: *mut outlive_wait_set_t, key: u64) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set that no other thread uses.
        let set = unsafe { borrow_mut(set, "a set") }?;
        let known = set
            .keys
            .remove(&key)
            .ok_or_else(|| Failure::new(libc::EINVAL, "nothing in this set has that key"))?;
        set.numbers.remove(&known);
        set.told.remove(&key);
        set.set.remove(known);
        Ok(())
    })
}

/// Waits until a source is ready, or until the deadline, and writes all that are ready then to
/// `ready`, as many as fit; `*count` is how many were written. A source is reported as long as it
/// is ready, so those that did not fit are reported the next time.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: no source is ready. EINVAL, EUSERS, and errors of
/// the system.
///
/// If a process dies that waits in a set, that has no effect on others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_wait(
    set: *mut outlive_wait_set_t,
    ready: *mut outlive_ready_t,
    capacity: usize,
    count: *mut usize,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set that no other thread uses and a place for `count`.
        let (this, out) = unsafe { (borrow_mut(set, "a set")?, out(count)?) };
        if ready.is_null() || capacity == 0 {
            return Err(Failure::new(libc::EINVAL, "no room for what is ready"));
        }
        let found = match moment(deadline) {
            Some(moment) => this.set.wait_until(moment)?,
            None => this.set.try_wait()?,
        };
        let mut written = 0;
        for (key, what) in found.take(capacity) {
            let what = match what {
                Readiness::Readable => OUTLIVE_READABLE,
                Readiness::Ended => OUTLIVE_ENDED,
                Readiness::Set => OUTLIVE_SET,
                Readiness::Elapsed => OUTLIVE_ELAPSED,
                Readiness::Changed => OUTLIVE_CHANGED,
                Readiness::Writable => OUTLIVE_WRITABLE,
                Readiness::Missed => OUTLIVE_MISSED,
                _ => 0,
            };
            let key = this.numbers.get(&key).copied().unwrap_or(0);
            // SAFETY: `written` is below `capacity`, for which the C caller passes room at `ready`.
            unsafe { ready.add(written).write(outlive_ready_t { key, what, reserved: 0 }) };
            written += 1;
        }
        if written == 0 {
            return in_time(None, deadline, libc::EAGAIN);
        }
        out.put(written);
        Ok(())
    })
}

/// Returns a descriptor that is readable when a source is ready, for `epoll` and `poll`; it stays
/// readable until `outlive_wait_set_wait` with OUTLIVE_TRY has found nothing.
///
/// Owner: the set; do not read from it, and do not close it.
///
/// Errors: EINVAL, EUSERS, EMFILE, and errors of the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_fd(
    set: *mut outlive_wait_set_t,
    fd: *mut c_int,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live set that no other thread uses and a place for `fd`.
        let (set, out) = unsafe { (borrow_mut(set, "a set")?, out(fd)?) };
        out.put(set.set.as_fd()?.as_raw_fd());
        Ok(())
    })
}
