//! Where calls wait for replies and for others: as tasks, on a few threads, whatever their number.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

use tokio::runtime::{Builder, Runtime};

/// So many threads run tasks.
const WORKERS: usize = 2;
/// So many more may be within a send that waits for a link.
const MOST_SENDING: usize = 64;

/// Returns what runs the tasks of this process.
///
/// # Errors
/// The system has no thread.
pub fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(WORKERS).max_blocking_threads(MOST_SENDING);
    let runtime = builder.thread_name("gateway-calls").enable_time().build()?;
    // Two at a time: the second one's is dropped.
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// Sends, in a task: a link that is full holds up this one, and no other.
pub fn on_the_link<T>(send: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(send)
}

struct Inside<T> {
    items: VecDeque<T>,
    waker: Option<Waker>,
}

/// What others put in, and one task takes out.
pub struct Inbox<T>(Mutex<Inside<T>>);

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        Inbox(Mutex::new(Inside { items: VecDeque::new(), waker: None }))
    }
}

impl<T> Inbox<T> {
    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one in.
    pub fn put(&self, item: T) {
        self.put_below(usize::MAX, item);
    }

    /// Puts one in while there are fewer; else it is dropped.
    pub fn put_below(&self, most: usize, item: T) {
        let mut inside = self.lock();
        if inside.items.len() >= most {
            return;
        }
        inside.items.push_back(item);
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the next one. A future that is dropped has taken none.
    pub fn next(&self) -> impl Future<Output = T> {
        poll_fn(|context| {
            let mut inside = self.lock();
            match inside.items.pop_front() {
                Some(item) => Poll::Ready(item),
                None => {
                    inside.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_inbox_wakes_its_reader_and_keeps_the_order() {
        let inbox = Arc::new(Inbox::default());
        let putting = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                for item in 0..3 {
                    thread::sleep(Duration::from_millis(5));
                    inbox.put(item);
                }
            })
        };
        runtime().expect("threads").block_on(async {
            for item in 0..3 {
                assert_eq!(inbox.next().await, item);
            }
        });
        putting.join().expect("no panic");
        (0..5).for_each(|item| inbox.put_below(2, item));
        assert_eq!(inbox.lock().items, [0, 1]);
    }
}
