//! Code that runs when a thread ends in an orderly way.
//!
//! A pthread key, not a `thread_local!` destructor: when main leaves by `pthread_exit`, glibc runs
//! the key's function and not the destructor; at `exit` it runs neither for main, where there is
//! nothing left to hand over.

use std::sync::OnceLock;

use super::{Errno, check_pthread};

/// The function that runs in the ending thread.
type AtEnd = extern "C" fn(*mut libc::c_void);

/// A function that runs at the end of each thread that asks for it.
pub(crate) struct ThreadEnd {
    at_end: AtEnd,
    key: OnceLock<Result<libc::pthread_key_t, Errno>>,
}

impl ThreadEnd {
    pub(crate) const fn new(at_end: AtEnd) -> ThreadEnd {
        ThreadEnd { at_end, key: OnceLock::new() }
    }

    /// Makes it run when the calling thread ends.
    pub(crate) fn arm(&self) -> Result<(), Errno> {
        let key = (*self.key.get_or_init(|| {
            let mut key: libc::pthread_key_t = 0;
            let at_end: unsafe extern "C" fn(*mut libc::c_void) = self.at_end;
            // SAFETY: the call writes `key`, which lives here; the function lives as long as the
            // program.
            check_pthread(unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) })?;
            Ok(key)
        }))?;
        // Any value but null: with null, libc would not call the function.
        // SAFETY: the key was created above and is never deleted; nothing uses the value as a
        // pointer.
        check_pthread(unsafe { libc::pthread_setspecific(key, core::ptr::without_provenance(1)) })
    }
}
