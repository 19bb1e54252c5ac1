//! iceoryx2, used as its examples do: slices lent uninitialised, written in place and sent; polled
//! where one may be busy, else with an event beside each message ("event-based communication").
//!
//! Each port has a node of its own, as a process has. Everything is under a prefix of this place,
//! so that what killed processes leave is found and removed.

use super::{Call, Publish, Serve, Service as AnyService, Shape, Subscribe, Topic, Wait};
use crate::scale::Domain;
use ::iceoryx2::node::Node;
use ::iceoryx2::port::client::Client;
use ::iceoryx2::port::listener::Listener;
use ::iceoryx2::port::notifier::Notifier;
use ::iceoryx2::port::publisher::Publisher as Port;
use ::iceoryx2::port::server::Server;
use ::iceoryx2::port::subscriber::Subscriber as ReadingPort;
use ::iceoryx2::prelude::*;
use ::iceoryx2::service::port_factory::publish_subscribe::PortFactory as Factory;
use outlive_bench::Error;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::scratch::Scratch;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fmt, fs, hint, mem::MaybeUninit, os::unix::ffi::OsStrExt, process};

/// Nodes of one service: some 60 subscribers, 30 publishers.
const NODES: usize = 128;
/// Bytes of a message at full rate, at most.
const SMALL: usize = 64;

fn told<T, E: fmt::Debug>(result: Result<T, E>, doing: &str) -> Result<T, Error> {
    result.map_err(|error| Error::Child(format!("iceoryx2: {doing}: {error:?}")))
}

/// The row.
pub(crate) struct Iceoryx2;

/// A configuration of its own, and what is made under it.
pub(crate) struct Place {
    config: Config,
    prefix: String,
    shape: Shape,
    service: ServiceName,
    _scratch: Scratch,
}

impl Place {
    /// Returns a fresh one.
    pub fn new(stage: &Stage, name: &str, shape: Shape) -> Result<Self, Error> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        set_log_level(LogLevel::Fatal);
        let scratch = stage.scratch.inner(name)?;
        let prefix = format!("ob{}_{}_", process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let mut config = Config::default();
        config.global.prefix = told(FileName::new(prefix.as_bytes()), "a prefix")?;
        config
            .global
            .set_root_path(&told(Path::new(scratch.path().as_os_str().as_bytes()), "a root path")?);
        let service = told(name.try_into(), "a service's name")?;
        Ok(Self { config, prefix, shape, service, _scratch: scratch })
    }

    /// Returns a node, as each process has one.
    pub fn node(&self) -> Result<Node<ipc::Service>, Error> {
        told(NodeBuilder::new().config(&self.config).create::<ipc::Service>(), "a node")
    }

    /// Returns the topic, opened by this node, under a name of its own where there are several.
    pub fn topic(
        &self,
        node: &Node<ipc::Service>,
        name: &ServiceName,
    ) -> Result<Factory<ipc::Service, [u8], ()>, Error> {
        let Shape { subscribers, publishers, buffer, lossless, .. } = self.shape;
        let builder = node.service_builder(name).publish_subscribe::<[u8]>();
        let builder =
            builder.max_subscribers(subscribers).max_publishers(publishers).max_nodes(NODES);
        let builder = builder
            .subscriber_max_buffer_size(buffer)
            .history_size(0)
            .enable_safe_overflow(!lossless);
        told(builder.open_or_create(), "a publish-subscribe service")
    }

    /// Returns a publisher for its messages. It waits for room where nothing may be lost.
    pub fn port(
        &self,
        factory: &Factory<ipc::Service, [u8], ()>,
    ) -> Result<Port<ipc::Service, [u8], ()>, Error> {
        let builder = factory.publisher_builder().initial_max_slice_len(self.shape.bytes);
        // Its own retrying sleeps between two attempts, longer each time: no way to a full rate.
        let strategy = if self.shape.full_rate {
            BackpressureStrategy::DiscardData
        } else {
            BackpressureStrategy::RetryUntilDelivered
        };
        told(builder.backpressure_strategy(strategy).create(), "a publisher")
    }

    fn event_port(&self, node: &Node<ipc::Service>, name: &str) -> Result<EventPort, Error> {
        let name = told(name.try_into(), "an event's name")?;
        let builder = node.service_builder(&name).event().max_nodes(NODES);
        let builder =
            builder.max_listeners(self.shape.subscribers).max_notifiers(self.shape.publishers);
        told(builder.open_or_create(), "an event service")
    }

    fn listener(
        &self,
        node: &Node<ipc::Service>,
        name: &str,
    ) -> Result<Option<Listener<ipc::Service>>, Error> {
        (self.shape.wait == Wait::Block)
            .then(|| told(self.event_port(node, name)?.listener_builder().create(), "a listener"))
            .transpose()
    }

