//! Orders about services. Every request bears a stamp (`crate::message`), and its answer is the
//! same, as long as asked for.

use std::collections::BTreeMap;
use std::task::Poll;

use outlive::rpc::{Call, CallError, Client, Request, Server, Service};
use outlive::wait::WaitSet;
use outlive::{Detail, Domain, Error, RecvError, SendError, WaitStrategy};

use super::number;
use crate::message::Stamp;

/// The most that a service of the scenarios may take.
pub const MAX_BYTES: u64 = 1 << 20;

/// One service with the ends that this survivor has. Calls before the client that they are
/// of.
#[derive(Default)]
struct Open {
    calls: Vec<Call<'static>>,
    client: Option<Box<Client>>,
    requests: Vec<Request>,
    server: Option<Server>,
}

/// The services that a survivor has open.
#[derive(Default)]
pub struct Services {
    open: BTreeMap<String, Open>,
}

/// A client that sleeps at once.
pub fn client(domain: &Domain, name: &str) -> Result<Client, String> {
    let options =
        Service::<[u8], [u8]>::options().max_bytes(MAX_BYTES).wait_strategy(WaitStrategy::Block);
    options
        .open_or_create(domain, name)
        .and_then(|service| service.client())
        .map_err(|error| error.to_string())
}

/// A service whose ends sleep at once.
pub fn service(domain: &Domain, name: &str) -> Result<Service, Error> {
    Service::<[u8], [u8]>::options()
        .max_bytes(MAX_BYTES)
        .wait_strategy(WaitStrategy::Block)
        .open_or_create(domain, name)
}

/// A server that sleeps at once.
pub fn server(domain: &Domain, name: &str) -> Result<Server, Error> {
    service(domain, name).and_then(|service| service.server())
}

/// One of two servers, which sleeps at once. It takes the service as it is, if there is one.
pub fn server_beside(domain: &Domain, name: &str) -> Result<Server, Error> {
    Service::<[u8], [u8]>::options()
        .max_bytes(MAX_BYTES)
        .max_servers(2)
        .wait_strategy(WaitStrategy::Block)
        .open_or_create(domain, name)
        .and_then(|service| service.server())
}

/// The answer to a request: its own stamp, in so many bytes.
pub fn answer_to(request: &[u8], len: usize) -> Result<Vec<u8>, String> {
    Ok(Stamp::of(request)?.message(len))
}

/// The text of a failure: the request's stamp, in so many bytes.
pub fn failure_of(request: &[u8], len: usize) -> Result<String, String> {
    let stamp = show(request)?;
    Ok(format!("{stamp} {}", ".".repeat(len.saturating_sub(stamp.len() + 1))))
}

fn show(bytes: &[u8]) -> Result<String, String> {
    Stamp::of(bytes).map(|stamp| format!("{}:{}", stamp.sender, stamp.number))
}

/// What became of a call, as a word: its answer's stamp, or how it failed.
fn outcome(result: Result<Option<String>, CallError>) -> Result<String, String> {
    match result {
        Ok(Some(stamp)) => Ok(stamp),
        Ok(None) => Ok("nothing".to_owned()),
        Err(CallError::ServerDied { begun: true }) => Ok("died-begun".to_owned()),
        Err(CallError::ServerDied { begun: false }) => Ok("died".to_owned()),
        Err(CallError::NoServer) => Ok("no-server".to_owned()),
        Err(CallError::Dropped) => Ok("dropped".to_owned()),
        // The text begins with the stamp.
        Err(CallError::Failed(text)) => {
            Ok(format!("failed-{}", text.split(' ').next().unwrap_or_default()))
        }
        Err(other) => Err(other.to_string()),
    }
}

/// All replies of a call, which must be alike.
fn wait(call: &mut Call<'_>) -> Result<String, String> {
    let mut last = None;
    loop {
        match call.next() {
            Ok(Some(reply)) => last = Some(show(&reply)?),
            Ok(None) => return outcome(Ok(last)),
            Err(error) => return outcome(Err(error)),
        }
    }
}

/// The same by a wait set.
///
/// # Errors
/// What the set says, and what [`wait`] does.
pub fn wait_in_set(domain: &Domain, call: &mut Call<'_>) -> Result<String, String> {
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    set.add(&*call).map_err(|error| error.to_string())?;
    let mut last = None;
    loop {
        match call.try_next() {
            Ok(Poll::Pending) => {
                set.wait().map_err(|error| error.to_string())?;
            }
            Ok(Poll::Ready(Some(reply))) => last = Some(show(&reply)?),
            Ok(Poll::Ready(None)) => return outcome(Ok(last)),
            Err(error) => return outcome(Err(error)),
        }
    }
}

/// Answers everything that is there, with so many bytes; returns the stamps.
fn answer_all(server: &mut Server, len: usize) -> Result<String, String> {
    let mut stamps = Vec::new();
    while let Some(request) = server.try_next().map_err(|error| error.to_string())? {
        stamps.push(show(&request)?);
        let answer = answer_to(&request, len)?;
        match request.reply(&answer) {
            Ok(()) | Err(SendError::Cancelled | SendError::ReceiverDied) => {}
            Err(other) => return Err(other.to_string()),
        }
    }
    Ok(stamps.join(" "))
}

impl Open {
    fn client(&mut self, domain: &Domain, name: &str) -> Result<&'static Client, String> {
        if self.client.is_none() {
            self.client = Some(Box::new(client(domain, name)?));
        }
        let client: &Client = self.client.as_ref().ok_or("no client")?;
        // SAFETY: boxed, and dropped after the calls that are of it: by `close`, and by the order
        // of the fields.
        Ok(unsafe { &*core::ptr::from_ref(client) })
    }
}

