//! The server of Foxglove's protocol, and its clients.
//!
//! The server's own loop that accepts connections ends for good at the first error, as when the process has
//! no file descriptor left. So the program asks for all descriptors that it may have, connects to itself
//! now and then, and starts the server again where nothing answers: its clients come again.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use foxglove::websocket::{
    Capability, ChannelView, Client, Parameter, ParameterHandler, PlaybackControlRequest,
    PlaybackState, ServerListener, Status, service::Service,
};
use foxglove::{ChannelId, Context, FoxgloveError, SinkId, WebSocketServer, WebSocketServerHandle};
use outlive_program::exit::{Code, Failure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// So often the program looks whether its server answers.
const LOOK: Duration = Duration::from_secs(5);
/// So long its own connection may take.
const ANSWER: Duration = Duration::from_secs(2);
/// As many status messages a second: a client that gets more than it reads is disconnected.
const MOST_STATUS: u32 = 5;

/// What a server offers.
#[derive(Clone)]
pub struct Offers {
    /// Its name.
    pub name: String,
    /// The address or host.
    pub host: String,
    /// The port; 0: any.
    pub port: u16,
    /// How many messages wait for a client.
    pub backlog: usize,
    /// Parameters, if there are any.
    pub parameters: Option<Arc<dyn Parameters>>,
    /// Whether services can be called.
    pub calls: bool,
    /// From when to when a file can be played, and by what.
    pub playback: Option<(u64, u64, Arc<dyn Player>)>,
}

/// What answers questions for parameters and is told who wants to know their changes.
pub trait Parameters: Send + Sync {
    /// Answers questions.
    fn handler(&self) -> Arc<dyn ParameterHandler>;
    /// Clients want to know of changes.
    fn subscribe(&self, names: Vec<String>);
    /// No client wants to know of them any more.
    fn unsubscribe(&self, names: &[String]);
}

/// What plays a file as clients ask it to.
pub trait Player: Send + Sync {
    /// Does so, and returns where it is then.
    fn control(&self, request: PlaybackControlRequest) -> PlaybackState;
}

/// The clients that have subscribed lately: each gets what its channel had last.
#[derive(Default)]
pub struct Arrivals(Mutex<Vec<(ChannelId, SinkId)>>);

impl Arrivals {
    /// Returns them, once.
    pub fn take(&self) -> Vec<(ChannelId, SinkId)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Listener {
    arrivals: Arc<Arrivals>,
    offers: Offers,
}

impl ServerListener for Listener {
    fn on_subscribe(&self, client: Client, channel: ChannelView) {
        if let Some(sink) = client.sink_id() {
            let mut all = self.arrivals.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.push((channel.id(), sink));
        }
    }

    fn on_parameters_subscribe(&self, names: Vec<String>) {
        if let Some(parameters) = &self.offers.parameters {
            parameters.subscribe(names);
        }
    }

    fn on_parameters_unsubscribe(&self, names: Vec<String>) {
        if let Some(parameters) = &self.offers.parameters {
            parameters.unsubscribe(&names);
        }
    }

    fn on_playback_control_request(
        &self,
        request: PlaybackControlRequest,
    ) -> Option<PlaybackState> {
        self.offers.playback.as_ref().map(|(.., player)| player.control(request))
    }
}

/// See the head of this file.
pub struct Clients {
    /// What clients see.
    pub context: Arc<Context>,
    /// The clients that have subscribed lately.
    pub arrivals: Arc<Arrivals>,
    offers: Offers,
    address: SocketAddr,
    server: RwLock<Option<WebSocketServerHandle>>,
    looked: Mutex<Instant>,
    /// Since when how many status messages were sent.
    said: Mutex<(Instant, u32)>,
}

impl Clients {
    /// Starts the server.
    ///
    /// # Errors
    /// The address is taken or not this machine's.
    pub fn start(mut offers: Offers) -> Result<Clients, Failure> {
        take_all_descriptors();
        let (context, arrivals) = (Context::new(), Arc::<Arrivals>::default());
        let server = serve(&context, &arrivals, &offers).map_err(|error| {
            let place = format!("{}:{}", offers.host, offers.port);
            match error {
                FoxgloveError::Bind(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    let why = format!("{place} is in use by another program; --port takes another");
                    Failure::new(Code::Busy, why)
                }
                FoxgloveError::Bind(error)
                    if error.kind() == std::io::ErrorKind::PermissionDenied =>
                {
                    Failure::new(Code::Permission, format!("could not listen at {place}: {error}"))
                }
                error => {
                    Failure::new(Code::System, format!("could not listen at {place}: {error}"))
                }
            }
        })?;
        offers.port = server.port();
        let found = (offers.host.trim_matches(['[', ']']), offers.port).to_socket_addrs();
        let address = found.ok().and_then(|mut all| all.next());
        let address = address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], offers.port)));
        Ok(Clients {
            context,
            arrivals,
            offers,
            address,
            server: RwLock::new(Some(server)),
            looked: Mutex::new(Instant::now()),
            said: Mutex::new((Instant::now(), 0)),
        })
    }

    /// Returns where clients connect.
    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Starts the server again, if it does not answer. Returns whether it had to.
    pub fn look(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.elapsed() < LOOK {
            return false;
        }
        *looked = Instant::now();
        drop(looked);
        let refused = TcpStream::connect_timeout(&self.address, ANSWER)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
        if refused {
            // All of its connections end, and give their descriptors back.
            self.end();
            let server = serve(&self.context, &self.arrivals, &self.offers).ok();
            *self.server.write().unwrap_or_else(PoisonError::into_inner) = server;
        }
        refused
    }

    /// Ends all connections.
    pub fn end(&self) {
        let server = self.server.write().unwrap_or_else(PoisonError::into_inner).take();
        // Not under the lock: the server has locks of its own, and its threads come here.
        drop(server.map(WebSocketServerHandle::stop));
    }

    fn with<T>(&self, act: impl FnOnce(&WebSocketServerHandle) -> T) -> Option<T> {
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map(act)
    }

    /// Shows a line in the clients' list of problems.
    pub fn say(&self, status: Status) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.0.elapsed() >= Duration::from_secs(1) {
            *said = (Instant::now(), 0);
        }
        said.1 += 1;
        if said.1 <= MOST_STATUS {
            self.with(|server| server.publish_status(status));
        }
    }

    /// Tells clients that want to know them the values of parameters.
    pub fn tell_parameters(&self, parameters: Vec<Parameter>) {
        self.with(|server| server.publish_parameter_values(parameters));
    }

    /// Offers services.
    pub fn add_services(&self, services: Vec<Service>) -> Result<(), String> {
        let added = self.with(|server| server.add_services(services));
        added.unwrap_or(Ok(())).map_err(|error| error.to_string())
    }

    /// Offers a service no more.
    pub fn remove_service(&self, name: &str) {
        self.with(|server| server.remove_services([name]));
    }

    /// Tells all clients where the playing is.
    pub fn tell_playback(&self, state: PlaybackState) {
        self.with(|server| server.broadcast_playback_state(state));
    }

    /// Tells all clients what time it is in the file.
    pub fn tell_time(&self, nanoseconds: u64) {
        self.with(|server| server.broadcast_time(nanoseconds));
    }
}

fn serve(
    context: &Arc<Context>,
    arrivals: &Arc<Arrivals>,
    offers: &Offers,
) -> Result<WebSocketServerHandle, FoxgloveError> {
    let listener = Listener { arrivals: Arc::clone(arrivals), offers: offers.clone() };
    let mut capabilities = Vec::new();
    let mut server = WebSocketServer::new()
        .name(&offers.name)
        .bind(&offers.host, offers.port)
        .context(context)
        .message_backlog_size(offers.backlog)
        .listener(Arc::new(listener));
    if offers.calls {
        capabilities.push(Capability::Services);
        server = server.supported_encodings(["json"]);
    }
    if let Some(parameters) = &offers.parameters {
        server = server.parameter_handler(parameters.handler());
    }
    if let Some((from, to, _)) = &offers.playback {
        capabilities.push(Capability::Time);
        server = server.playback_time_range(*from, *to);
    }
    server.capabilities(capabilities).start_blocking()
}

/// Each connection takes a file descriptor, and so does each topic.
fn take_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is not allowed, it has as many as before.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