    fn notifier(
        &self,
        node: &Node<ipc::Service>,
        name: &str,
    ) -> Result<Option<Notifier<ipc::Service>>, Error> {
        (self.shape.wait == Wait::Block)
            .then(|| told(self.event_port(node, name)?.notifier_builder().create(), "a notifier"))
            .transpose()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nothing is left of processes that ended; killed ones leave their segments.
        let left = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        for file in
            left.filter(|file| file.file_name().as_bytes().starts_with(self.prefix.as_bytes()))
        {
            let _ = fs::remove_file(file.path());
        }
    }
}

type EventPort = ::iceoryx2::service::port_factory::event::PortFactory<ipc::Service>;

/// The publishing end.
pub(crate) struct Publisher {
    port: Port<ipc::Service, [u8], ()>,
    /// Sends again what found no room.
    again: bool,
    event: Option<Notifier<ipc::Service>>,
    /// Kept: the port lives in it.
    _node: Rc<Node<ipc::Service>>,
}

/// The subscribing end.
pub(crate) struct Subscriber {
    port: ReadingPort<ipc::Service, [u8], ()>,
    event: Option<Listener<ipc::Service>>,
    /// Kept: the port lives in it.
    _node: Rc<Node<ipc::Service>>,
}

/// Waits for the event, or asks again at once where there is none.
#[inline]
fn wait(event: Option<&Listener<ipc::Service>>) -> Result<(), Error> {
    match event {
        None => hint::spin_loop(),
        Some(listener) => drop(told(listener.blocking_wait(|_| {}), "waiting for an event")?),
    }
    Ok(())
}

#[inline]
fn notify(event: Option<&Notifier<ipc::Service>>) -> Result<(), Error> {
    event.map_or(Ok(()), |notifier| told(notifier.notify(), "notifying").map(drop))
}

/// Returns what `write` is given; it may leave bytes as they are.
#[inline]
fn bytes_of(payload: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    // SAFETY: bytes of a mapped file: each has a value, whichever process wrote it last.
    unsafe { &mut *(std::ptr::from_mut(payload) as *mut [u8]) }
}

impl Topic for Iceoryx2 {
    const NAME: &'static str = "iceoryx2";
    type Place = Place;
    type Publisher = Publisher;
    type Subscriber = Subscriber;

    fn place(stage: &Stage, name: &str, shape: Shape) -> Result<Place, Error> {
        Place::new(stage, name, shape)
    }

    fn publisher(place: &Place) -> Result<Publisher, Error> {
        Self::session(place)?.publisher(&place.service)
    }

    fn subscriber(place: &Place) -> Result<Subscriber, Error> {
        Self::session(place)?.subscriber(&place.service)
    }
}

impl Session<'_> {
    fn publisher(&self, topic: &ServiceName) -> Result<Publisher, Error> {
        let Self { place, node } = self;
        let port = place.port(&place.topic(node, topic)?)?;
        let event = place.notifier(node, "message")?;
        Ok(Publisher { port, again: place.shape.full_rate, event, _node: node.clone() })
    }

    fn subscriber(&self, topic: &ServiceName) -> Result<Subscriber, Error> {
        let Self { place, node } = self;
        let port = told(place.topic(node, topic)?.subscriber_builder().create(), "a subscriber")?;
        let event = place.listener(node, "message")?;
        Ok(Subscriber { port, event, _node: node.clone() })
    }
}

/// One process in a place.
pub(crate) struct Session<'a> {
    place: &'a Place,
    node: Rc<Node<ipc::Service>>,
}

fn topic_name(topic: usize) -> Result<ServiceName, Error> {
    told(format!("topic{topic}").as_str().try_into(), "a topic's name")
}

impl Domain for Iceoryx2 {
    type Session<'a> = Session<'a>;
    const FILES: u64 = 8;

    fn session(place: &Place) -> Result<Session<'_>, Error> {
        Ok(Session { place, node: Rc::new(place.node()?) })
    }

    fn publisher_of(session: &Session<'_>, topic: usize) -> Result<Publisher, Error> {
        session.publisher(&topic_name(topic)?)
    }

    fn subscriber_of(session: &Session<'_>, topic: usize) -> Result<Subscriber, Error> {
        session.subscriber(&topic_name(topic)?)
    }
}

