//! crossbeam-channel's names over Outlive's queue: what its tests need of them.
//!
//! A queue carries plain bytes between processes. These tests send values of any type between the
//! threads of one process, so a message is the address of a boxed value. All else is the queue's:
//! the order, the waiting, and what is told when a side is gone. A clone of a receiver is the same
//! receiver behind a lock, because a queue has one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use outlive::queue::{Queue, QueueOptions};
use outlive::{Deadline, Domain};

mod errors;

pub use errors::*;

/// Returns a domain of this process's own. `cargo xtask suites` names its folder, and removes it.
fn domain() -> &'static Domain {
    static DOMAIN: OnceLock<Domain> = OnceLock::new();
    DOMAIN.get_or_init(|| Domain::open_default().expect("OUTLIVE_DOMAIN can be opened"))
}

/// Both sides of a channel, until the last handle is gone.
struct Channel {
    name: String,
    queue: Queue<u64>,
    drop_value: unsafe fn(u64),
}

/// # Safety
/// `address` is a box of a `T` that no other code owns.
unsafe fn drop_value<T>(address: u64) {
    drop(Box::from_raw(address as *mut T));
}

impl Drop for Channel {
    fn drop(&mut self) {
        // What a sender put in while the receiver left. A value whose drop panicked, in one of these
        // tests, leaves the others there.
        let left = if std::thread::panicking() { None } else { self.queue.receiver().ok() };
        if let Some(mut left) = left {
            while let Ok(Some(address)) = left.try_recv() {
                // SAFETY: a message is the address of a box of the channel's type, and is received
                // once.
                unsafe { (self.drop_value)(address) };
            }
        }
        let _ = domain().remove(&self.name);
    }
}

/// A sender that threads share by reference: Outlive's is for one thread at a time.
pub struct Sender<T> {
    sender: Mutex<outlive::queue::Sender<u64>>,
    channel: Arc<Channel>,
    _value: std::marker::PhantomData<fn(T)>,
}

/// The one receiver of the queue, which all clones share.
struct Shared<T> {
    receiver: Mutex<Option<outlive::queue::Receiver<u64>>>,
    channel: Arc<Channel>,
    _value: std::marker::PhantomData<fn() -> T>,
}

pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(Queue::<u64>::options())
}

/// A channel of so many messages.
pub fn bounded<T>(messages: usize) -> (Sender<T>, Receiver<T>) {
    assert!(
        messages > 0,
        "a queue keeps messages: doc/suites.md has the cases in which a send waits for its receive"
    );
    channel(Queue::<u64>::options().max_messages(messages as u32))
}

fn channel<T>(options: QueueOptions<u64>) -> (Sender<T>, Receiver<T>) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("channel.{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let queue = options
        .max_bytes(256 << 20)
        .need_receiver(true)
        .create_new(domain(), &name)
        .expect("a name that no other channel has");
    let receiver = queue.receiver().expect("a new queue has no receiver");
    receiver.end_when_senders_gone(true);
    let sender = queue.sender().expect("a thread has a token");
    let channel = Arc::new(Channel { name, queue, drop_value: drop_value::<T> });
    let shared = Shared {
        receiver: Mutex::new(Some(receiver)),
        channel: Arc::clone(&channel),
        _value: std::marker::PhantomData,
    };
    (
        Sender { sender: Mutex::new(sender), channel, _value: std::marker::PhantomData },
        Receiver { shared: Arc::new(shared) },
    )
}

impl<T> Sender<T> {
    /// Sends by `how`; gives the value back where the queue refused it.
    fn send_by(
        &self,
        value: T,
        how: impl FnOnce(&outlive::queue::Sender<u64>, &u64) -> Result<(), outlive::SendError>,
    ) -> Result<(), (outlive::SendError, T)> {
        let address = Box::into_raw(Box::new(value)) as u64;
        how(&self.sender.lock().unwrap_or_else(PoisonError::into_inner), &address)
            // SAFETY: the queue refused the message, so the box is still this thread's.
            .map_err(|error| (error, *unsafe { Box::from_raw(address as *mut T) }))
    }

    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.send_by(value, |sender, message| sender.send(message)).map_err(|(_, value)| SendError(value))
    }

    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.send_by(value, |sender, message| sender.try_send(message)).map_err(|(error, value)| match error {
            outlive::SendError::Full { .. } => TrySendError::Full(value),
            _ => TrySendError::Disconnected(value),
        })
    }

    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_by(value, |sender, message| sender.send_timeout(message, timeout)).map_err(
            |(error, value)| match error {
                outlive::SendError::TimedOut { .. } => SendTimeoutError::Timeout(value),
                _ => SendTimeoutError::Disconnected(value),
            },
        )
    }

    pub fn len(&self) -> usize {
        pending(&self.channel)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn is_full(&self) -> bool {
        is_full(&self.channel)
    }

    pub fn capacity(&self) -> Option<usize> {
        capacity(&self.channel)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        let sender = self.channel.queue.sender().expect("a thread has a token");
        let channel = Arc::clone(&self.channel);
        Sender { sender: Mutex::new(sender), channel, _value: std::marker::PhantomData }
    }
}

