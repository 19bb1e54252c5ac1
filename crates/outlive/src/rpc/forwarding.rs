//! What a gateway asks for, which carries calls to another machine and serves here in the name of a
//! server elsewhere. Hidden: its users are the bridges of this repository.
//!
//! | a gateway dies, or is stopped | what the client sees | repaired by |
//! | --- | --- | --- |
//! | before `disown` changes the claim | TAKEN by a process that has died: it is told "begun". Stopped: it waits on | the client |
//! | between the claim and the notification | CANCELLED: it is told "begun", woken by the end of the process. Stopped: at the recheck, a second later | the client |
//!
//! `give_back` is the same exchange, to CANCELLED with UNDONE: the client is told "not begun".
//!
//! A *stand-in* gives way to any other server. Its process is in `stand_in`, from before it takes a place:
//! 0, or of a process that has died → its process → 0.
//!
//! | the stand-in is | another process that wants to serve | repaired by |
//! | --- | --- | --- |
//! | not at a place | takes it | |
//! | at a place | raises `serving`, which the stand-in sleeps on, and sleeps behind the place's holder: two seconds at most | dead: its place is taken as any dead server's. Stopped: `Taken`, and it leaves when it goes on |
//! | about to leave | the same | the same |
//! | dead, in `stand_in` | finds no living process at a place with that id | the next stand-in |
//!
//! A process that wants the place and dies or is stopped has raised `serving` for nothing: the stand-in leaves,
//! and comes back.

use std::time::Duration;

use super::layout::ServiceFile;
use super::request::Request;
use super::server::Server;
use super::service::Service;
use super::stream::Stream;
use crate::claim::{Holder, Role, StandBy};
use crate::shim::Ordering;
use crate::sys::robust::WakeRelay;
use crate::wake::{PreparedWait, Readiness, Sleep, SourceState, WaitWords, Waited};
use crate::{Deadline, Error, Payload, TokenId};

/// How long a process waits for a stand-in that is to leave.
const LONGEST_LEAVE: Duration = Duration::from_secs(2);
/// How often it asks again: another stand-in may have come meanwhile.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// Ends the call as this process's death would: its client is told
    /// [`CallError::ServerDied`](super::CallError::ServerDied), the call begun. For a server that stood
    /// for one elsewhere, which has died or is out of reach.
    #[doc(hidden)]
    pub fn disown(mut self) {
        self.raw.disown(0);
    }

    /// Ends the call, for which nothing was done: its client is told
    /// [`CallError::ServerDied`](super::CallError::ServerDied), the call *not* begun, and may repeat it.
    #[doc(hidden)]
    pub fn give_back(mut self) {
        self.raw.give_back();
    }

    /// Returns whether it was sent by [`Client::stream`](super::Client::stream): parts may follow.
    ///
    /// # Errors
    /// [`Error::Damaged`], errors of the system.
    #[doc(hidden)]
    pub fn has_parts(&self) -> Result<bool, Error> {
        Ok(self.raw.call()?.words.parts().number() == self.raw.number)
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    /// Ends the call as [`Request::disown`] does, behind the replies that were sent.
    #[doc(hidden)]
    pub fn disown(mut self) {
        self.request.raw.disown(self.written);
    }
}

impl ServiceFile {
    /// Returns the place of the stand-in, if one is there that gives way to this process.
    pub(super) fn stand_in(&self) -> Option<Role<'_>> {
        // Acquire pairs with `begin_standing_in`.
        let word = self.head().stand_in.load(Ordering::Acquire);
        let registry = self.queue.registry();
        let stand_in = TokenId::from_word(word).filter(|&id| registry.is_alive(id))?;
        if registry.process_token_if_any() == Some(stand_in) {
            return None;
        }
        self.places().find(|place| place.holder() == Some(stand_in))
    }
}

/// Ready once `serving` has changed.
struct CalledAway {
    file: ServiceFile,
    seen: u32,
}

impl Waited for CalledAway {
    fn look(&self) -> SourceState {
        match self.file.serving().expected == self.seen {
            true => SourceState::Waiting,
            false => SourceState::Ready(Readiness::Ended),
        }
    }

    fn add_words<'a>(&'a self, _: &mut PreparedWait, words: &mut WaitWords<'a>) {
        let mut serving = self.file.serving();
        serving.expected = self.seen;
        words.add(&[serving]);
    }
}

/// Ready while no server lives.
struct Unserved(ServiceFile);

impl Waited for Unserved {
    fn look(&self) -> SourceState {
        match self.0.living_servers() {
            living if living.is_empty() => SourceState::Ready(Readiness::Ended),
            living => SourceState::BehindOwners(living, Deadline::NEVER),
        }
    }

