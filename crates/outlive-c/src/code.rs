//! Return codes: 0, an errno number of POSIX or Linux where there is one for the fact, or a number
//! of this library's own.
//!
//! One table for all errors, which doc/c-abi.md shows; a test compares the two.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_char, c_int};
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use outlive::pool::PoolError;
use outlive::rpc::CallError;
use outlive::sync::{AcquireError, LockError};
use outlive::{Error, RecvError, SendError, WaitError};
use outlive_gpu::GpuError;

/// The shared memory is damaged, by a stray write or by a hostile process.
pub const OUTLIVE_DAMAGED: c_int = 10001;
/// The name is in use for a thing of another kind.
pub const OUTLIVE_OTHER_KIND: c_int = 10002;
/// The thing holds values of another type, size or layout.
pub const OUTLIVE_OTHER_TYPE: c_int = 10003;
/// The file was made by a version of Outlive with another memory layout.
pub const OUTLIVE_OTHER_VERSION: c_int = 10004;
/// The file was not made by Outlive.
pub const OUTLIVE_NOT_OURS: c_int = 10005;
/// A participant's death has broken the barrier.
pub const OUTLIVE_BROKEN: c_int = 10006;
/// The lock belongs to another pid namespace, or to another C library.
pub const OUTLIVE_OTHER_PLACE: c_int = 10007;
/// A debug mode of a pool found a fault in the program.
pub const OUTLIVE_FAULT: c_int = 10008;
/// The CUDA driver refused a call: the message has the function, its message and its number.
pub const OUTLIVE_DRIVER: c_int = 10010;
/// The service could not do what was asked: `outlive_last_error` has its server's words.
pub const OUTLIVE_FAILED: c_int = 10011;
/// A publisher did not wait any longer for this subscriber, and has overwritten messages.
pub const OUTLIVE_LAGGED: c_int = 10012;
/// The next message is the first one of a publisher that has started.
pub const OUTLIVE_NEW_SESSION: c_int = 10013;
/// A publisher is alive and has done nothing for longer than its lease.
pub const OUTLIVE_NOT_LIVELY: c_int = 10014;
/// A publisher that was not lively does something again.
pub const OUTLIVE_LIVELY: c_int = 10015;
/// A defect of Outlive itself: report it. The program may go on; what the call was working on may
/// be lost.
pub const OUTLIVE_PANIC: c_int = 10009;

/// How an error is reported to C.
pub(crate) trait Code: fmt::Display {
    fn code(&self) -> c_int;

    /// The process that it names; 0 for none.
    fn pid(&self) -> u32 {
        0
    }
}

/// The code of each error. An error that a later version of the library adds is `EINVAL` until it
/// has a line here.
macro_rules! codes {
    ($($error:ty { $($pattern:pat => $code:expr),* $(,)? } $(; names $pid:ident)?)*) => { $(
        impl Code for $error {
            fn code(&self) -> c_int {
                use $crate::code::*;
                #[allow(unreachable_patterns)]
                match self {
                    $($pattern => $code,)*
                    _ => libc::EINVAL,
                }
            }

            $(fn pid(&self) -> u32 {
                $pid(self)
            })?
        }
    )* };
}

