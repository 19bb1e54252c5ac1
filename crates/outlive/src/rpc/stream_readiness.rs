//! The server's end of a stream as a task sees it: is there room for another reply, or is the next
//! part of the request there? It reads shared words alone, from any thread, and sleeps on {`space`,
//! the client's process}, as a thread does (stream.rs, parts.rs).

use super::call::CallWords;
use super::cancellation::Cancellation;
use super::request::{RawRequest, Request};
use super::stream::{Stream, has_space};
use crate::Payload;
use crate::liveness::{Registry, TokenId};
use crate::wake::{EventCount, PreparedWait, Readiness, SourceState, WaitWords, Waited, Watched};

/// A change of `space` that a server waits for.
pub(crate) struct SpaceReadiness {
    number: u64,
    wanted: Wanted,
    cancellation: Cancellation,
}

enum Wanted {
    Part,
    /// For the reply of that number.
    Room {
        written: u32,
        process: TokenId,
    },
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// Returns what says that the next part is there, or that none will be.
    pub(crate) fn part_readiness(&self) -> SpaceReadiness {
        SpaceReadiness::of(&self.raw, Wanted::Part)
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    /// Returns what says that there is room for another reply, or that none is wanted.
    pub(crate) fn room_readiness(&self) -> SpaceReadiness {
        let raw = &self.request.raw;
        SpaceReadiness::of(raw, Wanted::Room { written: self.written, process: raw.process })
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// Returns what says that the next part is there, for the bindings' wait sets.
    #[doc(hidden)]
    pub fn part_source(&self) -> Watched {
        let there = self.part_readiness();
        let registry = there.registry();
        Watched::of(there, registry)
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    /// Returns what says that there is room for another reply, for the bindings' wait sets.
    #[doc(hidden)]
    pub fn room_source(&self) -> Watched {
        let room = self.room_readiness();
        let registry = room.registry();
        Watched::of(room, registry)
    }
}

impl SpaceReadiness {
    fn of(raw: &RawRequest, wanted: Wanted) -> SpaceReadiness {
        SpaceReadiness { number: raw.number, wanted, cancellation: raw.cancellation() }
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.cancellation.registry()
    }

    fn is_there(&self, words: &CallWords) -> bool {
        match self.wanted {
            Wanted::Part => {
                let parts = words.parts();
                // Of another call: a try tells why.
                parts.number() != self.number
                    || parts.is_end()
                    || parts.beyond(words.parts_taken(self.number)) > 0
            }
            Wanted::Room { written, process } => {
                !matches!(has_space(words, self.number, process, written), Ok(false))
            }
        }
    }
}

impl Waited for SpaceReadiness {
    fn look(&self) -> SourceState {
        // Before the client's end: what it did before is seen.
        let cancelled = self.cancellation.look();
        match self.cancellation.words() {
            Some(words) if !self.is_there(words) => cancelled,
            // The request has been answered, or cannot be looked at: a try tells.
            _ => SourceState::Ready(Readiness::Readable),
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        self.cancellation.event_count()
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        self.cancellation.add_words(prepared, words);
    }
}
