//! What a debug mode has found, and how it is reported.

use core::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

/// The caller that took an object out of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caller {
    /// Its process, in that process's pid namespace.
    pub pid: u32,
    /// Its thread's id.
    pub tid: u32,
    /// The name of its program.
    pub program: String,
    /// The source file of the call: the last 56 bytes of its name.
    pub file: String,
    /// The line of the call.
    pub line: u32,
    /// The bytes that it asked for.
    pub len: usize,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caller { pid, tid, program, file, line, len } = self;
        write!(f, "process {pid} ({program}), thread {tid}, {len} bytes at {file}:{line}")
    }
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// Bytes behind the end of the object were overwritten, or (from before it) the record of its
    /// caller.
    Overrun,
    /// The object was written to while it was free.
    ChangedWhileFree,
    /// The object was freed, or handed over, and does not belong to this process any more; then its
    /// handle was dropped.
    FreedTwice,
}

/// A fault that a debug mode has found.
///
/// ```
/// fn told(fault: &outlive::pool::Fault) {
///     eprintln!("{fault}");
///     std::process::abort();
/// }
/// outlive::pool::on_fault(told);                   // which is what happens without it
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The pool's file.
    pub pool: PathBuf,
    /// The process that found it.
    pub pid: u32,
    /// The object's number in the pool, by which all processes name it.
    pub object: u32,
    /// Its address in the process that found the fault.
    pub address: usize,
    /// The bytes that were asked for; for a free object all that it has.
    pub len: usize,
    /// The first byte that has changed, counted from the object's beginning.
    pub offset: usize,
    /// The expected value of that byte.
    pub expected: u8,
    /// The value that was found.
    pub found: u8,
    /// How many bytes have changed; 0 when only a checksum tells that some have.
    pub bytes: usize,
    /// The caller that took it, or, if it is free, that had it last (only with
    /// [`Modes::CALLER`](super::Modes::CALLER)); unknown when the record was overwritten.
    pub caller: Option<Caller>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kind, pool, pid, object, address, len, offset, expected, found, bytes, caller } =
            self;
        let pool = pool.display();
        match kind {
            FaultKind::Overrun => {
                write!(f, "a thread wrote behind the end of an object of {len} bytes: ")?
            }
            FaultKind::ChangedWhileFree => {
                write!(f, "a thread wrote into a free object of {len} bytes: ")?
            }
            FaultKind::FreedTwice => {
                f.write_str("an object is dropped that was freed or handed over before")?
            }
        }
        match (kind, bytes) {
            (FaultKind::FreedTwice, _) => {}
            (_, 0) => write!(f, "some of the 96 bytes from {offset} on have changed")?,
            (_, 1) => write!(f, "byte {offset} was {expected:#04x} and is {found:#04x}")?,
            _ => write!(
                f,
                "byte {offset} was {expected:#04x} and is {found:#04x}, and {} more",
                bytes - 1
            )?,
        }
        write!(f, "; pool {pool}, object {object:#x} at {address:#x}, found by process {pid}")?;
        match caller {
            Some(caller) if *kind == FaultKind::ChangedWhileFree => {
                write!(f, "; it was last taken by {caller}")
            }
            Some(caller) => write!(f, "; it was taken by {caller}"),
            None => Ok(()),
        }
    }
}

/// The function that is called with a fault that no call can return as an error.
type OnFault = fn(&Fault);

static ON_FAULT: Mutex<Option<OnFault>> = Mutex::new(None);

/// Sets the function that this process calls with each [`Fault`] that no call can return as an
/// error: an object that is dropped was overrun or freed twice, or one that is allocated was
/// written to while it was free.
///
/// The function may return: then the fault is ignored. Without one, a fault prints a message on
/// standard error and aborts.
pub fn on_fault(told: fn(&Fault)) {
    *ON_FAULT.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(told);
}

#[cold]
pub(super) fn report(fault: &Fault) {
    let told = *ON_FAULT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match told {
        Some(told) => told(fault),
        None => {
            eprintln!("outlive: {fault}");
            std::process::abort();
        }
    }
}
