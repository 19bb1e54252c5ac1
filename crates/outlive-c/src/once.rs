//! Onces: actions that are done once, by the first thread that asks.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use outlive::Kind;
use outlive::sync::{EmbeddedOnceLock, OnceLock, OnceState, Untyped};

use crate::code::{Failure, entry};
use crate::deadline::{in_time, moment, outlive_deadline_t};
use crate::domain::outlive_domain_t;
use crate::opening::{naming, open_as, outlive_opening_t};
use crate::place::{self, Primitive, fast_table, find};

/// Whether an action has been done once, in shared memory: 8 bytes of a record, or a named one. All
/// zeroes: not yet.
#[repr(C)]
pub struct outlive_once_t {
    words: [u64; 1],
}

const _: () = place::same_shape::<outlive_once_t, EmbeddedOnceLock<()>>();

struct Handle(OnceLock<()>);

impl Primitive for Handle {
    type Words = outlive_once_t;
    const KIND: Kind = Kind::Once;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<Handle> {
        untyped.handle::<EmbeddedOnceLock<()>>(offset).map(Handle)
    }
}

/// Does the action. `previous_died`: 1 when a thread began before and died: half of it may be done.
/// It must return.
pub type outlive_make_t = Option<unsafe extern "C" fn(argument: *mut c_void, previous_died: c_int)>;

/// Opens the once of that name, or makes it.
///
/// Owner: `*once` is in shared memory, mapped until `outlive_once_close`.
///
/// Errors: see `outlive_opening_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_once_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    once: *mut *mut outlive_once_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `once`, a live domain, and a NUL-terminated name.
        let naming = unsafe { naming(domain, name, how, once) }?;
        let once = open_as!(OnceLock::<()>::options(), naming)?;
        naming.out.put(place::open(Untyped::of(&once)?).cast());
        Ok(())
    })
}

/// Closes this opening of a named once. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_once_close(once: *mut outlive_once_t) {
    entry(|| place::close(once.cast(), Kind::Once));
}

/// Makes sure that the action has been done: calls `make(argument, previous_died)`, unless it has
/// been done. If another thread is doing it, this waits for that until the deadline.
///
/// Errors: ETIMEDOUT; EBUSY with OUTLIVE_TRY: a living thread is doing it. EDEADLK: this thread is
/// doing it. EINVAL, OUTLIVE_DAMAGED, EUSERS, ENOSPC.
///
/// If a process dies in the middle of `make`, the next caller, or a waiter, does the action, with
/// `previous_died` 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_once_do(
    once: *mut outlive_once_t,
    make: outlive_make_t,
    argument: *mut c_void,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        let make = make.ok_or_else(|| Failure::new(libc::EINVAL, "NULL in place of a function"))?;
        let once = &find::<Handle>(once)?.0;
        // SAFETY: the C caller passes a `make` that takes `argument`.
        let act = |state: OnceState| unsafe { make(argument, c_int::from(state.previous_died())) };
        let done = match moment(deadline) {
            Some(moment) => once.get_or_init_until(moment, act),
            None => once.try_get_or_init(act),
        }?;
        in_time(done, deadline, libc::EBUSY).copied()
    })
}

/// Returns whether it has been done: 1, 0. 0 for what is no once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_once_is_done(once: *const outlive_once_t) -> c_int {
    crate::code::entry_or(0, || Ok(c_int::from(find::<Handle>(once)?.0.get().is_some())))
}