codes! {
    Error {
        Error::InvalidName { .. } | Error::OtherOptions { .. } | Error::InvalidOption { .. } => libc::EINVAL,
        Error::InvalidConfig { .. } => libc::EINVAL,
        Error::AlreadyExists { .. } => libc::EEXIST,
        Error::NotFound { .. } => libc::ENOENT,
        Error::Untrusted { .. } | Error::NoRealTime { .. } => libc::EPERM,
        Error::NotAFolder { .. } => libc::ENOTDIR,
        Error::NotADomain { .. } => libc::ENOTEMPTY,
        Error::NotASegment { .. } => OUTLIVE_NOT_OURS,
        Error::OtherVersion { .. } => OUTLIVE_OTHER_VERSION,
        Error::OtherKind { .. } => OUTLIVE_OTHER_KIND,
        Error::OtherType { .. } => OUTLIVE_OTHER_TYPE,
        Error::NoSpace { .. } => libc::ENOSPC,
        Error::NoAddressSpace { .. } => libc::ENOMEM,
        Error::Permission { .. } => libc::EACCES,
        Error::Damaged { .. } => OUTLIVE_DAMAGED,
        Error::Taken { .. } => libc::EBUSY,
        Error::Ending { .. } => libc::EAGAIN,
        Error::TooMany { what: "domains", .. } => libc::EMFILE,
        Error::TooMany { .. } | Error::NoToken { .. } => libc::EUSERS,
        Error::OtherEnvironment { .. } => OUTLIVE_OTHER_PLACE,
        Error::OtherDomain { .. } => libc::EXDEV,
        Error::DeclaredDead { .. } => libc::EIDRM,
        Error::ForeignThread { .. } => libc::EOPNOTSUPP,
        Error::System { errno, .. } => if *errno > 0 { *errno } else { libc::EIO },
    }
    WaitError {
        WaitError::TimedOut => libc::ETIMEDOUT,
        WaitError::System(error) => error.code(),
    }
    AcquireError {
        AcquireError::OwnerDied => libc::EOWNERDEAD,
        AcquireError::NotRecoverable => libc::ENOTRECOVERABLE,
        AcquireError::Deadlock => libc::EDEADLK,
        AcquireError::NotHeld => libc::EPERM,
        AcquireError::AboveCeiling => libc::EINVAL,
        AcquireError::Broken => OUTLIVE_BROKEN,
        AcquireError::Full => libc::EUSERS,
        AcquireError::Damaged => OUTLIVE_DAMAGED,
        AcquireError::System(error) => error.code(),
    }
    SendError {
        SendError::Full { .. } => libc::EAGAIN,
        SendError::TimedOut { .. } => libc::ETIMEDOUT,
        SendError::ReceiverDied => libc::EPIPE,
        SendError::NoReceiver => libc::ENOTCONN,
        SendError::Cancelled => libc::ECANCELED,
        SendError::TooLarge { .. } | SendError::OtherLength { .. } => libc::EMSGSIZE,
        SendError::NoSpace { .. } => libc::ENOSPC,
        SendError::NotOwner => libc::EPERM,
        SendError::Damaged(_) => OUTLIVE_DAMAGED,
        SendError::System(error) => error.code(),
    }; names subscriber_in_the_way
    RecvError {
        RecvError::Closed => libc::EPIPE,
        RecvError::Missed => libc::ETIME,
        RecvError::Lagged { .. } => OUTLIVE_LAGGED,
        RecvError::NewSession { .. } => OUTLIVE_NEW_SESSION,
        RecvError::NotLively { .. } => OUTLIVE_NOT_LIVELY,
        RecvError::Lively { .. } => OUTLIVE_LIVELY,
        RecvError::PublisherDied { .. } => libc::EOWNERDEAD,
        RecvError::TooManyHeld => libc::ENOBUFS,
        RecvError::Cancelled => libc::ECANCELED,
        RecvError::NotOwner => libc::EPERM,
        RecvError::Damaged(_) => OUTLIVE_DAMAGED,
        RecvError::System(error) => error.code(),
    }; names publisher_told
    CallError {
        CallError::NoServer => libc::ENOTCONN,
        CallError::ServerDied { begun: false } => libc::EPIPE,
        CallError::ServerDied { begun: true } => libc::ECONNRESET,
        CallError::Dropped => libc::ECONNABORTED,
        CallError::Failed(_) => OUTLIVE_FAILED,
        CallError::Answered => libc::ESHUTDOWN,
        CallError::TimedOut { .. } => libc::ETIMEDOUT,
        CallError::TooLarge { .. } => libc::EMSGSIZE,
        CallError::TooMany => libc::EAGAIN,
        CallError::NotClient => libc::EPERM,
        CallError::Damaged(_) => OUTLIVE_DAMAGED,
        CallError::System(error) => error.code(),
    }
    GpuError {
        GpuError::NoGpu { .. } => libc::ENODEV,
        GpuError::Driver { .. } => OUTLIVE_DRIVER,
        GpuError::Capturing => libc::EBUSY,
        GpuError::TimedOut => libc::ETIMEDOUT,
        GpuError::OutOfBounds { .. } => libc::EINVAL,
        GpuError::CannotShare { .. } => libc::EOPNOTSUPP,
        GpuError::OwnerDied { .. } => libc::EPIPE,
        GpuError::BlockGone { .. } => libc::ESTALE,
        GpuError::NoCard => OUTLIVE_DAMAGED,
        GpuError::OtherGpu => libc::EXDEV,
        GpuError::System { errno, .. } => if *errno > 0 { *errno } else { libc::EIO },
        GpuError::Publish(error) => error.code(),
        GpuError::Subscribe(error) => error.code(),
        GpuError::Topic(error) => error.code(),
    }
    PoolError {
        PoolError::NoSpace { .. } => libc::ENOSPC,
        PoolError::TooLarge { .. } => libc::EMSGSIZE,
        PoolError::Alignment { .. } | PoolError::NotAnObject { .. } | PoolError::Freed => libc::EINVAL,
        PoolError::NotOurs => libc::EPERM,
        PoolError::Stale => libc::ESTALE,
        PoolError::NotForUs { .. } => libc::EACCES,
        PoolError::TooManyHolders { .. } => libc::EUSERS,
        PoolError::OtherType => OUTLIVE_OTHER_TYPE,
        PoolError::OtherPool { .. } => libc::EXDEV,
        PoolError::Fault(_) => OUTLIVE_FAULT,
        PoolError::System(error) => error.code(),
    }
}

