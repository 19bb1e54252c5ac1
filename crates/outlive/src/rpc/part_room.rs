//! Room for the next part of a request, as the client's wait sets and tasks see it, from any thread. How many
//! parts are under way, the client's own count and `parts_taken` say, as they do for a try: so both find
//! the same, whatever a stray write has made of `parts`.
//!
//! A part needs memory besides, and whether there is some only a try finds out. One that finds none leaves
//! a ticket here, from before it tried once more.
//!
//! | waits for | sleeps on | beside that |
//! | --- | --- | --- |
//! | a place in the ring | the same as a call (readiness.rs): `replies`, the claim, the server's end | |
//! | memory | the same, and the queue's `room` | a look after 10 ms (begin_readiness.rs) |
//!
//! | died, or stopped | what becomes of it |
//! | --- | --- |
//! | the server, before `parts_taken` or behind it | dies: its end is watched, and a try tells. Stopped before its notification: the recheck of a set behind any owner, a second later |
//! | a process that was about to free memory | the look after 10 ms; what it had, a sweep frees |
//! | the client | all of this is its own, but the number in `replies`: one wake in vain |

use std::sync::Arc;

use super::call::CallWords;
use super::cancellation::Asker;
use super::client_stream::RequestStream;
use super::layout::is_room;
use super::readiness::CallReadiness;
use super::told::ToldParts;
use crate::wake::{
    EventCount, PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Deadline, Error, Payload};

/// Room for the next part of a request, for a wait set: made by [`RequestStream::room`].
///
/// Ready while fewer than eight parts are under way
/// ([`Readiness::Writable`](crate::wait::Readiness::Writable)): so a set should have it only while its
/// owner has a part to send. A [`try_send`](RequestStream::try_send) that finds no memory makes it wait for
/// memory. Ready as well when the server has replied in full, or no server goes on with the call: a try
/// tells. Once the parts are [finished](RequestStream::finish), nothing makes it ready.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-part-room-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::wait::{Readiness, WaitSet};
///
/// let service = outlive::rpc::Service::<[u8]>::open_or_create(&domain, "store")?;
/// let (mut server, client) = (service.server()?, service.client()?);
/// let mut upload = client.stream(b"holiday.mp4")?;
/// let mut set = WaitSet::new(&domain);
/// set.add(&upload)?;                                  // replies, which may come before the last part
/// let room = set.add(&upload.room())?;
/// while upload.try_send(b"a part").is_ok() {}
/// assert_eq!(set.try_wait()?.count(), 0);
/// let mut request = server.next()?;                   // in another process, as a rule
/// let part = request.next_part()?;
/// assert_eq!(set.wait()?.next(), Some((room, Readiness::Writable)));
/// upload.try_send(b"a part")?;
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the server dies, this is ready at once.
#[derive(Clone)]
pub struct PartRoom {
    call: CallReadiness,
    told: Arc<ToldParts>,
    asker: Asker,
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> RequestStream<'_, Q, R> {
    /// Returns the room for another part, for a wait set: see [`PartRoom`].
    #[must_use]
    pub fn room(&self) -> PartRoom {
        let told = Arc::clone(self.told.get_or_init(|| Arc::new(ToldParts::of(self.sent))));
        PartRoom { call: self.call().readiness(), told, asker: Asker::Set }
    }

    /// Returns the room for another part, for a task that waits for it once.
    #[doc(hidden)]
    #[must_use]
    pub fn room_once(&self) -> PartRoom {
        PartRoom { asker: Asker::Task, ..self.room() }
    }
}

impl PartRoom {
    /// Returns until when memory is missing, if it is.
    fn lacks_until(&self) -> Option<Deadline> {
        self.told.lack()?.until(self.call.service())
    }

    /// Returns whether a try is worth it.
    fn is_there(&self, words: &CallWords, has_memory: bool) -> bool {
        let (number, ready) = (self.call.number(), words.ready());
        let is_answered = ready.number() == number && ready.is_end();
        let taken = words.parts_taken(number);
        is_answered || has_memory && is_room(self.told.sent(), taken)
    }
}

impl Waited for PartRoom {
    fn look(&self) -> SourceState {
        let lacks_until = self.lacks_until();
        let is_there = |words: &CallWords| self.is_there(words, lacks_until.is_none());
        let state = self.call.look_for(Readiness::Writable, is_there);
        // Asked afterwards: an end changes what was looked at.
        if self.told.is_finished() || self.call.words().is_none() {
            return self.asker.over();
        }
        match (state, lacks_until) {
            (state @ SourceState::Ready(_), _) | (state, None) => state,
            (state, Some(moment)) => SourceState::BehindOwners(state.owners().to_vec(), moment),
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        self.call.event_count()
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        self.call.add_words(prepared, words);
        // One that is over has changed its word for good: no sleep would last.
        let service = self.call.service();
        if let Some(lack) = self.told.lack().filter(|lack| lack.until(service).is_some()) {
            words.add(&[lack.watch(service)]);
        }
    }

    fn needs_recheck(&self, prepared: &PreparedWait) -> bool {
        self.call.needs_recheck(prepared)
    }

    fn woken(&self, prepared: &PreparedWait) {
        self.call.woken(prepared);
    }
}

impl Source for PartRoom {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(self.clone(), self.call.registry()))
    }
}

