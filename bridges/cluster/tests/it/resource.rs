//! What a lock guards: a server that refuses smaller fences than it has seen, and notes who was there
//! when.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use outlive_testnet::{Host, eventually};

use crate::world::SOON;

/// One holder's visits.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    pub fence: u64,
    pub first: Instant,
    pub last: Instant,
    /// How often it was refused.
    pub refused: u32,
}

#[derive(Clone)]
pub struct Resource {
    pub address: SocketAddr,
    visits: Arc<Mutex<Vec<Visit>>>,
}

impl Resource {
    pub fn new() -> Resource {
        Resource::listen(TcpListener::bind("127.0.0.1:0").expect("free"))
    }

    pub fn at(host: &Host) -> Resource {
        host.within(|| Resource::listen(TcpListener::bind(host.address(0)).expect("free")))
    }

    fn listen(listener: TcpListener) -> Resource {
        let address = listener.local_addr().expect("bound");
        let visits = Arc::new(Mutex::new(Vec::new()));
        let resource = Resource { address, visits };
        let of_thread = resource.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let resource = of_thread.clone();
                thread::spawn(move || resource.serve(&stream));
            }
        });
        resource
    }

    fn serve(&self, stream: &TcpStream) {
        for line in BufReader::new(stream).lines() {
            let Ok(Ok(fence)) = line.map(|line| line.parse()) else { return };
            let answer = if self.visit(fence) { "ok\n" } else { "old\n" };
            let mut stream = stream;
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn visit(&self, fence: u64) -> bool {
        let now = Instant::now();
        let mut visits = self.visits.lock().expect("no panic");
        let highest = visits.iter().map(|visit| visit.fence).max().unwrap_or(0);
        if !visits.iter().any(|visit| visit.fence == fence) {
            visits.push(Visit { fence, first: now, last: now, refused: 0 });
        }
        let visit = visits.iter_mut().find(|visit| visit.fence == fence).expect("is there");
        visit.last = now;
        visit.refused += u32::from(fence < highest);
        fence >= highest
    }

    /// Returns all holders in the order in which they came.
    pub fn visits(&self) -> Vec<Visit> {
        self.visits.lock().expect("no panic").clone()
    }

    /// Waits until so many holders have been there, and returns the last one's fence.
    pub fn wait_for(&self, count: usize) -> u64 {
        assert!(eventually(SOON, || self.visits().len() >= count), "{:?}", self.visits());
        self.visits()[count - 1].fence
    }

    /// Waits until a holder is there again, after now.
    pub fn wait_again(&self, fence: u64) {
        let now = Instant::now();
        let again = || self.visits().iter().any(|visit| visit.fence == fence && visit.last > now);
        assert!(eventually(SOON, again), "{fence} does not come any more: {:?}", self.visits());
    }

    /// No holder was there while another one was, and none was refused: each came behind the end of the
    /// one before, with a larger fence.
    pub fn assert_one_at_a_time(&self) {
        let visits = self.visits();
        for pair in visits.windows(2) {
            assert!(pair[0].fence < pair[1].fence, "{visits:?}");
            assert!(pair[0].last < pair[1].first, "{visits:?}");
        }
        assert!(visits.iter().all(|visit| visit.refused == 0), "{visits:?}");
    }

    /// Returns how many were there at once, at most.
    pub fn most_at_once(&self) -> usize {
        let visits = self.visits();
        let at = |moment| {
            visits.iter().filter(|visit| visit.first <= moment && moment <= visit.last).count()
        };
        visits.iter().map(|visit| at(visit.first)).max().unwrap_or(0)
    }
}

/// The command: visits the resource until it is killed, or `VISITS` times.
#[test]
#[ignore = "it is the command of the other tests"]
fn worker() {
    let (Ok(address), Ok(fence)) = (std::env::var("RESOURCE"), std::env::var("OUTLIVE_FENCE"))
    else {
        return;
    };
    let visits =
        std::env::var("VISITS").map_or(u32::MAX, |visits| visits.parse().expect("a number"));
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("set");
    let mut answers = BufReader::new(stream.try_clone().expect("a descriptor"));
    for _ in 0..visits {
        writeln!(stream, "{fence}").expect("is sent");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("is answered");
        thread::sleep(Duration::from_millis(10));
    }
}