impl<G> Code for LockError<G> {
    fn code(&self) -> c_int {
        match self {
            LockError::OwnerDied(_) => libc::EOWNERDEAD,
            LockError::Failed(error) => error.code(),
            _ => libc::EINVAL,
        }
    }
}

/// Returns the process of the subscriber for which a publisher has waited.
fn subscriber_in_the_way(error: &SendError) -> u32 {
    match error {
        SendError::Full { slowest } | SendError::TimedOut { slowest } => {
            slowest.as_ref().map_or(0, |slowest| slowest.pid)
        }
        _ => 0,
    }
}

/// Returns the process of the publisher of which a subscriber is told.
fn publisher_told(error: &RecvError) -> u32 {
    match error {
        RecvError::NotLively { publisher, .. }
        | RecvError::Lively { publisher, .. }
        | RecvError::PublisherDied { publisher, .. } => publisher.pid,
        _ => 0,
    }
}

/// The code of a call that failed; the thread's message has been stored.
#[derive(Debug)]
pub(crate) struct Failure(c_int);

impl Failure {
    /// Makes a failure of this library's own: mostly an invalid argument.
    #[cold]
    pub(crate) fn new(code: c_int, message: &str) -> Failure {
        note(&message, 0);
        Failure(code)
    }

    /// Makes the failure of a wait whose deadline passed.
    #[cold]
    pub(crate) fn timed_out() -> Failure {
        Failure::new(libc::ETIMEDOUT, "the deadline passed before it came; wait again, or give up")
    }

    pub(crate) fn code(&self) -> c_int {
        self.0
    }
}

impl<E: Code> From<E> for Failure {
    #[cold]
    fn from(error: E) -> Failure {
        note(&error, error.pid());
        Failure(error.code())
    }
}

/// Runs the body of a function, and returns its result as a code; no panic leaves it.
#[inline]
pub(crate) fn entry(act: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => failure.code(),
        Err(panic) => panicked(&*panic),
    }
}

/// Runs the body of a function that returns something other than a code: `otherwise` when it fails.
#[inline]
pub(crate) fn entry_or<R>(otherwise: R, act: impl FnOnce() -> Result<R, Failure>) -> R {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => otherwise,
        Err(panic) => {
            panicked(&*panic);
            otherwise
        }
    }
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> c_int {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?");
    note(&format_args!("a defect of Outlive, please report it: {text}"), 0);
    OUTLIVE_PANIC
}

const LONGEST: usize = 1024;

thread_local! {
    /// NUL-terminated. Without a destructor, so that it exists as long as the thread does.
    static MESSAGE: UnsafeCell<[u8; LONGEST]> = const { UnsafeCell::new([0; LONGEST]) };
    /// The process that the message names.
    static PID: Cell<u32> = const { Cell::new(0) };
}

struct Message<'a> {
    bytes: &'a mut [u8; LONGEST],
    len: usize,
}

impl Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut end = text.len().min(LONGEST - 1 - self.len);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes[self.len..self.len + end].copy_from_slice(&text.as_bytes()[..end]);
        self.len += end;
        if end == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Stores the thread's message, and the process that it names.
#[cold]
fn note(error: &dyn fmt::Display, pid: u32) {
    PID.set(pid);
    MESSAGE.with(|cell| {
        // SAFETY: this thread's own; nothing called while it is borrowed comes back here: `Display`
        // of errors only formats.
        let bytes = unsafe { &mut *cell.get() };
        let mut message = Message { bytes, len: 0 };
        // Too long: cut off.
        let _ = write!(message, "{error}");
        let end = message.len;
        bytes[end] = 0;
    });
}

/// Returns the message of the calling thread's last call that failed: what happened, and what to do
/// next. It is English, UTF-8, at most 1023 bytes; never NULL; empty if no call has failed yet.
/// Successful calls leave it as it is.
///
/// Owner: the library. Valid until the thread's next call that fails, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_last_error() -> *const c_char {
    MESSAGE.with(|cell| cell.get().cast_const().cast())
}

