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

/// The supervisor that started this program, if one did.
pub struct Supervisor {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that the program goes on.
    interval: Option<Duration>,
    /// When it is told next.
    next: Option<Instant>,
}

impl Supervisor {
    /// Finds it in the environment: `NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`. What cannot be
    /// used is left alone: a program does not fail for it.
    pub fn of_environment() -> Supervisor {
        let to = std::env::var_os("NOTIFY_SOCKET").and_then(|name| connect(name).ok());
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
        let is_meant =
            number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        // Twice as often as it must be, as the manual advises.
        let interval = number("WATCHDOG_USEC")
            .filter(|&span: &u64| is_meant && to.is_some() && span > 0)
            .map(|span| Duration::from_micros(span) / 2);
        Supervisor { to, interval, next: interval.map(|_| Instant::now()) }
    }

    /// Says that the program is ready: from now on others find what it offers.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// Says that the program begins to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Says that the program goes on, if it is time to. The program's own loop calls this, and no
    /// thread beside it: one that hangs does not say so any more.
    pub fn goes_on(&mut self) {
        if let (Some(interval), Some(next)) = (self.interval, self.next)
            && Instant::now() >= next
        {
            self.tell("WATCHDOG=1");
            self.next = Some(Instant::now() + interval);
        }
    }

    /// Returns when [`Supervisor::goes_on`] is to be called at the latest; `None`: never.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    fn tell(&self, text: &str) {
        if let Some((socket, address)) = &self.to {
            // A supervisor that is gone, or does not read, is no reason to fail or to wait.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
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
