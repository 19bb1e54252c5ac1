//! A Unix stream socket: a service for requests of a size that both know.

use super::{Call, Serve, Service, Wait};
use outlive_bench::Error;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::scratch::Scratch;
use std::hint;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{self, UnixListener};

fn told<T>(result: io::Result<T>, doing: &'static str) -> Result<T, Error> {
    result.map_err(|source| Error::System { doing, source })
}

/// The row.
pub(crate) struct UnixStream;

/// The listening socket, made before the fork.
pub(crate) struct Place {
    listener: UnixListener,
    scratch: Scratch,
    bytes: usize,
    wait: Wait,
}

/// Either end, with a message's room.
pub(crate) struct End {
    stream: net::UnixStream,
    message: Vec<u8>,
}

/// The answering end: connected by the first request.
pub(crate) struct Answering {
    listener: UnixListener,
    end: Option<End>,
    request: Vec<u8>,
    wait: Wait,
}

impl End {
    fn new(stream: net::UnixStream, bytes: usize, wait: Wait) -> Result<Self, Error> {
        told(stream.set_nonblocking(wait == Wait::Busy), "setting up a socket")?;
        Ok(Self { stream, message: vec![0; bytes] })
    }

    /// Sends as `write_all` does, also on a socket that does not block.
    fn send(&mut self) -> Result<(), Error> {
        let mut left = &self.message[..];
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(sent) => left = &left[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => hint::spin_loop(),
                Err(source) => {
                    return Err(Error::System { doing: "sending through a socket", source });
                }
            }
        }
        Ok(())
    }

    /// Receives as `read_exact` does, also on a socket that does not block.
    fn receive(&mut self) -> Result<(), Error> {
        let mut have = 0;
        while have < self.message.len() {
            match self.stream.read(&mut self.message[have..]) {
                Ok(0) => return Err(Error::Child("the socket's other end is gone".into())),
                Ok(received) => have += received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => hint::spin_loop(),
                Err(source) => {
                    return Err(Error::System { doing: "receiving from a socket", source });
                }
            }
        }
        Ok(())
    }
}

impl Service for UnixStream {
    const NAME: &'static str = "unix_stream";
    type Place = Place;
    type Client = End;
    type Server = Answering;

    fn place(stage: &Stage, bytes: usize, wait: Wait) -> Result<Place, Error> {
        let scratch = stage.scratch.inner("service")?;
        let listener = told(UnixListener::bind(scratch.path().join("socket")), "making a socket")?;
        Ok(Place { listener, scratch, bytes, wait })
    }

    fn server(place: &Place) -> Result<Answering, Error> {
        let listener = told(place.listener.try_clone(), "sharing a socket")?;
        Ok(Answering { listener, end: None, request: vec![0; place.bytes], wait: place.wait })
    }

    fn client(place: &Place) -> Result<End, Error> {
        let stream = net::UnixStream::connect(place.scratch.path().join("socket"));
        End::new(told(stream, "connecting to a socket")?, place.bytes, place.wait)
    }
}

impl Call for End {
    #[inline]
    fn call<R>(
        &mut self,
        _: usize,
        write: impl FnOnce(&mut [u8]),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error> {
        write(&mut self.message);
        self.send()?;
        self.receive()?;
        Ok(read(&self.message))
    }
}

impl Serve for Answering {
    #[inline]
    fn serve(&mut self, answer: impl FnOnce(&[u8], &mut [u8])) -> Result<(), Error> {
        let end = match &mut self.end {
            Some(end) => end,
            none => {
                let (stream, _) = told(self.listener.accept(), "accepting a connection")?;
                none.insert(End::new(stream, self.request.len(), self.wait)?)
            }
        };
        end.receive()?;
        std::mem::swap(&mut self.request, &mut end.message);
        answer(&self.request, &mut end.message);
        end.send()
    }
}
