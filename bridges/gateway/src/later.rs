//! What is to be done at some moment, on a thread of its own that sleeps until then: acknowledgements,
//! questions, reminders. Without work it sleeps for ever.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Due {
    /// By moment, and by the order in which they came.
    work: BTreeMap<(Instant, u64), Work>,
    count: u64,
    is_over: bool,
}

#[derive(Default)]
struct Shared {
    due: Mutex<Due>,
    woken: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the head of this file.
pub struct Later(Arc<Shared>);

impl Later {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start() -> std::io::Result<Later> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("gateway-later".into()).spawn(move || run(&theirs))?;
        Ok(Later(shared))
    }

    /// Has that done after a while.
    pub fn after(&self, span: Duration, work: impl FnOnce() + Send + 'static) {
        let mut due = self.0.lock();
        due.count += 1;
        let key = (Instant::now() + span, due.count);
        let is_first = due.work.first_key_value().is_none_or(|(first, _)| key < *first);
        due.work.insert(key, Box::new(work));
        if is_first {
            self.0.woken.notify_one();
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.woken.notify_one();
    }
}

fn run(shared: &Shared) {
    let mut due = shared.lock();
    while !due.is_over {
        let next = due.work.first_key_value().map(|((moment, _), _)| *moment);
        let wait = next.map(|moment| moment.saturating_duration_since(Instant::now()));
        due = match wait {
            Some(Duration::ZERO) => {
                let work = due.work.pop_first();
                drop(due);
                if let Some((_, work)) = work {
                    work();
                }
                shared.lock()
            }
            Some(wait) => {
                let waited = shared.woken.wait_timeout(due, wait);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => shared.woken.wait(due).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_is_done_in_the_order_of_the_moments() {
        let later = Later::start().expect("a thread");
        let (sender, done) = mpsc::channel();
        for (millis, name) in [(60, "third"), (0, "first"), (20, "second")] {
            let sender = sender.clone();
            later.after(Duration::from_millis(millis), move || sender.send(name).expect("read"));
        }
        let all: Vec<_> =
            (0..3).map(|_| done.recv_timeout(Duration::from_secs(60)).expect("done")).collect();
        assert_eq!(all, ["first", "second", "third"]);
    }
}
