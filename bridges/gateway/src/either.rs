//! Waiting for one of two things, in a thread: a reply from the network, or a client here that lets go.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// What was ready.
pub enum Either<A, B> {
    /// The first; if both were.
    First(A),
    /// The second.
    Second(B),
}

/// Waits, in this thread, for one of two futures.
pub fn either<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> Either<A, B> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    block_on(poll_fn(|context| {
        if let Poll::Ready(value) = first.as_mut().poll(context) {
            return Poll::Ready(Either::First(value));
        }
        second.as_mut().poll(context).map(Either::Second)
    }))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Waits, in this thread, for a future.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        thread::park();
    }
}

struct Inside<T> {
    items: VecDeque<T>,
    waker: Option<Waker>,
}

/// What others put in, and one thread takes out.
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
        let mut inside = self.lock();
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
    use std::future::{pending, ready};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_that_is_ready_counts() {
        assert!(matches!(either(ready(1), pending::<()>()), Either::First(1)));
        assert!(matches!(either(pending::<()>(), ready(2)), Either::Second(2)));
    }

    #[test]
    fn an_inbox_wakes_its_reader_and_keeps_the_order() {
        let inbox = Inbox::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                for item in 0..3 {
                    thread::sleep(Duration::from_millis(5));
                    inbox.put(item);
                }
            });
            for item in 0..3 {
                let got = either(inbox.next(), pending::<()>());
                assert!(matches!(got, Either::First(got) if got == item));
            }
        });
    }
}