/// Returns the process that the message of `outlive_last_error` names: the slowest reliable subscriber,
/// where publishing on a host topic gave ETIMEDOUT or EAGAIN; the publisher that OUTLIVE_NOT_LIVELY, OUTLIVE_LIVELY or
/// EOWNERDEAD of a receive tells of. 0: none of these.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_last_error_pid() -> u32 {
    PID.get()
}

/// Returns what a return code means, in a few words: for the library's own codes and for errno
/// numbers.
///
/// Owner: the library; constant for its own codes. For errno numbers as `strerror(3)`: valid until
/// the thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_strerror(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"success",
        OUTLIVE_DAMAGED => c"shared bytes make no sense",
        OUTLIVE_OTHER_KIND => c"the name is in use for a thing of another kind",
        OUTLIVE_OTHER_TYPE => c"values of another type, size or layout",
        OUTLIVE_OTHER_VERSION => c"made by a version with another memory layout",
        OUTLIVE_NOT_OURS => c"not made by Outlive",
        OUTLIVE_BROKEN => c"a participant's death broke the barrier",
        OUTLIVE_OTHER_PLACE => c"of another pid namespace or C library",
        OUTLIVE_FAULT => c"a pool's debug mode found a fault",
        OUTLIVE_DRIVER => c"the CUDA driver refused",
        OUTLIVE_FAILED => c"the service could not do what was asked",
        OUTLIVE_LAGGED => c"messages were missed",
        OUTLIVE_NEW_SESSION => c"another session of the publisher",
        OUTLIVE_NOT_LIVELY => c"a publisher has done nothing for its lease",
        OUTLIVE_LIVELY => c"a publisher does something again",
        OUTLIVE_PANIC => c"a defect of Outlive",
        // SAFETY: strerror takes any number, and returns a text that lives until the thread's next
        // call of it.
        errno => return unsafe { libc::strerror(errno) },
    };
    text.as_ptr()
}

/// Returns the version of the ABI that the library has. Later additions to the header say since
/// which version. It only grows.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_abi_version() -> u32 {
    OUTLIVE_ABI_VERSION
}

/// The version of the ABI that this header describes.
pub const OUTLIVE_ABI_VERSION: u32 = 1;

/// Returns the version of the library, as text: `0.1.0`. Owner: the library; constant.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: NUL-terminated, and this thread's own.
        unsafe { CStr::from_ptr(outlive_last_error()) }.to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn a_panic_is_a_code_and_a_message() {
        assert_eq!(entry(|| panic!("of {} words", 3)), OUTLIVE_PANIC);
        assert!(last().ends_with("of 3 words"), "{}", last());
        assert_eq!(entry_or(7, || Err(Failure::new(libc::EINVAL, "no"))), 7);
        assert_eq!(last(), "no");
        assert_eq!(entry(|| Ok(())), 0);
        assert_eq!(last(), "no");
    }

    #[test]
    fn a_long_message_is_cut_between_letters() {
        for shift in 0..4 {
            let text = "x".repeat(shift) + &"ü".repeat(2000);
            assert_eq!(Failure::new(libc::EIO, &text).code(), libc::EIO);
            assert!(last().len() > LONGEST - 4 && text.starts_with(&last()));
        }
    }

    #[test]
    fn codes_of_our_own_have_words() {
        for code in OUTLIVE_DAMAGED..=OUTLIVE_LIVELY {
            // SAFETY: `outlive_strerror` returns constant NUL-terminated texts for these codes.
            let text = unsafe { CStr::from_ptr(outlive_strerror(code)) }.to_str().expect("UTF-8");
            assert!(!text.starts_with("Unknown"), "{code}: {text}");
        }
    }

    /// Each error's line in this file is one in the document's table, and the other way round.
    #[test]
    fn the_documents_table_is_this_one() {
        let here = include_str!("code.rs");
        let table = here
            .split_once("codes! {")
            .expect("is there")
            .1
            .split_once("\nimpl<G>")
            .expect("is there")
            .0;
        let lines = table.lines().map(str::trim).filter(|line| line.contains("=>"));
        let document = include_str!("../../../doc/c-abi.md");
        let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
        for line in lines {
            let (errors, code) = line.split_once(" => ").expect("an arrow");
            let code = code.trim_end_matches(',').trim_start_matches("libc::");
            if code.contains("error.code()") || code.contains("errno") {
                continue;
            }
            for error in errors.split(" | ") {
                let name = error.split([' ', '(']).next().unwrap_or(error);
                let row = rows.iter().find(|row| row.starts_with(&format!("| `{code}` |")));
                assert!(
                    row.is_some_and(|row| row.contains(&format!("`{name}`"))),
                    "doc/c-abi.md lacks {name} => {code}"
                );
            }
        }
    }
}
