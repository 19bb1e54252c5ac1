//! libc's own functions, which the shim's replace.
//!
//! Each is looked up once: at the library's start, or by the first call before that. `dlsym` takes
//! the loader's own lock, which is recursive and not one of ours, and allocates only where a name
//! or its version is missing: an allocator may lock, and would come back here. So only what is
//! there is asked for before the library's start. Two threads may look up one name at once: they
//! find the same.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    c_int, c_long, c_void, clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t,
    pthread_mutexattr_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec,
};

/// A function of libc's, of type `F`.
pub(crate) struct Real<F> {
    name: &'static CStr,
    version: Option<&'static CStr>,
    found: AtomicPtr<c_void>,
    _type: PhantomData<F>,
}

// SAFETY: an atomic and a name.
unsafe impl<F> Sync for Real<F> {}

/// Condition variables on x86-64 have two versions with different bodies; this is the one that
/// programs are linked with.
#[cfg(target_arch = "x86_64")]
const COND: Option<&CStr> = Some(c"GLIBC_2.3.2");
#[cfg(not(target_arch = "x86_64"))]
const COND: Option<&CStr> = None;
const ONLY: Option<&CStr> = None;

impl<F: Copy> Real<F> {
    const fn new(name: &'static CStr, version: Option<&'static CStr>) -> Real<F> {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Real { name, version, found: AtomicPtr::new(core::ptr::null_mut()), _type: PhantomData }
    }

    /// Returns the function; `None` in a libc that is too old to have it.
    #[inline]
    pub(crate) fn find(&self) -> Option<F> {
        // Acquire and Release are not needed: what is pointed to is code, there since before the
        // program began.
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            found = self.look_up();
        }
        // SAFETY: F is a pointer to a function, checked in `new`, of the type that libc documents
        // for that name.
        (!found.is_null()).then(|| unsafe { core::mem::transmute_copy::<*mut c_void, F>(&found) })
    }

    /// Returns the function, which every libc has.
    #[inline]
    pub(crate) fn get(&self) -> F {
        match self.find() {
            Some(function) => function,
            // Not reached: pthread's first functions are older than this program's loader.
            // SAFETY: it only ends the process.
            None => unsafe { libc::abort() },
        }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: both are strings that end in NUL.
        let found = unsafe {
            match self.version {
                Some(version) => {
                    libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr())
                }
                None => libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()),
            }
        };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

macro_rules! real {
    ($($static:ident = $name:literal $version:ident ($($argument:ty),*);)*) => {
        $(pub(crate) static $static: Real<unsafe extern "C-unwind" fn($($argument),*) -> c_int> =
            Real::new($name, $version);)*

        /// Looks up all of them.
        pub(crate) fn find_all() {
            $($static.find();)*
        }
    };
}

