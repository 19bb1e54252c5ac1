//! What a test tells the driver, and asks it.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::{
    Code, INVALID_CONTEXT, NOT_INITIALIZED, NOT_PERMITTED, blocks, contexts, device_memory,
    host_memory, lock, modules, streams,
};

pub(crate) static INITIALIZED: AtomicBool = AtomicBool::new(false);
/// Driver calls in host functions, and what else is forbidden.
pub(crate) static VIOLATIONS: AtomicU64 = AtomicU64::new(0);
/// The error that the context has; 0: none.
static BROKEN: AtomicI32 = AtomicI32::new(0);
/// How long a copy rests after each chunk, in microseconds.
static DELAY: AtomicU64 = AtomicU64::new(0);
/// By name: how many calls are still good, and what the next returns.
static FAULTS: Mutex<Vec<(String, u32, Code)>> = Mutex::new(Vec::new());
static ATTRIBUTES: Mutex<Option<HashMap<c_int, c_int>>> = Mutex::new(None);
static GATE: Mutex<bool> = Mutex::new(false);
static GATE_CHANGED: Condvar = Condvar::new();

thread_local! {
    pub(crate) static INSIDE_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// What a call needs to be done at all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Driver,
    Context,
    /// A context that works.
    Sound,
}

/// Begins every entry point.
pub(crate) fn enter(name: &str, needs: Needs) -> Result<(), Code> {
    if INSIDE_HOST_FUNCTION.get() {
        VIOLATIONS.fetch_add(1, Ordering::Relaxed);
        return Err(NOT_PERMITTED);
    }
    {
        let mut faults = lock(&FAULTS);
        if let Some(at) = faults.iter().position(|fault| fault.0 == name) {
            match faults[at].1.checked_sub(1) {
                Some(left) => faults[at].1 = left,
                None => return Err(faults.remove(at).2),
            }
        }
    }
    if needs != Needs::Nothing && !INITIALIZED.load(Ordering::Relaxed) {
        return Err(NOT_INITIALIZED);
    }
    if matches!(needs, Needs::Context | Needs::Sound) && !contexts::has_current() {
        return Err(INVALID_CONTEXT);
    }
    match broken() {
        Some(code) if needs == Needs::Sound => Err(code),
        _ => Ok(()),
    }
}

pub(crate) fn broken() -> Option<Code> {
    Some(BROKEN.load(Ordering::Acquire)).filter(|&code| code != 0)
}

/// Gives the context that error from now on, if it had none.
pub(crate) fn break_context(code: Code) {
    let _ = BROKEN.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
}

/// Streams pass here before whatever they do.
pub(crate) fn pass_gate() {
    let mut shut = lock(&GATE);
    while *shut {
        shut = GATE_CHANGED.wait(shut).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

/// Lets a copy rest.
pub(crate) fn rest() {
    let delay = DELAY.load(Ordering::Relaxed);
    if delay > 0 {
        std::thread::sleep(Duration::from_micros(delay));
    }
}

/// Returns what a device says of itself.
pub(crate) fn attribute(which: c_int) -> c_int {
    let set = lock(&ATTRIBUTES);
    // Registering is supported, of memory that may only be read, too; so are blocks, and to export
    // them.
    let default = c_int::from(matches!(which, 99 | 102 | 103 | 113));
    set.as_ref().and_then(|set| set.get(&which)).copied().unwrap_or(default)
}

/// A call of that function returns `code`, once, after so many that are good.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_fake_fail(name: *const c_char, good: u32, code: c_int) {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    lock(&FAULTS).push((name, good, code));
}

/// The context has that error from now on: nothing that is enqueued is done, and no host function
/// called. 0: a new life.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_fake_break(code: c_int) {
    BROKEN.store(code, Ordering::Release);
}

/// The device says that of itself. Besides: −1, all streams are captured; −2, which device it is;
/// −3, no memory is mapped that may only be read; −4, streams have no threads: what is enqueued is
/// done at once.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_fake_set_attribute(which: c_int, value: c_int) {
    lock(&ATTRIBUTES).get_or_insert_default().insert(which, value);
}

/// Copies rest so many microseconds after each 64 KiB.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_fake_delay(microseconds: u64) {
    DELAY.store(microseconds, Ordering::Relaxed);
}

/// Not 0: all streams stop before whatever they would do next, until it is 0.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_fake_shut(shut: c_int) {
    *lock(&GATE) = shut != 0;
    GATE_CHANGED.notify_all();
}

/// Returns how many there are: 0 registrations, 1 registrations there ever were, 2 violations, 3
/// streams, 4 allocations, 5 contexts that are retained, 6 events, 7 host functions called, 8
/// modules, 9 handles, reservations and mappings of blocks.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_fake_count(what: c_int) -> u64 {
    match what {
        0 => host_memory::count(),
        1 => host_memory::EVER.load(Ordering::Relaxed),
        2 => VIOLATIONS.load(Ordering::Relaxed) + host_memory::unmapped(),
        3 => streams::count(),
        4 => device_memory::count(),
        5 => contexts::RETAINED.load(Ordering::Relaxed),
        6 => streams::EVENTS.load(Ordering::Relaxed),
        7 => streams::HOST_FUNCTIONS.load(Ordering::Relaxed),
        8 => modules::count(),
        9 => blocks::count(),
        _ => u64::MAX,
    }
}
