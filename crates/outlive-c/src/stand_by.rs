//! Standing by in a wait set: sources that are ready while no living process has a role.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use crate::argument::borrow;
use crate::code::entry;
use crate::domain::outlive_domain_t;
use crate::opening::{named, outlive_opening_t};
use crate::queue::outlive_queue_t;
use crate::rpc::{outlive_service_options_t, service};
use crate::state::outlive_state_t;
use crate::wait_set::{add, outlive_wait_set_t};

/// Adds a queue of which this process stands by to be the receiver: OUTLIVE_ENDED while no living
/// process receives. Then `outlive_queue_receiver` with OUTLIVE_TRY makes the receiver, unless another
/// process was faster (EBUSY): the source is not ready any more then.
///
/// Errors: EXDEV, EINVAL.
///
/// If the process that receives dies, the source is ready once its last thread has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_queue_stand_by(
    set: *mut outlive_wait_set_t,
    queue: *const outlive_queue_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue, a live set that no other thread uses, and a place
        // for `key`.
        unsafe { add(set, &borrow(queue, "a queue")?.0.stand_by(), key) }.map(drop)
    })
}

/// Adds a state of which this process stands by to be the writer: OUTLIVE_ENDED while no living
/// process writes. Then `outlive_state_writer` with OUTLIVE_TRY makes the writer, unless another
/// process was faster (EBUSY).
///
/// Errors: EXDEV, EINVAL.
///
/// If the process that writes dies, the source is ready once its last thread has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_state_stand_by(
    set: *mut outlive_wait_set_t,
    state: *const outlive_state_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live state, a live set that no other thread uses, and a place
        // for `key`.
        unsafe { add(set, &borrow(state, "a state")?.0.stand_by(), key) }.map(drop)
    })
}

/// Adds a service of which this process stands by to be a server: OUTLIVE_ENDED while no living
/// process serves, or, of a service for several servers, while there is room for one. Then
/// `outlive_server_open` makes the server, unless another process was faster (EBUSY). The service is
/// opened, or made, as `outlive_server_open` does with the same arguments; `serve_by` of the options
/// has no effect.
///
/// Errors: see `outlive_opening_t`; EXDEV.
///
/// If a server dies, the source is ready once its last thread has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_wait_set_add_service_stand_by(
    set: *mut outlive_wait_set_t,
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_service_options_t,
    key: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and a NUL-terminated name.
        let named = unsafe { named(domain, name, how) }?;
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let (service, _) = unsafe { service(&named, options) }?;
        // SAFETY: the C caller passes a live set that no other thread uses, and a place for `key`.
        unsafe { add(set, &service.stand_by(), key) }.map(drop)
    })
}
