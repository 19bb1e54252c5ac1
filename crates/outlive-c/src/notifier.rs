//! Notifiers and listeners: notices that each listener counts.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use outlive::notify::{IDS, Listener, Notifier, NotifierEnd, NotifierOptions};

use crate::argument::{borrow, borrow_mut, options, out, out_or_none};
use crate::code::{Failure, entry};
use crate::deadline::{in_time, moment, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t};
use crate::opening::{naming, open_as, outlive_opening_t};
use crate::wait::wait_option;

/// Tells all listeners of a name that something has happened. All threads may use it at once.
pub struct outlive_notifier_t(Notifier);

/// Counts the notices of all notifiers of a name. One thread at a time may use it.
pub struct outlive_listener_t(pub(crate) Listener);

/// How many numbers of notices there are: 0 to 63.
pub const OUTLIVE_NOTICES: u32 = 64;

const _: () = assert!(OUTLIVE_NOTICES == IDS);

/// Options for opening a notifier or a listener, or for making what both share. Begin with
/// `OUTLIVE_NOTIFIER_OPTIONS_INIT`. A notice is named by its bit: `1ull << number`; 0: not set.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_notifier_options_t {
    /// `sizeof(outlive_notifier_options_t)`.
    pub size: usize,
    /// The bit of the notice that all listeners get when a notifier comes. A new one's default:
    /// none.
    pub on_created: u64,
    /// The bit of the notice that all listeners get when a notifier is closed. A new one's
    /// default: none.
    pub on_left: u64,
    /// The bit of the notice that all listeners get when a notifier's process has died. A new
    /// one's default: none.
    pub on_died: u64,
    /// How a listener waits: one of the OUTLIVE_WAIT numbers.
    pub wait: u32,
    /// 0.
    pub reserved: u32,
}

/// How many notices of each number a listener has been told. Its size never changes.
#[repr(C)]
pub struct outlive_notices_t {
    /// The numbers of which there are notices, as bits.
    pub bits: u64,
    /// By number, how many there are.
    pub counts: [u64; 64],
}

/// Returns the number of the notice that a bit names.
fn number(bit: u64) -> Result<Option<u32>, Failure> {
    match bit.count_ones() {
        0 => Ok(None),
        1 => Ok(Some(bit.trailing_zeros())),
        _ => Err(Failure::new(libc::EINVAL, "a notice is named by one bit: 1ull << number")),
    }
}

/// Returns the core's options.
///
/// # Safety
/// The C caller passes NULL or options of the size that they say.
unsafe fn given<E: NotifierEnd>(
    mut options: NotifierOptions<E>,
    given: *const outlive_notifier_options_t,
) -> Result<NotifierOptions<E>, Failure> {
    let default = outlive_notifier_options_t {
        size: 0,
        on_created: 0,
        on_left: 0,
        on_died: 0,
        wait: 0,
        reserved: 0,
    };
    // SAFETY: the caller guarantees it; all fields are integers.
    let given = unsafe { self::options(given, default) }?;
    if let Some(wait) = wait_option(given.wait)? {
        options = options.wait_strategy(wait);
    }
    if let Some(id) = number(given.on_created)? {
        options = options.on_created(id);
    }
    if let Some(id) = number(given.on_left)? {
        options = options.on_left(id);
    }
    if let Some(id) = number(given.on_died)? {
        options = options.on_died(id);
    }
    Ok(options)
}

/// Opens a notifier of that name, and makes what notifiers and listeners share if there is none.
/// `options` NULL: none is set. A name has up to 64 notifiers at a time.
///
/// Owner: `*notifier` is the caller's, until `outlive_notifier_close`.
///
/// Errors: see `outlive_opening_t`; EUSERS: there are 64.
///
/// If a process dies, listeners are told, if that was made with `on_died`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_notifier_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_notifier_options_t,
    notifier: *mut *mut outlive_notifier_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `notifier`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, notifier) }?;
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let options = unsafe { given(Notifier::options(), options) }?;
        let opened = open_as!(options, naming)?;
        naming.out.put(Box::into_raw(Box::new(outlive_notifier_t(opened))));
        Ok(())
    })
}

/// Closes a notifier: listeners are told, if that was made with `on_left`. Passing NULL has no
/// effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_notifier_close(notifier: *mut outlive_notifier_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(notifier) }
}

/// Adds a notice of that number, 0 to 63, to the counts of each listener, and wakes those that
/// sleep. `*listeners` (may be NULL): how many living listeners there were.
///
/// Errors: EINVAL: the number; EPERM: a forked child's copy.
///
/// If a process dies during the call, some listeners may have the notice, and others not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_notifier_notify(
    notifier: *const outlive_notifier_t,
    number: u32,
    listeners: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live notifier, and NULL or a place for `listeners`.
        let (notifier, out) = unsafe { (borrow(notifier, "a notifier")?, out_or_none(listeners)) };
        let told = notifier.0.notify(number)?;
        if let Some(out) = out {
            out.put(told);
        }
        Ok(())
    })
}

/// Opens a listener of that name, and makes what notifiers and listeners share if there is none.
/// `options` NULL: none is set. It counts what is notified from now on. A name has up to 64
/// listeners at a time.
///
/// Owner: `*listener` is the caller's, until `outlive_listener_close`.
///
/// Errors: see `outlive_opening_t`; EUSERS: there are 64.
///
/// If a process dies, the notices that it had not taken are lost with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_listener_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_notifier_options_t,
    listener: *mut *mut outlive_listener_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `listener`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, listener) }?;
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let options = unsafe { given(Listener::options(), options) }?;
        let opened = open_as!(options, naming)?;
        naming.out.put(Box::into_raw(Box::new(outlive_listener_t(opened))));
        Ok(())
    })
}

/// Closes a listener. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_listener_close(listener: *mut outlive_listener_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(listener) }
}

/// Waits until there are notices, or until the deadline, and takes all that are there.
///
/// Errors: ETIMEDOUT, EAGAIN; EPERM: a forked child's copy; EINVAL.
///
/// If a notifier's process dies, that is a notice, if there is an `on_died`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_listener_wait(
    listener: *mut outlive_listener_t,
    deadline: outlive_deadline_t,
    notices: *mut outlive_notices_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live listener that no other thread uses, and a place for
        // `notices`.
        let (listener, out) = unsafe { (borrow_mut(listener, "a listener")?, out(notices)?) };
        let found = match moment(deadline) {
            None => listener.0.try_wait()?,
            Some(moment) => listener.0.wait_until(moment)?,
        };
        let found = in_time(found, deadline, libc::EAGAIN)?;
        let mut counts = [0; 64];
        for (id, count) in &found {
            counts[id as usize] = count;
        }
        out.put(outlive_notices_t { bits: found.bits(), counts });
        Ok(())
    })
}
