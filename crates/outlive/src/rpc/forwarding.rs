//! What a gateway asks for, which carries calls to another machine and serves here in the name of a
//! server elsewhere. Hidden: its users are the bridges of this repository.
//!
//! | a gateway dies, or is stopped | what the client sees | repaired by |
//! | --- | --- | --- |
//! | before `disown` changes the claim | TAKEN by a process that has died: it is told "begun". Stopped: it waits on | the client |
//! | between the claim and the notification | CANCELLED: it is told "begun", woken by the end of the process. Stopped: at the recheck, a second later | the client |

use super::request::Request;
use super::service::Service;
use super::stream::Stream;
use crate::claim::Holder;
use crate::sys::robust::WakeRelay;
use crate::wake::Sleep;
use crate::{Deadline, Error, Payload, TokenId};

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// Ends the call as this process's death would: its client is told
    /// [`CallError::ServerDied`](super::CallError::ServerDied), the call begun. For a server that stood
    /// for one elsewhere, which has died or is out of reach.
    #[doc(hidden)]
    pub fn disown(mut self) {
        self.raw.disown(0);
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    /// Ends the call as [`Request::disown`] does, behind the replies that were sent.
    #[doc(hidden)]
    pub fn disown(mut self) {
        self.request.raw.disown(self.written);
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Service<Q, R> {
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
