//! Something to do when a thread ends in an orderly way.
//!
//! A pthread key, not a `thread_local!` destructor: when main leaves by `pthread_exit`, glibc runs the former and not the
//! latter; and at `exit` it runs neither for main's key, where there is nothing left to hand over.

use std::sync::OnceLock;

use super::{Errno, check_pthread};

/// What to do, in the thread that ends.
type AtEnd = extern "C" fn(*mut libc::c_void);

/// From now on `at_end` runs when the calling thread ends. `at_end` must be the same in every call.
pub(crate) fn on_thread_end(at_end: AtEnd) -> Result<(), Errno> {
    static KEY: OnceLock<Result<libc::pthread_key_t, Errno>> = OnceLock::new();
    let key = (*KEY.get_or_init(|| {
        let mut key: libc::pthread_key_t = 0;
        let at_end: unsafe extern "C" fn(*mut libc::c_void) = at_end;
        // SAFETY: key is written by the call; the function lives as long as the program.
        check_pthread(unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) })?;
        Ok(key)
    }))?;
    // Any value but null: with null the function would not be called.
    // SAFETY: the key was created above and is never deleted; the value is not used as a pointer.
    check_pthread(unsafe { libc::pthread_setspecific(key, core::ptr::without_provenance(1)) })
}
