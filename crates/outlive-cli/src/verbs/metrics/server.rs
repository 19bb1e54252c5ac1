//! A small HTTP server that answers `GET /metrics`, in one thread and without ever waiting for a client.
//!
//! Each connection has its own bounds, so that none holds the others up: a request of [`LONGEST_REQUEST`]
//! bytes at most, and [`LONGEST`] from its beginning to its end. There are [`MOST_CONNECTIONS`] of them:
//! one more takes the place of the oldest, which a scraper that gets its page at once never is for long.
//! One page is made for all requests that have come when it is made.
//!
//! | state | event | next |
//! | --- | --- | --- |
//! | reads | the request is whole: /metrics | awaits the page |
//! | reads | the request is whole: another path or method, or no HTTP, or too long | writes that |
//! | reads | the client closes | gone |
//! | awaits the page | it is made | writes it |
//! | writes | all is written | drains: what the client still sends is thrown away, since to close on it would take the answer back |
//! | drains | the client closes | gone |
//! | any | its time is over, or its place is needed | gone |

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::page::Format;

/// The most connections at a time.
const MOST_CONNECTIONS: usize = 16;
/// The most bytes of a request.
const LONGEST_REQUEST: usize = 8 << 10;
/// The most header lines of a request.
const MOST_HEADERS: usize = 64;
/// The longest time of a connection.
const LONGEST: Duration = Duration::from_secs(10);
/// How long the server leaves new connections alone when the system has no descriptor for one.
const PAUSE: Duration = Duration::from_millis(100);

/// What a connection does.
enum State {
    /// It reads a request, of which this has come.
    Reads(Vec<u8>),
    /// The request wants the metrics.
    Awaits {
        format: Format,
        with_body: bool,
    },
    /// It writes an answer: its head, its body, and how much of both is written.
    Writes {
        head: Vec<u8>,
        body: Arc<str>,
        written: usize,
    },
    /// All is written.
    Drains,
    Gone,
}

struct Connection {
    stream: TcpStream,
    until: Instant,
    state: State,
}

/// The server.
pub struct Server {
    listener: TcpListener,
    /// The oldest first.
    connections: Vec<Connection>,
    /// New connections wait until then.
    paused_until: Option<Instant>,
}

impl Server {
    /// Listens at the first of these addresses that is free.
    pub fn listen(addresses: &[SocketAddr]) -> io::Result<Server> {
        let listener = TcpListener::bind(addresses)?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener, connections: Vec::new(), paused_until: None })
    }

    /// Returns where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Sleeps until a connection can go on, `also` can be read, or that moment; then takes each
    /// connection as far as it goes.
    pub fn turn(&mut self, also: BorrowedFd<'_>, until: Option<Instant>) -> io::Result<()> {
        let now = Instant::now();
        self.paused_until = self.paused_until.filter(|&until| until > now);
        let ends = self.connections.iter().map(|one| one.until);
        let next = ends.chain(until).chain(self.paused_until).min();
        let mut polled = vec![PollFd::from_borrowed_fd(also, PollFlags::IN)];
        polled.extend(self.connections.iter().map(|one| {
            let wants = match one.state {
                State::Writes { .. } => PollFlags::OUT,
                State::Awaits { .. } | State::Gone => PollFlags::empty(),
                State::Reads(_) | State::Drains => PollFlags::IN,
            };
            PollFd::from_borrowed_fd(one.stream.as_fd(), wants)
        }));
        if self.paused_until.is_none() {
            polled.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let timeout = next.map(|next| next.saturating_duration_since(now));
        let timeout = timeout.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // Each without being asked whether it is ready: one that is not costs a system call.
        self.connections.iter_mut().for_each(Connection::go_on);
        if self.paused_until.is_none() {
            self.accept();
        }
        self.clear();
        Ok(())
    }

    /// Returns the forms of the page that are wanted.
    pub fn wanted(&self) -> Vec<Format> {
        let wants = |format: Format| {
            let mut all = self.connections.iter();
            all.any(|one| matches!(one.state, State::Awaits { format: f, .. } if f == format))
        };
        [Format::Text, Format::OpenMetrics].into_iter().filter(|&format| wants(format)).collect()
    }

    /// Answers all that want the page in that form.
    pub fn answer(&mut self, format: Format, page: &Arc<str>) {
        for one in &mut self.connections {
            if let State::Awaits { format: wanted, with_body } = one.state
                && wanted == format
            {
                one.write("200 OK", format.content_type(), page, with_body);
                one.go_on();
            }
        }
        self.clear();
    }

    fn accept(&mut self) {
        loop {
            let is_full = self.connections.len() == MOST_CONNECTIONS;
            if is_full && matches!(self.connections[0].state, State::Awaits { .. }) {
                // Its page is about to be made; then there is room.
                return;
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if is_full {
                        self.connections.remove(0);
                    }
                    let until = Instant::now() + LONGEST;
                    let state = State::Reads(Vec::new());
                    let mut one = Connection { stream, until, state };
                    // Most requests are there already.
                    one.go_on();
                    self.connections.push(one);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The client has gone again.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                // No descriptor, or no memory, for one more.
                Err(_) => {
                    self.paused_until = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }

    fn clear(&mut self) {
        let now = Instant::now();
        self.connections.retain(|one| !matches!(one.state, State::Gone) && one.until > now);
    }
}

impl Connection {
    /// Goes on until it would wait.
    fn go_on(&mut self) {
        loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The client has gone.
                Err(_) => self.state = State::Gone,
            }
        }
    }

    /// Does one step of the table above; returns whether there may be another.
    fn step(&mut self) -> io::Result<bool> {
        match &mut self.state {
            State::Gone | State::Awaits { .. } => return Ok(false),
            State::Reads(request) => {
                let before = request.len();
                request.resize(LONGEST_REQUEST, 0);
                let read = self.stream.read(&mut request[before..]);
                request.truncate(before + *read.as_ref().unwrap_or(&0));
                if read? == 0 {
                    self.state = State::Gone;
                    return Ok(false);
                }
                let answer = understand(request);
                let is_full = request.len() == LONGEST_REQUEST;
                match answer {
                    Understood::Metrics { format, with_body } => {
                        self.state = State::Awaits { format, with_body };
                    }
                    Understood::Part if !is_full => {}
                    Understood::Part => self.refuse("431 Request Header Fields Too Large"),
                    Understood::Other(status) => self.refuse(status),
                }
            }
            State::Writes { head, body, written } => {
                let rest = match written.checked_sub(head.len()) {
                    None => &head[*written..],
                    Some(of_body) => &body.as_bytes()[of_body..],
                };
                if rest.is_empty() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.state = State::Drains;
                } else {
                    *written += self.stream.write(rest)?;
                }
            }
            State::Drains => {
                if self.stream.read(&mut [0; 4096])? == 0 {
                    self.state = State::Gone;
                }
                // A client may send without end: the others come first.
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn refuse(&mut self, status: &str) {
        let text = format!("{status}\nThe metrics are at /metrics\n");
        self.write(status, "text/plain; charset=utf-8", &text.into(), true);
    }

    fn write(&mut self, status: &str, content_type: &str, body: &Arc<str>, with_body: bool) {
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
             {allow}Connection: close\r\n\r\n",
            body.len()
        );
        let body = if with_body { body.clone() } else { "".into() };
        self.state = State::Writes { head: head.into_bytes(), body, written: 0 };
    }
}

/// What a client has asked for.
#[derive(Debug, PartialEq, Eq)]
enum Understood {
    /// The request goes on.
    Part,
    Metrics {
        format: Format,
        with_body: bool,
    },
    /// What it gets instead.
    Other(&'static str),
}

fn understand(bytes: &[u8]) -> Understood {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Understood::Part,
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Understood::Other("431 Request Header Fields Too Large");
        }
        Err(_) => return Understood::Other("400 Bad Request"),
    }
    let target = request.path.unwrap_or_default();
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    if path != "/metrics" {
        return Understood::Other("404 Not Found");
    }
    let with_body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Understood::Other("405 Method Not Allowed"),
    };
    let accepts = request.headers.iter().filter(|one| one.name.eq_ignore_ascii_case("accept"));
    let accepts = accepts.filter_map(|one| std::str::from_utf8(one.value).ok());
    Understood::Metrics { format: preferred(accepts), with_body }
}

