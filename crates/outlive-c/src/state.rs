//! States: the latest value under a name.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use outlive::state::{Change, State, Writer};

use crate::argument::{borrow, borrow_mut, bytes, fill, handle_out, out, out_or_none};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t, outlive_peer_info_t};
use crate::opening::{naming, open_as, open_as_bytes, outlive_opening_t};
use crate::payload::{description, outlive_payload_t};

/// The latest value under a name: one writer, any number of readers; no reader and no writer waits
/// for another. All threads may use it at once.
pub struct outlive_state_t(pub(crate) State);

/// Sets the values of a state. One thread at a time may use it.
pub struct outlive_state_writer_t(Writer);

/// Opens the state of that name, or makes one with this value in it, for values of at most
/// `capacity` bytes, 128 MiB at most; a new state's default: 4 KiB, or `size` if that is more. An
/// existing state keeps its value. With OUTLIVE_OPEN its values may be of any type, and are bytes
/// here.
///
/// Owner: `*state` is the caller's, until `outlive_state_close`.
///
/// Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: its values are of one fixed size. ENOSPC:
/// also for a first value that is larger than `capacity`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    capacity: usize,
    initial: *const c_void,
    size: usize,
    state: *mut *mut outlive_state_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `state`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, state) }?;
        // SAFETY: the C caller passes `size` readable bytes at `initial`.
        let mut options = State::<[u8]>::options().initial(unsafe { bytes(initial, size) }?);
        if capacity > 0 {
            options = options.capacity(capacity);
        }
        let opened = open_as_bytes!(options, naming)?;
        naming.out.put(Box::into_raw(Box::new(outlive_state_t(opened))));
        Ok(())
    })
}

/// Opens the state of that name, or makes one whose values all have `size` bytes, with those at
/// `initial` in it (NULL: zeroes). It is the same as Rust's `State<T>` with a T of as many bytes,
/// and C++'s.
///
/// Owner: `*state` is the caller's, until `outlive_state_close`.
///
/// Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: its values have another size, or several.
/// EINVAL also for `size` 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_open_fixed(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    size: usize,
    initial: *const c_void,
    state: *mut *mut outlive_state_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `state`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, state) }?;
        if size == 0 {
            return Err(Failure::new(libc::EINVAL, "values of a fixed size have some bytes"));
        }
        // SAFETY: the C caller passes `size` readable bytes at `initial`.
        let initial = if initial.is_null() { &[] } else { unsafe { bytes(initial, size) }? };
        let options = State::<[u8]>::options().fixed_size(size).initial(initial);
        let opened = open_as!(options, naming)?;
        naming.out.put(Box::into_raw(Box::new(outlive_state_t(opened))));
        Ok(())
    })
}

/// Opens the state of that name, or makes one whose values are what `payload` describes, for all
/// languages; a new state begins with the `size` bytes at `initial` (NULL: zeroes). An existing one
/// with another description is refused, and `outlive_last_error` names the first field that differs.
/// Values of a described type all have its size; for slices and for encodings `capacity` is the most
/// bytes of a value (0: 4 KiB, or `size` if that is more). `payload` NULL: as `outlive_state_open`.
///
/// Owner: `*state` is the caller's, until `outlive_state_close`.
///
/// Errors: see `outlive_opening_t`. ENOSPC: also for a first value that is larger than `capacity`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_open_described(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    payload: *const outlive_payload_t,
    capacity: usize,
    initial: *const c_void,
    size: usize,
    state: *mut *mut outlive_state_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `state`, a live domain, a NUL-terminated name, and
        // NULL or a description.
        let (naming, payload) =
            unsafe { (naming(domain, name, how, state)?, description(payload)?) };
        let mut options = State::<[u8]>::options();
        if !initial.is_null() {
            // SAFETY: the C caller passes `size` readable bytes at `initial`.
            options = options.initial(unsafe { bytes(initial, size) }?);
        }
        if let Some(payload) = payload {
            options = options.description(payload);
        }
        if capacity > 0 {
            options = options.capacity(capacity);
        }
        let opened = open_as_bytes!(options, naming)?;
        naming.out.put(Box::into_raw(Box::new(outlive_state_t(opened))));
        Ok(())
    })
}

/// Closes a state. Its writer stays. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_close(state: *mut outlive_state_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(state) }
}

/// Copies the latest value, whole, into `buffer`; `*size`: its bytes; `*version` (may be NULL): its
/// version. Never waits. A `capacity` of `outlive_state_capacity` or more saves a second copy;
/// bytes of `buffer` behind the value may be written then.
///
/// Errors: EMSGSIZE: it does not fit; `*size` is the room that it needs. EINVAL, ENOMEM,
/// OUTLIVE_DAMAGED.
///
/// If the writer dies in the middle of a set, this returns the previous value, whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_get(
    state: *const outlive_state_t,
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
    version: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live state and a place for `size`.
        let (state, size) = unsafe { (borrow(state, "a state")?, out(size)?) };
        let (found, len) = if capacity >= state.0.config().capacity && !buffer.is_null() {
            // SAFETY: `buffer` has room for the state's capacity, as just compared.
            unsafe { state.0.get_to(buffer.cast()) }?
        } else {
            let mut value = Vec::new();
            let found = state.0.get_into(&mut value)?;
            size.put_early(value.len());
            // SAFETY: the C caller passes `capacity` writable bytes at `buffer`.
            unsafe { fill(&value, buffer, capacity) }?;
            (found, value.len())
        };
        size.put(len);
        // SAFETY: the C caller passes NULL or a place for `version`.
        if let Some(out) = unsafe { out_or_none(version) } {
            out.put(found);
        }
        Ok(())
    })
}

