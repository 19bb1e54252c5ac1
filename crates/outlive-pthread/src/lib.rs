//! `liboutlive_pthread.so`, for `LD_PRELOAD`: makes *process-shared* pthread mutexes, reader-writer
//! locks and condition variables survive the death of any process that uses them, in programs that
//! know nothing of this library.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `mutex` | `pthread_mutex_*`: libc's robust mutex in the place of its plain one |
//! | `condvar` | `pthread_cond_*`: a counter in the place of libc's, with nothing in it that a death can spoil |
//! | `rwlock` | `pthread_rwlock_*`: the lock is a key |
//! | `holds` | which threads hold which key: a table in the domain, under one of Outlive's mutexes |
//! | `real` | libc's own functions, which the shim's replace |
//! | `settings`, `log` | the environment, and the lines that are written |
//!
//! Everything that is private to a process goes to libc untouched. doc/pthread-shim.md has the
//! choices, and what cannot be done.

#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

mod condvar;
mod holds;
mod log;
mod mutex;
mod real;
mod rwlock;
mod settings;

/// Runs when the library is loaded, after libc's own start. A function that is called before looks
/// up what it needs.
extern "C" fn start() {
    settings::read();
    real::find_all();
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