fn pending(channel: &Channel) -> usize {
    channel.queue.counters().expect("the queue is whole").pending as usize
}

fn is_full(channel: &Channel) -> bool {
    capacity(channel).is_some() && channel.queue.is_full().expect("the queue is whole")
}

fn capacity(channel: &Channel) -> Option<usize> {
    channel.queue.config().max_messages.map(|most| most as usize)
}

/// What a receive by the queue came to.
type Got<T> = Result<Option<T>, RecvError>;

impl<T> Receiver<T> {
    fn recv_by(
        &self,
        how: impl FnOnce(&mut outlive::queue::Receiver<u64>) -> Result<Option<u64>, outlive::RecvError>,
    ) -> Got<T> {
        let mut receiver = self.shared.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = receiver.as_mut().expect("it is there until the last clone is gone");
        match how(receiver) {
            // SAFETY: a message is the address of a box of the channel's type, and is received once.
            Ok(address) => Ok(address.map(|address| *unsafe { Box::from_raw(address as *mut T) })),
            Err(outlive::RecvError::Closed) => Err(RecvError),
            Err(other) => panic!("{other}"),
        }
    }

    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_by(|receiver| receiver.recv().map(Some))
            .map(|value| value.expect("recv without a deadline yields a message"))
    }

    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.recv_by(|receiver| receiver.try_recv()) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(TryRecvError::Empty),
            Err(RecvError) => Err(TryRecvError::Disconnected),
        }
    }

    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        match self.recv_by(|receiver| receiver.recv_timeout(timeout)) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(RecvTimeoutError::Timeout),
            Err(RecvError) => Err(RecvTimeoutError::Disconnected),
        }
    }

    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.recv_by(|receiver| receiver.recv_until(Deadline::after(left))) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(RecvTimeoutError::Timeout),
            Err(RecvError) => Err(RecvTimeoutError::Disconnected),
        }
    }

    pub fn len(&self) -> usize {
        pending(&self.shared.channel)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn is_full(&self) -> bool {
        is_full(&self.shared.channel)
    }

    pub fn capacity(&self) -> Option<usize> {
        capacity(&self.shared.channel)
    }

    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        Receiver { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let receiver = self.receiver.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut receiver) = receiver.take() {
            while let Ok(Some(address)) = receiver.try_recv() {
                // SAFETY: a message is the address of a box of the channel's type, and is received
                // once.
                unsafe { (self.channel.drop_value)(address) };
            }
        }
    }
}

pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;
    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// Tries each receiver in turn: Outlive waits for several queues by a wait set, which these tests
/// do not ask for.
#[macro_export]
macro_rules! select {
    (send($sender:expr, $message:expr) -> $result:pat => $body:expr, default => $else:expr $(,)?) => {{
        if $sender.is_full() {
            $else
        } else {
            let $result = $sender.send($message);
            $body
        }
    }};
    (send($sender:expr, $message:expr) -> $result:pat => $body:expr $(,)?) => {{
        let $result = $sender.send($message);
        $body
    }};
    ($(recv($receiver:expr) -> $result:pat => $body:expr),+ $(,)?) => {
        $crate::crossbeam_channel_internal! { $(recv($receiver) -> $result => { $body })+ }
    };
}

#[macro_export]
macro_rules! crossbeam_channel_internal {
    ($(recv($receiver:expr) -> $result:pat => $body:block)+) => {
        loop {
            $(
                match $receiver.try_recv() {
                    Err($crate::TryRecvError::Empty) => {}
                    got => {
                        let $result = got.map_err(|_| $crate::RecvError);
                        break $body;
                    }
                }
            )+
            std::thread::yield_now();
        }
    };
}
