//! A message queue made of a mutex and two condition variables.
//!
//! A process that dies holding the mutex leaves a ring that is whole, but perhaps a waiter that it
//! had not yet woken. The next process to take the mutex is told of the death, and wakes all.
//! Sleepers wait for that process meanwhile (or for the domain's coarse recheck, where one is set:
//! see `DomainOptions::recheck`).

use outlive::sync::{
    Condvar, EmbeddedCondvar, EmbeddedMutex, LockError, Mutex, MutexGuard, Record,
};
use outlive::{Domain, Error, WaitStrategy};

use super::ring::{MOST_BYTES, Ring};

outlive::record! {
    /// What all processes share.
    struct Words {
        ring: EmbeddedMutex<Ring>,
        came: EmbeddedCondvar,
        went: EmbeddedCondvar,
    }
}

/// The queue, as one process has it.
pub struct MuCv {
    ring: Mutex<Ring>,
    /// A message came.
    came: Condvar,
    /// A message went, so there is room.
    went: Condvar,
}

impl MuCv {
    /// Opens the queue of that name, or makes it.
    pub fn open(domain: &Domain, name: &str) -> Result<MuCv, Error> {
        let words = Record::<Words>::open_or_create(domain, name)?;
        Ok(MuCv {
            ring: words.handle(|words| &words.ring),
            came: words.handle(|words| &words.came),
            went: words.handle(|words| &words.went),
        })
    }

    /// How waiting is done.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.ring.set_wait_strategy(wait);
        self.came.set_wait_strategy(wait);
        self.went.set_wait_strategy(wait);
    }

    /// Sends a message, waiting for room.
    pub fn send(&self, message: &[u8]) -> Result<(), String> {
        if message.len() > MOST_BYTES {
            return Err(format!("a message has {MOST_BYTES} bytes at most"));
        }
        let mut ring = self.told(self.ring.lock())?;
        while ring.is_full() {
            ring = self.told(self.went.wait(ring))?;
        }
        ring.push(message);
        // With the mutex held: if this process dies before this, the next holder is told, and wakes
        // all.
        self.came.notify_one();
        Ok(())
    }

    /// Receives a message, waiting for one.
    pub fn receive(&self, message: &mut Vec<u8>) -> Result<(), String> {
        let mut ring = self.told(self.ring.lock())?;
        while ring.is_empty() {
            ring = self.told(self.came.wait(ring))?;
        }
        ring.pop(message);
        self.went.notify_one();
        Ok(())
    }

    /// Returns the ring, which is whole at any time. If its holder died, wakes all sleepers,
    /// because the dead one may have owed a call.
    fn told<'a>(
        &self,
        locked: Result<MutexGuard<'a, Ring>, LockError<MutexGuard<'a, Ring>>>,
    ) -> Result<MutexGuard<'a, Ring>, String> {
        match locked {
            Ok(ring) => Ok(ring),
            Err(LockError::OwnerDied(mut ring)) => {
                self.came.notify_all();
                self.went.notify_all();
                ring.mark_consistent();
                Ok(ring)
            }
            Err(other) => Err(other.to_string()),
        }
    }
}
