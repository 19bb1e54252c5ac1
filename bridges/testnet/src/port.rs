//! Ports for servers of tests.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::{fs, process};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};

/// Ports that this process was given. Each is kept from other test runs by a name among the abstract
/// sockets, which the kernel frees with the process.
static KEPT: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Returns a port of 127.0.0.1 on which nothing listens, and that no other test is given while this
/// process lives.
///
/// It is not one of those that the kernel gives to clients: a client that tries again and again to
/// reach a killed server there can be given the server's port, and connects to itself.
///
/// # Panics
/// If all are taken.
pub fn free_port() -> u16 {
    let first_of_clients = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_ascii_whitespace().next()?.parse::<u16>().ok())
        .unwrap_or(32768);
    let (lowest, end) = if first_of_clients > 14000 {
        (10000, first_of_clients.min(32768))
    } else {
        (20000, 32768)
    };
    let count = u32::from(end - lowest);
    // Runs begin at different ones, so that they seldom meet.
    let begin = process::id().wrapping_mul(977) % count;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    for step in 0..count {
        let port = lowest + ((begin + step) % count) as u16;
        let Some(reserved) = reserve(port) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            kept.push(reserved);
            return port;
        }
    }
    panic!("no port is free");
}

fn reserve(port: u16) -> Option<OwnedFd> {
    let name = SocketAddrUnix::new_abstract_name(format!("outlive-test-port-{port}").as_bytes());
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None).ok()?;
    bind(&socket, &name.ok()?).ok()?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_given_once() {
        let mut ports: Vec<u16> = (0..50).map(|_| free_port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50);
        assert!(reserve(ports[0]).is_none(), "another process would not get it");
    }
}
