//! Threads of the library's own, where loom runs them.

use loom::thread::{self, JoinHandle};

use super::Errno;

/// Not loom's: no thread waits for it.
static STARTED: std::sync::Mutex<Vec<JoinHandle<()>>> = std::sync::Mutex::new(Vec::new());

pub(crate) fn start_thread(body: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    STARTED.lock().unwrap().push(thread::spawn(body));
    Ok(())
}

/// What loom's kernel is made of ends with the test's own thread.
pub(crate) fn join_started() {
    let started = std::mem::take(&mut *STARTED.lock().unwrap());
    started.into_iter().for_each(|thread| thread.join().unwrap());
}
