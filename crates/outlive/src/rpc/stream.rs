//! Several replies to one request: a ring of eight in the call's slot.
//!
//! The client says in `taken` how many it took. A server that finds the ring full prepares a wait on `space`
//! (sync/event_count.rs), looks again, and sleeps on {`space`, the client's process}; the client notifies it after each reply that it takes, and
//! so does whoever cancels the call.

use super::call::{After, Claim, Ready};
use super::error::ReplyError;
use super::layout::RING;
use super::request::Request;
use crate::shim::Ordering;
use crate::sys::robust::WakeRelay;
use crate::wake::Sleep;
use crate::{Deadline, Error};

/// Replies to one request, sent one after the other. Dropped before [`Stream::finish`], the client is told
/// [`CallError::Dropped`](super::CallError::Dropped) after the last.
///
/// Eight replies may be on their way; then sending waits for the client. See [`Pending`](super::Pending) for an example.
///
/// # If a process dies
/// The server's: the client has what was sent, and is told after it. The client's: a send that waits fails at once.
#[must_use = "a stream that is dropped is cut off"]
pub struct Stream {
    request: Request,
    written: u32,
}

impl Stream {
    pub(super) fn new(request: Request) -> Stream {
        Stream { request, written: 0 }
    }

    /// The request that is answered.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Sends a reply, waiting as long as eight are on their way.
    ///
    /// # Errors
    /// As [`Request::reply`]; the stream goes on after [`ReplyError::TooLarge`] and [`ReplyError::NoSpace`].
    ///
    /// # If a process dies
    /// The client's: [`ReplyError::ClientDied`], at once.
    pub fn send(&mut self, reply: &[u8]) -> Result<(), ReplyError> {
        self.send_until(reply, Deadline::NEVER)
    }

    /// The same, until the deadline.
    ///
    /// # Errors
    /// As [`Stream::send`], and [`ReplyError::TimedOut`].
    pub fn send_until(&mut self, reply: &[u8], deadline: impl Into<Deadline>) -> Result<(), ReplyError> {
        if !self.has_space()? {
            self.wait_for_space(deadline.into())?;
        }
        self.request.send(self.written, reply, After::More)?;
        self.written = self.written.wrapping_add(1);
        Ok(())
    }

    /// The last word: nothing more comes.
    ///
    /// # Errors
    /// As [`Request::reply`].
    pub fn finish(mut self) -> Result<(), ReplyError> {
        self.request.end(self.written, After::End)?;
        self.request.is_over = true;
        Ok(())
    }

    fn has_space(&self) -> Result<bool, ReplyError> {
        let call = self.request.call()?;
        if call.words.claim() != Claim::taken(self.request.number, self.request.process) {
            return Err(ReplyError::Cancelled);
        }
        // Acquire pairs with the client's store: it has read what lay there. Of another call: it has taken nothing yet.
        let taken = Ready(call.words.taken.load(Ordering::Acquire));
        let is_ours = taken.number() == self.request.number;
        if is_ours && taken.is_end() {
            return Err(ReplyError::Cancelled);
        }
        let count = if is_ours { taken.count() } else { 0 };
        Ok(Ready::new(0, self.written, After::More).beyond(count) < RING)
    }

    #[cold]
    fn wait_for_space(&self, deadline: Deadline) -> Result<(), ReplyError> {
        let request = &self.request;
        let me = request.enter()?;
        let registry = request.service.queue.registry();
        let words = request.call()?.words;
        let spun = request.service.queue.spin_wait().spin(|| !matches!(self.has_space(), Ok(false)));
        if spun && self.has_space()? {
            return Ok(());
        }
        let relay = WakeRelay::begin(me.list());
        let mut out_of_time = false;
        loop {
            let ticket = words.space.prepare_wait();
            let slept = match self.has_space() {
                Ok(false) if out_of_time => Err(ReplyError::TimedOut),
                Ok(false) => match request.client {
                    None => Err(ReplyError::Cancelled),
                    Some(client) if !registry.is_alive(client) => Err(ReplyError::ClientDied),
                    Some(client) => {
                        let slice = ticket.until(deadline);
                        Sleep::on(registry, &[words.space.watch(ticket)])
                            .behind(&relay, &[client])
                            .until(slice)
                            .map(|_| false)
                            .map_err(|errno| Error::from_errno("wait in", registry.path(), errno).into())
                    }
                },
                other => other,
            };
            words.space.cancel_wait(ticket);
            if slept? {
                return Ok(());
            }
            out_of_time = deadline.has_passed();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.request.is_over {
            let _ = self.request.end(self.written, After::Dropped);
            self.request.is_over = true;
        }
    }
}
