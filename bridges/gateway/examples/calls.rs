//! Calls through two gateways, counted: doc/performance.md.
//!
//! `calls DOMAIN SERVICE CLIENTS SECONDS` makes calls from so many threads, and prints how many there were in a
//! second. `calls DOMAIN SERVICE open COUNT` begins so many that are not answered, prints how many the stand-in
//! has taken, and holds them until its input ends.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive::rpc::{Client, Service};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn client(service: &Service) -> Result<Arc<Client>> {
    let client = service.client()?;
    client.wait_for_server()?;
    Ok(Arc::new(client))
}

/// Makes calls until then; returns how many.
fn call_until(client: &Client, end: Instant) -> u64 {
    let mut count = 0;
    while Instant::now() < end {
        match client.call(b"echo 12345678") {
            Ok(_) => count += 1,
            Err(error) => eprintln!("calls: {error}"),
        }
    }
    count
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [domain, service, what, count] = &args[..] else {
        return Err("usage: calls DOMAIN SERVICE CLIENTS SECONDS, or open COUNT".into());
    };
    let service = Service::open_as_bytes(&Domain::open_at(domain)?, service)?;
    let count: u64 = count.parse()?;
    if what == "open" {
        let client = client(&service)?;
        let calls = (0..count).map(|_| client.begin(b"hang silently"));
        let calls = calls.collect::<std::result::Result<Vec<_>, _>>()?;
        thread::sleep(Duration::from_secs(2));
        println!("{} taken", calls.iter().filter(|call| call.is_begun()).count());
        std::io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    let clients: u64 = what.parse()?;
    let all = AtomicU64::new(0);
    let clients = (0..clients).map(|_| client(&service)).collect::<Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let end = Instant::now() + Duration::from_secs(count);
        for client in &clients {
            let all = &all;
            scope.spawn(move || all.fetch_add(call_until(client, end), Ordering::Relaxed));
        }
    });
    println!("{} calls a second", all.load(Ordering::Relaxed) / count);
    Ok(())
}
