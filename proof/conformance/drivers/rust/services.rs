//! `client.` and `server.`

use std::collections::HashMap;
use std::task::Poll;

use outlive::rpc::{
    Call, CallError, Client, ClientEvent, ClientWatch, Part, Request, RequestStream, Server,
    Service, Stream,
};
use outlive::{Deadline, Domain};

use crate::answer::{self, Answer, Refusal, done, find, leak, said};

#[derive(Default)]
pub(crate) struct Services {
    clients: HashMap<String, &'static Client>,
    servers: HashMap<String, Server>,
    pending: Option<Call<'static>>,
    parts: Option<RequestStream<'static>>,
    request: Option<Request>,
    watch: Option<ClientWatch>,
    stream: Option<Stream>,
    /// The text of the last failure.
    failure: Option<String>,
}

fn shown(part: Poll<Option<Part>>) -> Answer {
    match part {
        Poll::Ready(Some(part)) => said(answer::show(&part)),
        Poll::Ready(None) => said("end"),
        Poll::Pending => Err(Refusal::new("TimedOut", "")),
    }
}

impl Services {
    pub(crate) fn act(&mut self, domain: &Domain, command: &str, args: &[&str]) -> Answer {
        match (command, args) {
            ("client.open", [name, options @ ..]) => {
                let client = Service::<[u8], [u8]>::open_or_create(domain, name)
                    .and_then(|service| service.client())?;
                client.set_wait_for_server(options.contains(&"wait"));
                self.clients.insert((*name).to_owned(), leak(client));
                done()
            }
            ("client.alive", [name]) => {
                find(&mut self.clients, name)?.assert_liveliness();
                done()
            }
            ("client.call", [name, message, span]) => {
                let client = find(&mut self.clients, name)?;
                let reply = client.call_timeout(&answer::message(message)?, answer::span(span)?);
                said(answer::show(&self.heard(reply)?))
            }
            ("client.begin", [name, message, span]) => {
                let client: &'static Client = *find(&mut self.clients, name)?;
                self.pending =
                    Some(client.begin_timeout(&answer::message(message)?, answer::span(span)?)?);
                done()
            }
            ("client.loan", [name, message, span]) => {
                let client: &'static Client = *find(&mut self.clients, name)?;
                let (message, span) = (answer::message(message)?, answer::span(span)?);
                let mut loan = client.loan_timeout(message.len(), span)?;
                loan.copy_from_slice(&message);
                self.pending = Some(loan.begin_timeout(span)?);
                done()
            }
            ("client.stream", [name, message, span]) => {
                let client: &'static Client = *find(&mut self.clients, name)?;
                self.parts =
                    Some(client.stream_timeout(&answer::message(message)?, answer::span(span)?)?);
                done()
            }
            ("client.send", [message, span]) => {
                let parts =
                    self.parts.as_mut().ok_or_else(|| Refusal::new("Usage", "no stream"))?;
                parts.send_timeout(&answer::message(message)?, answer::span(span)?)?;
                done()
            }
            ("client.finish", []) => {
                let parts = self.parts.take().ok_or_else(|| Refusal::new("Usage", "no stream"))?;
                self.pending = Some(parts.finish()?);
                done()
            }
            ("client.let_go", []) => {
                self.parts = None;
                done()
            }
            ("client.next", [span]) => {
                let pending =
                    self.pending.as_mut().ok_or_else(|| Refusal::new("Usage", "no call"))?;
                let next = pending.next_timeout(answer::span(span)?);
                let begun = pending.is_begun();
                match self.heard(next)? {
                    Poll::Ready(Some(reply)) => said(answer::show(&reply)),
                    Poll::Ready(None) => said("end"),
                    Poll::Pending => Err(CallError::TimedOut { begun }.into()),
                }
            }
            ("client.failure", []) => said(self.failure.as_deref().unwrap_or("none")),
            ("server.open", [name, options @ ..]) => {
                let mut service = Service::<[u8], [u8]>::options();
                if let Some(most) = answer::option(options, "servers")? {
                    service = service.max_servers(most);
                }
                let service = service.open_or_create(domain, name)?;
                let in_turn = match answer::option(options, "within")? {
                    Some(within) => {
                        service.wait_to_serve_timeout(std::time::Duration::from_millis(within))?
                    }
                    None => None,
                };
                // In the end the error names the process that serves.
                let server = in_turn.map_or_else(|| service.server(), Ok)?;
                self.servers.insert((*name).to_owned(), server);
                done()
            }
            ("server.next", [name, patience]) => {
                let server = find(&mut self.servers, name)?;
                let request = match answer::patience(patience)? {
                    None => server.try_next()?.ok_or_else(|| Refusal::new("Empty", ""))?,
                    Some(span) => {
                        server.next_timeout(span)?.ok_or_else(|| Refusal::new("TimedOut", ""))?
                    }
                };
                let shown = answer::show(&request);
                self.request = Some(request);
                said(shown)
            }
            ("client.prefault", [name, messages, size]) => {
                let (messages, size) = (answer::number(messages)?, answer::number(size)?);
                find(&mut self.clients, name)?.prefault(messages, size)?;
                done()
            }
            ("server.prefault", [name, messages, size]) => {
                let (messages, size) = (answer::number(messages)?, answer::number(size)?);
                find(&mut self.servers, name)?.prefault(messages, size)?;
                done()
            }
            ("server.watch_outside", [name, lease]) => {
                let service = Service::<[u8], [u8]>::open_as_bytes(domain, name)?;
                self.watch = Some(service.watch_clients(answer::span(lease)?)?);
                done()
            }
            ("server.watch", [name, lease]) => {
                let server = find(&mut self.servers, name)?;
                self.watch = Some(server.watch_clients(answer::span(lease)?)?);
                done()
            }
            ("server.event", [span]) => {
                let watch = self.watch.as_mut().ok_or_else(|| Refusal::new("Usage", "no watch"))?;
                let event = watch
                    .next_timeout(answer::span(span)?)?
                    .ok_or_else(|| Refusal::new("TimedOut", ""))?;
                let what = match &event {
                    ClientEvent::NotLively(_) => "not-lively",
                    ClientEvent::Lively(_) => "lively",
                    _ => "died",
                };
                said(format!("{what} {}", event.client().pid))
            }
            ("server.client", []) => said(self.asked()?.client().map_or(0, |holder| holder.pid)),
            ("server.cancelled", []) => {
                said(if self.asked()?.is_cancelled() { "yes" } else { "no" })
            }
            ("server.wait_cancelled", [patience]) => {
                let deadline = match answer::patience(patience)? {
                    None => Deadline::at_nanos(0),
                    Some(span) => Deadline::after(span),
                };
                self.asked()?.wait_cancelled_until(deadline)?;
                done()
            }
            ("server.next_part", [span]) => {
                let span = answer::span(span)?;
                shown(match (&mut self.request, &mut self.stream) {
                    (_, Some(stream)) => stream.next_part_timeout(span)?,
                    (Some(request), _) => request.next_part_timeout(span)?,
                    _ => return Err(Refusal::new("Usage", "no request")),
                })
            }
            ("server.reply", [message]) => {
                self.request()?.reply(&answer::message(message)?)?;
                done()
            }
            ("server.reply_loan", [message]) => {
                let message = answer::message(message)?;
                let mut loan = self.request()?.loan(message.len())?;
                loan.copy_from_slice(&message);
                loan.send()?;
                done()
            }
            ("server.fail_loan", [size, why]) => {
                let size = size.parse().map_err(|_| Refusal::new("Usage", "a number of bytes"))?;
                self.request()?.loan(size)?.fail(why)?;
                done()
            }
            ("server.fail", [why]) => {
                self.request()?.fail(why)?;
                done()
            }
            ("server.fail_stream", [why]) => {
                self.stream.take().ok_or_else(|| Refusal::new("Usage", "no stream"))?.fail(why)?;
                done()
            }
            ("server.drop", []) => {
                drop(self.request()?);
                done()
            }
            ("server.stream", []) => {
                self.stream = Some(self.request()?.stream());
                done()
            }
            ("server.send", [message, span]) => {
                let stream =
                    self.stream.as_mut().ok_or_else(|| Refusal::new("Usage", "no stream"))?;
                stream.send_timeout(&answer::message(message)?, answer::span(span)?)?;
                done()
            }
            ("server.finish", []) => {
                self.stream.take().ok_or_else(|| Refusal::new("Usage", "no stream"))?.finish()?;
                done()
            }
            _ => answer::unknown(command, args),
        }
    }

    /// Keeps the text of a failure.
    fn heard<T>(&mut self, result: Result<T, CallError>) -> Result<T, CallError> {
        if let Err(CallError::Failed(text)) = &result {
            self.failure = Some(text.clone());
        }
        result
    }

    fn asked(&self) -> Result<&Request, Refusal> {
        self.request.as_ref().ok_or_else(|| Refusal::new("Usage", "no request"))
    }

    fn request(&mut self) -> Result<Request, Refusal> {
        self.request.take().ok_or_else(|| Refusal::new("Usage", "no request"))
    }
}
