//! The parts of a request as the server's wait sets and tasks see them: is there one for the server that has the request, or
//! have they ended? It reads shared words alone, from any thread, and takes nothing: a try does.
//!
//! A set sleeps on `space` and on the end of the client's process, as a plain wait does (parts.rs), and as
//! one for the client's letting go (cancellation.rs).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};

use super::call::State;
use super::cancellation::{Asker, Cancellation};
use super::request::{RawRequest, Request};
use super::stream::Stream;
use crate::wake::{
    EventCount, PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Error, Payload};

/// The parts of a request, for a wait set: made by [`Request::parts`] and [`Stream::parts`].
///
/// Ready when [`Request::try_next_part`] has something to return: a part, or that there are no more
/// ([`Readiness::Readable`](crate::wait::Readiness::Readable)), or that no client waits for a reply any
/// more ([`Readiness::Ended`](crate::wait::Readiness::Ended)). Once it has returned that there are no more
/// parts, only the last of these makes it ready; once the request is answered, nothing does.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-arriving-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::wait::{Readiness, WaitSet};
/// use std::task::Poll;
///
/// let service = outlive::rpc::Service::<[u8]>::open_or_create(&domain, "store")?;
/// let (mut server, client) = (service.server()?, service.client()?);
/// let mut upload = client.stream(b"holiday.mp4")?;    // in another process, as a rule
/// let mut request = server.next()?;
/// let mut set = WaitSet::new(&domain);
/// let arriving = set.add(&request.parts())?;
/// assert_eq!(set.try_wait()?.count(), 0);
/// upload.send(b"a part")?;
/// assert_eq!(set.wait()?.next(), Some((arriving, Readiness::Readable)));
/// let Poll::Ready(Some(part)) = request.try_next_part()? else { panic!("it is there") };
/// assert_eq!(*part, *b"a part");
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the client dies, this is ready at once.
#[derive(Clone)]
pub struct Parts {
    client: Cancellation,
    /// The server has been told that there are no more.
    ended: Arc<AtomicBool>,
    asker: Asker,
}

impl Source for Parts {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(self.clone(), self.client.registry()))
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// Returns the request's parts, for a wait set: see [`Parts`].
    pub fn parts(&self) -> Parts {
        self.raw.parts(Asker::Set)
    }

    /// Returns the request's parts, for a task that waits for one once.
    #[doc(hidden)]
    pub fn parts_once(&self) -> Parts {
        self.raw.parts(Asker::Task)
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    /// Returns the parts of the request, for a wait set: see [`Parts`].
    pub fn parts(&self) -> Parts {
        self.request.parts()
    }
}

impl RawRequest {
    fn parts(&self, asker: Asker) -> Parts {
        let ended = Arc::clone(self.told_parts_end.get_or_init(Arc::default));
        Parts { client: self.cancellation(), ended, asker }
    }

    /// Notes that the server has been told that there are no more parts.
    pub(super) fn tell_parts_end(&self) {
        if let Some(told) = self.told_parts_end.get() {
            told.store(true, StdOrdering::Relaxed);
        }
    }
}

impl Parts {
    fn has_ended(&self) -> bool {
        self.ended.load(StdOrdering::Relaxed)
    }

    /// Returns whether a try returns a part or the end.
    fn is_there(&self) -> bool {
        let Some(words) = self.client.words() else { return false };
        let (parts, number) = (words.parts(), self.client.number());
        let is_there = parts.number() != number
            || parts.is_end()
            || parts.beyond(words.parts_taken(number)) > 0;
        // Behind those loads: the slot is another call's only once the claim has said so. WRITING: a
        // thread of this server's, between two parts or replies.
        let seen = words.claim();
        is_there && seen.number() == number && matches!(seen.state(), State::Taken | State::Writing)
    }
}

impl Waited for Parts {
    fn look(&self) -> SourceState {
        let has_ended = self.has_ended();
        if has_ended && self.asker == Asker::Task {
            return self.asker.over();
        }
        match (!has_ended && self.is_there(), self.client.look_of(self.asker)) {
            // Answered since; or what is there comes first.
            (true, _) if !self.client.is_answered() => SourceState::Ready(Readiness::Readable),
            (_, client) => client,
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        self.client.event_count()
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        self.client.add_words(prepared, words);
    }
}
