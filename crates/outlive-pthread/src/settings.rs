//! What the environment asks for.
//!
//! | variable | value | meaning |
//! | --- | --- | --- |
//! | `OUTLIVE_PTHREAD` | `auto` (default) | a caller that locks after a death gets 0 and the lock, made consistent, and a line is logged |
//! | | `strict` | it gets `EOWNERDEAD`, as of a robust lock, and a line is logged |
//! | | `off` | nothing is made robust (a lock that another process has made so is still used as such) |
//! | | `abort` | may follow one of them, after a comma: where a lock cannot be given, the process ends, rather than go on with an error that it may ignore |
//! | `OUTLIVE_PTHREAD_LOG` | a file | where lines are added; standard error if it is not set |
//! | `OUTLIVE_PTHREAD_RECHECK` | milliseconds | after how long a wait on a condition variable returns without a signal, and a thread that sleeps for a mutex looks at it; 0 is never, 1000 the default |

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const READ: u32 = 1;
const STRICT: u32 = 2;
const OFF: u32 = 4;
const ABORT: u32 = 8;

static WORDS: AtomicU32 = AtomicU32::new(0);
static RECHECK: AtomicU32 = AtomicU32::new(1000);
/// A copy that is never freed; null is standard error.
static LOG: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// Reads the environment, once. Called when the library is loaded, or by a function that is called
/// before that.
pub(crate) fn read() {
    if WORDS.load(Ordering::Acquire) != 0 {
        return;
    }
    let mut words = READ;
    // SAFETY: strings; a result is a string too, which this reads before any thread can change the
    // environment: this runs before `main`.
    let (asked, log, recheck) = unsafe {
        (
            libc::getenv(c"OUTLIVE_PTHREAD".as_ptr()),
            libc::getenv(c"OUTLIVE_PTHREAD_LOG".as_ptr()),
            libc::getenv(c"OUTLIVE_PTHREAD_RECHECK".as_ptr()),
        )
    };
    if !asked.is_null() {
        // SAFETY: a string of the environment, which no other thread changes before `main`.
        for word in unsafe { CStr::from_ptr(asked) }.to_bytes().split(|&byte| byte == b',') {
            words |= match word {
                b"strict" => STRICT,
                b"off" => OFF,
                b"abort" => ABORT,
                _ => 0,
            };
        }
    }
    if !recheck.is_null() {
        // SAFETY: a string of the environment, which no other thread changes before `main`.
        let millis =
            unsafe { CStr::from_ptr(recheck) }.to_str().ok().and_then(|text| text.parse().ok());
        RECHECK.store(millis.unwrap_or(1000), Ordering::Relaxed);
    }
    if !log.is_null() {
        // SAFETY: a string of the environment, which no other thread changes before `main`.
        LOG.store(unsafe { libc::strdup(log) }, Ordering::Release);
    }
    // Release pairs with the Acquire above.
    WORDS.store(words, Ordering::Release);
}

fn has(word: u32) -> bool {
    read();
    WORDS.load(Ordering::Relaxed) & word != 0
}

/// Returns whether callers are to see `EOWNERDEAD`.
pub(crate) fn is_strict() -> bool {
    has(STRICT)
}

/// Returns whether locks that are initialised here are left to libc.
pub(crate) fn is_off() -> bool {
    has(OFF)
}

/// Returns whether a lock that cannot be given ends the process.
pub(crate) fn aborts() -> bool {
    has(ABORT)
}

/// Returns the time between two rechecks in nanoseconds; `None` is never.
pub(crate) fn recheck() -> Option<u64> {
    read();
    match RECHECK.load(Ordering::Relaxed) {
        0 => None,
        millis => Some(u64::from(millis) * 1_000_000),
    }
}

/// Returns the file that lines go to; null is standard error.
pub(crate) fn log_file() -> *const c_char {
    read();
    LOG.load(Ordering::Acquire)
}
