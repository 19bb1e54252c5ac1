//! ZeroMQ over its `ipc` transport: XPUB and SUB, a publisher that waits at the high-water mark
//! (`ZMQ_XPUB_NODROP`), and REQ and REP.
//!
//! The messages go through a thread of its own in each process, so receivers block in both kinds of
//! row: asking again and again takes the core from the very thread that would bring the message.

use super::{Call, Publish, Serve, Service, Shape, Subscribe, Topic, Wait};
use outlive_bench::Error;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::scratch::Scratch;
use zmq::{Context, Message, Socket, SocketType};

/// Messages that may wait on either side, at least: few, or a ping-pong's set-up says it all.
const LEAST_MARK: i32 = 2;

fn told<T>(result: zmq::Result<T>, doing: &'static str) -> Result<T, Error> {
    result.map_err(|error| Error::told(doing, error))
}

/// The row.
pub(crate) struct ZeroMq;

/// Where the socket's file is.
pub(crate) struct Place {
    scratch: Scratch,
    shape: Shape,
}

impl Place {
    fn endpoint(&self) -> String {
        format!("ipc://{}", self.scratch.path().join("zmq").display())
    }

    fn socket(&self, kind: SocketType) -> Result<Socket, Error> {
        let socket = told(Context::new().socket(kind), "making a ZeroMQ socket")?;
        let mark = LEAST_MARK.max(self.shape.buffer as i32);
        let set = || {
            socket.set_linger(0)?;
            socket.set_sndhwm(mark)?;
            socket.set_rcvhwm(mark)?;
            // A subscriber may be there before the publisher.
            socket.set_reconnect_ivl(1)
        };
        told(set(), "setting up a ZeroMQ socket")?;
        Ok(socket)
    }
}

/// A publishing end.
pub(crate) struct Publisher(Socket);

/// A subscribing end, with the message that it received last.
pub(crate) struct Subscriber {
    socket: Socket,
    message: Message,
}

impl Topic for ZeroMq {
    const NAME: &'static str = "zeromq";
    type Place = Place;
    type Publisher = Publisher;
    type Subscriber = Subscriber;

    fn refuses(shape: &Shape) -> Option<String> {
        (shape.publishers > 1)
            .then(|| "a PUB socket binds, so a topic has one publisher".to_owned())
    }

    fn place(stage: &Stage, name: &str, shape: Shape) -> Result<Place, Error> {
        Ok(Place { scratch: stage.scratch.inner(name)?, shape })
    }

    fn publisher(place: &Place) -> Result<Publisher, Error> {
        let mut socket = place.socket(SocketType::XPUB)?;
        let on = i32::from(place.shape.lossless);
        // SAFETY: the option takes an int.
        let set = unsafe {
            zmq_sys::zmq_setsockopt(
                socket.as_mut_ptr(),
                zmq_sys::ZMQ_XPUB_NODROP as i32,
                (&raw const on).cast(),
                size_of::<i32>(),
            )
        };
        if set != 0 {
            return Err(Error::Refused("this ZeroMQ knows no ZMQ_XPUB_NODROP".into()));
        }
        told(socket.bind(&place.endpoint()), "binding a ZeroMQ socket")?;
        let mut subscription = Message::new();
        for _ in 0..place.shape.subscribers {
            told(socket.recv(&mut subscription, 0), "waiting for a subscription")?;
        }
        Ok(Publisher(socket))
    }

    fn subscriber(place: &Place) -> Result<Subscriber, Error> {
        let socket = place.socket(SocketType::SUB)?;
        told(socket.set_subscribe(b""), "subscribing")?;
        told(socket.connect(&place.endpoint()), "connecting a ZeroMQ socket")?;
        Ok(Subscriber { socket, message: Message::new() })
    }
}

impl Publish for Publisher {
    #[inline]
    fn publish(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        let mut message = Message::with_size(bytes);
        write(&mut message);
        told(self.0.send(message, 0), "publishing")
    }
}

impl Subscribe for Subscriber {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        told(self.socket.recv(&mut self.message, 0), "receiving")?;
        Ok(read(&self.message))
    }
}

impl Service for ZeroMq {
    const NAME: &'static str = "zeromq";
    type Place = Place;
    type Client = Subscriber;
    type Server = Subscriber;

    fn place(stage: &Stage, bytes: usize, wait: Wait) -> Result<Place, Error> {
        Ok(Place { scratch: stage.scratch.inner("service")?, shape: Shape::pair(bytes, wait) })
    }

    fn server(place: &Place) -> Result<Subscriber, Error> {
        let socket = place.socket(SocketType::REP)?;
        told(socket.bind(&place.endpoint()), "binding a ZeroMQ socket")?;
        Ok(Subscriber { socket, message: Message::new() })
    }

    fn client(place: &Place) -> Result<Subscriber, Error> {
        let socket = place.socket(SocketType::REQ)?;
        told(socket.connect(&place.endpoint()), "connecting a ZeroMQ socket")?;
        Ok(Subscriber { socket, message: Message::new() })
    }
}

impl Call for Subscriber {
    #[inline]
    fn call<R>(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error> {
        let mut request = Message::with_size(bytes);
        write(&mut request);
        told(self.socket.send(request, 0), "sending a request")?;
        told(self.socket.recv(&mut self.message, 0), "receiving a reply")?;
        Ok(read(&self.message))
    }
}

impl Serve for Subscriber {
    #[inline]
    fn serve(&mut self, answer: impl FnOnce(&[u8], &mut [u8])) -> Result<(), Error> {
        told(self.socket.recv(&mut self.message, 0), "receiving a request")?;
        let mut reply = Message::with_size(self.message.len());
        answer(&self.message, &mut reply);
        told(self.socket.send(reply, 0), "sending a reply")
    }
}