/// Returns the most bytes that its values can have. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_capacity(state: *const outlive_state_t) -> usize {
    // SAFETY: the C caller passes a live state.
    entry_or(0, || Ok(unsafe { borrow(state, "a state") }?.0.config().capacity))
}

/// Returns the latest value's version: the first value has version 1, and each set adds 1. 0 for
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_version(state: *const outlive_state_t) -> u64 {
    // SAFETY: the C caller passes a live state.
    entry_or(0, || Ok(unsafe { borrow(state, "a state") }?.0.version()))
}

/// Waits until the value has another version than `seen`, or its writer is dead, or until the
/// deadline. `*version` (may be NULL): the version now.
///
/// Errors: EPIPE: the writer is dead, and the value still has version `seen`. ETIMEDOUT, also with
/// OUTLIVE_TRY. EINVAL, EUSERS.
///
/// If the writer dies, waiters are told at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_wait_changed(
    state: *const outlive_state_t,
    seen: u64,
    deadline: outlive_deadline_t,
    version: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live state and NULL or a place for `version`.
        let (state, out) = unsafe { (borrow(state, "a state")?, out_or_none(version)) };
        let change = state.0.wait_changed_until(seen, moment_or_past(deadline))?;
        let change = change.ok_or_else(Failure::timed_out)?;
        let (now, died) = match change {
            Change::WriterDied { version } => (version, true),
            Change::Value { version } => (version, false),
            _ => (state.0.version(), false),
        };
        if let Some(out) = out {
            out.put(now);
        }
        if died {
            Err(Failure::new(
                libc::EPIPE,
                "the state's writer died; the value is what it set last, and another process may take over",
            ))
        } else {
            Ok(())
        }
    })
}

/// Makes this process the writer, if there is none or it is dead; waits until the deadline for a
/// living one to leave or to end.
///
/// Owner: `*writer` is the caller's, until `outlive_state_writer_close`.
///
/// Errors: EBUSY: another writer is alive. EAGAIN: the last one is dead, and one of its threads has
/// not ended within two seconds. EINVAL, EUSERS, ENOSPC, OUTLIVE_DAMAGED.
///
/// If a process dies while it takes over, the next caller takes over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_writer(
    state: *const outlive_state_t,
    deadline: outlive_deadline_t,
    writer: *mut *mut outlive_state_writer_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `writer` and a live state.
        let (out, state) = unsafe { (handle_out(writer)?, borrow(state, "a state")?) };
        let writer = match moment(deadline) {
            // In the end the error names the process that has it.
            Some(moment) => match state.0.wait_to_write_until(moment)? {
                Some(writer) => writer,
                None => state.0.writer()?,
            },
            None => state.0.writer()?,
        };
        out.put(Box::into_raw(Box::new(outlive_state_writer_t(writer))));
        Ok(())
    })
}

/// Closes the writer: another may be made. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_writer_close(writer: *mut outlive_state_writer_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(writer) }
}

/// Writes the writer's thread or process, dead or alive, to `*info`.
///
/// Errors: ESRCH: there is no writer. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_writer_now(
    state: *const outlive_state_t,
    info: *mut outlive_peer_info_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live state and a place for `info`.
        let (state, out) = unsafe { (borrow(state, "a state")?, out(info)?) };
        let holder = state
            .0
            .current_writer()
            .ok_or_else(|| Failure::new(libc::ESRCH, "no process is the writer"))?;
        out.put(outlive_peer_info_t::of_holder(&holder));
        Ok(())
    })
}

/// Makes buffers for `readers` readers that are in `outlive_state_get` at the same time, 64 at most,
/// and brings the state's memory in, so that setting a value is neither a page fault nor a system
/// call, as long as no more of them are there at a time, and none sleeps. Each reader calls
/// `outlive_domain_prefault` after this.
///
/// Errors: ENOSPC: more than 64, or the file system has no room for all of it; what was made stays.
/// EPERM: not the writer any more. EINVAL, OUTLIVE_DAMAGED.
///
/// If the process dies, the next writer uses what was made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_writer_prefault(
    writer: *mut outlive_state_writer_t,
    readers: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live writer that no other thread uses.
        let writer = unsafe { borrow_mut(writer, "a writer") }?;
        Ok(writer.0.prefault(readers)?)
    })
}

/// Sets the value. Never waits. `*version` (may be NULL): its version.
///
/// Errors: EMSGSIZE: too large, or of another length than all its values have. EPERM: not the
/// writer, or not any more, as in a forked child. EINVAL, ENOSPC, OUTLIVE_DAMAGED.
///
/// If the process dies during the call, the state has the previous value or this one, whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_state_writer_set(
    writer: *mut outlive_state_writer_t,
    data: *const c_void,
    size: usize,
    version: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live writer that no other thread uses and `size` readable
        // bytes at `data`.
        let (writer, value) = unsafe { (borrow_mut(writer, "a writer")?, bytes(data, size)?) };
        let set = writer.0.set(value)?;
        // SAFETY: the C caller passes NULL or a place for `version`.
        if let Some(out) = unsafe { out_or_none(version) } {
            out.put(set);
        }
        Ok(())
    })
}
