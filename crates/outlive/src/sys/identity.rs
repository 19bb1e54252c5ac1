//! A number for this process that a forked child does not share with its parent, for the price of a
//! load.
//!
//! Pids do not suffice: parent and child may both be process 1, each of its own pid namespace. A
//! page that is wiped on fork does.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::{Errno, map};

struct Identity {
    /// Another number in each process that descends from one; 0 in a child that has not asked yet.
    number: AtomicU64,
    /// The pid namespace; 0 if not asked yet.
    namespace: AtomicU32,
    /// The process's start time as its time namespace shows it, plus 1, and that namespace's
    /// offset; 0 if not asked yet.
    started: AtomicU64,
    time_offset: AtomicI64,
}

/// Without `/proc` this process cannot tell pid namespaces apart: they all share this number, which
/// no real one has.
pub(crate) const NAMELESS: u32 = u32::MAX;

static PAGE: AtomicPtr<Identity> = AtomicPtr::new(core::ptr::null_mut());
/// Inherited over a fork, so that a child's number is larger than its parent's.
static LAST: AtomicU64 = AtomicU64::new(0);

#[inline]
fn identity() -> Result<&'static Identity, Errno> {
    let page = PAGE.load(Ordering::Acquire);
    if !page.is_null() {
        // SAFETY: `PAGE` points to a page of our own, which is never unmapped; Identity is atomics.
        let identity = unsafe { &*page };
        if identity.number.load(Ordering::Relaxed) != 0 {
            return Ok(identity);
        }
    }
    identity_slow()
}

#[cold]
fn identity_slow() -> Result<&'static Identity, Errno> {
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let fresh: *mut Identity = map::page_wiped_on_fork()?.as_ptr().cast();
        page = match PAGE.compare_exchange(page, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            // Another thread was quicker; one page is lost, once.
            Err(theirs) => theirs,
        };
    }
    // SAFETY: a page of our own, zeroed and never unmapped; Identity is atomics.
    let identity = unsafe { &*page };
    if identity.number.load(Ordering::Relaxed) == 0 {
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let _ = identity.number.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }
    Ok(identity)
}

/// Returns the number of this process.
#[inline]
pub(crate) fn this_process() -> Result<u64, Errno> {
    Ok(identity()?.number.load(Ordering::Relaxed))
}

/// Returns this process's pid namespace: equal numbers name the same thread only within one.
pub(crate) fn pid_namespace() -> Result<u32, Errno> {
    let identity = identity()?;
    let known = identity.namespace.load(Ordering::Relaxed);
    if known != 0 {
        return Ok(known);
    }
    let namespace = read_pid_namespace()?;
    identity.namespace.store(namespace, Ordering::Relaxed);
    Ok(namespace)
}

fn read_pid_namespace() -> Result<u32, Errno> {
    // Inode numbers of namespaces are 32 bits wide in the kernel.
    match fs::metadata("/proc/self/ns/pid") {
        Ok(meta) => Ok(meta.ino() as u32),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(NAMELESS),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

/// Returns the same if this process has asked for it before, else 0; fast paths compare it.
#[inline]
pub(crate) fn known_pid_namespace() -> u32 {
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return 0;
    }
    // SAFETY: a page of our own, never unmapped, as in `identity`. A forked child finds zeroes
    // there.
    unsafe { (*page).namespace.load(Ordering::Relaxed) }
}

/// Returns by how much the caller's time namespace is ahead of the machine's boot, in clock ticks,
/// as `find` finds out.
///
/// Remembered beside the process's own start time as it reads there: a process that enters another
/// namespace reads another start time (or one that differs by less than a tick, which does not
/// matter).
pub(crate) fn time_offset(started: u64, find: impl FnOnce() -> Option<i64>) -> Option<i64> {
    let identity = identity().ok()?;
    // Acquire pairs with the Release below: the offset belongs to that start time.
    if identity.started.load(Ordering::Acquire) == started + 1 {
        return Some(identity.time_offset.load(Ordering::Relaxed));
    }
    let offset = find()?;
    identity.time_offset.store(offset, Ordering::Relaxed);
    identity.started.store(started + 1, Ordering::Release);
    Some(offset)
}