impl Publish for Publisher {
    #[inline]
    fn publish(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        let mut sample = told(self.port.loan_slice_uninit(bytes), "a loan")?;
        write(bytes_of(sample.payload_mut()));
        if self.again {
            let mut first = [0; SMALL];
            first[..bytes].copy_from_slice(bytes_of(sample.payload_mut()));
            // SAFETY: see `bytes_of`.
            while told(unsafe { sample.assume_init() }.send(), "sending")? == 0 {
                hint::spin_loop();
                sample = told(self.port.loan_slice_uninit(bytes), "a loan")?;
                bytes_of(sample.payload_mut()).copy_from_slice(&first[..bytes]);
            }
            return notify(self.event.as_ref());
        }
        // SAFETY: see `bytes_of`.
        told(unsafe { sample.assume_init() }.send(), "sending")?;
        notify(self.event.as_ref())
    }
}

impl Subscribe for Subscriber {
    /// Connects: until then a publisher that should lose nothing throws away what finds no room.
    fn settle(&mut self) -> Result<(), Error> {
        told(self.port.has_samples(), "connecting").map(drop)
    }

    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        loop {
            if let Some(sample) = told(self.port.receive(), "receiving")? {
                return Ok(read(sample.payload()));
            }
            wait(self.event.as_ref())?;
        }
    }
}

/// The asking end.
pub(crate) struct Asking {
    port: Client<ipc::Service, [u8], (), [u8], ()>,
    replied: Option<Listener<ipc::Service>>,
    asked: Option<Notifier<ipc::Service>>,
    /// Kept: the port lives in it.
    _node: Node<ipc::Service>,
}

/// The answering end.
pub(crate) struct Answering {
    port: Server<ipc::Service, [u8], (), [u8], ()>,
    asked: Option<Listener<ipc::Service>>,
    replied: Option<Notifier<ipc::Service>>,
    /// Kept: the port lives in it.
    _node: Node<ipc::Service>,
}

impl AnyService for Iceoryx2 {
    const NAME: &'static str = "iceoryx2";
    type Place = Place;
    type Client = Asking;
    type Server = Answering;

    fn place(stage: &Stage, bytes: usize, wait: Wait) -> Result<Place, Error> {
        Place::new(stage, "service", Shape::pair(bytes, wait))
    }

    fn server(place: &Place) -> Result<Answering, Error> {
        let node = place.node()?;
        let service =
            node.service_builder(&place.service).request_response::<[u8], [u8]>().open_or_create();
        let builder = told(service, "a request-response service")?;
        let builder = builder.server_builder().initial_max_slice_len(place.shape.bytes);
        let port = told(builder.create(), "a server")?;
        let (asked, replied) = (place.listener(&node, "asked")?, place.notifier(&node, "replied")?);
        Ok(Answering { port, asked, replied, _node: node })
    }

    fn client(place: &Place) -> Result<Asking, Error> {
        let node = place.node()?;
        let service =
            node.service_builder(&place.service).request_response::<[u8], [u8]>().open_or_create();
        let builder = told(service, "a request-response service")?;
        let builder = builder.client_builder().initial_max_slice_len(place.shape.bytes);
        let port = told(builder.create(), "a client")?;
        let (asked, replied) = (place.notifier(&node, "asked")?, place.listener(&node, "replied")?);
        Ok(Asking { port, replied, asked, _node: node })
    }
}

impl Call for Asking {
    #[inline]
    fn call<R>(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error> {
        let mut request = told(self.port.loan_slice_uninit(bytes), "a request's loan")?;
        write(bytes_of(request.payload_mut()));
        // SAFETY: see `bytes_of`.
        let pending = told(unsafe { request.assume_init() }.send(), "a request")?;
        notify(self.asked.as_ref())?;
        for attempt in 1u32.. {
            if let Some(reply) = told(pending.receive(), "a reply")? {
                return Ok(read(reply.payload()));
            }
            // Now and then: a reply that comes at once should not pay for it. The server ends the
            // connection behind its reply, so there may be one since the look above.
            if attempt % 256 == 0 && !pending.is_connected() {
                match told(pending.receive(), "a reply")? {
                    Some(reply) => return Ok(read(reply.payload())),
                    None => break,
                }
            }
            wait(self.replied.as_ref())?;
        }
        Err(Error::Child("iceoryx2: the server is gone".into()))
    }
}

impl Serve for Answering {
    #[inline]
    fn serve(&mut self, answer: impl FnOnce(&[u8], &mut [u8])) -> Result<(), Error> {
        loop {
            if let Some(request) = told(self.port.receive(), "a request")? {
                let asked = request.payload();
                let mut reply = told(request.loan_slice_uninit(asked.len()), "a reply's loan")?;
                answer(asked, bytes_of(reply.payload_mut()));
                // SAFETY: see `bytes_of`.
                told(unsafe { reply.assume_init() }.send(), "a reply")?;
                return notify(self.replied.as_ref());
            }
            wait(self.asked.as_ref())?;
        }
    }
}
