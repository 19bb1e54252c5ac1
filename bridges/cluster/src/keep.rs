//! Keeping a lease: a thread renews it while the lock is held, and says when it is lost.
//!
//! | state | left by | |
//! | --- | --- | --- |
//! | held | a renewal | held, with a later end |
//! | held | the end, less a margin, passes; the server says that the lease is no more | lost, for good |
//! | held | unlock | given back |
//!
//! A process that was stopped, or whose machine was suspended, finds that the end has passed before it
//! does anything else: the clock is read at each question, and goes on while neither runs. An answer
//! that comes behind the end changes nothing: the state is left only forwards.
//!
//! If this process dies, the thread dies with it and the lease ends at the server. If it is stopped,
//! the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{process, thread};

use crate::client::Client;
use crate::clock::Moment;
use crate::error::{Error, Lost};
use crate::etcd::Lease;

/// A lease that is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    shared: Arc<Shared>,
    /// The process that keeps it. A child by `fork` has these bytes and no thread: there the state's
    /// lock may stay locked for ever, and the lease is its parent's.
    process: u32,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    ttl: Duration,
}

#[derive(Debug)]
struct State {
    lease: Lease,
    lost: Option<Lost>,
    over: bool,
}

/// So much of a lease's life is not used: clocks run at different speeds, and what is done in the
/// last moment takes time.
pub(crate) fn margin(ttl: Duration) -> Duration {
    ttl / 10
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end, less the margin.
    fn end(&self, lease: Lease) -> Moment {
        Moment(lease.until.0.saturating_sub(margin(self.ttl).as_nanos() as u64))
    }

    /// Notices that the end has passed.
    fn look(&self, state: &mut State) -> Option<Lost> {
        if state.lost.is_none() && self.end(state.lease).has_passed() {
            state.lost = Some(Lost::OutOfTime);
            self.changed.notify_all();
        }
        state.lost
    }
}

impl Kept {
    /// Keeps a lease from now on. Each renewal's end goes to `alive`, for processes that wait here.
    pub(crate) fn begin(
        client: Arc<Client>,
        lease: Lease,
        ttl: Duration,
        alive: impl Fn(Moment) + Send + 'static,
    ) -> Result<Kept, Error> {
        let state = Mutex::new(State { lease, lost: None, over: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new(), ttl });
        let of_thread = Arc::clone(&shared);
        alive(lease.until);
        thread::Builder::new()
            .name("outlive-lease".to_owned())
            .spawn(move || keep(&client, &of_thread, &alive))
            .map_err(|error| Error::Refused(format!("no thread to keep the lease: {error}")))?;
        Ok(Kept { shared, process: process::id() })
    }

    /// Returns whether this process is a child by `fork` of the one that keeps the lease.
    pub(crate) fn is_of_another_process(&self) -> bool {
        self.process != process::id()
    }

    /// Returns why the lease is lost; `None` while it is not.
    pub(crate) fn lost(&self) -> Option<Lost> {
        if self.is_of_another_process() {
            return Some(Lost::Forked);
        }
        self.shared.look(&mut self.shared.lock())
    }

    /// Returns up to when it is held if nothing more is heard of the cluster.
    pub(crate) fn end(&self) -> Moment {
        if self.is_of_another_process() {
            return Moment(0);
        }
        let mut state = self.shared.lock();
        match self.shared.look(&mut state) {
            Some(_) => Moment(0),
            None => self.shared.end(state.lease),
        }
    }

    /// Waits until it is lost, at most until then.
    pub(crate) fn wait_lost(&self, until: Moment) -> Option<Lost> {
        if self.is_of_another_process() {
            return Some(Lost::Forked);
        }
        let mut state = self.shared.lock();
        loop {
            if let Some(lost) = self.shared.look(&mut state) {
                return Some(lost);
            }
            if until.has_passed() {
                return None;
            }
            // In slices: this wait's clock stands still while the machine is suspended.
            let slice = margin(self.shared.ttl).min(until.remaining());
            let waited = self.shared.changed.wait_timeout(state, slice);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the keeping, and returns the lease if it was not lost.
    pub(crate) fn end_keeping(&self) -> Result<Lease, Lost> {
        if self.is_of_another_process() {
            return Err(Lost::Forked);
        }
        let mut state = self.shared.lock();
        state.over = true;
        self.shared.changed.notify_all();
        match self.shared.look(&mut state) {
            Some(lost) => Err(lost),
            None => Ok(state.lease),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Its result was asked for where it matters.
        let _ = self.end_keeping();
    }
}

fn keep(client: &Client, shared: &Shared, alive: &impl Fn(Moment)) {
    let third = shared.ttl / 3;
    let mut state = shared.lock();
    loop {
        // The next one is due when a third of the life has passed.
        let due = Moment(state.lease.until.0.saturating_sub(2 * third.as_nanos() as u64));
        loop {
            if state.over || shared.look(&mut state).is_some() {
                return;
            }
            if due.has_passed() {
                break;
            }
            let slice = margin(shared.ttl).min(due.remaining());
            let waited = shared.changed.wait_timeout(state, slice);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let lease = state.lease;
        drop(state);
        let renewed = client.renew(lease.id, shared.ttl, shared.end(lease));
        state = shared.lock();
        // Before what was heard: an answer from behind the end does not bring back what was lost.
        if state.over || shared.look(&mut state).is_some() {
            return;
        }
        match renewed {
            Ok(Some(lease)) => {
                state.lease = lease;
                alive(lease.until);
            }
            Ok(None) => {
                state.lost = Some(Lost::Ended);
                shared.changed.notify_all();
                return;
            }
            // Until the end; then it is lost.
            Err(Error::Unreachable { .. }) => {}
            // As long as the server refuses, the lease does not get younger: tried again until the
            // end. A token, for one, is given anew.
            Err(_) => {
                let waited = shared.changed.wait_timeout(state, margin(shared.ttl));
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// A word that says up to when a process of this machine deals with the cluster.
pub(crate) fn store_alive(word: &AtomicU64, until: Moment) {
    // Relaxed: no other memory is read because of it; a waiter that sees an old one asks the cluster
    // itself, which is right in any case.
    word.store(until.0, Ordering::Relaxed);
}