    fn add_words<'a>(&'a self, _: &mut PreparedWait, words: &mut WaitWords<'a>) {
        // The set looks again behind this: a server that leaves after that look raises the word.
        words.add(&[self.0.serving()]);
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Service<Q, R> {
    /// Makes this process the one that stands for a server elsewhere: it serves only while no other process
    /// wants to. Returns `serving`, for [`Service::called_away`]; `None` while another process is that.
    ///
    /// # Errors
    /// [`Error::NoToken`].
    #[doc(hidden)]
    pub fn begin_standing_in(&self) -> Result<Option<u32>, Error> {
        let registry = self.file.queue.registry();
        let process = registry.process_token()?;
        // Before the place is taken: what raises it from now on is another process that comes.
        let serving = self.file.serving().expected;
        let stand_in = &self.file.head().stand_in;
        let seen = stand_in.load(Ordering::Acquire);
        let is_other = |id: TokenId| id != process && registry.is_alive(id);
        if TokenId::from_word(seen).is_some_and(is_other) {
            return Ok(None);
        }
        // Died just before: the word names no living process. Just after: the same.
        let changed =
            stand_in.compare_exchange(seen, process.as_u32(), Ordering::AcqRel, Ordering::Relaxed);
        Ok(changed.is_ok().then_some(serving))
    }

    /// Ends what [`Service::begin_standing_in`] has begun.
    #[doc(hidden)]
    pub fn end_standing_in(&self) {
        let Some(process) = self.file.queue.registry().process_token_if_any() else { return };
        let stand_in = &self.file.head().stand_in;
        let own = process.as_u32();
        // Relaxed: nothing was written for the next one.
        let _ = stand_in.compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns what is ready once another process serves, or wants to.
    #[doc(hidden)]
    #[must_use]
    pub fn called_away(&self, serving: u32) -> StandBy {
        let file = self.file.clone();
        StandBy::of(CalledAway { file, seen: serving }, self.file.queue.registry())
    }

    /// Returns what is ready while no server lives.
    #[doc(hidden)]
    #[must_use]
    pub fn unserved(&self) -> StandBy {
        StandBy::of(Unserved(self.file.clone()), self.file.queue.registry())
    }

    /// Asks the stand-in for its place, and takes it.
    #[cold]
    pub(super) fn server_after_stand_in(&self, deadline: Deadline) -> Result<Server<Q, R>, Error> {
        let registry = self.file.queue.registry();
        let until = Deadline::after(LONGEST_LEAVE).earlier(deadline);
        loop {
            let stand_in = self.file.stand_in();
            if stand_in.is_some() {
                // Died just after: the stand-in leaves, and comes back.
                self.file.raise_serving();
            }
            let taken = Server::new(self.file.clone(), deadline);
            let is_taken = matches!(taken, Err(Error::Taken { .. }));
            let Some(place) = stand_in.filter(|_| is_taken && !until.has_passed()) else {
                return taken;
            };
            let standing = place.standing();
            if standing.is_living() {
                let relay = WakeRelay::begin(registry.me()?.list());
                let again = Deadline::after(ASK_AGAIN).earlier(until);
                let slept = place.sleep(&relay, &[], standing, again);
                slept.map_err(|errno| Error::from_errno("wait in", registry.path(), errno))?;
            }
        }
    }

    /// Returns the living servers, once they are others than those, or the deadline has passed.
    ///
    /// # Errors
    /// [`Error::NoToken`], [`Error::Damaged`], errors of the system.
    #[doc(hidden)]
    pub fn servers_other_than(
        &self,
        seen: &[TokenId],
        deadline: Deadline,
    ) -> Result<Vec<Holder>, Error> {
        let registry = self.file.queue.registry();
        let me = registry.me()?;
        let relay = WakeRelay::begin(me.list());
        loop {
            // Before the look: that a server has come or left by now is seen below.
            let serving = self.file.serving();
            let first = self.file.queue.server()?;
            let living = self.file.living_servers();
            if living != seen || deadline.has_passed() {
                return Ok(living.into_iter().map(|id| Holder::of(registry, id)).collect());
            }
            let watch = [serving];
            let slept = match &living[..] {
                // The only place of a service says by its own word that a server has come.
                [] => self.file.queue.server_role().sleep(&relay, &watch, first, deadline),
                // A server that comes to another place raises `serving`.
                living => Sleep::on(registry, &watch).behind(&relay, living).until(deadline),
            };
            slept.map_err(|errno| Error::from_errno("wait in", registry.path(), errno))?;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::rpc::{CallError, Client, Server, Service};
    use crate::{Deadline, Domain};

    const LONG: Duration = Duration::from_secs(60);

    fn with_service(name: &str, test: impl FnOnce(&Service, Server, &Client)) {
        let folder = std::env::temp_dir().join(format!("outlive-{name}-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
        let (server, client) = (service.server().expect("none"), service.client().expect("room"));
        test(&service, server, &client);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_client_of_a_disowned_request_is_told_that_the_server_died() {
        with_service("disowned-call", |_, mut server, client| {
            std::thread::scope(|scope| {
                // Asleep, or about to be: it is woken.
                let call = scope.spawn(|| client.call_timeout(&[7; 5000], LONG).map(drop));
                let request = server.next_timeout(LONG).expect("asked").expect("in time");
                std::thread::sleep(Duration::from_millis(50));
                request.disown();
                let told = call.join().expect("returned");
                assert_eq!(told, Err(CallError::ServerDied { begun: true }));
            });
            // The server and the slot go on.
            let call = client.begin(b"again").expect("asked");
            server.next().expect("asked").reply(b"yes").expect("wanted");
            assert_eq!(*call.wait().expect("replied"), *b"yes");
        });
    }

    #[test]
    fn a_client_of_a_request_that_is_given_back_is_told_that_it_was_not_begun() {
        with_service("given-back", |_, mut server, client| {
            for len in [7, 5000] {
                std::thread::scope(|scope| {
                    let call = scope.spawn(|| client.call_timeout(&vec![7; len], LONG).map(drop));
                    let request = server.next_timeout(LONG).expect("asked").expect("in time");
                    std::thread::sleep(Duration::from_millis(50));
                    request.give_back();
                    let told = call.join().expect("returned");
                    assert_eq!(told, Err(CallError::ServerDied { begun: false }));
                });
            }
            // One that had not looked, and lets go.
            let call = client.begin(b"a").expect("asked");
            server.next().expect("asked").give_back();
            assert!(!call.cancel(), "nothing was done for it");
            // The call that follows in that slot.
            let call = client.begin(b"again").expect("asked");
            drop(server.next().expect("asked"));
            assert_eq!(call.wait().map(drop), Err(CallError::Dropped));
        });
    }

    #[test]
    fn a_request_says_whether_parts_may_follow() {
        with_service("with-parts", |_, mut server, client| {
            let plain = client.begin(b"a").expect("asked");
            assert!(!server.next().expect("asked").has_parts().expect("readable"));
            drop(plain);
            let parts = client.stream(b"a").expect("asked");
            assert!(server.next().expect("asked").has_parts().expect("readable"));
            drop(parts);
        });
    }

    #[test]
    fn a_stand_in_says_so_and_another_process_s_is_no_stand_in() {
        with_service("stand-in", |service, server, _| {
            let serving = service.begin_standing_in().expect("a token").expect("no other");
            // To itself it does not give way.
            assert!(service.file.stand_in().is_none());
            let ready = |stand_by: &crate::claim::StandBy| {
                use crate::wake::Source;
                let watched = stand_by.watched().expect("a source");
                matches!(watched.waited.look(), crate::wake::SourceState::Ready(_))
            };
            let (called, unserved) = (service.called_away(serving), service.unserved());
            assert!(!ready(&called) && !ready(&unserved));
            service.file.raise_serving();
            assert!(ready(&called) && !ready(&unserved));
            drop(server);
            assert!(ready(&unserved));
            service.end_standing_in();
            assert!(service.begin_standing_in().expect("a token").is_some());
        });
    }

    #[test]
    fn replies_that_were_sent_come_before_the_news() {
        with_service("disowned-stream", |_, mut server, client| {
            let mut call = client.begin(b"count").expect("asked");
            let mut stream = server.next().expect("asked").stream();
            stream.send(b"1").expect("room");
            stream.send(&[2; 5000]).expect("room");
            stream.disown();
            assert_eq!(*call.next().expect("there").expect("one"), *b"1");
            assert_eq!(call.next().expect("there").expect("two").len(), 5000);
            let told = call.next().map(|reply| reply.map(|_| ()));
            assert_eq!(told, Err(CallError::ServerDied { begun: true }));
        });
    }

    #[test]
    fn a_request_that_its_client_has_let_go_of_is_disowned_in_vain() {
        with_service("disowned-late", |_, mut server, client| {
            let call = client.begin(b"first").expect("asked");
            let request = server.next().expect("asked");
            drop(call);
            // The slot's next call is not this one.
            let next = client.begin(b"second").expect("asked");
            request.disown();
            server.next().expect("asked").reply(b"yes").expect("wanted");
            assert_eq!(*next.wait().expect("replied"), *b"yes");
        });
    }

    #[test]
    fn who_waits_for_other_servers_is_told_of_one_that_comes_or_leaves() {
        with_service("other-servers", |service, server, _| {
            let soon = || Deadline::after(Duration::from_millis(20));
            let first = service.servers_other_than(&[], Deadline::NEVER).expect("looks");
            let seen = [first[0].token];
            assert_eq!(service.servers_other_than(&seen, soon()).expect("looks").len(), 1);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    drop(server);
                });
                let left = service.servers_other_than(&seen, Deadline::after(LONG));
                assert_eq!(left.expect("looks").len(), 0);
                let coming = scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    service.server().expect("none")
                });
                let came = service.servers_other_than(&[], Deadline::after(LONG)).expect("looks");
                assert_eq!(came[0].token, seen[0]);
                drop(coming.join());
            });
        });
    }
}
