//! What a debug mode has found, and who is told.

use core::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

/// Who took an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caller {
    /// Its process, in that process's pid namespace.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// Its program.
    pub program: String,
    /// The source file from which the object was asked for: the last 56 bytes of its name.
    pub file: String,
    /// The line.
    pub line: u32,
    /// Bytes that were asked for.
    pub len: usize,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caller { pid, tid, program, file, line, len } = self;
        write!(f, "process {pid} ({program}), thread {tid}, {len} bytes at {file}:{line}")
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// Somebody wrote behind the end of the object, or (from before it) over who took it.
    Overrun,
    /// Somebody wrote into it while it was free.
    ChangedWhileFree,
    /// It was freed, or handed over, and is not this process's any more; then its handle was dropped.
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
    /// What is wrong.
    pub kind: FaultKind,
    /// The pool's file.
    pub pool: PathBuf,
    /// The process that found it.
    pub pid: u32,
    /// The object's number in the pool, by which all processes name it.
    pub object: u32,
    /// Where it begins in the process that found it.
    pub address: usize,
    /// Bytes that were asked for; of a free one all it has.
    pub len: usize,
    /// The first byte that is not what it was, from the object's beginning.
    pub offset: usize,
    /// What that was.
    pub expected: u8,
    /// What it is.
    pub found: u8,
    /// How many bytes are not what they were; 0 when only a sum tells that some are not.
    pub bytes: usize,
    /// Who took it, or, if it is free, had it last (only with [`Modes::CALLER`](super::Modes::CALLER)); unknown when it was written
    /// over.
    pub caller: Option<Caller>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kind, pool, pid, object, address, len, offset, expected, found, bytes, caller } = self;
        let pool = pool.display();
        match kind {
            FaultKind::Overrun => write!(f, "somebody wrote behind the end of an object of {len} bytes: ")?,
            FaultKind::ChangedWhileFree => write!(f, "somebody wrote into a free object of {len} bytes: ")?,
            FaultKind::FreedTwice => f.write_str("an object is dropped that was freed or handed over before")?,
        }
        match (kind, bytes) {
            (FaultKind::FreedTwice, _) => {}
            (_, 0) => write!(f, "some of the 96 bytes from {offset} on have changed")?,
            (_, 1) => write!(f, "byte {offset} was {expected:#04x} and is {found:#04x}")?,
            _ => write!(f, "byte {offset} was {expected:#04x} and is {found:#04x}, and {} more", bytes - 1)?,
        }
        write!(f, "; pool {pool}, object {object:#x} at {address:#x}, found by process {pid}")?;
        match caller {
            Some(caller) if *kind == FaultKind::ChangedWhileFree => write!(f, "; it was last taken by {caller}"),
            Some(caller) => write!(f, "; it was taken by {caller}"),
            None => Ok(()),
        }
    }
}

/// What is called with a fault that no call can give as an error.
type OnFault = fn(&Fault);

static ON_FAULT: Mutex<Option<OnFault>> = Mutex::new(None);

/// From now on that function is called, in this process, with each [`Fault`] that no call can give as an error: an object that is
/// dropped was overrun or freed twice, or one that is taken was written to while it was free. It may return: then
/// the fault is passed over. Until it is called, a fault is a message on standard error, and abort.
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
