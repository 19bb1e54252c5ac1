//! Something to do when a thread ends in an orderly way.
//!
//! A pthread key, not a `thread_local!` destructor: when main leaves by `pthread_exit`, glibc runs the former and not the
//! latter; and at `exit` it runs neither for main's key, where there is nothing left to hand over.

use std::sync::OnceLock;

use super::{Errno, check_pthread};

/// What to do, in the thread that ends.
type AtEnd = extern "C" fn(*mut libc::c_void);

/// What is to be done at the ends of threads that ask for it.
pub(crate) struct ThreadEnd {
    at_end: AtEnd,
    key: OnceLock<Result<libc::pthread_key_t, Errno>>,
}

impl ThreadEnd {
    pub(crate) const fn new(at_end: AtEnd) -> ThreadEnd {
        ThreadEnd { at_end, key: OnceLock::new() }
    }

    /// From now on it is done when the calling thread ends.
    pub(crate) fn arm(&self) -> Result<(), Errno> {
        let key = (*self.key.get_or_init(|| {
            let mut key: libc::pthread_key_t = 0;
            let at_end: unsafe extern "C" fn(*mut libc::c_void) = self.at_end;
            // SAFETY: key is written by the call; the function lives as long as the program.
            check_pthread(unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) })?;
            Ok(key)
        }))?;
        // Any value but null: with null the function would not be called.
        // SAFETY: the key was created above and is never deleted; the value is not used as a pointer.
        check_pthread(unsafe { libc::pthread_setspecific(key, core::ptr::without_provenance(1)) })
    }
}
