//! A message queue made of a mutex and two semaphores: one counts messages, the other room.
//!
//! A permit too many does no harm: the process that gets it finds nothing, and uses it up. A permit
//! too few would leave a process asleep. So the ring and the permits are changed only while the
//! mutex is held: after a death the next holder is told, and adds permits for all that may be in
//! the ring, and for all room. A process that dies holding a permit and not the mutex has changed
//! nothing, and the semaphore gives its permit to the next one.

use outlive::sync::{
    EmbeddedMutex, EmbeddedSemaphore, LockError, Mutex, MutexGuard, Record, Semaphore,
};
use outlive::{Domain, Error, WaitStrategy};

use super::ring::{MOST_BYTES, MOST_MESSAGES, Ring};

outlive::record! {
    /// What all processes share.
    struct Words {
        ring: EmbeddedMutex<Ring>,
        messages: EmbeddedSemaphore<MOST_MESSAGES>,
        room: EmbeddedSemaphore<MOST_MESSAGES>,
    }
}

/// The queue, as one process has it.
pub struct MuSm {
    ring: Mutex<Ring>,
    messages: Semaphore,
    room: Semaphore,
}

impl MuSm {
    /// Opens the queue of that name, or makes it.
    pub fn open(domain: &Domain, name: &str) -> Result<MuSm, Error> {
        let words = Record::<Words>::options()
            .init(|words| words.messages.set_permits(0))
            .open_or_create(domain, name)?;
        Ok(MuSm {
            ring: words.handle(|words| &words.ring),
            messages: words.handle(|words| &words.messages),
            room: words.handle(|words| &words.room),
        })
    }

    /// How waiting is done.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.ring.set_wait_strategy(wait);
        self.messages.set_wait_strategy(wait);
        self.room.set_wait_strategy(wait);
    }

    /// Sends a message, waiting for room.
    pub fn send(&self, message: &[u8]) -> Result<(), String> {
        if message.len() > MOST_BYTES {
            return Err(format!("a message has {MOST_BYTES} bytes at most"));
        }
        loop {
            let room = self.room.acquire().map_err(|error| error.to_string())?;
            let mut ring = self.told(self.ring.lock())?;
            // Used up, not given back: the receiver adds it again when it takes a message.
            room.consume();
            if ring.is_full() {
                continue;
            }
            ring.push(message);
            // Full: a repair has added it already.
            let _ = self.messages.add_permit();
            return Ok(());
        }
    }

    /// Receives a message, waiting for one.
    pub fn receive(&self, message: &mut Vec<u8>) -> Result<(), String> {
        loop {
            let one = self.messages.acquire().map_err(|error| error.to_string())?;
            let mut ring = self.told(self.ring.lock())?;
            one.consume();
            if ring.is_empty() {
                continue;
            }
            ring.pop(message);
            let _ = self.room.add_permit();
            return Ok(());
        }
    }

    /// Returns the ring, which is whole at any time. If its holder died, permits may be missing:
    /// adds them.
    fn told<'a>(
        &self,
        locked: Result<MutexGuard<'a, Ring>, LockError<MutexGuard<'a, Ring>>>,
    ) -> Result<MutexGuard<'a, Ring>, String> {
        match locked {
            Ok(ring) => Ok(ring),
            Err(LockError::OwnerDied(mut ring)) => {
                for _ in 0..MOST_MESSAGES {
                    // As many as there may be is as many as could be missing.
                    let _ = (self.messages.add_permit(), self.room.add_permit());
                }
                ring.mark_consistent();
                Ok(ring)
            }
            Err(other) => Err(other.to_string()),
        }
    }
}
