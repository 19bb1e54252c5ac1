//! What a service tells its supervisor, by systemd's protocol (sd_notify(3)): that it is ready, that it
//! still goes on, that it ends.
//!
//! The protocol is a datagram of text to the socket that the environment names, so this needs no
//! library. Started by hand, there is none, and nothing is told.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// When a supervisor is told again whose queue was full.
const AGAIN: Duration = Duration::from_millis(10);
/// The shortest interval: a shorter one would leave the program no time for anything else.
const SHORTEST: Duration = Duration::from_millis(1);

/// The supervisor that started this program, if one did.
pub struct Supervisor {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that the program goes on.
    interval: Option<Duration>,
    /// It was to be told that the program is ready, and its queue was full.
    is_ready_owed: bool,
    /// When it is told next.
    next: Option<Instant>,
}

impl Supervisor {
    /// Finds it in the environment: `NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`. What cannot be
    /// used is left alone: a program does not fail for it.
    pub fn of_environment() -> Supervisor {
        Supervisor::of(|name| std::env::var_os(name))
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Supervisor {
        let to = variable("NOTIFY_SOCKET").and_then(|name| connect(name).ok());
        let number = |text: OsString| text.into_string().ok().and_then(|text| text.parse().ok());
        // One that says another process, or no process at all, is not for this one.
        let is_meant = variable("WATCHDOG_PID")
            .is_none_or(|pid| number(pid) == Some(u64::from(std::process::id())));
        // Twice as often as it must be, as the manual advises.
        let interval = variable("WATCHDOG_USEC")
            .and_then(number)
            .filter(|&span| is_meant && to.is_some() && span > 0)
            .map(|span| (Duration::from_micros(span) / 2).max(SHORTEST));
        let next = interval.map(|_| Instant::now());
        Supervisor { to, interval, is_ready_owed: false, next }
    }

    /// Says that the program is ready: from now on others find what it offers. [`Supervisor::goes_on`]
    /// says it again if the supervisor's queue is full.
    pub fn ready(&mut self) {
        self.is_ready_owed = !self.tell("READY=1");
        if self.is_ready_owed {
            self.next = Some(Instant::now() + AGAIN);
        }
    }

    /// Says that the program begins to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Says that the program goes on, if it is time to. The program's own loop calls this, and no
    /// thread beside it: one that hangs does not say so any more.
    pub fn goes_on(&mut self) {
        if self.next.is_none_or(|next| Instant::now() < next) {
            return;
        }
        self.is_ready_owed = self.is_ready_owed && !self.tell("READY=1");
        let is_told = !self.is_ready_owed && (self.interval.is_none() || self.tell("WATCHDOG=1"));
        let span = if is_told { self.interval } else { Some(AGAIN) };
        self.next = span.map(|span| Instant::now() + span);
    }

    /// Returns when [`Supervisor::goes_on`] is to be called at the latest; `None`: never.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns false if it is to be told again: its queue is full. One that is gone is no reason to
    /// fail or to wait.
    fn tell(&self, text: &str) -> bool {
        let Some((socket, address)) = &self.to else { return true };
        let told = socket.send_to_addr(text.as_bytes(), address);
        !told.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Returns a socket, and the address of that name; `@` begins one that no file has.
fn connect(name: OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes().split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A supervisor's socket without a file, and the program's side of it.
    fn socket(name: &str, more: &[(&str, &str)]) -> (UnixDatagram, Supervisor) {
        let name = format!("outlive-supervisor-{name}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("short");
        let socket = UnixDatagram::bind_addr(&address).expect("not there yet");
        socket.set_nonblocking(true).expect("a socket");
        let own = Supervisor::of(|variable| match variable {
            "NOTIFY_SOCKET" => Some(format!("@{name}").into()),
            _ => more.iter().find(|(name, _)| *name == variable).map(|(_, value)| value.into()),
        });
        (socket, own)
    }

    fn said(socket: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 100];
        let length = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// Fills its queue, and returns how many it takes.
    fn fill(own: &Supervisor) -> usize {
        (0..100_000).take_while(|_| own.tell("x")).count()
    }

    fn empty(socket: &UnixDatagram, count: usize) {
        (0..count).for_each(|_| assert_eq!(said(socket).as_deref(), Some("x")));
    }

    #[test]
    fn what_a_full_queue_did_not_take_is_said_again() {
        for watchdog in [&[][..], &[("WATCHDOG_USEC", "7200000000")]] {
            let (socket, mut own) = socket("full", watchdog);
            let count = fill(&own);
            own.ready();
            // Time to say it again, and the queue is still full.
            std::thread::sleep(AGAIN);
            own.goes_on();
            empty(&socket, count);
            assert_eq!(said(&socket), None);
            std::thread::sleep(AGAIN);
            own.goes_on();
            assert_eq!(said(&socket).as_deref(), Some("READY=1"));
            let alive = said(&socket);
            assert_eq!(alive.as_deref(), (!watchdog.is_empty()).then_some("WATCHDOG=1"));
            assert_eq!(own.next().is_some(), !watchdog.is_empty());
            assert!(own.next().is_none_or(|next| next > Instant::now() + Duration::from_secs(60)));
        }
    }

    #[test]
    fn a_watchdog_that_was_not_told_is_told_soon() {
        let (socket, mut own) = socket("alive", &[("WATCHDOG_USEC", "7200000000")]);
        own.ready();
        assert_eq!(said(&socket).as_deref(), Some("READY=1"));
        let count = fill(&own);
        own.goes_on();
        assert!(own.next().is_some_and(|next| next <= Instant::now() + AGAIN));
        empty(&socket, count);
        std::thread::sleep(AGAIN);
        own.goes_on();
        assert_eq!(said(&socket).as_deref(), Some("WATCHDOG=1"));
    }

    #[test]
    fn an_environment_of_another_process_or_without_sense_asks_for_nothing() {
        let own = std::process::id().to_string();
        for (pid, span, is_meant) in [
            (&own[..], "1000000", true),
            ("1", "1000000", false),
            ("me", "1000000", false),
            ("", "1000000", false),
            (&own, "0", false),
            (&own, "-1", false),
            (&own, "often", false),
        ] {
            let variables = [("WATCHDOG_PID", pid), ("WATCHDOG_USEC", span)];
            let (_socket, supervisor) = socket("sense", &variables);
            assert_eq!(supervisor.next().is_some(), is_meant, "{pid} {span}");
        }
        // The shortest that can be asked for leaves time for the work.
        let (socket, mut own) = socket("often", &[("WATCHDOG_USEC", "1")]);
        own.goes_on();
        assert_eq!(said(&socket).as_deref(), Some("WATCHDOG=1"));
        assert_eq!(own.interval, Some(SHORTEST));
    }
}