impl std::fmt::Debug for PartRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartRoom").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Domain;
    use crate::rpc::call::{After, Ready};
    use crate::rpc::{CallError, Service};
    use std::path::Path;

    fn folder(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("outlive-part-room-{name}-{}", std::process::id()))
    }

    fn small(folder: &Path) -> Service {
        let domain = Domain::open_or_create_at(folder).expect("opens");
        Service::<[u8]>::options().max_bytes(64 << 10).create_new(&domain, "s").expect("made")
    }

    /// Returns whether a set that sleeps on the room goes on sleeping.
    fn sleeps(room: &PartRoom) -> bool {
        let mut prepared = room
            .event_count()
            .map_or_else(PreparedWait::default, |count| PreparedWait::of(count.prepare_wait()));
        let mut words = WaitWords::new();
        room.add_words(&mut prepared, &mut words);
        !words.have_changed() && !matches!(room.look(), SourceState::Ready(_))
    }

    #[test]
    fn a_look_counts_as_a_try_does() {
        let folder = folder("damaged");
        let service = small(&folder);
        let (mut server, client) =
            (service.server().expect("none yet"), service.client().expect("room"));
        let mut stream = client.stream(b"much").expect("sent");
        stream.try_send(b"the first").expect("room");
        let room = stream.room();
        while stream.try_send(b"a part").is_ok() {}
        let mut request = server.next().expect("asked");
        // Stray writes.
        let (words, number) = (stream.call().slot.words, stream.call().number);
        let full = words.parts();
        let one_less = Ready::new(number, full.count() - 1, After::More);
        let end = Ready::new(number, full.count(), After::End);
        for stray in [one_less, end, Ready::new(number + 1, 0, After::More)] {
            words.set_parts(stray);
            assert!(matches!(room.look(), SourceState::BehindOwner(_)), "{stray:?}");
            assert!(matches!(stream.try_send(b"more"), Err(CallError::TimedOut { .. })));
        }
        words.set_parts(full);
        drop(request.next_part().expect("sent"));
        assert_eq!(room.look(), SourceState::Ready(Readiness::Writable));
        stream.try_send(b"more").expect("room");
        assert!(sleeps(&room));
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_task_is_told_that_no_further_part_is_sent() {
        for is_finished in [true, false] {
            let folder = folder(&format!("once-{is_finished}"));
            let service = small(&folder);
            let (mut server, client) =
                (service.server().expect("none yet"), service.client().expect("room"));
            let mut stream = client.stream(b"much").expect("sent");
            let (room, once) = (stream.room(), stream.room_once());
            while stream.try_send(b"a part").is_ok() {}
            let request = server.next().expect("asked");
            assert!(sleeps(&room) && sleeps(&once));
            let mut prepared = PreparedWait::of(stream.call().slot.words.replies.prepare_wait());
            let mut words = WaitWords::new();
            once.add_words(&mut prepared, &mut words);
            if is_finished {
                let call = stream.finish().expect("well");
                assert!(words.have_changed(), "it was woken");
                drop((words, call, request));
            } else {
                drop(words);
                request.reply(b"enough").expect("it waits");
                drop(stream.next_reply());
                drop(stream.next_reply());
            }
            assert_eq!(once.look(), SourceState::Ready(Readiness::Ended));
            assert!(sleeps(&room), "a set is told nothing more");
            let _ = std::fs::remove_dir_all(&folder);
        }
    }

    #[test]
    fn memory_that_was_freed_ends_no_sleep_of_a_call_without_further_parts() {
        for is_finished in [true, false] {
            let folder = folder(&format!("lack-{is_finished}"));
            let service = small(&folder);
            let (mut server, client) =
                (service.server().expect("none yet"), service.client().expect("room"));
            let mut stream = client.stream(b"much").expect("sent");
            let room = stream.room();
            while stream.try_send(&[7; 20_000]).is_ok() {}
            let lack = room.told.lack().expect("a try has found none");
            let mut request = server.next().expect("asked");
            let call = if is_finished {
                let call = stream.finish().expect("well");
                while let Some(part) = request.next_part().expect("sent") {
                    drop(part);
                }
                call
            } else {
                drop(request.next_part().expect("sent"));
                request.fail("enough").expect("it waits");
                let ended = stream.next_reply().map(drop);
                assert_eq!(ended, Err(CallError::Failed("enough".to_owned())));
                stream.finish().expect("well")
            };
            let mut words = WaitWords::new();
            words.add(&[lack.watch(room.call.service())]);
            assert!(words.have_changed(), "memory was freed");
            assert!(sleeps(&room), "finished: {is_finished}");
            drop(call);
            assert!(sleeps(&room), "finished and dropped: {is_finished}");
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}