impl Services {
    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        let (Some(what), Some(name)) = (order.first(), order.get(1)) else {
            return Err("unknown order".to_owned());
        };
        // Without opening it: the server, all servers, and the clients with a call that has been answered to the
        // end.
        if matches!(*what, "server" | "servers" | "answered" | "begun") {
            let Detail::Service(seen) =
                domain.entry(name).map_err(|error| error.to_string())?.detail
            else {
                return Err("no service".to_owned());
            };
            if *what == "server" {
                return Ok(seen
                    .server
                    .map_or_else(|| "nobody".to_owned(), |holder| holder.pid.to_string()));
            }
            if *what == "servers" {
                let pids = seen.servers.iter().map(|server| server.pid.to_string());
                return Ok(pids.collect::<Vec<_>>().join(" "));
            }
            if *what == "begun" {
                let begun: u32 = seen.clients.iter().map(|client| client.begun).sum();
                return Ok(begun.to_string());
            }
            let answered = seen.clients.iter().filter(|client| client.answered > 0);
            return Ok(answered
                .map(|client| client.who.pid.to_string())
                .collect::<Vec<_>>()
                .join(" "));
        }
        let open = self.open.entry((*name).to_owned()).or_default();
        match (*what, &order[2..]) {
            ("close", []) => {
                open.calls.clear();
                self.open.remove(*name);
                Ok(String::new())
            }
            ("serve" | "serve-beside", []) => match match *what {
                "serve" => server(domain, name),
                _ => server_beside(domain, name),
            } {
                Ok(server) => {
                    open.server = Some(server);
                    Ok("mine".to_owned())
                }
                Err(Error::Taken { .. }) => Ok("taken".to_owned()),
                Err(other) => Err(other.to_string()),
            },
            // Becomes a client.
            ("join", []) => open.client(domain, name).map(|_| String::new()),
            // Answers everything that is there, with LENGTH bytes. Answers the stamps.
            ("answer", [len]) => {
                answer_all(open.server.as_mut().ok_or("not the server")?, number(len)?)
            }
            // Waits until it can serve, does as `answer`, and leaves.
            ("stand-by", [len]) => {
                let server = service(domain, name).and_then(|service| service.wait_to_serve());
                answer_all(&mut server.map_err(|error| error.to_string())?, number(len)?)
            }
            // Begins a call and keeps it unanswered. Answers its stamp.
            ("take", []) => {
                let server = open.server.as_mut().ok_or("not the server")?;
                let request = server.next().map_err(|error| error.to_string())?;
                let stamp = show(&request);
                open.requests.push(request);
                stamp
            }
            // Waits until no client wants the reply to what it has taken, and lets go of it.
            ("cancelled", []) => {
                let request = open.requests.pop().ok_or("has taken no request")?;
                request.wait_cancelled().map_err(|error| error.to_string())?;
                Ok("cancelled".to_owned())
            }
            // Takes all parts of what it has taken, and answers it. Answers how many parts there were,
            // and how they ended.
            ("parts", []) => {
                let mut request = open.requests.pop().ok_or("has taken no request")?;
                let mut parts = 0;
                loop {
                    match request.next_part() {
                        Ok(Some(part)) => {
                            Stamp::of(&part)?;
                            parts += 1;
                        }
                        Ok(None) => {
                            let answer = answer_to(&request, 48)?;
                            return match request.reply(&answer) {
                                Ok(()) | Err(SendError::Cancelled | SendError::ReceiverDied) => {
                                    Ok(format!("{parts} ended"))
                                }
                                Err(other) => Err(other.to_string()),
                            };
                        }
                        Err(RecvError::Cancelled) => return Ok(format!("{parts} cancelled")),
                        Err(other) => return Err(other.to_string()),
                    }
                }
            }
            // Asks in so many parts, and waits.
            ("upload", [sender, first, parts]) => {
                let (sender, first) = (number(sender)?, number(first)?);
                let message = |number| Stamp { sender, number }.message(48);
                let client = open.client(domain, name)?;
                let sent = client.stream(&message(first)).and_then(|mut stream| {
                    for part in 0..number::<u64>(parts).unwrap_or(0) {
                        match stream.send(&message(first + 1 + part)) {
                            Ok(()) => {}
                            Err(CallError::Answered) => break,
                            Err(other) => return Err(other),
                        }
                    }
                    stream.finish()
                });
                match sent {
                    Ok(mut call) => wait(&mut call),
                    Err(error) => outcome(Err(error)),
                }
            }
            // Asks, and does not wait.
            ("begin", [sender, first, len]) => {
                let stamp = Stamp { sender: number(sender)?, number: number(first)? };
                match open.client(domain, name)?.begin(&stamp.message(number(len)?)) {
                    Ok(call) => {
                        open.calls.push(call);
                        Ok("sent".to_owned())
                    }
                    Err(error) => outcome(Err(error)),
                }
            }
            // Waits for what was begun. Answers how each ended.
            ("wait", []) => {
                let outcomes: Result<Vec<String>, String> =
                    open.calls.iter_mut().map(wait).collect();
                open.calls.clear();
                Ok(outcomes?.join(" "))
            }
            // Asks, and waits: for a server too, if PATIENT.
            ("call" | "call-in-set", [sender, first, len, patience]) => {
                let stamp = Stamp { sender: number(sender)?, number: number(first)? };
                let client = open.client(domain, name)?;
                client.set_wait_for_server(*patience == "wait");
                match client.begin(&stamp.message(number(len)?)) {
                    Ok(mut call) if *what == "call-in-set" => wait_in_set(domain, &mut call),
                    Ok(mut call) => wait(&mut call),
                    Err(error) => outcome(Err(error)),
                }
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