real! {
    MUTEX_INIT = c"pthread_mutex_init" ONLY (*mut pthread_mutex_t, *const pthread_mutexattr_t);
    MUTEX_DESTROY = c"pthread_mutex_destroy" ONLY (*mut pthread_mutex_t);
    MUTEX_LOCK = c"pthread_mutex_lock" ONLY (*mut pthread_mutex_t);
    MUTEX_TRYLOCK = c"pthread_mutex_trylock" ONLY (*mut pthread_mutex_t);
    MUTEX_TIMEDLOCK = c"pthread_mutex_timedlock" ONLY (*mut pthread_mutex_t, *const timespec);
    MUTEX_CLOCKLOCK = c"pthread_mutex_clocklock" ONLY (*mut pthread_mutex_t, clockid_t, *const timespec);
    MUTEX_UNLOCK = c"pthread_mutex_unlock" ONLY (*mut pthread_mutex_t);

    COND_INIT = c"pthread_cond_init" COND (*mut pthread_cond_t, *const pthread_condattr_t);
    COND_DESTROY = c"pthread_cond_destroy" COND (*mut pthread_cond_t);
    COND_WAIT = c"pthread_cond_wait" COND (*mut pthread_cond_t, *mut pthread_mutex_t);
    COND_TIMEDWAIT = c"pthread_cond_timedwait" COND (*mut pthread_cond_t, *mut pthread_mutex_t, *const timespec);
    COND_CLOCKWAIT = c"pthread_cond_clockwait" ONLY (*mut pthread_cond_t, *mut pthread_mutex_t, clockid_t, *const timespec);
    COND_SIGNAL = c"pthread_cond_signal" COND (*mut pthread_cond_t);
    COND_BROADCAST = c"pthread_cond_broadcast" COND (*mut pthread_cond_t);

    RWLOCK_INIT = c"pthread_rwlock_init" ONLY (*mut pthread_rwlock_t, *const pthread_rwlockattr_t);
    RWLOCK_DESTROY = c"pthread_rwlock_destroy" ONLY (*mut pthread_rwlock_t);
    RWLOCK_RDLOCK = c"pthread_rwlock_rdlock" ONLY (*mut pthread_rwlock_t);
    RWLOCK_TRYRDLOCK = c"pthread_rwlock_tryrdlock" ONLY (*mut pthread_rwlock_t);
    RWLOCK_TIMEDRDLOCK = c"pthread_rwlock_timedrdlock" ONLY (*mut pthread_rwlock_t, *const timespec);
    RWLOCK_CLOCKRDLOCK = c"pthread_rwlock_clockrdlock" ONLY (*mut pthread_rwlock_t, clockid_t, *const timespec);
    RWLOCK_WRLOCK = c"pthread_rwlock_wrlock" ONLY (*mut pthread_rwlock_t);
    RWLOCK_TRYWRLOCK = c"pthread_rwlock_trywrlock" ONLY (*mut pthread_rwlock_t);
    RWLOCK_TIMEDWRLOCK = c"pthread_rwlock_timedwrlock" ONLY (*mut pthread_rwlock_t, *const timespec);
    RWLOCK_CLOCKWRLOCK = c"pthread_rwlock_clockwrlock" ONLY (*mut pthread_rwlock_t, clockid_t, *const timespec);
    RWLOCK_UNLOCK = c"pthread_rwlock_unlock" ONLY (*mut pthread_rwlock_t);
}

// Declared here rather than taken from the crate libc: a thread that is cancelled unwinds from
// inside these.
unsafe extern "C-unwind" {
    pub(crate) fn pthread_testcancel();
    pub(crate) fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    pub(crate) fn syscall(number: c_long, ...) -> c_long;
}

/// glibc's `struct _pthread_cleanup_buffer`: a handler of a cancelled thread, in a list of the
/// thread's.
#[repr(C)]
pub(crate) struct CleanupBuffer {
    routine: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    cancel_kind: c_int,
    previous: *mut CleanupBuffer,
}

impl CleanupBuffer {
    /// What `_pthread_cleanup_push` fills in.
    pub(crate) const EMPTY: CleanupBuffer = CleanupBuffer {
        routine: None,
        argument: core::ptr::null_mut(),
        cancel_kind: 0,
        previous: core::ptr::null_mut(),
    };
}

unsafe extern "C" {
    /// The program's name, kept by libc.
    pub(crate) static program_invocation_short_name: *const core::ffi::c_char;
    // The functions behind the macros of programs that are compiled without exceptions, in every
    // glibc. The macros of today need setjmp, or a value to drop.
    pub(crate) fn _pthread_cleanup_push(
        buffer: *mut CleanupBuffer,
        routine: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    pub(crate) fn _pthread_cleanup_pop(buffer: *mut CleanupBuffer, execute: c_int);
    pub(crate) fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    pub(crate) fn pthread_mutexattr_getrobust(
        attributes: *const pthread_mutexattr_t,
        robust: *mut c_int,
    ) -> c_int;
    pub(crate) fn pthread_mutexattr_gettype(
        attributes: *const pthread_mutexattr_t,
        kind: *mut c_int,
    ) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
pub(crate) const CANCEL_DISABLE: c_int = 1;
/// `PTHREAD_CANCEL_ASYNCHRONOUS`.
pub(crate) const CANCEL_ASYNCHRONOUS: c_int = 1;
