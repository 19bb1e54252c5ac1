//! Outlive's services: a client and a server, requests and replies of bytes. `outlive` writes long ones
//! where the other side reads them, by loans, as iceoryx2's row does; `outlive_copied` hands over
//! messages of its own, which are copied.

use super::outlive::told;
use super::{Call, Outlive, Serve, Service, Wait};
use ::outlive::rpc;
use outlive_bench::Error;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::scratch::Scratch;

/// The row whose messages are copied.
pub(crate) struct OutliveCopied;

/// Where the domain is.
pub(crate) struct Place {
    scratch: Scratch,
    bytes: usize,
    wait: Wait,
}

impl Place {
    fn domain(&self) -> Result<::outlive::Domain, Error> {
        told(::outlive::Domain::open_or_create_at(self.scratch.path()), "opening a domain")
    }

    fn service(&self) -> Result<rpc::Service, Error> {
        let options = rpc::Service::<[u8], [u8]>::options().wait_strategy(self.wait.into());
        told(options.open_or_create(&self.domain()?, "service"), "opening a service")
    }
}

/// From this length on a loan costs less than a copy.
const WORTH_A_LOAN: usize = 1024;

/// The asking end, with the request it writes.
pub(crate) struct Asking {
    client: rpc::Client,
    request: Vec<u8>,
}

/// The answering end, with the reply it writes.
pub(crate) struct Answering {
    server: rpc::Server,
    reply: Vec<u8>,
}

/// An asking end that lends: with the end that copies short ones.
pub(crate) struct Lending(Asking);

/// An answering end that lends.
pub(crate) struct LendingReplies(Answering);

impl Service for Outlive {
    const NAME: &'static str = "outlive";
    type Place = Place;
    type Client = Lending;
    type Server = LendingReplies;

    fn place(stage: &Stage, bytes: usize, wait: Wait) -> Result<Place, Error> {
        OutliveCopied::place(stage, bytes, wait)
    }

    fn server(place: &Place) -> Result<LendingReplies, Error> {
        OutliveCopied::server(place).map(LendingReplies)
    }

    fn client(place: &Place) -> Result<Lending, Error> {
        OutliveCopied::client(place).map(Lending)
    }
}

impl Call for Lending {
    #[inline]
    fn call<R>(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error> {
        if bytes < WORTH_A_LOAN {
            return self.0.call(bytes, write, read);
        }
        let mut request = told(self.0.client.loan(bytes), "a request's loan")?;
        write(&mut request);
        let reply = told(request.call(), "a call")?;
        Ok(read(&reply))
    }
}

impl Serve for LendingReplies {
    #[inline]
    fn serve(&mut self, answer: impl FnOnce(&[u8], &mut [u8])) -> Result<(), Error> {
        let bytes = self.0.reply.len();
        if bytes < WORTH_A_LOAN {
            return self.0.serve(answer);
        }
        let request = told(self.0.server.next(), "a request")?;
        let mut reply = told(request.loan(bytes), "a reply's loan")?;
        let (asked, bytes) = reply.split();
        answer(asked, bytes);
        told(reply.send(), "a reply")
    }
}

impl Service for OutliveCopied {
    const NAME: &'static str = "outlive_copied";
    type Place = Place;
    type Client = Asking;
    type Server = Answering;

    fn place(stage: &Stage, bytes: usize, wait: Wait) -> Result<Place, Error> {
        Ok(Place { scratch: stage.scratch.inner("service")?, bytes, wait })
    }

    fn server(place: &Place) -> Result<Answering, Error> {
        let server = told(place.service()?.server(), "opening a server")?;
        Ok(Answering { server, reply: vec![0; place.bytes] })
    }

    fn client(place: &Place) -> Result<Asking, Error> {
        let client = told(place.service()?.client(), "opening a client")?;
        Ok(Asking { client, request: vec![0; place.bytes] })
    }
}

impl Call for Asking {
    #[inline]
    fn call<R>(
        &mut self,
        _: usize,
        write: impl FnOnce(&mut [u8]),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error> {
        write(&mut self.request);
        let reply = told(self.client.call(&self.request), "a call")?;
        Ok(read(&reply))
    }
}

impl Serve for Answering {
    #[inline]
    fn serve(&mut self, answer: impl FnOnce(&[u8], &mut [u8])) -> Result<(), Error> {
        let request = told(self.server.next(), "a request")?;
        answer(&request, &mut self.reply);
        told(request.reply(&self.reply), "a reply")
    }
}
