//! Room for the next reply of a stream, as the server's wait sets and tasks see it, from any thread. How many
//! replies are under way, the server's own count and `taken` say, as they do for a try: so both find the
//! same, whatever a stray write has made of `ready`.
//!
//! A set sleeps on `space` and on the end of the client's process, as a plain wait does (stream.rs), and as
//! one for the client's letting go (cancellation.rs).

use super::call::{CallWords, Ready, State};
use super::cancellation::{Asker, Cancellation};
use super::layout::is_room;
use super::stream::Stream;
use crate::shim::Ordering;
use crate::wake::{
    EventCount, PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Error, Payload};

/// Room for the next reply of a stream, for a wait set: made by [`Stream::room`].
///
/// Ready while fewer than eight replies are under way
/// ([`Readiness::Writable`](crate::wait::Readiness::Writable)): so a set should have it only while its
/// owner has a reply to send. Ready as well when no client waits for a reply any more
/// ([`Readiness::Ended`](crate::wait::Readiness::Ended)). Once the stream has ended, nothing makes it ready.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-reply-room-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::wait::{Readiness, WaitSet};
///
/// let service = outlive::rpc::Service::<[u8], u64>::open_or_create(&domain, "count")?;
/// let (mut server, client) = (service.server()?, service.client()?);
/// let mut call = client.begin(b"all")?;               // in another process, as a rule
/// let mut numbers = server.next()?.stream();
/// let mut set = WaitSet::new(&domain);
/// let room = set.add(&numbers.room())?;
/// let mut number = 0;
/// while numbers.try_send(&number).is_ok() {
///     number += 1;
/// }
/// assert_eq!((number, set.try_wait()?.count()), (8, 0));
/// assert_eq!(call.next()?.expect("it was sent").value(), 0);
/// assert_eq!(set.wait()?.next(), Some((room, Readiness::Writable)));
/// numbers.try_send(&number)?;
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the client dies, this is ready at once.
#[derive(Clone)]
pub struct ReplyRoom {
    client: Cancellation,
    asker: Asker,
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    /// Returns the room for another reply, for a wait set: see [`ReplyRoom`].
    #[must_use]
    pub fn room(&self) -> ReplyRoom {
        let client = self.request.raw.cancellation();
        client.told().set_written(self.written);
        ReplyRoom { client, asker: Asker::Set }
    }

    /// Returns the room for another reply, for a task that waits for it once.
    #[doc(hidden)]
    #[must_use]
    pub fn room_once(&self) -> ReplyRoom {
        ReplyRoom { asker: Asker::Task, ..self.room() }
    }
}

impl ReplyRoom {
    fn is_there(&self, words: &CallWords) -> bool {
        let number = self.client.number();
        // Acquire pairs with the client's store, as in stream.rs.
        let taken = Ready(words.taken.load(Ordering::Acquire));
        let taken = if taken.number() == number { taken.count() } else { 0 };
        let is_room = is_room(self.client.told().written(), taken);
        let seen = words.claim();
        is_room && seen.number() == number && matches!(seen.state(), State::Taken | State::Writing)
    }
}

impl Waited for ReplyRoom {
    fn look(&self) -> SourceState {
        let is_there = self.client.words().is_some_and(|words| self.is_there(words));
        match self.client.look_of(self.asker) {
            // It wants replies. Asked again: an answer changes what was looked at.
            SourceState::BehindOwner(_) if is_there && !self.client.is_answered() => {
                SourceState::Ready(Readiness::Writable)
            }
            client => client,
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        self.client.event_count()
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        self.client.add_words(prepared, words);
    }
}

impl Source for ReplyRoom {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(self.clone(), self.client.registry()))
    }
}

impl std::fmt::Debug for ReplyRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplyRoom").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rpc::Service;
    use crate::rpc::call::After;
    use crate::{Domain, SendError};

    #[test]
    fn a_look_counts_as_a_try_does() {
        let folder = std::env::temp_dir().join(format!("outlive-replies-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
        let (mut server, client) =
            (service.server().expect("none yet"), service.client().expect("room"));
        let mut call = client.begin(b"all").expect("asked");
        let mut stream = server.next().expect("served").stream();
        stream.try_send(b"the first").expect("room");
        assert_eq!(stream.room().look(), SourceState::Ready(Readiness::Writable));
        while stream.try_send(b"a reply").is_ok() {}
        let room = stream.room();
        let words = call.slot.words;
        let (full, number) = (words.ready(), call.number);
        let one_less = Ready::new(number, full.count() - 1, After::More);
        for stray in [one_less, Ready::new(number + 1, 0, After::More)] {
            words.ready.store(stray.0, Ordering::Release);
            assert!(matches!(room.look(), SourceState::BehindOwner(_)), "{stray:?}");
            assert!(matches!(stream.try_send(b"more"), Err(SendError::Full { .. })));
        }
        words.ready.store(full.0, Ordering::Release);
        drop(call.next().expect("sent"));
        assert_eq!(room.look(), SourceState::Ready(Readiness::Writable));
        stream.try_send(b"more").expect("room");
        assert!(matches!(room.look(), SourceState::BehindOwner(_)));
        stream.finish().expect("it waits");
        assert_eq!(room.look(), SourceState::Waiting);
        // Another one's room is asked for once replies are under way.
        let _call = client.begin(b"all").expect("asked");
        let mut stream = server.next().expect("served").stream();
        while stream.try_send(b"a reply").is_ok() {}
        assert!(matches!(stream.room().look(), SourceState::BehindOwner(_)));
        let _ = std::fs::remove_dir_all(&folder);
    }
}