/// Returns the form that the client likes better: OpenMetrics, if it names that, and not text with
/// more weight.
fn preferred<'a>(accepts: impl Iterator<Item = &'a str>) -> Format {
    let (mut open, mut text) = (0.0_f32, 0.0_f32);
    for range in accepts.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let weight = parts
            .filter_map(|part| part.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
            .map_or(1.0, |(_, weight)| weight.trim().parse().unwrap_or(0.0));
        if kind.eq_ignore_ascii_case("application/openmetrics-text") {
            open = open.max(weight);
        } else if kind.eq_ignore_ascii_case("text/plain") {
            text = text.max(weight);
        }
    }
    if open > 0.0 && open >= text { Format::OpenMetrics } else { Format::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str) -> Format {
        preferred([accept].into_iter())
    }

    #[test]
    fn the_client_chooses_the_form() {
        // Prometheus 2.42, Prometheus 3, and others.
        for accept in [
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            "Application/OpenMetrics-Text",
        ] {
            assert_eq!(form(accept), Format::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/plain",
            "text/html, */*;q=0.1",
            "application/openmetrics-text;q=0.1,text/plain",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=nonsense",
            ";;;,,,q=q=q",
        ] {
            assert_eq!(form(accept), Format::Text, "{accept}");
        }
    }

    #[test]
    fn requests_are_understood_or_refused() {
        let of = |text: &str| understand(text.as_bytes());
        let metrics = |format, with_body| Understood::Metrics { format, with_body };
        assert_eq!(of("GET /metrics HTTP/1.1\r\n\r\n"), metrics(Format::Text, true));
        assert_eq!(of("HEAD /metrics?a=b HTTP/1.0\r\n\r\n"), metrics(Format::Text, false));
        let accept = "GET /metrics HTTP/1.1\r\naCCept: application/openmetrics-text\r\n\r\n";
        assert_eq!(of(accept), metrics(Format::OpenMetrics, true));
        for part in ["", "GET", "GET /metrics HTTP/1.1\r\n", "GET /metrics HTTP/1.1\r\nA: b\r\n"] {
            assert_eq!(of(part), Understood::Part, "{part}");
        }
        assert_eq!(of("GET / HTTP/1.1\r\n\r\n"), Understood::Other("404 Not Found"));
        let posted = "POST /metrics HTTP/1.1\r\n\r\n";
        assert_eq!(of(posted), Understood::Other("405 Method Not Allowed"));
        for bad in
            ["\0\0\0\0", "GET /metrics HTTP/9.9\r\n\r\n", "GET /metrics HTTP/1.1\r\nA\r\n\r\n"]
        {
            assert_eq!(of(bad), Understood::Other("400 Bad Request"), "{bad}");
        }
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert_eq!(of(&many), Understood::Other("431 Request Header Fields Too Large"));
    }
}
