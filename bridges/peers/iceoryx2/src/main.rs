//! iceoryx2 and its tunnel over zenoh: what `figures` (bridges/gateway/examples) measures the gateway beside.
//!
//! `peer-iceoryx2 tunnel HOST listen|connect ENDPOINT`, `put HOST BYTES`, `get HOST BYTES`. HOST is the
//! prefix of all files, so two of them are two machines. The tunnel has no way to be woken: it is polled, by
//! this program without a pause, and so are subscribers. That is the best that it can do for latency, and costs
//! a core for each.

use std::thread;
use std::time::{Duration, Instant};

use iceoryx2::config::Config;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::prelude::*;
use iceoryx2_tunnel::Tunnel;
use iceoryx2_tunnel_zenoh::ZenohBackend;
use rustix::time::{ClockId, clock_gettime};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

// As in figures.rs.
const LARGE: usize = 6_000_000;
const PAUSE: Duration = Duration::from_millis(1);
const SAMPLES: usize = 1500;
const WARM: usize = 200;
const SPAN: Duration = Duration::from_secs(3);
/// How often the tunnel looks for services.
const DISCOVERY: Duration = Duration::from_millis(100);
/// After so long without a message the measurement has failed.
const LONG: Duration = Duration::from_secs(20);

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() -> Result<()> {
    set_log_level(LogLevel::Error);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["tunnel", host, mode, endpoint] => tunnel(host, mode, endpoint),
        ["put", host, len] => put(host, len.parse()?),
        ["get", host, len] => get(host, len.parse()?),
        _ => Err("usage: peer-iceoryx2 tunnel HOST listen|connect ENDPOINT | put HOST BYTES | get HOST BYTES".into()),
    }
}

fn config(host: &str) -> Result<Config> {
    let mut config = Config::default();
    config.global.prefix = FileName::new(host.as_bytes()).map_err(|_| "no prefix")?;
    Ok(config)
}

fn tunnel(host: &str, mode: &str, endpoint: &str) -> Result<()> {
    let mut zenoh = zenoh::Config::default();
    let (place, other) =
        if mode == "listen" { ("listen", "connect") } else { ("connect", "listen") };
    for (key, value) in [
        ("mode", "\"peer\"".to_owned()),
        (&*format!("{place}/endpoints"), format!("[\"{endpoint}\"]")),
        (&*format!("{other}/endpoints"), "[]".to_owned()),
        ("scouting/multicast/enabled", "false".to_owned()),
        ("transport/link/tx/lease", "1000".to_owned()),
    ] {
        zenoh.insert_json5(key, &value).map_err(|error| format!("{key}: {error}"))?;
    }
    let options = iceoryx2_tunnel::Config { discovery_service: None };
    let mut tunnel = Tunnel::<ipc::Service, ZenohBackend<ipc::Service>>::create(
        &options,
        &config(host)?,
        &zenoh,
    )
    .map_err(|error| format!("{error:?}"))?;
    let mut looked = None::<Instant>;
    loop {
        if looked.is_none_or(|looked| looked.elapsed() >= DISCOVERY) {
            // A service that is half made is found at the next look.
            let _ = tunnel.discover();
            looked = Some(Instant::now());
        }
        // What it cannot carry it leaves out, as the program of iceoryx2 does.
        let _ = tunnel.propagate();
        thread::yield_now();
    }
}

fn node(host: &str) -> Result<Node<ipc::Service>> {
    Ok(NodeBuilder::new().config(&config(host)?).create::<ipc::Service>()?)
}

macro_rules! service {
    ($node:expr, $len:expr) => {
        $node
            .service_builder(&format!("figures/{}", $len).as_str().try_into()?)
            .publish_subscribe::<[u8]>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(if $len == LARGE { 4 } else { 64 })
            .open_or_create()?
    };
}

fn put(host: &str, len: usize) -> Result<()> {
    let node = node(host)?;
    let publisher: Publisher<ipc::Service, [u8], ()> = service!(node, len)
        .publisher_builder()
        .initial_max_slice_len(len)
        .unable_to_deliver_strategy(UnableToDeliverStrategy::Block)
        .create()?;
    loop {
        let loan = publisher.loan_slice_uninit(len)?;
        // SAFETY: bytes need not be written to be of their type; shared memory has been mapped.
        let mut loan = unsafe { loan.assume_init() };
        loan.payload_mut()[..8].copy_from_slice(&now().to_le_bytes());
        loan.send()?;
        if len != LARGE {
            thread::sleep(PAUSE);
        }
    }
}

fn get(host: &str, len: usize) -> Result<()> {
    let node = node(host)?;
    let subscriber = service!(node, len).subscriber_builder().create()?;
    let (mut times, mut skipped, mut begun, mut large) = (Vec::new(), 0, None, 0_usize);
    let mut last = Instant::now();
    loop {
        let Some(sample) = subscriber.receive()? else {
            if last.elapsed() > LONG {
                return Err("no message comes".into());
            }
            thread::yield_now();
            continue;
        };
        last = Instant::now();
        let took = now().saturating_sub(u64::from_le_bytes(sample.payload()[..8].try_into()?));
        drop(sample);
        if len == LARGE {
            let begun = *begun.get_or_insert_with(Instant::now);
            large += 1;
            if begun.elapsed() >= SPAN {
                println!("{}", (large - 1) as f64 / begun.elapsed().as_secs_f64());
                return Ok(());
            }
            continue;
        }
        if skipped < WARM {
            skipped += 1;
            continue;
        }
        times.push(took);
        if times.len() == SAMPLES {
            times.sort_unstable();
            println!("{}", times[SAMPLES / 2] as f64 / 1000.0);
            return Ok(());
        }
    }
}
