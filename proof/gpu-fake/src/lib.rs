//! A CUDA driver without a GPU: the entry points that outlive-gpu uses, by the same names, in a
//! shared library of their own.
//!
//! Device memory is a memfd, mapped out of the processor's reach at the address that stands for it.
//! Streams are threads that do what is enqueued in order, whenever they come to it. What the
//! driver's documentation forbids is refused here, or counted as a violation: driver calls in host
//! functions, memory that is registered twice, not at pages, or read-only without the flag for it,
//! copies that lie half in registered memory, memory that is unmapped while it is registered,
//! modules that are unloaded while a kernel of theirs is to run, and blocks that are unmapped while
//! they are used, used without access, or given back twice.
//!
//! Kernels are those of `kernels.rs`, by name: their parameters are read as the PTX declares them,
//! the rest of it is not looked at.
//!
//! Not as the driver does it: the default stream is a stream like any other; contexts share
//! everything.
//!
//! Tests also have `outlive_fake_…`, in `control.rs`.

mod blocks;
mod contexts;
mod control;
mod copies;
mod device_memory;
mod host_memory;
mod kernels;
mod modules;
mod streams;

use std::ffi::c_int;

pub(crate) type Code = c_int;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NOT_INITIALIZED: Code = 3;
pub(crate) const INVALID_DEVICE: Code = 101;
pub(crate) const INVALID_IMAGE: Code = 200;
pub(crate) const INVALID_CONTEXT: Code = 201;
pub(crate) const INVALID_PTX: Code = 218;
pub(crate) const INVALID_HANDLE: Code = 400;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const ILLEGAL_ADDRESS: Code = 700;
pub(crate) const ALREADY_REGISTERED: Code = 712;
pub(crate) const NOT_REGISTERED: Code = 713;
pub(crate) const NOT_PERMITTED: Code = 800;
pub(crate) const NOT_SUPPORTED: Code = 801;

/// Returns it as a call's result.
pub(crate) fn code(result: Result<(), Code>) -> Code {
    result.err().unwrap_or(SUCCESS)
}

/// Locks what no thread leaves half done.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
