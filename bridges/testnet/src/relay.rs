//! A TCP relay in the test's own process.
//!
//! Within TCP nothing is reordered, lost or doubled: what a relay can do to a connection is to make it
//! slow, silent, or to end it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::free_port;

/// Forwards connections from one address to another.
///
/// Its sockets are made in the network namespace of the thread that made it
/// ([`Host::within`](crate::Host::within)).
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// To the server, to the client.
    delays: [Duration; 2],
    /// Nothing is forwarded.
    silent: bool,
    /// New connections are refused.
    refusing: bool,
    over: bool,
    listener: Option<TcpListener>,
    /// Both ends of each connection; `None`: it has ended.
    connections: Vec<Option<[TcpStream; 2]>>,
    accepted: u64,
}

impl Relay {
    /// Forwards from a free port of 127.0.0.1.
    ///
    /// # Panics
    /// If the port is taken meanwhile.
    pub fn to(server: SocketAddr) -> Relay {
        let here = SocketAddr::from(([127, 0, 0, 1], free_port()));
        Relay::between(here, server).unwrap_or_else(|error| panic!("{here}: {error}"))
    }

    /// Forwards from an address.
    ///
    /// # Errors
    /// The address is taken, or none of this machine.
    pub fn between(from: SocketAddr, to: SocketAddr) -> io::Result<Relay> {
        let listener = TcpListener::bind(from)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                delays: [Duration::ZERO; 2],
                silent: false,
                refusing: false,
                over: false,
                listener: Some(listener.try_clone()?),
                connections: Vec::new(),
                accepted: 0,
            }),
            changed: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        let acceptor = thread::spawn(move || accept(&of_thread, listener, address, to));
        Ok(Relay { address, shared, acceptor: Some(acceptor) })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns how many connections it has accepted.
    pub fn accepted(&self) -> u64 {
        self.shared.lock().accepted
    }

    /// From now on bytes arrive so much later: at the server, and at the client.
    pub fn delay(&self, to_server: Duration, to_client: Duration) {
        self.shared.lock().delays = [to_server, to_client];
    }

    /// Ends all connections. New ones are accepted, unless they are refused.
    pub fn cut(&self) {
        self.shared.lock().cut();
    }

    /// Refuses new connections. Those that exist go on.
    pub fn refuse(&self) {
        let mut state = self.shared.lock();
        state.refusing = true;
        state.stop_listening();
    }

    /// Accepts new connections again, and waits until it does.
    pub fn accept(&self) {
        let mut state = self.shared.lock();
        state.refusing = false;
        self.shared.changed.notify_all();
        while state.listener.is_none() {
            state = self.shared.wait(state);
        }
    }

    /// Stops forwarding: a black hole. Connections are accepted and stay, and no byte arrives.
    pub fn silence(&self) {
        self.shared.lock().silent = true;
    }

    /// Forwards again, also what came meanwhile.
    pub fn go_on(&self) {
        self.shared.lock().silent = false;
        self.shared.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.over = true;
        state.stop_listening();
        state.cut();
        drop(state);
        self.shared.changed.notify_all();
        if let Some(acceptor) = self.acceptor.take() {
            // A panic there was printed there.
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while nothing is forwarded.
    fn wait_forwarding(&self) {
        let mut state = self.lock();
        while state.silent && !state.over {
            state = self.wait(state);
        }
    }
}

impl State {
    fn cut(&mut self) {
        for ends in self.connections.iter().flatten() {
            for end in ends {
                // The other side may have ended it already.
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }

    /// Makes the acceptor's `accept` return; it then drops the listener.
    fn stop_listening(&mut self) {
        if let Some(listener) = self.listener.take() {
            // SAFETY: the descriptor is open, `listener` is dropped behind this.
            unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: TcpListener, address: SocketAddr, to: SocketAddr) {
    let mut listener = Some(listener);
    loop {
        let accepted = listener.as_ref().map(TcpListener::accept);
        if let Some(Ok((client, _))) = accepted {
            let shared = Arc::clone(shared);
            thread::spawn(move || forward(&shared, client, to));
            continue;
        }
        // Its `accept` was ended: connections are refused from now on.
        listener = None;
        let mut state = shared.lock();
        while state.refusing && !state.over {
            state = shared.wait(state);
        }
        if state.over {
            return;
        }
        if let Ok(new) = TcpListener::bind(address)
            && let Ok(clone) = new.try_clone()
        {
            state.listener = Some(clone);
            listener = Some(new);
            shared.changed.notify_all();
        } else {
            drop(state);
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn forward(shared: &Arc<Shared>, client: TcpStream, to: SocketAddr) {
    shared.lock().accepted += 1;
    shared.wait_forwarding();
    // A server that refuses is a connection that ends.
    let Ok(server) = TcpStream::connect_timeout(&to, Duration::from_secs(5)) else { return };
    let both = [&client, &server];
    for end in both {
        // Small messages must not wait for each other.
        let _ = end.set_nodelay(true);
    }
    let ([Ok(a), Ok(b)], [Ok(c), Ok(d)]) =
        (both.map(TcpStream::try_clone), both.map(TcpStream::try_clone))
    else {
        return;
    };
    let number = {
        let mut state = shared.lock();
        if state.over {
            return;
        }
        state.connections.push(Some([a, b]));
        state.connections.len() - 1
    };
    let back = {
        let shared = Arc::clone(shared);
        thread::spawn(move || pump(&shared, server, c, 1))
    };
    pump(shared, client, d, 0);
    // A panic there was printed there.
    let _ = back.join();
    shared.lock().connections[number] = None;
}

/// Carries one direction until it ends.
fn pump(shared: &Arc<Shared>, mut from: TcpStream, mut to: TcpStream, direction: usize) {
    let (chunks, coming) = mpsc::sync_channel::<(Instant, Vec<u8>)>(64);
    let writer = {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            for (due, chunk) in coming {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                shared.wait_forwarding();
                if to.write_all(&chunk).is_err() {
                    break;
                }
            }
            // An end passes as what came before it does, and only this way.
            let _ = to.shutdown(Shutdown::Write);
        })
    };
    let mut buffer = vec![0; 64 * 1024];
    loop {
        shared.wait_forwarding();
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => {
                let due = Instant::now() + shared.lock().delays[direction];
                if chunks.send((due, buffer[..read].to_vec())).is_err() {
                    // The other side takes no more: the sender is told.
                    let _ = from.shutdown(Shutdown::Both);
                    break;
                }
            }
        }
    }
    drop(chunks);
    // A panic there was printed there.
    let _ = writer.join();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends everything back.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("free");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut reader = stream.try_clone().expect("a descriptor");
                    // The client ends it.
                    let _ = io::copy(&mut reader, &mut &stream);
                    let _ = stream.shutdown(Shutdown::Write);
                });
            }
        });
        address
    }

    fn connect(relay: &Relay) -> TcpStream {
        let stream = TcpStream::connect(relay.address()).expect("accepts");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        stream
    }

    fn ask(mut stream: &TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(text)?;
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }

    #[test]
    fn what_is_sent_arrives_and_so_does_an_end() {
        let relay = Relay::to(echo());
        let stream = connect(&relay);
        let large: Vec<u8> = (0..3_000_000u32).map(|byte| byte as u8).collect();
        let mut writer = stream.try_clone().expect("a descriptor");
        let sent = large.clone();
        let sending = thread::spawn(move || {
            writer.write_all(&sent).expect("is taken");
            writer.shutdown(Shutdown::Write).expect("is open");
        });
        let mut back = Vec::new();
        (&stream).read_to_end(&mut back).expect("is read");
        sending.join().expect("no panic");
        assert!(back == large);
    }

    #[test]
    fn a_delay_delays_each_way() {
        let relay = Relay::to(echo());
        let stream = connect(&relay);
        relay.delay(Duration::from_millis(100), Duration::from_millis(50));
        let begun = Instant::now();
        assert_eq!(ask(&stream, b"x").expect("is answered"), b"x");
        assert!(begun.elapsed() >= Duration::from_millis(150));
    }

    #[test]
    fn a_cut_ends_what_is_there_and_a_refusal_what_comes() {
        let relay = Relay::to(echo());
        let (first, second) = (connect(&relay), connect(&relay));
        ask(&first, b"x").expect("is answered");
        ask(&second, b"x").expect("is answered");
        relay.cut();
        ask(&first, b"x").expect_err("it was cut");
        ask(&second, b"x").expect_err("it was cut");
        let third = connect(&relay);
        ask(&third, b"x").expect("new ones are accepted");
        relay.refuse();
        // The listener is closed by its thread.
        let refused = || TcpStream::connect(relay.address()).and_then(|new| ask(&new, b"x"));
        assert!(crate::eventually(Duration::from_secs(60), || refused().is_err()));
        ask(&third, b"x").expect("those that exist go on");
        relay.accept();
        ask(&connect(&relay), b"x").expect("is accepted again");
    }

    #[test]
    fn a_black_hole_keeps_everything() {
        let relay = Relay::to(echo());
        let stream = connect(&relay);
        ask(&stream, b"x").expect("is answered");
        relay.silence();
        stream.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
        let error = ask(&stream, b"y").expect_err("nothing comes");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        relay.go_on();
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        let mut byte = [0];
        (&stream).read_exact(&mut byte).expect("it comes now");
        assert_eq!(&byte, b"y");
    }
}
