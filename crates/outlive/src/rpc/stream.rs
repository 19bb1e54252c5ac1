//! Several replies to one request: a ring of eight in the call's slot.
//!
//! The client writes into `taken` how many replies it took. A server that finds the ring full
//! prepares a wait on `space` (wake/event_count.rs), looks again, and sleeps on {`space`, the
//! client's process}. The client notifies it after each reply that it takes, and so does a process
//! that cancels the call.

use std::time::Duration;

use super::call::{After, CallWords, Claim, Ready};
use super::in_place::InPlace;
use super::layout::is_room;
use super::request::Request;
use crate::liveness::TokenId;
use crate::shim::Ordering;
use crate::sys::robust::WakeRelay;
use crate::wake::Sleep;
use crate::{Deadline, Error, Payload, SendError};

/// Sends replies to one request, one after the other. If it is dropped before [`Stream::finish`],
/// the client gets [`CallError::Dropped`](super::CallError::Dropped) after the last reply;
/// [`Stream::fail`] tells it why.
///
/// Eight replies may be under way; then a send waits for the client. See
/// [`Call`](super::Call) for an example.
///
/// # If a process dies
/// If the server's process dies, the client gets the replies that were sent, and then the error. If
/// the client dies, a waiting send fails at once.
#[must_use = "a stream that is dropped is cut off"]
pub struct Stream<Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    pub(super) request: Request<Q, R>,
    pub(super) written: u32,
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// Begins a stream: several replies, one after the other.
    pub fn stream(self) -> Stream<Q, R> {
        Stream { request: self, written: 0 }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    /// Returns the request.
    pub fn request(&self) -> &Request<Q, R> {
        &self.request
    }

    /// Sends a reply, waiting while eight are under way.
    ///
    /// # Errors
    /// The errors of [`Request::reply`]; the stream goes on after [`SendError::TooLarge`] and
    /// [`SendError::NoSpace`].
    ///
    /// # If a process dies
    /// If the client dies, this fails at once with [`SendError::ReceiverDied`].
    pub fn send(&mut self, reply: &R) -> Result<(), SendError> {
        self.send_until(reply, Deadline::NEVER)
    }

    /// Sends a reply, unless eight are under way. Never waits.
    ///
    /// # Errors
    /// The errors of [`Stream::send`], and [`SendError::Full`], after which the stream goes on.
    ///
    /// # If a process dies
    /// The same as with [`Stream::send`].
    pub fn try_send(&mut self, reply: &R) -> Result<(), SendError> {
        self.make_space(None)?;
        self.send_bytes(reply.bytes())
    }

    /// Sends a reply, waiting as long as `span` while eight are under way.
    ///
    /// # Errors
    /// The errors of [`Stream::send`], and [`SendError::TimedOut`], after which the stream goes on.
    ///
    /// # If a process dies
    /// The same as with [`Stream::send`].
    pub fn send_timeout(&mut self, reply: &R, span: Duration) -> Result<(), SendError> {
        self.send_until(reply, Deadline::after(span))
    }

    /// Sends a reply, waiting until the deadline while eight are under way.
    ///
    /// # Errors
    /// The errors of [`Stream::send`], and [`SendError::TimedOut`], after which the stream goes on.
    ///
    /// # If a process dies
    /// The same as with [`Stream::send`].
    pub fn send_until(&mut self, reply: &R, deadline: Deadline) -> Result<(), SendError> {
        self.make_space(Some(deadline))?;
        self.send_bytes(reply.bytes())
    }

    /// Waits until fewer than eight replies are under way. Without a deadline it does not wait.
    #[inline]
    pub(super) fn make_space(&self, deadline: Option<Deadline>) -> Result<(), SendError> {
        match deadline {
            _ if self.has_space()? => Ok(()),
            Some(deadline) => self.wait_for_space(deadline),
            None => {
                self.request.raw.check_client()?;
                Err(SendError::Full { slowest: None })
            }
        }
    }

    #[inline]
    pub(super) fn send_bytes(&mut self, reply: &[u8]) -> Result<(), SendError> {
        self.request.raw.send(self.written, reply, After::More)?;
        self.written = self.written.wrapping_add(1);
        Ok(())
    }

    /// Sends a reply that has been written in place; then [`InPlace::sent`] must be called.
    pub(super) fn send_object(&mut self, object: &InPlace) -> Result<(), SendError> {
        let raw = &self.request.raw;
        let me = raw.enter()?;
        raw.check_client()?;
        object.check_of(&raw.service, raw.process)?;
        raw.send_in_place(me, object, self.written, After::More)?;
        self.written = self.written.wrapping_add(1);
        Ok(())
    }

    /// Ends the stream: no more replies come.
    ///
    /// # Errors
    /// The errors of [`Request::reply`].
    pub fn finish(mut self) -> Result<(), SendError> {
        self.request.raw.end(self.written, After::End)?;
        self.request.raw.is_over = true;
        Ok(())
    }

    /// Ends the stream without a last reply, and tells the client why: after the replies that were
    /// sent, it gets [`CallError::Failed`](super::CallError::Failed) with this text. Never waits,
    /// not even while eight replies are under way. See [`Request::fail`] for the text's length.
    ///
    /// # Errors
    /// The errors of [`Request::fail`].
    ///
    /// # If a process dies
    /// Once this returns `Ok`, the client has the text, even if this process dies.
    pub fn fail(mut self, text: &str) -> Result<(), SendError> {
        self.request.raw.fail(self.written, text)
    }

    fn has_space(&self) -> Result<bool, SendError> {
        let raw = &self.request.raw;
        has_space(raw.call()?.words, raw.number, raw.process, self.written)
    }

    #[cold]
    fn wait_for_space(&self, deadline: Deadline) -> Result<(), SendError> {
        let request = &self.request.raw;
        let me = request.enter()?;
        let registry = request.service.queue.registry();
        let words = request.call()?.words;
        let changed = || !matches!(self.has_space(), Ok(false));
        let spun = request.service.queue.spin_wait().spin_until(deadline, changed);
        if spun && self.has_space()? {
            return Ok(());
        }
        let relay = WakeRelay::begin(me.list());
        let mut out_of_time = false;
        loop {
            let ticket = words.space.prepare_wait();
            let slept = match self.has_space() {
                Ok(false) if out_of_time => Err(SendError::TimedOut { slowest: None }),
                Ok(false) => match request.client {
                    None => Err(SendError::Cancelled),
                    Some(client) if !registry.is_alive(client) => Err(SendError::ReceiverDied),
                    Some(client) => {
                        let slice = ticket.until(deadline);
                        Sleep::on(registry, &[words.space.watch(ticket)])
                            .behind(&relay, &[client])
                            .until(slice)
                            .map(|_| false)
                            .map_err(|errno| {
                                Error::from_errno("wait in", registry.path(), errno).into()
                            })
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

/// Returns whether there is room for the reply of that number `written` to a call that the process has
/// taken; fails if the client wants none any more.
pub(super) fn has_space(
    words: &CallWords,
    call: u64,
    process: TokenId,
    written: u32,
) -> Result<bool, SendError> {
    if words.claim() != Claim::taken(call, process) {
        return Err(SendError::Cancelled);
    }
    // Acquire pairs with the client's store: it has read the reply there. Of another call: it has
    // taken none of this one yet.
    let taken = Ready(words.taken.load(Ordering::Acquire));
    let is_ours = taken.number() == call;
    if is_ours && taken.is_end() {
        return Err(SendError::Cancelled);
    }
    let count = if is_ours { taken.count() } else { 0 };
    Ok(is_room(written, count))
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Drop for Stream<Q, R> {
    fn drop(&mut self) {
        self.request.raw.abandon(self.written);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::task::Poll;

    use crate::rpc::Service;
    use crate::wake::SPINS;
    use crate::{Deadline, Domain, SendError};

    #[test]
    fn a_deadline_that_has_passed_makes_neither_end_spin() {
        let folder = std::env::temp_dir().join(format!("outlive-past-rpc-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
        let (mut server, client) =
            (service.server().expect("none yet"), service.client().expect("room"));
        let mut call = client.begin(b"count").expect("asked");
        let past = Deadline::at_nanos(0);
        let spins = SPINS.get();
        assert!(matches!(call.next_until(past), Ok(Poll::Pending)));
        let mut stream = server.try_next().expect("well").expect("asked").stream();
        while stream.try_send(b"1").is_ok() {}
        assert_eq!(stream.send_until(b"1", past), Err(SendError::TimedOut { slowest: None }));
        assert_eq!(SPINS.get(), spins);
        assert!(matches!(call.next_until(past), Ok(Poll::Ready(Some(_)))), "what is there comes");
        stream.send_until(b"1", past).expect("there is room");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
